"""Processes and plugins that die, hang, lie and escape: rows P1 to P24 of the fault matrix.

P2, P8 and the quick half of P4 are also in tests/bin/test_check_deferred.py, where the pid file is
tested as an interface.
"""

import contextlib
import fcntl
import json
import os
import pwd
import re
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

import pg
from harness import BUILD, SAN, ledger, wait_for

ROOT = os.geteuid() == 0


def claimed(db):
    return db.sql("select 1 from deferred.__held")


def outcomes(db):
    return {r[0] for r in db.sql("select distinct outcome from deferred.__deferred_log")}


def check(db, *args, code=0, **kw):
    done = db.run(["check_deferred", *args], **kw)
    assert done.returncode == code, done.stderr
    return done


def kill_at_seeded_moments(recorded, rng, jobs, kills, group):
    db = recorded.db
    ids = recorded.defer(jobs, ms=3)
    for _ in range(kills):
        if db.hot() == 0:
            ids += recorded.defer(20, ms=3)
        seen = len(recorded.lines())
        run = db.spawn(
            ["check_deferred", "--cnt", "0", "--batch", str(rng.choice([1, 5, 50])), "--runners", "2"],
            start_new_session=True,
        )
        wait_for(lambda: len(recorded.lines()) >= seen + rng.randrange(1, 12) or not run.alive(), 30)
        if group:
            with contextlib.suppress(ProcessLookupError):  # it was quicker
                os.killpg(run.pid, signal.SIGKILL)
        run.kill()
        wait_for(lambda: not db.orphans(), 20, "runners die with their parent")
    recorded.drain()
    assert outcomes(db) <= {"ok", "lost"}
    recorded.assert_all_ok(ids, lost=True)


@pytest.mark.parametrize("group", [False, True], ids=["parent", "process group"])
def test_p1_a_killed_parent_loses_nothing(recorded, rng, group):
    kill_at_seeded_moments(recorded, rng, 60, 5, group)


@pytest.mark.long
def test_p1_fifty_kills_lose_nothing(recorded, rng):
    kill_at_seeded_moments(recorded, rng, 200, 50, False)


def test_p1_jobs_of_a_killed_parent_are_claimed_again_at_the_next_start(db):
    """Long before their lease ends: the lock of the pid file proves that the parent is gone."""
    job = db.defer("sleep", '{"ms": 60000}')
    run = db.spawn(["check_deferred", "--lease", "1h"])
    before = wait_for(lambda: db.held(job))
    run.kill()
    again = db.spawn(["check_deferred", "--lease", "1h"])
    before = wait_for(lambda: db.held(job) not in (None, before) and db.held(job), 10)
    assert db.log(job) == [], "who dies with a batch in hand leaves open what had begun"
    wait_for(db.noted, 20, "it has begun")
    again.kill()
    again = db.spawn(["check_deferred", "--lease", "1h", "--grace", "100ms"])
    wait_for(lambda: db.held(job) not in (None, before), 20)
    assert db.log(job) == [(1, "lost")], "it was alone in that lease"
    again.signal(signal.SIGTERM)
    again.wait(20)
    ledger(db)


def test_p3_a_worker_stopped_past_its_lease_records_nothing(recorded):
    db = recorded.db
    (job,) = recorded.defer(1, ms=1500)
    stopped = db.spawn(["check_deferred", "--lease", "1s"])
    wait_for(lambda: recorded.starts(job))
    group = [stopped.pid] + db.orphans()
    for pid in group:
        os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: not claimed(db), 20, "the lease ended")
    other = db.spawn(["check_deferred", "--pidfile", db.dir + "/other"])
    wait_for(lambda: len(recorded.starts(job)) == 2, 20)
    for pid in group:
        with contextlib.suppress(ProcessLookupError):  # the first of them kills the others
            os.kill(pid, signal.SIGCONT)
    assert stopped.wait(30) in (0, 69)
    assert other.wait(30) == 0
    assert db.log(job) == [(1, "ok")]
    assert (
        db.one("select w.pid from deferred.__deferred_log l join deferred.__deferred_worker w on w.id = l.worker")
        == other.pid
    )
    assert len(recorded.starts(job)) == 2
    ledger(db)


def takeovers(recorded, launches, shells):
    db = recorded.db
    jobs = recorded.defer(40, ms=20)
    codes = []

    def shell():
        for _ in range(launches // shells):
            codes.append(db.run(["check_deferred", "--cnt", "0", "--batch", "4", "--grace", "50ms"]).returncode)

    threads = [threading.Thread(target=shell) for _ in range(shells)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    # One that is replaced before it has found work ends by the signal itself.
    assert set(codes) <= {0, 75, -signal.SIGTERM}
    recorded.drain()
    assert outcomes(db) <= {"ok", "superseded", "interrupted", "lost"}
    recorded.assert_all_ok(jobs, lost=True)


def test_p4_many_launches_with_one_pidfile_never_run_a_job_twice_at_once(recorded):
    takeovers(recorded, 24, 4)


@pytest.mark.long
def test_p4_a_hundred_launches_from_four_shells(recorded):
    takeovers(recorded, 100, 4)


def test_p5_other_pidfiles_are_untouched_by_a_takeover(recorded):
    db = recorded.db
    jobs = recorded.defer(3, ms=1200, queue="others")
    others = [db.spawn(["check_deferred", "--queue", "others", "--pidfile", f"{db.dir}/other{i}"]) for i in range(3)]
    wait_for(lambda: len(recorded.starts()) == 3)
    (long_one,) = recorded.defer(1, ms=60000)
    for n in range(4):
        restarted = db.spawn(["check_deferred", "--queue", "default", "--grace", "50ms"])
        wait_for(lambda: len(recorded.starts(long_one)) == n + 1, 20)
    assert [o.wait(30) for o in others] == [0, 0, 0]
    assert [db.log(j) for j in jobs] == [[(1, "ok")]] * 3
    assert [o for _, o in db.log(long_one)] == ["superseded"] * 3
    restarted.signal(signal.SIGTERM)
    restarted.wait(20)
    ledger(db)


if ROOT:

    @pytest.mark.slow
    def test_p5_of_four_instances_three_keep_their_leases_while_one_is_restarted_in_a_loop(recorded):
        """Two of them see no process but their own, and each other's numbers are the same."""
        db, program = recorded.db, os.path.join(BUILD, "bin", "check_deferred")
        apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", program]
        others = [
            db.spawn([*how, "--queue", "others", "--cnt", "1", "--pidfile", f"{db.dir}/other{i}"])
            for i, how in enumerate(([program], apart, apart))
            if recorded.defer(1, ms=4000, queue="others")
        ]
        wait_for(lambda: len(recorded.starts()) == 3)
        leases = "select id, attempt, worker, claimed_at from deferred.__held where queue = 'others' order by id"
        before = db.sql(leases)
        (long_one,) = recorded.defer(1, ms=60000)
        for n in range(10):
            restarted = db.spawn(["check_deferred", "--queue", "default", "--grace", "0s"])
            wait_for(lambda: len(recorded.starts(long_one)) == n + 1, 20)
            if n % 3 == 2:
                restarted.kill()
            assert set(db.sql(leases)) <= set(before), "no lease of another instance is touched"
        assert [o.wait(30) for o in others] == [0, 0, 0]
        assert [db.log(r[0]) for r in before] == [[(1, "ok")]] * 3
        restarted.signal(signal.SIGTERM)
        restarted.wait(20)
        assert db.run(["deferred", "cancel", long_one]).returncode == 0
        ledger(db)


@pytest.mark.parametrize(
    "text",
    [b"1\n", b"-1\n", b"0\n", b"$(touch pwned)\n", b"SENTINEL\n", b"SENTINEL 1 -1\n", b"9" * 1_000_000, b"\0\0\0", b""],
    ids=["init", "minus one", "zero", "shell", "sentinel", "several", "1 MB", "NUL", "empty"],
)
def test_p6_p7_the_text_of_a_pidfile_is_never_used_for_a_signal(db, text):
    sentinel = db.spawn(["sleep", "1000"])
    with open(db.pidfile, "wb") as f:
        f.write(text.replace(b"SENTINEL", str(sentinel.pid).encode()))
    os.chmod(db.pidfile, 0o600)
    db.defer("noop")
    run = db.spawn(["check_deferred"])
    assert run.wait(20) == 0
    assert sentinel.alive()
    assert not os.path.exists(os.path.join(db.dir, "pwned"))
    with open(db.pidfile) as f:
        assert f.read().strip() in ("", str(run.pid))
    assert db.hot() == 0
    ledger(db)


def test_p6_a_holder_that_is_no_check_deferred_is_ended_only_because_it_holds_the_lock(db):
    """Writing a pid into the file is not enough, holding its lock is."""
    sentinel = db.spawn(["sleep", "1000"])
    with open(db.pidfile, "w") as f:
        f.write(str(sentinel.pid))
    os.chmod(db.pidfile, 0o600)
    holder = db.spawn(
        [
            "/usr/bin/python3",
            "-c",
            f"import "
            f"fcntl,time;f=open({db.pidfile!r},'r+');fcntl.lockf(f,fcntl.LOCK_EX);"
            "print('held',flush=True);time.sleep(1000)",
        ]
    )
    wait_for(lambda: "held" in holder.output())
    db.defer("noop")
    check(db, "--grace", "100ms")
    assert not holder.alive() and sentinel.alive()
    ledger(db)


if ROOT:

    @pytest.mark.parametrize("kind", ["device", "foreign owner", "folder of another user"])
    def test_p8_a_foreign_pidfile_is_refused(db, kind):
        if kind == "device":
            os.mknod(db.pidfile, 0o600 | 0o020000, os.makedev(1, 3))
        elif kind == "foreign owner":
            open(db.pidfile, "w").close()
            os.chown(db.pidfile, 65534, 65534)
        else:
            os.chown(db.dir, 65534, 65534)
        db.defer("noop")
        assert db.pidfile in check(db, code=77, timeout=30).stderr or kind.startswith("folder")
        assert db.log() == []
        ledger(db)

    def claimed_by(db, run):
        return db.sql(
            "select 1 from deferred.__held h join deferred.__deferred_worker w on w.id = h.worker where w.pid = %s",
            run.pid,
        )

    def reused_pids(db, rounds):
        """Each start finds the file of a copy that was killed, whose number somebody else has by now."""
        job, at_pid = db.defer("sleep", '{"ms": 600000}', max_attempts=100 * rounds), os.path.join(
            BUILD, "tests", "harness", "at_pid"
        )
        sentinels, run = [], db.spawn(["check_deferred", "--grace", "100ms"])
        wait_for(lambda: claimed_by(db, run), 20)
        while len(sentinels) < rounds:
            run.kill()
            with open(db.pidfile) as f:
                assert f.read() == f"{run.pid}\n"
            sentinel = db.spawn([at_pid, run.pid, "sleep", "1000"])
            wait_for(sentinel.output, 20)
            if sentinel.output() == f"{run.pid}\n":  # else somebody was quicker
                sentinels.append(sentinel)
            run = db.spawn(["check_deferred", "--grace", "100ms"])
            wait_for(lambda: claimed_by(db, run), 20)
        assert [s.alive() for s in sentinels] == [True] * rounds
        assert db.run(["deferred", "cancel", job]).returncode == 0
        run.signal(signal.SIGTERM)
        assert run.wait(20) == 0, run.output()
        ledger(db)

    @pytest.mark.slow
    def test_p6_who_has_the_number_of_a_killed_copy_is_spared(db):
        reused_pids(db, 10)

    @pytest.mark.long
    def test_p6_a_hundred_numbers_given_again(db):
        reused_pids(db, 100)

    def test_p10_a_holder_of_another_pid_namespace_is_waited_for_and_then_left_alone(db):
        db.defer("noop")
        with open(db.pidfile, "w") as held:
            os.chmod(db.pidfile, 0o600)
            fcntl.lockf(held, fcntl.LOCK_EX)
            done = db.run(
                [
                    "unshare",
                    "--pid",
                    "--fork",
                    "--kill-child",
                    os.path.join(BUILD, "bin", "check_deferred"),
                    "--grace",
                    "200ms",
                ],
                timeout=30,
            )
        assert done.returncode == 75, done.stderr
        assert "another copy, in another pid namespace, holds" in done.stderr
        assert "end that copy where it runs" in done.stderr
        assert db.hot() == 1 and db.log() == []
        ledger(db)


def test_p9_a_pidfile_that_cannot_be_written_means_no_claim(db):
    db.defer("noop")
    done = check(db, code=73, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    assert db.pidfile in done.stderr
    assert db.hot() == 1 and db.log() == []
    ledger(db)


@pytest.mark.slow
@pytest.mark.parametrize("isolate", ["child", "job"])
def test_p11_p14_crashes_cost_the_one_attempt(db, isolate):
    db.plugins("unruly")
    signals = {
        "segv": {signal.SIGSEGV},
        "abort": {signal.SIGABRT},
        "fpe": {signal.SIGFPE},
        "ill": {signal.SIGILL, signal.SIGTRAP},
        "stack_overflow": {signal.SIGSEGV, signal.SIGBUS},
    }
    bad = {db.defer(fn, max_attempts=1): expected for fn, expected in signals.items() for _ in range(3)}
    good = [db.defer("noop") for _ in range(60)]
    check(db, "--cnt", "0", f"--isolate={isolate}")
    assert all(db.log(j) == [(1, "ok")] for j in good)
    for job, expected in bad.items():
        ((outcome, number),) = db.sql("select outcome, signal from deferred.__deferred_log where job_id = %s", job)
        assert outcome == "crashed" and number in expected
    # Its functions are found by the name of the plugin, for it is loaded by a descriptor.
    assert db.one(
        "select bool_and(error ~ 'in plugin unruly 1.0[^\\n]*:\\n') from deferred.__deferred_log "
        "where outcome = 'crashed'"
    )
    ledger(db)


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_p12_ending_the_process_is_no_success(db, isolate):
    db.plugins("unruly")
    # LeakSanitizer searches at exit(). Its search crashes in a runner with libcurl, and gives its own code.
    ways = ("_exit0", "quick_exit") if SAN else ("exit0", "_exit0", "quick_exit")
    bad = [db.defer(fn, max_attempts=1) for fn in ways]
    good = db.defer("noop")
    check(db, "--cnt", "0", f"--isolate={isolate}")
    for job in bad:
        ((outcome, code),) = db.sql("select outcome, exit_code from deferred.__deferred_log where job_id = %s", job)
        assert outcome in ("crashed", "failed") and code == 0
    assert db.log(good) == [(1, "ok")]
    ledger(db)


@pytest.mark.parametrize("isolate", ["child", "job"])
@pytest.mark.parametrize("fn", ["spin", "hang", "hang_blocking_signals"])
def test_p13_a_function_whose_time_is_up_is_killed(db, fn, isolate):
    db.plugins("unruly")
    job = db.defer(fn, timeout="300ms", max_attempts=1)
    good = db.defer("noop")
    check(db, "--cnt", "0", f"--isolate={isolate}")
    assert db.log(job) == [(1, "timeout")] and db.log(good) == [(1, "ok")]
    # 300 ms, then 200 ms (kill_after) to SIGKILL; the rest is the load of the machine.
    assert 300_000 <= db.one("select run_us from deferred.__deferred_log where job_id = %s", job) < 500_000 + 2_500_000
    ledger(db)


if not SAN:  # a limit of the address space leaves the sanitizers nothing to work with

    def test_p15_a_memory_bomb_meets_its_limit(db):
        db.plugins("unruly")
        db.config('memory_limit = "256m"\n')
        job, good = db.defer("eat_memory", max_attempts=1), [db.defer("noop") for _ in range(10)]
        check(db, "--cnt", "0")
        ((outcome, rss),) = db.sql(
            "select outcome, coalesce(max_rss_kb, 0) from deferred.__deferred_log where job_id = %s", job
        )
        assert outcome in ("failed", "crashed") and rss < 300_000
        assert all(db.log(j) == [(1, "ok")] for j in good)
        ledger(db)

    def peak_kb(pid):
        with open(f"/proc/{pid}/status") as f:
            return int(re.search(r"VmHWM:\s+(\d+) kB", f.read()).group(1))

    def oom_score(pid):
        with open(f"/proc/{pid}/oom_score_adj") as f:
            return f.read().strip()

    @pytest.mark.parametrize("isolate", ["child", "job"])
    def test_p15_the_parent_does_not_grow_with_what_its_functions_take(db, isolate):
        db.plugins("unruly")
        db.config('memory_limit = "256m"\ninterval_floor = "50ms"\ninterval_ceiling = "100ms"\n')
        run = db.spawn(["check_deferred", "--loop", "--runners", "2", f"--isolate={isolate}"])
        warm = [db.defer("noop") for _ in range(20)]
        wait_for(lambda: db.hot() == 0, 60)
        before = peak_kb(run.pid)
        bombs = [db.defer("eat_memory", max_attempts=1) for _ in range(6)]
        good = [db.defer("noop") for _ in range(20)]
        wait_for(lambda: db.hot() == 0, 180)
        grown = peak_kb(run.pid) - before
        db.defer("sleep", '{"ms": 60000}')
        wait_for(lambda: claimed(db))
        # Where the machine as a whole runs short, the kernel is to choose a runner.
        assert oom_score(run.pid) == "0"
        scores = db.of_orphans(oom_score)
        assert scores and set(scores.values()) == {"500"}
        db.sql("select deferred.cancel(id) from deferred.__deferred_hot")
        run.signal(signal.SIGTERM)
        assert run.wait(20) == 0, run.output()
        assert grown < 1024, f"{grown} KiB"
        assert db.one("select max(max_rss_kb) from deferred.__deferred_log") < 300_000
        for job in bombs:
            assert db.sql(
                "select count(*) from deferred.__deferred_log where job_id = %s and outcome in ('failed', 'crashed')",
                job,
            ) == [(1,)]
        assert all(db.log(j) == [(1, "ok")] for j in warm + good)
        ledger(db)


def test_p13_a_limit_of_a_hundred_years_is_none(db):
    job = db.defer("sleep", '{"ms": 700}', timeout="36525d")
    check(db)
    assert db.log(job) == [(1, "ok")]


@pytest.mark.parametrize(
    "fn, params", [("leak_fds", '{"n": 200}'), ("close_all_fds", "{}"), ("junk_on_fds", "{}"), ("print", "{}")]
)
def test_p16_the_next_job_finds_a_clean_table_of_descriptors(db, fn, params):
    db.plugins("unruly")
    before = db.defer("count_fds", priority=2)
    bad = db.defer(fn, params, priority=1, max_attempts=1)
    after = [db.defer("count_fds") for _ in range(5)]
    check(db, "--cnt", "0", "--isolate=job")
    assert all(db.log(j) == [(1, "ok")] for j in [before, *after])
    assert db.log(bad) == [(1, "failed" if fn in ("junk_on_fds", "close_all_fds") else "ok")]
    assert (
        len(db.sql("select distinct result from deferred.__deferred_log where job_id = any(%s)", [before, *after])) == 1
    )
    ledger(db)


@pytest.mark.slow
@pytest.mark.parametrize("params", ['{}', '{"log": true}'], ids=["prints", "logs"])
def test_a_function_that_talks_without_end_holds_up_nothing(db, params):
    db.plugins("unruly")
    db.config('interval_floor = "50ms"\ninterval_ceiling = "100ms"\n')
    run = db.spawn(
        ["check_deferred", "--loop", "--runners", "2", "--lease", "5s", "--grace", "1s"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    talks = db.defer("chatter", params, timeout="10s", max_attempts=1)
    wait_for(lambda: claimed(db))
    other = db.defer("noop")
    wait_for(lambda: db.log(other) == [(1, "ok")], 20, "the other runner gets its job")
    assert db.log(talks) == []
    wait_for(lambda: db.log(talks), 60, "its time is up")
    assert db.log(talks) == [(1, "timeout")], "its lease lasts"
    db.defer("chatter", params)
    wait_for(lambda: claimed(db))
    run.signal(signal.SIGTERM)
    assert run.wait(30) == 0
    ledger(db)


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_a_copy_that_a_function_forks_and_lets_return_does_not_speak_for_the_job(db, isolate):
    db.plugins("unruly")
    jobs = [db.defer("fork_and_return", max_attempts=1) for _ in range(20)]
    check(db, "--cnt", "0", f"--isolate={isolate}")
    assert set(db.sql("select job_id, attempt, outcome::text, result from deferred.__deferred_log")) == {
        (j, 1, "ok", "original") for j in jobs
    }
    ledger(db)


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_p16_bad_frames_on_the_socket_of_a_runner_are_no_success(db, isolate):
    db.plugins("unruly")
    bad = [
        db.defer(fn, params, max_attempts=1)
        for fn, params in (("junk_on_fds", "{}"), ("junk_on_fds", '{"n": 3}'), ("close_all_fds", "{}"))
    ]
    good = [db.defer("noop") for _ in range(20)]
    db.config('backoff_floor = "1ms"\nbackoff_ceiling = "1ms"\n')
    wait_for(lambda: check(db, "--cnt", "0", f"--isolate={isolate}") and db.hot() == 0, 20)
    assert [db.log(j) for j in bad] == [[(1, "failed")]] * len(bad)
    errors = db.sql("select distinct left(error, 60) from deferred.__deferred_log where outcome = 'failed'")
    assert ("the function wrote into, or closed, a descriptor that is not",) in errors
    # Of those that one runner was through with before its parent looked, nobody can say which one wrote.
    assert all(db.log(j)[-1][1] == "ok" and (isolate == "child" or len(db.log(j)) == 1) for j in good)
    ledger(db)


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_p16_an_answer_that_did_not_arrive_whole_is_no_success(db, isolate):
    db.plugins("unruly")
    job = db.defer("swallow_answer", max_attempts=1)
    check(db, f"--isolate={isolate}")
    ((outcome, result, error),) = db.sql(
        "select outcome, result, error from deferred.__deferred_log where job_id = %s", job
    )
    assert (outcome, result) == ("failed", None)
    assert error.startswith(
        {
            "child": "the answer of the function did not arrive whole",
            "job": "the function wrote into, or closed, a descriptor that is not its own",
        }[isolate]
    )
    ledger(db)


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_p17_no_process_of_a_job_outlives_its_run(db, isolate):
    db.plugins("unruly")
    db.config('backoff_floor = "1ms"\nbackoff_ceiling = "1ms"\n')
    pidfile = os.path.join(db.dir, "survivor")
    survivor = db.defer(
        "survivor", '{"file": "%s"}' % pidfile, max_attempts=50
    )  # it may be found before it has come to write the file
    db.defer("fork_bomb_light", max_attempts=1, timeout="2s")
    db.defer("noop")
    wait_for(lambda: check(db, "--cnt", "0", f"--isolate={isolate}") and db.hot() == 0, 60)
    assert db.log(survivor)[-1][1] == "ok"
    wait_for(lambda: not db.orphans(), 10, "all that the functions started is gone")
    with open(pidfile) as f:
        assert not any(pg.running(int(line)) for line in f)
    ledger(db)


if ROOT:

    def processes_of(uid):
        found = 0
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                found += entry.isdigit() and os.stat("/proc/" + entry).st_uid == uid and pg.running(int(entry))
        return found

    @pytest.fixture
    def idle_user():
        """One who has no processes, and is lent to one test at a time on this machine."""
        for user in pwd.getpwall():
            with contextlib.closing(socket.socket(socket.AF_UNIX)) as lent, contextlib.suppress(OSError):
                lent.bind(f"\0deferred-test-user-{user.pw_uid}")
                if 0 < user.pw_uid < 100 and not processes_of(user.pw_uid):
                    yield user
                    return
        raise AssertionError("every user of the system has processes")

    @pytest.mark.parametrize("isolate", ["child", "job"])
    @pytest.mark.parametrize("params", ["{}", '{"setsid": true}'], ids=["group", "sessions"])
    def test_p17_a_fork_bomb_is_bounded_and_ends_with_its_time(db, idle_user, params, isolate):
        """The limit binds the user of the functions, not root, who started this."""
        limit, user = 40, idle_user
        db.plugins("unruly")
        os.chmod(db.dir, 0o711)
        db.config('interval_floor = "50ms"\ninterval_ceiling = "100ms"\n')
        run = db.spawn(
            ["check_deferred", "--loop", "--user", user.pw_name, f"--isolate={isolate}"],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit)),
        )
        bomb = db.defer("fork_bomb", params, timeout="2s", max_attempts=1)
        seen = [0]

        def ended():
            seen.append(processes_of(user.pw_uid))
            return db.log(bomb)

        wait_for(ended, 60)
        wait_for(
            lambda: processes_of(user.pw_uid) <= 1, 60, "all of it is gone, but perhaps a runner that waits for work"
        )
        good = db.defer("noop")
        wait_for(lambda: db.log(good), 60)
        run.signal(signal.SIGTERM)
        assert run.wait(60) == 0, run.output()
        assert limit // 2 < max(seen) <= limit
        assert db.log(bomb) == [(1, "timeout")] and db.log(good) == [(1, "ok")]
        assert processes_of(user.pw_uid) == 0
        ledger(db)


def test_children_it_did_not_start_are_spared(db):
    """Those of the shell that became check_deferred by exec: what reads its log, what runs beside it."""
    log, check_deferred = db.dir + "/log", os.path.join(BUILD, "bin", "check_deferred")
    bad = db.defer("fail", '{"error": "no"}', max_attempts=1)
    db.defer("sleep", '{"ms": 1500}')  # long enough for a sweep
    run = db.spawn(
        ["bash", "-c", f"sleep 60 & echo $! > {db.dir}/beside; exec {check_deferred} --cnt 0 2> >(exec cat > {log})"]
    )
    assert run.wait(30) == 0, run.output()
    with open(db.dir + "/beside") as f:
        beside = int(f.read())
    assert pg.running(beside)
    os.kill(beside, signal.SIGKILL)

    def text():
        with open(log) as f:
            return f.read()

    wait_for(lambda: "run ended: 2 attempts" in text(), 20, "cat has written the last line")
    assert f"job {bad} fail attempt 1: failed" in text()
    ledger(db)


def test_p18_a_plugin_that_kills_its_parent_costs_one_attempt(db):
    db.plugins("unruly")
    job = db.defer("kill_parent", max_attempts=2)
    good = db.defer("noop", priority=-1)
    assert db.run(["check_deferred"]).returncode in (-signal.SIGKILL, -signal.SIGTERM, 0)
    wait_for(lambda: not db.orphans(), 20)
    wait_for(lambda: db.run(["check_deferred", "--cnt", "1"]) and db.log(good), 20)
    assert db.log(good) == [(1, "ok")]
    wait_for(lambda: db.run(["check_deferred"]) and db.hot() == 0, 30)
    assert "ok" not in [o for _, o in db.log(job)]
    ledger(db)


if ROOT:

    def test_p18_as_another_user_it_cannot_kill_its_parent(db):
        db.plugins("unruly")
        os.chmod(db.dir, 0o711)
        job, good = db.defer("kill_parent", max_attempts=1), db.defer("noop", priority=-1)
        check(db, "--cnt", "0", "--user", "nobody")
        assert len(db.log(job)) == 1
        assert db.log(good) == [(1, "ok")]
        ledger(db)


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_p19_plugins_that_cannot_be_loaded_leave_the_others_working(db, isolate):
    folder = db.plugins("unruly", "wrong_abi", "crash_at_load", "missing_symbol", "undefined_symbol")
    for name, text in ("text.so", b"I am no shared object\n"), ("empty.so", b""):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(text)
        os.chmod(os.path.join(folder, name), 0o755)
    jobs = [db.defer("noop") for _ in range(10)] + [db.defer("count_fds")]
    done = check(db, "--cnt", "0", f"--isolate={isolate}")
    assert all(db.log(j) == [(1, "ok")] for j in jobs)
    for name in ("wrong_abi.so", "crash_at_load.so", "missing_symbol.so", "undefined_symbol.so", "text.so", "empty.so"):
        assert name in done.stderr, name
    ledger(db)


def test_p20_a_plugin_replaced_by_rename_during_a_run_does_no_harm(db):
    folder = db.plugins()
    jobs = [db.defer("sleep", '{"ms": 5}') for _ in range(60)]
    run = db.spawn(["check_deferred", "--cnt", "0"])
    wait_for(lambda: db.log() or not run.alive())
    shutil.copy(os.path.join(folder, "sample.so"), os.path.join(folder, ".new"))
    os.rename(os.path.join(folder, ".new"), os.path.join(folder, "sample.so"))
    assert run.wait(60) == 0, run.output()
    assert all(db.log(j) == [(1, "ok")] for j in jobs)
    ledger(db)


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_p20_a_plugin_that_is_truncated_is_missed_after_a_reload_until_it_is_whole(recorded, isolate):
    """As a copy over a plugin in use does it. What runs goes on, for a copy in memory is mapped."""
    db = recorded.db
    plugin = os.path.join(db.env["DEFERRED_PLUGIN_DIR"], "unruly.so")
    db.config('interval_floor = "50ms"\ninterval_ceiling = "100ms"\n')
    run = db.spawn(["check_deferred", "--loop", "--runners", "1", f"--isolate={isolate}"])
    (hit,) = recorded.defer(1, ms=500)
    wait_for(lambda: recorded.starts(hit))
    shutil.copy(plugin, plugin + ".kept")
    os.truncate(plugin, 0)
    wait_for(lambda: db.log(hit) == [(1, "ok")], 20)
    run.signal(signal.SIGHUP)
    wait_for(lambda: "settings reloaded" in run.output(), 20)
    missed, other = db.defer("count_fds"), db.defer("noop")
    wait_for(lambda: db.log(other) == [(1, "ok")], 20, "functions of other plugins are run")
    wait_for(lambda: "plugin 'unruly.so' not loaded" in run.output(), 20)
    wait_for(lambda: not claimed(db), 20)
    assert db.log(missed) == [], "what cannot be loaded costs no attempt"
    os.rename(plugin + ".kept", plugin)
    run.signal(signal.SIGHUP)
    wait_for(lambda: db.log(missed) == [(1, "ok")], 20)
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0
    ledger(db)


def loaded(db):
    """Which of these the runners of the test, and their children, have loaded."""

    def maps_of(pid):
        with open(f"/proc/{pid}/maps") as f:
            return f.read()

    maps = "".join(db.of_orphans(maps_of).values())
    return {name for name in ("sample.so", "unruly.so", "send_mail.so", "libcurl") if name in maps}


def at_first_job(db, run):
    """A runner and the process of its job. A child of the runner, which loaded all plugins to see
    what is in them, is gone."""
    wait_for(
        lambda: len(db.orphans()) == 2 and loaded(db) == {"sample.so"} or not run.alive(), 20, "the first job runs"
    )
    assert run.alive(), run.output()


def test_p20_a_plugin_replaced_before_its_first_call_is_the_one_that_was_checked(db):
    folder = db.plugins("unruly")
    first, jobs = db.defer("sleep", '{"ms": 2000}', priority=1), [db.defer("count_fds") for _ in range(3)]
    run = db.spawn(["check_deferred", "--cnt", "0", "--isolate=job", "--runners", "1"])
    at_first_job(db, run)
    with open(os.path.join(folder, ".new"), "w") as f:
        f.write("no shared object\n")
    os.rename(os.path.join(folder, ".new"), os.path.join(folder, "unruly.so"))
    assert run.wait(60) == 0, run.output()
    assert {j: db.log(j) for j in [first, *jobs]} == {j: [(1, "ok")] for j in [first, *jobs]}, run.output()
    ledger(db)


def test_a_runner_that_forks_for_each_job_has_no_plugin_it_was_not_asked_for(db):
    jobs = [db.defer("sleep", '{"ms": 60000}')]
    run = db.spawn(["check_deferred", "--cnt", "0", "--isolate=job", "--grace", "0s"])
    at_first_job(db, run)
    run.signal(signal.SIGTERM)
    assert run.wait(60) == 0, run.output()
    db.run(["deferred", "cancel", *jobs])
    ledger(db)


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_p21_a_function_of_two_plugins_is_refused_by_both_names_and_the_rest_is_served(db, isolate):
    """A command that a plugin has too as well; said once a run, not by each runner."""
    db.plugins("twin_a", "twin_b")
    db.config('function "echo" { command = {"/bin/cat"} }\n')
    served = [db.defer("noop") for _ in range(20)] + [db.defer("twin_a.twin")]
    refused = [db.defer("twin") for _ in range(3)] + [db.defer("echo")]
    done = check(db, "--cnt", "0", "--runners", "2", f"--isolate={isolate}")
    both = "function 'twin' is both in plugin 'twin_a.so' and in plugin 'twin_b.so'"
    assert len(re.findall(f"{both}: refused; the other functions run", done.stderr)) == 1
    assert (
        len(re.findall("function 'echo' is both a command of the config file and in a plugin: refused", done.stderr))
        == 1
    )
    assert len(re.findall("job [0-9]+: function .* is both .*; left for workers that offer one", done.stderr)) >= 1
    assert db.log() == [(job, 1, "ok") for job in served]
    assert [r[0] for r in db.sql("select id from deferred.__deferred_hot order by id")] == refused
    shown = db.run(["deferred", "show", refused[0]])
    assert f" {both}\n" in shown.stdout and "refused on " in shown.stdout, shown.stdout
    assert "no worker offers function" in db.run(["deferred", "show", db.defer("nosuch")]).stdout
    assert not {"twin", "echo"} & {
        f["fn"] for f in json.loads(db.run(["deferred", "functions", "--json"]).stdout)["functions"]
    }
    by_hand = db.run(["deferred", "run", "twin"])
    assert by_hand.returncode == 69 and both in by_hand.stderr
    ledger(db)


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_p21_the_log_names_plugin_version_and_build(db, isolate):
    db.defer("noop")
    check(db, f"--isolate={isolate}")
    name, version, build = db.one("select plugin from deferred.__deferred_log").split(" ")
    assert name == "sample" and version and len(build) >= 8
    ledger(db)


def test_a_limit_of_processor_time_below_a_second_is_kept(db):
    """By a function and by a command; one of whole seconds is the kernel's own."""
    db.plugins("unruly")
    db.config('function "burn" { command = {"/bin/sh", "-c", "while :; do :; done"} }\ncpu_limit = "150ms"\n')
    jobs = [db.defer(fn, max_attempts=1) for fn in ("spin", "burn", "noop")]
    check(db, "--cnt", "0", "--runners", "3", "--isolate=job", "--timeout=20s")
    rows = db.sql(
        "select outcome, signal, split_part(error, chr(10), 1), user_us + sys_us < 900000 "
        "from deferred.__deferred_log order by job_id"
    )
    assert rows == [("crashed", signal.SIGXCPU, "killed by signal 24 (CPU time limit exceeded)", True)] * 2 + [
        ("ok", None, None, True)
    ]
    assert jobs == sorted(jobs)
    ledger(db)


def test_p22_a_job_waits_for_the_worker_that_has_its_function(db):
    stock = db.env["DEFERRED_PLUGIN_DIR"]
    folder = db.plugins("unruly")
    jobs = [db.defer("count_fds") for _ in range(30)] + [db.defer("noop") for _ in range(30)]
    poor = [
        db.spawn(["check_deferred", "--cnt", "0", "--pidfile", f"{db.dir}/poor{i}"], env={"DEFERRED_PLUGIN_DIR": stock})
        for i in range(2)
    ]
    rich = db.spawn(["check_deferred", "--cnt", "0"], env={"DEFERRED_PLUGIN_DIR": folder})
    assert [r.wait(60) for r in [*poor, rich]] == [0, 0, 0]
    check(db, "--cnt", "0")
    assert all(db.log(j) == [(1, "ok")] for j in jobs)
    ledger(db)


@pytest.mark.parametrize(
    "params",
    [
        '{"bytes": 1000000}',
        '{"bytes": 100, "nul": true}',
        '{"bytes": 100, "invalid_utf8": true}',
        '{"bytes": 100000000}',
    ],
)
def test_p23_a_result_is_cut_and_cleaned_before_it_is_stored(db, params):
    db.plugins("unruly")
    job = db.defer("big_result", params)
    check(db)
    assert db.log(job) == [(1, "ok")]
    assert db.one("select octet_length(result) from deferred.__deferred_log where job_id = %s", job) <= 8192 + 32
    ledger(db)


def test_p23_what_a_function_sends_by_itself_is_cut_and_cleaned_too(db):
    """Not through its host, which cuts it first, but on the socket of the runner, which it finds open."""
    db.plugins("unruly")
    job = db.defer("raw_result")
    check(db)
    assert db.log(job) == [(1, "ok")]
    assert db.one("select octet_length(result) from deferred.__deferred_log where job_id = %s", job) == 8192
    ledger(db)


@pytest.mark.slow
def test_p24_every_child_is_reaped_in_a_storm_of_signals(db):
    db.plugins("unruly")
    db.sql("select deferred.defer('noop') from generate_series(1, 300)")
    run = db.spawn(["check_deferred", "--cnt", "0", "--isolate=job", "--runners", "2"])
    most = 0
    deadline = time.monotonic() + 120
    while run.alive() and time.monotonic() < deadline:
        try:
            os.kill(run.pid, signal.SIGCHLD)
        except ProcessLookupError:
            break
        most = max(most, sum(not pg.running(p) for p in pg.children_of(run.pid)))
    assert run.wait(60) == 0, run.output()
    assert most <= 3  # those of this very moment
    assert db.sql("select outcome, count(*) from deferred.__deferred_log group by 1") == [("ok", 300)]
    ledger(db)


def descriptors(pid):
    """What they are of, but for those that are closed meanwhile."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return found


def test_runners_hold_no_database_secret_and_no_descriptor_of_the_database(db):
    db.defer("sleep", '{"ms": 60000}')
    run = db.spawn(
        ["check_deferred", "--grace", "100ms"],
        env={"PGPASSWORD": "s3cret", "DEFERRED_DB": db.conninfo + " password=s3cret"},
    )
    wait_for(lambda: claimed(db) and db.orphans())

    def look(pid):
        with open(f"/proc/{pid}/environ", "rb") as environment, open(f"/proc/{pid}/cmdline", "rb") as arguments:
            return (
                environment.read(),
                arguments.read(),
                [name for name in descriptors(pid) if name.startswith("socket:")],
            )

    seen = db.of_orphans(look)
    assert seen
    for environment, arguments, sockets in seen.values():
        assert b"s3cret" not in environment and b"s3cret" not in arguments
        assert len(sockets) <= 1, sockets
    run.signal(signal.SIGTERM)
    run.wait(20)
    ledger(db)


def test_runners_inherit_no_descriptor_that_is_not_theirs(db):
    db.defer("sleep", '{"ms": 60000}')
    with open(os.path.join(db.dir, "secret"), "w") as secret:
        run = db.spawn(["check_deferred", "--grace", "100ms"], pass_fds=[secret.fileno()])
        wait_for(lambda: claimed(db) and db.orphans())
        own, opened = descriptors(run.pid), db.of_orphans(descriptors)
    assert secret.name in own
    assert opened and all(secret.name not in names for names in opened.values())
    run.signal(signal.SIGTERM)
    run.wait(20)
    ledger(db)


def status_of(pid):
    """What the kernel says of a process: name to words."""
    with open(f"/proc/{pid}/status") as f:
        return {name: value.split() for name, _, value in (line.partition(":") for line in f)}


def status_of_a_program(db, *args, **kw):
    """The same of a program that a function has started, and of the runner."""
    db.config('function "outside" { command = {"/bin/sleep", "60"} }\n')
    db.defer("outside")
    run = db.spawn(["check_deferred", "--grace", "100ms", *args], **kw)
    found = wait_for(lambda: [s for s in db.of_orphans(status_of).values() if s["Name"] == ["sleep"]], 20, "it runs")
    found += [status_of(pid) for pid in pg.children_of(run.pid)]
    run.signal(signal.SIGTERM)
    run.wait(20)
    ledger(db)
    return found


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_a_function_gains_no_rights_by_a_program_that_it_starts(db, isolate):
    """Set-user-id programs stay without effect."""
    assert [s["NoNewPrivs"] for s in status_of_a_program(db, f"--isolate={isolate}")] == [["1"], ["1"]]


if ROOT:

    @pytest.mark.parametrize("isolate", ["child", "job"])
    def test_functions_of_another_user_have_nothing_of_ours(db, isolate):
        """Neither the user nor the group nor the further groups check_deferred was started with."""
        os.chmod(db.dir, 0o711)
        nobody = pwd.getpwnam("nobody")
        for status in status_of_a_program(db, "--user", "nobody", f"--isolate={isolate}", extra_groups=[0, 4, 24]):
            assert status["Uid"] == [str(nobody.pw_uid)] * 4 and status["Gid"] == [str(nobody.pw_gid)] * 4
            assert {int(g) for g in status["Groups"]} == set(os.getgrouplist("nobody", nobody.pw_gid))
            assert int(status["CapPrm"][0], 16) == int(status["CapEff"][0], 16) == 0


# Root may look everywhere, unless it gives these rights away; one is needed to come to the socket of the server.
UNPRIVILEGED = ["setpriv", "--bounding-set=-all,+dac_override", "--inh-caps=-all", "--"] if ROOT else []


def test_a_function_of_the_same_user_cannot_read_the_memory_of_check_deferred(db):
    """Nor of its runner. The environment lies there too, and the kernel guards both in the same way."""
    script = os.path.join(db.dir, "look")
    with open(script, "w") as f:
        f.write(
            'sleep 60 & another=$!; runner=$PPID; parent=$(cut -d" " -f4 /proc/$PPID/stat)\n'
            "# Until sleep is loaded, the process is a shell. Then its environment is empty for a moment.\n"
            'until [ "$(cat /proc/$another/comm)" = sleep ] && grep -q . /proc/$another/environ; do :; done\n'
            'tr "\\0" " " < /proc/$(eval echo \\$$1)/environ; status=$?; kill $another; exit $status\n'
        )
    db.config(
        "".join(
            f'function "{who}" {{ command = {{"/bin/sh", "{script}", "{who}"}} }}\n'
            for who in ("another", "runner", "parent")
        )
    )
    jobs = {who: db.defer(who, max_attempts=1) for who in ("another", "runner", "parent")}
    run = db.spawn(
        [*UNPRIVILEGED, os.path.join(BUILD, "bin", "check_deferred"), "--cnt", "0"], env={"SECRET": "s3cret"}
    )
    assert run.wait(30) == 0, run.output()
    said = {
        who: db.one("select concat(result, error) from deferred.__deferred_log where job_id = %s", job)
        for who, job in jobs.items()
    }
    assert "DEFERRED_INSTANCE=" in said["another"], said  # what is tried can be done
    assert all("Permission denied" in said[who] and "s3cret" not in said[who] for who in ("runner", "parent")), said
    ledger(db)


def test_every_child_is_in_a_process_group_of_its_own(db):
    db.defer("sleep", '{"ms": 60000}')
    run = db.spawn(["check_deferred", "--grace", "100ms"])
    groups = wait_for(lambda: claimed(db) and db.of_orphans(os.getpgid))
    assert os.getpgid(run.pid) not in groups.values()
    run.signal(signal.SIGTERM)
    run.wait(20)
    ledger(db)
