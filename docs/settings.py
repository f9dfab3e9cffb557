"""Writes the settings of deferred.conf(5) from cron/deferred.conf, which explains each of them.

    settings.py            writes cron/deferred.conf.5
    settings.py --check    exit status 1 if it differs from what would be written
"""

import os
import re
import sys
import textwrap

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONF, PAGE = (os.path.join(TOP, "cron", name) for name in ("deferred.conf", "deferred.conf.5"))
BEGIN, END = '.\\" From here on: cron/deferred.conf, by docs/settings.py\n', '.\\" Up to here\n'


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def mdoc(text):
    """A line for each sentence, and lines of less than 80 bytes, as mdoc(7) wants it."""
    text = re.sub(r"(?<=[.;])\s+(?=[A-Z0-9\"])", lambda m: "\n", re.sub(r"\s+", " ", text)).replace("\\", "\\e")
    # A page of the manual becomes a reference, and stands on a line of its own.
    text = re.sub(
        r"\s*\b([a-z_.-]+)\((\d)\)([.,;]?)\s*", lambda m: f"\n.Xr {m[1]} {m[2]}{' ' + m[3] if m[3] else ''}\n", text
    )
    text = re.sub(r"\n+", "\n", text.strip())
    fold = (
        lambda line: line[0] == "." and line or textwrap.fill(line, 78, break_long_words=False, break_on_hyphens=False)
    )
    return "\n".join(map(fold, text.split("\n"))).replace("\n'", "\n\\&'") + "\n"


def settings(conf):
    """The settings in their order, as a page has them."""
    section, text, out, opened = "", [], "", False
    for line in conf.split("\n"):
        title = re.match(r"# ---- (.*)", line)
        setting = re.match(r"#\t?(\w+) = (.*)", line)
        begins = re.match(r"(\w+) \{", line)
        if title and title[1].startswith("Functions that are programs"):
            break
        if title:
            out += (".El\n" if opened else "") + f".Ss {title[1]}\n.Bl -tag -width Ds\n"
            opened = True
        elif begins:
            section = begins[1] + "."
        elif line == "}":
            section = ""
        elif setting:
            value = setting[2].strip('"')
            out += f".It Ic {section}{setting[1]} = Ar {value or 'text'}\n" + mdoc(" ".join(text))
        text = text + [re.sub(r"^\s*# ?", "", line)] if re.match(r"\s*# ", line) and not title else []
    return out + ".El\n"


def page():
    text = read(PAGE)
    return text[: text.index(BEGIN) + len(BEGIN)] + settings(read(CONF)) + text[text.index(END) :]


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit("usage: settings.py [--check]")
    new = page()
    if sys.argv[1:]:
        sys.exit(
            0 if new == read(PAGE) else "cron/deferred.conf.5 differs from cron/deferred.conf: run docs/settings.py"
        )
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(new)
