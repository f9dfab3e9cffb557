"""Clocks that are set while jobs run, the server's and the worker's: row D15 of the fault matrix."""

import contextlib
import datetime
import os
import re
import struct
import time

import pytest

import harness
from harness import BUILD, SAN, ledger, wait_for

HOUR = 3600
QUICK = 'interval_floor = "50ms"\ninterval_ceiling = "100ms"\nbackoff_floor = "1ms"\nbackoff_ceiling = "1ms"\n'


class Clock:
    """The clock of what is started with env; a jump is felt at once."""

    def __init__(self, name):
        path = os.path.join(harness.root(), f"clock{os.getpid()}-{name}")
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self.set(0)
        self.env = {"LD_PRELOAD": os.path.join(BUILD, "tests", "harness", "clock_shift.so"), "CLOCK_SHIFT": path}

    def set(self, seconds):
        os.pwrite(self.fd, struct.pack("q", seconds), 0)

    def close(self):
        os.close(self.fd)


@pytest.fixture
def clocked():
    """A server, and its clock."""
    clock = Clock("server")
    db = harness.OwnServer(server_env=clock.env)
    yield db, clock
    db.close()
    clock.close()


def service(db, name, *args, env=None):
    run = db.spawn(["check_deferred", "--loop", "--pidfile", f"{db.dir}/{name}", *args], env=env)
    wait_for(
        lambda: not run.alive() or db.sql("select 1 from deferred.__deferred_worker where pid = %s", run.pid),
        20,
        "it has registered",
    )
    assert run.alive(), run.output()
    return run


def stop(run):
    run.signal(15)
    assert run.wait(30) == 0, run.output()


def one_success_each(db, jobs):
    """Whatever was run twice."""
    assert (
        db.sql(
            """select count(*), count(distinct job_id) from deferred.__deferred_log
                     where outcome = 'ok' and job_id = any(%s)""",
            jobs,
        )
        == [(len(jobs), len(jobs))]
    )
    assert db.hot() == 0
    ledger(db)


def told_at(run):
    """The time of its last line."""
    at = re.findall(r"(?m)^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z check_deferred", run.output())[-1]
    return datetime.datetime.fromisoformat(at + "+00:00").timestamp()


def server_ahead(db):
    return db.one("select extract(epoch from clock_timestamp())::float8") - time.time()


@pytest.mark.slow
def test_d15_a_server_set_forward_has_a_running_job_run_again_and_accepts_one_of_the_two(clocked, recorded_on):
    db, clock = clocked
    recorded = recorded_on(db)
    db.config(QUICK)
    (job,) = recorded.defer(1, ms=6000)
    first = service(db, "first")
    wait_for(lambda: recorded.starts(job))
    clock.set(HOUR)
    assert abs(server_ahead(db) - HOUR) < 60
    second = service(db, "second")
    wait_for(lambda: len(recorded.starts(job)) == 2, 20, "its lease is over by the clock that counts")
    wait_for(lambda: db.hot() == 0, 30)
    stop(first)
    stop(second)
    assert db.log(job) == [(1, "ok")]
    assert "taken by another worker; stopped here" in first.output() or "refused: the lease had ended" in first.output()
    one_success_each(db, [job])


def test_d15_a_server_set_back_goes_on_with_what_is_ready_and_loses_none(clocked, recorded_on):
    db, clock = clocked
    recorded = recorded_on(db)
    db.config(QUICK)
    (running,) = recorded.defer(1, ms=1500)
    run = service(db, "first")
    wait_for(lambda: recorded.starts(running))
    waiting = recorded.defer(20)
    clock.set(-HOUR)
    later = recorded.defer(20)
    wait_for(lambda: db.hot() == 0, 20, "what was running is recorded, and what was ready is done, by whatever clock")
    clock.set(0)
    stop(run)
    one_success_each(db, [running, *waiting, *later])
    assert len(recorded.starts()) == 41


def jumps(db, clock, recorded, rng, jobs, n):
    """Two services under a server whose clock is set to and fro."""
    db.config(QUICK)
    ids = recorded.defer(jobs, ms=10)
    runs = [service(db, name, "--runners", "2", "--batch", "10") for name in ("first", "second")]
    for _ in range(n):
        seen = len(recorded.lines())
        clock.set(rng.choice([-HOUR, 0, HOUR, 2 * HOUR]))
        ids += recorded.defer(10, ms=10)
        wait_for(lambda: len(recorded.lines()) >= seen + rng.randrange(5, 20), 30)
    clock.set(4 * HOUR)  # so that all is due
    wait_for(lambda: db.hot() == 0, 60)
    for run in runs:
        stop(run)
    one_success_each(db, ids)
    print(f"{len(recorded.starts()) - len(ids)} extra runs of {len(ids)} jobs, {n} jumps")


@pytest.mark.long
def test_d15_a_server_whose_clock_jumps_again_and_again_accepts_one_result_each(clocked, recorded_on, rng):
    db, clock = clocked
    jumps(db, clock, recorded_on(db), rng, 100, 8)


@pytest.mark.long
def test_d15_a_hundred_jumps(clocked, recorded_on, rng):
    db, clock = clocked
    jumps(db, clock, recorded_on(db), rng, 200, 100)


@pytest.mark.parametrize("hours", [1, -1], ids=["forward", "back"])
def test_d15_a_worker_whose_clock_is_set_goes_on_as_if_nothing_were(recorded, hours):
    """Leases are the server's, and what a worker measures it measures by a clock that is not set."""
    db, clock = recorded.db, Clock("worker")
    if SAN:
        clock.env["ASAN_OPTIONS"] = db.env["ASAN_OPTIONS"] + ":verify_asan_link_order=0"
    with contextlib.closing(clock):
        db.config(QUICK)
        began = db.one("select clock_timestamp()")
        run = service(db, "set", "--lease", "3s", "--runners", "3", env=clock.env)
        long, limited = recorded.defer(1, ms=4000)[0], recorded.defer(1, ms=1500, timeout="3s", queue="limited")[0]
        wait_for(lambda: len(recorded.starts()) == 2)
        clock.set(hours * HOUR)
        other = service(db, "not-set", "--lease", "3s")
        jobs = recorded.defer(100, ms=5)
        wait_for(lambda: db.hot() == 0, 30)
        stop(run)
        stop(other)
        ids = [long, limited, *jobs]
        assert len(recorded.starts()) == len(ids), "no job was run again"
        recorded.assert_all_ok(ids)
        # Times in the database are the server's.
        assert db.one(
            "select bool_and(started_at between %s and clock_timestamp() and finished_at between started_at "
            "and clock_timestamp()) "
            "from deferred.__deferred_log",
            began,
        )
        assert "leases" not in run.output()
        assert abs(told_at(run) - time.time() - hours * HOUR) < 60, "it lives by the clock that was set"
