"""Copies of check_deferred in containers: one host name, one path of the pidfile, one kernel, but
file systems and processes of their own."""

import os
import signal
import subprocess

import pytest

from harness import BUILD, ledger, wait_for

CHECK = os.path.join(BUILD, "bin", "check_deferred")


@pytest.fixture(autouse=True)
def namespaces():
    done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True)
    assert (
        done.returncode == 0
    ), f"these tests make namespaces, which needs root and a kernel that lets it: {done.stderr}"


@pytest.fixture
def contained(recorded):
    """Starts check_deferred in a mount namespace of its own, with a tmpfs of its own where the pidfile lies."""
    db = recorded.db
    run_dir = os.path.join(db.dir, "run")
    os.mkdir(run_dir, 0o755)
    pidfile = os.path.join(run_dir, "pid")

    # `text` is in the file before: of a run that died.
    def start(name, text, *args):
        seen = os.path.join(db.dir, name)
        script = (
            f"mount -t tmpfs none {run_dir} && umask 077 && printf '{text}' > {pidfile} && stat -c '%i %d' {pidfile} "
            f"> {seen} && "
            f"exec {CHECK} --pidfile {pidfile} {' '.join(args)}"
        )
        return db.spawn(["unshare", "--mount", "--propagation", "private", "sh", "-c", script])

    def inode_and_device(name):
        with open(os.path.join(db.dir, name)) as f:
            return f.read().split()

    start.file = inode_and_device
    return start


@pytest.mark.slow
def test_a_start_beside_another_namespace_leaves_the_claims_and_processes_of_a_living_worker_alone(recorded, contained):
    db = recorded.db
    [slow] = recorded.defer(1, ms=8000)
    first = contained("first", "")
    wait_for(lambda: recorded.starts(slow), 20, "it is at its job")
    claim = db.held(slow)
    [quick] = recorded.defer(1)
    # That there is something in the file has it look for what a dead copy left.
    second = contained("second", "1", "--cnt", "1")
    assert second.wait(30) == 0, second.output()
    (inode, device), (other_inode, other_device) = contained.file("first"), contained.file("second")
    assert inode == other_inode and device != other_device, "else this shows nothing"
    assert first.alive(), first.output()
    assert db.held(slow) == claim
    assert db.log(quick) == [(1, "ok")] and db.log(slow) == []
    assert first.wait(30) == 0, first.output()
    assert db.log(slow) == [(1, "ok")] and len(recorded.starts(slow)) == 1
    recorded.assert_all_ok([slow, quick])


@pytest.mark.slow
def test_a_start_in_another_pid_namespace_takes_over_from_a_dead_worker_at_once(recorded):
    """The lock of a file that both have proves it, whatever the numbers of processes are."""
    db = recorded.db
    [job] = recorded.defer(1, ms=600000)
    first = db.spawn(["check_deferred", "--lease", "1h"])
    wait_for(lambda: recorded.starts(job), 20, "it is at its job")
    first.signal(signal.SIGKILL)
    first.wait()
    second = db.spawn(["unshare", "--pid", "--fork", "--kill-child", CHECK, "--lease", "1h", "--cnt", "1"])
    wait_for(lambda: len(recorded.starts(job)) == 2, 30, "the successor is at it")
    assert second.alive(), second.output()
    db.sql("select deferred.cancel(%s)", job)
    ledger(db)
