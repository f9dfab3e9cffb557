"""Formats C with clang-format and Python with black.

    format.py           format all files of git: `make format`
    format.py --count   print for each folder how many lines would change, and how many would still be too long
    format.py FILE...   format these files

Three things are done here, since clang-format cannot do them. A table whose closing brace has a line of its own gets a
comma after its last row. Each row of a table, and each attribute before a function, keeps its line. What a comment line
has over the width begins the next line.
"""

import collections
import difflib
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WIDTH = 120
END = "//-"


def split_comments(text):
    """A line that is nothing but comment gets at most WIDTH columns. What is over begins the next line."""
    lines, over, start = [], "", ""
    for line in text.split("\n"):
        m = re.match(r"(\s*)(/\*+ | \* |\* )(\s*)(.*)", line)
        indent = m and m[1] + (" * " if m[2].startswith("/") else m[2]) + m[3]
        if over and m and indent == start and re.match(r"[^\W\dA-Z]|[(\"]", m[4]):
            line = start + over + " " + m[4]
        elif over:
            lines.append(start + over)
        over = ""
        if m and len(line.expandtabs(8)) > WIDTH:
            start = indent + ("  " if m[4].startswith("- ") else "")
            words = line.split(" ")
            while len(" ".join(words).expandtabs(8)) > WIDTH and len(words) > 4:
                over = f"{words.pop()} {over}".rstrip()
            line = " ".join(words)
        lines.append(line)
    return "\n".join(lines)


def keep_line(m):
    """A line comment keeps its line. One that has no room for it is too long to be joined with the next one anyway."""
    return f"{m[1]} {END}" if len(f"{m[1]} {END}".expandtabs(8)) <= WIDTH else m[1]


def c(text):
    text = re.sub(r"(?m)^(\t+)(\{.*\})\n(\t*\};?)$", r"\1\2,\n\3", text)
    text = re.sub(r"(?m)^(\t+\{.*\},|__attribute__\(\(.*\)\))$", keep_line, text)
    style = ["clang-format", "--style=file", "--assume-filename=lib/base/any.c"]
    text = subprocess.run(style, input=text, capture_output=True, text=True, check=True, cwd=TOP).stdout
    text = re.sub(rf"(?m) *{END}$", "", text)
    while text != (text := split_comments(text)):
        pass
    return text


def python(text):
    return subprocess.run(
        ["black", "-q", "-l", str(WIDTH), "-S", "-"], input=text, capture_output=True, text=True, check=True
    ).stdout


def main(args):
    count = args == ["--count"]
    files = args if args and not count else None
    files = files or subprocess.run(
        ["git", "-C", TOP, "ls-files", "*.c", "*.h", "*.py"], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    changed, wide = collections.Counter(), collections.Counter()
    for name in filter(None, files):
        path = os.path.join(TOP, name)
        with open(path, encoding="utf-8") as f:
            old = f.read()
        new = python(old) if name.endswith(".py") else c(old)
        folder = os.path.dirname(name)
        wide[folder] += sum(len(line.expandtabs(8)) > WIDTH for line in new.split("\n"))
        if new != old and not count:
            with open(path, "w", encoding="utf-8") as f:
                f.write(new)
        if count:
            lines = difflib.unified_diff(old.split("\n"), new.split("\n"), n=0)
            changed[folder] += sum(line.startswith("-") and not line.startswith("---") for line in lines)
    for folder in sorted(wide):
        if count and (changed[folder] or wide[folder]):
            print(f"{folder:30} {changed[folder]:6} lines change, {wide[folder]:4} stay too long")
    if count:
        print(f"{'all':30} {changed.total():6} lines change, {wide.total():4} stay too long")


if __name__ == "__main__":
    main(sys.argv[1:])
