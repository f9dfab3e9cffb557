"""Jobs while they are being run: cancelled, telling how far they are, keeping their claim, finished by themselves."""

import contextlib
import json
import os
import signal
import threading
import time

import psycopg2
import pytest

from harness import ledger, wait_for

QUICK = 'interval_floor = "50ms"\ninterval_ceiling = "100ms"\nbackoff_floor = "50ms"\n'


@pytest.fixture
def running(db):
    """The plugin running, a table for its effects, and short lease and back-off."""
    return prepared(db)


def prepared(db, more=""):
    db.plugins("running")
    db.config(QUICK + f'lease = "3s"\nsettings "running" {{ conninfo = "{db.conninfo}" }}\n' + more)
    db.sql("create schema app")
    db.sql("create table app.effect (job bigint, attempt integer, at timestamptz default clock_timestamp())")
    return db


def reconfigure(db, more):
    with open(db.config_file) as f:
        db.config(f.read() + more)


def service(db, *args):
    run = db.spawn(["check_deferred", "--loop", *args])
    wait_for(
        lambda: not run.alive() or db.sql("select 1 from deferred.__deferred_worker where pid = %s", run.pid),
        20,
        "it has registered",
    )
    assert run.alive(), run.output()
    return run


def stop(run, code=0):
    run.signal(signal.SIGTERM)
    assert run.wait(30) == code, run.output()


def file_of(db):
    return os.path.join(db.dir, "said")


def said(db):
    with contextlib.suppress(FileNotFoundError), open(file_of(db)) as f:
        return f.read().split("\n")[:-1]
    return []


def defer(db, fn, **params):
    opts = {k: params.pop(k) for k in ("timeout", "max_attempts", "key") if k in params}
    return db.defer(fn, json.dumps({"file": file_of(db), **params}), **opts)


def begun(db):
    wait_for(lambda: "begun" in said(db), 20, "the function has begun")


def cancel(db, *jobs):
    done = db.run(["deferred", "cancel", *jobs])
    assert done.returncode == 0, done.stderr


def rows(db, job):
    return db.sql(
        "select attempt, outcome, final from deferred.__deferred_log where job_id = %s order by attempt, finished_at",
        job,
    )


def effects(db):
    return db.sql("select job, attempt from app.effect order by at")


def go(db):
    open(file_of(db) + ".go", "w").close()


def waits(db):
    """The function waits for go(); it holds a transaction open."""
    wait_for(lambda: os.path.exists(file_of(db)), 20, "the function waits")


# ---- cancel


@pytest.mark.parametrize("fn", ["until_cancelled", "until_cancelled_apart"])
@pytest.mark.parametrize("listens", [True, False], ids=["listening", "polling"])
def test_a_function_learns_that_its_job_is_cancelled_and_its_runner_lives(running, fn, listens):
    lease_s = 30 if listens else 6
    run = service(running, "--lease", f"{lease_s}s", *(["--listen"] if listens else []))
    job = defer(running, fn)
    begun(running)
    runner = running.orphans()
    before = time.monotonic()
    cancel(running, job)
    wait_for(lambda: "left" in said(running), 20, "it has left")
    took = time.monotonic() - before
    assert said(running) == ["begun", "asked", "left"]
    assert took < lease_s / (6 if listens else 1), "a listener at once, else at the next renewal, a third of the lease"
    other = running.defer("noop")
    wait_for(lambda: rows(running, other), 20)
    stop(run)
    assert set(runner) & set(running.orphans() or runner), "it was not killed"
    assert rows(running, job) == [(1, "cancelled", True)]
    assert running.sql("select error from deferred.__deferred_log where job_id = %s", job) == [
        ("cancelled by deferred",)
    ]
    assert "cancelled; it is asked to stop" in run.output() and "cancelled: it has ended" in run.output()
    ledger(running)


def test_one_that_does_not_stop_is_killed_after_the_grace(running):
    reconfigure(running, 'kill_after = "3s"\n')
    run = service(running, "--listen")
    job = defer(running, "deaf")
    begun(running)
    runner = running.orphans()
    cancel(running, job)
    time.sleep(0.5)
    assert running.orphans() == runner, "it has its grace"
    wait_for(lambda: not set(running.orphans()) & set(runner), 20, "the runner is gone")
    other = running.defer("noop")
    wait_for(lambda: rows(running, other), 20)
    stop(run)
    assert rows(running, job) == [(1, "cancelled", True)]
    assert "it has been killed" in run.output()
    ledger(running)


COMMANDS = '''
function "polite" { command = {"/bin/sh", "-c",
    "trap 'echo asked >> %s; exit 0' TERM; echo begun >> %s; while :; do sleep 0.05; done"} }
function "stubborn" { command = {"/bin/sh", "-c", "trap '' TERM; echo begun >> %s; sleep 100; sleep 100"} }
function "quiet" { command = {"/bin/sh", "-c",
    "trap 'echo asked >> %s; exit 0' TERM; echo begun >> %s; exec >&- 2>&- 3>&-; while :; do sleep 0.05; done"} }
'''


@pytest.mark.parametrize("fn", ["polite", "quiet"])
def test_a_command_gets_sigterm(running, fn):
    reconfigure(running, 'kill_after = "10s"\n' + COMMANDS.replace("%s", file_of(running)))
    run = service(running, "--listen")
    job = defer(running, fn)
    begun(running)
    runner = running.orphans()
    cancel(running, job)
    wait_for(lambda: said(running) == ["begun", "asked"], 9, "the command was asked")
    # The next command of this runner is not asked.
    again = defer(running, fn)
    wait_for(lambda: said(running) == ["begun", "asked", "begun"], 20)
    time.sleep(0.3)
    assert said(running)[-1] == "begun" and set(runner) & set(running.orphans())
    cancel(running, again)
    wait_for(lambda: said(running)[-1] == "asked", 9)
    stop(run)
    assert rows(running, job) == rows(running, again) == [(1, "cancelled", True)]
    ledger(running)


def test_a_command_that_ignores_sigterm_is_killed_with_its_children(running):
    reconfigure(running, COMMANDS.replace("%s", file_of(running)))
    run = service(running, "--listen")
    job = defer(running, "stubborn")
    begun(running)
    wait_for(lambda: len(running.orphans()) >= 3, what="runner, shell, sleep")
    cancel(running, job)
    wait_for(lambda: len(running.orphans()) <= 1, 20, "shell and sleep are gone")
    stop(run)
    assert rows(running, job) == [(1, "cancelled", True)]
    ledger(running)


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_a_command_whose_time_is_up_may_clean_up(running, isolate):
    clean = "trap 'sleep 0.3; echo cleaned >> %s; exit 0' TERM; echo begun >> %s; while :; do sleep 0.05; done".replace(
        "%s", file_of(running)
    )
    reconfigure(
        running,
        f'kill_after = "10s"\nisolate = "{isolate}"\nfunction "clean" {{ command = {{"/bin/sh", "-c", "{clean}"}} '
        f'timeout = "300ms" }}\n',
    )
    job = defer(running, "clean", max_attempts=1)
    done = running.run(["check_deferred"])
    assert done.returncode == 0, done.stderr
    assert said(running) == ["begun", "cleaned"]
    assert running.sql("select outcome, error from deferred.__deferred_log where job_id = %s", job) == [
        ("timeout", "time limit of 300 ms exceeded")
    ]
    ledger(running)


def test_of_a_success_and_a_cancel_the_first_to_be_committed_counts(running):
    """Cancelled first: the function has come to its end, but its worker, stopped, has not recorded it."""
    run = service(running)
    done = running.defer("noop")
    wait_for(lambda: rows(running, done), 20)
    result = running.run(["deferred", "cancel", done])
    assert result.returncode == 1 and "cannot be cancelled" in result.stderr
    assert rows(running, done) == [(1, "ok", True)]

    job = defer(running, "until_cancelled")
    begun(running)
    run.signal(signal.SIGSTOP)
    cancel(running, job)
    run.signal(signal.SIGCONT)
    wait_for(lambda: "left" in said(running), 20)
    late = running.defer("sleep", '{"ms": 1000}')
    wait_for(lambda: running.sql("select 1 from deferred.__held where id = %s", late), 20)
    time.sleep(0.6)  # what is claimed is begun a moment later, which on a busy machine is long
    run.signal(signal.SIGSTOP)
    time.sleep(1.2)  # its function comes to its end meanwhile, and nobody notices
    cancel(running, late)
    run.signal(signal.SIGCONT)
    wait_for(lambda: "result (ok) was recorded" in run.output(), 20)
    stop(run)
    assert rows(running, job) == rows(running, late) == [(1, "cancelled", True)]
    assert running.hot() == 0
    ledger(running)


def test_cancels_at_any_moment_leave_one_end_for_each_job(running, rng):
    run = service(running, "--listen", "--runners", "2")
    jobs = [running.defer("sleep", json.dumps({"ms": rng.randrange(6)})) for _ in range(250)]
    told = {}
    while running.hot() > 0:
        job = rng.choice(jobs)
        if job not in told or not told[job]:
            told[job] = running.one("select deferred.cancel(%s)", job)
    wait_for(lambda: running.one("select count(*) from deferred.__deferred_log where final") == len(jobs), 20)
    stop(run)
    ended = {j: o for j, _, o in running.log()}
    assert len(running.log()) == len(jobs) and ended == {j: "cancelled" if told.get(j) else "ok" for j in jobs}
    assert set(ended.values()) == {"ok", "cancelled"}
    ledger(running)


def test_a_cancelled_job_can_be_retried_and_queue_clear_asks_too(running):
    run = service(running, "--listen")
    job = defer(running, "until_cancelled")
    begun(running)
    cancel(running, job)
    wait_for(lambda: "left" in said(running), 20)
    assert running.run(["deferred", "retry", job]).returncode == 0
    wait_for(lambda: said(running).count("begun") == 2, 20)
    assert running.run(["deferred", "queue", "clear", "default", "--yes"]).returncode == 0
    wait_for(lambda: said(running).count("left") == 2, 20, "it was asked by the clearing of its queue")
    stop(run)
    assert rows(running, job) == [(1, "cancelled", True), (2, "cancelled", True)]
    ledger(running)


def test_notifications_from_anybody_cancel_nothing_and_do_not_keep_a_worker_busy(running):
    run = service(running, "--listen")
    job = defer(running, "until_cancelled")
    begun(running)
    worker = running.one("select id from deferred.__deferred_worker")

    def renewals():
        running.sql("select pg_stat_clear_snapshot()")
        return running.one("select n_tup_upd from pg_stat_user_tables where relname = '__deferred_hot'")

    before = renewals()
    until = time.monotonic() + 2
    while time.monotonic() < until:
        running.sql(f"notify deferred, '!{worker}'")
    time.sleep(1.2)
    assert renewals() - before <= 2 / 0.1 + 5
    assert said(running) == ["begun"]
    cancel(running, job)
    wait_for(lambda: "left" in said(running), 20)
    stop(run)
    ledger(running)


# ---- progress


def progress(db, job):
    shown = json.loads(db.run(["deferred", "show", "--json", job]).stdout)["progress"]
    listed = [
        j["progress"] for j in json.loads(db.run(["deferred", "ls", "--running", "--json"]).stdout) if j["id"] == job
    ]
    return shown, listed[0] if listed else None


@pytest.mark.slow
@pytest.mark.parametrize("fn", ["steps_apart", pytest.param("steps", marks=pytest.mark.long)])
def test_progress_is_shown_with_its_age_and_ends_with_the_attempt(running, fn):
    run = service(running)
    job = defer(running, fn, n=28, ms=500, text="copying \x01 fish", junk=1)
    wait_for(lambda: progress(running, job)[0], 20, "it shows")
    shown, listed = progress(running, job)
    assert 0 <= shown["done"] <= listed["done"] <= 28 and shown["total"] == 28 and 0 <= shown["age_s"] < 10
    assert shown["text"] == "copying \x01 fish?"
    text = running.run(["deferred", "show", job]).stdout
    assert "progress    " in text and " of 28 (" in text and "s ago" in text
    wait_for(lambda: (progress(running, job)[0] or listed)["done"] > listed["done"], 20, "it goes on")
    table = running.run(["deferred", "ls", "--running"]).stdout.splitlines()
    assert "PROGRESS" in table[0] and " of 28 (" in table[1] and len(table) == 2
    wait_for(lambda: rows(running, job), 40)
    assert progress(running, job) == (None, None) and running.sql("select * from deferred.__deferred_progress") == []
    assert running.run(["deferred", "ls", "--running"]).stdout == ""
    stop(run)
    assert rows(running, job) == [(1, "ok", True)]
    ledger(running)


def stats(db, table):
    db.sql("select pg_stat_clear_snapshot()")
    return db.one("select n_tup_ins + n_tup_upd + n_tup_del from pg_stat_user_tables where relname = %s", table)


@pytest.mark.slow
def test_progress_is_written_about_once_a_second_however_often_it_is_reported(running):
    run = service(running)
    job = defer(running, "steps", n=4000, ms=1)
    wait_for(lambda: rows(running, job), 30)
    seconds = running.one("select run_us / 1e6::float8 from deferred.__deferred_log")
    stop(run)  # its statistics arrive with its end
    wait_for(lambda: stats(running, "__deferred_progress") >= 3, 20)
    assert stats(running, "__deferred_progress") <= seconds / 0.9 + 3
    ledger(running)


def test_jobs_that_say_nothing_of_their_progress_cost_nothing(running):
    for _ in range(50):
        running.defer("noop")
    long = running.defer("sleep", '{"ms": 2500}')
    assert running.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert rows(running, long) == [(1, "ok", True)]
    assert stats(running, "__deferred_progress") == 0
    ledger(running)


@pytest.mark.slow
def test_a_command_tells_its_progress_by_lines(running):
    script = (
        "trap 'exit 0' TERM; echo 1/4 reading >&$DEFERRED_PROGRESS_FD; echo begun >> %s; sleep 2; echo 3/4 >&3; "
        "sleep 2; echo 3d printing >&3; sleep 2"
    ).replace("%s", file_of(running))
    reconfigure(running, f'function "lines" {{ command = {{"/bin/sh", "-c", "{script}"}} }}\n')
    run = service(running)
    job = defer(running, "lines")
    seen = []
    while not rows(running, job):
        shown = progress(running, job)[0]
        if shown and (shown["done"], shown["total"], shown["text"]) not in seen:
            seen.append((shown["done"], shown["total"], shown["text"]))
        time.sleep(0.1)
    assert seen == [(1, 4, "reading"), (3, 4, None), (None, None, "3d printing")]
    stop(run)
    ledger(running)


@pytest.mark.slow
def test_what_a_dead_worker_left_of_its_progress_is_not_shown_and_goes(running):
    run = service(running)
    job = defer(running, "steps", n=100, ms=500)
    wait_for(lambda: progress(running, job)[0], 20)
    run.kill()
    assert running.one("select count(*) from deferred.__deferred_progress") == 1
    wait_for(lambda: progress(running, job) == (None, None), 20, "the lease has ended")
    running.sql("update deferred.__deferred_progress set reported_at = now() - interval '2 min'")
    running.sql("update deferred.__deferred_hot set fn = 'noop'")
    running.sql("update deferred.__deferred set fn = 'noop'")
    assert running.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert running.sql("select * from deferred.__deferred_progress") == []
    assert running.log(job) == [(1, "ok")]
    ledger(running)


# ---- a longer lease


@pytest.mark.slow
@pytest.mark.parametrize(
    "longer", [True, pytest.param(False, marks=pytest.mark.long)], ids=["extended", "not extended"]
)
def test_a_function_with_an_extended_lease_outlives_a_server_that_is_away(own_server, longer):
    db = prepared(own_server, 'reconnect = "60s"\n')
    run = service(db)
    job = defer(db, "extend", lease_ms=60000 if longer else 1, ms=8000)
    begun(db)
    time.sleep(1.5)  # a renewal has been made, and has not made it shorter
    left = "select max(expires_at) > now() + interval '40 s' from deferred.__deferred_lease"
    assert db.one(left) is longer
    db.stop("immediate")
    time.sleep(5)  # longer than the lease
    db.start()
    wait_for(lambda: rows(db, job), 30)
    stop(run)
    assert rows(db, job) == [(1, "ok", True)]
    assert ("could not be renewed in time" in run.output()) is not longer


def test_extending_a_lease_that_is_lost_fails(running):
    run = service(running)
    job = defer(running, "extend", lease_ms=0)
    wait_for(lambda: rows(running, job), 20)
    stop(run)
    assert "is out of range" in running.sql("select error from deferred.__deferred_log where job_id = %s", job)[0][0]


# ---- finished in its own transaction


def run_own(db, *args, cnt="1", **params):
    job = defer(db, "own", **params)
    done = db.run(["check_deferred", "--cnt", cnt, *args])
    assert done.returncode == 0, done.stderr
    return job, done


def test_work_and_success_are_committed_together(running):
    job, done = run_own(running, how="commit", cnt="0")
    assert effects(running) == [(job, 1)] and rows(running, job) == [(1, "ok", True)]
    assert running.sql(
        "select result, run_us > 0, worker is not null, receipt is not null, started_at <= finished_at "
        "from deferred.__deferred_log"
    ) == [("by itself", True, True, True, True)]
    assert "1 attempt, 1 ok" in done.stderr and "refused" not in done.stderr and "lost" not in done.stderr
    ledger(running)


@pytest.mark.parametrize("then", ["failed", "segv"])
def test_what_happens_after_the_commit_does_not_matter(running, then):
    job, done = run_own(running, how="commit", then=then, cnt="0")
    assert effects(running) == [(job, 1)] and rows(running, job) == [(1, "ok", True)]
    assert "had recorded its success itself" in done.stderr and "1 ok" in done.stderr
    assert running.hot() == 0
    ledger(running)


def test_a_roll_back_takes_the_success_back_too(running):
    job, _ = run_own(running, how="rollback", then="failed", max_attempts=5)
    assert effects(running) == [] and rows(running, job) == [(1, "failed", False)] and running.hot() == 1
    other, _ = run_own(running, how="rollback", then="ok", max_attempts=5, cnt="1")
    wait_for(lambda: len(running.log()) >= 2, 20)
    ledger(running)


def test_a_death_before_the_commit_leaves_neither_work_nor_success(running):
    job, _ = run_own(running, how="commit", then="segv_before", max_attempts=3)
    assert effects(running) == [] and rows(running, job) == [(1, "crashed", False)] and running.hot() == 1
    ledger(running)


def test_calls_handed_to_the_host_are_not_stored_and_that_is_said(running):
    job, done = run_own(running, how="commit", then="defer", cnt="0")
    assert rows(running, job) == [(1, "ok", True)] and len(running.log()) == 1 and running.hot() == 0
    assert "calls of host->defer are lost" in done.stderr
    ledger(running)


@pytest.mark.slow
def test_a_function_that_goes_on_after_it_has_finished_is_left_alone(running):
    run = service(running)
    job = defer(running, "own", how="commit", then="hang", timeout="8s")
    wait_for(lambda: rows(running, job), 20)
    runner = running.orphans()
    time.sleep(4.5)  # longer than the lease
    assert running.orphans() == runner and run.alive()
    wait_for(lambda: not set(running.orphans()) & set(runner), 20, "its time limit is kept")
    other = running.defer("noop")
    wait_for(lambda: rows(running, other), 20)
    stop(run)
    assert effects(running) == [(job, 1)] and rows(running, job) == [(1, "ok", True)]
    assert "2 attempts, 2 ok" in run.output()
    ledger(running)


@pytest.mark.parametrize("what", ["retry", "cancel"])
def test_who_meets_the_open_transaction_waits_and_finds_it_done(running, what):
    run = service(running)
    job = defer(running, "own", how="wait")
    waits(running)
    met = []
    other = threading.Thread(target=lambda: met.append(running.run(["deferred", what, job])))
    other.start()
    wait_for(
        lambda: running.sql(
            "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        ),
        20,
        "it waits",
    )
    go(running)
    other.join(20)
    stop(run)
    assert met[0].returncode != 0 and "is done" in met[0].stderr
    assert effects(running) == [(job, 1)] and rows(running, job) == [(1, "ok", True)]
    ledger(running)


def test_an_open_transaction_with_a_finish_holds_up_nobody_else(running):
    run = service(running, "--listen", "--runners", "2")
    job = defer(running, "own", how="wait", warm_ms=2500)
    wait_for(lambda: running.sql("select 1 from deferred.__deferred_progress"), 20)
    waits(running)
    until, took = time.monotonic() + 1.5, []
    while time.monotonic() < until or len(took) < 10:
        began, other = time.monotonic(), running.defer("noop")
        wait_for(lambda: rows(running, other), 20, "recorded, though the lock of a row is held for long")
        took.append(time.monotonic() - began)
        time.sleep(0.05)
    assert sorted(took)[len(took) // 2] < 0.5, took
    assert rows(running, job) == []
    go(running)
    wait_for(lambda: rows(running, job), 20)
    stop(run)
    assert effects(running) == [(job, 1)] and "lock" not in run.output()
    ledger(running)


def test_a_cancelled_job_cannot_finish_itself(running):
    reconfigure(running, 'kill_after = "10s"\n')
    run = service(running, "--listen")
    job = defer(running, "own", how="first_wait")
    waits(running)
    cancel(running, job)
    wait_for(lambda: "it is asked to stop" in run.output(), 9)
    go(running)
    wait_for(lambda: ": it has ended" in run.output(), 20)
    stop(run)
    assert said(running) == [f"code -13: job {job} is not held by this receipt: it was cancelled"]
    assert effects(running) == [] and rows(running, job) == [(1, "cancelled", True)]
    ledger(running)


def test_one_whose_claim_was_taken_over_cannot_commit(running):
    """Worker and runner are stopped beyond the lease; another one does the job; the runner goes on by itself."""
    run = running.spawn(["check_deferred", "--cnt", "1"], start_new_session=True)
    job = defer(running, "own", how="first_wait", max_attempts=5)
    if not run.alive():
        run = running.spawn(["check_deferred", "--cnt", "1"], start_new_session=True)
    waits(running)
    runners = running.orphans()
    for pid in [run.pid, *runners]:
        os.kill(pid, signal.SIGSTOP)
    go(running)
    wait_for(lambda: not running.held(job), 20, "the lease has ended")
    other = running.run(["check_deferred", "--cnt", "1", "--pidfile", running.pidfile + "2"])
    assert other.returncode == 0, other.stderr
    assert effects(running) == [(job, 1)] and rows(running, job) == [(1, "ok", True)]
    sessions = (
        "select count(*) from pg_stat_activity where datname = current_database() "
        "and state like 'idle in transaction%%'"
    )
    assert running.one(sessions, None) == 1
    for pid in runners:
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: said(running) and running.one(sessions, None) == 0, 20, "its transaction has ended")
    run.signal(signal.SIGCONT)
    run.wait(20)
    assert said(running) == [f"code -13: job {job} is not held by this receipt: it is not running"]
    assert effects(running) == [(job, 1)] and rows(running, job) == [(1, "ok", True)]
    ledger(running)


def kill_at_random(db, rng, n, kills):
    jobs = [defer(db, "own", how="commit", max_attempts=50) for _ in range(n)]
    for i in range(kills):
        if db.hot() == 0:
            jobs += [defer(db, "own", how="commit", max_attempts=50) for _ in range(n // 2)]
        run = db.spawn(["check_deferred", "--cnt", "0", "--runners", "2"], start_new_session=True)
        before = len(db.log())
        wait_for(lambda: len(db.log()) >= before + rng.randrange(1, 6) or not run.alive(), 30)
        time.sleep(rng.random() * 0.01)
        for pid in [run.pid] if rng.random() < 0.5 else db.orphans()[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if rng.random() < 0.5:
            run.kill()
    run.kill()

    def drained():
        assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
        return db.hot() == 0

    wait_for(drained, 60)
    done = db.sql("select job, count(*) from app.effect group by job")
    assert sorted(done) == [(job, 1) for job in sorted(jobs)]
    assert db.sql("select count(*), count(distinct job_id) from deferred.__deferred_log where outcome = 'ok'") == [
        (len(jobs), len(jobs))
    ]
    # The effect is that of the very attempt which is recorded as ok.
    assert (
        db.sql(
            "select e.job from app.effect e join deferred.__deferred_log l on l.job_id = e.job and l.outcome = 'ok' "
            "and l.attempt <> e.attempt"
        )
        == []
    )
    ledger(db)


@pytest.mark.slow
def test_each_effect_comes_exactly_once_whoever_is_killed(running, rng):
    kill_at_random(running, rng, 40, 6)


@pytest.mark.long
def test_each_effect_comes_exactly_once_whoever_is_killed_long(running, rng):
    kill_at_random(running, rng, 100, 40)
