"""Control groups: a runner and all it starts live in one, are bounded by it, and end with it."""

import contextlib
import os
import re
import signal
import subprocess

import pytest

from conversation import act, pid_of, program
from harness import ledger, wait_for

ROOT = os.geteuid() == 0
AUTO, ON, OFF = "auto", "1", "0"

# Starts a process that nothing tells from others but where it lives: a session of its own, no
# environment, another name.
STRAY = """
import os, time
def stray():
    os.setsid()
    if {twice} and os.fork():
        os._exit(0)
    with open('{file}.part', 'w') as f:
        f.write(str(os.getpid()))
    os.rename('{file}.part', '{file}')
    os.closerange(0, 100)
    os.execve('/bin/sleep', ['sleep', '1000'], {{}})
child = os.fork()
if not child:
    stray()
while not os.path.exists('{file}'):
    time.sleep(0.01)
time.sleep({stay})
"""


def read(*path):
    with open(os.path.join(*path)) as f:
        return f.read().strip()


def write(text, *path):
    with open(os.path.join(*path), "w") as f:
        f.write(text)


def own_group():
    """Folder of the control group of these tests."""
    own = next(line[3:] for line in read("/proc/self/cgroup").splitlines() if line.startswith("0::"))
    for line in read("/proc/self/mountinfo").splitlines():
        fields, kind = line.split(" - ")
        root, point = fields.split()[3:5]
        if kind.startswith("cgroup2 ") and (own + "/").startswith(root.rstrip("/") + "/"):
            return point + own[len(root.rstrip("/")) :].rstrip("/")
    pytest.fail("no control groups of version 2: mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified")


def remove(group):
    """With all that is in it."""
    write("1", group, "cgroup.kill")
    wait_for(lambda: "populated 0" in read(group, "cgroup.events"), 10, "what was in the group is dead")
    for folder, _, _ in os.walk(group, topdown=False):
        os.rmdir(folder)


def groups(group):
    """Names of those below."""
    return sorted(e.name for e in os.scandir(group) if e.is_dir())


def alive(pid):
    """Not even a zombie that waits for somebody to look is alive."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return read("/proc", str(pid), "stat").rsplit(") ", 1)[1][0] not in "ZX"
    return False


if ROOT:  # who else makes groups depends on what was delegated to them

    @pytest.fixture
    def group():
        path = os.path.join(own_group(), f"deferred-test-{os.getpid()}")
        os.mkdir(path)
        try:
            yield path
        finally:
            remove(path)

    def inside(group):
        """For Popen: what is started is started in there."""
        return {"preexec_fn": lambda: write("0", group, "cgroup.procs")}

    def settings(db, cgroup, *lines):
        db.env["DEFERRED_CGROUP"] = cgroup
        db.config(
            "\n".join(["log_level = debug", 'interval_floor = "20ms"', 'interval_ceiling = "50ms"', *lines]) + "\n"
        )

    def stray_function(db, twice=True, stay=0):
        """What declares a function "stray", and what waits for the pid of the process that it starts."""
        file, script = os.path.join(db.dir, "stray"), os.path.join(db.dir, "stray.py")
        write(STRAY.format(file=file, twice=twice, stay=stay), script)
        return f'function "stray" {{ command = {{"/usr/bin/python3", "{script}"}} }}', lambda: int(
            wait_for(lambda: os.path.exists(file) and read(file), 30, "it has started")
        )

    def runner_groups(group, n=1):
        """The groups of n runners that live."""
        ours = r"deferred-[0-9a-f]+\.[0-9a-f]+\.[1-9][0-9]*"
        return wait_for(
            lambda: (found := [os.path.join(group, g) for g in groups(group) if re.fullmatch(ours, g)])
            and len(found) == n
            and all(read(g, "cgroup.procs") for g in found)
            and found,
            30,
            "runners are in groups",
        )

    def test_a_runner_lives_in_a_group_of_its_own_with_its_limits(db, recorded, group):
        settings(db, ON, "runners = 2", "processes_limit = 200", 'memory_limit = "1g"')
        recorded.defer(2, ms=60000)
        run = db.spawn(["check_deferred", "--loop"], **inside(group))
        wait_for(lambda: len(recorded.starts()) == 2)
        found = runner_groups(group, 2)
        for pid in (line[3] for line in recorded.starts()):
            assert [str(pid) in read(g, "cgroup.procs").split() for g in found].count(True) == 1
        assert not any(str(run.pid) in read(g, "cgroup.procs").split() for g in found)
        handed_on = read(group, "cgroup.controllers").split()
        assert set(handed_on) & {"pids", "memory"} == set(read(group, "cgroup.subtree_control").split())
        for g in found:
            assert os.path.exists(os.path.join(g, "pids.max")) == ("pids" in handed_on)
            assert os.path.exists(os.path.join(g, "memory.max")) == ("memory" in handed_on)
            if "pids" in handed_on:
                assert read(g, "pids.max") == "100", "an equal share"
            if "memory" in handed_on:
                assert read(g, "memory.max") == str(1 << 30)
        run.signal(signal.SIGTERM)
        assert run.wait() == 0, run.output()
        assert groups(group) == [] and read(group, "cgroup.subtree_control") == ""
        ledger(db)

    def test_what_a_function_leaves_behind_ends_with_its_runner(db, group):
        function, pid = stray_function(db)
        settings(db, ON, function)
        db.defer("stray", max_attempts=1)
        done = db.run(["check_deferred", "--cnt", "0"], **inside(group))
        assert done.returncode == 0 and db.one("select outcome from deferred.__deferred_log") == "ok", done.stderr
        assert not alive(pid())
        assert groups(group) == []
        ledger(db)

    def test_the_burial_of_a_runner_kills_what_is_in_its_group(db, recorded, group):
        """Even what does not descend from us, so that no sweep of ours finds it: the group itself is killed."""
        settings(db, ON)
        (job,) = recorded.defer(1, ms=60000, max_attempts=1)
        run = db.spawn(["check_deferred", "--loop"], **inside(group))
        wait_for(recorded.starts)
        (home,) = runner_groups(group)
        with subprocess.Popen(["sleep", "1000"]) as stranger:
            try:
                write(str(stranger.pid), home, "cgroup.procs")
                os.kill(recorded.starts()[0][3], signal.SIGKILL)
                assert stranger.wait(20) == -signal.SIGKILL
            finally:
                stranger.kill()
        wait_for(lambda: not os.path.exists(home), 20, "its group is removed")
        wait_for(lambda: db.log(job) == [(1, "crashed")], 20, "the attempt is recorded")
        run.signal(signal.SIGTERM)
        assert run.wait() == 0, run.output()
        assert groups(group) == []
        ledger(db)

    def test_what_a_killed_parent_leaves_behind_ends_at_the_next_start(db, group):
        function, pid = stray_function(db, twice=False, stay=1000)
        settings(db, ON, function)
        lost = db.defer("stray", max_attempts=1)
        run = db.spawn(["check_deferred", "--loop"], **inside(group))
        stray = pid()
        (home,) = runner_groups(group)
        assert str(stray) in read(home, "cgroup.procs").split()
        run.signal(signal.SIGKILL)
        run.process.wait(20)
        wait_for(lambda: not db.orphans(), 20, "the kernel has ended the runner")
        assert alive(stray), "nobody is there to end it"
        for controller in read(group, "cgroup.subtree_control").split():
            write("-" + controller, group, "cgroup.subtree_control")  # or nothing could be started in there
        after = db.defer("noop")
        run = db.spawn(["check_deferred", "--loop"], **inside(group))
        wait_for(lambda: db.log(after) == [(1, "ok")], 20, "the next one works")
        assert not alive(stray), "it was ended before there was work"
        assert db.log(lost) == [(1, "lost")]
        run.signal(signal.SIGTERM)
        assert run.wait() == 0, run.output()
        assert groups(group) == []
        ledger(db)

    def test_a_resident_program_and_what_it_starts_live_in_the_group_of_its_runner(db, group):
        before = STRAY.format(file=db.dir + "/stray", twice=True, stay=0)
        settings(db, ON, "runners = 1", 'memory_limit = "1g"', program(db, before=before))
        run = db.spawn(["check_deferred", "--loop", "--listen"], **inside(group))
        found = []
        for do in (None, "os._exit(1)", None):
            job = act(db, do, max_attempts=1)
            wait_for(lambda: db.log(job), 30)
            found += [] if do else [pid_of(db, job)]
        (home,) = runner_groups(group)
        (first, second), stray = found, int(read(db.dir, "stray"))
        assert first != second and not alive(first)
        assert str(second) in read(home, "cgroup.procs").split()
        if "memory" in read(group, "cgroup.controllers").split():
            assert read(home, "memory.max") == str(1 << 30)
        run.signal(signal.SIGKILL)
        run.process.wait(20)
        wait_for(lambda: not alive(second), 20, "the program has died with its runner")
        db.defer("noop")
        done = db.run(["check_deferred", "--cnt", "0"], **inside(group))
        assert done.returncode == 0 and not alive(stray) and groups(group) == [], done.stderr
        ledger(db)

    def test_a_function_of_another_user_cannot_leave_its_group(db, group):
        settings(db, ON, 'function "leave" { command = {"/bin/sh", "-c", "echo 0 >' + group + '/cgroup.procs"} }')
        os.chmod(db.dir, 0o711)
        db.defer("leave", max_attempts=1)
        done = db.run(["check_deferred", "--cnt", "0", "--user", "games"], **inside(group))
        ((outcome, error),) = db.sql("select outcome, error from deferred.__deferred_log")
        assert outcome == "failed" and "Permission denied" in error, done.stderr
        assert groups(group) == []
        ledger(db)

    def test_root_too_has_no_more_processes_than_its_share(db, group):
        """Where the controller is there: without it this asserts that what is not there is not in the way."""
        db.plugins("unruly")
        settings(db, ON, "processes_limit = 12")
        db.defer("fork_many", max_attempts=1)
        done = db.run(["check_deferred", "--cnt", "0"], **inside(group))
        ((outcome, forked),) = db.sql("select outcome, result::int from deferred.__deferred_log")
        assert outcome == "ok" and forked == (
            11 if "pids" in read(group, "cgroup.controllers").split() else 200
        ), done.stderr
        assert groups(group) == []
        ledger(db)

    def test_who_else_is_in_the_group_stays_there(db, group):
        """Then controllers cannot be handed on, and nobody but ourselves would have been moved for it."""
        settings(db, ON)
        with subprocess.Popen(["sleep", "1000"]) as other:
            try:
                write(str(other.pid), group, "cgroup.procs")
                job = db.defer("noop")
                done = db.run(["check_deferred", "--cnt", "0"], **inside(group))
                assert done.returncode == 0 and db.log(job) == [(1, "ok")], done.stderr
                assert "limits: processes no, memory no" in done.stderr
                assert read(group, "cgroup.procs").split() == [str(other.pid)]
                assert groups(group) == [] and read(group, "cgroup.subtree_control") == ""
            finally:
                other.kill()
        ledger(db)

    def test_without_a_delegated_group_what_functions_leave_ends_too_and_nothing_is_rearranged(db, group):
        """As from a line of cron, in whose group others are."""
        function, pid = stray_function(db)
        settings(db, AUTO, function)
        db.defer("stray", max_attempts=1)
        with subprocess.Popen(["sleep", "1000"]) as other:
            try:
                write(str(other.pid), group, "cgroup.procs")
                done = db.run(["check_deferred", "--cnt", "0"], **inside(group))
                assert (
                    done.returncode == 0 and db.one("select outcome from deferred.__deferred_log") == "ok"
                ), done.stderr
                assert not alive(pid()) and "limits: processes no, memory no" in done.stderr
                assert alive(other.pid) and read(group, "cgroup.procs").split() == [str(other.pid)]
                assert groups(group) == [] and read(group, "cgroup.subtree_control") == ""
            finally:
                other.kill()
        ledger(db)

    def test_from_a_line_of_cron_what_a_killed_run_left_ends_with_the_next_one(db, group):
        function, pid = stray_function(db, twice=False, stay=1000)
        settings(db, AUTO, function)
        lost = db.defer("stray", max_attempts=1)
        run = db.spawn(["check_deferred", "--cnt", "0"], **inside(group))
        stray = pid()
        (home,) = runner_groups(group)
        assert str(stray) in read(home, "cgroup.procs").split() and str(run.pid) in read(group, "cgroup.procs").split()
        run.signal(signal.SIGKILL)
        run.process.wait(20)
        assert alive(stray), "nobody is there to end it"
        db.defer("noop")
        done = db.run(["check_deferred", "--cnt", "0"], **inside(group))
        assert done.returncode == 0 and not alive(stray) and groups(group) == [], done.stderr
        assert db.log(lost) == [(1, "lost")]
        ledger(db)

    @pytest.mark.slow
    def test_no_groups_are_made_where_that_is_forbidden(db, recorded, group):
        settings(db, OFF)
        recorded.defer(1, ms=60000)
        run = db.spawn(["check_deferred", "--loop"], **inside(group))
        wait_for(recorded.starts)
        assert groups(group) == []
        assert str(recorded.starts()[0][3]) in read(group, "cgroup.procs").split()
        run.signal(signal.SIGTERM)
        assert run.wait() == 0
        assert "control group" not in run.output()
        ledger(db)

    @pytest.mark.parametrize("how", [AUTO, ON])
    def test_where_no_group_can_be_made_runners_go_without(db, group, how):
        settings(db, how)
        write("0", group, "cgroup.max.descendants")
        idle = db.run(["check_deferred", "--cnt", "0"], **inside(group))
        assert idle.returncode == 0 and "control group" not in idle.stderr, "with nothing due nobody looks"
        job = db.defer("noop")
        done = db.run(["check_deferred", "--cnt", "0"], **inside(group))
        assert done.returncode == 0 and db.log(job) == [(1, "ok")], done.stderr
        assert re.search(r"debug: no control groups for runners: cannot make one in '.*': ", done.stderr), done.stderr
        ledger(db)
