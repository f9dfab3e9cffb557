"""Functions that lie to the parent: P13 with a function that writes the board, and its like. What a
runner claims costs its own jobs at most. Each job comes to an end or can be claimed again, limits
hold, the parent lives, its memory is bounded."""

import contextlib
import json
import os
import time

import pytest

from harness import SAN, ledger, wait_for

ROOT = os.geteuid() == 0
FREE, QUEUED, RUNNING, DONE, RECALLED = range(5)


def defer_many(db, fn, n, **opts):
    return [r[0] for r in db.sql("select deferred.defer_many(%s)", json.dumps([{"fn": fn, **opts}] * n))]


@contextlib.contextmanager
def settled(db, *args, n=150, timeout=60):
    """A run with two runners and n jobs of good will beside those of the test: all of them are
    done, and nothing is held."""
    db.plugins("forger", "unruly")
    db.config('kill_after = "200ms"\nbackoff_floor = "10ms"\nbackoff_ceiling = "20ms"\n')
    db.sql(
        "select deferred.defer_many(%s)", json.dumps([{"fn": "noop", "priority": 1}] * 20)
    )  # short ones, so that many go to a runner
    yield
    good = defer_many(db, "noop", n)

    def drained():
        run = db.run(["check_deferred", "--cnt", "0", "--runners", "2", *args], timeout=timeout)
        assert run.returncode == 0, run.stderr
        assert db.sql("select id from deferred.__held") == []
        return db.hot() == 0

    wait_for(drained, timeout, "what failed for its neighbour's sake is tried again")
    ended = db.sql("select job_id from deferred.__deferred_log where final and job_id = any(%s)", good)
    assert sorted(r[0] for r in ended) == good
    ledger(db)


@pytest.mark.parametrize("fn", ["young", "hidden", "unheard"])
def test_p13_a_function_that_writes_the_board_has_no_more_time_for_it(db, fn):
    with settled(db):
        job = db.defer(fn, '{"ms": 8000}', timeout="1s", max_attempts=1)
    assert {outcome for _, outcome in db.log(job)} <= {"timeout", "interrupted", "failed"}
    # 1 s, one more before it counts as begun, 200 ms to SIGKILL; the rest is the load of the
    # machine, and less than it would have slept.
    assert db.one("select max(run_us) from deferred.__deferred_log where job_id = %s", job) < 6_000_000


def test_numbers_that_no_column_holds_are_recorded_as_some_that_it_does(db):
    with settled(db):
        job = db.defer("numbers", max_attempts=1, timeout="10s")
    assert db.log(job) == [(1, "failed")]
    assert db.one(
        "select run_us >= 0 and wait_us >= 0 and finished_at <= now() from deferred.__deferred_log where job_id = %s",
        job,
    )


def test_times_and_use_of_the_processor_that_cannot_be_are_not_recorded(db):
    """A thread writes them all the time, also while the parent looks."""
    with settled(db, "--runners", "1"):
        jobs = defer_many(db, "times", 1, priority=2) + defer_many(db, "sleep", 60, params={"ms": 5}, priority=1)
    assert db.sql("select distinct outcome from deferred.__deferred_log where job_id = any(%s)", jobs) == [("ok",)]
    assert db.one(
        """select bool_and(l.started_at >= d.created_at and l.finished_at >= l.started_at
            and l.finished_at <= clock_timestamp()
                         and l.run_us between 0 and 60000000 and l.wait_us >= 0
                         and least(l.user_us, l.sys_us, l.max_rss_kb) >= 0)
                     from deferred.__deferred_log l join deferred.__deferred d on d.id = l.job_id
                     where d.id = any(%s)""",
        jobs,
    )


@pytest.mark.parametrize("state", [FREE, RUNNING, DONE, RECALLED, 77])
@pytest.mark.parametrize("ending", [0, 1])
def test_p13_slots_of_others_in_any_state_lose_no_job(db, state, ending):
    with settled(db):
        job = db.defer("states", json.dumps({"state": state, "ms": 700, "exit": ending}), timeout="5s", max_attempts=1)
    assert db.log(job) and db.log(job)[-1][1] != "ok"


@pytest.mark.parametrize("state", [FREE, QUEUED, RUNNING, DONE, RECALLED, 77])
def test_p13_a_thread_that_goes_on_writing_holds_no_job_for_ever(db, state):
    with settled(db, timeout=100):
        defer_many(db, "states_for_ever", 1, params={"state": state}, timeout="1s", max_attempts=1)


def test_p13_a_board_of_noise_loses_no_job(db):
    with settled(db):
        job = db.defer("scribble", '{"ms": 1000}', timeout="5s", max_attempts=1)
    assert db.log(job)


@pytest.mark.parametrize("kind", range(8))
def test_frames_that_are_not_its_to_send_end_its_runner_at_most(db, kind):
    with settled(db):
        job = db.defer("frames", json.dumps({"kind": kind}), timeout="2s", max_attempts=1)
    assert db.log(job) and len(db.log(job)) == 1
    assert db.one("select count(*) from deferred.__deferred_log where plugin like 'evil%%'") == 0


@pytest.mark.parametrize(
    "fn, params",
    [
        ("young", {}),
        ("hidden", {}),
        ("unheard", {}),
        ("scribble", {}),
        ("states", {"state": DONE}),
        ("states", {"state": FREE}),
        ("states_for_ever", {"state": DONE}),
        ("haunt", {}),
        ("frames", {"kind": 0}),
        ("frames", {"kind": 2}),
        ("frames", {"kind": 4}),
        ("frames", {"kind": 7}),
    ],
)
def test_in_a_process_of_its_own_it_reaches_no_other_job_at_all(db, fn, params):
    with settled(db, "--isolate=job"):
        bad = defer_many(db, fn, 2, params={"ms": 3000, **params}, timeout="1s", max_attempts=1)
    others = db.sql(
        "select distinct attempt, outcome, final from deferred.__deferred_log where not job_id = any(%s)", bad
    )
    assert others == [(1, "ok", True)]
    assert all(len(db.log(job)) == 1 for job in bad)


def test_in_a_process_of_its_own_it_finds_no_board(db):
    with settled(db, "--isolate=job"):
        job = db.defer("reach", timeout="5s", max_attempts=1)
    assert db.one("select result from deferred.__deferred_log where job_id = %s", job).startswith("board 0, ")


def test_what_a_function_left_behind_says_of_its_progress_is_not_that_of_another_job(db):
    db.plugins("forger", "unruly")
    db.defer("haunt", timeout="5s", priority=1)
    other = db.defer("sleep", '{"ms": 2500}')
    run = db.spawn(["check_deferred", "--cnt", "0", "--isolate=job", "--runners", "1"])
    wait_for(lambda: db.log(other), 30)
    assert db.log(other) == [(1, "ok")]
    assert db.one("select count(*) from deferred.__deferred_progress where done = 666") == 0
    wait_for(lambda: not run.alive(), 30)


if ROOT:  # otherwise no other user can be switched to

    @pytest.mark.parametrize("isolate", ["child", "job"])
    def test_functions_of_an_ordinary_user_cannot_look_into_a_runner(db, isolate):
        db.plugins("forger", "unruly")
        os.chmod(db.dir, 0o755)
        job = db.defer("reach", timeout="5s", max_attempts=1)
        done = db.run(["check_deferred", "--user", "nobody", f"--isolate={isolate}"])
        assert done.returncode == 0, done.stderr
        ((outcome, result),) = db.sql("select outcome, result from deferred.__deferred_log where job_id = %s", job)
        assert outcome == "ok"
        # Its parent is the runner in the one case, the parent of that in the other.
        assert result == f"board {int(isolate == 'child')}, its maps 0, its memory 0, its socket 0, trace 0"


# ---- memory ----------------------------------------------------------------------------------------


def high_water_kb(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM:"))


@contextlib.contextmanager
def service(db, *args):
    db.plugins("forger", "unruly")
    db.config('interval_floor = "20ms"\ninterval_ceiling = "50ms"\nkill_after = "200ms"\n')
    run = db.spawn(["check_deferred", "--loop", "--runners", "2", *args])
    first = db.defer("noop")
    wait_for(lambda: db.log(first), 20)
    yield run
    last = db.defer("noop")
    wait_for(lambda: db.log(last) == [(1, "ok")], 60, "the service goes on")
    assert run.alive()
    ledger_later(db, run)


def ledger_later(db, run):
    run.process.terminate()
    wait_for(lambda: not run.alive(), 30)
    ledger(db)


def test_a_plugin_that_tells_of_functions_without_end_is_not_listened_to(db):
    db.plugins("forger", "unruly", "flood_at_load")
    job = db.defer("noop")
    run = db.spawn(["check_deferred", "--loop"])
    wait_for(lambda: db.log(job) == [(1, "ok")], 30)
    assert "plugin 'flood_at_load.so' not loaded" in run.output()
    assert high_water_kb(run.pid) < 60 * 1024
    ledger_later(db, run)


@pytest.mark.parametrize(
    "params", [{}, {"paths": 1}, {"paths": 2}, {"bytes": 900_000}], ids=["calls", "paths", "files", "large calls"]
)
def test_a_function_that_asks_for_too_much_is_refused_and_fails(db, params):
    with service(db) as run:
        jobs = defer_many(db, "ask", 4, params=params, max_attempts=1, timeout="60s")
        wait_for(lambda: all(db.log(j) for j in jobs), 120)
        if not SAN:
            assert high_water_kb(run.pid) < 100_000
    assert all(db.log(j) == [(1, "failed")] for j in jobs)
    took = {int(r[0]) for r in db.sql("select result from deferred.__deferred_log where job_id = any(%s)", jobs)}
    assert took == {4 if "bytes" in params else 10000}
    ((error,),) = db.sql("select distinct error from deferred.__deferred_log where job_id = any(%s)", jobs)
    assert (
        error
        == "the function asked for more to be deferred or removed than an attempt may: 10000 calls and paths, 4 MiB"
    )
    assert (
        db.hot() == 0 and db.one("select count(*) from deferred.__deferred_log") == len(jobs) + 2
    )  # nothing was deferred


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_the_parent_believes_no_runner_that_sends_more(db, isolate):
    with service(db, f"--isolate={isolate}") as run:
        jobs = defer_many(db, "flood", 4, params={"n": 150}, max_attempts=1, timeout="60s")
        wait_for(lambda: all(db.log(j) for j in jobs), 120)
        if not SAN:
            assert high_water_kb(run.pid) < 60_000
    assert all(db.log(j) == [(1, "failed")] for j in jobs)


@pytest.mark.long
def test_results_that_cannot_be_recorded_yet_are_not_read_without_end(db):
    """Each attempt stays within its budget; somebody keeps the log locked, so that none is recorded."""
    with service(db, "--lease", "60s", "--batch", "40") as run:
        with db.connect() as other:
            cur = other.cursor()
            cur.execute("begin; lock table deferred.__deferred_log in share mode")
            jobs = defer_many(
                db, "ask", 40, params={"bytes": 900_000, "n": 4}, timeout="60s", max_attempts=2
            )  # not one by one, as with one attempt
            seen = []

            def steady():
                seen.append(high_water_kb(run.pid))
                time.sleep(0.1)
                return len(seen) > 60 and seen[-1] == seen[-60]

            if SAN:  # which keeps what was freed, and so grows for another reason
                time.sleep(3)
            else:
                wait_for(steady, 40, "it reads no more")
                assert 20_000 < seen[-1] < 80_000  # some, but not all of 140 MB
            cur.execute("rollback")
        wait_for(lambda: all(db.log(j) for j in jobs), 120)
    assert all(db.log(j)[-1][1] == "ok" for j in jobs)
