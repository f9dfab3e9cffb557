"""RESULTS.md: the table of each scenario, the last that was measured at full size, and README's lines out of it.

    results.py        writes README's lines anew
"""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "RESULTS.md")
README = os.path.join(os.path.dirname(os.path.dirname(HERE)), "README.md")
HEAD = """# What was measured

Written by `make bench`: what each line means is in [README.md](README.md). A scenario that a run leaves out keeps its table and its
date; a run with smaller sizes writes nothing here. The lines in bold are those that the project's README quotes. What is no scenario
of it, stays: `web` is put in by `make bench-web` at full sizes, `rules`, `growth` and `peers` were by hand.
"""
TABLE = "| | measured | ratio | aim | |\n|---|--:|--:|---|---|\n"
BEGIN, END = "<!-- from tests/bench/RESULTS.md -->\n", "<!-- end of what is from there -->\n"


def number(value):
    return f"{value:,.{0 if abs(value) >= 100 else 2}f}"


def line(scenario, row):
    """A row of Report.rows, in Markdown."""
    name = f"**{scenario}: {row['name']}**" if row["quote"] else row["name"].strip()
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
    verdict = {None: "", True: "reached", False: "missed"}[row["reached"]]
    return f"| {name} | {number(row['value'])} {row['unit']} | {ratio} | {row['aim'] or ''} | {verdict} |\n"


def section(name, title, about, rows):
    m = about["machine"]
    asked = "".join(f"; asked for --{k} {v}" for k, v in about.get("asked", {}).items())
    return (f"## {name}: {title}\n\n"
            f"{about['date'][:10]}, medians of {about['rounds']} round(s){asked}. {m['cores']} cores ({m['cpu']}), {m['memory_gib']} GiB,"
            f" Linux {m['kernel']}, data on {m['disk']}, a durable write takes {m['fsync_us']} us. PostgreSQL {about['postgresql'].split()[0]}"
            f" on the same cores: {', '.join(f'{k} = {v}' for k, v in about['settings'].items())}.\n\n"
            + TABLE + "".join(line(name, row) for row in rows))


def read(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def write(path, text):
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path + ".new", path)


def sections(text):
    """{scenario: its part of the file}"""
    return {re.match(r"## (\w+)", part)[1]: part.rstrip() + "\n" for part in re.split(r"^(?=## )", text, flags=re.M)[1:]}


def record(path, order, name, text):
    """Put this scenario's part in, in place of the one it had. order: the scenarios as they run; what is none of them stays, behind them."""
    parts = {**sections(read(path)), name: text}
    write(path, "\n".join([HEAD] + [parts[n] for n in order if n in parts] + [part for n, part in parts.items() if n not in order]))


def quoted(text):
    return [part for part in text.splitlines(keepends=True) if part.startswith("| **")]


def block(text):
    """What README quotes of it, between its two marks."""
    lines = quoted(text)
    if not lines:
        return "Nothing has been measured on this version yet.\n"
    return "Out of it:\n\n" + TABLE + "".join(part.replace("**", "") for part in lines) + "\n"


def quote(results=RESULTS, readme=README):
    text = read(readme)
    before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
    new = text[:before] + block(read(results)) + text[after:]
    if new != text:
        write(readme, new)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit("usage: results.py")
    quote()
