"""Steps: what a function has saved is there for the next attempt, whoever dies when."""

import contextlib
import json
import os
import signal
from collections import Counter

import pytest

from harness import ledger, wait_for

QUICK = 'interval_floor = "50ms"\ninterval_ceiling = "100ms"\nbackoff_floor = "1ms"\nbackoff_ceiling = "1ms"\n'
NAMES = [f"s{i}" for i in range(1, 6)]


@pytest.fixture
def running(db):
    return prepared(db)


def prepared(db, more=""):
    db.plugins("running")
    db.config(QUICK + f'lease = "3s"\ngrace = "1ms"\nsettings "running" {{ conninfo = "{db.conninfo}" }}\n' + more)
    return db


def service(db, name="a", *args):
    run = db.spawn(["check_deferred", "--loop", "--pidfile", f"{db.pidfile}.{name}", *args])
    wait_for(
        lambda: db.sql("select 1 from deferred.__deferred_worker where pid = %s", run.pid), 20, "it has registered"
    )
    return run


def drain(db):
    """Until no job is left: a retry may be due when a run has just ended."""
    output = ""
    while db.hot():
        done = db.run(["check_deferred", "--cnt", "0"])
        assert done.returncode == 0, done.stderr
        output += done.stderr
    return output


def stop(run):
    run.signal(signal.SIGTERM)
    assert run.wait(30) == 0, run.output()


def defer(db, fn="saved", **params):
    options = {k: params.pop(k) for k in ("max_attempts",) if k in params}
    return db.defer(fn, json.dumps({"file": f"{db.dir}/said", **params}), **options)


def said(db):
    with contextlib.suppress(FileNotFoundError), open(f"{db.dir}/said") as f:
        return f.read().split("\n")[:-1]
    return []


def go(db):
    open(f"{db.dir}/said.go", "w").close()


def steps(db):
    return dict(db.sql("select name, value::text from deferred.__deferred_step order by number"))


def rows(db, job):
    return db.sql(
        "select attempt, outcome, final from deferred.__deferred_log where job_id = %s order by attempt, finished_at",
        job,
    )


def result(db, job):
    text = db.one("select result from deferred.__deferred_log where job_id = %s and outcome = 'ok'", job)
    return json.loads(text) if text else {}


def ended(db, job):
    wait_for(lambda: db.sql("select 1 from deferred.__deferred_log where job_id = %s and final", job), 60, "it ends")


@pytest.mark.parametrize("fn", ["saved", "saved_apart"])
def test_a_step_is_stored_when_the_call_returns_and_deleted_with_the_success(running, fn):
    job = defer(running, fn, wait=3)
    run = service(running)
    wait_for(lambda: said(running) == NAMES[:3], 20, "it waits")
    assert steps(running) == {"s1": "1", "s2": "2"}
    go(running)
    ended(running, job)
    stop(run)
    assert said(running) == NAMES and steps(running) == {} and rows(running, job) == [(1, "ok", True)]
    ledger(running)


@pytest.mark.parametrize("fn", ["saved", "saved_apart"])
def test_the_attempt_after_a_crash_goes_on_behind_the_last_step(running, fn):
    job = defer(running, fn, die=3)
    drain(running)
    assert said(running) == [*NAMES[:3], *NAMES[2:]]
    assert [row[1] for row in rows(running, job)] == ["crashed", "ok"]
    assert result(running, job) == {"s1": 1, "s2": 2} and steps(running) == {}
    ledger(running)


def test_the_start_after_the_death_of_a_worker_goes_on_behind_the_last_step(running):
    job = defer(running, wait=3)
    run = running.spawn(["check_deferred", "--loop"])
    wait_for(lambda: said(running) == NAMES[:3], 20, "it waits")
    run.kill()
    go(running)
    wait_for(lambda: not running.orphans(), 20, "its runners are gone")
    drain(running)
    assert said(running) == [*NAMES[:3], *NAMES[2:]] and result(running, job) == {"s1": 1, "s2": 2}
    ledger(running)


@pytest.mark.slow
def test_a_job_of_twenty_steps_ends_under_starts_that_take_over(running):
    """Each start comes when three more steps have been saved, so no attempt is long enough for the job."""
    job, starts, run = defer(running, n=20, ms=30), 0, None
    while not rows(running, job) or not rows(running, job)[-1][2]:
        before, starts = len(steps(running)), starts + 1
        run = running.spawn(["check_deferred", "--cnt", "0"])
        wait_for(lambda: len(steps(running)) >= before + 3 or not running.hot(), 30, "three more steps")
    assert run.wait(30) == 0, run.output()
    ran = Counter(said(running))
    assert len(ran) == 20 and set(ran.values()) <= {1, 2} and sum(ran.values()) - 20 <= starts - 1
    assert {row[1] for row in rows(running, job)[:-1]} <= {"superseded"} and starts > 3
    assert steps(running) == {}
    ledger(running)


@pytest.mark.long
def test_a_job_of_twenty_seconds_ends_under_a_line_of_cron_that_takes_over_every_seven(running):
    job, runs = defer(running, n=20, ms=1000), []
    while running.hot() and len(runs) < 20:
        runs.append(running.spawn(["check_deferred", "--cnt", "0"]))
        with contextlib.suppress(AssertionError):
            wait_for(lambda: not running.hot(), 7, "the end of the job")
    assert runs[-1].wait(30) == 0, runs[-1].output()
    ran = Counter(said(running))
    assert len(ran) == 20 and set(ran.values()) <= {1, 2} and sum(ran.values()) - 20 <= len(runs) - 1
    assert [row[1:] for row in rows(running, job)] == [("superseded", False)] * (len(runs) - 1) + [("ok", True)]
    assert len(runs) >= 3 and steps(running) == {}
    ledger(running)


@pytest.mark.slow
def test_while_the_server_is_away_a_function_waits_and_no_step_runs_twice(own_server):
    """The server dies at any point: before it has the step, while it stores it, and before its answer."""
    db = prepared(own_server, 'reconnect = "60s"\n')
    with open(db.config_file) as f:
        text = f.read().replace('lease = "3s"', 'lease = "60s"')
    db.config(text)
    job = defer(db, n=300, ms=1)
    run = service(db)
    for n in (20, 80, 140, 200):
        wait_for(lambda: len(said(db)) >= n, 60, "it goes on")
        db.kill()
        db.start()
    ended(db, job)
    assert said(db) == [f"s{i}" for i in range(1, 301)] and rows(db, job) == [(1, "ok", True)]
    stop(run)
    ledger(db)


@pytest.mark.slow
def test_a_worker_that_was_presumed_dead_cannot_save(running):
    job = defer(running, wait=2)
    late = service(running, "late")
    wait_for(lambda: said(running) == NAMES[:2], 20, "it waits")
    late.signal(signal.SIGSTOP)
    heir = service(running, "heir")
    wait_for(lambda: said(running) == [*NAMES[:2], "s2"], 60, "another attempt has begun")
    go(running)
    ended(running, job)
    late.signal(signal.SIGCONT)
    wait_for(lambda: "lease" in late.output() and not running.sql("select from deferred.__deferred_hot"), 30)
    stop(late)
    stop(heir)
    assert Counter(said(running)) == Counter([*NAMES, "s2"]) and steps(running) == {}
    assert rows(running, job)[-1][1:] == ("ok", True)
    ledger(running)


def test_a_function_whose_lease_has_ended_is_refused(running):
    job = defer(running, wait=2)
    run = service(running)
    wait_for(lambda: said(running) == NAMES[:2], 20, "it waits")
    run.signal(signal.SIGSTOP)  # it does not renew the lease meanwhile
    running.sql("update deferred.__deferred_lease set expires_at = now() - interval '1 s'")
    go(running)
    run.signal(signal.SIGCONT)
    wait_for(lambda: f"job {job} saved attempt 1: step s2 was not saved: the lease had ended" in run.output(), 20)
    ended(running, job)
    stop(run)
    assert steps(running) == {} and said(running)[-3:] == NAMES[2:]
    ledger(running)


def saved_once(db, fn="save", more=None, **params):
    job = db.defer(fn, json.dumps(params))
    if more:
        more(job)
    output = drain(db)
    return db.one("select result from deferred.__deferred_log where job_id = %s and final", job), output


@pytest.mark.parametrize("fn", ["save", "save_apart"])
@pytest.mark.parametrize(
    "name, text, bytes, code",
    [
        ("a.b_C9", '{"x": [1, "é"]}', 0, 0),
        ("x" * 127, "null", 0, 0),
        ("a", "1", 65536, 0),
        ("a", "1", 65537, -1),
        ("", "1", 0, -1),
        ("1a", "1", 0, -1),
        ("a b", "1", 0, -1),
        ("é", "1", 0, -1),
        ("x" * 128, "1", 0, -1),
        ("a", "", 0, -1),
        ("a", "{", 0, -1),
        ("a", "1 2", 0, -1),
    ],
    ids=str,
)
def test_names_and_values_are_checked(running, fn, name, text, bytes, code):
    said, _ = saved_once(running, fn, name=name, text=text, bytes=bytes)
    assert said == f"{code} {(text + ' ' * (bytes - len(text)))[:100] if code == 0 else 'NULL'}"
    ledger(running)


def test_what_the_server_cannot_store_is_refused_alone(running):
    running.sql("alter table deferred.__deferred_step add constraint odd check (name <> 'a')")
    others = [running.defer("noop") for _ in range(5)]
    job = running.defer("save", '{"name": "a", "text": "1"}')
    output = drain(running)
    assert running.one("select result from deferred.__deferred_log where job_id = %s", job) == "-4 NULL"
    assert "save attempt 1: step a was not saved: new row" in output
    assert [rows(running, other) for other in others] == [[(1, "ok", True)]] * 5
    ledger(running)


def fill(db, n):
    def more(job):
        db.sql(
            "insert into deferred.__deferred_step (job_id, name, value, bytes, number, attempt, resets) "
            "select %s, 'f' || i, '1', 1, i, 1, false from generate_series(1, %s) i",
            job,
            n,
        )
        db.sql("update deferred.__deferred_hot set watched = false, params_bytes = 1024 + %s where id = %s", n, job)

    return more


def test_a_full_job_is_told_so(running):
    said, output = saved_once(running, name="one_more", text="1", more=fill(running, 1000))
    assert said == "-2 NULL" and "step one_more was not saved: it has 1000 steps" in output
    said, _ = saved_once(running, name="f7", text="2", more=fill(running, 1000))
    assert said == "0 2"
    ledger(running)


@pytest.mark.slow
def test_a_flood_of_steps_ends_at_the_limit_and_stays_in_the_order_of_saving(running):
    job = defer(running, n=1100, max_attempts=1)
    drain(running)
    assert running.one("select error from deferred.__deferred_log") == "step s1001: -2"
    assert list(steps(running)) == [f"s{i}" for i in range(1, 1001)]
    ledger(running)
    assert running.run(["deferred", "retry", job]).returncode == 0
    drain(running)
    assert len(said(running)) == 1002, "only the step that was refused ran again"
    assert running.run(["deferred", "retry", "--from-start", job]).returncode == 0
    assert steps(running) == {}
    ledger(running)


def test_a_locked_row_delays_the_step_and_nothing_else(running):
    job, other = defer(running, wait=2), None
    run = service(running, "a", "--runners", "2")
    wait_for(lambda: said(running) == NAMES[:2], 20, "it waits")
    with contextlib.closing(running.connect()) as connection:
        connection.cursor().execute("select from deferred.__deferred_hot where id = %s for update", (job,))
        go(running)
        other = running.defer("noop")
        ended(running, other)
        assert said(running) == NAMES[:2]
    ended(running, job)
    stop(run)
    assert said(running) == NAMES and rows(running, job) == [(1, "ok", True)]
    ledger(running)


@pytest.mark.slow
def test_a_function_that_holds_its_own_row_gets_an_answer(running):
    said, output = saved_once(running, name="a", text="1", own=1)
    assert said == "-4 NULL" and "step a was not saved: a transaction has locked the row of the job" in output
    ledger(running)


def test_an_attempt_that_moved_on_does_not_count_for_a_function_that_says_so(running):
    plain, resets = (defer(running, fn, n=3, each=1, refuse=1, max_attempts=1) for fn in ("saved", "saved_resets"))
    drain(running)
    assert rows(running, plain) == [(1, "failed", True)]
    assert rows(running, resets) == [
        (1, "failed", False),
        (2, "failed", False),
        (3, "failed", False),
        (4, "failed", True),
    ]
    ledger(running)


def test_a_dead_job_keeps_its_steps_and_its_retry_has_them(running):
    job = defer(running, dead=2)
    drain(running)
    assert rows(running, job) == [(1, "failed", True)] and steps(running) == {"s1": "1", "s2": "2"}
    assert running.run(["deferred", "retry", job]).returncode == 0
    drain(running)
    assert said(running) == NAMES and result(running, job) == {"s1": 1, "s2": 2} and steps(running) == {}
    ledger(running)


def test_jobs_without_steps_never_ask_for_any(running):
    def scans(others):
        """Of the table of steps, by a worker that runs one job with steps, and others without."""
        running.sql("select pg_stat_reset()")
        for _ in range(others):
            running.defer("noop")
        if others:
            running.defer("sample.fail", max_attempts=2)
        defer(running, n=1)
        drain(running)
        wait_for(
            lambda: running.one("select count(*) from pg_stat_activity where datname = current_database()") == 1, 20
        )
        running.sql("select pg_stat_clear_snapshot()")
        return running.one(
            "select coalesce(idx_scan, 0) + seq_scan + n_tup_del from pg_stat_user_tables "
            "where relname = '__deferred_step'"
        )

    alone = scans(0)
    assert alone > 1 and scans(20) == alone


COMMAND = (
    '[ -n "$DEFERRED_STEPS_FD" ] && exec cat <&$DEFERRED_STEPS_FD; echo \'step a {"x": 1}\' >&$DEFERRED_PROGRESS_FD; '
    "echo 'step b [2]' >&3; echo step two of three >&3; echo 'step 3 4' >&3; echo step >&3; exit 1"
)


def command(db, script):
    with open(f"{db.dir}/script", "w") as f:
        f.write(script)
    os.chmod(f"{db.dir}/script", 0o755)
    with open(db.config_file) as f:
        db.config(f.read() + f'function "lines" {{ command = {{"/bin/sh", "{db.dir}/script"}} }}\n')


def test_a_command_saves_by_lines_and_reads_what_it_saved(running):
    command(running, COMMAND)
    job = running.defer("lines")
    drain(running)
    assert [row[1] for row in rows(running, job)] == ["failed", "ok"]
    assert result(running, job) == {"a": {"x": 1}, "b": [2]} and steps(running) == {}
    ledger(running)


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_a_command_whose_step_is_refused_is_ended_and_has_failed(running, isolate):
    command(running, "echo 'step a 1' >&3; exec sleep 60")
    with open(running.config_file) as f:
        running.config(f.read() + f'isolate = "{isolate}"\n')
    job = running.defer("lines", max_attempts=1)
    fill(running, 1000)(job)
    drain(running)
    assert rows(running, job) == [(1, "failed", True)]
    assert running.one("select error from deferred.__deferred_log") == (
        "step 'a' was not saved: the steps of the job are too many or too large"
    )
    ledger(running)


def test_the_largest_line_is_a_step_and_a_larger_one_is_refused(running):
    command(
        running, """python3 -c 'print("step", "n" * 127, "\\"" + "v" * N + "\\"")' >&3; sleep 1""".replace("N", "65534")
    )
    job = running.defer("lines")
    drain(running)
    assert rows(running, job) == [(1, "ok", True)]
    command_file = f"{running.dir}/script"
    with open(command_file) as f:
        text = f.read().replace("65534", "65535")
    with open(command_file, "w") as f:
        f.write(text)
    job = running.defer("lines", max_attempts=1)
    drain(running)
    assert rows(running, job) == [(1, "failed", True)]
    assert "was not saved: it is not valid" in running.one(
        "select error from deferred.__deferred_log where job_id = %s", job
    )


def test_a_function_run_without_a_database_goes_on(running):
    done = running.run(["deferred", "run", "save", '{"name": "a", "text": "7"}'])
    assert (done.returncode, done.stdout) == (0, "0 7\n")
    assert "not saved, there being no queue: step a 7" in done.stderr
