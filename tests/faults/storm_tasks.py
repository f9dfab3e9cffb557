"""A resident program for storm.py. It journals executions like the function record of the test plugin."""

import os
import time

import deferred


def append(job, file, what):
    """Add one line with one write, because several processes share the file."""
    line = f"{what} {job.id} {job.attempt} {os.getpid()} {int(time.monotonic() * 1000)}\n"
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


@deferred.function("record_python")
def record(params, job):
    append(job, params["file"], "start")
    time.sleep(params["ms"] / 1000)
    if job.id % 4 == 0 and job._host.saves:  # a released worker does not save steps
        assert job.step("half", lambda: job.id) == job.id, "the saved value is another one"
    append(job, params["file"], "end")
    if "fail" in params:
        raise ValueError("the params say so")


@deferred.function("record_many", batch=5, batch_wait="20ms")
def record_many(jobs):
    for job in jobs:
        append(job, job.params["file"], "start")
    time.sleep(max(job.params["ms"] for job in jobs) / 1000)
    for job in jobs:
        append(job, job.params["file"], "end")
