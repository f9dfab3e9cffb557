"""Being told by real runs: who finds it, the command with its facts, the mail, the pause of a function that crashes."""

import json
import os
import re
import signal

import pytest

from harness import run, wait_for

HOOK = """#!/bin/sh
printf '%s|%s|%s|%s|%s\\n' "$DEFERRED_ALERT_CAUSE" "$DEFERRED_ALERT_NAME" "$DEFERRED_ALERT_TEXT" \\
    "$(env | grep -c -e DEFERRED_DB -e PGPASS)" "$(cat)" >> "$(dirname "$0")/told"
"""


def hook(db, text=HOOK):
    path = os.path.join(db.dir, "hook")
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)
    return path


def told(db):
    path = os.path.join(db.dir, "told")
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return [line.rstrip("\n").split("|", 4) for line in f]


def ago(db, minutes=10):
    """As if everything had happened a while ago, and nobody had looked since."""
    db.sql("update deferred.__deferred_folded set slice = '1 day'")
    for table, columns in (
        ("log", ("finished_at", "started_at")),
        ("", ("created_at",)),
        ("folded", ("folded_to", "sampled_at")),
        ("upkeep", ("alerts_at", "breakers_at", "builds_at")),
    ):
        db.sql(
            f"update deferred.{('__deferred_' + table).rstrip('_')} set "
            + ", ".join(f"{c} = {c} - interval '{minutes} minutes'" for c in columns)
        )


def check(db, *args):
    done = db.run(["check_deferred", "--cnt", "0", *args])
    assert done.returncode == 0, done
    return done.stderr


@pytest.mark.slow
def test_a_dead_job_is_told_to_the_command_and_by_mail_once(db):
    db.config(f'alert {{ command = "{hook(db)}" mail_to = "ops@example.org" }}')
    db.sql("update deferred.__deferred_upkeep set alerts_at = '2000-01-01'")  # somebody has looked before
    db.defer("fail", max_attempts=1)
    check(db)
    ago(db)
    db.defer("noop")
    log = check(db)  # nobody had folded for five minutes: this run does at its end, and looks
    assert "alert: 1 job of function fail died; deferred ls --state dead --fn fail\n" in log
    assert sorted(
        fn for fn, in db.sql("select d.fn from deferred.__deferred d join deferred.__deferred_hot h using (id)")
    ) == ["deferred-alert", "send_mail"]
    assert db.one("select count(*) from deferred.check_ledger()") == 0
    check(db, "--queue", "alert")
    ((cause, name, text, secrets, facts),) = told(db)
    assert (cause, name, text, secrets) == ("dead", "fail", "1 job of function fail died", "0")
    assert {**json.loads(facts), "at": ""} == {
        "cause": "dead",
        "name": "fail",
        "text": text,
        "do": "deferred ls --state dead --fn fail",
        "database": db.name,
        "at": "",
    }
    # A command that fails is run once more, and then is a dead job, which is not told.
    hook(db, "#!/bin/sh\nexit 1\n")
    ago(db)
    db.defer("fail", max_attempts=1)
    check(db)
    ago(db, 90)
    db.sql("update deferred.__deferred_alert set reported_at = reported_at - interval '2 hours'")
    assert [a["name"] for a in json.loads(db.run(["deferred", "--json", "alert"]).stdout)] == ["fail"]
    for _ in range(2):
        check(db, "--queue", "alert")
        db.sql(
            "update deferred.__deferred_hot set due_at = now(), visible_at = now() where due_at > now() "
            "and fn = 'deferred-alert'"
        )
    check(db, "--queue", "alert")
    assert db.sql(
        "select l.attempt, l.outcome, l.final from deferred.__deferred_log l join deferred.__deferred d "
        "on d.id = l.job_id where d.fn = 'deferred-alert' and l.outcome <> 'ok' "
        "order by 1"
    ) == [(1, "failed", False), (2, "failed", True)]
    ago(db)
    quiet = db.run(["deferred", "alert"])
    assert (quiet.returncode, quiet.stdout) == (0, "") and len(told(db)) == 1
    assert db.run(["deferred", "alert", "x"]).returncode == 64
    # Who wants to be told nothing is not, and a list of what stands is for whoever may look.
    db.sql(
        "select deferred.__alert_found('late', 'mail', 'queue mail is late: 3 jobs wait in it', "
        "'deferred why --queue mail')"
    )
    db.config("breaker { crashes = 0 }")
    assert (
        db.run(["deferred", "alert"]).stdout == "" and json.loads(db.run(["deferred", "--json", "alert"]).stdout) == []
    )
    assert re.fullmatch(
        r"queue mail is late: 3 jobs wait in it \(for \ds, not reported\)\n    do: deferred why --queue mail\n",
        db.run(["deferred", "alert", "--list"]).stdout,
    )
    assert json.loads(db.run(["deferred", "--json", "alert", "--list"]).stdout)[0]["cause"] == "late"


@pytest.mark.slow
def test_a_function_that_crashes_is_paused_by_a_service_named_and_tried_again(db):
    """By the sums, where nobody counted the crashes."""
    db.config("breaker { crashes = 0 }")
    db.sql("update deferred.__deferred_folded set folded_to = now()")  # the template's is old
    for _ in range(3):
        db.defer("crash", max_attempts=1)
    check(db)
    assert {row[2] for row in db.log()} == {"crashed"} and db.sql("select fn from deferred.__deferred_crash") == []
    ago(db, 2)
    db.config("breaker { crashes = 3 retry = 1h }")
    service = db.spawn(["check_deferred", "--loop", "--interval-floor", "100ms", "--interval-ceiling", "100ms"])
    wait_for(lambda: db.sql("select 1 from deferred.__deferred_function where broken_at is not null"), what="the pause")
    service.signal(signal.SIGTERM)
    service.wait(20)
    assert re.search(
        r"warning: alert: function crash is paused: its last \d attempts crashed; one is tried every 3600 s; deferred "
        r"ls --fn crash; ",
        service.output(),
    )
    assert db.one("select text from deferred.__deferred_alert where cause = 'breaker'").startswith(
        "function crash is paused: its last "
    )
    ended = db.one("select count(*) from deferred.__deferred_log")
    again = db.defer("crash", max_attempts=1), db.defer("crash", max_attempts=1)
    check(db)
    check(db)
    assert db.one("select count(*) from deferred.__deferred_log") == ended  # one is tried in an hour
    cause = json.loads(db.run(["deferred", "--json", "why", str(again[1])]).stdout)[0]
    assert cause["cause"] == "breaker" and cause["why"].startswith("function crash is paused: ")
    assert cause["do"].endswith("; after the fix: deferred function resume crash")
    assert json.loads(db.run(["deferred", "--json", "why"]).stdout)[0]["cause"] == "breaker"
    assert (
        "of function crash, paused by the breaker for its crashes" in db.run(["deferred", "show", str(again[1])]).stdout
    )
    listed = json.loads(db.run(["deferred", "--json", "function", "ls"]).stdout)[0]
    assert (
        (listed["fn"], listed["max_running"]) == ("crash", 1)
        and listed["paused_s"] >= 0
        and "PAUSED FOR" in db.run(["deferred", "function", "ls"]).stdout
    )
    assert db.run(["deferred", "function", "resume", "crash"]).returncode == 0
    gone = db.run(["deferred", "function", "resume", "crash"])
    assert gone.returncode == 1 and "function 'crash' is not paused" in gone.stderr
    assert db.one("select count(*) from deferred.__deferred_function") == 0
    check(db)
    assert db.one("select count(*) from deferred.__deferred_hot") == 0


RUNNERS = 4


@pytest.mark.parametrize("attempts", [1, 25])
def test_a_function_is_paused_while_its_jobs_crash(db, attempts):
    """At once. Jobs that a worker holds and has not begun are given back. The others are tried one by one."""
    db.config('breaker { retry = 1h }\nbackoff_floor = "1ms"\nbackoff_ceiling = "1ms"')
    jobs = [db.defer("crash", max_attempts=attempts) for _ in range(40)]
    # These are so quick that a worker claims many at once.
    db.sql("select deferred.defer('noop', '{}', '{\"priority\": 1}') from generate_series(1, 300)")
    log = check(db, "--runners", str(RUNNERS), "--batch", "1000")
    assert log.count("alert: function crash is paused: its last ") == 1
    crashed = db.one("select count(*) from deferred.__deferred_log where outcome = 'crashed'")
    assert 20 <= crashed <= 20 + RUNNERS
    assert db.hot() == len(jobs) - (crashed if attempts == 1 else 0)
    assert db.one("select count(*) from deferred.__deferred_log where outcome = 'ok'") == 300
    assert db.one("select count(*) from deferred.__deferred_hot where receipt is not null") == 0
    assert db.one("select count(*) from deferred.check_ledger()") == 0


def test_without_a_breaker_no_function_is_paused(db):
    db.config("breaker { crashes = 0 }")
    for _ in range(25):
        db.defer("crash", max_attempts=1)
    check(db)
    assert db.hot() == 0 and db.one("select count(*) from deferred.__deferred_function") == 0


def test_several_workers_count_crashes_together(db):
    db.config("breaker { retry = 1h }")
    service = ["check_deferred", "--loop", "--listen", "--runners", "1", "--pidfile"]
    workers = [db.spawn([*service, f"{db.dir}/pid{i}"]) for i in range(4)]
    wait_for(lambda: db.one("select count(*) from deferred.__deferred_worker") == len(workers), what="the workers")
    db.sql("select deferred.defer('crash', '{}', '{\"max_attempts\": 1}') from generate_series(1, 40)")
    wait_for(lambda: db.sql("select 1 from deferred.__deferred_function where broken_at is not null"), what="the pause")
    begun = "select count(*) from deferred.__deferred_hot where receipt is not null"
    wait_for(lambda: db.one(begun) == 0, what="what had begun")
    for worker in workers:
        worker.signal(signal.SIGTERM)
        worker.wait(20)
    crashed = db.one("select count(*) from deferred.__deferred_log where outcome = 'crashed'")
    assert 20 <= crashed <= 20 + 2 * len(workers) and db.hot() == 40 - crashed
    assert sum(worker.output().count("alert: function crash is paused") for worker in workers) == 1


def test_a_function_that_recovers_is_not_paused_any_more(db):
    well = os.path.join(db.dir, "well")
    script = hook(db, f"#!/bin/sh\ntest -e {well} || kill -9 $$\n")
    db.config(f'breaker {{ crashes = 3 retry = 1s }}\nfunction "sick" {{ command = {{"{script}"}} }}')
    db.sql("update deferred.__deferred_folded set folded_to = now()")
    jobs = [db.defer("sick", max_attempts=1) for _ in range(40)]
    service = db.spawn(
        ["check_deferred", "--loop", "--runners", "1", "--interval-floor", "100ms", "--interval-ceiling", "100ms"]
    )
    wait_for(lambda: db.sql("select 1 from deferred.__deferred_function where broken_at is not null"), what="the pause")
    with open(well, "w"):
        pass
    wait_for(
        lambda: db.sql("select 1 from deferred.__deferred_log where outcome = 'ok'"), what="a trial that ends well"
    )
    service.signal(signal.SIGTERM)
    service.wait(20)
    assert 0 < db.hot() < len(jobs) - 3
    db.sql("update deferred.__deferred_function set broken_at = broken_at - interval '12 min'")
    ago(db)
    assert db.run(["check_deferred", "--cnt", "1"]).returncode == 0
    assert db.one("select count(*) from deferred.__deferred_function") == 0, "its limits are gone"
    check(db)
    outcomes = dict(db.sql("select outcome, count(*) from deferred.__deferred_log group by 1"))
    assert db.hot() == 0 and outcomes["ok"] == len(jobs) - outcomes["crashed"]


def test_a_wrong_setting_is_named(db):
    for text, says in (
        ('alert { command = "hook" }', "setting 'alert.command': value 'hook' is not an absolute path"),
        ('alert { late_queues = "mail" }', 'value \'mail\' is not a list such as \'mail:2min, reports:6h\''),
        ('alert { late_queues = "mail:1h, x:100d" }', "with spans up to 30d"),
        ('alert { queue = "a b" }', "value 'a b' cannot be the name of a queue"),
        ('alert { mail_to = "ops" }', "value 'ops' is not a list of addresses"),
        ('function "deferred-alert" { command = {"/bin/true"} }', "function 'deferred-alert': a name has"),
    ):
        db.config(text)
        done = db.run(["deferred", "alert"])
        assert done.returncode == 78 and says in done.stderr, done


def test_a_run_defers_what_on_dead_names_for_its_dead_job_once(db):
    assert db.run(["deferred", "queue", "set", "default", "--on-dead", "mourn"]).returncode == 0
    job = db.defer("fail", max_attempts=1)
    check(db)
    assert db.run(["deferred", "alert"]).returncode == 0
    assert db.sql("select params->>'job', params->>'outcome' from deferred.__deferred where fn = 'mourn'") == [
        (str(job), "failed")
    ]
    assert db.one("select count(*) from deferred.check_ledger()") == 0


def halted(db, how):
    """Whoever notices a death gets as far as that."""
    db.sql(
        f"create function public.halt() returns trigger language plpgsql as $$ begin {how}; return new; end $$; "
        "create trigger halt before insert on deferred.__deferred_noticed for each row execute function public.halt()"
    )


def let_go(db):
    db.sql("drop trigger halt on deferred.__deferred_noticed; drop function public.halt()")


def test_a_run_that_is_killed_between_a_death_and_its_notice_leaves_it_to_the_next_one(db):
    assert db.run(["deferred", "queue", "set", "default", "--on-dead", "mourn"]).returncode == 0
    db.sql(
        f"alter database {db.name} set client_connection_check_interval = '50ms'"
    )  # the server learns that nobody is there any more
    halted(db, "perform pg_sleep(600)")
    job = db.defer("fail", max_attempts=1)
    run = db.spawn(["check_deferred"])
    at_it = "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'"
    wait_for(lambda: db.one(at_it) == 1 or not run.alive(), 20, "it is about to notice")
    assert db.one("select state from deferred.job where id = %s", job) == "dead" and db.one(at_it) == 1
    run.kill()
    wait_for(lambda: db.one(at_it) == 0, 20, "its session is gone")
    let_go(db)
    assert (
        db.sql("select from deferred.__deferred where fn = 'mourn'")
        == []
        == db.sql("select from deferred.__deferred_noticed")
    )
    for _ in range(2):
        db.defer("noop")
        check(db)
        assert db.sql("select params->>'job' from deferred.__deferred where fn = 'mourn'") == [(str(job),)]
    assert db.one("select count(*) from deferred.check_ledger()") == 0


def test_what_cannot_be_deferred_for_a_dead_job_keeps_nobody_from_being_told_the_rest(db):
    db.config('alert { mail_to = "ops@example.org" }')
    db.sql("update deferred.__deferred_upkeep set alerts_at = '2000-01-01'")
    assert db.run(["deferred", "queue", "set", "default", "--on-dead", "mourn"]).returncode == 0
    db.sql("update deferred.__deferred_on_dead set since = '2000-01-01'")
    halted(db, "raise 'a full disk'")
    db.defer("fail", max_attempts=1)
    assert "on_dead: calls for dead jobs could not be deferred, the next run tries again: a full disk" in check(db)
    ago(db)
    done = db.run(["deferred", "--json", "alert"])
    assert (
        done.returncode != 0
        and "a full disk" in done.stderr
        and [a["name"] for a in json.loads(done.stdout)] == ["fail"]
    )
    let_go(db)
    assert (
        db.run(["deferred", "alert"]).returncode == 0
        and db.one("select count(*) from deferred.__deferred where fn = 'mourn'") == 1
    )


@pytest.mark.slow
def test_nor_does_it_keep_a_service_from_telling(db):
    db.config("breaker { crashes = 0 }")
    db.sql("update deferred.__deferred_folded set folded_to = now()")
    assert db.run(["deferred", "queue", "set", "default", "--on-dead", "mourn"]).returncode == 0
    db.sql("update deferred.__deferred_on_dead set since = '2000-01-01'")
    halted(db, "raise 'a full disk'")
    for _ in range(3):
        db.defer("crash", max_attempts=1)
    check(db)
    ago(db, 2)
    db.config("breaker { crashes = 3 retry = 1h }")
    service = db.spawn(["check_deferred", "--loop", "--interval-floor", "100ms", "--interval-ceiling", "100ms"])
    wait_for(lambda: "alert: function crash is paused" in service.output(), what="the pause")
    refused = "on_dead: calls for dead jobs could not be deferred, trying again after housekeeping: a full disk"
    assert refused in service.output()
    service.signal(signal.SIGTERM)
    service.wait(20)
    let_go(db)


def test_who_is_removed_names_nothing_any_more(db):
    for kind, name in (("queue", "mail"), ("function", "fail")):
        assert (
            db.run(
                ["deferred", kind, "set", name, "--on-dead", "mourn", *(["--create"] if kind == "queue" else [])]
            ).returncode
            == 0
        )
    assert db.sql("select kind, name from deferred.__deferred_on_dead order by 1") == [
        ("function", "fail"),
        ("queue", "mail"),
    ]
    assert db.run(["deferred", "queue", "rm", "mail"]).returncode == 0 and db.sql(
        "select kind from deferred.__deferred_on_dead"
    ) == [("function",)]
    assert (
        db.run(["deferred", "function", "rm", "fail"]).returncode == 0
        and db.sql("select kind from deferred.__deferred_on_dead") == []
    )
    # What comes back is new.
    assert (
        db.defer("noop", queue="mail")
        and json.loads(db.run(["deferred", "--json", "queue", "ls", "mail"]).stdout)[0]["on_dead"] is None
    )


def test_another_host_tells_that_no_worker_lives_and_needs_only_the_database(db, watcher):
    """The other host has no config file, plugins or pidfile, and its login has the rights of a worker.
    It reports each problem once."""
    away = {name: value for name, value in db.env.items() if not name.startswith("DEFERRED_")}

    def alert(*args):
        """A minute after the last one."""
        db.sql(
            "update deferred.__deferred_upkeep set alerts_at = alerts_at - interval '1 minute', "
            "breakers_at = breakers_at - interval '1 minute'"
        )
        done = run(
            ["deferred", "--db", f"{db.conninfo} user={watcher}", "alert", *args],
            env={**away, "DEFERRED_CONFIG": "/dev/null"},
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    db.sql(
        "insert into deferred.__deferred_worker (instance, host, pid, version, started_at, seen_at, mode) "
        "values ('a:/run/x#1.2@boot', 'a', 1, '1', now() - interval '3 hours', now() - interval '2 hours', 'loop')"
    )
    db.defer("noop")
    assert alert("--print") == ""  # it has only just come
    db.sql("update deferred.__deferred_hot set visible_at = now() - interval '20 minutes', due_at = null")
    db.sql("update deferred.__deferred_folded set sampled_at = now() - interval '2 minutes'")
    assert alert() == ""  # nobody wants to be told
    told = alert("--print")
    assert re.fullmatch(
        r"no worker serves queue default: 1 job waits in it, the first for 2\dmin\n    do: deferred why --queue "
        r"default\n",
        told,
    ), told
    assert alert("--print") == "" and db.hot() == 1  # no job has to be run for it
    assert "do: deferred why --queue default" in alert("--list")
    check(db)
    db.sql("update deferred.__deferred_folded set sampled_at = now() - interval '2 minutes'")
    assert alert("--print") == "" and alert("--list") == ""
    done = db.run(["deferred", "alert", "--list", "--print"])
    assert done.returncode == 64 and "option '--list' contradicts option '--print'" in done.stderr


@pytest.fixture
def watcher(db, admin):
    name = f"watch_{os.getpid()}"
    admin.execute(f"create role {name} login in role deferred_worker")
    yield name
    admin.execute(f"drop role {name}")
