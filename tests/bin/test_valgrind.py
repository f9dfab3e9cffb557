"""What the sanitizers do not see: values that were never set. Not collected for the sanitizer build, which cannot
run below valgrind (tests/conftest.py)."""

import pytest

from harness import ledger, program, run

VALGRIND = [
    "valgrind",
    "--quiet",
    "--leak-check=full",
    "--errors-for-leak-kinds=definite,indirect",
    "--error-exitcode=99",
    "--trace-children=no",
    "--child-silent-after-fork=yes",
]


def below_valgrind(db, *args, **kw):
    done = run(VALGRIND + [program(args[0])] + list(args[1:]), env=db.env, **kw)
    assert done.returncode != 99 and "== " not in done.stderr, done.stderr
    return done


def test_a_run_with_every_outcome(db):
    for fn, params in (
        ("noop", "{}"),
        ("echo", '{"x": "é"}'),
        ("fail", '{"error": "no"}'),
        ("crash", '{"signal": 11}'),
        ("nosuch", "{}"),
    ):
        db.defer(fn, params, max_attempts=2)
    db.defer("sleep", '{"ms": 60000}', timeout="100ms")
    assert below_valgrind(db, "check_deferred", "--cnt", "0", "--runners", "2").returncode == 0
    assert len(db.log()) == 5
    assert below_valgrind(db, "check_deferred", "--cnt", "0").returncode == 0
    ledger(db)


@pytest.mark.parametrize(
    "args",
    [
        ["add", "noop", '{"a": 1}', "--key", "k"],
        ["add", "noop", "{"],
        ["ls"],
        ["status", "--json"],
        ["show", "1"],
        ["retry", "1"],
        ["cancel", "1"],
        ["purge", "--older-than", "30d"],
        ["run", "echo", "{}"],
        ["migrate"],
    ],
    ids=" ".join,
)
def test_the_commands(db, args):
    db.defer("fail")
    below_valgrind(db, "deferred", *args)


def test_a_server_that_cannot_be_reached(db):
    db.env["DEFERRED_DB"] = "host=/nonexistent"
    assert below_valgrind(db, "check_deferred").returncode == 69
