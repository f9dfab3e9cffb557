"""What operators do by commands is written down, as what they do on pages is: by whom, what, to
what; not what an application does to its own jobs."""

import json
import os
import pwd

from test_deferred import login

ME = pwd.getpwuid(os.getuid()).pw_name


def noted(db):
    rows = db.sql(
        "delete from deferred.__deferred_action returning id, who, verb, job_id, queue, fn, schedule, flow, settings, "
        "filter, jobs, refused"
    )
    return [row[1:] for row in sorted(rows)]


def row(
    command,
    verb,
    job=None,
    queue=None,
    fn=None,
    schedule=None,
    flow=None,
    settings=None,
    filter=None,
    jobs=None,
    refused=None,
):
    return (f"{ME}: deferred {command}", verb, job, queue, fn, schedule, flow, settings, filter, jobs, refused)


def do(db, *args, code=0, env=None):
    done = db.run(["deferred", *args], env=env)
    assert done.returncode == code, done
    return done.stdout


def test_each_command_that_changes_something_is_written_down_once_it_is_done(db):
    a, b = db.defer("noop"), db.defer("noop", delay="1h")
    do(db, "cancel", str(a))
    do(db, "retry", str(a), str(b))
    assert noted(db) == [row("cancel", "cancel", job=a), row("retry", "retry", job=a), row("retry", "retry", job=b)]
    assert db.sql("select state, count(*) from deferred.job group by 1") == [("ready", 2)]
    do(db, "queue", "set", "mail", "--create", "--weight", "2")
    do(db, "queue", "pause", "mail", "default")
    do(db, "queue", "resume", "mail")
    assert noted(db) == [
        row("queue set", "set", queue="mail", settings={"weight": "2"}),
        row("queue pause", "pause", queue="mail"),
        row("queue pause", "pause", queue="default"),
        row("queue resume", "resume", queue="mail"),
    ]
    do(db, "queue", "clear", "default", "--yes")
    do(db, "queue", "clear", "default", "--yes")  # there is nothing in it
    do(db, "queue", "rm", "mail")
    assert noted(db) == [row("queue clear", "clear", queue="default", jobs=2), row("queue rm", "remove", queue="mail")]
    do(db, "function", "set", "noop", "--max-running", "3")
    db.sql("update deferred.__deferred_function set broken_at = now(), own_max_running = 3, max_running = 1")
    do(db, "function", "resume", "noop")
    do(db, "function", "rm", "noop")
    assert noted(db) == [
        row("function set", "set", fn="noop", settings={"max_running": "3"}),
        row("function resume", "resume", fn="noop"),
        row(
            "function set",
            "set",
            fn="noop",
            settings={"max_running": None, "rate": None, "burst": None, "on_dead": None},
        ),
    ]
    db.sql("select deferred.schedule('nightly', '0 3 * * *', 'noop')")
    for verb in ("pause", "resume", "run", "rm"):
        do(db, "schedule", verb, "nightly")
    assert noted(db) == [
        row(f"schedule {verb}", "remove" if verb == "rm" else verb, schedule="nightly")
        for verb in ("pause", "resume", "run", "rm")
    ]
    flow = db.one("select deferred.defer_flow('{\"jobs\": [{\"fn\": \"noop\"}, {\"fn\": \"noop\"}]}')")
    do(db, "flow", "cancel", str(flow))
    do(db, "flow", "retry", str(flow))
    assert noted(db) == [row("flow cancel", "cancel", flow=flow, jobs=2), row("flow retry", "retry", flow=flow)]
    assert db.sql("select * from deferred.check_ledger()") == []


def test_of_many_jobs_each_step_is_a_row_and_what_is_only_counted_none(db):
    db.sql(
        "select deferred.defer_many((select json_agg(json_build_object('fn', 'noop', 'key', 'k' || i)) "
        "from generate_series(1, 1200) i))"
    )
    do(db, "cancel", "--fn", "noop", "--dry-run")
    assert noted(db) == []
    do(db, "cancel", "--fn", "noop")
    assert [(r[0], r[1], r[8], r[9]) for r in noted(db)] == [
        (f"{ME}: deferred cancel", "cancel", {"fn": "noop"}, n) for n in (1000, 200)
    ]
    again = db.defer("noop", key="k7")
    do(db, "retry", "--state", "cancelled", "--fn", "noop", code=1)
    rows = noted(db)
    assert (
        sum(r[9] for r in rows) == 1199
        and {json.dumps(r[8]) for r in rows} == {'{"state": "cancelled", "fn": "noop"}'}
        and again
    )
    assert [r[10][:8] for r in rows if r[10]] == ["1 jobs: "]
    assert db.run(["deferred", "queue", "clear", "default", "--yes"]).returncode == 0
    assert [(r[1], r[3], r[9]) for r in noted(db)] == [("clear", "default", 1200)]


def test_what_is_refused_or_is_there_no_more_leaves_no_row(db):
    done = db.defer("noop")
    assert db.run(["check_deferred"]).returncode == 0
    for args in (
        ["cancel", str(done)],
        ["cancel", "999999"],
        ["retry", str(done)],
        ["retry", "999999"],
        ["queue", "pause", "none"],
        ["queue", "rm", "none"],
        ["queue", "rm", "default"],
        ["function", "resume", "noop"],
        ["schedule", "pause", "none"],
        ["flow", "retry", "999999"],
    ):
        assert db.run(["deferred", *args]).returncode != 0
    assert noted(db) == []


def test_an_application_that_cancels_its_own_job_is_no_operator_and_nobody_makes_up_a_row(db):
    name, env = login(db, "deferred_producer")
    job = int(do(db, "add", "noop", "{}", env=env))
    do(db, "cancel", str(job), env=env)
    with db.connect(options=f"-c role={name}") as c, c.cursor() as cursor:
        cursor.execute("select deferred.__act_note('somebody', 'cancel', job => 1)")
    c.close()
    assert db.one("select state from deferred.job where id = %s", job) == "cancelled" and noted(db) == []
