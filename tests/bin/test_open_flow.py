"""Flows that are opened, filled by commands, rules and their own jobs, and closed."""

import contextlib
import json
import time

import harness

OK, NOT_DONE, WRONG, USAGE = 0, 1, 65, 64


def flow_open(db, flow):
    done = db.run(["deferred", "flow", "open", "-"], input=json.dumps(flow))
    assert (done.returncode, done.stderr) == (OK, ""), done.stderr
    return int(done.stdout)


def show(db, flow):
    return db.run(["deferred", "flow", "show", str(flow)]).stdout


def close(db, flow, says="it ends with the last of its jobs"):
    done = db.run(["deferred", "flow", "close", str(flow)])
    assert (done.returncode, done.stdout, done.stderr) == (OK, f"{flow}: {says}\n", "")


def run_all(db):
    """How many starts that took. What a job that adds to the flow has locked is looked at again half a second later."""
    for n in range(1, 20):
        done = db.run(["check_deferred", "--cnt", "0"])
        assert done.returncode == OK, done.stderr
        if not db.hot():
            return n
        time.sleep(0.1)
    raise AssertionError(done.stderr)


def ends(db, flow):
    """How many of its jobs ended so, and how its callback, the last to do so, did."""
    assert not db.one("select exists (select from deferred.__deferred_flow_open where flow = %s)", flow)
    return dict(
        db.sql(
            """select j.fn || ' ' || l.outcome, count(*) from deferred.__deferred_member m join deferred.job j
                on j.id = m.job
                          join deferred.__deferred_log l on l.job_id = m.job and l.final where m.flow = %s
                          group by 1""",
            flow,
        )
    )


def last(db, fn):
    return db.one(
        "select max(finished_at) filter (where d.fn = %s) >= max(finished_at) from deferred.__deferred_log l "
        "join deferred.__deferred d on d.id = l.job_id",
        fn,
    )


def test_jobs_of_it_find_others_in_c_and_as_commands(db, ledger):
    db.plugins("unruly")
    add = f"{harness.program('deferred')} --db '{db.env['DEFERRED_DB']}' add find $((n - 1)) --flow $DEFERRED_JOB_ID"
    db.config(
        f'''function "find" {{ command = {{"/bin/sh", "-c",
                      "n=$(cat); [ $n = 0 ] || for i in 1 2; do {add}; done"}} }}
                  function "report" {{ command = {{"/bin/true"}} }}'''
    )
    flow = flow_open(
        db, {"label": "crawl", "then": [{"fn": "report", "on": "ended"}, {"fn": "report", "on": "failed"}]}
    )
    assert "flow of 0 jobs: crawl" in show(db, flow) and "; jobs may be added" in show(db, flow)
    job = db.run(["deferred", "add", "defer_self", '{"n": 5, "flow": 1}', "--flow", str(flow)])
    assert job.returncode == OK
    assert db.run(["deferred", "add", "find", "3", "--flow", job.stdout.strip()]).returncode == OK
    close(db, flow)
    assert "2 ready, 2 waiting; ends with the last of its jobs" in show(db, flow)
    close(db, flow, "it was closed already")
    report = db.one("select min(job) from deferred.__deferred_member where flow = %s and part = 't'", flow)
    db.sql("select deferred.__settle(100)")
    assert (
        f"job {report} waits for the end of flow {flow}" in (why := db.run(["deferred", "why", str(report)]).stdout)
        and f"job {job.stdout.strip()} of it has not ended" in why
    ), why
    assert f"deferred flow show {flow}" in why
    assert json.loads(db.run(["deferred", "--json", "flow", "ls"]).stdout)[0]["open"] == "closed"
    run_all(db)
    assert ends(db, flow) == {"defer_self ok": 6, "find ok": 15, "report ok": 1, "report cancelled": 1}
    assert last(db, "report")
    assert "flow of 23 jobs: crawl" in show(db, flow) and "ends with" not in show(db, flow)
    ledger(db)


def test_a_job_of_no_open_flow_cannot_add_to_one(db):
    db.plugins("unruly")
    whole = db.one(
        "select deferred.defer_flow(%s)",
        json.dumps({"jobs": [{"fn": "defer_self", "params": {"n": 1, "flow": 1}, "max_attempts": 1}]}),
    )
    alone = db.defer("defer_self", '{"n": 1, "flow": 1}', max_attempts=1)
    done = db.run(["check_deferred", "--cnt", "0"])
    assert (
        f"flow {whole} is closed for new jobs: it was deferred as a whole" in done.stderr
        and f"flow {alone} does not exist" in done.stderr
    )
    assert db.log(alone) == [(1, "failed")]


def test_rows_of_a_rule_become_jobs_of_it(db, ledger):
    def rule(*words):
        done = db.run(["deferred", "rule", *words])
        assert done.returncode == OK, done.stderr

    rule("add", "rows", "noop", "select n as key, '{}'::json as params from generate_series(1, 1000) n", "--key", "key")
    for on_failure in ("continue", "cancel"):
        flow = flow_open(db, {"then": [{"fn": "sample.echo"}], "on_failure": on_failure})
        rule("run", "rows", "--flow", str(flow))
        close(db, flow)
        assert run_all(db) == 1, "a run goes on with what follows"
        assert ends(db, flow) == {"noop ok": 1000, "sample.echo ok": 1} and last(db, "sample.echo")
    done = db.run(["deferred", "rule", "run", "rows", "--flow", str(flow)])
    assert (
        done.returncode == 1 and f"flow {flow} is closed for new jobs: it has ended" in done.stderr and db.hot() == 0
    ), done
    ledger(db)


def test_what_is_wrong_is_said_by_its_name(db):
    for words, code, says in (
        (["flow", "close", "77"], NOT_DONE, "flow 77 does not exist"),
        (["flow", "close", "x"], USAGE, "id 'x'"),
        (["flow", "close"], USAGE, "argument ID is missing"),
        (["add", "noop", "--flow", "77"], NOT_DONE, "flow 77 does not exist"),
        (["add", "noop", "--flow", "0"], USAGE, "option '--flow': value '0'"),
        (["rule", "run", "--flow", "all"], USAGE, "option '--flow': value 'all'"),
    ):
        done = db.run(["deferred", *words])
        assert done.returncode == code and says in done.stderr, (words, done)
    done = db.run(["deferred", "flow", "open", "-"], input='{"then": [{"fn": "a", "delay": "soon"}]}')
    assert done.returncode == WRONG and "soon" in done.stderr
    lines = '{"fn": "noop", "flow": 77}\n'
    assert "flow 77 does not exist" in db.run(["deferred", "add", "--stdin"], input=lines).stderr
    assert (
        json.loads(
            db.run(["deferred", "--json", "flow", "open", "-"], input='{"jobs": [{"name": "a", "fn": "noop"}]}').stdout
        )["jobs"][0]["name"]
        == "a"
    )


def test_whoever_is_killed_all_of_it_ends_before_its_callback(db, ledger):
    """Three services, one of which is killed again and again, and jobs that add others."""
    db.plugins("unruly")
    db.config(
        'lease = "3s"\ninterval_floor = "10ms"\ninterval_ceiling = "100ms"\nbackoff_floor = "1ms"\nbackoff_ceiling = '
        '"10ms"\nmax_attempts = 100'
    )
    flow = flow_open(db, {"then": [{"fn": "sample.echo"}]})
    for _ in range(30):
        db.defer("defer_self", '{"n": 10, "flow": 1}', flow=flow)
    close(db, flow)

    def start(n):
        return db.spawn(
            ["check_deferred", "--loop", "--runners", "2", "--grace", "100ms", "--pidfile", f"{db.pidfile}.{n}"]
        )

    workers = [start(n) for n in range(3)]
    for n in range(12):
        harness.wait_for(
            lambda done=db.one("select count(*) from deferred.__deferred_log"): db.one(
                "select count(*) from deferred.__deferred_log"
            )
            > done
            or not db.hot(),
            30,
            "more is done",
        )
        workers[n % 3].signal(9)
        workers[n % 3].wait()
        workers[n % 3] = start(n % 3)
    harness.wait_for(lambda: not db.hot(), 60, "all has ended")
    for worker in workers:
        worker.signal(15)
        worker.wait()
    seen = ends(db, flow)
    assert seen == {"defer_self ok": 330, "sample.echo ok": 1} and last(db, "sample.echo")
    ledger(db)


def test_a_run_waits_for_an_end_that_somebody_held_up(db):
    """A job that adds to its flow locks it for a moment. Who ends another job of it then looks
    again half a second later; the next start may be a minute away."""
    flow = flow_open(db, {"jobs": [{"fn": "noop"}], "then": [{"fn": "sample.echo"}]})
    close(db, flow)
    db.sql("select deferred.__settle(100)")
    with contextlib.closing(db.connect()) as adds:
        adds.cursor().execute("select from deferred.__deferred_flow_open where flow = %s for key share", (flow,))
        run = db.spawn(["check_deferred", "--cnt", "0"])
        harness.wait_for(lambda: db.one("select exists (select from deferred.__deferred_ended where late)"))
        adds.rollback()
        assert run.wait(20) == OK, run.output()
    assert db.hot() == 0 and ends(db, flow) == {"noop ok": 1, "sample.echo ok": 1}
