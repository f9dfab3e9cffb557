"""Clients do not hang, and say what is true then: stored, not stored, or unknown."""

import contextlib

from harness import wait_for
from proxy import Proxy

TEMPFAIL, UNAVAILABLE = 75, 69


@contextlib.contextmanager
def locked(db, table):
    """While somebody works on the table."""
    connection = db.connect()
    connection.cursor().execute(f"lock table deferred.{table} in access exclusive mode")
    yield
    connection.close()


def waiting(db, n):
    """So many sessions wait for that lock."""
    return wait_for(
        lambda: db.one(
            "select count(*) from pg_locks where not granted and database = (select oid from pg_database "
            "where datname = current_database())"
        )
        == n
    )


def ended(run, code, *words):
    assert run.wait(20) == code, run.output()
    for word in words:
        assert word in run.output()


def test_a_lock_or_answers_that_vanish_are_waited_for_no_longer_than_asked(db, cluster, tmp_path):
    lines = tmp_path / "lines"
    lines.write_text('{"fn": "noop"}\n' * 3)
    cut_off = "no answer for 400 ms"
    with Proxy(cluster) as proxy, locked(db, "__deferred_hot"), open(lines) as many:
        through = {"DEFERRED_DB": proxy.conninfo(db.name)}
        limit = ["--answer-timeout", "400ms"]
        one = db.spawn(["deferred", "add", "noop", *limit])
        short = db.spawn(["deferred", "--lock-timeout", "50ms", "add", "noop"])
        shown = db.spawn(["deferred", *limit, "status"])
        lost = db.spawn(["deferred", "add", "noop", "--label", "lost", "--answer-timeout", "1500ms"], env=through)
        block = db.spawn(["deferred", "add", "--stdin", "--answer-timeout", "1500ms"], env=through, stdin=many)
        says = "another transaction holds a lock (canceling statement due to lock timeout); nothing has been changed"
        ended(short, TEMPFAIL, f"not stored: {says}")
        ended(one, TEMPFAIL, f"not stored: {cut_off}; nothing has been changed")
        ended(shown, TEMPFAIL, f"deferred: {cut_off}; nothing has been changed")
        waiting(db, 2)
        proxy.swallow = True
        ended(lost, UNAVAILABLE, "no answer for 1500 ms, outcome unknown", "with a key it can be repeated safely")
        ended(block, TEMPFAIL, "not stored: no answer for 1500 ms; nothing has been changed")
    wait_for(lambda: db.hot() == 1, 10, "nobody could know, and it was stored after all")
    assert db.one("select label from deferred.__deferred") == "lost"
