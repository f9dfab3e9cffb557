"""What nobody answers: the log says what it waits for, and the server's last word is told."""

import json
import re
import signal

import pytest

from harness import ledger, read_record, wait_for

UNAVAILABLE = 69
CONFIG = 'interval_floor = "50ms"\ninterval_ceiling = "100ms"\ndatabase { answer_timeout = "200ms" }\n'


def told(run, text):
    wait_for(lambda: re.search(text, run.output()), 20, text + " is told")


def stop(run):
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0, run.output()


def test_who_holds_what_is_to_be_recorded_and_why_a_session_ended(db):
    db.config(CONFIG)
    run = db.spawn(["check_deferred", "--loop"])
    pid = wait_for(
        lambda: db.sql(
            "select pid from pg_stat_activity where application_name = 'check_deferred' "
            "and datname = current_database()"
        )
    )[0][0]
    noop = db.defer("noop")
    wait_for(lambda: db.log(noop))
    db.sql("select pg_terminate_backend(%s)", pid)
    told(run, r"warning: connection lost: terminating connection due to administrator command; trying again\n")
    job = db.defer("sleep", '{"ms": 300}')
    wait_for(lambda: db.held(job))
    holder = db.connect(application_name="editor")
    cursor = holder.cursor()
    cursor.execute("select 1 from deferred.__deferred_hot where id = %s for update", (job,))
    told(
        run,
        rf"its result \(ok\) waits to be recorded: another transaction holds a lock \(canceling statement due to lock "
        rf"timeout\): held by session {holder.info.backend_pid} of "
        r"\w+ \(editor\), idle in transaction for \d+ s\n",
    )
    holder.close()
    wait_for(lambda: db.log(job) == [(1, "ok")])
    stop(run)
    ledger(db)


@pytest.mark.slow
def test_a_standby_that_is_away_is_named_and_waited_for_no_longer_than_asked(own_server):
    db = own_server
    db.config(CONFIG)
    run = db.spawn(["check_deferred", "--loop"])
    job = db.defer("sleep", '{"ms": 500}')
    wait_for(lambda: db.held(job) and db.one("select count(*) from deferred.__deferred_offer"))
    db.sql("alter system set synchronous_standby_names = 'nobody'")
    db.sql("select pg_reload_conf()")
    wait_for(lambda: db.one("show synchronous_standby_names") == "nobody")
    # As the last word of libpq and of a transaction of our own.
    runs = [db.spawn(["deferred", "add", "noop"]), db.spawn(["deferred", "add", "noop", "--lock-timeout", "5s"])]
    for add in runs:
        assert add.wait(20) == UNAVAILABLE
        assert (
            "stored on one server only, outcome unknown: no synchronous standby has confirmed it for 200 ms"
            in add.output()
        )
    shown = db.run(["deferred", "status", "--json"])
    assert shown.returncode == 0 and json.loads(shown.stdout), shown
    told(
        run,
        r"warning: the server has not answered for [2-5] s: it waits for a synchronous standby to confirm a commit, "
        r"and none of 'nobody' does\n",
    )
    db.sql("alter system reset synchronous_standby_names")
    db.sql("select pg_reload_conf()")
    wait_for(lambda: db.hot() == 0)
    stop(run)
    ledger(db)


def test_what_could_not_be_recorded_is_not_begun(db):
    """A table is locked for longer than three leases. The attempts under way are lost and run again, and no others."""
    db.plugins("unruly")
    db.config(CONFIG)
    file = db.dir + "/record"
    jobs = [db.defer("record", json.dumps({"file": file, "ms": 2})) for _ in range(2000)]
    run = db.spawn(["check_deferred", "--loop", "--lease", "3s"])
    wait_for(lambda: len(db.log()) > 50)
    holder = db.connect()
    holder.cursor().execute("lock table deferred.__deferred_log in share mode")
    db.sql("select pg_sleep(12)")
    holder.close()
    wait_for(lambda: db.hot() == 0, 120)
    stop(run)
    starts = [line[1] for line in read_record(file) if line[0] == "start"]
    assert set(starts) == set(jobs)
    print(f"{len(starts) - len(jobs)} attempts more than jobs")
    assert len(starts) - len(jobs) <= 45
    ledger(db)
