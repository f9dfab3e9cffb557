"""Functions that take several jobs in one call: outcomes, results and limits stay those of each job."""

import json
import os
import signal
import time

import pytest

from harness import ledger, wait_for

ALL = ["check_deferred", "--cnt", "0"]


@pytest.fixture
def many(db):
    """The plugin many, which notes the jobs of each call in a file."""
    return prepared(db)


def prepared(db, more=""):
    db.plugins("many")
    loop = 'interval_floor = "50ms"\ninterval_ceiling = "100ms"\n'
    db.config(f'settings "many" {{ file = "{file_of(db)}" }}\nwindow = 1\n' + loop + more)
    return db


def file_of(db):
    return os.path.join(db.dir, "calls")


def calls(db):
    """The jobs of each call, sorted: a claim draws them."""
    if not os.path.exists(file_of(db)):
        return []
    with open(file_of(db)) as f:
        return [sorted(map(int, line.split())) for line in f]


def go(db):
    open(file_of(db) + ".go", "w").close()


def defer(db, *words, fn="gather_wait", **opts):
    """A job for each word."""
    return [db.defer(fn, json.dumps({"do": word}), **opts) for word in words]


def ran(db, *args, **kw):
    done = db.run([*ALL, *args], timeout=60, **kw)
    assert done.returncode == 0, done.stderr
    return done.stderr


def ends(db, jobs):
    """(outcome, error, result) of the last attempt of each job."""
    last = "select outcome, error, result from deferred.__deferred_log where job_id = %s order by attempt desc limit 1"
    return [db.sql(last, job)[0] for job in jobs]


def outcomes(db, job):
    return [outcome for _, outcome in db.log(job)]


def counted(db, job):
    return db.one(
        "select attempt - coalesce(attempt_base, 0) from deferred.__deferred_hot where id = %s",
        job,
    )


def service(db, *args):
    run = db.spawn(["check_deferred", "--loop", "--listen", *args])
    wait_for(
        lambda: not run.alive() or db.sql("select 1 from deferred.__deferred_worker where pid = %s", run.pid),
        20,
        "it has registered",
    )
    assert run.alive(), run.output()
    return run


def stop(run):
    run.signal(signal.SIGTERM)
    assert run.wait(30) == 0, run.output()


def token(db, job):
    """What the function gets as receipt."""
    return db.one(
        "select deferred.__token(%s, l.receipt, l.worker) from deferred.__deferred_lease l where %s = any (l.ids)",
        job,
        job,
    )


# ---- outcomes


def test_a_full_batch_is_one_call_and_each_job_gets_its_result(many):
    jobs = defer(many, *["plain"] * 5)
    ran(many)
    assert calls(many) == [jobs]
    assert ends(many, jobs) == [("ok", None, str(job)) for job in jobs]
    assert many.one("select max(started_at) < min(finished_at) from deferred.__deferred_log"), "they ran together"
    assert many.hot() == 0
    ledger(many)


def test_each_job_may_have_an_outcome_of_its_own(many):
    words = ["own ok", "own failed", "own later", "own dead", "own snooze", "own cancel", "own unready", "own wild"]
    jobs = defer(many, *words, "plain", "plain")
    ran(many)
    assert calls(many) == [jobs[:5], jobs[5:]]
    errors = [f"no {job}" for job in jobs]
    assert [end[:2] for end in ends(many, jobs)] == [
        ("ok", errors[0]),
        ("failed", errors[1]),
        ("failed", errors[2]),
        ("failed", errors[3]),
        ("snoozed", errors[4]),
        ("cancelled", errors[5]),
        ("failed", errors[6]),
        ("failed", errors[7]),
        ("ok", None),
        ("ok", None),
    ]
    left = {job for job, in many.sql("select id from deferred.__deferred_hot")}
    assert left == {jobs[1], jobs[2], jobs[4], jobs[6], jobs[7]}, "the dead, cancelled and done ones have ended"
    assert [counted(many, job) for job in sorted(left)] == [1, 1, 0, 0, 1]
    assert many.one("select due_at > now() + interval '50 min' from deferred.__deferred_hot where id = %s", jobs[2])
    assert not many.one("select due_at > now() + interval '50 min' from deferred.__deferred_hot where id = %s", jobs[1])
    ledger(many)


def test_what_the_call_returns_is_the_outcome_of_the_jobs_that_have_none(many):
    jobs = defer(many, "own ok", "plain", "own dead", "all_failed", "own cancel")
    ran(many)
    assert calls(many) == [jobs]
    assert [end[0] for end in ends(many, jobs)] == ["ok", "failed", "failed", "failed", "cancelled"]
    ledger(many)


def test_what_a_job_asks_for_is_done_for_that_job(many):
    jobs = defer(many, "defer", "own failed defer", "too_much", "plain", "defer")
    ran(many, "--queue", "default")
    assert calls(many) == [jobs]
    assert [end[0] for end in ends(many, jobs)] == ["ok", "failed", "failed", "ok", "ok"]
    assert "may: 10000 calls and paths" in ends(many, jobs)[2][1]
    assert many.one("select count(*) from deferred.__deferred where queue = 'other'") == 2
    ledger(many)


# ---- what ends the call


@pytest.mark.parametrize(
    "word, text, alone",
    [
        ("segv", "in a batch of 5 jobs: killed by signal 11", "crashed"),
        ("exit", "in a batch of 5 jobs: the function ended its process with status 7", "failed"),
        ("hang", "in a batch of 5 jobs: time limit of 1000 ms exceeded", "timeout"),
    ],
)
def test_what_ends_the_process_of_a_batch_is_no_attempt_and_each_job_is_tried_alone(many, word, text, alone):
    limits = {"timeout": "1s"} if word == "hang" else {}
    jobs = defer(many, "plain", "plain", word, "plain", "plain", max_attempts=2, **limits)
    log = ran(many)
    assert calls(many)[0] == jobs
    assert sorted(calls(many)[1:]) == [[job] for job in jobs]
    for job in jobs:
        first = many.one("select error from deferred.__deferred_log where job_id = %s and attempt = 1", job)
        assert first.startswith(text)
        assert outcomes(many, job) == ["interrupted", alone if job == jobs[2] else "ok"]
    assert counted(many, jobs[2]) == 1, "of the two that it has"
    assert f"job {jobs[0]} gather_wait attempt 1: interrupted: {text}" in log
    ledger(many)


def test_the_steps_of_a_batch_outlive_its_process(many):
    jobs = defer(many, "saved", "saved", "saved", "saved", "saved exit", max_attempts=2)
    ran(many)
    assert calls(many)[0] == jobs
    assert [json.loads(result) for _, _, result in ends(many, jobs[:4])] == [{"mine": job} for job in jobs[:4]]
    ledger(many)


def test_a_job_that_was_tried_alone_joins_a_batch_again(many):
    jobs = defer(many, "plain", "segv", "plain", "plain", "plain")
    ran(many)
    many.sql("update deferred.__deferred set params = '{}' where id = %s", jobs[1])
    assert not many.one("select suspect from deferred.__deferred_hot where id = %s", jobs[1])
    many.sql("select deferred.retry(%s)", jobs[1])
    more = defer(many, *["plain"] * 4)
    ran(many)
    assert calls(many)[-1] == sorted([jobs[1], *more])
    ledger(many)


def test_the_limit_of_a_batch_is_the_longest_of_its_jobs(many):
    jobs = [*defer(many, *["plain"] * 4, timeout="1s"), *defer(many, "hang", timeout="2s")]
    ran(many)
    assert all(
        error.startswith("in a batch of 5 jobs: time limit of 2000 ms exceeded")
        for error, in many.sql("select error from deferred.__deferred_log where attempt = 1")
    )
    assert outcomes(many, jobs[4]) == ["interrupted", "timeout"]
    ledger(many)


def test_a_job_without_a_limit_takes_the_limit_from_its_batch(db):
    many = prepared(db, 'timeout = "0"\n')
    jobs = [*defer(many, *["go"] * 4, timeout="1s"), *defer(many, "go")]
    run = many.spawn(ALL)
    wait_for(lambda: calls(many), 20, "the batch runs")
    since = time.monotonic()
    wait_for(lambda: time.monotonic() > since + 1.5, 20, "the limit of four of them is over")
    go(many)
    assert run.wait(30) == 0, run.output()
    assert [outcomes(many, job) for job in jobs] == [["ok"]] * 5
    ledger(many)


# ---- which jobs are together


@pytest.mark.parametrize(
    "config, fn, opts",
    [
        ("", "gather_apart", {}),
        ('isolate = "job"\n', "gather", {}),
        ("", "gather_once", {}),
        ("", "gather", {"max_attempts": 1}),
    ],
    ids=["the function is isolated", "all are isolated", "one attempt of the function", "one attempt of the job"],
)
def test_jobs_that_must_not_share_a_process_run_alone(db, config, fn, opts):
    many = prepared(db, config)
    jobs = defer(many, *["plain"] * 12, fn=fn, **opts)
    ran(many)
    assert sorted(calls(many)) == [[job] for job in jobs]
    assert ends(many, jobs) == [("ok", None, str(job)) for job in jobs]
    assert {tuple(outcomes(many, job)) for job in jobs} == {("ok",)}
    ledger(many)


def test_jobs_of_other_functions_are_not_in_a_batch(many):
    jobs = [
        job for _ in range(5) for job in (*defer(many, "plain"), many.defer("noop"), *defer(many, "a", fn="gather"))
    ]
    ran(many)
    together = sorted(calls(many))
    assert [job for call in together for job in call if len(call) == 5] == jobs[::3] or jobs[::3] in together
    assert sorted(job for call in together for job in call) == sorted([*jobs[::3], *jobs[2::3]])
    assert many.hot() == 0
    ledger(many)


def test_batches_are_as_large_as_the_function_takes(many):
    jobs = defer(many, *["plain"] * 300, fn="gather_hundred")
    ran(many)
    sizes = [len(call) for call in calls(many)]
    assert sum(sizes) == 300 and max(sizes) == 100, sizes
    assert {end[0] for end in ends(many, jobs)} == {"ok"}
    ledger(many)


def test_a_function_with_both_is_called_with_many(many):
    (job,) = defer(many, "plain", fn="gather_both")
    ran(many)
    assert calls(many) == [[job]]
    assert ends(many, [job]) == [("ok", None, str(job))]


def test_a_job_waits_for_others_no_longer_than_its_function_says(many):
    run = service(many)
    jobs = defer(many, *["plain"] * 3, fn="gather_soon")
    wait_for(lambda: many.hot() == 0, 20)
    stop(run)
    assert sorted(job for call in calls(many) for job in call) == jobs
    assert len(calls(many)) < 3, "they came within the time that the first one waits"
    assert many.one("select min(wait_us) from deferred.__deferred_log where job_id = %s", jobs[0]) >= 250_000
    ledger(many)


def test_a_trickle_of_jobs_fills_batches(many):
    run = service(many)
    jobs = []
    for i in range(10):
        jobs += defer(many, "plain")
        wait_for(lambda: i % 5 == 4 or many.held(jobs[-1]), 20, "it is claimed, and waits for others")
    wait_for(lambda: many.hot() == 0, 20)
    stop(run)
    assert calls(many) == [jobs[:5], jobs[5:]]
    ledger(many)


def test_a_worker_that_stops_gives_back_the_jobs_that_wait(many):
    run = service(many)
    jobs = defer(many, *["plain"] * 3)
    wait_for(lambda: all(many.held(job) for job in jobs), 20, "they are claimed, and wait for others")
    stop(run)
    assert calls(many) == [] and not any(many.held(job) for job in jobs)
    assert many.hot() == 3
    ledger(many)


def test_a_limit_counts_each_job_of_a_batch(many):
    many.run(["deferred", "queue", "set", "narrow", "--create", "--max-running", "2"], check=True)
    jobs = defer(many, *["plain"] * 7, fn="gather_wait", queue="narrow")
    ran(many)
    assert sorted(job for call in calls(many) for job in call) == jobs
    assert max(len(call) for call in calls(many)) <= 2
    ledger(many)


# ---- while it runs


def test_each_job_reports_its_progress(many):
    jobs = defer(many, *["progress go"] * 5)
    run = service(many)
    wait_for(
        lambda: many.sql("select job_id, done, text from deferred.__deferred_progress order by job_id")
        == [(job, job, str(job)) for job in jobs[:1]],
        20,
        "the first one has reported",
    )
    go(many)
    wait_for(lambda: many.hot() == 0, 20)
    stop(run)
    ledger(many)


def test_one_of_a_batch_is_cancelled_and_the_others_go_on(many):
    jobs = defer(many, "plain", "told", "plain", "plain", "plain")
    run = service(many)
    wait_for(lambda: calls(many), 20, "the batch runs")
    assert many.run(["deferred", "cancel", jobs[1]]).returncode == 0
    wait_for(lambda: many.hot() == 0, 20)
    stop(run)
    assert calls(many) == [jobs]
    assert [end[0] for end in ends(many, jobs)] == ["ok", "cancelled", "ok", "ok", "ok"]
    ledger(many)


def test_a_batch_of_which_one_is_cancelled_is_not_killed(db):
    many = prepared(db, 'kill_after = "10ms"\n')
    jobs = defer(many, *["go"] * 5)
    run = service(many, "--runners", "2")
    wait_for(lambda: calls(many), 20, "the batch runs")
    assert many.run(["deferred", "cancel", jobs[0]]).returncode == 0
    wait_for(lambda: "it is asked to stop" in run.output(), 20)
    others = [many.defer("sleep", '{"ms": 50}') for _ in range(3)]
    wait_for(lambda: all(many.log(other) == [(1, "ok")] for other in others), 20, "kill_after is over")
    go(many)
    wait_for(lambda: many.hot() == 0, 20)
    stop(run)
    assert calls(many) == [jobs]
    assert [end[0] for end in ends(many, jobs)] == ["cancelled", "ok", "ok", "ok", "ok"]
    ledger(many)


def test_a_batch_of_which_all_are_cancelled_is_killed(many):
    jobs = defer(many, *["hang"] * 5)
    run = service(many)
    wait_for(lambda: calls(many), 20, "the batch runs")
    assert many.run(["deferred", "cancel", *jobs]).returncode == 0
    other = many.defer("noop")
    wait_for(lambda: many.log(other) == [(1, "ok")], 20, "the runner is free again")
    stop(run)
    assert calls(many) == [jobs]
    assert {end[0] for end in ends(many, jobs)} == {"cancelled"}
    ledger(many)


def test_one_of_a_batch_that_has_finished_itself_is_done(many):
    jobs = defer(many, *["go"] * 4, "go all_failed")
    run = many.spawn(ALL)
    wait_for(lambda: calls(many), 20, "the batch runs")
    many.sql("select deferred.finish(%s, %s, 'mine')", jobs[1], token(many, jobs[1]))
    assert many.one("select deferred.extend(%s, %s, 600000) > now() + '9 min'", jobs[2], token(many, jobs[2]))
    go(many)
    assert run.wait(30) == 0, run.output()
    assert [end[0] for end in ends(many, jobs)] == ["failed", "ok", "failed", "failed", "failed"]
    assert ends(many, [jobs[1]])[0][2] == "mine"
    ledger(many)


def test_a_takeover_in_the_middle_counts_for_none_and_they_run_together_again(db):
    many = prepared(db, 'grace = "100ms"\n')
    jobs = defer(many, *["go"] * 5)
    first = many.spawn(ALL)
    wait_for(lambda: calls(many), 20, "the batch runs")
    second = many.spawn(ALL)
    assert first.wait(30) == 0, first.output()
    wait_for(lambda: len(calls(many)) == 2, 20, "it runs again")
    go(many)
    assert second.wait(30) == 0, second.output()
    assert calls(many) == [jobs, jobs]
    assert [outcomes(many, job) for job in jobs] == [["superseded", "ok"]] * 5
    ledger(many)


def test_a_batch_asked_to_stop_ends_in_order(many):
    jobs = defer(many, "stop", *["plain"] * 4)
    run = service(many)
    wait_for(lambda: calls(many), 20, "the batch runs")
    stop(run)
    assert calls(many) == [jobs]
    assert {tuple(outcomes(many, job)) for job in jobs} == {("interrupted",)}
    assert [counted(many, job) for job in jobs] == [0] * 5
    assert not many.one("select bool_or(suspect) from deferred.__deferred_hot")
    ledger(many)


def test_when_the_worker_is_killed_each_job_is_tried_alone(many):
    jobs = defer(many, *["go"] * 5)
    first = many.spawn(ALL)
    wait_for(lambda: calls(many), 20, "the batch runs")
    first.signal(signal.SIGKILL)
    first.wait(30)
    go(many)
    ran(many)
    assert calls(many)[0] == jobs
    assert sorted(calls(many)[1:]) == [[job] for job in jobs]
    assert [outcomes(many, job) for job in jobs] == [["ok"]] * 5
    ledger(many)


def test_nothing_is_lost_when_runners_are_killed(db):
    many = prepared(db, 'backoff_floor = "10ms"\nbackoff_ceiling = "10ms"\n')
    jobs = defer(many, *["plain"] * 60, fn="gather_hundred")
    jobs += defer(many, *["segv"] * 3, fn="gather_hundred", max_attempts=2)
    jobs += defer(many, *["plain"] * 60, fn="gather_hundred")
    ran(many, "--runners", "2")
    wait_for(lambda: ran(many) is not None and many.hot() == 0, 60)
    assert [end[0] for end in ends(many, jobs)] == ["ok"] * 60 + ["crashed"] * 3 + ["ok"] * 60
    ledger(many)


# ---- parents, flows and keys


def test_jobs_of_a_batch_get_the_results_of_their_parents(many):
    parents = [many.defer("echo", json.dumps(f"of {i}")) for i in range(5)]
    jobs = [many.defer("gather_wait", '{"do": "parent"}', after=[parent]) for parent in parents]
    last = many.defer("noop", after=jobs)
    ran(many)
    assert calls(many) == [jobs]
    known = [json.loads(end[2]) for end in ends(many, jobs)]
    assert [[one["result"] for one in parents.values()] for parents in known] == [[f'"of {i}"'] for i in range(5)]
    assert many.log(last) == [(1, "ok")]
    ledger(many)


def test_jobs_of_a_batch_hold_and_free_their_keys(many):
    jobs = [many.defer("gather_wait", '{"do": "go"}', key=f"k{i}") for i in range(5)]
    run = many.spawn(ALL)
    wait_for(lambda: calls(many), 20, "the batch runs")
    assert [many.defer("gather_wait", "{}", key=f"k{i}") for i in range(5)] == jobs
    go(many)
    assert run.wait(30) == 0, run.output()
    assert [many.defer("gather_wait", "{}", key=f"k{i}") > max(jobs) for i in range(5)] == [True] * 5
    ledger(many)


def test_a_function_that_is_run_by_hand_waits_for_no_others(many):
    done = many.run(["deferred", "run", "gather_wait", "{}"], timeout=30)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


# ---- refused


def test_a_plugin_whose_batch_is_out_of_range_is_not_loaded(db):
    db.plugins("bad_batch")
    db.defer("noop")
    done = db.run(ALL)
    assert "plugin 'bad_batch.so' not loaded: function 'too_many': batch 129" in done.stderr
    assert db.hot() == 0, "others work"
