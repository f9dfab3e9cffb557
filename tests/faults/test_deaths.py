"""Workers that die where nobody starts them again: others notice, take their jobs, and say so."""

import json
import os
import re
import signal
import threading
import time

import pytest

from harness import ledger, read_record, wait_for

QUICK = 'interval_floor = "50ms"\ninterval_ceiling = "1min"\n'  # who did not notice would sleep for long


def service(db, name, *args):
    run = db.spawn(["check_deferred", "--loop", "--pidfile", f"{db.pidfile}.{name}", *args])
    wait_for(lambda: db.sql("select 1 from deferred.__deferred_worker where pid = %s", run.pid), 20, "it has registered")
    return run


def held_by(db, run):
    return db.sql("select 1 from deferred.__held h join deferred.__deferred_worker w on w.id = h.worker and w.pid = %s", run.pid)


@pytest.mark.slow
def test_a_killed_worker_is_noticed_within_two_seconds_and_one_that_lost_its_session_is_not_dead(db):
    db.config(QUICK)
    jobs = [db.defer("sleep", '{"ms": 12000}', max_attempts=n) for n in (1, 5)]  # the victim's next start knows of the first that it had begun
    other = db.defer("noop")
    db.hold(other, worker=999, receipt=7, lease="7 s")  # by one behind a pooler: nobody sees whether it lives
    ends = db.one("select expires_at from deferred.__deferred_lease")
    victim = service(db, "victim", "--runners", "2", "--listen")
    wait_for(lambda: len(held_by(db, victim)) == 2, 20, "it has both")
    heir = service(db, "heir", "--runners", "2", "--listen")
    # The session of one that lives is cut: it comes back, and keeps what it is at.
    cut = db.one("select pg_terminate_backend(l.pid) from pg_locks l join deferred.__deferred_worker w on w.watch = l.objid::int4 and l.classid = 1145390673 "
                 "and w.pid = %s where l.database = (select d.oid from pg_database d where d.datname = current_database())", victim.pid)
    assert cut
    wait_for(lambda: "connected again" in victim.output(), 20, "it is back")
    time.sleep(2.2)
    assert len(held_by(db, victim)) == 2 and "dead" not in heir.output()
    victim.kill()
    before = time.monotonic()
    shown = db.run(["deferred", "status"]).stdout
    assert "live workers: 1\n" in shown and f"pid {victim.pid}, {db.pidfile}.victim) is gone, and holds 2 jobs for up to " in shown, shown
    wait_for(lambda: "1 job of it came back" in heir.output(), 20, "the other one has noticed")
    assert time.monotonic() - before < 2.3
    dead = db.one("select id from deferred.__deferred_worker where pid = %s", victim.pid)
    said = heir.output()
    assert re.search(rf"worker {dead} \(\S+ pid {victim.pid}, {db.pidfile}.victim\) is dead, its session is gone: "
                     "1 job of it came back", said), said
    wait_for(lambda: held_by(db, heir), 5, "it has it")
    assert len(held_by(db, victim)) == 1 and db.log(jobs[0]) == []
    again = service(db, "victim", "--queue", "other")
    wait_for(lambda: db.log(jobs[0]) == [(1, "lost")] and f"job {jobs[0]} sleep attempt 1: lost; dead" in again.output(), 10)
    again.signal(signal.SIGTERM)
    assert again.wait(20) == 0
    wait_for(lambda: db.log(other) == [(1, "ok")], 10, "it is taken at the end of its lease")
    assert db.one("select extract(epoch from started_at - %s)::float8 from deferred.__deferred_log where job_id = %s", ends, other) < 1
    assert "worker 999 (not known) did not renew its lease: 1 job of it came back" in heir.output()
    heir.signal(signal.SIGTERM)
    assert heir.wait(20) == 0
    ledger(db)


def test_a_lock_that_could_not_be_taken_again_is_tried_for_again(db):
    """Who waits for it has it the moment the service gives all of its session back; then its row must say so, or others would take it for dead."""
    db.config(QUICK)
    run = service(db, "a", "--listen")
    waits = "select exists (select from pg_locks where classid = 1145390674)"
    wait_for(lambda: db.one(waits), 20, "it waits to be woken")
    number = db.one("select watch from deferred.__deferred_worker")
    db.sql("create function public.no() returns trigger language plpgsql as $$ begin raise 'not now'; end $$")
    db.sql("create trigger no before update of watch on deferred.__deferred_worker for each row execute function public.no()")
    with db.connect() as thief:
        cursor = thief.cursor()
        taken = threading.Thread(target=cursor.execute, args=("select pg_advisory_lock(1145390673, %s)", (number,)))
        taken.start()
        wait_for(lambda: db.one("select exists (select from pg_locks where not granted and classid = 1145390673)"), 10, "he waits")
        job = db.defer("noop")
        taken.join(20)
        wait_for(lambda: "not now" in run.output() and db.log(job) == [(1, "ok")] and db.one(waits), 20, "it has tried, and has nothing to do any more")
        tried = run.output().count("not now")
        wait_for(lambda: run.output().count("not now") > tried, 5, "it tries again")
        assert run.output().count("not now") < 6
        db.sql("drop trigger no on deferred.__deferred_worker")
        wait_for(lambda: db.one("select watch is null from deferred.__deferred_worker"), 5, "it has tried again")
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0


def test_a_job_with_one_attempt_that_had_not_begun_survives_the_death_of_its_worker(db):
    """Killed at any time, beside another service: what had begun is dead and no more, and nothing begins twice."""
    db.plugins("unruly")
    db.config(QUICK)
    file = db.dir + "/record"
    jobs = [db.defer("record", json.dumps({"file": file, "ms": 2}), max_attempts=1) for _ in range(1500)]
    other = service(db, "other", "--queue", "elsewhere")
    for kill in range(12):
        victim = service(db, "victim")
        count = len(read_record(file))
        wait_for(lambda: len(read_record(file)) > count + 20 + kill, 30, "it works")
        victim.kill()
    last = service(db, "victim")
    wait_for(lambda: db.hot() == 0, 120, "all have ended")
    begun = [line[1] for line in read_record(file) if line[0] == "start"]
    lost = {job for job in jobs if db.log(job) == [(1, "lost")]}
    print(f"{len(lost)} of {len(jobs)} lost in 12 kills, {len(lost - set(begun))} of which had not begun")
    assert len(begun) == len(set(begun))
    assert lost <= set(begun)
    assert {job for job, _, outcome in db.log() if outcome == "ok"} == set(jobs) - lost
    for run in last, other:
        run.signal(signal.SIGTERM)
        assert run.wait(20) == 0
    assert not os.path.exists(db.pidfile + ".victim.begun")
    ledger(db)
