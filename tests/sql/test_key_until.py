"""How long a job holds its key (key_until), and the change of a waiting job in place (on_duplicate update).

test_keys.py has what holds for each key.
"""

import concurrent.futures
import contextlib
import json
import random
import threading

import psycopg2
import pytest
from psycopg2 import errors as pgerror

from harness import WAITING, ledger, wait_for
from test_claim import ids, worker  # noqa: F401
from test_keys import take_limited

KINDS = ["end", "start", "10min"]


def defer(db, fn="f", params=None, key="k", **opts):
    return db.one(
        "select deferred.defer(%s, %s::json, %s::json)", fn, json.dumps(params or {}), json.dumps({"key": key, **opts})
    )


class Producer:
    """A session whose transaction the test ends."""

    def __init__(self, db, pool, isolation="read committed"):
        self.connection, self.pool = db.connect(), pool
        self.cursor = self.connection.cursor()
        self.cursor.execute(f"set transaction isolation level {isolation}")
        self.cursor.execute("set lock_timeout = '20s'")
        self.cursor.execute("select pg_backend_pid()")
        self.pid = self.cursor.fetchone()[0]

    def defer(self, key="k", fn="f", **opts):
        self.cursor.execute("select deferred.defer(%s, '{}', %s::json)", (fn, json.dumps({"key": key, **opts})))
        return self.cursor.fetchone()[0]

    def start(self, **opts):
        return self.pool.submit(self.defer, **opts)

    def waits(self, db):
        return db.one("select wait_event_type = 'Lock' from pg_stat_activity where pid = %s", self.pid)


@contextlib.contextmanager
def producers(db, n, **kw):
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        them = [Producer(db, pool, **kw) for _ in range(n)]
        try:
            yield them
        finally:
            for p in them:
                p.connection.close()


def open_jobs(db):
    return [r[0] for r in db.sql("select id from deferred.__deferred_hot order by id")]


def keys(db):
    return db.one("select count(*) from deferred.__deferred_key")


def sweep(db):
    db.sql("update deferred.__deferred_upkeep set keys_at = '-infinity'")
    return db.one("select deferred.__keys_sweep(100)")


# ---- until the start


def test_until_start_a_job_that_runs_has_no_key(db, worker):  # noqa: F811
    w, first = worker(), defer(db, key_until="start")
    assert defer(db, key_until="start") == first
    (job,) = w.take()
    assert sweep(db) == 0, "its hot row has the key still"
    second = defer(db, key_until="start")
    assert second > first and defer(db, key_until="start") == second
    assert w.finish(job) == {first}
    w.commit()
    assert defer(db, key_until="start") == second
    assert open_jobs(db) == [second]
    ledger(db)


@pytest.mark.parametrize("on_duplicate", ["error", "replace", "update"])
def test_until_start_nothing_is_refused_for_a_job_that_runs(db, worker, on_duplicate):  # noqa: F811
    w, first = worker(), defer(db, key_until="start")
    (job,) = w.take()
    second = defer(db, key_until="start", on_duplicate=on_duplicate)
    assert open_jobs(db) == [first, second]
    assert w.retry(job) == {first}, "and the job that ran is tried again without its key"
    w.commit()
    assert defer(db, key_until="start") == second
    ledger(db)


def test_until_start_an_open_producer_holds_up_no_worker(db, worker):  # noqa: F811
    w, first = worker(), defer(db, key_until="start")
    (job,) = w.take()
    for on_duplicate in ("skip", "replace", "update"):
        with producers(db, 1) as [p]:
            assert p.defer(key_until="start", on_duplicate=on_duplicate) > first
            w.renew(job)
            w.rollback()
            assert w.finish(job) == {first}
            w.rollback()


def test_until_start_a_skipped_change_is_seen(db, worker):  # noqa: F811
    """The job does not start before the transaction of the skipped call has ended."""
    w, first = worker(), defer(db, key_until="start")
    with producers(db, 2) as (p, q):
        assert p.defer(key_until="start") == first and q.defer(key_until="start") == first, "they do not wait"
        assert w.take() == []
        p.connection.commit()
        assert w.take() == []
        q.connection.rollback()
        assert ids(w.take()) == [first]


@pytest.mark.parametrize("first_of_lane", [True, False])
def test_until_start_a_skip_waits_for_a_claim_under_way(db, worker, first_of_lane):  # noqa: F811
    w = worker()
    if not first_of_lane:
        db.defer("f")
        w.finish(*w.take())
        w.commit()
    first = defer(db, key_until="start")
    (job,) = w.claim()
    with producers(db, 1) as [p]:
        second = p.start(key_until="start")
        wait_for(lambda: p.waits(db))
        w.commit()
        assert second.result() > first
        assert w.finish(job) == {first}, "the open transaction holds up no worker"
        w.commit()
        p.connection.commit()
    ledger(db)


def test_until_start_two_producers_that_meet_while_a_job_runs_make_one_job(db, worker):  # noqa: F811
    w, first = worker(), defer(db, key_until="start")
    (job,) = w.take()
    with producers(db, 2) as (p, q):
        second = p.defer(key_until="start")
        other = q.start(key_until="start", on_duplicate="error")
        wait_for(lambda: q.waits(db))
        p.connection.commit()
        with pytest.raises(pgerror.UniqueViolation, match=f"job {second} of queue 'default' has key 'k' already"):
            other.result()
    assert open_jobs(db) == [first, second]
    w.finish(job)
    w.commit()
    ledger(db)


def test_until_start_holds_for_messages(db):
    first = db.one("""select deferred.defer(null, '{}', '{"queue": "m", "key": "k", "key_until": "start"}')""")
    again = """select deferred.defer(null, '{}', '{"queue": "m", "key": "k", "key_until": "start"}')"""
    assert db.one(again) == first
    receipt = db.one("select receipt from deferred.claim('m')")
    second = db.one(again)
    assert second > first
    db.sql("select deferred.finish(%s, %s)", first, receipt)
    assert db.one(again) == second
    ledger(db)


def test_until_start_a_key_of_three_jobs(db, worker):  # noqa: F811
    """Two run, and the third waits: none of them has the key of another one."""
    w = worker()
    first = defer(db, key_until="start")
    one = w.take()
    second = defer(db, key_until="start")
    two = w.take()
    assert ids(two) == [second]
    third = defer(db, key_until="start")
    assert [defer(db, key_until=k) for k in KINDS] == [third] * 3
    for job in two + one:
        w.finish(job)
        w.commit()
        assert [defer(db, key_until=k) for k in KINDS] == [third] * 3
    assert first < second < third and open_jobs(db) == [third]
    ledger(db)


# ---- for a span after the end


def test_for_a_span_after_its_end_a_job_has_its_key(db, worker):  # noqa: F811
    w, first = worker(), defer(db, key_until="10min")
    w.finish(*w.take())
    w.commit()
    assert open_jobs(db) == [] and keys(db) == 1
    for kind in KINDS:
        assert defer(db, key_until=kind) == first
        with pytest.raises(
            pgerror.UniqueViolation, match=f"job {first} of queue 'default' has ended and keeps key 'k'"
        ):
            defer(db, key_until=kind, on_duplicate="error")
        for on_duplicate in ("replace", "update"):
            with pytest.raises(
                psycopg2.Error, match=f"job {first} of queue 'default' has ended and keeps key 'k'"
            ) as e:
                defer(db, key_until=kind, on_duplicate=on_duplicate)
            assert e.value.pgcode == "55006"
    assert defer(db, key="other") > first
    ledger(db)


@pytest.mark.parametrize("kind", KINDS)
def test_after_the_span_the_key_is_free(db, worker, kind):  # noqa: F811
    w, first = worker(), defer(db, key_until="1ms")
    w.finish(*w.take())
    w.commit()
    wait_for(lambda: defer(db, key_until=kind) > first)
    assert len(open_jobs(db)) == 1
    assert keys(db) == 1
    ledger(db)


@pytest.mark.parametrize("how", ["cancelled", "expired", "dead"])
def test_the_span_begins_with_whatever_end(db, worker, how):  # noqa: F811
    w, first = worker(), defer(db, key_until="1h", **({"expires": "1h"} if how == "expired" else {}))
    if how == "cancelled":
        db.sql("select deferred.cancel(%s)", first)
    elif how == "dead":
        w.finish(*w.take(), outcome="failed", error="no")
        w.commit()
    else:
        db.sql("update deferred.__deferred_hot set expires_at = clock_timestamp() - interval '1 s'")
    assert defer(db, key_until="1h") == first
    assert db.one("select state from deferred.job where id = %s", first) == how
    assert open_jobs(db) == []


def test_a_job_that_was_replaced_keeps_no_key(db):
    first = defer(db, key_until="1h")
    second = defer(db, key_until="1h", on_duplicate="replace")
    assert defer(db) == second and open_jobs(db) == [second] and keys(db) == 1
    assert db.log(first) == [(0, "cancelled")]
    ledger(db)


def test_a_span_costs_one_row_which_housekeeping_removes(db, worker):  # noqa: F811
    w = worker()
    for n in range(300):
        defer(db, key=f"k{n}", key_until="1ms" if n % 3 else "1h")
    assert sweep(db) == 0 and keys(db) == 300, "while the jobs wait nothing is removed"
    w.finish(*w.take(300))
    w.commit()
    assert open_jobs(db) == [] and keys(db) == 300
    wait_for(lambda: sweep(db) == 0 and keys(db) == 100)
    assert db.one("select count(*) from deferred.__deferred_key where until > now() + interval '59 min'") == 100
    db.sql("delete from deferred.__deferred_log")
    db.sql("delete from deferred.__deferred")
    assert defer(db, key="k0") > 0 and open_jobs(db) == [], "it outlives the log of its job"
    db.sql("update deferred.__deferred_key set until = now()")
    assert sweep(db) == 100


def test_housekeeping_goes_on_where_it_was(db):
    """Rows that are held cost each call one slice; it comes to the rows behind them all the same."""
    db.sql(
        "insert into deferred.__deferred_key select 'q', repeat('x', 400) || i, i, 1, "
        "case when i <= 2000 then now() + interval '1 h' else now() end from generate_series(1, 4000) i"
    )
    removed, calls = 0, 0
    while removed < 2000:
        db.sql("update deferred.__deferred_upkeep set keys_at = '-infinity'")
        removed += db.one("select deferred.__keys_sweep(10)")
        calls += 1
    assert removed == 2000 and 10 < calls < 100
    assert db.one("select deferred.__keys_sweep(10)") == 0, "once a minute"
    assert db.one("select min(job_id) || ' ' || max(job_id) from deferred.__deferred_key") == "1 2000"


def test_housekeeping_leaves_a_row_that_is_taken_meanwhile(db, worker):  # noqa: F811
    w, first = worker(), defer(db, key_until="1ms")
    w.finish(*w.take())
    w.commit()
    with producers(db, 1) as [p]:
        wait_for(lambda: p.defer(key_until="1h") > first)
        assert sweep(db) == 0
        p.connection.commit()
    assert sweep(db) == 0 and keys(db) == 1


# ---- kinds that meet


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("used", [True, False], ids=["used", "fresh"])
def test_two_producers_that_meet_at_a_key_make_one_job(db, first, second, commits, used):
    """used: a key of a kind with rows has been used before, so that each key takes a row."""
    if used:
        defer(db, key="other", key_until="start")
    before = open_jobs(db)
    with producers(db, 2) as (p, q):
        one = p.defer(key_until=first)
        other = q.start(key_until=second, on_duplicate="error")
        wait_for(lambda: q.waits(db))
        p.connection.commit() if commits else p.connection.rollback()
        if commits:
            with pytest.raises(pgerror.UniqueViolation, match=f"job {one} of queue 'default' has key 'k' already"):
                other.result()
        else:
            one = other.result()
        q.connection.commit()
    assert open_jobs(db) == before + [one]
    ledger(db)


@pytest.mark.parametrize("holder", KINDS)
@pytest.mark.parametrize("comer", KINDS)
def test_each_kind_respects_the_others(db, worker, holder, comer):  # noqa: F811
    w, first = worker(), defer(db, key_until=holder)
    assert defer(db, key_until=comer) == first
    (job,) = w.take()
    second = defer(db, key_until=comer)
    assert (second == first) == (holder != "start")
    assert defer(db, key_until=holder) == second
    w.finish(job)
    w.commit()
    third = defer(db, key_until=comer)
    assert (third == second) == (holder != "end")
    ledger(db)


def test_with_an_old_snapshot_a_key_is_not_taken_twice(db, worker):  # noqa: F811
    w = worker()
    with producers(db, 1, isolation="repeatable read") as [p]:
        first = defer(db, key_until="1h")
        w.finish(*w.take())
        w.commit()
        with pytest.raises(pgerror.SerializationFailure):
            p.defer(key_until="1h")
    assert defer(db, key_until="1h") == first


def test_a_job_that_came_and_ended_meanwhile_keeps_its_key(db, worker):  # noqa: F811
    """A producer of a key that is held until the end has looked whether any key has a row, and none had. It waits
    for another transaction, and stores its job when a job with a span has come and ended."""
    w = worker()
    with producers(db, 2) as (p, q):
        p.defer()
        other = q.start()
        wait_for(lambda: q.waits(db))
        db.sql(
            "insert into deferred.__deferred_key values ('default', %s, 1, 1, now() + interval '1 h')",
            db.one("select deferred.__own_key(session_user, 'k')"),
        )
        p.connection.rollback()
        assert other.result() == 1
        q.connection.commit()
    assert open_jobs(db) == [] and w.take() == []


def test_rows_of_ordinary_keys_are_removed_too(db):
    defer(db, key="other", key_until="start")
    first = defer(db)
    assert defer(db) == first and keys(db) == 2
    assert defer(db, on_duplicate="replace") > first and keys(db) == 2
    db.sql("select deferred.cancel(id) from deferred.__deferred_hot")
    assert sweep(db) == 2 and keys(db) == 0


def test_where_no_such_key_is_used_no_row_is_written(db):
    defer(db)
    defer(db, on_duplicate="replace")
    assert db.one("select pg_relation_size('deferred.__deferred_key')") == 0


def test_a_full_queue_skips_for_a_key_that_is_held(db, worker):  # noqa: F811
    db.sql("select deferred.__queue_set('q', '{\"max_length\": 1}', true)")
    w, first = worker(), defer(db, queue="q", key_until="1h")
    w.finish(*w.take())
    w.commit()
    db.sql("select deferred.defer('f', queue => 'q')")
    assert defer(db, queue="q", key_until="1h") == first
    with pytest.raises(psycopg2.Error, match="queue 'q' is full"):
        defer(db, queue="q", key="other")


@pytest.mark.parametrize("kind", KINDS)
def test_the_ledger_finds_two_jobs_with_one_key(db, kind):
    first, second = defer(db, key_until=kind), defer(db, key="other", key_until="end")
    ledger(db)
    db.sql("update deferred.__deferred set key = 'k' where id = %s", second)
    db.sql("update deferred.__deferred_hot set key = null where id = %s", second)
    found = db.sql("select left(invariant, 3), job_id from deferred.check_ledger()")
    assert ("I11", first) in found


# ---- a retry by hand


def test_a_retry_takes_the_key_again(db, worker):  # noqa: F811
    w, first = worker(), defer(db, key_until="1h")
    w.finish(*w.take(), outcome="failed", error="no")
    w.commit()
    assert db.one("select deferred.retry(%s)", first) is True
    assert defer(db) == first
    w.finish(*w.take())
    w.commit()
    assert defer(db) == first, "a new span begins"
    ledger(db)


def test_a_retry_fails_while_another_job_holds_the_key(db, worker):  # noqa: F811
    w, first = worker(), defer(db)
    w.finish(*w.take(), outcome="failed", error="no")
    w.commit()
    second = defer(db, key_until="1h")
    w.finish(*w.take())
    w.commit()
    with pytest.raises(pgerror.UniqueViolation, match=f"job {first} .*key 'k' is in use by job {second}"):
        db.sql("select deferred.retry(%s)", first)
    assert open_jobs(db) == []


def test_a_retry_of_a_job_that_gave_its_key_up_needs_no_key(db, worker):  # noqa: F811
    w, first = worker(), defer(db, key_until="start")
    w.finish(*w.take(), outcome="failed", error="no")
    w.commit()
    second = defer(db, key_until="start")
    assert db.one("select deferred.retry(%s)", first) is True
    assert defer(db, key_until="start") == second and open_jobs(db) == [first, second]
    ledger(db)


# ---- update


def row(db, job):
    return db.sql(
        """select d.params, d.label, d.priority, h.priority, d.run_at = h.due_at, h.due_at > now() + interval '50 min',
           d.expires_at = h.expires_at, j.state
           from deferred.__deferred d join deferred.__deferred_hot h using (id) join deferred.job j using (id)
           where id = %s""",
        job,
    )[0]


def test_an_update_changes_the_job_in_place(db, worker):  # noqa: F811
    w = worker()
    first = defer(db, params={"n": 1}, label="one", max_attempts=7, tags=["t"])
    assert defer(db, params={"n": 2}, label="two", priority=3, delay="1h", expires="2h", on_duplicate="update") == first
    assert row(db, first) == ({"n": 2}, "two", 3, 3, True, True, True, "delayed")
    db.defer("f")
    w.finish(*w.take())
    w.commit()  # the cursor of the lane is beyond the job now
    assert defer(db, params={"n": 3}, on_duplicate="update", max_attempts=1) == first
    assert row(db, first) == ({"n": 3}, None, 0, 0, None, None, None, "ready")
    (job,) = w.take()
    assert (job.id, job.params, job.max_attempts) == (first, {"n": 3}, 7)
    w.finish(job)
    w.commit()
    assert db.log(first) == [(1, "ok")] and db.one("select count(*) from deferred.__deferred") == 2
    ledger(db)


def test_a_debounce_is_one_row_and_no_log(db, worker):  # noqa: F811
    w = worker()
    jobs = {
        defer(db, params={"n": n}, delay="5s", on_duplicate="update", key_until=k) for n in range(20) for k in KINDS
    }
    assert len(jobs) == 1 == db.one("select count(*) from deferred.__deferred")
    assert db.one("select count(*) from deferred.__deferred_log") == 0
    assert w.take() == []
    ledger(db)


def test_a_ready_job_that_was_left_by_a_claim_is_updated(db, worker):  # noqa: F811
    """The cursor of the lane has stored it, with its old xid."""
    w = worker()
    jobs = [defer(db, key=f"k{n}") for n in range(5)]
    taken = ids(w.take(1, window=5))
    left = [j for j in jobs if j not in taken]
    for n, job in enumerate(jobs):
        if job in left:
            assert defer(db, key=f"k{n}", params={"new": n}, on_duplicate="update") == job
    again = w.take(10)
    assert ids(sorted(again, key=lambda j: j.id)) == left and all("new" in j.params for j in again)
    ledger(db)


@pytest.mark.parametrize("how", ["free", "limited"])
@pytest.mark.parametrize("on_duplicate", ["replace", "update"])
@pytest.mark.parametrize("kind", ["end", "10min"])
def test_a_claimed_job_is_not_updated(db, worker, how, on_duplicate, kind):  # noqa: F811
    if how == "limited":
        db.sql("insert into deferred.__deferred_function (name, max_running) values ('f', 5)")
    w, first = worker(), defer(db, key_until=kind)
    (job,) = w.take() if how == "free" else take_limited(w)
    said = {"replace": "replaced", "update": "updated"}[on_duplicate]
    with pytest.raises(psycopg2.Error, match=f"job {first} with key 'k' is running and cannot be {said}") as e:
        defer(db, on_duplicate=on_duplicate)
    assert e.value.pgcode == "55006"
    assert w.finish(job) == {first}
    w.commit()
    ledger(db)


def test_an_update_waits_for_a_claim_under_way(db, worker):  # noqa: F811
    w, first = worker(), defer(db)
    assert ids(w.claim()) == [first]
    with producers(db, 1) as [p]:
        update = p.start(on_duplicate="update")
        wait_for(lambda: p.waits(db))
        w.commit()
        with pytest.raises(psycopg2.Error, match="is running and cannot be updated"):
            update.result()


def test_a_claim_takes_no_job_that_is_being_updated(db, worker):  # noqa: F811
    w, first = worker(), defer(db)
    with producers(db, 1) as [p]:
        assert p.defer(on_duplicate="update", delay="1h") == first
        assert w.take() == []
        p.connection.commit()
    assert w.take() == [] and row(db, first)[-1] == "delayed"


def test_two_updates_at_once_leave_the_later_one(db):
    first = defer(db)
    with producers(db, 2) as (p, q):
        assert p.defer(on_duplicate="update", label="p") == first
        other = q.start(on_duplicate="update", label="q")
        wait_for(lambda: q.waits(db))
        p.connection.commit()
        assert other.result() == first
        q.connection.commit()
    assert row(db, first)[1] == "q"


def test_an_update_cannot_change_the_function(db):
    first = defer(db)
    with pytest.raises(psycopg2.Error, match=f"job {first} with key 'k' calls function 'f' and cannot be") as e:
        defer(db, fn="g", on_duplicate="update")
    assert e.value.pgcode == "22023"


def test_an_update_of_a_job_that_waits_for_others(db, worker):  # noqa: F811
    w, parent = worker(), db.defer("p")
    first = defer(db, after=[parent])
    db.sql("select deferred.__settle(1000)")
    assert defer(db, params={"n": 2}, delay="1h", on_duplicate="update") == first
    assert db.one("select state from deferred.job where id = %s", first) == "waiting"
    w.finish(*w.take())
    w.commit()
    db.sql("select deferred.__settle(1000)")
    assert row(db, first)[0] == {"n": 2} and row(db, first)[-1] == "delayed"
    ledger(db)


def test_an_update_of_a_message(db):
    defer_message = "select deferred.defer(null, %s, %s::json)"
    opts = {"queue": "m", "key": "k", "on_duplicate": "update"}
    first = db.one(defer_message, '{"n": 1}', json.dumps(opts))
    assert db.one(defer_message, '{"n": 2}', json.dumps({**opts, "delay": "1h"})) == first
    assert db.sql("select * from deferred.claim('m')") == []
    assert db.one(defer_message, '{"n": 3}', json.dumps(opts)) == first
    job, receipt, params = db.sql("select id, receipt, params from deferred.claim('m')")[0]
    assert (job, params) == (first, {"n": 3})
    with pytest.raises(psycopg2.Error, match="is running and cannot be updated"):
        db.one(defer_message, "{}", json.dumps(opts))
    db.sql("select deferred.finish(%s, %s)", job, receipt)


def test_an_update_of_an_expired_job_is_a_new_job(db):
    first = defer(db, expires="1h")
    db.sql("update deferred.__deferred_hot set expires_at = clock_timestamp() - interval '1 s'")
    second = defer(db, on_duplicate="update")
    assert second > first and db.log(first) == [(0, "expired")] and open_jobs(db) == [second]


def test_an_update_in_many(db):
    first = defer(db)
    jobs = [{"fn": "f", "key": "k", "on_duplicate": "update", "label": str(n), "key_until": "start"} for n in range(3)]
    assert db.sql("select deferred.defer_many(%s)", json.dumps(jobs)) == [(first,)] * 3
    assert row(db, first)[1] == "2"


# ---- values


@pytest.mark.parametrize("value", ["", "0", "0s", "-1s", "never", "start ", "36526d"])
def test_a_wrong_value_is_refused(db, value):
    with pytest.raises(psycopg2.Error, match="option 'key_until'") as e:
        defer(db, key_until=value)
    assert e.value.pgcode == "22023"


@pytest.mark.parametrize(
    "way", ["defer('f', '{}', %s)", "defer_many(json_build_array(%s::jsonb || '{\"fn\": \"f\"}'))"]
)
def test_a_key_is_needed(db, way):
    with pytest.raises(psycopg2.Error, match="option 'key_until' is given, but 'key' is missing") as e:
        db.sql(f"select deferred.{way}", '{"key_until": "start"}')
    assert e.value.pgcode == "22023"


# ---- rules


def add_rule(db, query="select 'k' || i as k from generate_series(1, 3) i", **opts):
    db.sql("select deferred.__rule_add('r', %s, 'noop', '{}', 'k', null, null, %s, 60000, '')", query, json.dumps(opts))


def run_rule(db):
    done = db.run(["deferred", "rule", "run", "r", "--json"])
    assert done.returncode == 0, done
    (said,) = json.loads(done.stdout)
    return said["queued"], said["skipped"]


def test_a_rule_comes_back_to_a_row_after_a_span(db, worker):  # noqa: F811
    w = worker()
    add_rule(db, key_until="1h")
    assert run_rule(db) == (3, 0) and run_rule(db) == (0, 3) and keys(db) == 3
    w.finish(*w.take())
    w.commit()
    assert run_rule(db) == (0, 3)
    db.sql("update deferred.__deferred_key set key_until_ms = 1")
    wait_for(lambda: run_rule(db) == (3, 0))
    assert keys(db) == 3
    ledger(db)
    db.sql("delete from deferred.__deferred_rule")


def test_a_rule_respects_keys_of_other_kinds(db, worker):  # noqa: F811
    w = worker()
    add_rule(db)
    defer(db, key="k1", key_until="start")
    defer(db, key="k2", key_until="1h")
    running = w.take()
    assert run_rule(db) == (1, 2), "a job that has given its key up is skipped until it has ended"
    w.finish(*running)
    w.commit()
    assert run_rule(db) == (1, 2)
    assert db.sql("select key from deferred.job where state = 'ready' order by key") == [("k1",), ("k3",)]
    ledger(db)
    db.sql("delete from deferred.__deferred_rule")


def test_a_rule_that_meets_the_first_such_key_is_run_again(db):
    add_rule(db)
    with producers(db, 1) as [p]:
        p.defer(key="k1")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            run = pool.submit(db.run, ["deferred", "rule", "run", "r"])
            wait_for(lambda: db.one(WAITING) == 1)
            first = defer(db, key="k0", key_until="start")
            p.connection.rollback()
            done = run.result()
    assert done.returncode != 0 and "run the rule again" in done.stderr
    assert open_jobs(db) == [first] and run_rule(db) == (3, 0)
    ledger(db)
    db.sql("delete from deferred.__deferred_rule")


def test_a_rule_takes_no_key_until_start(db):
    with pytest.raises(psycopg2.Error, match="rule 'r': option 'key_until' has the invalid value 'start'"):
        add_rule(db, key_until="start")


# ---- 8 producers and 4 workers on 50 keys

STORM_KEYS, STORM_CALLS = 50, 250


def produce(db, seed, kind, answers):
    """Calls of one producer: with each way of treating a duplicate, some of them rolled back."""
    draw = random.Random(seed)
    connection = db.connect()
    cursor = connection.cursor()
    for _ in range(STORM_CALLS):
        opts = {
            "key": str(draw.randrange(STORM_KEYS)),
            "on_duplicate": draw.choice(["skip", "error", "replace", "update"]),
            "key_until": kind(draw),
        }
        if draw.random() < 0.2:
            opts["delay"] = "1ms"
        try:
            cursor.execute("select deferred.defer('f', '{}', %s::json)", (json.dumps(opts),))
            answers.append(cursor.fetchone()[0])
        except psycopg2.Error as e:
            answers.append(e.pgcode)
            assert e.pgcode in ("23505", "55006"), str(e)
            assert " job " in f" {e.diag.message_primary}"
            connection.rollback()
        connection.rollback() if draw.random() < 0.1 else connection.commit()
    connection.close()


def patiently(w, call):
    """A producer that replaces locks the row of a job for a moment, until it has seen that the job runs."""
    while True:
        try:
            done = call()
            w.commit()
            return done
        except pgerror.LockNotAvailable:
            w.rollback()


def consume(w, seed, over):
    draw = random.Random(seed)
    while not over.is_set():
        patiently(w, lambda: w.ask("job_promote", 1000, "-infinity"))
        for job in patiently(w, lambda: w.claim(draw.randrange(1, 8))):
            done = w.finish if draw.random() < 0.9 else w.retry
            assert patiently(w, lambda: done(job)) == {job.id}


HELD = """
with j as (select d.key, d.key_until_ms, h.attempt = 0 and not deferred.__is_claimed(h) as fresh
           from deferred.__deferred_hot h join deferred.__deferred d using (id))
select count(*) from (select key from j where key_until_ms is distinct from 0 or fresh
                      group by key having count(*) > 1) x"""


@pytest.mark.parametrize(
    "kind",
    [lambda draw: "end", lambda draw: "start", lambda draw: "20ms", lambda draw: draw.choice(["end", "start", "20ms"])],
    ids=["end", "start", "span", "mixed"],
)
def test_producers_and_workers_at_few_keys(db, worker, kind):  # noqa: F811
    answers, over = [], threading.Event()
    workers = [worker() for _ in range(4)]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        consumers = [pool.submit(consume, w, n, over) for n, w in enumerate(workers)]
        them = [pool.submit(produce, db, n, kind, answers) for n in range(8)]
        try:
            while not all(t.done() for t in them):
                assert db.one(HELD) == 0
                assert [c.result() for c in consumers if c.done()] == []
            assert [t.result() for t in them] == [None] * 8
            wait_for(lambda: db.one("select count(*) from deferred.__deferred_hot") == 0, 60)
        finally:
            over.set()
        assert [c.result() for c in consumers] == [None] * 4
    assert len(answers) == 8 * STORM_CALLS and None not in answers
    # No job was deferred within the span after the end of another one, except in place of that one.
    assert (
        db.sql(
            """
        with j as (select d.id, d.key, d.key_until_ms, d.created_at, e.finished_at, e.outcome
                   from deferred.__deferred d join deferred.__deferred_log e on e.job_id = d.id and e.final)
        select a.id, b.id from j a join j b on b.key = a.key and b.id > a.id
        where a.key_until_ms > 0 and a.outcome <> 'cancelled' and b.created_at > a.finished_at
          and b.created_at < a.finished_at + a.key_until_ms * interval '1 millisecond' limit 3"""
        )
        == []
    )
    ledger(db)
