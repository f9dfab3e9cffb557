"""Plugins that are written over, cut off or removed while they are loaded."""

import os
import shutil
import signal

import pytest

import harness
from harness import ledger, wait_for


def done(db, fn, n=3):
    """So many calls of the function, one after the other, with their outcomes."""
    jobs = [db.defer(fn, max_attempts=1) for _ in range(n)]
    wait_for(lambda: all(db.log(job) for job in jobs), 20)
    return [outcome for job in jobs for _, outcome in db.log(job)]


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_a_plugin_changed_in_place_harms_nothing_and_counts_from_the_next_start_on(db, isolate):
    plugin = os.path.join(db.plugins("unruly"), "unruly.so")
    db.config('interval_floor = "20ms"\ninterval_ceiling = "50ms"\n')
    run = db.spawn(["check_deferred", "--loop", f"--isolate={isolate}"])
    assert done(db, "count_fds") == ["ok"] * 3
    known = db.sql("select distinct plugin from deferred.__deferred_log")

    os.truncate(plugin, 0)
    assert done(db, "count_fds") == ["ok"] * 3
    wait_for(
        lambda: done(db, "print", 1) == ["ok"] and "warning: plugin 'unruly.so' has changed: runner" in run.output(), 10
    )
    assert db.sql("select distinct plugin from deferred.__deferred_log") == known

    run.signal(signal.SIGHUP)
    wait_for(
        lambda: done(db, "noop", 1) == ["ok"] and "plugin 'unruly.so' not loaded: cannot be loaded" in run.output(), 10
    )
    shutil.copy(os.path.join(harness.BUILD, "tests", "plugins", "unruly.so"), plugin)
    run.signal(signal.SIGHUP)
    wait_for(lambda: run.output().count("settings reloaded") == 2)
    assert done(db, "count_fds") == ["ok"] * 3
    assert done(db, "segv", 1) == ["crashed"]
    (error,) = db.sql("select error from deferred.__deferred_log where outcome = 'crashed'")[0]
    assert "\nunruly.so" in error and "memfd" not in error and "deleted" not in error
    assert done(db, "count_fds", 1) == ["ok"], "a fresh runner has it"
    os.unlink(plugin)
    wait_for(
        lambda: done(db, "print", 1) == ["ok"] and "warning: plugin 'unruly.so' is gone: runner" in run.output(), 10
    )
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0
    ledger(db)
