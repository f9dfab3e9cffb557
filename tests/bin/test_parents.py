"""What a function is told of the jobs that its own waited for."""

import json
import signal

import pytest

from harness import wait_for

OK = 0
SEE = (
    'function "see" { command = {"/bin/sh", "-c", "[ -z \\"$DEFERRED_PARENTS_FD\\" ] && echo none || cat '
    '<&$DEFERRED_PARENTS_FD"} }'
)


def result(db, job):
    return db.one(
        "select result from deferred.__deferred_log where job_id = %s and final order by attempt desc limit 1", job
    )


def parents(db, job):
    return json.loads(result(db, job))


def states(db):
    return [r[0] for r in db.sql("select state from deferred.job where state in ('ready', 'claimed', 'delayed')")]


def run(db):
    done = db.run(["check_deferred", "--cnt", "0"])
    assert done.returncode == OK, done.stderr
    return done


def test_functions_and_commands_have_them_by_name_or_number(db, ledger):
    db.plugins("running")
    db.config(SEE)
    box, bad = db.defer("sample.echo", '"two\\nboxes <é>"'), db.defer("sample.fail", max_attempts=1)
    after = [{"job": box, "as": "pack"}, {"job": bad, "on": "ended"}]
    jobs = [db.defer(fn, after=after) for fn in ("parents", "parents_apart", "see")]
    db.sql("select deferred.__queue_set('limited', %s, true)", '{"max_running": 1}')
    jobs += [
        db.defer("parents", after=after, queue="limited"),
        db.defer("parents", after=after, max_attempts=1),
        db.defer("parents", after=after, delay="1ms"),
    ]
    one = [db.defer("parents", json.dumps({"of": of}), after=after) for of in ("pack", str(bad), str(box), "none")]
    alone = [db.defer(fn) for fn in ("parents", "parents_apart", "see")]
    root = db.defer("parents")
    behind = db.defer("parents", after=root)
    while db.hot():
        run(db)
    told = {
        "pack": {"id": box, "outcome": "ok", "result": result(db, box)},
        str(bad): {"id": bad, "outcome": "failed", "result": None},
    }
    assert "two" in told["pack"]["result"]
    assert [parents(db, job) for job in jobs] == [told] * len(jobs)
    assert [result(db, job) for job in one] == [
        f"0 ok {told['pack']['result']}",
        "0 failed NULL",
        "-1 NULL NULL",
        "-1 NULL NULL",
    ]
    assert [result(db, job) or "none" for job in alone] == ["none"] * 3
    assert (result(db, root) or "", parents(db, behind)) == (
        "",
        {str(root): {"id": root, "outcome": "ok", "result": result(db, root)}},
    )
    ledger(db)


def test_in_a_flow_the_names_are_its_own_and_a_retry_has_them_again(db, ledger):
    db.plugins("running")
    flow = db.one(
        "select deferred.defer_flow(%s)",
        json.dumps(
            {
                "jobs": [
                    {"name": "pack", "fn": "sample.echo", "params": "box"},
                    {"name": "mail", "fn": "sample.fail", "max_attempts": 1, "after": ["pack"]},
                    {"name": "undo", "fn": "parents", "after": ["pack", {"job": "mail", "on": "failed"}]},
                    {"name": "spare", "fn": "noop", "after": {"job": "pack", "on": "failed"}},
                ],
                "then": [{"fn": "parents", "on": "ended"}],
            }
        ),
    )
    ids = dict(db.sql("select name, job from deferred.__deferred_member where flow = %s and name is not null", flow))
    last = max(r[0] for r in db.sql("select job from deferred.__deferred_member where flow = %s", flow))
    run(db)
    assert {n: p["outcome"] for n, p in parents(db, ids["undo"]).items()} == {"pack": "ok", "mail": "failed"}
    assert {n: p["outcome"] for n, p in parents(db, last).items()} == {
        "pack": "ok",
        "mail": "failed",
        "undo": "ok",
        "spare": "skipped",
    }
    again = db.defer("parents", after={"job": ids["spare"], "on": "ended"}, max_attempts=1)
    run(db)
    assert parents(db, again)[str(ids["spare"])]["outcome"] == "skipped"
    # By hand, one that was skipped too; and one that is not to wait any longer.
    waits = db.defer("parents", after=db.defer("noop", delay="1h"))
    skipped = db.defer("parents", after={"job": ids["pack"], "on": "failed", "as": "x"})
    run(db)
    assert db.log(skipped)[-1][1] == "cancelled"
    assert db.sql("select deferred.retry(%s), deferred.flow_release(%s)", skipped, waits) == [(True, True)]
    run(db)
    assert parents(db, skipped)["x"] == {"id": ids["pack"], "outcome": "ok", "result": result(db, ids["pack"])}
    assert [p["outcome"] for p in parents(db, waits).values()] == [None]
    ledger(db)


def test_many_and_long_ones_are_bounded(db, ledger):
    db.plugins("running")
    db.config(
        'function "long" { command = {"/bin/sh", "-c", "head -c 8000 /dev/zero | tr \'\\\\0\' x"} }\n'
        'function "count" { command = {"/bin/sh", "-c", "tr -cd { <&$DEFERRED_PARENTS_FD | wc -c; "} }'
    )
    long = [db.defer("long") for _ in range(10)]
    last = db.defer("parents", json.dumps({"of": str(long[9])}), after=long)
    first = db.defer("parents", json.dumps({"of": str(long[0])}), after=long)
    many = [r[0] for r in db.sql("select deferred.defer_many(%s)", json.dumps([{"fn": "noop"}] * 900))]
    wide = [db.defer("count", after=many) for _ in range(5)]
    while db.hot():
        run(db)
    assert result(db, last) == "1 ok NULL" and result(db, first) == "0 ok " + "x" * 8000
    assert [result(db, job) for job in wide] == ["901"] * 5, "each call of deferred.__parents() answers for one of them"
    ledger(db)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_one_that_cannot_be_told_is_given_back_and_told_by_the_next(db, ledger, end):
    """lib/engine/step/parents.c: while it waits for the answer the worker is asked to stop, or dies."""
    db.plugins("running")
    parent = db.defer("sample.echo", '"box"')
    jobs = [db.defer("parents", after=parent) for _ in range(3)]
    assert db.run(["check_deferred", "--cnt", "1"]).returncode == OK
    db.sql("select deferred.__settle(10)")
    assert states(db) == ["ready"] * 3
    holder = db.connect()
    holder.cursor().execute("lock table deferred.__deferred_edge in access exclusive mode")
    worker = db.spawn(["check_deferred", "--loop"])
    wait_for(lambda: "claimed" in states(db), 20, "it has claimed some")
    worker.signal(end)
    if end == signal.SIGKILL:
        worker.wait()
    holder.rollback()
    if end == signal.SIGTERM:
        assert worker.wait() == OK, worker.output()
        assert states(db) == ["ready"] * 3
    else:
        db.sql("update deferred.__deferred_lease set expires_at = now() - interval '1 second'")
    wait_for(lambda: run(db) and not db.hot(), 20, "another one runs them")
    assert [parents(db, job)[str(parent)]["outcome"] for job in jobs] == ["ok"] * 3
    assert [[outcome for _, outcome in db.log(job)] for job in jobs] == [["ok"]] * 3, "they had not begun"
    ledger(db)


def test_a_job_for_which_others_come_to_wait_while_it_runs_is_recorded(db, ledger):
    """Its hot row is changed, and so is not where it was when it was claimed."""
    db.plugins("running")
    job, other = db.defer("sample.sleep", '{"ms": 1500}'), db.defer("sample.sleep", '{"ms": 1500}')
    worker = db.spawn(["check_deferred", "--cnt", "0", "--runners", "2", "--log-level", "debug"])
    wait_for(lambda: db.one("select count(*) from deferred.__held") == 2)
    before = db.one("select ctid::text from deferred.__deferred_hot where id = %s", job)
    behind = db.defer("parents", after=job)
    db.sql("select deferred.__settle(1000)")
    wait_for(lambda: db.one("select ctid::text from deferred.__deferred_hot where id = %s", job) != before)
    assert worker.wait(30) == OK and "refused" not in worker.output() and "lost" not in worker.output(), worker.output()
    assert db.sql(
        "select job_id, attempt, outcome from deferred.__deferred_log where job_id <> %s order by 1", behind
    ) == [(job, 1, "ok"), (other, 1, "ok")]
    while db.hot():
        run(db)
    assert parents(db, behind) == {str(job): {"id": job, "outcome": "ok", "result": result(db, job)}}
    ledger(db)


def test_a_message_that_is_waited_for_is_called_one(db):
    message = db.one("""select deferred.defer(null, '{}', '{"queue": "q"}')""")
    job = db.defer("sample.noop", after=message)
    for command, says in (
        ("why", f"job {message} (message, ready)"),
        ("show", f"waits for   {message} message, ok: ready"),
        ("graph", f"{message} message: ready"),
    ):
        assert says in db.run(["deferred", command, str(job)]).stdout, command
    assert db.sql("select deferred.cancel(%s)", message) == [(True,)]
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert db.one("select state from deferred.job where id = %s", job) == "cancelled"
