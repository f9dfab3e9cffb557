"""Prints each line that the writing rules of CONTRIBUTING.md forbid. The exit status is 1 if there is one.

    prose.py            of all files
    prose.py FILE...    of these files

The kinds are `wide`, lines over the width; `long`, sentences over 25 words; `words`, phrases that hide the actor
or are not standard English; `messages`, such phrases in messages.
Code, tables of figures and URLs are not prose and are skipped.
"""

import ast
import glob
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORDS_MAX = 25
HASHED = (*".conf .service .socket .timer .crontab .logrotate .yml .yaml .mk .awk .postinst .postrm".split(), "")
WIDTHS = {".sql": 100, ".md": 100, ".conf": 100}
WIDTHS |= dict.fromkeys((".c", ".h", ".py", ".pm", ".pl", ".js", ".ts", ".php", ".css", ".awk"), 120)
PROGRAMS = ("lib/languages", "docs/examples")
SOURCES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    "SECURITY.md",
    "docs/**/*.md",
    "tests/bench/README.md",
    "lib/*.[1-8]",
    "docs/man/*.[1-8]",
    "bin/*/*.[1-8]",
    "Makefile",
    "cron/*",
    "cron/debian/*",
    "cron/container/**",
    "tests/*.mk",
    "tests/bench/*.mk",
    "lib/**/*.[ch]",
    "bin/**/*.[ch]",
    "sql/**/*.sql",
    "bin/*.awk",
    "sql/*.awk",
    *(f"{folder}/*{kind}" for folder in ("bin/*/assets", "docs/site") for kind in (".css", ".js")),
    "tests/**/*.py",
    "tests/programs/README.md",
    *(f"{folder}/**/*{kind}" for folder in PROGRAMS for kind in (".md", ".py", ".pm", ".pl", ".js", ".ts", ".php")),
)

PHRASES = re.compile(
    r"""
    \b(?:is|are|was|were|be|been)\ told\b | (?<!-)\banew\b | \bfor\ want\ of\b
  | \bpass(?:es|ed)?\ over\b | ,\ but\ for\b
  | \bbeside\b | \bso\ many\b | \bmend(?:s|ed)?\b | ^(?:Who|What|Whoever|Whichever)\ [a-z]+(?![^?]*\?) | ^Counted\ are\b
  | ;\ (?:who|what)\ [a-z]+s\b
""",
    re.X,
)
# In messages: "is not a number", never "is no number"; values in single quotes; a remedy behind "hint: ".
MESSAGE_PHRASES = re.compile(
    r"""(?<![Tt]here\ )\b(?:is|are)\ no\ [a-z]+
      | (?:argument|file|function|option|queue|rule|schedule|setting|value)\ \\?"% | %L
      | \bTry\ \\?["'] | \b(?:is|are)\ wanted\b
      | ^(?:unknown|unexpected)\ [a-z]+\ \\?["%] | \bhas\ too\b | \b1\ (?:jobs|attempts|rows)\b""",
    re.X,
)


def sentences(text):
    """The sentences of one paragraph, with code spans as one word each."""
    text = re.sub(
        r"`[^`]*`", "CODE", re.sub(r"(?<=[.!?])\n|\s+", lambda m: " \v" if m[0] == "\n" else " ", text)
    ).strip()
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\b(e\.g|i\.e|etc|vs|cf)\.", r"\1", text)
    return [
        s
        for s in re.split(r"""(?<=[.!?])["')\]*]*\s+(?=["'(\[*]*[A-Z0-9]|\v|(?:check_)?deferred )""", text)
        if s.strip()
    ]


def markdown(lines):
    """Yields (line number, paragraph): text, list items and cells of tables, without code."""
    fenced, start, part = False, 0, []
    for number, line in [*enumerate(lines, 1), (0, "")]:
        if line.lstrip().startswith("```"):
            fenced = not fenced
            line = ""
        elif fenced or line.startswith(("    ", "\t")) and not part or line.startswith("<"):
            continue
        item = re.match(r"\s*(?:[-*+]|\d+\.|#+|>)\s+", line)
        if part and (item or not line.strip() or line.startswith("|")):
            yield start, " ".join(part)
            part = []
        if line.startswith("|"):
            yield from ((number, cell) for cell in line.strip("|").split("|") if not re.fullmatch(r"[\s:-]*", cell))
        elif line.strip():
            start = start if part else number
            part.append(line[item.end() :] if item else line)


MACROS = set(
    """Ad An Ao Ap Aq Ar Bc Bo Bq Bsx Cd Cm Dc Do Dq Dv Em Er Ev Fa Fl Fn Ft Ic In Li Lk Ms Mt Nm No Ns Oc Oo
    Op Pa Pc Po Pq Qc Ql Qo Qq Sc So Sq Sy Tn Ux Va Vt Xr""".split()
)


def mdoc_line(line):
    """The words of a line of mdoc(7) as they are read."""
    line = (
        re.sub(r"\\\(dq", '"', re.sub(r"\\&|\\c", "", line))
        .replace("\\-", "-")
        .replace("\\(em", "-")
        .replace("\\e", "\\")
    )
    if not line.startswith("."):
        return line
    words = [w.strip('"') for w in re.findall(r'"[^"]*"|\S+', line[1:])]
    if words and words[0] in ("Ql", "Li"):  # code, one word as in Markdown
        return "CODE" + (f" {words[-1]}" if words[-1] in (".", ",", ";", ":") else "")
    if words and words[0] == "Xr":
        return f"{words[1]}({words[2]})" + "".join(words[3:])
    return " ".join("CODE" if w == "Nm" and len(words) == 1 else w for w in words if w == "Nm" or w not in MACROS)


def mdoc(lines):
    literal, synopsis, start, part = False, False, 0, []
    for number, line in [*enumerate(lines, 1), (0, ".Pp")]:
        macro = line[1:3] if line.startswith(".") else ""
        synopsis = line == ".Sh SYNOPSIS" if macro == "Sh" else synopsis
        if synopsis or literal or macro in ("Dl", "D1", '\\"', "Dd", "Dt", "Os", "In", "Fo", "Fa", "Fc", "Ft"):
            literal = literal and macro != "Ed"
            continue
        if macro in ("Sh", "Ss", "Pp", "It", "Bl", "El", "Bd", "Ed", "Nd", "Rs", "Re"):
            if part:
                yield start, "\n".join(part)  # a sentence of mdoc ends with its line
            part, literal = [], macro == "Bd" and "-literal" in line
            continue
        start = start if part else number
        part.append(mdoc_line(line))


def comments(text, opening):
    """Paragraphs of the comments that begin with `opening`, a pattern, in C or SQL."""
    for found in re.finditer(opening, text):
        start, part = text.count("\n", 0, found.start()) + 1, []
        body = re.sub(r"^/\*+|\*/$", "", found[0]).split("\n")
        for offset, line in enumerate([*body, ""]):
            line = re.sub(r"^\s*(?:\*|--|//) ?", "", line)
            if part and (not line.strip() or re.match(r"\s*(?:[-*] |@\w|\w+(?:, \w+)*  +\S|.*\S {3,}\S)", line)):
                yield start, " ".join(part)
                part = []
            if line.strip() and not line.startswith(("    ", "\t\t")):
                start = start if part else text.count("\n", 0, found.start()) + 1 + offset
                part.append(line.strip())


def hash_comments(text):
    """Paragraphs of comments behind `#`. A comment without a blank, or with an indented text, holds code."""
    start, part = 0, []
    for number, line in [*enumerate(text.split("\n"), 1), (0, "")]:
        found = re.match(r"\s*# ([^ \t].*)", line)
        if part and not found:
            yield start, " ".join(part)
            part = []
        if found:
            start = start if part else number
            part.append(found[1])


def docstrings(text):
    """Paragraphs of the docstrings of Python."""
    for found in ast.walk(ast.parse(text)):
        if isinstance(found, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(found):
            line = found.body[0].lineno - 1
            yield from ((line + n, part) for n, part in comments(ast.get_docstring(found), r"(?s)\A.*\Z"))


def pod(text):
    """Paragraphs of the documentation within Perl, with code spans as one word each."""
    inside, line = False, 1
    for part in text.split("\n\n"):
        inside = part.lstrip().startswith("=") and not part.lstrip().startswith("=cut") or inside
        if inside and not part.lstrip("\n").startswith((" ", "\t", "=")):
            yield line, re.sub(r"[BCFIL](?:<< .*? >>|<[^>]*>)", "CODE", " ".join(part.split()))
        inside = inside and "=cut" not in part
        line += part.count("\n") + 2


# Comments of JavaScript and PHP. What follows "//" in a URL is not one.
SLASHED = re.compile(r"/\*.*?\*/|(?:^|(?<=\s))// [^\n]*(?:\n[ \t]*// [^\n]*)*", re.S | re.M)
C_TOKEN = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)
SQL_TOKEN = re.compile(r"""/\*.*?\*/|(?:^[ \t]*)?--[^\n]*(?:\n[ \t]*--[^\n]*)*|'(?:''|[^'])*'""", re.S | re.M)


RAISE = re.compile(r"raise (?:exception|warning|notice)\b.*?;[ \t]*$", re.S | re.M)


def code(text, token, quote):
    """Yields (line, paragraph, is a message) of comments and of literals that read as sentences."""
    joined, start, end = "", 0, 0
    for found in [*token.finditer(text), None]:
        literal = found and found[0].startswith(quote)
        if joined and not (literal and not text[end : found.start()].strip()):
            if len(re.findall(r"[A-Za-z]{2,}", joined)) >= 4 and not joined.lstrip().startswith(
                ("select", "with ", "delete from ", "<")
            ):
                yield text.count("\n", 0, start) + 1, joined, True
            joined = ""
        if found is None:
            return
        if literal:
            start = start if joined else found.start()
            joined, end = joined + found[0][1:-1].replace("\\n", "\n\n"), found.end()
        elif found[0].startswith(("/*", "//", "--")) or found[0].lstrip().startswith("--"):
            line = text.count("\n", 0, found.start())
            yield from (
                (line + number, part, False) for number, part in comments(found[0], re.compile(r"\A.*\Z", re.S))
            )


def paragraphs(path, text):
    lines, kind = text.split("\n"), os.path.splitext(path)[1]
    if kind == ".md":
        return [(n, p, False) for n, p in markdown(lines)]
    if re.fullmatch(r"\.[1-8]", kind):
        return [(n, p, False) for n, p in mdoc(lines)]
    if kind in (".c", ".h"):
        ours = not path.endswith("/protocol/refusal.c")  # the words of a protocol
        return [(n, p, m and ours and not p.startswith("insert into")) for n, p, m in code(text, C_TOKEN, '"')]
    if kind == ".sql":  # its messages are what it raises, and the lists in its head are not sentences
        lists = r"(?m)^-- (?:params|returns): (?:.*,\n-- +)*.*$"
        text = re.sub(lists, lambda m: "--" + "\n--" * m[0].count("\n"), text)
        raised = {
            text.count("\n", 0, at) + 1 for found in RAISE.finditer(text) for at in range(found.start(), found.end())
        }
        return [(n, p, m and n in raised) for n, p, m in code(text, SQL_TOKEN, "'")]
    found = []
    if kind in (".js", ".ts", ".php"):
        found = comments(text, SLASHED)
    elif kind in HASHED or path.startswith(PROGRAMS):
        found = [*hash_comments(text), *(docstrings(text) if kind == ".py" else pod(text) if kind else ())]
    return [(n, p, False) for n, p in found]


def faults(path):
    """Yields (kind, line, text) of one file."""
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        text = f.read()
    kind = os.path.splitext(path)[1]
    width = WIDTHS.get(kind)
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        fenced ^= path.endswith(".md") and line.lstrip().startswith("```")
        if kind not in WIDTHS and kind in HASHED:  # lines of a crontab or a unit cannot be folded
            width = re.match(r"\s*# [^ \t]", line) and WIDTHS[".md"]
        if (
            width
            and not fenced
            and len(line.expandtabs(8)) > width
            and not (path.endswith(".md") and re.match(r"\||.*https?://|\s*\[?(?:!\[|<img )", line))
        ):
            yield "wide", number, line.strip()[:60]
    for number, paragraph, message in paragraphs(path, text):
        for sentence in sentences(paragraph):
            if len(re.findall(r"[^\s]*[A-Za-z0-9][^\s]*", sentence)) > WORDS_MAX:
                yield "long", number, sentence
            found = PHRASES.search(sentence) or (message and MESSAGE_PHRASES.search(sentence))
            if found:
                yield "messages" if message else "words", number, f"{found[0]!r} in: {sentence}"


def main(paths):
    if not paths:
        paths = sorted(
            path
            for source in SOURCES
            for path in glob.glob(os.path.join(TOP, source), recursive=True)
            if os.path.isfile(path)
        )
    found = 0
    for path in paths:
        path = os.path.relpath(os.path.abspath(path), TOP)
        for kind, line, text in faults(path):
            print(f"{path}:{line}: {kind}: {text}")
            found = 1
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
