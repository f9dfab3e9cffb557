"""Flows that are begun again: deferred.flow_retry()."""

import psycopg2.errors as pgerror
import pytest

from test_defer_flow import defer_flow, members, step
from test_waits import clean, end, settle, states


def told(db, flow):
    return db.sql(
        "select ready::int, waiting::int, refused::int, why from deferred.__deferred_flow_retry where flow = %s "
        "order by n desc limit 1",
        flow,
    )[0]


def retry(db, flow):
    """Wanted, and done by a worker. How many are ready, wait and were refused, and why."""
    assert db.one("select deferred.flow_retry(%s)", flow)
    while db.one("select deferred.__flow_retry_some()"):
        pass
    assert db.one("select count(*) from deferred.__deferred_flow_retry where ended_at is null") == 0
    return told(db, flow)


def test_what_failed_is_run_and_what_was_skipped_waits(db):
    flow = defer_flow(
        db, {"jobs": [step("a"), step("b", "a"), step("c", "b"), step("undo", {"job": "a", "on": "failed"}), step("d")]}
    )
    a, b, c, undo, d = members(db, flow)
    end(db, a, "failed")
    end(db, d)
    settle(db)
    end(db, undo)
    settle(db)
    assert states(db, a, b, c, undo, d) == ["dead", "cancelled", "cancelled", "done", "done"]
    assert retry(db, flow) == (1, 2, 0, None)
    clean(db)
    assert states(db, a, b, c, undo, d) == ["ready", "waiting", "waiting", "done", "done"]
    assert retry(db, flow) == (0, 0, 0, None), "again: nothing is left to do"
    settle(db)
    clean(db)
    for job in (a, b, c):
        assert states(db, job) == ["ready"]
        end(db, job)
        settle(db)
    assert db.hot() == 0 and db.one("select count(*) from deferred.__deferred_wait") == 0
    clean(db)


def test_an_end_that_was_not_told_yet_is_void(db):
    """Told to nobody, or to some: whoever is left waits for the new one."""
    for most in (0, 2, 4):
        flow = defer_flow(db, {"jobs": [step("a"), *[step(f"b{n}", "a") for n in range(5)]], "then": [{"fn": "well"}]})
        a, *rest = jobs = members(db, flow)
        outside = db.defer("o", after=a)
        settle(db)
        end(db, a, "failed")
        if most:
            db.sql("select deferred.__settle(%s)", most)
        assert retry(db, flow)[0] == 1
        clean(db)
        settle(db)
        clean(db)
        assert states(db, *jobs, outside) == ["ready"] + ["waiting"] * 7
        end(db, a)
        settle(db)
        assert states(db, *rest[:5], outside) == ["ready"] * 6
        for job in rest[:5]:
            end(db, job)
        settle(db)
        assert states(db, rest[5]) == ["ready"]
        clean(db)


def test_one_that_was_cancelled_while_it_waited_waits_again(db):
    flow = defer_flow(db, {"jobs": [step("a"), step("b", "a"), step("c", "b")], "then": [{"fn": "t", "on": "ended"}]})
    a, b, c, then = jobs = members(db, flow)
    db.sql("select deferred.flow_cancel(%s)", flow)
    assert retry(db, flow) == (1, 3, 0, None)
    settle(db)
    clean(db)
    assert states(db, *jobs) == ["ready", "waiting", "waiting", "waiting"]
    end(db, a)
    settle(db)
    end(db, b, "failed")
    settle(db)
    assert states(db, c, then) == ["cancelled", "ready"]
    assert retry(db, flow) == (1, 1, 0, None)
    assert states(db, a, b, c, then) == ["done", "ready", "waiting", "ready"], "what was ready is run"
    settle(db)
    clean(db)


def test_what_waits_for_a_job_that_was_retried_by_hand_is_told_what_became_of_it(db):
    flow = defer_flow(db, {"jobs": [step("a"), step("b", "a"), step("undo", {"job": "a", "on": "failed"})]})
    a, b, undo = members(db, flow)
    end(db, a, "failed")
    settle(db)
    end(db, undo, "failed")
    db.sql("select deferred.retry(%s)", a)
    assert retry(db, flow) == (0, 2, 0, None), "the undo step too: what it undoes is run"
    settle(db)
    clean(db)
    end(db, a)
    settle(db)
    assert states(db, a, b, undo) == ["done", "ready", "cancelled"]
    clean(db)


def test_callbacks_that_ran_do_not_run_again_and_others_do(db):
    flow = defer_flow(
        db,
        {
            "jobs": [step("a"), step("b")],
            "then": [{"fn": "well"}, {"fn": "badly", "on": "failed"}, {"fn": "report", "on": "ended"}],
        },
    )
    a, b, well, badly, report = members(db, flow)
    end(db, a, "failed")
    settle(db)
    assert states(db, well, badly, report) == ["cancelled", "waiting", "waiting"]
    # They know of a failure that is none any more.
    assert retry(db, flow) == (1, 1, 0, None)
    settle(db)
    clean(db)
    assert states(db, a, b, well, badly, report) == ["ready", "ready", "waiting", "waiting", "waiting"]
    end(db, a, "failed")
    end(db, b)
    settle(db)
    assert states(db, well, badly, report) == ["cancelled", "ready", "ready"]
    end(db, badly, "failed")
    end(db, report)
    assert retry(db, flow) == (1, 1, 0, None), "one that ran is not run again, though it failed"
    settle(db)
    end(db, a)
    settle(db)
    assert states(db, well, badly, report) == ["ready", "dead", "done"]
    clean(db)


def test_who_cannot_come_back_stays_and_the_answer_says_so(db):
    flow = defer_flow(db, {"jobs": [step("a", key="k"), step("b", "a"), step("c"), step("d")]})
    a, b, c, d = members(db, flow)
    for job in (a, c, d):
        end(db, job, "failed")
    settle(db)
    other = db.defer("f", key="k")
    db.sql("delete from deferred.__deferred_log where job_id = %s", d)
    assert retry(db, flow) == (1, 0, 2, f"job {a} cannot be retried: key 'k' is in use by job {other}")
    assert states(db, a, b, c) == ["dead", "cancelled", "ready"]
    assert db.one("select count(*) from deferred.__deferred_hot where id = %s", d) == 0
    end(db, other)
    assert retry(db, flow)[:3] == (1, 1, 1)
    assert states(db, a, b, c) == ["ready", "waiting", "ready"]
    settle(db)
    # One whose key somebody is just storing is not waited for long.
    end(db, a, "failed")
    with db.connect() as holder, holder.cursor() as cursor:
        cursor.execute("select deferred.defer('f', '{}'::json, '{\"key\": \"k\"}'::json)")
        ready, waiting, refused, why = retry(db, flow)
        assert refused == 2 and why.startswith(f"job {a}, or one with its key")
        holder.rollback()


def test_only_who_may_retries_a_flow_and_not_while_it_is_cancelled(db):
    flow = defer_flow(db, {"on_failure": "cancel", "jobs": [step(str(n)) for n in range(600)]})
    jobs = members(db, flow)
    with pytest.raises(pgerror.NoDataFound, match="flow 99999 does not exist"):
        retry(db, 99999)
    with db.connect(options="-c role=deferred_producer") as producer, producer.cursor() as cursor:
        with pytest.raises(pgerror.NoDataFound, match="does not exist"):
            cursor.execute("select deferred.flow_retry(%s)", (flow,))
        producer.rollback()
    end(db, jobs[3], "failed")
    db.sql("select deferred.__settle(100)")
    assert db.one("select deferred.flow_retry(%s)", flow) and not db.one(
        "select deferred.flow_retry(%s)", flow
    ), "once is enough"
    assert db.one("select deferred.__flow_retry_some()") == 0, "that comes first"
    settle(db)
    db.sql("update deferred.__deferred_flow_retry set not_before = '-infinity'")
    while db.one("select deferred.__flow_retry_some()"):
        pass
    assert told(db, flow) == (600, 0, 0, None)
    assert db.one("select failed from deferred.__deferred_flow where id = %s", flow) is None
    settle(db)
    clean(db)
    assert db.hot() == 600
    end(db, jobs[5], "failed")
    settle(db)
    assert (
        db.one("select failed from deferred.__deferred_flow where id = %s", flow) == jobs[5] and db.hot() == 0
    ), "the next failure counts"
    # One that nobody was told of before the retry does not.
    retry(db, flow)
    end(db, jobs[7], "failed")
    retry(db, flow)
    settle(db)
    assert db.hot() == 600
    clean(db)


def test_who_asks_holds_up_nobody_and_who_does_it_only_for_that_moment(db):
    flow = defer_flow(db, {"jobs": [step("a"), step("b", "a")]})
    a, b = members(db, flow)
    end(db, a, "failed")
    settle(db)
    first = db.defer("x")
    then = db.defer("y", after=first)
    settle(db)
    end(db, first)
    with db.connect() as one, one.cursor() as cursor:
        cursor.execute("select deferred.flow_retry(%s)", (flow,))
        settle(db)
        assert states(db, then, a, b) == ["ready", "dead", "cancelled"]
        end(db, then)
        one.commit()
        assert db.one("select deferred.__flow_retry_some()") == 1
    assert states(db, a, b) == ["ready", "waiting"]
    clean(db)
    # A worker that dies, or is slow, within a step.
    end(db, a, "failed")
    settle(db)
    first = db.defer("x")
    then = db.defer("y", after=first)
    settle(db)
    end(db, first)
    assert db.one("select deferred.flow_retry(%s)", flow)
    with db.connect() as one, one.cursor() as cursor:
        cursor.execute("select deferred.__flow_retry_some()")
        assert cursor.fetchone() == (1,)
        assert db.one("select deferred.__settle(100)") == 0 and states(db, then) == ["waiting"]
        assert db.sql("select dealt, wait_ms from deferred.__tick(10)") == [
            (0, 100)
        ], "nor is it looked at all the time"
        one.rollback()
    settle(db)
    assert states(db, then, a, b) == ["ready", "dead", "cancelled"], "who dies before he commits has retried nothing"
    assert db.one("select deferred.__flow_retry_some()") == 1 and states(db, a, b) == ["ready", "waiting"]
    # One who tells is waited for a moment, and the step is put off then.
    assert db.one("select deferred.flow_retry(%s)", flow)
    with db.connect() as one, one.cursor() as cursor:
        cursor.execute("lock table deferred.__deferred_ended_cursor in row share mode")
        assert db.one("select deferred.__flow_retry_some()") == 0
        assert db.one(
            "select not_before between clock_timestamp() and clock_timestamp() + interval '500 ms' "
            "from deferred.__deferred_flow_retry where ended_at is null"
        )
        one.rollback()
    clean(db)


def test_a_start_sees_that_a_flow_is_to_be_retried_and_purge_forgets_it(db):
    flow = defer_flow(db, {"jobs": [{"fn": "noop"}]})
    (job,) = members(db, flow)
    end(db, job, "failed")
    settle(db)
    db.run(["check_deferred"])
    assert db.one("select deferred.flow_retry(%s)", flow) and db.hot() == 0
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert db.log(job)[-1] == (2, "ok") and told(db, flow) == (1, 0, 0, None)
    db.sql(
        "update deferred.__deferred_log set finished_at = now() - interval '9 days'; update deferred.__deferred "
        "set created_at = now() - interval '9 days'"
    )
    db.sql("update deferred.__deferred_flow set created_at = now() - interval '9 days'")
    for _ in range(3):
        assert db.run(["deferred", "purge", "--older-than", "7d"]).returncode == 0
    assert (
        db.one("select count(*) from deferred.__deferred_flow")
        == 0
        == db.one("select count(*) from deferred.__deferred_flow_retry")
    )


@pytest.mark.slow
def test_a_large_flow_is_retried_in_steps(db):
    flow = defer_flow(
        db,
        {
            "jobs": [{"fn": "a"}] * 2500,
            "then": [{"fn": "all", "on": "ended"}, {"fn": "well"}, {"fn": "badly", "on": "failed"}],
        },
    )
    *jobs, all_, well, badly = members(db, flow)
    for job in jobs:
        end(db, job, "failed" if job % 2 else "ok")
    settle(db)
    end(db, badly)
    failed = len([job for job in jobs if job % 2])
    db.sql("select deferred.cancel(%s)", all_)
    assert db.one("select deferred.flow_retry(%s)", flow) and db.one("select deferred.__flow_retry_some()") == 1
    assert (
        db.one("select after from deferred.__deferred_flow_retry where ended_at is null") in jobs[:1000]
    ), "who dies here"
    clean(db)
    settle(db)
    clean(db)
    while db.one("select deferred.__flow_retry_some()"):
        pass
    assert told(db, flow) == (failed, 2, 0, None)
    assert (
        retry(db, flow) == (0, 0, 0, None) and db.one("select count(*) from deferred.__deferred_flow_retry") == 1
    ), "the last one is kept"
    clean(db)
    settle(db)
    assert states(db, all_, well, badly) == ["waiting", "waiting", "done"]
    for job in jobs:
        end(db, job)
    settle(db)
    assert states(db, all_, well) == ["ready", "ready"]
    clean(db)
