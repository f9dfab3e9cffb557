"""What documents show to be typed: the blocks of a Markdown file, the literal blocks of a man page."""

import os
import re
import shlex
import textwrap

import pg


def read(*path):
    with open(os.path.join(pg.TOP, *path), encoding="utf-8") as f:
        return f.read()


def dead_links(folder):
    """Links of the Markdown files below a folder that lead to no file."""
    dead = []
    for place, _, files in os.walk(folder):
        for name in files:
            if name.endswith(".md"):
                with open(os.path.join(place, name), encoding="utf-8") as f:
                    links = re.findall(r"\]\((?!\w+:)([^)#]+)|<img src=\"((?!\w+:)[^\"]+)", f.read())
                dead += [(name, a or b) for a, b in links if not os.path.exists(os.path.join(place, a or b))]
    return dead


def fenced(text):
    """The bodies of the fenced blocks of a Markdown text."""
    return re.findall(r"(?ms)^```\w*\n(.*?)^```$", text)


def section(page, name):
    """From one .Sh to the next."""
    return re.search(rf"(?ms)^\.Sh {name}\n(.*?)(?=^\.Sh |\Z)", page)[1]


def literal(text):
    """Blocks that stand as they are, as they are shown."""
    return [b.replace("\\e", "\\") for b in re.findall(r"(?ms)^\.Bd -literal.*?\n(.*?)^\.Ed", text)]


def typed(block):
    """The commands of a block, those behind `$`, each with the lines shown below it."""
    steps, open_line = [], False
    for line in block.splitlines():
        if steps and not steps[-1][1] and line.startswith("> "):  # as a shell asks for more
            steps[-1][0] += "\n" + line[2:]
            continue
        if open_line:
            steps[-1][0] += "\n" + line
        elif line.startswith("$ "):
            steps.append([line[2:], []])
        else:
            steps[-1][1].append(line)
            continue
        try:
            shlex.split(steps[-1][0])
            open_line = False
        except ValueError:  # a quotation, or a line, that goes on
            open_line = True
    return steps
