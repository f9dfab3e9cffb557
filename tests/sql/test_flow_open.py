"""Flows to which jobs are added until they have ended: deferred.flow_open(), option "flow", deferred.flow_close().

At the end random ones, from several sessions whose transactions stay open, beside a model.
DEFERRED_TEST_SEED repeats a run."""

import json
import os
import random

import psycopg2.errors as pgerror
import pytest

from test_waits import clean, end, settle, states

ALL = {"then": [{"fn": "ok", "name": "well"}, {"fn": "failed", "on": "failed"}, {"fn": "ended", "on": "ended"}]}


def open_flow(db, flow=ALL):
    return db.one("select deferred.flow_open(%s)", json.dumps(flow))


def add(db, flow, **opts):
    return db.defer("a", flow=flow, **opts)


def close(db, flow):
    return db.one("select deferred.flow_close(%s)", flow)


def callbacks(db, flow):
    """The state of each by the name of its function."""
    return dict(
        db.sql(
            "select j.fn, j.state from deferred.__deferred_member m join deferred.job j on j.id = m.job "
            "where m.flow = %s and m.part = 't'",
            flow,
        )
    )


def is_open(db, flow):
    return db.one("select exists (select from deferred.__deferred_flow_open where flow = %s)", flow)


def told(db):
    """Until nothing is left to be told but what is put off for a transaction that is open."""
    for _ in range(20):
        db.sql("update deferred.__deferred_ended set not_before = '-infinity' where late")
        if db.one("select deferred.__settle(1000)") == 0:
            return


def test_a_flow_ends_when_it_is_closed_and_its_jobs_have_ended(db):
    flow = open_flow(db)
    first, second = add(db, flow), add(db, flow, delay="1h")
    end(db, first)
    settle(db)
    assert callbacks(db, flow) == {} and is_open(db, flow)
    assert close(db, flow) is True and close(db, flow) is False
    assert callbacks(db, flow) == {"ok": "waiting", "failed": "waiting", "ended": "waiting"}
    clean(db)
    settle(db)
    clean(db)
    third = add(db, flow)  # a job that was going on as it was closed adds another one
    end(db, second)
    settle(db)
    assert set(callbacks(db, flow).values()) == {"waiting"}
    end(db, third)
    clean(db)
    settle(db)
    clean(db)
    assert callbacks(db, flow) == {"ok": "ready", "failed": "cancelled", "ended": "ready"}
    assert (
        db.one(
            "select error from deferred.__deferred_log l join deferred.__deferred d on d.id = l.job_id "
            "where d.fn = 'failed'"
        )
        == "skipped: not needed, for no job of its flow failed"
    )
    assert db.one("select jobs from deferred.__deferred_flow where id = %s", flow) == 6
    assert [row[0] for row in db.sql("select name from deferred.flow_jobs(%s)", flow)] == [
        None,
        None,
        "well",
        None,
        None,
        None,
    ]
    with pytest.raises(pgerror.ObjectNotInPrerequisiteState, match=f"flow {flow} is closed for new jobs: it has ended"):
        add(db, flow)


@pytest.mark.parametrize("how", ("failed", "cancelled"))
def test_a_failure_is_known_at_the_end(db, how):
    flow = open_flow(db)
    first = add(db, flow)
    second = add(db, flow, after=first)
    close(db, flow)
    settle(db)
    if how == "cancelled":
        db.sql("select deferred.cancel(%s)", first)
    else:
        end(db, first, "failed")
    settle(db)
    assert states(db, second) == ["cancelled"]
    assert callbacks(db, flow) == {"ok": "cancelled", "failed": "ready", "ended": "ready"}
    assert (
        db.one(
            "select error from deferred.__deferred_log l join deferred.__deferred d on d.id = l.job_id "
            "where d.fn = 'ok'"
        )
        == f"skipped: job {first}, for which it waited, did not end as it must have"
    )
    clean(db)


def test_a_flow_may_begin_with_jobs_and_without_callbacks(db):
    flow = open_flow(db, {"label": "l", "jobs": [{"name": "x", "fn": "a"}, {"fn": "b", "after": "x"}]})
    x, y = (row[0] for row in db.sql("select id from deferred.flow_jobs(%s)", flow))
    more = add(db, x)  # a job stands for its flow
    assert db.one("select flow from deferred.__deferred_member where job = %s", more) == flow
    close(db, flow)
    for job in (x, y, more):
        settle(db)
        end(db, job)
    settle(db)
    assert not is_open(db, flow) and db.one("select jobs from deferred.__deferred_flow where id = %s", flow) == 3
    # One without any ends at once.
    flow = open_flow(db)
    close(db, flow)
    settle(db)
    assert callbacks(db, flow) == {"ok": "ready", "failed": "cancelled", "ended": "ready"}
    clean(db)


def test_many_are_added_by_one_statement(db):
    flow = open_flow(db)
    kept = db.defer("a", key="k")
    jobs = [{"fn": "a", "flow": flow, "key": f"k{n % 90}" if n % 2 else None} for n in range(100)] + [
        {"fn": "a", "flow": flow, "key": "k"}
    ]
    jobs = [{name: value for name, value in job.items() if value is not None} for job in jobs]
    ids = [row[0] for row in db.sql("select deferred.defer_many(%s)", json.dumps(jobs))]
    assert ids[-1] == kept
    plain = [row[0] for row in db.sql("select deferred.defer_many(%s)", json.dumps([{"fn": "a", "flow": flow}] * 3))]
    mixed = [
        row[0]
        for row in db.sql(
            "select deferred.defer_many(%s)",
            json.dumps([{"fn": "a"}, {"fn": "a", "flow": flow}, {"fn": "a", "flow": flow, "after": kept}]),
        )
    ]
    # A name is what JSON reads, however it is written.
    sly = [row[0] for row in db.sql("select deferred.defer_many(%s)", f'[{{"fn": "a", "fl\\u006fw": {flow}}}]')]
    members = {row[0] for row in db.sql("select job from deferred.__deferred_member where flow = %s", flow)}
    assert members == set(ids[:-1]) | set(plain) | set(mixed[1:]) | set(sly)
    close(db, flow)
    for job in members:
        db.sql("select deferred.cancel(%s)", job)
    settle(db, 7)
    assert callbacks(db, flow)["failed"] == "ready"
    clean(db)


def test_what_is_wrong_is_refused(db):
    whole = db.one("select deferred.defer_flow(%s)", json.dumps({"jobs": [{"fn": "a"}]}))
    other = open_flow(db)
    db.sql("select deferred.flow_cancel(%s)", other)
    for flow, why in (
        (10**7, "flow 10000000 does not exist"),
        (whole, "it was deferred as a whole"),
        (whole + 1, "it was deferred as a whole"),
        (other, "it was cancelled"),
    ):
        with pytest.raises((pgerror.NoDataFound, pgerror.ObjectNotInPrerequisiteState), match=why):
            add(db, flow)
        with pytest.raises((pgerror.NoDataFound, pgerror.ObjectNotInPrerequisiteState), match=why):
            db.sql("select deferred.defer_many(%s)", json.dumps([{"fn": "a", "flow": flow}]))
    for value in ("x", -1, 0, True, "1 or 2", [1]):
        with pytest.raises(pgerror.InvalidParameterValue, match="option 'flow' is not the number of a flow"):
            add(db, value)
        with pytest.raises(pgerror.InvalidParameterValue, match="option 'flow' is not the number of a flow"):
            db.sql("select deferred.defer_many(%s)", json.dumps([{"fn": "a", "flow": value}]))
    flow = open_flow(db)
    with pytest.raises(pgerror.InvalidParameterValue, match="a message"):
        db.one("select deferred.defer(null, '{}', %s)", json.dumps({"flow": flow, "queue": "default"}))
    for wrong, why in (
        ([], "a flow must be a JSON object, but a JSON array was given"),
        ({"jobs": []}, "'jobs' is empty"),
        ({"then": [{"fn": "a", "oops": 1}]}, "option 'oops' is unknown"),
        ({"then": [{"fn": "a", "timeout": "x"}]}, "timeout"),
        ({"jobs": [{"fn": "a", "flow": 1}]}, "has the option 'flow'"),
        ({"then": 1}, "'then' must be a JSON array"),
    ):
        with pytest.raises(pgerror.InvalidParameterValue, match=why):
            open_flow(db, wrong)
    with pytest.raises(pgerror.NoDataFound, match="flow 77 does not exist"):
        close(db, 77)
    assert db.one("select count(*) from deferred.__deferred where fn = 'ok'") == 0, "trying callbacks leaves none"


def test_others_neither_add_to_it_nor_close_it(db):
    flow = open_flow(db)
    db.sql("create role flow_stranger in role deferred_producer")
    with db.connect(options="-c role=flow_stranger") as stranger, stranger.cursor() as cursor:
        for statement in (
            f"select deferred.defer('a', '{{}}', '{{\"flow\": {flow}}}')",
            f"select deferred.flow_close({flow})",
            f"select deferred.__flow_join({flow})",
            f"select deferred.__flow_add({flow}, 0, array[1::bigint])",
            f"select deferred.flow_cancel({flow})",
        ):
            with pytest.raises(pgerror.NoDataFound, match=f"flow {flow} does not exist"):
                cursor.execute(statement)
            stranger.rollback()
        # Nor does he get hold of jobs of others for a flow of his own.
        mine = db.defer("a")
        cursor.execute("select deferred.flow_open()")
        cursor.execute("select deferred.__flow_add(%s, 0, array[%s::bigint])", (cursor.fetchone()[0], mine))
        stranger.commit()
        assert db.one("select count(*) from deferred.__deferred_member where job = %s", mine) == 0
    with db.connect(options="-c role=deferred_producer") as producer, producer.cursor() as cursor:
        with pytest.raises(pgerror.InsufficientPrivilege):
            cursor.execute("select deferred.__flow_end(%s, 1)", (flow,))
    db.sql("drop owned by flow_stranger; drop role flow_stranger")


def test_no_two_wait_for_each_other(db):
    flow = open_flow(db)
    old = db.defer("old")
    first = add(db, flow)
    close(db, flow)
    report = db.one(
        "select job from deferred.__deferred_member where flow = %s and part = 't' order by job limit 1", flow
    )
    behind = db.defer("b", after=report)
    for parent in (report, behind):
        with pytest.raises(
            pgerror.InvalidParameterValue, match=f"job {parent} was deferred after flow {flow} was closed"
        ):
            add(db, flow, after=parent)
    second = add(db, flow, after=[old, first])
    third = add(db, flow, after={"job": second, "on": "ended"})
    assert db.sql("select part from deferred.__deferred_member where job in (%s, %s) order by job", second, third) == [
        (None,),
        ("s",),
    ]
    for job in (old, first, second, third):
        end(db, job)
        settle(db)
    assert states(db, report) == ["ready"]
    end(db, report)
    settle(db)
    assert states(db, behind) == ["ready"]
    clean(db)


def test_a_transaction_that_adds_holds_the_end_and_nobody_else(db):
    flow, other = open_flow(db), open_flow(db)
    first = add(db, flow)
    with db.connect() as adder, adder.cursor() as cursor:
        cursor.execute("select deferred.defer('late', '{}', %s)", (json.dumps({"flow": flow}),))
        late = cursor.fetchone()[0]
        db.sql("set lock_timeout = '2s'")
        second = add(db, flow)
        assert close(db, flow) is True, "nor does who closes it wait"
        close(db, other)
        end(db, first)
        end(db, second)
        told(db)
        assert set(callbacks(db, flow).values()) == {"waiting"} and callbacks(db, other)["ok"] == "ready"
        clean(db)
        adder.commit()
    told(db)
    assert set(callbacks(db, flow).values()) == {"waiting"}, "it was added before"
    end(db, late)
    settle(db)
    assert callbacks(db, flow)["ok"] == "ready"
    clean(db)


def test_who_reads_an_old_state_does_not_add_to_one_that_has_ended(db):
    flow = open_flow(db)
    with db.connect(options="-c default_transaction_isolation=repeatable\\ read") as old, old.cursor() as cursor:
        cursor.execute("select count(*) from pg_class")
        close(db, flow)
        settle(db)
        with pytest.raises((pgerror.SerializationFailure, pgerror.ObjectNotInPrerequisiteState)):
            cursor.execute("select deferred.defer('late', '{}', %s)", (json.dumps({"flow": flow}),))
        old.rollback()


def test_one_whose_row_is_locked_is_waited_for_without_a_lock(db):
    flow = open_flow(db)
    job = add(db, flow)
    close(db, flow)
    with db.connect() as holder, holder.cursor() as cursor:
        cursor.execute("select from deferred.__deferred_hot where id = %s for update", (job,))
        db.sql("set lock_timeout = '2s'")
        told(db)
        clean(db)
        cursor.execute("delete from deferred.__deferred_hot where id = %s", (job,))
        cursor.execute(
            "insert into deferred.__deferred_log (job_id, attempt, outcome, final) values (%s, 1, 'ok', true)", (job,)
        )
        holder.commit()
    settle(db)
    assert callbacks(db, flow)["ok"] == "ready"
    clean(db)


def test_the_first_failure_has_the_rest_cancelled_and_later_ones_refused(db):
    flow = open_flow(db, {**ALL, "on_failure": "cancel"})
    first, second = add(db, flow), add(db, flow)
    with db.connect() as adder, adder.cursor() as cursor:
        cursor.execute("select deferred.defer('late', '{}', %s)", (json.dumps({"flow": flow}),))
        late = cursor.fetchone()[0]
        end(db, first, "failed")
        told(db)
        assert states(db, second) == ["cancelled"]
        with pytest.raises(
            pgerror.ObjectNotInPrerequisiteState, match=f"it is being cancelled because job {first} failed"
        ):
            add(db, flow)
        adder.commit()
    assert states(db, late) == ["ready"]
    close(db, flow)
    settle(db)
    assert states(db, late) == ["cancelled"] and callbacks(db, flow) == {
        "ok": "cancelled",
        "failed": "ready",
        "ended": "ready",
    }
    clean(db)


def test_a_cancelled_one_takes_no_more_and_has_no_callbacks(db):
    flow = open_flow(db)
    first = add(db, flow)
    with db.connect() as adder, adder.cursor() as cursor:
        cursor.execute("select deferred.defer('late', '{}', %s)", (json.dumps({"flow": flow}),))
        late = cursor.fetchone()[0]
        assert db.sql("select cancelled, next from deferred.flow_cancel(%s)", flow) == [(1, None)]
        adder.commit()
    settle(db)
    assert states(db, first, late) == ["cancelled", "cancelled"] and callbacks(db, flow) == {} and not is_open(db, flow)
    assert close(db, flow) is False
    # One that is closed, with its callbacks.
    flow = open_flow(db)
    add(db, flow)
    close(db, flow)
    assert db.sql("select cancelled from deferred.flow_cancel(%s)", flow) == [(4,)]
    settle(db)
    assert set(callbacks(db, flow).values()) == {"cancelled"} and not is_open(db, flow)
    clean(db)


def test_what_is_retried_ends_anew(db):
    flow = open_flow(db)
    first, second = add(db, flow), add(db, flow)
    close(db, flow)
    end(db, first, "failed")
    end(db, second)
    settle(db)
    assert callbacks(db, flow) == {"ok": "cancelled", "failed": "ready", "ended": "ready"}
    for fn in ("failed", "ended"):
        end(db, db.one("select id from deferred.__deferred where fn = %s", fn))
    db.sql("select deferred.flow_retry(%s)", flow)
    while db.one("select deferred.__flow_retry_some()"):
        clean(db)
    settle(db)
    assert states(db, first) == ["ready"] and callbacks(db, flow) == {
        "ok": "waiting",
        "failed": "done",
        "ended": "done",
    }
    clean(db)
    more = add(db, flow)
    end(db, first)
    settle(db)
    end(db, more)
    settle(db)
    assert callbacks(db, flow) == {"ok": "ready", "failed": "done", "ended": "done"}
    assert db.one("select jobs from deferred.__deferred_flow where id = %s", flow) == 6
    clean(db)


def test_a_callback_whose_key_is_taken_is_refused_by_a_retry_which_says_so(db):
    flow = open_flow(db, {"then": [{"fn": "ok", "key": "k"}]})
    job = add(db, flow)
    close(db, flow)
    callback = db.one("select max(job) from deferred.__deferred_member")
    end(db, job, "failed")
    settle(db)
    taken = db.defer("other", key="k")
    db.sql("select deferred.flow_retry(%s)", flow)
    db.sql("select deferred.__flow_retry_some()")
    assert db.sql("select ready, waiting, refused, why from deferred.__deferred_flow_retry") == [
        (1, 0, 1, f"job {callback} cannot be retried: key 'k' is in use by job {taken}")
    ]
    end(db, job)
    settle(db)
    assert callbacks(db, flow) == {"ok": "cancelled"} and not is_open(db, flow)
    clean(db)


def test_jobs_are_gone_through_once_some_a_call(db):
    flow = open_flow(db)
    jobs = [row[0] for row in db.sql("select deferred.defer_many(%s)", json.dumps([{"fn": "a", "flow": flow}] * 500))]
    close(db, flow)
    for job in jobs[:300]:
        end(db, job)
    settle(db, 20)
    assert db.sql("select upto, jobs, waits_for from deferred.__deferred_flow_open") == [(jobs[299], 300, jobs[300])]
    db.sql(
        "update deferred.__deferred_log set outcome = 'failed' where job_id = %s", jobs[0]
    )  # nobody looks there again
    for job in reversed(jobs[300:]):
        end(db, job)
    assert db.one("select count(*) from deferred.__deferred_ended") == 1, "an end nobody waits for says nothing"
    settle(db, 20)
    assert callbacks(db, flow)["ok"] == "ready"
    clean(db)


def test_purge_leaves_it_as_long_as_any_other(db):
    flow, other = open_flow(db), open_flow(db)
    job = add(db, other)
    db.sql("update deferred.__deferred_flow set created_at = now() - interval '1 year'")
    for _ in range(2):
        db.sql("select * from deferred.__purge_orphans('1 month', 0, 1000)")
    assert not is_open(db, flow) and is_open(db, other)
    assert [row[0] for row in db.sql("select id from deferred.__deferred_flow")] == [other]
    close(db, other)
    end(db, job)
    settle(db)
    clean(db)


def test_random_ones_end_once_when_all_of_them_have(db, seed):
    """Jobs are added by three sessions whose transactions stay open or are rolled back, while
    others end and notes are told by tiny budgets."""
    rng = random.Random(seed)
    sessions = [db.connect() for _ in range(3)]
    for _ in range(int(os.environ.get("DEFERRED_TEST_FLOWS", "4"))):
        flow = open_flow(db)
        added, pending, closed = {}, {s: [] for s in sessions}, False
        for _ in range(120):
            what = rng.random()
            if what < 0.35:
                session = rng.choice(sessions)
                with session.cursor() as cursor:
                    cursor.execute("select deferred.defer('a', '{}', %s)", (json.dumps({"flow": flow}),))
                    pending[session].append(cursor.fetchone()[0])
            elif what < 0.55:
                session = rng.choice(sessions)
                if rng.random() < 0.7:
                    session.commit()
                    added.update((job, None) for job in pending[session])
                else:
                    session.rollback()
                pending[session].clear()
            elif what < 0.75 and [job for job in added if not added[job]]:
                job = rng.choice([job for job in added if not added[job]])
                added[job] = rng.choice(("ok", "ok", "ok", "ok", "failed"))
                end(db, job, added[job])
            elif what < 0.8 and not closed and rng.random() < 0.5:
                closed = close(db, flow)
            else:
                undone = rng.random() < 0.2
                if undone:
                    db.sql("begin")
                db.sql("update deferred.__deferred_ended set not_before = '-infinity' where late")
                db.sql("select deferred.__settle(%s)", rng.choice((1, 2, 5, 50)))
                if undone:
                    db.sql("rollback")
            if not is_open(db, flow):
                break
            clean(db)
        if is_open(db, flow):
            for session in sessions:
                session.commit()
                added.update((job, None) for job in pending[session])
                pending[session].clear()
            if not closed:
                close(db, flow)
            for job in added:
                if not added[job]:
                    settle(db, 1)
                    assert set(callbacks(db, flow).values()) == {"waiting"}
                    added[job] = "ok"
                    end(db, job)
            settle(db, 1)
        assert not any(pending.values()) and all(added.values()), "it had not ended while a job had not, or could come"
        failed = "failed" in added.values()
        assert callbacks(db, flow) == {
            "ok": "cancelled" if failed else "ready",
            "failed": "ready" if failed else "cancelled",
            "ended": "ready",
        }
        assert db.one("select count(*) from deferred.__deferred_member where flow = %s", flow) == len(added) + 3
        clean(db)
    for session in sessions:
        session.close()
