"""deferred wait and deferred.result(): the end of a job, for any language."""

import json
import signal

import pytest

from harness import wait_for
from test_deferred import end, fails, login, ok

NOT_DONE, FAILED, TIMEOUT, USAGE, LOST = 1, 4, 5, 64, 69


def wait(db, *args, **kw):
    return db.run(["deferred", "wait", *map(str, args)], **kw)


def test_wait_prints_the_result_of_a_job_that_is_done(db):
    done, nothing = db.defer("echo", '{"a": 1}'), db.defer("noop")
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert ok(wait(db, done)) == '{"a": 1}\n' and ok(wait(db, nothing)) == ""
    told = json.loads(ok(wait(db, done, "--json")))
    assert {**told, "finished_at": None} == {
        "id": done, "state": "done", "result": '{"a": 1}', "outcome": "ok", "finished_at": None
    }  # fmt: skip


def test_wait_ends_when_the_job_does(db):
    job = db.defer("echo", "[1]")
    waiting = db.spawn(["deferred", "wait", str(job)])
    wait_for(
        lambda: db.one(
            "select count(*) from pg_stat_activity where application_name = 'deferred' and datname = current_database()"
        )
        == 1
    )
    assert waiting.alive()
    assert db.run(["check_deferred"]).returncode == 0
    assert waiting.wait(20) == 0


@pytest.mark.parametrize(
    "outcome, state", [("failed", "dead"), ("cancelled", "cancelled"), ("expired", "expired"), ("lost", "dead")]
)
def test_wait_tells_a_job_that_failed(db, outcome, state):
    job = db.defer("noop")
    end(db, job, outcome)
    told = wait(db, job)
    assert (told.returncode, told.stdout) == (FAILED, "")
    assert told.stderr == f"deferred: job {job} is {state} ({outcome})\nhint: look at it with deferred show {job}\n"
    assert json.loads(wait(db, job, "--json").stdout)["state"] == state


def test_wait_gives_up_after_its_time(db):
    job = db.defer("noop", delay="1h")
    for span in ("0", "100ms"):
        told = wait(db, job, "--timeout", span)
        assert (told.returncode, told.stdout) == (TIMEOUT, "")
        assert f"job {job} has not ended within {span} (it is delayed)\nhint: " in told.stderr
    assert json.loads(wait(db, job, "--timeout", "0", "--json").stdout)["state"] == "delayed"
    told = wait(db, 99)
    assert told.returncode == NOT_DONE and "job 99 does not exist" in told.stderr
    fails(wait(db, job, "--timeout", "5"), USAGE, "option '--timeout': value '5' has no unit")
    fails(wait(db), USAGE, "argument ID is missing")
    fails(wait(db, "x"), USAGE, "job id")


def test_wait_tells_a_job_whose_attempts_were_purged(db):
    job = db.defer("noop")
    db.sql("delete from deferred.__deferred_hot")
    told = wait(db, job)
    assert told.returncode == FAILED and "its attempts were purged" in told.stderr


def test_a_signal_ends_the_wait_and_not_the_job(db):
    job = db.defer("noop")
    waiting = db.spawn(["deferred", "wait", str(job)])
    wait_for(
        lambda: db.one(
            "select count(*) from pg_stat_activity where application_name = 'deferred' and datname = current_database()"
        )
        == 1
    )
    waiting.signal(signal.SIGTERM)
    assert waiting.wait(20) == -signal.SIGTERM
    assert db.one("select state from deferred.job") == "ready"


def test_wait_connects_again_where_the_server_was_lost(own_server):
    db = own_server
    job = db.defer("echo", "[1]")
    look = "select count(*) from pg_stat_activity where application_name = 'deferred' and datname = current_database()"
    with db.connect() as other, other.cursor() as cursor:
        cursor.execute("lock table deferred.__deferred in access exclusive mode")
        waiting = db.spawn(["deferred", "wait", str(job)])
        wait_for(lambda: db.one(look + " and wait_event_type = 'Lock'") == 1, what="its first look")
    db.sql(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'deferred' "
        "and datname = current_database()"
    )
    wait_for(lambda: db.one(look) == 1)
    db.stop()
    db.start()
    wait_for(lambda: db.one(look) == 1)
    assert waiting.alive()
    assert db.run(["check_deferred"]).returncode == 0
    assert waiting.wait(30) == 0


def test_wait_ends_where_the_server_stays_away(own_server):
    db = own_server
    job = db.defer("noop")
    waiting = db.spawn(["deferred", "wait", str(job), "--timeout", "3s"])
    wait_for(
        lambda: db.one(
            "select count(*) from pg_stat_activity where application_name = 'deferred' and datname = current_database()"
        )
        == 1
    )
    db.stop()
    assert waiting.wait(60) == LOST
    db.start()


# ---- deferred.result()


def test_the_result_of_a_job_is_known_once_it_has_ended(db):
    assert db.sql("select * from deferred.result(1)") == [(None, None, None, None)]
    job = db.defer("echo", "[1]")
    assert db.sql("select state, result, outcome, finished_at from deferred.result(%s)", job) == [
        ("ready", None, None, None)
    ]
    assert db.run(["check_deferred"]).returncode == 0
    state, result, outcome, at = db.sql("select * from deferred.result(%s)", job)[0]
    assert (state, result, outcome) == ("done", "[1]", "ok") and at is not None
    gone = db.defer("echo")
    db.sql("select deferred.cancel(%s)", gone)
    assert db.sql("select state, result, outcome from deferred.result(%s)", gone) == [("cancelled", None, "cancelled")]


def test_a_role_learns_nothing_of_the_jobs_of_another(db):
    job = db.defer("noop")
    name, own = login(db, "deferred_producer")
    try:
        told = wait(db, job, "--timeout", "0", env=own)
        assert told.returncode == NOT_DONE and f"job {job} does not exist" in told.stderr
        mine = ok(db.run(["deferred", "add", "noop"], env=own)).strip()
        assert wait(db, mine, "--timeout", "0", env=own).returncode == TIMEOUT
    finally:
        db.sql(f"drop role {name}")
