"""Tests of the library without a worker: `python3 -m pytest lib/languages/python/tests`."""

import asyncio
import datetime
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import textwrap

import pytest

import deferred
import deferred.testing

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture(autouse=True)
def functions(monkeypatch):
    """Each test defines its own functions and hooks."""
    monkeypatch.setattr(deferred, "functions", {})
    monkeypatch.setattr(deferred, "before_hooks", [])
    monkeypatch.setattr(deferred, "after_hooks", [])


@pytest.mark.parametrize(
    "span, ms",
    [
        ("200ms", 200),
        ("1.5s", 1500),
        ("10min", 600_000),
        ("2h 30m", 9_000_000),
        ("1h30min", 5_400_000),
        ("30 d", 2_592_000_000),
        ("1w", 604_800_000),
        ("2", 2000),
        (2, 2000),
        (0.25, 250),
        (datetime.timedelta(minutes=1, milliseconds=1), 60_001),
    ],
)
def test_spans(span, ms):
    assert deferred.milliseconds(span) == ms


@pytest.mark.parametrize("span", ["", "soon", "5 parsecs", "-1s", "1s,", "s", "1 s 2", "1e3s"])
def test_texts_that_are_not_spans(span):
    with pytest.raises(ValueError, match="is not a span"):
        deferred.milliseconds(span)


def test_a_function_keeps_its_name_and_limits():
    @deferred.function
    def plain(params, job):
        return params

    @deferred.function("shop.resize", timeout="10s", max_attempts=5)
    def resize(params, job):
        return params

    assert plain(1, None) == 1 and resize(2, None) == 2
    assert [(f.name, f.timeout_ms, f.max_attempts) for f in deferred.functions.values()] == [
        ("plain", None, None),
        ("shop.resize", 10_000, 5),
    ]
    with pytest.raises(ValueError, match="function 'plain' is defined twice"):
        deferred.function(plain)


def test_call_reports_all_that_a_worker_would_get():
    @deferred.function("resize", timeout="10s")
    def resize(params, job):
        job.progress(1, 2, "half")
        job.log("working", deferred.WARNING)
        job.defer("send_mail", {"to": params["owner"]}, {"queue": "mail"})
        job.last()
        return {"attempt": job.attempt, "left": 9 < job.left() <= 10, "label": job.label, "api": job.setting("api")}

    done = deferred.testing.call("resize", {"owner": "ann"}, attempt=2, label="L", settings={"api": "x"})
    assert done.outcome == "ok" and done.exception is None and done.last
    assert done.data == {"attempt": 2, "left": True, "label": "L", "api": "x"}
    assert done.deferred == [deferred.testing.Deferred("send_mail", {"to": "ann"}, {"queue": "mail"})]
    assert done.logged == ["working"] and done.progress == [{"done": 1, "total": 2, "text": "half"}]


def test_params_and_results_pass_through_json():
    @deferred.function
    def kinds(params, job):
        return type(params["pair"]).__name__

    @deferred.function
    def unstorable(params, job):
        return {"now": datetime.datetime.now()}

    @deferred.function
    def infinite(params, job):
        return {"x": float("inf")}

    assert deferred.testing.call("kinds", {"pair": (1, 2)}).text == "list"
    assert deferred.testing.call("unstorable").outcome == "failed"
    assert "not JSON serializable" in deferred.testing.call("unstorable").text
    assert deferred.testing.call("infinite").outcome == "failed"


@pytest.mark.parametrize(
    "value, stored", [(None, b""), ("text", b"text"), (b"\xff", b"\xff"), ({"ä": 1}, '{"ä":1}'.encode()), (0, b"0")]
)
def test_stored_values(value, stored):
    assert deferred.encode(value) == stored


def test_surrogates_are_escaped_in_json_and_replaced_in_text():
    assert deferred.encode(["\ud800", "ä"]) == b'["\\ud800", "\\u00e4"]'
    assert deferred.encode("a\ud800b") == b"a?b"


@pytest.mark.parametrize(
    "verdict, outcome, after_ms, text",
    [
        (deferred.Later("30s"), "later", 30_000, ""),
        (deferred.Later(error="busy"), "later", None, "busy"),
        (deferred.Snooze(5, "night"), "snooze", 5000, "night"),
        (deferred.Dead("no such owner"), "dead", None, "no such owner"),
        (deferred.Cancel("sold"), "cancel", None, "sold"),
        (deferred.Unready("no key"), "unready", None, "no key"),
        (deferred.Stop("time"), "failed", None, "Stop: time"),
    ],
)
def test_verdicts(verdict, outcome, after_ms, text):
    @deferred.function
    def work(params, job):
        raise verdict

    done = deferred.testing.call("work")
    assert (done.outcome, done.after_ms, done.exception) == (outcome, after_ms, verdict)
    assert done.text.partition("\n")[0] == text


def test_an_error_begins_with_its_message_and_shows_the_frames_of_the_application():
    @deferred.function
    def work(params, job):
        return params["owner"]

    text = deferred.testing.call("work").text
    assert text.startswith("KeyError: 'owner'\nTraceback (most recent call last):\n")
    assert text.count("  File ") == 1 and f'File "{__file__}"' in text


def test_a_function_that_is_not_there():
    assert deferred.testing.call("absent").outcome == "unready"


def test_hooks_surround_each_function():
    seen = []
    deferred.before_job(lambda job: seen.append(f"before {job.fn}"))
    deferred.after_job(lambda job: seen.append("after"))

    @deferred.after_job
    def broken(job):
        raise OSError("disk full")

    @deferred.function
    def work(params, job):
        seen.append("work")
        raise ValueError

    done = deferred.testing.call("work")
    assert seen == ["before work", "work", "after"] and done.outcome == "failed"
    assert done.logged[0].startswith("after_job: OSError: disk full\n")


def test_a_hook_may_end_the_attempt():
    @deferred.before_job
    def closed(job):
        raise deferred.Snooze("1h")

    @deferred.function
    def work(params, job):
        raise AssertionError("called")

    assert deferred.testing.call("work").outcome == "snooze"


def test_a_coroutine_function():
    @deferred.function
    async def work(params, job):
        return params

    assert deferred.testing.call("work", {"a": 1}).data == {"a": 1}


def test_steps_are_saved_once_and_replaced_by_name():
    calls = []

    @deferred.function
    def work(params, job):
        def charge():
            calls.append(1)
            return {"pair": (1, 2)}

        async def later():
            return "ready"

        same = job.step("charge", charge) == job.step("charge", charge)
        job.save_step("page", job.steps.get("page", 0) + 1)
        return [job.step("old", charge), same, asyncio.run(job.step("later", later)), job.steps]

    done = deferred.testing.call("work", steps={"old": None, "page": 7})
    pair = {"pair": [1, 2]}
    assert done.data == [None, True, "ready", {"old": None, "page": 8, "charge": pair, "later": "ready"}]
    assert done.steps == {"charge": pair, "page": 8, "later": "ready"} and calls == [1]


def test_a_step_that_has_no_json_form_fails():
    @deferred.function
    def work(params, job):
        job.step("charge", lambda: {1, 2})

    done = deferred.testing.call("work")
    assert done.outcome == "failed" and done.steps == {}


def test_parents_and_times():
    @deferred.function
    def work(params, job):
        return [job.parents["pack"]["result"], job.tick.isoformat(), job.previous_tick is None, job.stop_asked()]

    done = deferred.testing.call(
        "work", parents={"pack": {"result": "boxes"}}, tick_us=1_700_000_000_000_000, stop=True
    )
    assert done.data == ["boxes", "2023-11-14T22:13:20+00:00", True, True]


def test_run_returns_at_once_without_a_worker(monkeypatch):
    monkeypatch.delenv("DEFERRED_PROGRAM", raising=False)
    deferred.run()


# With a process of its own.


def python(args, folder, **env):
    return subprocess.run(
        [sys.executable, "-m", "deferred", *args],
        cwd=folder,
        env={"PYTHONPATH": TOP, "PATH": "/usr/bin:/bin", **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def write(folder, text):
    (folder / "tasks.py").write_text("import deferred\n\n" + textwrap.dedent(text))


def test_the_command_line(tmp_path):
    write(
        tmp_path,
        """
        @deferred.function
        def double(params, job):
            job.log("working")
            job.defer("next", {"n": 1})
            return params["n"] * 2
        """,
    )
    done = python(["call", "tasks", "double", '{"n": 4}'], tmp_path)
    assert (done.returncode, done.stdout) == (0, "8\n")
    assert done.stderr == 'working\ndeferred: next {"n":1}\n'
    done = python(["call", "tasks", "double"], tmp_path)
    assert done.returncode == 1 and done.stdout.startswith("failed: KeyError: 'n'\nTraceback")
    done = python(["tasks"], tmp_path)
    assert done.returncode == 0 and "double" in done.stdout
    assert python([], tmp_path).returncode == 64


@pytest.mark.parametrize(
    "args, text",
    [
        (["tasks.py"], "deferred: module 'tasks.py' does not exist\nhint: write 'tasks', without .py\n"),
        (
            ["shop.tasks"],
            "deferred: module 'shop.tasks' does not exist (folder {})\nhint: name the folder of the module",
        ),
        (["call", "tasks", "double", "{n}"], "deferred: params '{{n}}' are not JSON (Expecting property name"),
        (["imports"], "ModuleNotFoundError: No module named 'absent'\n"),
    ],
)
def test_the_command_line_names_the_cause_of_a_failed_start(tmp_path, args, text):
    write(tmp_path, "")
    (tmp_path / "imports.py").write_text("import absent\n")
    done = python(args, tmp_path)
    assert done.returncode == 1 and text.format(tmp_path) in done.stderr, done.stderr
    assert ("Traceback" in done.stderr) is (args == ["imports"])


def pipe():
    """Both ends above the descriptors that the program gets."""
    ends = os.pipe()
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in ends]
    for fd in ends:
        os.close(fd)
    return high


class Worker:
    """Plays the runner of a worker for the functions of a text."""

    def __init__(self, folder, text):
        write(folder, text)
        (theirs, self.write_end), (read_end, answers), (said, output) = pipe(), pipe(), pipe()
        env = {"PYTHONPATH": f"{TOP}:{folder}", "PATH": "/usr/bin:/bin", "DEFERRED_PROGRAM": "1"}
        duplicates = [(os.POSIX_SPAWN_DUP2, *ends) for ends in ((output, 1), (output, 2), (theirs, 3), (answers, 4))]
        argv = [sys.executable, "-m", "deferred", "tasks"]
        self.pid = os.posix_spawn(sys.executable, argv, env, file_actions=duplicates)
        for fd in (theirs, answers, output):
            os.close(fd)
        self.answers, self.said = os.fdopen(read_end, "rb"), os.fdopen(said, "rb")
        signal.alarm(60)  # ends this process if the program is out of step, so that neither reads for ever
        self.until("ready")

    def call(self, job, fn, params="{}", **members):
        body = params.encode()
        head = {"type": "call", "job": str(job), "fn": fn, "attempt": 1, "params": len(body), "bytes": len(body)}
        os.write(self.write_end, json.dumps({**head, **members}).encode() + b"\n" + body)

    def until(self, kind):
        """The next message of this type, with its body."""
        while True:
            head = json.loads(self.answers.readline())
            head["body"] = self.answers.read(head.get("bytes", 0))
            if head["type"] == kind:
                return head

    def end(self):
        """The exit status, the messages that nobody read, and the output."""
        os.close(self.write_end)
        with self.answers, self.said:
            rest, said = self.answers.read(), self.said.read().decode()
        signal.alarm(0)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), rest, said


def test_sigterm_waits_until_a_message_is_complete(tmp_path):
    """The message is larger than the pipe, so the program is within write() when the signal arrives."""
    worker = Worker(
        tmp_path,
        """
        @deferred.function
        def flood(params, job):
            try:
                job.defer("next", {"text": "x" * 1_000_000})
            except deferred.Stop:
                return "stopped"
        """,
    )
    worker.call(7, "flood")
    head = json.loads(worker.answers.readline())
    os.kill(worker.pid, signal.SIGTERM)
    body = worker.answers.read(head["bytes"])
    assert len(body) == 1_000_000 + len('{"text":""}') and body.endswith(b'x"}')
    assert worker.until("done")["body"] == b"stopped"
    assert worker.end()[:2] == (0, b"")


def test_sigterm_between_jobs_is_ignored(tmp_path):
    worker = Worker(
        tmp_path,
        """
        @deferred.function
        def work(params, job):
            return "worked"
        """,
    )
    for job in range(1, 20):
        os.kill(worker.pid, signal.SIGTERM)
        worker.call(job, "work")
        done = worker.until("done")
        assert (done["job"], done["outcome"]) == (str(job), "ok")
    assert worker.end()[:2] == (0, b"")


def test_a_forked_child_takes_no_part_in_the_conversation(tmp_path):
    worker = Worker(
        tmp_path,
        """
        import os

        @deferred.function
        def work(params, job):
            child = os.fork()
            if child == 0:
                try:
                    job.progress(1)
                except OSError:
                    os._exit(3)
                os._exit(0)
            return str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

        @deferred.function
        def returns(params, job):
            child = os.fork()
            if child:
                os.waitpid(child, 0)
            return "once"
        """,
    )
    worker.call(1, "work")
    assert worker.until("done")["body"] == b"3"
    worker.call(2, "returns")
    assert worker.until("done")["body"] == b"once"
    assert worker.end()[:2] == (0, b"")


def test_a_thread_that_outlives_its_job_cannot_speak_for_the_next(tmp_path):
    worker = Worker(
        tmp_path,
        """
        import threading

        go, seen = threading.Event(), []

        def speak(job):
            go.wait()
            try:
                job.log("late")
            except RuntimeError as error:
                seen.append(str(error))

        @deferred.function
        def start(params, job):
            global thread
            thread = threading.Thread(target=speak, args=(job,))
            thread.start()

        @deferred.function
        def wait(params, job):
            go.set()
            thread.join()
            return seen[0]
        """,
    )
    worker.call(1, "start")
    worker.until("done")
    worker.call(2, "wait")
    assert worker.until("done")["body"] == b"job 1 has ended"
    worker.end()


def test_threads_save_steps_one_after_the_other(tmp_path):
    worker = Worker(
        tmp_path,
        """
        import sys, threading

        sys.setswitchinterval(1e-6)

        @deferred.function
        def work(params, job):
            threads = [threading.Thread(target=job.save_step, args=(f"step_{i}", i)) for i in range(50)]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                job.stop_asked()
            return job.steps
        """,
    )
    for job in map(str, range(1, 6)):
        worker.call(job, "work", steps=0)
        saved = {}
        for _ in range(50):
            step = worker.until("step")
            assert not select.select([worker.answers], [], [], 0)[0], "another step before the answer to this one"
            saved[step["name"]] = json.loads(step["body"])
            answer = {"type": "stepped", "job": job, "outcome": "saved"}
            os.write(worker.write_end, json.dumps(answer).encode() + b"\n")
        assert json.loads(worker.until("done")["body"]) == saved == {f"step_{i}": i for i in range(50)}
    worker.end()


def test_children_do_not_think_that_a_worker_started_them(tmp_path):
    worker = Worker(
        tmp_path,
        """
        import os, subprocess, sys

        @deferred.function
        def work(params, job):
            return subprocess.run([sys.executable, "-m", "deferred", "tasks"], stdout=subprocess.PIPE, text=True).stdout
        """,
    )
    worker.call(1, "work")
    assert worker.until("done")["body"].startswith(b"no worker started this process")
    worker.end()


def test_sys_exit_in_a_job_ends_the_process(tmp_path):
    worker = Worker(
        tmp_path,
        """
        import sys

        @deferred.function
        def work(params, job):
            sys.exit("no more")
        """,
    )
    worker.call(1, "work")
    assert worker.end() == (1, b"", "no more\n")


def test_djangos_stale_connections_are_closed_around_each_job(tmp_path):
    worker = Worker(
        tmp_path,
        """
        import sys, types

        calls = []
        django = sys.modules["django.db"] = types.ModuleType("django.db")
        django.close_old_connections = lambda: calls.append("close")
        django.reset_queries = lambda: calls.append("reset")

        @deferred.function
        def work(params, job):
            return calls
        """,
    )
    worker.call(1, "work")
    assert worker.until("done")["body"] == b'["reset","close"]'
    worker.call(2, "work")
    assert worker.until("done")["body"] == b'["reset","close","reset","close","reset","close"]'
    worker.end()


def test_a_function_of_a_list_of_jobs_is_called_with_the_params_of_each():
    @deferred.function(batch=3, batch_wait="500ms")
    def insert(jobs):
        return [deferred.Dead(f"no {job.id}") if job.params.get("wrong") else {"id": job.id} for job in jobs]

    assert deferred.functions["insert"].batch_wait_ms == 500
    good, bad = deferred.testing.call_many("insert", [{}, {"wrong": True}], job=7)
    assert (good.outcome, good.data) == ("ok", {"id": 7})
    assert (bad.outcome, bad.text) == ("dead", "no 8")
    assert deferred.testing.call("insert", {"wrong": True}).outcome == "dead"
