"""A plugin with which runners die while they load it, for a while."""

import os
import signal

import pytest

import pg
from harness import ledger, wait_for

SETTINGS = 'interval_floor = "20ms"\ninterval_ceiling = "50ms"\n'


def service(db, *args):
    db.plugins("unsteady")
    db.config(SETTINGS)
    return db.spawn(["check_deferred", "--loop", *args], env={"HOME": db.dir})


def dies(db, name):
    path = os.path.join(db.dir, name)
    with open(path, "w"):
        return path


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_it_is_loaded_again_and_its_jobs_are_run(db, isolate):
    dies(db, "once")
    run = service(db, "--runners", "2", f"--isolate={isolate}")
    job, other = db.defer("steady"), db.defer("noop")
    [db.defer("sleep", '{"ms": 400}') for _ in range(6)]  # for both runners
    wait_for(
        lambda: "'unsteady.so' not loaded: its runner died while loading it; trying again in 1 s" in run.output(), 20
    )
    wait_for(lambda: db.log(other) == [(1, "ok")], 20, "the rest is served meanwhile")
    wait_for(lambda: db.log(job) == [(1, "ok")], 30, "and so is this one, by itself")
    [db.defer("sleep", '{"ms": 400}') for _ in range(2)]
    later = [db.defer("steady") for _ in range(20)]
    wait_for(lambda: all(db.log(j) == [(1, "ok")] for j in later), 20, "all runners have it")
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0, run.output()
    ledger(db)


def test_nobody_is_told_to_install_it_meanwhile(db):
    run = service(db, "--runners", "1")
    before = db.defer("steady")
    wait_for(lambda: db.log(before) == [(1, "ok")], 20)
    always = dies(db, "always")
    for pid in pg.children_of(run.pid):
        os.kill(pid, signal.SIGKILL)
    other = db.defer("noop")
    wait_for(lambda: "trying again in 2 s" in run.output(), 30, "it died again")
    wait_for(lambda: db.log(other) == [(1, "ok")], 20)
    job = db.defer("steady")

    def why():
        return db.run(["deferred", "why", job]).stdout

    said = wait_for(lambda: "refused" in (text := why()) and text, 20, "its workers say why they do not take it")
    assert "plugin 'unsteady.so' is not loaded, for a runner died while loading it" in said and "install" not in said
    os.unlink(always)
    wait_for(lambda: db.log(job) == [(1, "ok")], 60, "it is run once the plugin loads")
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0, run.output()
    ledger(db)


def test_a_run_that_ends_before_it_is_loaded_reports_no_fault(db):
    begun = dies(db, "begun")
    run = service(db, "--runners", "1")
    job = db.defer("steady")
    wait_for(lambda: os.path.getsize(begun) == 1, 20, "a runner loads it")
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0, run.output()
    assert "not loaded" not in run.output()
    assert db.log(job) == []
