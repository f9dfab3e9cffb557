"""Events: the command, real workers, and what a function gets of them."""

import json

import pytest

from harness import wait_for
from test_parents import SEE, parents, result, run

OK, USAGE = 0, 64


def deferred(db, *args, **more):
    done = db.run(["deferred", *args], **more)
    assert done.returncode == OK, done.stderr
    return done.stdout


def test_an_event_from_the_command_line_reaches_the_function(db, ledger):
    db.plugins("running")
    db.config(SEE)
    job = int(deferred(db, "add", "see", "--wait-for", "paid:1", "--within", "3d", "--on-timeout", "fail"))
    plugin = db.defer("parents", wait_for={"event": "paid:1", "as": "payment"})
    one = db.defer("parents", json.dumps({"of": "payment"}), wait_for={"event": "paid:1", "as": "payment"})
    run(db)
    assert db.hot() == 3
    (shown,) = [line for line in deferred(db, "show", str(job)).splitlines() if line.startswith("waits for")]
    assert shown.startswith("waits for   event 'paid:1', not sent, until 20") and shown.endswith(", then fail")
    why = deferred(db, "why", str(job))
    assert f"job {job} waits for an event\n" in why and "event 'paid:1' (until 20" in why and ", then fail)" in why
    seen = json.loads(deferred(db, "show", "--json", str(job)))
    assert seen["parents"] is None
    ((event,)) = seen["events"]
    assert (event["event"], event["on_timeout"], event["sent_at"], event["timed_out"]) == ("paid:1", "fail", None, None)
    assert deferred(db, "event", "ls").splitlines()[1].split()[:3:2] == ["paid:1", "3"]
    assert json.loads(deferred(db, "--json", "event", "send", "paid:1", "-", input='{"amount": 12}\n')) == {
        "sent": True
    }
    run(db)
    told = {"event": "paid:1", "outcome": "ok", "result": '{"amount": 12}'}
    assert parents(db, job) == {"paid:1": told} and parents(db, plugin) == {"payment": told}
    assert result(db, one) == '0 ok {"amount": 12}'
    assert "event 'paid:1', sent 20" in deferred(db, "show", str(job))
    assert "event 'paid:1' as payment, sent 20" in deferred(db, "show", str(plugin))
    (kept,) = json.loads(deferred(db, "event", "ls", "--json"))
    assert (kept["event"], kept["jobs"]) == ("paid:1", 0) and kept["kept_until"]
    (action,) = db.sql("select verb, settings->>'event', who from deferred.__deferred_action")
    assert action[:2] == ("send", "paid:1") and action[2].endswith(": deferred event send")
    ledger(db)


def test_wrong_use_is_explained(db):
    for args, says in (
        (["event"], "send"),
        (["event", "send"], "NAME"),
        (["event", "send", "e", "{"], "payload"),
        (["event", "send", "e", "--keep", "soon"], "--keep"),
        (["event", "ls", "--limit", "0"], "--limit"),
        (["add", "noop", "--within", "1h"], "--wait-for"),
        (["add", "noop", "--wait-for", "e", "--within", "soon"], "--within"),
        (["add", "noop", "--wait-for", "e", "--within", "1h", "--on-timeout", "retry"], "use cancel, fail or run"),
    ):
        done = db.run(["deferred", *args])
        assert done.returncode in (USAGE, 65) and says in done.stderr and not done.stdout, (args, done.stderr)
    done = db.run(["deferred", "event", "send", "e", "--role", "pg_monitor"])
    assert done.returncode == OK, "an administrator is a member of each role"
    done = db.run(["deferred", "event", "send", "e" * 201])
    assert done.returncode != OK and "a name has 1 to 200 characters" in done.stderr
    done = db.run(["deferred", "add", "noop", "--wait-for", "e" * 201])
    assert done.returncode != OK and "option 'wait_for' has the invalid value" in done.stderr
    assert db.hot() == 0


@pytest.mark.parametrize("mode", [["--loop"], ["--loop", "--listen"]])
def test_a_service_that_sleeps_learns_of_events_and_of_time_limits(db, ledger, mode):
    job = db.defer("noop", wait_for="e")
    soon = db.defer("noop", wait_for={"event": "f", "within": "2s", "on_timeout": "run"})
    worker = db.spawn(["check_deferred", *mode, "--interval-floor", "1min", "--interval-ceiling", "1min"])
    wait_for(lambda: db.log(soon) == [(1, "ok")], 20, "the time is up")
    if "--listen" in mode:
        # It sleeps, and the event wakes it.
        wait_for(lambda: not db.one("select deferred.__nobody_waits()"), 20)
        db.sql("select deferred.send_event('e')")
        wait_for(lambda: db.log(job) == [(1, "ok")], 20, "the event wakes it")
    assert worker.alive()
    worker.kill()
    ledger(db)


def test_a_start_by_cron_finds_what_the_time_limit_decides(db, ledger):
    jobs = [db.defer("noop", wait_for={"event": "e", "within": "1h", "on_timeout": o}) for o in ("run", "cancel")]
    run(db)
    assert db.hot() == 2
    db.sql("vacuum deferred.__deferred_ended")
    db.sql("update deferred.__deferred_awaited set until = clock_timestamp()")
    run(db)
    assert [db.log(job) for job in jobs] == [[(1, "ok")], [(0, "cancelled")]]
    ledger(db)


def test_a_message_that_is_finished_counts_as_ended_well(db):
    message = db.one("""select deferred.defer(null, '{}', '{"queue": "q"}')""")
    job = int(deferred(db, "add", "noop", "--after", str(message)))
    db.sql("select deferred.finish(id, receipt) from deferred.claim('q')")
    run(db)
    assert db.log(job) == [(1, "ok")]
