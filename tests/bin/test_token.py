"""Tokens of the JSON API: the command, what the database holds of them, and which of them are valid."""

import hashlib
import json
import re

import psycopg2
import pytest

import pg
from harness import run

OK, NOT_DONE, USAGE, DATA, NOPERM, IOERR = 0, 1, 64, 65, 77, 74


def token(db, *args, code=OK, says=(), **kw):
    done = db.run(["deferred", "token", *args], **kw)
    assert done.returncode == code, done
    for text in says:
        assert text in done.stderr, done
    if code != OK:
        assert done.stdout == "" and done.stderr.startswith("deferred: "), done
    return done.stdout


def secret(db, *args):
    return json.loads(token(db, *args, "--json"))["secret"]


def found(db, text):
    """(name, may, functions, queues) of a valid token."""
    rows = db.sql("select * from deferred.__token_find(%s)", hashlib.sha256(text.encode()).digest())
    return rows[0] if rows else None


def listed(db):
    return json.loads(token(db, "ls", "--json"))


def test_add_prints_a_secret_once_and_the_database_holds_its_sha256(db):
    done = token(db, "add", "shop")
    assert re.fullmatch(r"token:  shop\nsecret: dfr_[A-Za-z0-9_-]{43}\n", done)
    one, two = done.split()[-1], secret(db, "add", "other")
    assert one != two
    assert found(db, one) == ("shop", ["defer"], None, None) and found(db, two)[0] == "other"
    assert found(db, one[:-1] + ("A" if one[-1] != "A" else "B")) is None and found(db, one[4:]) is None
    assert [t["token"] for t in listed(db)] == ["other", "shop"] and one not in token(db, "ls")
    assert db.sql("select sha256 from deferred.__deferred_token where name = 'shop'")[0][0].tobytes() == (
        hashlib.sha256(one.encode()).digest()
    )


@pytest.mark.skipif(not pg.can_dump(), reason="pg_dump is older than the server")
def test_a_dump_holds_no_secret(db):
    text = secret(db, "add", "shop")
    secret(db, "rotate", "shop", "--grace", "1h")
    dump = run(["pg_dump", "-d", db.conninfo]).stdout
    assert "shop" in dump and text not in dump and text[4:] not in dump


def test_a_token_has_the_rights_that_it_was_given(db):
    text = secret(db, "add", "t", "--may", "work,read,work", "--functions", "b,a.*,b", "--queues", "9-q.x,tenant.*")
    assert found(db, text) == ("t", ["read", "work"], ["a.*", "b"], ["9-q.x", "tenant.*"])
    (row,) = listed(db)
    assert (row["may"], row["functions"], row["queues"]) == (["read", "work"], ["a.*", "b"], ["9-q.x", "tenant.*"])
    assert row["expires_at"] is None and row["expired"] is False and row["created_by"] == pg.USER
    assert re.search(r"(?m)^t +read,work +a\.\*,b +9-q\.x,tenant\.\* +never$", token(db, "ls"))
    allows = lambda names, name: db.sql("select deferred.__token_allows(%s, %s)", names, name)[0][0]  # noqa: E731
    assert allows(None, "x") and allows(["a.*", "b"], "a.x") and allows(["a.*", "b"], "b")
    for name in ("a", "ab", "ax", "B", "bb", ""):
        assert not allows(["a.*", "b"], name), name


def test_a_token_ends_when_it_expires(db):
    text = secret(db, "add", "t", "--expires", "90d")
    assert db.sql(
        "select expires_at between clock_timestamp() + interval '89 days' and clock_timestamp() + interval '90 days' "
        "from deferred.__deferred_token"
    ) == [(True,)]
    assert found(db, text)
    db.sql("update deferred.__deferred_token set expires_at = clock_timestamp() - interval '1 second'")
    assert found(db, text) is None and listed(db)[0]["expired"] is True
    assert re.search(r"(?m)^t .* expired$", token(db, "ls"))
    new = secret(db, "rotate", "t", "--expires", "30d")
    assert found(db, new) and found(db, text) is None and listed(db)[0]["expired"] is False


def test_rotate_ends_the_token_before_at_once_or_after_a_grace(db):
    one = secret(db, "add", "t", "--may", "control", "--expires", "10d")
    two = secret(db, "rotate", "t")
    assert found(db, one) is None and found(db, two) == ("t", ["control"], None, None)
    three = secret(db, "rotate", "t", "--grace", "1h")
    assert found(db, two) == found(db, three) == ("t", ["control"], None, None)
    # Only the token before the last rotation has a grace.
    four = secret(db, "rotate", "t", "--grace", "1h")
    assert found(db, two) is None and found(db, three) and found(db, four)
    db.sql("update deferred.__deferred_token set old_until = clock_timestamp()")
    assert found(db, three) is None and found(db, four)
    # A new span is not one of the token before.
    five = secret(db, "rotate", "t", "--grace", "20d", "--expires", "90d")
    assert db.sql(
        "select old_until < clock_timestamp() + interval '10 days', expires_at > clock_timestamp() + "
        "interval '89 days' from deferred.__deferred_token"
    ) == [(True, True)]
    token(db, "rm", "t")
    assert found(db, four) is None and found(db, five) is None and listed(db) == []


def test_changes_are_in_the_audit_log_without_the_secret(db):
    text = secret(db, "add", "t", "--functions", "f", "--expires", "1d")
    secret(db, "rotate", "t", "--grace", "1min")
    token(db, "rm", "t")
    rows = db.sql("select who, verb, settings, refused from deferred.__deferred_action order by id")
    assert [(who.split(": ")[1], verb) for who, verb, _, _ in rows] == [
        ("deferred token add", "add"),
        ("deferred token rotate", "rotate"),
        ("deferred token rm", "remove"),
    ]
    assert rows[0][2] == {"token": "t", "may": "defer", "functions": "f", "expires_ms": 86400000}
    assert rows[1][2] == {"token": "t", "grace_ms": 60000} and rows[2][2] == {"token": "t"}
    assert text not in str(rows)
    token(db, "rm", "t", code=NOT_DONE, says=["token 't' does not exist", "deferred token ls"])
    assert db.one("select count(*) from deferred.__deferred_action") == 3


@pytest.mark.parametrize(
    "args,code,says",
    [
        (["add"], USAGE, "NAME"),
        (["add", "a b"], DATA, "token name 'a b' is invalid"),
        (["add", ""], DATA, "token name '' is invalid"),
        (["add", "x" * 58], DATA, "1 to 57 letters"),
        (["add", "t:x"], DATA, "token name 't:x' is invalid"),
        (["add", "-x"], USAGE, "option '-x' is unknown"),
        (["add", "t", "--may", "all"], DATA, "token 't': right 'all' is unknown"),
        (["add", "t", "--may", ","], DATA, "defer, read, control, work"),
        (["add", "t", "--may", "defer,"], DATA, "right '' is unknown"),
        (["add", "t", "--functions", "f,"], DATA, "function name '' is invalid"),
        (["add", "t", "--functions", ""], USAGE, "leave --functions out"),
        (["add", "t", "--functions", "*"], DATA, "function name '*' is invalid"),
        (["add", "t", "--queues", "q,a b"], DATA, "queue name 'a b' is invalid"),
        (["add", "t", "--expires", "90"], USAGE, "--expires"),
        (["add", "t", "--expires", "0"], USAGE, "--expires"),
        (["add", "t", "--expires", "3651d"], DATA, "up to 3650 days"),
        (["rotate", "t"], NOT_DONE, "token 't' does not exist"),
        (["rotate", "t", "--grace", "366d"], DATA, "up to 365 days"),
        (["rotate", "t", "--grace", "soon"], USAGE, "--grace"),
        (["rm", "t", "x"], USAGE, "argument 'x' is not expected"),
        (["ls", "x"], USAGE, "argument 'x' is not expected"),
        (["show"], USAGE, "add, ls, rotate and rm"),
    ],
)
def test_wrong_use_is_explained(db, args, code, says):
    token(db, *args, code=code, says=[says])
    assert db.one("select count(*) from deferred.__deferred_token") == 0
    assert db.one("select count(*) from deferred.__deferred_action") == 0


def test_a_second_token_of_a_name_is_refused(db):
    text = secret(db, "add", "t")
    token(db, "add", "t", code=NOT_DONE, says=["token 't' exists already", "deferred token rotate"])
    assert found(db, text)


def as_role(db, role, query, *args):
    db.sql(f"set role {role}")
    try:
        return db.sql(query, *args)
    finally:
        db.sql("reset role")


def test_only_administrators_write_and_nobody_else_reads_hashes(db):
    text = secret(db, "add", "t")
    for role in ("deferred_viewer", "deferred_reader", "deferred_operator", "deferred_worker", "deferred_http"):
        for refused in (
            "select sha256 from deferred.__deferred_token",
            "update deferred.__deferred_token set expires_at = null",
            "select deferred.__token_rm('t')",
            "select deferred.__token_add('u', sha256('u'), '{defer}', null, null, null)",
            "select deferred.__token_rotate('t', sha256('u'), 0, null)",
        ):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                as_role(db, role, refused)
    hash_of = hashlib.sha256(text.encode()).digest()
    assert as_role(db, "deferred_http", "select name from deferred.__token_find(%s)", hash_of) == [("t",)]
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        as_role(db, "deferred_viewer", "select name from deferred.__token_find(%s)", hash_of)
    assert as_role(db, "deferred_viewer", "select name from deferred.__deferred_token") == [("t",)]


def test_an_answer_that_is_not_written_names_the_remedy(db):
    with open("/dev/full", "w") as full:
        done = db.run(["deferred", "token", "add", "t"], stdout=full)
    assert done.returncode == IOERR and "make it again: deferred token rotate t" in done.stderr
