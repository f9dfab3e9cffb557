"""What the children of check_deferred are given and what they cannot do to it: signals before they
are what they shall be, cores, descriptors, processes without end, and a child that cannot die."""

import contextlib
import ctypes
import json
import os
import re
import signal

import pytest

import front
from harness import ledger, read_record, wait_for

ROOT = os.geteuid() == 0
WALL = 0x40000000
PTRACE_CONT, PTRACE_DETACH, PTRACE_GETEVENTMSG, PTRACE_SEIZE, PTRACE_O_TRACEFORK, PTRACE_EVENT_FORK = (
    7,
    17,
    0x4201,
    0x4206,
    2,
    1,
)

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, pid, data=0):
    if libc.ptrace(request, pid, None, data) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request} of {pid}")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(child) for child in f.read().split()]


def service(db, *args):
    db.plugins("unruly")
    db.config('interval_floor = "20ms"\ninterval_ceiling = "50ms"\nkill_after = "200ms"\n')
    return db.spawn(["check_deferred", "--loop", *args])


def pidfile_text(db):
    with open(db.pidfile) as f:
        return f.read()


if ROOT:  # for a user that has no other processes

    @pytest.mark.parametrize("isolate", ["child", "job"])
    def test_a_function_that_forks_without_end_meets_its_limit(db, isolate):
        """The kernel counts by user, so this is one that nothing else here runs as."""
        db.plugins("unruly")
        os.chmod(db.dir, 0o711)
        db.config("processes_limit = 12\n")
        job = db.defer("fork_many", max_attempts=1)
        done = db.run(["check_deferred", "--cnt", "0", "--user", "games", f"--isolate={isolate}"])
        assert done.returncode == 0, done.stderr
        ((outcome, forked),) = db.sql("select outcome, result::int from deferred.__deferred_log where job_id = %s", job)
        assert outcome == "ok" and 0 < forked < 12
        after = db.defer("noop")
        db.run(["check_deferred", "--cnt", "0", "--user", "games", f"--isolate={isolate}"])
        assert db.log(after) == [(1, "ok")]
        ledger(db)


if ROOT:  # others cannot trace what is kept from being looked into

    def test_a_child_that_gets_sigterm_before_it_is_a_runner_leaves_the_pidfile_alone(db):
        run = service(db)
        wait_for(lambda: os.path.exists(db.pidfile) and pidfile_text(db).startswith(str(run.pid)))
        written = pidfile_text(db)
        ptrace(PTRACE_SEIZE, run.pid, PTRACE_O_TRACEFORK)
        job = db.defer("noop")
        while True:
            _, status = os.waitpid(run.pid, WALL)
            assert os.WIFSTOPPED(status)
            if status >> 8 == signal.SIGTRAP | PTRACE_EVENT_FORK << 8:
                break
            ptrace(PTRACE_CONT, run.pid, os.WSTOPSIG(status) if status >> 16 == 0 else 0)
        child = ctypes.c_ulong()
        ptrace(PTRACE_GETEVENTMSG, run.pid, ctypes.addressof(child))
        os.waitpid(child.value, WALL)
        os.kill(child.value, signal.SIGTERM)
        ptrace(PTRACE_DETACH, child.value)
        ptrace(PTRACE_DETACH, run.pid)
        wait_for(lambda: db.log(job) == [(1, "ok")], 30, "another runner takes its place")
        assert not os.path.exists(f"/proc/{child.value}"), "it died of the signal"
        assert pidfile_text(db) == written
        run.process.terminate()
        assert run.wait() == 0
        ledger(db)

    @contextlib.contextmanager
    def unreapable(pid):
        """A zombie is its tracer's until that has waited for it: for its parent it does not die,
        like one that is stuck in the kernel."""
        ptrace(PTRACE_SEIZE, pid)
        yield
        with contextlib.suppress(ChildProcessError):
            wait_for(lambda: os.waitpid(pid, WALL | os.WNOHANG)[0], 10)

    def begun(db, **opts):
        """A job that is being run, for a minute."""
        file = os.path.join(db.dir, "record")
        job = db.defer("record", json.dumps({"file": file, "ms": 60000}), **opts)
        wait_for(lambda: read_record(file), 20, "it is being run")
        return job

    @pytest.mark.slow
    def test_a_runner_that_cannot_die_is_given_up_and_the_others_go_on(db):
        run = service(db, "--runners", "1", "--lease", "4s")
        job = begun(db, timeout="2s", max_attempts=1)
        with unreapable(children(run.pid)[0]):
            others = [db.defer("noop") for _ in range(20)]
            wait_for(lambda: all(db.log(j) == [(1, "ok")] for j in others), 60, "a new runner takes its place")
            assert f"warning: job {job} record attempt 1: time limit of 2000 ms exceeded; its runner " in run.output()
            wait_for(lambda: db.log(job) and db.log(job)[0][1] == "lost", 60, "its lease ends, and the job with it")
            run.process.terminate()
            assert run.wait(30) == 0
        ledger(db)

    @pytest.mark.slow
    def test_what_may_run_in_a_runner_that_cannot_die_waits_for_the_end_of_the_lease_of_its_batch(db):
        """And for no longer, though other jobs of that lease have ended, and though the worker has a new session."""
        file = os.path.join(db.dir, "record")
        call = {"fn": "record", "params": {"file": file, "ms": 60000}, "timeout": "1s"}
        [job], *others = db.sql("select deferred.defer_many(%s)", json.dumps([call] + [{"fn": "noop"}] * 20))
        run = service(db, "--runners", "1", "--lease", "20s")
        wait_for(lambda: read_record(file), 20, "it is being run")
        with unreapable(children(run.pid)[0]):
            wait_for(lambda: "given up with its runner" in run.output(), 20)
            wait_for(lambda: all(db.log(j) == [(1, "ok")] for [j] in others), 20, "a new runner takes its place")
            db.sql(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = 'check_deferred' and datname = current_database()"
            )
            wait_for(lambda: "connected again" in run.output(), 20)
            assert db.held(job), "nobody else may begin it"
            wait_for(lambda: len(read_record(file)) > 1, 60, "it is run again when its lease has ended")
            db.sql("select deferred.cancel(%s)", job)
            run.process.terminate()
            run.wait(30)
        ledger(db)

    @pytest.mark.slow
    def test_a_parent_does_not_wait_at_its_end_for_what_cannot_die(db):
        run = service(db, "--runners", "1", "--grace", "100ms", "--lease", "4s")
        job = begun(db, timeout="2s", max_attempts=1)
        with unreapable(children(run.pid)[0]):
            run.process.terminate()
            run.wait(30)
            run.said.seek(0)
            assert "cannot be ended" in run.said.read()
        wait_for(
            lambda: db.run(["check_deferred", "--cnt", "0"]) and db.log(job),
            60,
            "what it left behind is found by the next start",
        )
        assert db.log(job)[0] in ((1, "lost"), (1, "interrupted"))


def core_limits(pid):
    with open(f"/proc/{pid}/limits") as f:
        return next(line.split()[4:6] for line in f if line.startswith("Max core file size"))


def test_the_http_front_leaves_no_core(db):
    started = front.Front(db)
    assert core_limits(started.program.pid) == ["0", "0"]
    assert started.stop() == 0


def test_neither_parent_nor_runner_nor_function_leaves_a_core(db):
    db.config(
        'function "limits" { command = {"/bin/sh", "-c", "ulimit -Hc; grep core /proc/$PPID/limits"} }\n'
        'interval_floor = "20ms"\ninterval_ceiling = "50ms"\n'
    )
    db.plugins("unruly")
    run = db.spawn(["check_deferred", "--loop"])
    job = db.defer("limits")
    wait_for(lambda: db.log(job) == [(1, "ok")], 20)
    for pid in [run.pid, *children(run.pid)]:
        assert core_limits(pid) == ["0", "0"]
    said = db.one("select result from deferred.__deferred_log where job_id = %s", job).split()
    assert said[0] == "0" and said[5:7] == ["0", "0"]


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_what_functions_execute_has_none_of_the_descriptors_of_a_runner(db, isolate):
    db.plugins("unruly")
    db.config('function "fds" { command = {"/bin/ls", "-l", "/proc/self/fd"} }\n')
    job, command = db.defer("list_fds", max_attempts=1), db.defer("fds", max_attempts=1)
    assert db.run(["check_deferred", "--cnt", "0", f"--isolate={isolate}"]).returncode == 0

    def seen(job):
        text = db.one("select result from deferred.__deferred_log where job_id = %s and outcome = 'ok'", job)
        links = re.findall(r" (\d+) -> (.*)", text)
        return {int(fd): what for fd, what in links if not what.startswith("/proc/")}  # the folder that ls reads

    assert {fd for fd in seen(job) if fd > 2} == set()
    assert {what.split(":")[0] for fd, what in seen(command).items() if fd > 2} <= {"pipe"}  # for its progress
    assert not any(
        what.startswith(("socket", "anon_inode", "/memfd:board"))
        for what in [*seen(job).values(), *seen(command).values()]
    )
