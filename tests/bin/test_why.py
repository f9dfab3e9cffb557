"""`deferred why`: each cause brought about on a real server, its sentence, its figure, the command
that mends it; and that command done where that is quick.

What is decided by figures alone is in tests/lib/cause_test.c.
"""

import json
import os
import re
import signal

import pytest

import pg
from harness import wait_for
from made_log import starts
from test_deferred import end, fails, login

OK, NOT_DONE = 0, 1


@pytest.fixture
def why(db):
    """Asks of a job, or of all that waits, as a viewer or with env; returns the causes, each (word,
    sentence, figure, command)."""

    def ask(job=None, *options, env=None, code=OK):
        def answer():
            """Not that it took too long, as it may on a busy machine."""
            done = db.run(["deferred", "--json", "why", *([job] if job else []), *options], env=env)
            return "due to statement timeout" not in done.stderr and done

        done = wait_for(answer, 120, "an answer")
        assert done.returncode == code and done.stderr == "", done
        # How many seconds it took to ask is none of what is tested.
        return [
            (c["cause"], c["why"], re.sub(r"\b\d?\ds\b", "Ns", c["figure"]), c["do"]) for c in json.loads(done.stdout)
        ]

    return ask


def check(db, *args, code=0):
    done = db.run(["check_deferred", *args])
    assert done.returncode == code, done
    return done.stderr


def do(db, command):
    """What an answer says is to be done, done."""
    words = command.split(";")[0].split()
    assert words[0] in ("deferred", "check_deferred"), command
    assert db.run(words).returncode == 0, command


def test_a_job_that_is_not_there(db, why):
    assert why(1, code=NOT_DONE) == [
        (
            "no_such_id",
            "job 1 does not exist: it was never deferred",
            "no job has ever been deferred here",
            "deferred ls",
        )
    ]
    db.defer("noop")
    assert why(99, code=NOT_DONE) == [
        ("no_such_id", "job 99 does not exist: it was never deferred", "the last id is 1", "deferred ls")
    ]
    open_ = db.connect(application_name="shop")
    cursor = open_.cursor()
    cursor.execute("select deferred.defer('noop')")
    job = cursor.fetchone()[0]
    cause, sentence, figure, remedy = why(job, code=NOT_DONE)[0]
    assert (
        cause == "not_committed"
        and figure.startswith(f"session {open_.get_backend_pid()} of ")
        and remedy.endswith(f"pg_terminate_backend({open_.get_backend_pid()})")
    )
    assert sentence == f"job {job} does not exist: the transaction that deferred it may not have committed yet"
    open_.rollback()
    open_.close()
    db.defer("noop")
    cause, sentence, figure, remedy = why(job, code=NOT_DONE)[0]
    assert sentence == f"job {job} does not exist: the transaction that deferred it was rolled back"
    assert (
        cause == "rolled_back"
        and figure
        == "the next job that is there was deferred Ns ago; no transaction that wrote something before is open"
    )
    check(db, "--cnt", "0")
    db.sql(
        "update deferred.__deferred set created_at = created_at - interval '40 days'; update deferred.__deferred_log "
        "set finished_at = finished_at - interval '40 days'"
    )
    db.sql(
        "update deferred.__deferred set created_at = created_at + interval '5 days' where id = (select max(id) "
        "from deferred.__deferred)"
    )
    assert db.run(["deferred", "purge", "--older-than", "38d"]).returncode == 0
    cause, sentence, figure, remedy = why(1, code=NOT_DONE)[0]
    assert (cause, sentence) == (
        "rolled_back",
        "job 1 does not exist: the transaction that deferred it was rolled back, or the job was purged",
    )
    db.sql("update deferred.__deferred_upkeep set purged_older = '34 days'")
    assert why(1, code=NOT_DONE)[0][:3] == (
        "purged",
        "job 1 does not exist: it was purged, or the transaction that deferred it was rolled back",
        "its id is from about 35d ago, and the last purge removed everything older than 34d",
    )


@pytest.mark.slow
def test_a_job_that_has_ended_or_waits_for_a_time(db, why):
    done, dead, again, later, expired = (
        db.defer("noop"),
        db.defer("fail", '{"error": "no such file"}', max_attempts=1),
        db.defer("fail"),
        db.defer("noop", delay="3590s"),
        db.defer("noop", delay="200ms", expires="1ms"),
    )
    assert why(expired)[0][0] == "expired"
    check(db, "--cnt", "3")
    assert why(done)[0][0:2] == ("ended", f"job {done} is done") and why(done)[0][3] == ""
    cause, sentence, figure, remedy = why(dead)[0]
    assert (cause, sentence) == (
        "ended",
        f"job {dead} is dead: its last attempt failed: no such file",
    ) and figure.startswith("1 attempt, ended Ns ago")
    do(db, remedy)
    assert why(dead)[0][0] == "next_start"
    cause, sentence, figure, remedy = why(again)[0]
    assert (
        cause == "delayed"
        and sentence.startswith(f"job {again} waits for its next attempt, the last one having failed: ")
        and re.fullmatch(r"due in Ns, after 1 attempt", figure)
    )
    do(db, remedy)
    assert why(again)[0][0:2] == ("behind", f"job {again} waits for its turn: 1 job of queue default comes before it")
    assert why(later)[0] == (
        "delayed",
        f"job {later} is delayed",
        "due in 60min",
        f"deferred retry {later}",
    )
    name, env = login(db, "deferred_viewer")
    do(db, f"deferred cancel {later}")
    assert why(later, env=env)[0][1] == f"job {later} is cancelled"


def test_an_error_is_shown_by_the_line_that_the_log_shows(db, why):
    """What an interpreter prints begins with the calls and ends with the error."""
    text = "Traceback (most recent call last):\n  File \"invoice.py\", line 4\n    price[item]\nKeyError: 'spoon'\n"
    job = db.defer("fail", json.dumps({"error": text}))
    check(db)
    sentence = f"job {job} waits for its next attempt, the last one having failed: KeyError: 'spoon'"
    assert why(job)[0][:2] == ("delayed", sentence)


@pytest.mark.slow
def test_a_job_that_a_worker_has(db, why):
    job = db.defer("sleep", '{"ms": 60000}')
    run = db.spawn(["check_deferred", "--cnt", "1", "--lease", "2s"])
    wait_for(lambda: db.held(job))
    worker = db.held(job)[0]
    cause, sentence, figure, remedy = why(job)[0]
    assert (cause, sentence, remedy) == (
        "running",
        f"job {job} is being run by worker {worker} ({os.uname().nodename} pid {run.pid})",
        f"deferred cancel {job}",
    )
    assert re.fullmatch(r"claimed Ns ago; its lease lasts for another Ns, and is renewed", figure)
    run.signal(signal.SIGKILL)
    run.wait()
    db.sql("update deferred.__deferred_lease set expires_at = now() + interval '4 min'")
    wait_for(lambda: why(job)[0][0] == "worker_vanished", what="the server notices that nobody is there any more")
    assert why(job)[0][1:] == (
        f"worker {worker} ({os.uname().nodename} pid {run.pid}), which has job {job}, is gone: its session is gone",
        "the lease ends in 4min, and others may take it then",
        "",
    )
    told = (
        f"worker {worker} ({os.uname().nodename} pid {run.pid}), which has 1 job, is gone",
        "its lease ends in 4min, and others may take it then",
        "",
    )
    assert why()[0] == ("worker_vanished", *told) == why(None, "--queue", "default")[0]
    db.defer("noop", priority=1)
    assert ("worker_vanished", *told) in why(None, "--all")
    db.sql("delete from deferred.__deferred_hot where priority = 1")
    db.sql("select deferred.__queue_set('other', '{}', true)")
    assert [c[0] for c in why(None, "--queue", "other", "--all")] == ["nothing_waits"]
    db.sql("update deferred.__deferred_lease set expires_at = now()")
    wait_for(lambda: not db.held(job))
    cause, sentence, figure, remedy = why(job)[0]
    assert (cause, sentence) == (
        "worker_vanished",
        f"worker {worker} ({os.uname().nodename} pid {run.pid}), which has job {job}, is gone: its lease is over",
    )
    assert figure.endswith("the next start of check_deferred makes it ready") and remedy == "check_deferred"
    db.sql("update deferred.__deferred_worker set ended_at = now()")
    db.sql("update deferred.__deferred_lease set expires_at = now() + interval '4 min'")
    assert why(job)[0][1:3] == (
        f"worker {worker} ({os.uname().nodename} pid {run.pid}), which has job {job}, is gone: it has ended",
        "the lease ends in 4min, and others may take it then",
    )
    db.sql(
        "update deferred.__deferred_worker set ended_at = null, watch = null, started_at = now() - interval '20 min', "
        "seen_at = now() - interval '10 min'"
    )
    assert why(job)[0][1].endswith("is gone: it has not been seen")
    db.sql(
        "update deferred.__deferred_worker set seen_at = started_at; "
        "insert into deferred.__deferred_worker (instance, host, pid, version) "
        "select split_part(instance, '@', 1) || '@another', host, 1, version from deferred.__deferred_worker"
    )
    assert why(job)[0][1].endswith("is gone: its host has rebooted")
    db.sql("update deferred.__deferred_lease set expires_at = now() - interval '1 s'")
    do(db, f"deferred cancel {job}")
    assert why(job)[0][0] == "ended"


@pytest.mark.slow
def test_a_job_whose_queue_or_function_nobody_serves(db, why):
    fresh = db.defer("noop", queue="mail")
    assert why(fresh)[0] == (
        "unserved",
        "no worker was ever seen: check_deferred has not been started for this database",
        "0 starts of check_deferred that had work",
        "deferred doctor on the host whose cron starts check_deferred",
    )
    assert why()[0][0:2] == ("stopped", why(fresh)[0][1])
    db.defer("noop")
    check(db, "--queue", "default")
    job = db.defer("maail", queue="mail")
    told = why(job, "--all")
    assert [c[0] for c in told] == ["unknown_function", "unserved", "behind"]
    assert told[0][1:] == (
        "no worker offers function maail",
        "ready for Ns; deferred functions lists what workers offer",
        "if the name is wrong: deferred cancel --fn maail; "
        "if it is right: install the plugin where check_deferred runs, and read its log",
    )
    assert why(fresh)[0] == (
        "unserved",
        "no worker serves queue mail",
        "the workers that were started serve other queues",
        "check_deferred --queue mail",
    )
    told = {c[0]: c for c in why(None, "--all")}
    assert told["unserved"][1:] == (
        "no worker serves queue mail",
        "the workers that were started serve other queues; 2 jobs wait, the first for Ns",
        "check_deferred --queue mail",
    )
    assert told["unknown_function"][1:] == (
        "no worker offers function maail",
        "1 job waits for it, the first for Ns",
        why(job)[0][3],
    )
    do(db, why(fresh)[0][3])
    assert why(fresh)[0][0] == "ended"
    do(db, "deferred cancel --fn maail")
    assert why() == [("nothing_waits", "nothing waits", "0 jobs are ready, workers have claimed 0", "")]
    db.sql(
        "update deferred.__deferred_offer set fn = fn || 'maail'::text, plugin = plugin || 'made "
        "for ABI 2'::text, timeout_ms = timeout_ms || 0::int8, max_attempts = max_attempts || -1"
    )
    job = db.defer("maail")
    assert why(job)[0] == (
        "unknown_function",
        "function maail is refused by the workers that have it",
        f"on {os.uname().nodename}: made for ABI 2",
        "deferred doctor",
    )
    # Runs came every two minutes, and none has for half an hour.
    db.sql(
        "truncate deferred.__deferred_worker; insert into deferred.__deferred_worker (instance, host, pid, version, "
        "started_at, seen_at, ended_at) select 'h:/run/x#1.2@boot', 'h', 1, '1', "
        "now() - i * interval '2 min', now() - i * interval '2 min', now() - i * interval '2 min' from "
        "generate_series(25, 15, -1) i"
    )
    db.sql("delete from deferred.__deferred_hot")
    job = db.defer("noop")
    assert why(job)[0] == (
        "next_start",
        f"nothing holds job {job} back: the next start of check_deferred takes it",
        "h:/run/x starts about every 2min, the next time now",
        "check_deferred",
    )
    db.sql("update deferred.__deferred_hot set visible_at = now() - interval '20 min'")
    told = (
        "the workers that served queue default no longer start",
        "the last one, h:/run/x, was seen 30min ago, and one used to start every 2min",
        "deferred doctor on that host; look at the crontab line and its log",
    )
    assert why(job)[0] == ("unserved", *told)
    assert why()[0] == ("stopped", told[0], told[1] + "; 1 job waits, the first for 20min", told[2])
    do(db, "check_deferred")


def test_who_paused_a_queue_is_told_with_since_when(db, why):
    """By the command, by SQL in a role that was taken, again by somebody else; the page's way is in tests/web."""
    role, env = login(db, "deferred_worker")
    job = db.defer("noop")

    def told():
        status = db.run(["deferred", "status"])
        row = db.sql(
            "select paused_by, paused_at between now() - interval '1 day' and now() from deferred.__deferred_queue "
            "where name = 'default'"
        )[0]
        held_by = re.search(r"(?m)^default .*?(paused.*)$", status.stdout)
        listed = json.loads(db.run(["deferred", "--json", "queue", "ls"]).stdout)[0]
        assert (listed["paused_by"], listed["paused_at"] is not None) == (row[0], bool(row[1]))
        return row[0], why(job)[0][2], held_by and re.sub(r"\d+", "N", held_by[1].strip())

    assert db.run(["deferred", "queue", "pause", "default"], env=env).returncode == 0
    assert told() == (
        role,
        f"1 job waits in it; paused by {role} Ns ago",
        re.sub(r"\d+", "N", f"paused by {role} Ns ago"),
    )
    # Who pauses it once more, or sets something else, did not do it.
    db.sql("update deferred.__deferred_queue set paused_at = now() - interval '3 hours'")
    assert (
        db.run(["deferred", "queue", "pause", "default"]).returncode == 0
        and db.run(["deferred", "queue", "set", "default", "--weight", "2"]).returncode == 0
    )
    assert told()[1] == f"1 job waits in it; paused by {role} 3h ago"
    assert f"; paused by {role} 3h ago" in why()[0][2]
    assert db.run(["deferred", "queue", "resume", "default"]).returncode == 0
    assert (
        told()[::2] == (None, None)
        and db.one("select paused_at from deferred.__deferred_queue where name = 'default'") is None
    )
    connection = db.connect()
    with connection, connection.cursor() as cursor:
        cursor.execute("set role deferred_worker; select deferred.__queue_set('default', '{\"paused\": true}')")
    connection.close()
    assert told()[0] == "deferred_worker"
    # By hand, in the table: nobody knows.
    db.sql("update deferred.__deferred_queue set paused_by = null, paused_at = null")
    assert told() == (None, "1 job waits in it", "paused")
    db.sql("select deferred.__queue_set('gone', '{\"paused\": true}', true), deferred.__queue_rm('gone')")
    assert db.sql("select paused, paused_at, paused_by from deferred.__deferred_queue where name = 'gone'") == [
        (False, None, None)
    ]


@pytest.mark.slow
def test_a_job_that_is_kept_from_being_claimed(db, why):
    job = db.defer("noop")
    db.defer("noop")
    check(db)
    job = db.one("select max(id) from deferred.__deferred_hot")
    do(db, "deferred queue pause default")
    by = "; paused by deferred Ns ago"
    assert (
        why(job)[0]
        == why()[0][:2] + ("1 job waits in it" + by, "deferred queue resume default")
        == ("paused", "queue default is paused", "1 job waits in it" + by, "deferred queue resume default")
    )
    assert why()[0][2].endswith(by)
    do(db, why(job)[0][3])
    holder = db.connect(application_name="report")
    holder.cursor().execute("select * from deferred.__deferred_hot for update")
    pid = holder.get_backend_pid()
    cause, sentence, figure, remedy = why(job)[0]
    assert (cause, sentence, remedy) == (
        "locked",
        "an open transaction has locked the row of the job",
        f"commit there, or: select pg_terminate_backend({pid})",
    )
    assert (
        figure.startswith(f"session {pid} of ")
        and "idle in transaction, in a transaction for Ns: select * from deferred.__deferred_hot for update" in figure
    )
    name, env = login(db, "deferred_viewer")
    assert why(job, env=env)[0][2].startswith(f"session {pid} of ") and "state not seen" in why(job, env=env)[0][2]
    holder.rollback()
    holder.cursor().execute("select * from deferred.__deferred_cursor for update")
    assert (
        why(job)[0][1] == "an open transaction has locked the place of its lane, so no job of the lane can be claimed"
    )
    db.sql(f"select pg_terminate_backend({pid})")
    holder.close()
    wait_for(lambda: why(job)[0][0] == "next_start")
    # As after a dump was restored.
    db.sql(
        "update deferred.__deferred_cursor set done = pg_current_snapshot(), cur = pg_current_snapshot(), xid = null, "
        "rest_xid = '{}', rest_id = '{}'"
    )
    assert why(job)[0][0::3] == (
        "stranded",
        "as deferred_owner: select deferred.__repair(); a worker does the same within a day",
    )
    db.sql("select deferred.__repair()")
    assert why(job)[0][0] == "next_start"
    check(db)
    assert why(job)[0][0] == "ended"


def test_a_job_that_limits_hold_back(db, why):
    for command in (
        "deferred queue set one --create --max-running 1",
        "deferred queue set rare --create --rate 1/h",
        "deferred function set echo --max-running 1",
    ):
        do(db, command)
    first, second = db.defer("sleep", '{"ms": 60000}', queue="one"), db.defer("noop", queue="one")
    rated = [db.defer("noop", queue="rare") for _ in range(2)]
    keyed = db.defer("sleep", '{"ms": 60000}', concurrency_key="cust-7"), db.defer("noop", concurrency_key="cust-7")
    several = [
        db.defer("sleep" if i < 2 else "noop", '{"ms": 60000}', concurrency_key="cust-8", concurrency=2)
        for i in range(3)
    ]
    run = db.spawn(["check_deferred", "--cnt", "0", "--runners", "8"])
    wait_for(lambda: db.held(first) and db.held(keyed[0]) and db.held(several[1]) and db.log(rated[0]))
    assert why(second)[0] == (
        "limit",
        "queue one runs no more than 1 at once",
        f"1 of 1 are running: {first}",
        "deferred queue set one --max-running 2",
    )
    cause, sentence, figure, remedy = why(rated[1])[0]
    assert (cause, sentence, remedy) == (
        "rate",
        "queue rare starts no more than 1/h",
        "deferred queue set rare --rate 2/h",
    ) and figure == "the next one may start in 60min"
    do(db, "deferred queue set rare --unset rate")
    do(db, "deferred queue set ra* --rate 1/h")
    assert [why(rated[1])[0][i] for i in (1, 3)] == [
        "queue rare, by pattern 'ra*', starts no more than 1/h",
        "deferred queue set 'ra*' --rate 2/h",
    ]
    told = {c[0]: c for c in why(None, "--all")}
    assert told["rate"][3] == "deferred queue set 'ra*' --rate 2/h; nothing if that is intended"
    assert (
        told["limit"]
        == (
            "limit",
            "queue one runs no more than 1 at once, and that many are running",
            "1 job of queue one waits, the first for Ns",
            "deferred queue set one --max-running 2; nothing if that is intended",
        )
        and told["rate"][1] == "queue rare, by pattern 'ra*', starts no more than 1/h"
    )
    assert why(keyed[1])[0] == (
        "key",
        f"jobs with concurrency key 'cust-7' run one after the other, and job {keyed[0]}, which is running, comes "
        f"before it",
        "1 job of that key comes before it",
        f"deferred why {keyed[0]}",
    )
    assert why(several[2])[0][1:3] == (
        "of the jobs with concurrency key 'cust-8' no more than 2 run at once",
        "2 are running",
    )
    do(db, why(second)[0][3])
    wait_for(lambda: db.log(second) == [(1, "ok")] or why(second)[0][0] in ("next_start", "ended"))
    run.signal(signal.SIGKILL)
    run.wait()


def test_a_message_waits_for_a_consumer(db, why):
    first, second = db.defer(None, queue="orders"), db.defer(None, queue="orders")
    told = (
        "message",
        f"message {first} waits for a consumer: it has no function, so check_deferred does not run it",
        "ready for Ns; no message that is now in queue orders was ever taken",
        "start a consumer of queue orders",
    )
    assert why(first)[0] == told
    db.sql(
        "update deferred.__deferred_hot set receipt = 1, attempt = 1, started_at = now(), "
        "due_at = now() + interval '30 s', visible_at = now() + interval '30 s' where id = %s",
        second,
    )
    assert why(first)[0] == (
        *told[:2],
        "ready for Ns; a message of queue orders was taken Ns ago",
        told[3],
    )
    assert why(second)[0][:3] == (
        "running",
        f"message {second} was taken by a consumer, and is hidden from others until it deletes it",
        "taken for the 1st time; comes again in Ns",
    )


ARGUMENTS = {
    "why_job": (7,),
    "why_worker": (7,),
    "why_waits": (7,),
    "why_paused": ("default", 100),
    "why_error": (7,),
    "why_session": (None,),
    "why_serving": (["default"],),
    "why_limits": ("default", "noop", 7),
    "why_ahead": ("default", 0, "9", 7, 100),
    "why_steps": ("default",),
    "why_rates": ("default", 10, 10),
    "why_arrivals": (None,),
    "why_queues": (),
    "why_runs": (60, 10),
    "why_server": (),
    "top_recent": (None, 10),
    "top_running": (None, 10),
    "top_arrivals": (None,),
    "admin_status_queues": (1000,),
    "admin_functions_unknown": (1000,),
    "why_table_lock": (),
    "why_absent": (),
    "why_gone": (None,),
}


def test_a_viewer_may_ask_all_of_it_and_nothing_big_is_walked_over(db):
    """What an answer can do without is left out where it is refused, or takes too long: so nobody would notice."""
    db.sql(
        "select deferred.defer('noop', '{}', json_build_object('concurrency_key', 'k' || i % 9)) "
        "from generate_series(1, 20) i"
    )
    db.sql(
        "select count(*) from deferred.__enqueue_many(array_fill('noop'::text, array[3000]), array_fill('{}'::json, "
        "array[3000]), " + ", ".join(["null"] * 14) + ")"
    )
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at) select i, 1, 'ok', false, "
        "now() from generate_series(1, 3000) i"
    )
    db.sql("analyze deferred.__deferred_hot; analyze deferred.__deferred; analyze deferred.__deferred_log")
    connection = db.connect()
    cursor = connection.cursor()
    assert {name for name in pg.sources() if name.startswith(("why_", "top_"))} <= set(ARGUMENTS) <= set(pg.sources())
    for name, args in ARGUMENTS.items():
        text = pg.source(name)
        cursor.execute(
            f"set local role deferred_{'worker' if name == 'why_error' else 'viewer'}; set local jit = off; set local "
            f"enable_bitmapscan = {'on' if name.startswith('top') else 'off'}"
        )
        cursor.execute(f"prepare {name} as " + text)
        cursor.execute(
            f"explain (analyze, format json) execute {name}" + (f" ({', '.join(['%s'] * len(args))})" if args else ""),
            args,
        )
        for node in nodes(cursor.fetchone()[0][0]["Plan"]):
            if (
                not name.startswith("admin")
                and re.fullmatch("__deferred(_0|_hot|_log_[0-9]+)", node.get("Relation Name", ""))
                and node["Actual Loops"] > 0
                and node["Actual Rows"] > 0
            ):
                assert node["Node Type"] in ("Index Scan", "Index Only Scan", "Tid Range Scan", "Tid Scan"), (
                    name,
                    node,
                )
        connection.rollback()
    connection.close()


def test_how_it_was_before_is_told_by_a_few_pages_of_the_log(db):
    """An open page asks every two seconds: neither is all of a day read, nor a process begun that helps."""
    db.sql("select deferred.defer('noop')")
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at, run_us, "
        "plugin) "
        "select 1, 1, 'ok', false, t, t, us, plugin from (values (0, interval '10 days', 60000, 7000000, 'oldest'), "
        "(1, interval '25 hours', 60000, 7000000, 'older'), "
        "(2, interval '20 hours', 5000, 1000000, 'old'), "
        "(3, interval '10 s', 300, 3000000, 'new')) v(i, ago, n, us, plugin) cross "
        "join lateral (select now() - ago as t from generate_series(1, n)) x order by i"
    )
    db.sql("vacuum analyze deferred.__deferred_log")
    text = pg.source("why_rates")
    connection = db.connect()
    cursor = connection.cursor()
    cursor.execute(
        "set jit = off; set enable_bitmapscan = off; set max_parallel_workers_per_gather = 0; prepare rates as " + text
    )
    cursor.execute("execute rates (null, 30, 2000)")
    assert cursor.fetchone()[7:10] == (3.0, 1.0, "new")
    cursor.execute("explain (analyze, format json) execute rates (null, 30, 2000)")
    read = sum(
        (n["Actual Rows"] + n.get("Rows Removed by Filter", 0)) * n["Actual Loops"]
        for n in nodes(cursor.fetchone()[0][0]["Plan"])
        if n.get("Relation Name", "").startswith("__deferred_log")
    )
    assert read < 20000, read
    connection.close()


def test_a_job_whose_turn_is_to_come(db, why):
    for _ in range(14):
        db.defer("noop")
    for _ in range(4):
        check(db)
    last, hasty = db.defer("noop"), db.defer("noop", expires="90s")
    cause, sentence, figure, remedy = why(last)[0]
    assert (cause, sentence, remedy) == (
        "behind",
        f"job {last} waits for its turn: 10 jobs of queue default come before it",
        "deferred why --queue default",
    )
    assert re.fullmatch(r"4.0 a minute ended in the last 1 min: its turn comes in about (Ns|[23]min)", figure), figure
    name, env = login(db, "deferred_viewer")
    assert why(last, "--all", env=env) == why(last, "--all")
    told = why(hasty)[0]
    assert told[0] == "expires_first" and told[2].startswith("it expires in Ns, and its turn comes in ")
    urgent = db.defer("noop", priority=5)
    assert why(urgent)[0][0] == "next_start"
    assert why(last)[0][1].startswith(f"job {last} waits for its turn: 11 jobs")
    cause, sentence, figure, remedy = why(None, "--queue", "default")[0]
    assert (cause, sentence, remedy) == (
        "count",
        "each run ends after 1 attempt, and leaves jobs behind",
        "add --cnt 0 --if-running=skip to the crontab line",
    )
    assert re.fullmatch(r"([34]) of the last \1 runs of .* did", figure) and figure.endswith(f"{db.pidfile} did")
    check(db, "--cnt", "0")
    assert why()[0][0] == "nothing_waits"


def test_workers_in_step(db, why):
    db.defer("noop")
    check(db)
    job = db.defer("noop")
    for w in 101, 102:
        db.sql(
            "insert into deferred.__deferred_worker (id, instance, host, pid, version) overriding system value "
            "values (%s, 'h:/' || %s, 'h', %s, '1')",
            w,
            w,
            w,
        )
    db.sql(
        "insert into deferred.__deferred_group values ('mail', 3, 10); insert into deferred.__deferred_track "
        "values (101, 'mail', 10, 1, 3, 10, now() + interval '1 min'), "
        "(102, 'mail', 10, 1, 3, 4, now() + interval '1 min'); update deferred.__deferred_worker "
        "set queues = '{other}' where id = 102"
    )
    assert why(job)[0][:3] == (
        "in_step",
        "the workers that serve queue default are kept level, and wait for others of group mail",
        "waited for: worker 102 (h pid 102)",
    )
    db.sql("update deferred.__deferred_track set made = 10")
    assert why(job)[0][0] == "next_start"


def nodes(plan):
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def recorded(db, n, fn="noop", outcome="ok", run="100 ms", age="1 min", **columns):
    """So many attempts of so many jobs, that ended so long ago."""
    names = "".join(f", {name}" for name in columns)
    jobs = [r[0] for r in db.sql("select deferred.defer(%s) from generate_series(1, %s)", fn, n)]
    db.sql(
        f"with gone as (delete from deferred.__deferred_hot where id = any (%s)) "
        f"insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at, "
        f"run_us{names}) "
        f"select i, 1, %s, true, now() - %s::interval, now() - %s::interval, extract(epoch "
        f"from %s::interval) * 1000000{', %s' * len(columns)} from unnest(%s) i",
        jobs,
        outcome,
        age,
        age,
        run,
        *columns.values(),
        jobs,
    )


def test_what_the_last_attempts_tell_of_a_backlog(db, why):
    recorded(db, 40, age="2 h")
    db.sql("update deferred.__deferred set created_at = now() - interval '2 h'")
    recorded(db, 30, run="900 ms", plugin="sample 1 b2")
    db.sql(
        "insert into deferred.__deferred_worker (instance, host, pid, version) "
        "values ('h:/run/x#1.2@boot', 'h', 1, '1')"
    )
    db.defer("noop")

    def told():
        return {c[0]: c[1:] for c in why(None, "--all")}

    t = told()
    assert (
        t["slower"][0] == "noop takes longer than usual"
        and t["slower"][1] == "half of its attempts took more than 900ms in the last 1 min, and 100ms before"
    ), t
    assert t["rush"][0].startswith("more jobs arrive than usual, most of them from ") and t["rush"][0].endswith(
        ", who deferred noop"
    )
    recorded(db, 10, fn="echo", run="9 s")
    assert (
        told()["one_function"][0] == "function echo takes most of the time, and others wait for it"
        and "deferred function set echo --max-running 1" in told()["one_function"][2]
    )
    recorded(db, 5, outcome="superseded")
    assert told()["superseded"] == (
        "each start of check_deferred terminates the jobs of the one before",
        "5 of 45 attempts in the last 1 min were superseded",
        "add --if-running=skip to the crontab line, or start less often",
    )
    recorded(db, 60, outcome="failed", error="connection refused")
    t = told()
    assert list(t)[0] == "failing" and t["failing"][:2] == (
        "most attempts fail: connection refused",
        "60 of 105 attempts in the last 1 min failed",
    )
    db.sql("select deferred.defer('noop') from generate_series(1, 3000)")
    assert told()["capacity"][0] == "more jobs arrive than are run: the backlog grows"


def test_the_database_keeps_jobs_from_being_claimed(db, why):
    db.defer("noop")
    assert why(env={"PGOPTIONS": "-c default_transaction_read_only=on"})[0][:2] == (
        "database",
        "the database takes no writes, so no job can be claimed",
    )


def test_what_is_asked_for_wrongly(db):
    for args, code, text in (
        (["0"], 64, "job id"),
        (["1", "2"], 64, "is not expected"),
        (["1", "--queue", "q"], 64, "argument '1' contradicts option '--queue'"),
        (["--queue", "nosuch"], NOT_DONE, "queue 'nosuch' does not exist"),
    ):
        fails(db.run(["deferred", "why", *args]), code, text)
    job = db.defer("noop")
    done = db.run(["deferred", "why", str(job)])
    assert (done.returncode, done.stdout) == (
        OK,
        "no worker was ever seen: check_deferred has not been started for this database\n"
        "    figure: 0 starts of check_deferred that had work\n    do: deferred doctor on the host whose cron starts "
        "check_deferred\n",
    )


@pytest.mark.parametrize("ended", [True, False])
def test_the_only_service_has_ended_or_is_cut_off(db, why, ended):
    db.sql(
        """insert into deferred.__deferred_worker (instance, host, pid, version, started_at, seen_at, ended_at, mode)
              values ('h:/run/x#1.2@boot', 'h', 1, '1', now() - interval '1 h', now() - interval '10 min',
                      case when %s then now() - interval '10 min' end, 'listen')""",
        ended,
    )
    job = db.defer("noop")
    db.sql("update deferred.__deferred_hot set visible_at = now() - interval '5 min'")
    told = (
        "unserved",
        "the service that served queue default has ended, or is cut off from the database",
        "h:/run/x was seen 10min ago",
    )
    causes = why(job)
    assert [c[:3] for c in causes] == [told] and "exit code 77" in causes[0][3]
    (kind, said, figure, _), *_ = why(None, "--all")
    assert said == told[1] and figure.startswith(told[2]) and "1 job waits" in figure
    assert "nothing holds" not in str(why(None, "--all")) + str(causes)


def test_a_service_that_was_killed_does_not_serve(db, why):
    service = db.spawn(["check_deferred", "--loop", "--listen"])
    wait_for(lambda: db.one("select count(*) from deferred.__deferred_worker") == 1, what="the service")
    job = db.defer("noop", queue="mail", delay="1h")
    db.sql("update deferred.__deferred_hot set due_at = null, visible_at = now() - interval '1 min'")
    service.signal(signal.SIGSTOP)
    assert why(job)[0][0] != "unserved", "its session is there"
    service.signal(signal.SIGKILL)
    service.wait()
    db.sql("delete from deferred.__deferred_hot")
    job = db.defer("noop", queue="mail")
    db.sql("update deferred.__deferred_hot set visible_at = now() - interval '1 min'")
    db.sql(
        "update deferred.__deferred_worker set started_at = now() - interval '1 h', seen_at = now() - interval '20 s'"
    )
    wait_for(lambda: why(job)[0][0] == "unserved", what="the server notices that nobody is there any more")
    assert why(job)[0][1] == "the service that served queue mail has ended, or is cut off from the database"


@pytest.mark.parametrize("lacking", ["role", "table"])
def test_a_worker_that_may_not_run_jobs(db, why, lacking):
    role, env = login(db, "deferred_worker")
    db.defer("noop")
    assert db.run(["check_deferred"], env=env).returncode == 0
    job = db.defer("noop")
    assert why(job)[0][0] == "next_start"
    db.sql(
        f"revoke deferred_worker from {role}"
        if lacking == "role"
        else "revoke select on deferred.__deferred_hot from deferred_worker"
    )
    sentence, remedy = {
        "role": (
            f"the last worker that served queue default connected as role {role}, which may not run jobs",
            f"grant deferred_worker to {role}",
        ),
        "table": (
            "no worker may run jobs: role deferred_worker lacks rights that the schema gave it",
            "grant select on deferred.__deferred_hot to deferred_worker",
        ),
    }[lacking]
    assert db.run(["check_deferred"], env=env).returncode == 77 and db.hot() == 1
    causes = why(job, "--all")
    assert (causes[0][0], causes[0][1], causes[0][3]) == ("rights", sentence, remedy) and "nothing holds" not in str(
        causes
    )
    assert why()[0][:2] == ("rights", sentence)
    _, viewer = login(db, "deferred_viewer")
    assert why(job, env=viewer)[0] == causes[0]
    db.sql(remedy)
    assert why(job)[0][0] == "next_start" and db.run(["check_deferred"], env=env).returncode == 0 and db.hot() == 0


def test_recurring_jobs_that_bring_nothing_and_a_backlog_that_nothing_holds(db, why):
    db.sql(
        "select deferred.schedule('nightly', '0 3 * * *', 'fail', '{\"error\": \"no disk\"}', '{\"max_attempts\": 1}')"
    )
    db.sql(
        "update deferred.__deferred_schedule set next_at = now() - interval '1 s'; update deferred.__deferred_state "
        "set next_tick = now() - interval '1 s'"
    )
    check(db)  # which has its job deferred first
    check(db)
    job = db.one("select max(id) from deferred.__deferred")
    assert why()[0] == (
        "schedule",
        f"schedule nightly fails: its last job, {job}, is dead",
        why()[0][2],
        f"deferred show {job}; after the fix: deferred retry {job}",
    )
    do(db, why()[0][3])
    do(db, f"deferred retry {job}")
    do(db, "deferred schedule pause nightly")
    under_way, *more = why(None, "--all")
    assert under_way[:2] == ("under_way", "1 job waits, and nothing holds it back") and under_way[3] == "", under_way
    do(db, "deferred cancel --fn fail")
    assert [c[0] for c in why()] == ["nothing_waits"] and ("schedule", "schedule nightly is paused") in [
        c[:2] for c in why(None, "--all")
    ]
    do(db, [c[3] for c in why(None, "--all") if c[0] == "schedule"][0])
    assert "schedule" not in [c[0] for c in why(None, "--all")]


def test_a_host_that_is_missed_while_others_come_is_named(db, why):
    def named():
        return [c for c in why(None, "--all") if c[0] == "absent"]

    starts(db, "a", "/run/d.pid", 300, 0)
    starts(db, "b", "/run/d.pid", 300, 25)
    sentence, remedy = (
        "check_deferred on host b has stopped, while others still run",
        "deferred doctor on that host; look at the crontab line or the unit, and its log",
    )
    (told,) = named()
    assert told == (
        "absent",
        sentence,
        "pidfile /run/d.pid: it was seen 26min ago, and used to start every Ns, 275 times",
        remedy,
    )
    assert (
        why()[0] == told and why(None, "--queue", "default")[0][0] == "nothing_waits"
    )  # which `deferred why` says by itself
    assert (
        "missed: check_deferred b:/run/d.pid, seen 26min ago; it used to start every 60s\n"
        in db.run(["deferred", "status"]).stdout
    )
    (missed,) = json.loads(db.run(["deferred", "--json", "status"]).stdout)["missed"]
    assert (missed["host"], missed["pidfile"], missed["service"], missed["starts"], missed["every_s"]) == (
        "b",
        "/run/d.pid",
        False,
        275,
        60,
    )
    done = db.run(["deferred", "alert", "--print"])
    assert (
        "check_deferred with pidfile /run/d.pid on host b has stopped while others still run: it was seen 2"
        in done.stdout
        and "do: deferred doctor on host b; " in done.stdout
    ), done
    name, env = login(db, "deferred_viewer")
    assert why(None, "--all", env=env)[0] == told
    starts(db, "b", "/run/d.pid", 1, 0)  # it comes again
    assert named() == [] and json.loads(db.run(["deferred", "--json", "status"]).stdout)["missed"] == []


@pytest.mark.parametrize(
    "what", ["starts by hand", "no work", "a day ago", "other queues", "seldom", "just now", "at work", "all"]
)
def test_who_is_not_missed(db, why, what):
    starts(db, "a", "/run/d.pid", 300, 60 if what in ("no work", "all") else 0)
    if what == "starts by hand":
        starts(db, "b", "/run/d.pid", 300, 299)
        starts(db, "c", "/run/d.pid", 100, 91, every_s=10)  # many, in a few minutes
    elif what == "a day ago":
        starts(db, "b", "/run/d.pid", 1800, 1445)
    elif what == "other queues":
        starts(db, "b", "/run/d.pid", 300, 60, queues=["mail"])
    elif what == "seldom":
        starts(db, "b", "/run/d.pid", 300, 25, every_s=1200)
    else:
        starts(db, "b", "/run/d.pid", 300, 8 if what == "just now" else 60)
    if what == "at work":
        db.sql(
            "insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone, expires_at) "
            "select 'default', max(id), 1, '{1}', '[1,1]', pg_current_snapshot(), false, now() + interval '1 min' "
            "from deferred.__deferred_worker where host = 'b'"
        )
        db.sql(
            "update deferred.__deferred_worker w set ended_at = null where id = (select max(id) "
            "from deferred.__deferred_worker where host = 'b')"
        )
    assert [c[0] for c in why(None, "--all")] == ["nothing_waits"]


def test_a_service_that_is_missed_while_others_live_is_named(db, why):
    starts(db, "a", "/run/d.pid", 3000, 0, mode="listen")
    starts(db, "b", "/run/d.pid", 3000, 25, mode="listen")
    starts(db, "c", "/run/d.pid", 60, 30, mode="loop")  # half an hour long, by hand
    assert why()[0][:3] == (
        "absent",
        "the service on host b has stopped, while others still run",
        "pidfile /run/d.pid: it was seen 25min ago",
    )
    starts(db, "b", "/run/d.pid", 0, 0, mode="listen")
    assert why()[0][0] == "nothing_waits"
