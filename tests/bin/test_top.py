"""`deferred top`: one frame for scripts, and a real terminal, with keys and a change of its size."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import harness
from made_log import starts
from test_deferred import fails, login, ok

ESCAPE = re.compile(r"\x1b\[[?\d;]*[a-zA-Z]")


def some_work(db):
    """A queue that is paused, one that a worker has a job of, and attempts that ended."""
    db.sql(
        "select deferred.defer('noop', '{}', '{\"queue\": \"mail\"}') "
        "from generate_series(1, 3); update deferred.__deferred_queue set paused = true where name = 'mail'"
    )
    db.defer("noop")
    db.defer("fail")
    assert db.run(["check_deferred", "--cnt", "2"]).returncode == 0
    job = db.defer("sleep", '{"ms": 60000}')
    worker = db.spawn(["check_deferred"])
    harness.wait_for(lambda: db.held(job))
    return job, worker


class Terminal:
    """The program on a terminal of so many lines and columns; frames as they come."""

    def __init__(self, db, rows, cols, *args, env=None):
        self.master, slave = pty.openpty()
        self.size(rows, cols)
        self.slave = slave
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            harness.command(["deferred", "top", *args]),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**harness.base_env(), **db.env, **(env or {})},
        )
        self.text = ""

    def size(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def key(self, key):
        os.write(self.master, key.encode())

    def read(self, wait):
        if select.select([self.master], [], [], wait)[0]:
            self.text += os.read(self.master, 65536).decode()
            return True
        return False

    def frame(self, *texts):
        """The next frame that has these, its lines; what came before it is dropped."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            while "\x1b[J" in self.text:
                frame, self.text = self.text.split("\x1b[J", 1)
                lines = [ESCAPE.sub("", line) for line in frame.split("\x1b[H", 1)[1].split("\r\n")]
                if all(any(text in line for line in lines) for text in texts):
                    return lines
            self.read(1)
        raise AssertionError((texts, self.text))

    def end(self):
        code = self.process.wait(20)
        while self.read(0.05):
            pass
        assert self.text.endswith("\x1b[?25h\x1b[?1049l"), self.text
        assert termios.tcgetattr(self.slave) == self.before
        os.close(self.master)
        os.close(self.slave)
        return code


def test_top_shows_one_frame_where_there_is_no_terminal(db):
    job, worker = some_work(db)
    name, env = login(db, "deferred_viewer")
    text = ok(db.run(["deferred", "top"], env=env))
    assert "\x1b" not in text
    lines = text.splitlines()
    assert re.search(r"live workers: 1  ready: 3  late by: \d+s  claimed: 1$", lines[0]) and lines[1].endswith(
        "failed 50.0 %"
    ), text
    assert lines[2:5] == [
        "why: queue mail is paused",
        f"     3 jobs wait in it, the first for {re.search('first for (.*)', text)[1]}",
        "do:  deferred queue resume mail",
    ]
    rows = {line.split()[0]: line.split() for line in lines[5:] if line}
    assert (
        rows["mail"][1:4] == ["3", "0", "0"]
        and rows["mail"][-1] == "paused"
        and rows["default"][1:4] == ["0", "1", "1"]
    )
    assert rows["sleep"][1] == "1" and rows["noop"][1:4] == ["0", "1", "0"] and rows["fail"][1:4] == ["0", "1", "1"]
    assert rows[str(job)][1:3] == ["sleep", "default"] and rows[str(job)][-1] == str(worker.pid)
    told = json.loads(ok(db.run(["deferred", "--json", "top", "--queue", "default"])))
    assert told["why"] == {
        "cause": "nothing_waits",
        "why": "nothing waits in queue default",
        "figure": "0 jobs are ready, workers have claimed 1",
        "do": "",
    }
    assert (
        told["now"]["workers"] == 1 and told["now"]["arrived_15"] == 3 and [r["id"] for r in told["running"]] == [job]
    )
    assert [e["ended_15"] for e in told["ended"] if e["queue"] is None and e["fn"] is None] == [2]
    for args, code, text in (
        (["x"], 64, "is not expected"),
        (["--interval", "1ms"], 64, "is out of range"),
        (["--queue", "nosuch"], 1, "does not exist"),
    ):
        fails(db.run(["deferred", "top", *args]), code, text)


def test_a_host_that_is_missed_while_others_come_is_told_by_top_too(db):
    starts(db, "a", "/run/d.pid", 300, 0)
    starts(db, "b", "/run/d.pid", 300, 25)
    lines = db.run(["deferred", "top"]).stdout.splitlines()
    assert lines[2] == "why: check_deferred on host b has stopped, while others still run", lines
    assert re.fullmatch(
        r"     pidfile /run/d.pid: it was seen 26min ago, and used to start every \S+, 275 times", lines[3]
    ), lines
    assert lines[4] == "do:  deferred doctor on that host; look at the crontab line or the unit, and its log", lines
    told = json.loads(db.run(["deferred", "top", "--json"]).stdout)["why"]
    assert (told["cause"], told["why"]) == ("absent", lines[2][5:])
    top = Terminal(db, 24, 100, "--interval", "100ms")
    for _ in range(3):
        top.frame("why: check_deferred on host b has stopped")  # also by what was asked for before
    top.key("q")
    assert top.end() == 0
    starts(db, "b", "/run/d.pid", 1, 0)
    assert db.run(["deferred", "top"]).stdout.splitlines()[2] == "why: nothing waits"


def test_top_on_a_terminal(db):
    job, _ = some_work(db)
    db.sql(
        "update deferred.__deferred_queue set paused = false; select deferred.defer('noop', '{}', "
        "json_build_object('queue', 'q' || i)) from generate_series(1, 40) i"
    )
    top = Terminal(db, 24, 80, "--interval", "100ms")
    lines = top.frame("late by: ", "by ended", f"{job} sleep")
    assert len(lines) <= 24 and max(map(len, lines)) <= 80 and lines[2].startswith("why: "), lines
    top.key("s")
    top.frame("by run time")
    top.size(10, 40)
    top.process.send_signal(signal.SIGWINCH)  # it is not the terminal's own session
    lines = top.frame("...")
    assert len(lines) <= 10 and max(map(len, lines)) <= 40
    top.key(" ")
    while top.read(0.3):
        top.text = ""
    top.key("s")
    top.key("s")
    top.frame("why")
    assert "by failures" not in top.frame("why")  # ten lines do not reach so far
    top.size(60, 200)
    top.process.send_signal(signal.SIGWINCH)
    assert sum(bool(re.match(r"q\d", line)) for line in top.frame("by failures")) >= 15
    assert not top.read(0.3), "it was stopped"
    db.sql("update deferred.__deferred_queue set paused = true")
    top.key("\x0c")
    top.frame("paused")
    top.key("q")
    assert top.end() == 0
    top = Terminal(db, 24, 80, "--interval", "1h")
    top.frame("why: ")
    top.process.send_signal(signal.SIGTERM)
    assert top.end() == 0
    top = Terminal(db, 24, 80, "--interval", "100ms")
    top.frame("why: ")
    db.sql(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'deferred' "
        "and datname = current_database()"
    )
    top.process.wait(20)
    while top.read(0.05):
        pass
    assert top.process.returncode == 69 and "\x1b[?1049ldeferred: " in top.text, top.text


def test_functions_by_processor_time(db):
    """Of two, one takes most of the time, the other one most of the processor."""
    jobs = [db.defer("sleep", '{"ms": 1}'), db.defer("noop")]
    assert db.run(["check_deferred", "--cnt", "2"]).returncode == 0
    db.sql(
        "update deferred.__deferred_log set run_us = 9000000, user_us = 1000, sys_us = 1000 where job_id = %s", jobs[0]
    )
    db.sql(
        "update deferred.__deferred_log set run_us = 3000, user_us = 2000000, sys_us = 500000 where job_id = %s",
        jobs[1],
    )
    top = Terminal(db, 24, 80, "--interval", "100ms")

    def functions(lines):
        return [line.split() for line in lines if re.match("(sleep|noop) ", line)]

    top.frame("by ended")
    top.key("s")
    assert [f[0] for f in functions(top.frame("by run time"))] == ["sleep", "noop"]
    top.key("s")
    shown = functions(top.frame("by CPU"))
    assert [f[0] for f in shown] == ["noop", "sleep"] and shown[0][-1] == "2.5s" and shown[1][-1] == "2.0ms", shown
    top.key("q")
    assert top.end() == 0
