"""`log_format`: each line of a run whose jobs end in every way can be read, and says what the line of text says."""

import json
import os
import re

import pytest

import harness

PAIR = r'(\w+)=(?:([\w./:-]+)|"((?:[^"\\]|\\["\\])*)")'
WAYS = {
    "noop": {},
    "fail": {},
    "segv": {},
    # exit() has LeakSanitizer look for leaks. When that fails on a busy machine, it prints lines.
    **({} if harness.SAN else {"exit0": {}}),
    "hang": {"timeout": "100ms"},
    "log_bytes": {},
    "no_such": {},
    "bytes": {},
    "traced": {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"},
}


def logfmt(line):
    """By the rules of the format alone: pairs with one blank between them, and nothing else."""
    assert re.fullmatch(rf"{PAIR}(?: {PAIR})*", line, re.ASCII), line
    pairs = re.findall(PAIR, line, re.ASCII)
    assert len(pairs) == len({name for name, *_ in pairs}), line
    return {name: word or re.sub(r"\\(.)", r"\1", quoted) for name, word, quoted in pairs}


def words(value):
    """A value of JSON as logfmt has it."""
    return value if isinstance(value, str) else json.dumps(value)


def lines_of(db, form):
    """What a run of one job of each kind says, by the level, with the numbers taken out that no two runs share."""
    for fn, opts in WAYS.items():
        db.defer("fail" if fn == "traced" else fn, queue="some", max_attempts=1, **opts)
    done = db.run(
        ["check_deferred", "--cnt", "0", "--runners", "1", "--log-level", "debug", "--log-format", form], input=b""
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.decode().splitlines()
    if form == "text":
        said = [
            re.fullmatch(r"\S+Z check_deferred\[\d+\] (\w+): (.*?)(?:; traceparent \S+)?", line).groups()
            for line in lines
        ]
        return [], sorted((level, re.sub(r"0x[0-9a-f]+|[\d.]+", "#", text)) for level, text in said)
    read = [
        {name: words(value) for name, value in json.loads(line).items()} if form == "json" else logfmt(line)
        for line in lines
    ]
    return read, sorted((line["level"], re.sub(r"0x[0-9a-f]+|[\d.]+", "#", line["msg"])) for line in read)


@pytest.fixture
def many_ways(db):
    db.plugins("unruly")
    script = os.path.join(db.dir, "bytes.py")
    with open(script, "w") as f:
        f.write("import os\nos.write(2, bytes(range(256)) + b'\"\\\\=\\n')\nraise SystemExit(1)")
    db.config(f'function "bytes" {{ command = {{"/usr/bin/python3", "{script}"}} }}')
    return db


def test_each_form_says_the_same(many_ways):
    db = many_ways
    _, text = lines_of(db, "text")
    of_json, by_json = lines_of(db, "json")
    of_logfmt, by_logfmt = lines_of(db, "logfmt")
    assert len(text) > len(WAYS)
    assert by_json == text and by_logfmt == text

    def fields(lines):
        """Of each line its names, and what is the same in every run."""
        kept = "level", "program", "event", "attempt", "final", "outcome", "queue", "fn", "traceparent"
        return sorted((sorted(line), *((name, line[name]) for name in kept if name in line)) for line in lines)

    assert fields(of_json) == fields(of_logfmt)
    assert {line["outcome"] for line in of_logfmt if line["event"] == "attempt"} >= {"failed", "crashed", "timeout"}
    assert {line["queue"] for line in of_logfmt if "queue" in line} == {"some"}


def test_a_form_that_is_none_is_refused(db):
    done = db.run(["check_deferred", "--log-format", "xml"])
    assert done.returncode == 64 and "not one of text|json|logfmt" in done.stderr, done.stderr
