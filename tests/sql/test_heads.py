"""Each query says in its head what it takes and returns, and C is made from that: it must be what the server says."""

import glob
import os
import re
import subprocess

import pg

# As the server calls them, where that is not as in the heads.
NAMES = {
    "bigint": "int8",
    "integer": "int4",
    "boolean": "bool",
    "double precision": "float8",
    "timestamp with time zone": "timestamptz",
}


def declared(name, label):
    """The list in the head of a query: [(name, type)], "nothing" or "ignored". What may be NULL is left out."""
    (listed,) = re.findall(rf"(?m)^-- {label}: ((?:.*,\n-- +)*.*)$", pg.source(name))
    listed = re.sub(r"\n-- +", " ", listed)
    if listed in ("none", "nothing", "ignored"):
        return [] if listed == "none" else listed
    other, found = re.match(r"as (\w+)(?:, )?", listed), []
    if other:
        found, listed = declared(other[1], label), listed[other.end() :]
    return found + [tuple(item.rstrip("?").split(" ")) for item in listed.split(", ") if item]


def described(db, names):
    """Of each query the types of its parameters, and its columns as declared() has them, or "nothing"."""
    script = []
    for name in names:
        text = re.sub(r"\A(--.*\n|\n)*", "", pg.source(name)).rstrip()
        script.append(f"\\echo @@{name}\n{text} \\gdesc\n\\echo @params")
        if not text.startswith(("listen", "do ", "set ")):
            script.append(f"prepare said as {text};")
            script.append("select parameter_types from pg_prepared_statements where name = 'said'; deallocate said;")
    done = subprocess.run(
        [os.path.join(pg.bindir(), "psql"), "-XAtq", "-F|", "-v", "ON_ERROR_STOP=1", db.conninfo],
        input="\n".join(script),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    found = {}
    for part in done.stdout.split("@@")[1:]:
        name, said = part.split("\n", 1)
        columns, params = said.split("@params\n")
        rows = [tuple(line.split("|")) for line in columns.splitlines()]
        found[name] = (
            [usual(kind) for kind in re.findall(r'[^{}",\n]+', params)],
            [(column, usual(kind)) for column, kind in rows] if len(rows[0]) > 1 else "nothing",
        )
    return found


def usual(kind):
    bare = kind.removesuffix("[]")
    return NAMES.get(bare, bare) + kind[len(bare) :]


def test_heads_say_what_the_server_says(db):
    names = sorted(pg.sources())
    said = described(db, names)
    assert sorted(said) == names
    wrong = []
    for name in names:
        types, columns = said[name]
        params, returns = declared(name, "params"), declared(name, "returns")
        if [kind for _, kind in params] != types:
            wrong.append((name, "params", params, types))
        if returns != columns and (returns != "ignored" or columns == "nothing"):
            wrong.append((name, "returns", returns, columns))
    assert wrong == []


LINES_MAX = 100
# Its head explains how jobs are claimed, and is not counted.
HEAD = "__claim"


def test_functions_and_statements_are_short():
    texts = {n: pg.source(n, kind) for kind in ("functions", "queries") for n in pg.sources(kind)}
    texts[HEAD] = texts[HEAD][texts[HEAD].index("create or replace function") :]
    assert {n for n, text in texts.items() if text.count("\n") > LINES_MAX} == set()


def test_each_function_and_statement_is_used():
    """By a program or by other SQL. Applications call those without "__". A trigger is in the file of its function."""
    words = {}
    for folder in ("lib", "bin", "sql"):
        for path in glob.glob(os.path.join(pg.TOP, folder, "**", "*.*"), recursive=True):
            if path.endswith((".c", ".h", ".sql")):
                with open(path, encoding="utf-8") as f:
                    words[path] = set(
                        re.findall(r"\w+", re.sub("--.*", "", f.read()) if path.endswith(".sql") else f.read())
                    )
    unused = []
    for kind in ("functions", "queries"):
        for name, own in pg.sources(kind).items():
            names = {name} if kind == "functions" else {f"sql_{name}", f"{name}_exec", f"{name}_one"}
            free = kind == "functions" and (
                name[:2] != "__" or f"execute function deferred.{name}" in pg.source(name, kind)
            )
            if not free and not any(names & found for path, found in words.items() if path != own):
                unused.append(name)
    assert unused == []


def test_heads_begin_with_the_name_and_the_purpose():
    for name in pg.sources():
        assert re.match(rf"-- {name}: [a-z].*", pg.source(name)), name
