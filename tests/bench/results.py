"""RESULTS.md: the table of each scenario, as it was last measured at full size."""

import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "RESULTS.md")
HEAD = """# What was measured

`make bench` writes this file. [README.md](README.md) describes each line. A scenario that a run
leaves out keeps its table and its date. A run with smaller sizes does not write here.
`make bench-web` writes the table `web`; `rules`, `growth` and `peers` are written by hand.
"""
TABLE = "| | measured | ratio | aim | |\n|---|--:|--:|---|---|\n"


def number(value):
    return f"{value:,.{0 if abs(value) >= 100 else 2}f}"


def line(row):
    """A row of Report.rows, in Markdown."""
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
    verdict = {None: "", True: "reached", False: "missed"}[row["reached"]]
    return (
        f"| {row['name'].strip()} | {number(row['value'])} {row['unit']} | {ratio} | {row['aim'] or ''} | {verdict} |\n"
    )


def section(name, title, about, rows):
    m = about["machine"]
    asked = "".join(f"; asked for --{k} {v}" for k, v in about.get("asked", {}).items())
    return (
        f"## {name}: {title}\n\n"
        f"{about['date'][:10]}, medians of {about['rounds']} round(s){asked}. {m['cores']} cores ({m['cpu']}), "
        f"{m['memory_gib']} GiB,"
        f" Linux {m['kernel']}, data on {m['disk']}, a durable write takes {m['fsync_us']} us. PostgreSQL "
        f"{about['postgresql'].split()[0]}"
        f" on the same cores: {', '.join(f'{k} = {v}' for k, v in about['settings'].items())}.\n\n"
        + TABLE
        + "".join(line(row) for row in rows)
    )


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
    return {
        re.match(r"## (\w+)", part)[1]: part.rstrip() + "\n" for part in re.split(r"^(?=## )", text, flags=re.M)[1:]
    }


def record(path, order, name, text):
    """Put this scenario's part in, in place of the one it had. order: the scenarios as they run;
    what is none of them stays, behind them."""
    parts = {**sections(read(path)), name: text}
    write(
        path,
        "\n".join(
            [HEAD] + [parts[n] for n in order if n in parts] + [part for n, part in parts.items() if n not in order]
        ),
    )
