"""A log that nobody reads: standard error is a pipe, and full."""

import contextlib
import os
import re
import signal
import time

from front import Front
from harness import ledger, wait_for


def fill(pipe):
    """As somebody would who shares it."""
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe, b"x" * 4095 + b"\n")
    os.set_blocking(pipe, True)


def test_a_full_pipe_for_a_log_holds_up_neither_jobs_nor_leases_nor_signals(recorded):
    db = recorded.db
    db.config('interval_floor = "20ms"\ninterval_ceiling = "50ms"\nlease = "3s"\n')
    reader, writer = os.pipe()
    fill(writer)
    run = db.spawn(["check_deferred", "--loop", "--runners", "2", "--log-level", "debug"], stderr=writer)
    loud = db.defer("chatter", timeout="1s", max_attempts=1)
    jobs = [loud, *recorded.defer(1, ms=3500), *recorded.defer(5)]  # one is longer than the lease
    wait_for(lambda: db.hot() == 0, 20, "all are done")
    assert sorted(db.log()) == [(job, 1, "timeout" if job == loud else "ok") for job in jobs]
    os.set_blocking(reader, False)
    said = b""

    def read():
        nonlocal said
        with contextlib.suppress(BlockingIOError):
            said += os.read(reader, 1 << 20)
        return b"lines of this log are missing here: nobody read it\n" in said

    wait_for(read, 20, "somebody reads again")
    assert f"job {loud} chatter: x\n".encode() in said, "what children print waits too"
    fill(writer)
    before = time.monotonic()
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0 and time.monotonic() - before < 3
    os.close(reader)
    os.close(writer)
    ledger(db)


def test_the_front_answers_while_nobody_reads_its_logs(db):
    """Its log and its access log are one full pipe: no request waits for it, nor does its end. What
    was kept is written when somebody reads again, and how much is missing is said."""
    front = Front(db, start=False)
    front.access_log = "-"
    front.write_config()
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    said = b""

    def read(text):
        nonlocal said
        with contextlib.suppress(BlockingIOError):
            said += os.read(reader, 1 << 20)
        return re.search(text, said)

    front.program = db.spawn(
        ["deferred_http", "--listen", "127.0.0.1:0", "--log-level", "debug"], stdout=writer, stderr=writer
    )
    front.port = int(wait_for(lambda: read(rb"listening on \S+:(\d+), HTTP\n"), 20, "it listens")[1])
    wait_for(front.ready, 20, "it is ready")
    fill(writer)
    path = "/" + "x" * 200
    with contextlib.closing(front.connect()) as c:
        for _ in range(700):
            c.send(f"GET {path} HTTP/1.1\r\nHost: x\r\nUser-Agent: {'y' * 200}\r\n\r\n".encode())
            assert c.answer().status == 400
    wait_for(lambda: read(rb'\{"lost":\d+\}\n'), 20, "somebody reads again")
    kept = said.count(b"yyy\"}")
    assert kept > 100 and kept + int(re.search(rb'"lost":(\d+)', said)[1]) == 700
    fill(writer)
    assert front.stop(5) == 0
    os.close(reader)
    os.close(writer)
