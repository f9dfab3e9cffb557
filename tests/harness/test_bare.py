"""What make check-bare reports, and that nothing of it stays. The systems themselves take minutes."""

import os
import signal
import subprocess
import sys

import pytest

import bare
import pg
from harness import wait_for


@pytest.fixture
def steps(monkeypatch, tmp_path):
    """Systems are empty folders, and steps run outside."""
    monkeypatch.setattr(bare, "BARE", str(tmp_path))
    monkeypatch.setattr(bare, "make_system", lambda suite, root, log: os.makedirs(root))
    monkeypatch.setattr(bare, "inside", lambda root, user, args: ["sh", "-c", args[2].replace("cd ~/deferred", "cd /")])
    monkeypatch.setattr(bare, "environment", lambda user: {"PATH": "/usr/bin:/bin"})
    monkeypatch.delenv("BARE_KEEP", raising=False)
    return lambda *commands: monkeypatch.setattr(bare, "STEPS", [("root", command) for command in commands])


def test_a_failed_step_fails_the_run_and_the_next_one_runs(steps, tmp_path, capsys):
    said = "printf '7 s, 2 skipped\\n5 passed, 0 failed\\nSKIPPED [2] a.py: needs root\\n'"
    steps("sh -c 'echo broken; exit 3'", f'sh -c "{said}"')
    report = bare.run_suite("trixie")
    made, broken, passed = report.lines
    assert report.failed and made.endswith("git clone: ok") and broken.endswith("exit 3': FAILED")
    assert passed.endswith(": ok: 5 passed, 0 failed, 2 skipped")
    shown = capsys.readouterr().out
    assert "broken\n" in shown and "SKIPPED [2] a.py: needs root" in shown
    assert sorted(os.listdir(tmp_path)) == ["trixie-1.log", "trixie-2.log", "trixie-3.log"]


def test_a_system_that_cannot_be_made_fails_the_run(steps, monkeypatch):
    steps("true")
    monkeypatch.setattr(bare, "make_system", lambda *_: subprocess.run(["false"], check=True))
    report = bare.run_suite("trixie")
    assert report.failed and len(report.lines) == 1


def test_all_steps_that_succeed_are_a_success(steps, monkeypatch, tmp_path):
    steps("true")
    monkeypatch.setenv("BARE_KEEP", "1")
    assert not bare.run_suite("trixie").failed
    assert os.path.isdir(tmp_path / "trixie")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes such namespaces")
def test_processes_and_mounts_of_a_step_end_when_it_is_killed(tmp_path):
    place = tmp_path / "mounted"
    place.mkdir()
    step = f"mount -t tmpfs tmpfs {place} && setsid sleep 1000 & sleep 1000"
    code = f"import bare, subprocess; subprocess.run(bare.isolated(['sh', '-c', {step!r}]))"
    marked = {**os.environ, "DEFERRED_INSTANCE": str(tmp_path), "PYTHONPATH": os.path.dirname(bare.__file__)}
    run = subprocess.Popen([sys.executable, "-B", "-c", code], env=marked)
    below = lambda: pg.processes_with("DEFERRED_INSTANCE", str(tmp_path))  # noqa: E731
    wait_for(lambda: len(below()) >= 5, 20)
    run.send_signal(signal.SIGKILL)
    run.wait()
    wait_for(lambda: below() == [], 20)
    with open("/proc/self/mounts") as f:
        assert str(place) not in f.read()
