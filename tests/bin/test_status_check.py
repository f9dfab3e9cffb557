"""deferred status --check: one line and an exit code, by the causes of `deferred why` and the alerts."""

import json

from harness import wait_for
from test_service import service, stop

HEALTHY, LOOK, ACT = 0, 1, 2


def check(db, *args):
    """Exit code and line; nothing else is printed."""
    run = db.run(["deferred", "status", "--check", *args])
    assert run.stderr == "" and run.stdout.count("\n") == 1, run.stdout + run.stderr
    return run.returncode, run.stdout.strip()


def alert(db, cause, name, text):
    db.sql(
        "insert into deferred.__deferred_alert (cause, name, text, remedy) values (%s, %s, %s, 'look')",
        cause,
        name,
        text,
    )


def test_nothing_to_do_is_healthy(db):
    assert check(db) == (HEALTHY, "healthy: nothing waits")
    db.defer("noop", delay="1h")
    code, line = check(db)
    assert code == HEALTHY and line.startswith("healthy: ")


def test_a_paused_queue_is_to_be_looked_at(db):
    db.defer("noop", queue="mail")
    db.defer("noop", queue="other", delay="1h")
    db.run(["deferred", "queue", "pause", "mail"])
    code, line = check(db)
    assert code == LOOK and line.startswith("look: ") and "mail" in line
    assert check(db, "--queue", "mail") == (code, line)
    assert check(db, "--queue", "other")[0] == HEALTHY


def test_jobs_that_nobody_comes_for_call_for_action(db):
    db.defer("noop", queue="mail")
    db.sql("update deferred.__deferred_hot set visible_at = now() - interval '1 day'")
    code, line = check(db)
    assert code == ACT and line.startswith("act: ")
    assert check(db, "--queue", "default")[0] == HEALTHY
    run = db.run(["deferred", "status", "--check", "--json"])
    told = json.loads(run.stdout)
    assert run.returncode == ACT and told["level"] == "act" and line == "act: " + told["why"]
    assert list(told) == ["level", "cause", "why", "figure", "do"]


def test_the_worst_cause_decides_wherever_it_stands(db):
    """A pause comes before a function that no worker has."""
    db.defer("noop", queue="mail")
    db.run(["deferred", "queue", "pause", "mail"])
    started = service(db)
    db.defer("nosuch", queue="other")
    wait_for(lambda: check(db)[0] == ACT, 30, "the worker has set the job aside")
    assert "nosuch" in check(db)[1]
    assert check(db, "--queue", "mail")[0] == LOOK
    stop(started)


def test_an_alert_is_to_be_looked_at(db):
    alert(db, "dead", "send", "3 jobs of send died\nin an hour")
    alert(db, "late", "mail", "queue mail is late")
    db.sql("insert into deferred.__deferred_queue (name) values ('mail')")
    assert check(db) == (LOOK, "look: 3 jobs of send died\\nin an hour")
    assert check(db, "--queue", "mail") == (LOOK, "look: queue mail is late")
    assert check(db, "--queue", "default")[0] == HEALTHY
    db.sql("update deferred.__deferred_alert set ended_at = now()")
    assert check(db)[0] == HEALTHY


def test_a_server_that_is_away_calls_for_action(db):
    run = db.run(["deferred", "status", "--check", "--db", "host=/nowhere"])
    assert (run.returncode, run.stdout) == (ACT, "act: the database cannot be reached\n")
    assert "/nowhere" in run.stderr


def test_wrong_usage_has_the_usual_code(db):
    run = db.run(["deferred", "status", "--queue", "mail"])
    assert run.returncode == 64 and "option '--queue' needs option '--check'" in run.stderr


def test_a_queue_that_does_not_exist_is_no_state(db):
    run = db.run(["deferred", "status", "--check", "--queue", "nosuch"])
    assert (run.returncode, run.stdout) == (65, "") and "queue 'nosuch' does not exist" in run.stderr
