"""Each error that C code reports has a hint. The sources are read, so that no place is left out."""

import glob
import os
import re

import pg
from documents import read

# error_set() and error_errno() take the hint behind a line feed; error_hint() adds one, or DEFERRED_ENOMEM has its own.
HAS_HINT = re.compile(r"\\n|_HINT\b|DEFERRED_ENOMEM\b")

# Functions whose errors get their hint from a caller: the caller, which must call error_hint() or have it as a hint.
CALLER_ADDS = {
    ("bin/deferred/cmd/archive.c", "archive_ended"): "archive_partitions",
    ("bin/deferred/cmd/archive.c", "feed"): "archive_partitions",
    ("bin/deferred/cmd/archive.c", "not_read"): "archive_partitions",
    ("lib/program/account_key.c", "check_file"): "account_key_load",
    ("lib/http/sockets.c", "cannot_listen"): "sockets_open_setting",
    ("lib/http/sockets.c", "open_local"): "sockets_open_setting",
    ("lib/http/sockets.c", "open_one"): "sockets_open_setting",
    ("lib/http/tls.c", "cannot_use"): "tls_load",
    ("lib/http/tls.c", "load_key"): "tls_load",
    ("lib/http/tls.c", "read_files"): "tls_load",
    ("lib/port/config_file.c", "fail"): "hint_settings",
    ("lib/port/config_value.c", "check_alert"): "hint_settings",
    ("lib/port/config_value.c", "config_value_parse"): "hint_settings",
    ("lib/port/config_value.c", "parse_text"): "hint_settings",
    ("lib/port/config_value.c", "refuse"): "hint_settings",
    ("lib/port/config_value.c", "config_parse_ms"): "cli_bad_value",
}


def sources():
    for folder in ("lib", "bin"):
        yield from sorted(glob.glob(os.path.join(pg.TOP, folder, "**", "*.c"), recursive=True))


def functions(text):
    """(name, body) of each function definition."""
    for m in re.finditer(r"(?m)^(?![#/ \t*])[^;={}]*?\b(\w+)\((?:[^;{}]*)\)\n\{\n(.*?)^\}", text, re.S):
        yield m[1], m[2]


def calls(body):
    """Each call of error_set() or error_errno(), and the statements after it up to the next return or goto."""
    for m in re.finditer(r"\berror_(?:set|errno)\(", body):
        depth, end, quoted = 1, m.end(), False
        while depth:
            if body[end] == "\\":
                end += 1
            elif body[end] == '"':
                quoted = not quoted
            elif not quoted:
                depth += {"(": 1, ")": -1}.get(body[end], 0)
            end += 1
        returned = body[: m.start()].endswith("return ")
        yield body[m.start() : end], "" if returned else re.split(r"\b(?:return|goto)\b", body[end:])[0]


def without_hint():
    found, seen = set(), 0
    for path in sources():
        name = os.path.relpath(path, pg.TOP)
        for function, body in functions(read(path)):
            for call, following in calls(body):
                seen += 1
                if not HAS_HINT.search(call) and "error_hint(" not in following:
                    found.add((name, function))
    return found, seen


def test_each_error_of_c_code_has_a_hint():
    found, seen = without_hint()
    assert seen > 300
    assert found == set(CALLER_ADDS)


def test_the_callers_that_add_a_hint_do():
    bodies = {name: body for path in sources() for name, body in functions(read(path))}
    for caller in set(CALLER_ADDS.values()):
        assert re.search(r"\berror_hint\(|\bhint\b", bodies[caller]), caller


def test_each_error_that_a_program_prints_itself_has_a_hint():
    """cli_say() has a parameter for the hint; other errors are printed with their hint in the same text."""
    seen = 0
    for path in sources():
        for said in re.findall(r"f(?:printf|puts)\([^;]*?\"deferred(?:_\w+)?: .*?;", read(path), re.S):
            seen += 1
            assert "hint: " in said or path.endswith("/local.c"), (path, said)  # words of the function that failed
    assert seen > 5
