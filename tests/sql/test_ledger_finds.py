"""deferred.check_ledger() finds tables that contradict each other about keys, steps and events."""

import json

import pytest

pytestmark = pytest.mark.by_hand


def found(db):
    return {(invariant.split(":")[0], job) for invariant, job, _ in db.sql("select * from deferred.check_ledger()")}


def save(db, job):
    db.hold(job)
    saved = db.one(
        "select outcome from deferred.__step_save(array[%s::bigint], array[1::bigint], array['s'], array['{}'],"
        " array[0])",
        job,
    )
    assert saved == "new"


def end(db, job):
    db.sql("delete from deferred.__deferred_lease")
    db.sql("delete from deferred.__deferred_hot where id = %s", job)
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final) values (%s, 1, 'ok', true)",
        job,
    )


def settle(db):
    while db.one("select deferred.__settle(100)"):
        pass


def test_a_step_that_outlives_the_success_of_its_job(db):
    job = db.defer("noop")
    save(db, job)
    assert found(db) == set()
    end(db, job)
    assert found(db) == {("I11", job)}


def test_a_step_that_no_claim_would_ask_for(db):
    job = db.defer("noop")
    save(db, job)
    db.sql("update deferred.__deferred_hot set watched = null")
    assert ("I11", job) in found(db)


def test_steps_that_are_too_many_too_large_or_without_a_number(db):
    job = db.defer("noop")
    save(db, job)
    for column, value in (("number", 2), ("bytes", 3)):
        db.sql("begin")
        db.sql(f"update deferred.__deferred_step set {column} = %s", value)
        assert ("I11", job) in found(db), column
        db.sql("rollback")
    assert found(db) == set()


def test_a_step_without_a_job(db):
    job, other = db.defer("noop"), db.defer("noop")
    save(db, job)
    for table in ("hot", "lease"):
        db.sql(
            f"delete from deferred.__deferred_{table}" + (" where id = %s" if table == "hot" else ""),
            *[job][: table == "hot"],
        )
    db.sql("delete from deferred.__deferred where id = %s", job)
    assert found(db) == {("I11", job)}
    # After a purge it may be left for a while: __purge_orphans.sql.
    db.sql("update deferred.__deferred_upkeep set log_from = clock_timestamp()")
    assert found(db) == set() and other


@pytest.mark.parametrize("kind, invariant", [("end", "I11"), ("10min", "I11"), ("start", "I7")])
def test_two_waiting_jobs_with_one_key(db, kind, invariant):
    """Of two jobs with key_until start, the index of __deferred_key lets only one have a row."""
    jobs = [db.defer("noop", key=key, key_until=kind) for key in ("k", "l")]
    assert found(db) == set()
    db.sql("update deferred.__deferred set key = 'k' where id = %s", jobs[1])
    assert (invariant, jobs[invariant == "I7"]) in found(db)


def test_an_awaited_event_whose_job_is_gone(db):
    job = db.defer("noop", wait_for={"event": "e", "within": "1h"})
    settle(db)
    assert found(db) == set()
    db.sql("begin")
    for table in ("hot", "wait", "edge", ""):
        column = {"edge": "child"}.get(table, "id")
        db.sql(f"delete from deferred.__deferred{table and '_' + table} where {column} = %s", job)
    assert found(db) == {("I10", job)}
    db.sql("update deferred.__deferred_upkeep set log_from = clock_timestamp()")
    assert found(db) == set()
    db.sql("rollback")
    db.sql("begin")
    for table in ("hot", "wait", ""):
        db.sql(f"delete from deferred.__deferred{table and '_' + table} where id = %s", job)
    assert ("I10", job) in found(db), "its edge is left"
    db.sql("rollback")
    db.sql("begin")
    db.sql("delete from deferred.__deferred_edge")
    assert ("I10", job) in found(db), "no edge"
    db.sql("rollback")
    db.sql("delete from deferred.__deferred_awaited")
    assert ("I10", job) in found(db), "nothing says what it waits for"


def test_an_event_that_came_and_is_not_counted(db):
    job = db.defer("noop", wait_for={"event": "e", "within": "1h"})
    settle(db)
    db.sql("select deferred.send_event('e', %s)", json.dumps({"a": 1}))
    assert found(db) == set(), "there is a note"
    db.sql("delete from deferred.__deferred_ended")
    assert found(db) == {("I10", job)}
