"""pidfile.c at its edges, through check_deferred. How copies replace each other, and what is refused of a file:
test_check_deferred.py; attacks by its text and by strangers' locks: tests/faults/test_processes.py.
"""

import json
import os
import signal
import stat
import time

import pytest

from harness import ledger, read_record, wait_for


def started(db, *args):
    """A run that is in the middle of a job."""
    run = db.spawn(["check_deferred", *args])
    wait_for(
        lambda: db.sql(
            "select 1 from deferred.__held h join deferred.__deferred_worker w on w.id = h.worker and w.pid = %s",
            run.pid,
        ),
        20,
        "it has claimed a job",
    )
    return run


def content(db):
    with open(db.pidfile) as f:
        return f.read()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777], ids=oct)
def test_a_folder_where_others_may_write_is_refused(db, mode):
    db.defer("noop")
    os.chmod(db.dir, mode)
    done = db.run(["check_deferred"])
    assert (done.returncode, len(done.stderr.splitlines())) == (77, 1), done.stderr
    assert "writable by others" in done.stderr and "chmod" in done.stderr
    assert not os.path.exists(db.pidfile) and db.log() == []
    ledger(db)


def test_a_sticky_folder_and_a_bare_file_name_are_fine(db):
    folder = os.path.join(db.dir, "tmp")
    os.mkdir(folder)
    os.chmod(folder, 0o1777)
    db.defer("noop")
    done = db.run(["check_deferred", "--pidfile", "name"], cwd=folder)
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(os.stat(os.path.join(folder, "name")).st_mode) == 0o600
    assert [outcome for _, _, outcome in db.log()] == ["ok"]
    ledger(db)


@pytest.mark.parametrize(
    "path, code, says",
    [
        ("x" * 300, 73, "too long"),
        ("x/" * 2500 + "x", 77, "use a shorter one"),
        ("no/such/folder/pid", 73, "make the folder"),
        ("file/pid", 73, "Not a directory"),
        ("loop/pid", 73, "symbolic links"),
    ],
    ids=["long name", "long path", "no folder", "file as folder", "loop"],
)
def test_a_path_that_cannot_be_is_named_with_its_cause(db, path, code, says):
    open(os.path.join(db.dir, "file"), "w").close()
    os.symlink("loop", os.path.join(db.dir, "loop"))
    db.defer("noop")
    done = db.run(["check_deferred", "--pidfile", os.path.join(db.dir, path)])
    assert done.returncode == code and says in done.stderr, done.stderr
    assert db.log() == []
    ledger(db)


def test_the_file_holds_the_pid_of_who_runs_and_nothing_after_an_orderly_end(db):
    db.defer("sleep", '{"ms": 60000}')
    run = started(db)
    assert content(db) == f"{run.pid}\n"
    inode = os.stat(db.pidfile).st_ino
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0
    assert content(db) == ""
    assert db.run(["check_deferred", "--queue", "none"]).returncode == 0
    assert content(db) == "" and os.stat(db.pidfile).st_ino == inode  # another start may have had it open
    ledger(db)


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_the_pid_of_a_killed_run_stays_and_says_that_it_left_no_order(db, isolate):
    record = os.path.join(db.dir, "record")
    db.plugins("unruly")
    job = db.defer("record", json.dumps({"file": record, "ms": 60000}))
    run = db.spawn(["check_deferred", f"--isolate={isolate}"])
    wait_for(lambda: read_record(record), 20, "it has begun")
    # The child that reads the plugins is one of them too, for a moment.
    wait_for(lambda: len(db.orphans()) == (2 if isolate == "job" else 1), 20, "runner, and process of the job")
    run.kill()
    assert content(db) == f"{run.pid}\n"
    wait_for(lambda: not db.orphans(), 20, "its runners are gone")
    # Nobody knows which job of a batch had begun: it counts against none. Claimed alone, as it is
    # from now on, it is an attempt.
    again = started(db, "--grace", "50ms")
    assert f"job {job} record: was held by a run that has ended; ready again" in again.output()
    assert db.log(job) == [] and content(db) == f"{again.pid}\n"
    wait_for(db.noted, 20, "it has begun")
    again.kill()
    wait_for(lambda: not db.orphans(), 20, "its runners are gone")
    third = started(db, "--grace", "50ms")
    assert db.log(job) == [(1, "lost")]
    third.signal(signal.SIGTERM)
    assert third.wait(20) == 0
    ledger(db)


@pytest.mark.slow
def test_a_copy_that_does_not_answer_sigterm_is_killed_after_the_grace_period(db):
    job = db.defer("sleep", '{"ms": 60000}', max_attempts=1)
    stopped = started(db)
    wait_for(db.noted, 20, "it has begun")
    stopped.signal(signal.SIGSTOP)
    successor = db.spawn(["check_deferred", "--grace", "100ms"])
    assert stopped.wait(20) == -signal.SIGKILL
    wait_for(lambda: db.log(job) == [(1, "superseded")], 20, "the successor took its job over")
    successor.signal(signal.SIGTERM)
    assert successor.wait(20) == 0
    ledger(db)


def test_what_a_killed_copy_left_is_ended_even_if_nothing_is_due_in_between(db):
    db.config('function "svc" { command = {"/bin/sh", "-c", "sleep 777 & wait"} }\n')
    job = db.defer("svc")
    run = started(db)
    wait_for(lambda: len(db.orphans()) >= 3, 20, "runner, shell and sleep")
    run.kill()
    wait_for(lambda: len(db.orphans()) == 1, 20, "the sleep is left")
    assert db.one("select deferred.cancel(%s)", job)
    assert db.run(["check_deferred"]).returncode == 0
    assert content(db), "the mark for the next start with work is still there"
    db.defer("noop")
    assert db.run(["check_deferred"]).returncode == 0
    assert db.orphans() == [] and content(db) == ""
    ledger(db)


def test_a_stopped_copy_is_left_alone_for_its_lease_then_named_and_replaced(db):
    db.plugins("unruly")
    job = db.defer("record", json.dumps({"file": db.dir + "/record", "ms": 60000}), max_attempts=1)
    run = started(db)
    wait_for(lambda: read_record(db.dir + "/record"), 20, "it has begun")
    run.signal(signal.SIGSTOP)
    skip = ["check_deferred", "--if-running=skip", "--queue", "none"]
    done = db.run(skip)
    assert (done.returncode, done.stderr) == (75, ""), "no news yet: it may go on"
    os.utime(db.pidfile, (time.time() - 61, time.time() - 61))
    done = db.run(skip)
    assert done.returncode == 0, done.stderr
    assert f"another copy (pid {run.pid}) holds '{db.pidfile}' and has shown no sign of life for 61 s" in done.stderr
    assert "it is stopped, as by SIGSTOP; it is replaced" in done.stderr
    assert run.wait(20) == -signal.SIGKILL and db.log(job) == [(1, "superseded")]
    ledger(db)


def test_a_copy_shows_that_it_lives_and_says_that_its_file_is_gone(db):
    run = db.spawn(["check_deferred", "--loop", "--lease", "1s"])
    wait_for(
        lambda: db.sql("select 1 from deferred.__deferred_worker where pid = %s", run.pid), 20, "it has registered"
    )
    os.utime(db.pidfile, (time.time() - 61, time.time() - 61))
    wait_for(lambda: time.time() - os.stat(db.pidfile).st_mtime < 5, 20, "it has moved the time of the file on")
    os.unlink(db.pidfile)
    wait_for(lambda: f"to stop this copy, run: kill {run.pid}" in run.output(), 20, "it has noticed")
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0 and run.output().count("has been removed") == 1
