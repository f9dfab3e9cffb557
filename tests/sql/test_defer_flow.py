"""Flows: jobs that are deferred together, deferred.defer_flow()."""

import json

import psycopg2.errors as pgerror
import pytest

from test_waits import clean, end, settle, states

ORDER = {
    "label": "order 17",
    "jobs": [
        {"name": "pack", "fn": "pack", "params": {"a": 1}},
        {"name": "mail", "fn": "send_mail", "after": "pack", "queue": "mail", "delay": "1h"},
        {"name": "undo", "fn": "unpack", "after": ["pack", {"job": "mail", "on": "failed", "as": "the mail"}]},
    ],
    "then": [{"fn": "report", "on": "ended", "name": "report"}, {"fn": "thank"}],
}


def defer_flow(db, flow):
    return db.one("select deferred.defer_flow(%s)", json.dumps(flow))


def members(db, flow):
    return [row[0] for row in db.sql("select id from deferred.flow_jobs(%s)", flow)]


def test_a_flow_is_stored_as_a_whole_and_runs_in_its_order(db):
    flow = defer_flow(db, ORDER)
    pack, mail, undo, report, thank = members(db, flow)
    assert [row[0] for row in db.sql("select name from deferred.flow_jobs(%s)", flow)] == [
        "pack",
        "mail",
        "undo",
        "report",
        None,
    ]
    assert states(db, pack, mail, undo, report, thank) == ["ready", "waiting", "waiting", "waiting", "waiting"]
    assert db.one("select params::text from deferred.__deferred where id = %s", pack) == '{"a": 1}', "byte for byte"
    assert db.one("select count(*) from deferred.__deferred_ended") == 0, "nothing has to be linked"
    clean(db)
    end(db, pack)
    settle(db)
    assert states(db, mail, undo) == ["delayed", "waiting"]
    db.sql("select deferred.cancel(%s)", mail)
    settle(db)
    assert states(db, undo, report, thank) == ["ready", "waiting", "cancelled"]
    end(db, undo)
    settle(db, 2)
    assert states(db, report) == ["ready"]
    assert [row[0] for row in db.sql("select name from deferred.parents(%s)", report)] == ["pack", "mail", "undo"]
    assert [row[0] for row in db.sql("select name from deferred.parents(%s)", undo)] == ["pack", "the mail"]
    clean(db)
    # One from outside, that has ended.
    flow = defer_flow(
        db, {"jobs": [{"name": "a", "fn": "a"}, {"fn": "b", "after": [pack, "a"]}], "then": [{"fn": "c"}]}
    )
    a, b, c = members(db, flow)
    settle(db)
    assert states(db, a, b, c) == ["ready", "waiting", "waiting"]
    end(db, a)
    settle(db)
    assert states(db, b, c) == ["ready", "waiting"]
    end(db, b)
    settle(db)
    assert states(db, c) == ["ready"]
    clean(db)


def test_a_flow_that_is_wrong_is_refused_as_a_whole(db):
    key = db.defer("k", key="taken")
    db.sql("insert into deferred.__deferred_queue (name, max_length, on_full) values ('full', 1, 'drop')")

    def job(**more):
        return {"fn": "a", "name": "a", **more}

    wrong = {
        "a flow must be a JSON object, but a JSON array was given": [],
        "option 'job' is unknown": {"job": []},
        "flow: 'jobs' must be a JSON array, but a JSON object was given": {"jobs": {}},
        "flow: 'then' must be a JSON array, but a JSON number was given": {"jobs": [job()], "then": 1},
        "flow: 'jobs' is missing": {"then": []},
        "flow: 'label' has 1001 characters, more than 1000": {"jobs": [job()], "label": "x" * 1001},
        "flow: 'jobs' is empty": {"jobs": []},
        "flow: 'then' has 9 callbacks, more than 8": {"jobs": [job()], "then": [{"fn": "b"}] * 9},
        "job 2 must be a JSON object, but a JSON number was given": {"jobs": [job(), 17]},
        "job 1 has no function": {"jobs": [{"name": "a"}]},
        "a name that is not a text": {"jobs": [job(name=5)]},
        "a name that is not a text of 1": {"jobs": [job(name="")]},
        "two jobs have the name 'a'": {"jobs": [job(), job()]},
        "job 'a' waits for 'b', which is listed after it": {"jobs": [job(after="b"), job(name="b", after="a")]},
        "job 'a' waits for 'a', which is listed after it": {"jobs": [job(after=["a"])]},
        "job 2 waits for 'c', but no job": {"jobs": [job(), {"fn": "b", "after": ["c"]}]},
        "waits for 'a' twice": {"jobs": [job(), job(name="b", after=["a", "a"])]},
        "job 2: option 'aftr' is unknown": {"jobs": [job(), job(name="b", aftr=1)]},
        "job 10000000 does not exist": {"jobs": [job(after=[10**7])]},
        "waits for 1001 jobs": {
            "jobs": [job(name=str(n)) for n in range(1001)] + [job(after=[str(n) for n in range(1001)])]
        },
        "callback 1 has the option 'after', which only jobs have": {
            "jobs": [job()],
            "then": [{"fn": "b", "after": ["a"]}],
        },
        "callback 1 has the option 'on' with the invalid value 'fail': use ok, failed or ended": {
            "jobs": [job()],
            "then": [{"fn": "b", "on": "fail"}],
        },
        "job 1 has the option 'on'": {"jobs": [job(on="ok")]},
        f"flow: job 2: job {key} has key 'taken'": {"jobs": [job(), job(name="b", key="taken")]},
        "flow: job 2: job [0-9]+ has key 'same'": {"jobs": [job(key="same"), job(name="b", key="same")]},
        "flow: job 1: job [0-9]+ has key 'same'": {
            "jobs": [job(key="same"), job(name="b", key="same", on_duplicate="replace")]
        },
        "flow: job 2: its queue is full": {"jobs": [job(queue="full"), job(name="b", queue="full")]},
    }
    for after in (
        {"job": "a", "on": "x"},
        {"job": "a", "as": ""},
        {"jb": "a"},
        {"job": ["a"]},
        None,
        -1,
        1.5,
        True,
        {"job": "a", "x": 1},
    ):
        wrong[
            f"job 2: option 'after' has the invalid value '{json.dumps(after)}'".replace("[", "\\[").replace("{", "\\{")
        ] = {"jobs": [job(), {"fn": "b", "after": [after]}]}
    for says, flow in wrong.items():
        with pytest.raises(
            (pgerror.InvalidParameterValue, pgerror.UniqueViolation, pgerror.ConfigurationLimitExceeded), match=says
        ):
            defer_flow(db, flow)
    assert (
        db.one("select count(*) from deferred.__deferred") == 1
        and db.one("select count(*) from deferred.__deferred_flow") == 0
    )
    with db.connect(options="-c role=deferred_producer") as producer, producer.cursor() as cursor:
        cursor.execute("select deferred.defer_flow(%s)", (json.dumps(ORDER),))
        own = cursor.fetchone()[0]
        cursor.execute("select count(*) from deferred.flow_jobs(%s)", (own,))
        assert cursor.fetchone()[0] == 5
        producer.commit()
        other = defer_flow(db, ORDER)
        cursor.execute("select count(*) from deferred.flow_jobs(%s)", (other,))
        assert cursor.fetchone()[0] == 0
        with pytest.raises(pgerror.NoDataFound, match="does not exist"):
            cursor.execute("select deferred.flow_cancel(%s)", (other,))
        producer.rollback()
    assert db.one("select count(distinct created_by) from deferred.__deferred_flow") == 2


def test_of_the_callbacks_of_success_and_of_failure_one_runs(db):
    """Whatever was skipped: for a failure, or because it was not needed."""

    def flow_of(*jobs):
        flow = defer_flow(
            db,
            {
                "jobs": list(jobs),
                "then": [{"fn": "well"}, {"fn": "badly", "on": "failed"}, {"fn": "report", "on": "ended"}],
            },
        )
        ids = members(db, flow)
        return ids[:-3], ids[-3:]

    def step(name, *after, **more):
        return {"fn": "f", "name": name, **({"after": list(after)} if after else {}), **more}

    on_failed = {"job": "a", "on": "failed"}
    for outcome, wanted in (("ok", ["ready", "cancelled", "ready"]), ("failed", ["cancelled", "ready", "ready"])):
        # An undo step, what is behind it, and one that waits for its failure.
        jobs, then = flow_of(
            step("a"),
            step("undo", on_failed),
            step("tell", "undo"),
            step("worse", {"job": "undo", "on": "failed"}),
            step("b", "a"),
        )
        assert states(db, *then) == ["waiting"] * 3
        end(db, jobs[0], outcome)
        settle(db)
        assert (
            states(db, *then) == ["waiting"] * 3 if outcome == "ok" else ["cancelled", "waiting", "waiting"]
        ), "not before all have ended"
        clean(db)
        for job in jobs[1:]:
            end(db, job)
            settle(db, 1)
        assert states(db, *then) == wanted
        clean(db)
        texts = [
            r[0]
            for r in db.sql(
                "select error from deferred.__deferred_log where job_id = any (%s) and error is not null "
                "order by job_id",
                jobs + then,
            )
        ]
        if outcome == "ok":
            assert texts == [f"skipped: not needed, for job {jobs[i]} did not fail" for i in (0, 1, 1)] + [
                "skipped: not needed, for no job of its flow failed"
            ]
        else:
            assert (
                texts[0] == f"skipped: not needed, for job {jobs[1]} did not fail"
                and "did not end as it must have" in texts[1]
            )
    # One that is skipped because a job from outside failed.
    outside = db.defer("o")
    jobs, then = flow_of(step("a"), step("b", outside, "a"))
    behind = db.defer("u", after={"job": then[1], "on": "ok"}), db.defer("v", after=[then[0]])
    settle(db)
    end(db, outside, "failed")
    settle(db)
    assert states(db, *jobs, *then) == ["ready", "cancelled", "cancelled", "waiting", "waiting"]
    end(db, jobs[0])
    settle(db)
    assert states(db, *then, *behind) == ["cancelled", "ready", "ready", "waiting", "cancelled"]
    assert [r[0] for r in db.sql("select distinct \"on\" from deferred.parents(%s)", then[1])] == ["failed"]
    # Who is not needed says so to those who are linked later, too.
    flow, (well, badly, report) = flow_of(step("a"))
    end(db, flow[0])
    settle(db)
    late = db.defer("l", after=badly), db.defer("m", after={"job": badly, "on": "ended"})
    settle(db)
    assert states(db, badly, *late) == ["cancelled", "cancelled", "ready"]
    assert (
        db.one("select error from deferred.__deferred_log where job_id = %s", late[0])
        == f"skipped: not needed, for job {badly} did not fail"
    )
    clean(db)


def step(name, *after, **more):
    return {"fn": "f", "name": name, **({"after": list(after)} if after else {}), **more}


def test_the_first_that_fails_has_the_rest_cancelled(db):
    """But not undo steps, callbacks, nor what ended before; once, and without waiting for rows that
    others have locked."""
    jobs = [
        step("a"),
        step("b"),
        step("late", delay="1h"),
        step("c", "a"),
        step("undo a", "a", {"job": "b", "on": "failed"}),
        step("undo late", {"job": "late", "on": "failed"}),
        step("tell", "undo a"),
        step("locked"),
        step("last", {"job": "c", "on": "ended"}),
    ]
    flow = defer_flow(
        db,
        {
            "on_failure": "cancel",
            "jobs": jobs,
            "then": [{"fn": "well"}, {"fn": "badly", "on": "failed"}, {"fn": "report", "on": "ended"}],
        },
    )
    a, b, late, c, undo_a, undo_late, tell, locked, last, well, badly, report = ids = members(db, flow)
    outside = db.defer("o", after=c)
    other = defer_flow(db, {"jobs": [step("a"), step("b")]})
    settle(db)
    end(db, a)
    settle(db)
    assert db.one("select failed from deferred.__deferred_flow where id = %s", flow) is None and states(db, c, b) == [
        "ready",
        "ready",
    ]
    end(db, b, "failed")
    end(db, members(db, other)[0], "failed")
    clean(db)
    with db.connect() as holder, holder.cursor() as cursor:
        cursor.execute("select from deferred.__deferred_hot where id = %s for update", (locked,))
        db.sql("begin")
        for _ in range(5):
            db.sql("select deferred.__settle(1000)")
        db.sql("rollback")
        clean(db)
        assert states(db, late, c) == ["delayed", "ready"], "who dies before he commits has cancelled nobody"
        for _ in range(60):
            db.sql("select deferred.__settle(3)")
            clean(db)
        assert states(db, late, c, locked, undo_late) == ["cancelled", "cancelled", "ready", "ready"]
        db.sql("update deferred.__deferred_ended set not_before = not_before + interval '1 hour'")
        assert db.one("select deferred.__settle(100)") == 0, "what is put off is not looked at again at once"
        db.sql("update deferred.__deferred_ended set not_before = now()")
        assert db.one("select deferred.__settle(100)") == 0 and states(db, locked) == [
            "ready"
        ], "and is put off once more"
        holder.rollback()
    settle(db)
    assert states(db, *ids) == [
        "done",
        "dead",
        "cancelled",
        "cancelled",
        "ready",
        "ready",
        "cancelled",
        "cancelled",
        "ready",
        "cancelled",
        "waiting",
        "waiting",
    ]
    said = {
        job: db.one("select error from deferred.__deferred_log where job_id = %s and final", job)
        for job in (late, c, tell, locked, outside)
    }
    assert [said[job] for job in (late, c, tell, locked)] == [f"cancelled: job {b} of its flow failed"] * 4 and said[
        outside
    ].startswith(f"skipped: job {c}")
    assert (
        db.one("select state from deferred.job where id = %s", members(db, other)[1]) == "ready"
    ), "another flow, which says nothing, goes on"
    # Retried by hand they are run, whatever fails again.
    for job in (b, late, c):
        db.sql("select deferred.retry(%s)", job)
    end(db, late, "failed")
    end(db, undo_a, "failed")
    settle(db)
    assert states(db, b, c, late, undo_late) == ["ready", "ready", "dead", "ready"]
    for job in (b, c, undo_late, last):
        end(db, job)
    settle(db)
    assert states(db, well, badly, report) == ["cancelled", "ready", "ready"]
    clean(db)
    # A callback that is cancelled is no failure; a job that is, is.
    flow = defer_flow(
        db, {"on_failure": "cancel", "jobs": [step("a"), step("b"), step("c", "a")], "then": [{"fn": "t"}]}
    )
    a, b, c, then = members(db, flow)
    db.defer("o", after={"job": then, "on": "ended"})
    settle(db)
    db.sql("select deferred.cancel(%s)", then)
    settle(db)
    assert states(db, a, b, c) == ["ready", "ready", "waiting"]
    db.sql("select deferred.cancel(%s)", b)
    settle(db)
    assert (
        states(db, a, c) == ["cancelled", "cancelled"]
        and db.one("select failed from deferred.__deferred_flow where id = %s", flow) == b
    )
    clean(db)
    # A job that was skipped, is run by hand and fails is the first failure as well.
    flow = defer_flow(
        db, {"on_failure": "cancel", "jobs": [step("a"), step("undo", {"job": "a", "on": "failed"}), step("b")]}
    )
    a, undo, b = members(db, flow)
    settle(db)
    end(db, a)
    settle(db)
    db.sql("select deferred.retry(%s)", undo)
    end(db, undo, "failed")
    clean(db)
    settle(db)
    assert states(db, a, undo, b) == ["done", "dead", "cancelled"]
    clean(db)
    with pytest.raises(
        pgerror.InvalidParameterValue,
        match="option 'on_failure' has the invalid value 'stop'\nHINT:  use continue .* or cancel ",
    ):
        defer_flow(db, {"on_failure": "stop", "jobs": [step("a")]})


def test_two_who_tell_of_failures_at_once_cancel_the_rest_once(db):
    flow = defer_flow(db, {"on_failure": "cancel", "jobs": [step(str(n)) for n in range(2500)]})
    jobs = members(db, flow)
    for n in (3, 2000):
        end(db, jobs[n], "failed")
    with db.connect() as one, one.cursor() as cursor:
        cursor.execute("select deferred.__settle(1)")
        db.sql("set lock_timeout = '200ms'")
        with pytest.raises(pgerror.LockNotAvailable):
            db.sql("select deferred.__settle(1)")
        db.sql("set lock_timeout = 0")
        one.commit()
    db.sql("select deferred.__settle(1)")
    assert db.one("select failed from deferred.__deferred_flow where id = %s", flow) == jobs[3]
    assert db.one("select count(*) from deferred.__deferred_ended where what = 'c'") == 1
    most = 0
    while db.hot():
        left = db.hot()
        db.sql("select deferred.__settle(1000)")
        most = max(most, left - db.hot())
    assert most <= 250, "a step cancels so many and no more"
    settle(db)
    assert (
        db.one(
            "select count(*) from deferred.__deferred_log where outcome = 'cancelled' and error = %s",
            f"cancelled: job {jobs[3]} of its flow failed",
        )
        == 2498
    )
    clean(db)


@pytest.mark.slow
def test_a_batch_has_callbacks_and_is_cancelled_from_its_end(db):
    """The fan-in is counted some a step, and nothing is left of it when it is purged."""
    flow = defer_flow(db, {"jobs": [{"fn": "a"}] * 2500, "then": [{"fn": "all", "on": "ended"}, {"fn": "well"}]})
    jobs = members(db, flow)
    db.sql(
        "with h as (delete from deferred.__deferred_hot where id = any (%s) "
        "returning deferred.__note_end(id, 1, case when id = %s then 'failed' else 'ok' end), id)"
        " insert into deferred.__deferred_log (job_id, attempt, outcome, final) select id, 1, "
        "case when id = %s then 'failed' else 'ok' end, true from h",
        jobs[:-2],
        jobs[1000],
        jobs[1000],
    )
    for _ in range(3):
        assert states(db, jobs[-2]) == ["waiting"]
        db.sql("select deferred.__settle(1000)")
    settle(db)
    assert states(db, *jobs[-2:]) == ["ready", "cancelled"]
    clean(db)
    flow = defer_flow(
        db,
        {
            "jobs": [{"fn": "a", "name": "a"}, *[{"fn": "b", "after": {"job": "a", "on": "failed"}}] * 1200],
            "then": [{"fn": "c", "on": "ended"}],
        },
    )
    first, second = db.sql("select * from deferred.flow_cancel(%s)", flow)[0], None
    assert first[0] == 1000 and first[1] is not None
    settle(db)
    assert states(db, members(db, flow)[0]) == ["ready"], "the last ones are cancelled first"
    second = db.sql("select * from deferred.flow_cancel(%s, %s)", flow, first[1])[0]
    assert second == (202, None)
    settle(db)
    assert (
        db.one("select count(*) from deferred.flow_jobs(%s) where state <> 'cancelled'", flow) == 0
    ), "no job was run for the end of another"
    clean(db)
    db.sql("select deferred.cancel(%s)", jobs[-2])
    settle(db)
    db.sql("truncate deferred.__deferred_log")
    db.sql("select deferred.__purge_jobs('0', 0, 10000)")
    db.sql("select deferred.__purge_orphans('0', 0, 10000)")
    assert [db.one(f"select count(*) from deferred.__deferred_{t}") for t in ("flow", "member", "edge", "wait")] == [
        0
    ] * 4
