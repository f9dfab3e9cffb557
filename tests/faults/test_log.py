"""A log that nobody reads: standard error is a pipe, and full."""

import contextlib
import os
import signal
import time

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
