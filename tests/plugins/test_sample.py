"""The plugin `sample`: each function does what its head says."""

import os
import signal

import pytest

import harness

CALL = os.path.join(harness.BUILD, "tests", "harness", "plugin_call")
STOCK = os.path.join(harness.BUILD, "plugins")


@pytest.mark.parametrize(
    "text", ["{}", "[1, 2]", "null", '{"b": 1.10, "a": 18446744073709551616, "a": 1e400}', '"\\u0000 ü"']
)
def test_echo_returns_its_params_byte_for_byte(call, text):
    outcome = call("echo", text)
    assert (outcome.returned, outcome.result) == ("ok", text)


def test_sleep_ends_early_when_asked_to_stop(call):
    outcome = call("sleep", {"ms": 60000}, env={"STOP_ASKED": "1"}, timeout=20)
    assert (outcome.returned, outcome.error) == ("failed", "stopped")
    assert call("sleep", {"ms": 30}).returned == "ok"


def test_fail_fails_as_told(call):
    assert [
        (o.returned, o.error, o.retry_after_ms)
        for o in call(
            "fail",
            {},
            {"error": "no luck"},
            {"error": "never", "dead": True},
            {"retry_after_ms": 1500},
            {"unready": True},
            {"cancel": True},
            {"snooze": True, "retry_after_ms": 7},
        )
    ] == [
        ("failed", "failed on request", None),
        ("failed", "no luck", None),
        ("dead", "never", None),
        ("later", "failed on request", 1500),
        ("unready", "failed on request", None),
        ("cancel", "failed on request", None),
        ("snooze", "failed on request", 7),
    ]


@pytest.mark.parametrize(
    "number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGKILL, signal.SIGTERM]
)
def test_crash_ends_the_process_by_that_signal(number, tmp_path):
    done = harness.run([CALL, STOCK, "crash", '{"signal": %d}' % number], cwd=tmp_path)
    assert done.returncode == -number


@pytest.mark.parametrize(
    "fn,params", [("fail", "[]"), ("fail", "x"), ("sleep", "1"), ("crash", '{"signal": 999}'), ("append", "{}")]
)
def test_wrong_params_are_an_error_for_good(call, fn, params):
    outcome = call(fn, params)
    assert outcome.returned == "dead" and outcome.error


def test_append_adds_a_line_below_the_folder(call, tmp_path):
    (tmp_path / "sub").mkdir()
    for outcome in call(
        "append",
        {"file": "a.txt", "text": "one"},
        {"file": "./sub//b.txt", "text": "ü"},
        {"file": str(tmp_path / "a.txt"), "text": "two"},
        settings={"sample.dir": tmp_path},
    ):
        assert outcome.returned == "ok", outcome.error
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"
    assert (tmp_path / "sub" / "b.txt").read_text() == "ü\n"


def test_append_writes_below_the_folder_of_the_setting(call, tmp_path):
    (tmp_path / "allowed").mkdir()
    settings = {"sample.dir": tmp_path / "allowed"}
    assert call("append", {"file": "a.txt", "text": "x"}, settings=settings).returned == "ok"
    assert (tmp_path / "allowed" / "a.txt").read_text() == "x\n"
    assert call("append", {"file": str(tmp_path / "b.txt"), "text": "x"}, settings=settings).returned == "dead"


def test_append_writes_nothing_unless_a_folder_is_set(call, tmp_path):
    """The current folder is nobody's choice: that of root's cron is /root, with .ssh/authorized_keys in it."""
    for settings in ({}, {"sample.dir": ""}):
        for path in ("a.txt", str(tmp_path / "a.txt")):
            outcome = call("append", {"file": path, "text": "x"}, settings=settings)
            assert outcome.returned == "dead" and "sample.dir" in outcome.error
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "path",
    [
        "../out.txt",
        "sub/../../out.txt",
        "sub/..",
        "link.txt",
        "linked/out.txt",
        "/etc/out.txt",
        "",
        "/",
        "sub",
        "missing/out.txt",
        "fifo",
        "x" * 300,
        "hard.txt",
        "root/a.txt",
    ],
)
def test_append_writes_nowhere_else(call, tmp_path, path):
    below = tmp_path / "below"
    below.mkdir()
    (below / "sub").mkdir()
    (below / "link.txt").symlink_to(tmp_path / "out.txt")
    (below / "linked").symlink_to(tmp_path)
    (below / "root").symlink_to("/proc/self/root")
    (tmp_path / "other.txt").write_text("")
    (below / "hard.txt").hardlink_to(tmp_path / "other.txt")
    os.mkfifo(below / "fifo")
    outcome = call("append", {"file": path, "text": "x"}, settings={"sample.dir": below})
    assert outcome.returned == "dead" and "append" in outcome.error
    assert not (tmp_path / "out.txt").exists() and (tmp_path / "other.txt").read_text() == ""


def test_append_adds_one_line_only(call, tmp_path):
    assert call("append", {"file": "a.txt", "text": "one\ntwo"}, settings={"sample.dir": tmp_path}).returned == "dead"
    assert not (tmp_path / "a.txt").exists()
