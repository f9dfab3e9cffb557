"""The command `deferred` against a real server: every command, its text, its JSON, its exit codes."""

import contextlib
import csv
import json
import os
import pty
import re
import signal

import psycopg2
import pytest

import documents
import pg
from harness import WAITING, wait_for
from job_options import SPANS, STORED, TOGETHER, VALUES

OK, NOT_DONE, USAGE, DATA, UNAVAILABLE, NOPERM, CONFIG = 0, 1, 64, 65, 69, 77, 78


def ok(result):
    assert (result.returncode, result.stderr) == (OK, ""), result
    return result.stdout


def fails(result, code, *texts):
    """The command failed with this code, said these texts, and nothing on standard output."""
    assert result.returncode == code, result
    assert result.stderr.startswith("deferred: "), result.stderr
    for text in texts:
        assert text in result.stderr
    assert result.stdout == ""


def end(db, job, outcome="ok", error=None, attempt=1, age="0 seconds", final=True, **columns):
    """What a worker would have recorded, that long ago."""
    if final:
        db.sql("delete from deferred.__deferred_hot where id = %s", job)
    names = "".join(f", {name}" for name in columns)
    db.sql(
        f"insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, finished_at{names}) "
        f"values (%s, %s, %s, %s, %s, now() - %s::interval - interval '1 second', now() - "
        f"%s::interval{', %s' * len(columns)})",
        job,
        attempt,
        outcome,
        final,
        error,
        age,
        age,
        *columns.values(),
    )


def login(db, *roles):
    """A role that may log in and has these roles only; its environment."""
    name = "login_" + "_".join(roles) + "_" + str(os.getpid())
    db.sql(f"drop role if exists {name}")
    db.sql(f"create role {name} login")
    for role in roles:
        db.sql(f"grant {role} to {name}")
    return name, {"DEFERRED_DB": f"{db.conninfo} user={name}"}


# ---- usage


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["lss"],
        ["--frobnicate"],
        ["--db"],
        ["ls", "--frobnicate"],
        ["ls", "extra"],
        ["ls", "--state", "asleep"],
        ["ls", "--limit", "0"],
        ["ls", "--limit", "ten"],
        ["ls", *["--tag", "x"] * 33],
        ["ls", "--after", "0"],
        ["ls", "--running", "--label", "x"],
        ["ls", "--running", "--after", "1"],
        ["show"],
        ["show", "1", "2"],
        ["show", "x"],
        ["show", "-1"],
        ["show", "0"],
        ["show", "99999999999999999999"],
        ["cancel"],
        ["cancel", "1x"],
        ["retry"],
        ["retry", " 1"],
        ["retry"],
        ["retry", "--dry-run"],
        ["cancel", "--dry-run", "1"],
        ["retry", "--fn", "noop", "1"],
        ["retry", "--state", "ready"],
        ["retry", "--state", "done"],
        ["cancel", "--state", "dead"],
        ["cancel", "--fn"],
        ["purge"],
        ["purge", "--older-than", "x"],
        ["purge", "--older-than", "-1d"],
        ["purge", "--older-than", "1d", "--batch", "0"],
        ["status", "x"],
        ["migrate", "x"],
        ["migrate", "--owner", "x"],
        ["migrate", "--print-roles", "--dry-run"],
        ["migrate", "--print-roles", "--json"],
        ["migrate", "--print-roles", "--owner", ""],
        ["migrate", "--print-roles", "--owner", "é" * 32],
        ["add"],
        ["add", "noop", "{}", "x"],
        ["add", "noop", "--priority", "32768"],
        ["add", "noop", "--delay", "soon"],
        ["add", "noop", "--on-duplicate", "ignore"],
        ["add", "noop", "--max-attempts", "0"],
        ["add", "--stdin", "noop"],
        ["add", "--stdin", "--queue", "q"],
    ],
)
def test_wrong_usage_ends_with_64_before_anything_is_touched(run, args):
    result = run(["deferred", *args], env={"DEFERRED_DB": "host=/nonexistent"})
    assert result.returncode == USAGE
    if args:
        assert re.fullmatch(r"deferred: .+\nhint: .+\n", result.stderr), result.stderr
    else:
        assert result.stderr.startswith("usage: deferred ")
    assert result.stdout == ""


@pytest.mark.parametrize(
    "args, text",
    [
        (["--frobnicate"], "option '--frobnicate' is unknown"),
        (["-x"], "option '-x' is unknown"),
        (["--db"], "option '--db' needs a value"),
        (["--json=1"], "option '--json' takes no value"),
        (["lss"], "command 'lss' is unknown"),
        (["help", "lss"], "topic 'lss' is unknown"),
        (["show", "-5"], "option '-5' is unknown"),
        (["show", "-51"], "option '-51' is unknown"),
        (["show", "--json", "-51"], "option '-51' is unknown"),
        (["ls", "--queue"], "option '--queue' needs a value"),
        (["ls", "--running=1"], "option '--running' takes no value"),
        (["ls", "--frobnicate=1"], "option '--frobnicate=1' is unknown"),
        (["function"], "argument is missing: one of ls, set, rm and resume"),
        (["account"], "argument is missing: one of add, ls, rotate, enable, disable, allow, disallow and rm"),
        (["queue"], "argument is missing: one of ls, patterns, set, pause, resume, clear and rm"),
        (["rule"], "argument is missing: one of add, ls, test, run and rm"),
        (["queue", "sell"], "argument 'sell' is not one of ls, patterns, set, pause, resume, clear and rm"),
        (["function", "sell"], "argument 'sell' is not one of ls, set, rm and resume"),
        (["rule", "sell"], "argument 'sell' is not one of add, ls, test, run and rm"),
        (["add"], "argument FUNCTION is missing"),
        (["run"], "argument FUNCTION is missing"),
        (["add", "f", "{}", "maail"], "argument 'maail' is not expected"),
        (["run", "f", "{}", "maail"], "argument 'maail' is not expected"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(run, args, text):
    result = run(["deferred", *args])
    assert (result.returncode, result.stderr.splitlines()[0]) == (USAGE, "deferred: " + text)


def test_help_and_version_need_no_server(run):
    assert "migrate" in ok(run(["deferred", "--help"]))
    assert re.fullmatch(r"deferred \d+\.\d+\.\d+( \(commit [\w-]+\))?\n", ok(run(["deferred", "--version"])))
    for command in "migrate add ls show cancel retry run purge status queue function".split():
        told = ok(run(["deferred", command, "--help"]))
        assert told.startswith(f"usage: deferred {command}") and not re.search(r" $", told, re.M)
        assert told == ok(run(["deferred", command, "-h"])) == ok(run(["deferred", "help", command]))
    assert ok(run(["deferred", "--help"])) == ok(run(["deferred", "-h"])) == ok(run(["deferred", "help"]))


# ---- server, config and schema


@pytest.mark.parametrize(
    "args",
    [
        ["migrate"],
        ["add", "noop"],
        ["add", "--stdin"],
        ["ls"],
        ["show", "1"],
        ["cancel", "1"],
        ["retry", "1"],
        ["purge", "--older-than", "1d"],
        ["status"],
    ],
)
def test_an_unreachable_server_ends_with_69(db, args):
    fails(db.run(["deferred", "--db", "host=/nonexistent", *args], input=""), UNAVAILABLE, "cannot connect", "hint: ")


@pytest.mark.parametrize("args", [["add", "noop"], ["ls"], ["purge", "--older-than", "1d"]])
def test_a_schema_this_program_does_not_know_ends_with_78(db, args):
    db.sql(
        "update deferred.__deferred_migration set version = 999, oldest = 999 "
        "where version = (select max(version) from deferred.__deferred_migration)"
    )
    fails(db.run(["deferred", *args]), CONFIG, "999")
    db.sql("drop schema deferred cascade")
    fails(db.run(["deferred", *args]), CONFIG, "deferred migrate")


def test_a_wrong_config_file_ends_with_78_and_names_the_line(db):
    db.config("cnt = 1\ncntt = 1\n")
    for args in (["ls"], ["add", "noop"]):
        fails(db.run(["deferred", *args]), CONFIG, f"{db.config_file}:2: setting 'cntt' is unknown")
    fails(db.run(["deferred", "--config", "/nonexistent", "ls"]), CONFIG, "'/nonexistent' does not exist")
    fails(db.run(["deferred", "--config", "/nonexistent", "add", "noop"]), CONFIG, "'/nonexistent'")


def test_the_connection_is_that_of_the_option_then_the_environment_then_the_file(db):
    job = db.defer("noop")
    db.config(f'database {{ conninfo = "{db.conninfo}" }}\n')
    assert json.loads(ok(db.run(["deferred", "ls", "--json"], env={"DEFERRED_DB": ""})))[0]["id"] == job
    fails(db.run(["deferred", "ls"], env={"DEFERRED_DB": "host=/nonexistent"}), UNAVAILABLE)
    for args in (["--db", db.conninfo, "ls", "--json"], ["ls", "--json", "--db", db.conninfo]):
        assert json.loads(ok(db.run(["deferred", *args], env={"DEFERRED_DB": "host=/nonexistent"})))[0]["id"] == job


# ---- migrate


def test_migrate_brings_an_empty_database_up_once(db):
    db.sql("drop schema deferred cascade")
    plan = ok(db.run(["deferred", "migrate", "--dry-run"]))
    assert "create schema deferred" in plan and "\nset local lock_timeout = 1000;\n" in plan
    assert db.one("select to_regnamespace('deferred')") is None
    said = ok(db.run(["deferred", "migrate"]))
    assert re.fullmatch(r"migration 1: tables\nmigration 2: jobs\n\d+ functions and views\n", said)
    version = db.one("select max(version) from deferred.__deferred_migration")
    assert ok(db.run(["deferred", "migrate"])) == f"nothing to do: the schema has version {version}\n"
    assert json.loads(ok(db.run(["deferred", "migrate", "--json"]))) == {"applied": [], "version": version}
    assert ok(db.run(["deferred", "migrate", "--dry-run"])) == ""


def test_what_dry_run_prints_does_the_same_in_psql(db, run):
    db.sql("drop schema deferred cascade")
    plan = ok(db.run(["deferred", "migrate", "--dry-run"]))
    result = run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", db.conninfo], input=plan)
    assert result.returncode == 0, result.stderr
    assert "nothing to do" in ok(db.run(["deferred", "migrate"]))
    ok(db.run(["deferred", "add", "noop"]))


def test_migrate_tells_only_of_what_was_committed(db):
    name, env = login(db)
    dbname = db.one("select current_database()")
    try:
        db.sql("drop schema deferred cascade")
        result = db.run(["deferred", "migrate"], env=env)
        assert (result.returncode, result.stdout) == (NOPERM, "") and "migration 1 'tables': " in result.stderr
        say = re.search(r"^hint: migrate as a superuser, or have one run: (.*)$", result.stderr, re.M).group(1)
        assert say == f"grant deferred_owner to {name}; grant create on database {dbname} to {name}"
        result = db.run(["deferred", "migrate", "--json"], env=env)
        assert (result.returncode, json.loads(result.stdout)) == (NOPERM, {"applied": [], "version": 0})
        db.sql(say)
        result = db.run(["deferred", "migrate"], env=env)  # what was said is enough
        assert result.returncode == OK and result.stdout.startswith("migration 1: tables\n")
    finally:
        db.sql(f"drop owned by {name}; drop role {name}")


def test_nobody_without_rights_holds_up_a_migration(db):
    """An advisory lock is for anybody who can connect; a lock on a table waits no longer than it is told to."""
    name, env = login(db)
    with db.connect(user=name) as other, other.cursor() as cursor:
        cursor.execute("select pg_advisory_lock(hashtextextended('deferred.migrate', 0))")
        db.sql("drop function deferred.__age_s(timestamptz) cascade")
        assert "functions and views" in ok(db.run(["deferred", "migrate"], timeout=30))
    db.sql(f"drop role {name}")
    with db.connect(application_name="importer") as other, other.cursor() as cursor:
        cursor.execute("lock table deferred.__deferred_migration in share mode")
        holder = f"session {other.info.backend_pid} of {other.info.user} (importer), idle in transaction for"
        fails(db.run(["deferred", "--lock-timeout", "10ms", "migrate"], timeout=30), 75, "lock timeout", holder)
    assert "nothing to do" in ok(db.run(["deferred", "migrate"]))


def long_writer(db):
    """A producer whose transaction has stored a job and goes on."""
    other = db.connect(application_name="importer")
    other.cursor().execute("select deferred.defer('noop')")
    return other


LOCK_THE_JOBS = "lock table deferred.__deferred_hot in access exclusive mode;"  # as `alter table` does


def prepare_migration(db, does):
    """The next migration applies a function, and does this too."""
    db.sql(
        f"""create function public.migration() returns event_trigger language plpgsql security definer
            as $$ begin {does} end $$;
            create event trigger migration on ddl_command_end when tag in ('CREATE FUNCTION')
                execute function public.migration();
            update deferred.__deferred_source set checksum = 'older' where name = 'functions/state'"""
    )


def test_producers_go_on_while_a_migration_waits_for_a_long_transaction(db):
    prepare_migration(db, LOCK_THE_JOBS)
    waits = (
        "select count(*) from pg_stat_activity where datname = current_database() "
        "and application_name = 'deferred' and wait_event_type = 'Lock'"
    )
    with contextlib.closing(long_writer(db)) as importer:
        migrate = db.spawn(["deferred", "--lock-timeout", "200ms", "migrate"])
        for _ in range(3):  # each of these stores its job behind a migration that waits
            wait_for(lambda: db.one(waits), 20)
            db.defer("noop")
        assert migrate.alive(), migrate.output()
        importer.commit()
        assert migrate.wait(20) == OK, migrate.output()
    assert "1 functions and views" in migrate.output() and db.hot() == 4


def test_a_migration_gives_up_and_names_the_transaction_that_it_waits_for(db):
    prepare_migration(db, LOCK_THE_JOBS)
    with contextlib.closing(long_writer(db)) as importer:
        holder = f"session {importer.info.backend_pid} of {importer.info.user} (importer), idle in transaction for"
        result = db.run(["deferred", "--lock-timeout", "10ms", "migrate"])
        fails(
            result,
            75,
            "functions/state: ",
            "lock timeout",
            "nothing has been changed",
            f"hint: wait for, or end: {holder}",
        )
        assert db.one("select checksum from deferred.__deferred_source where name = 'functions/state'") == "older"
    ok(db.run(["deferred", "migrate"]))


def test_a_migration_that_lost_a_deadlock_starts_again(db):
    db.sql("create sequence public.tries")
    prepare_migration(
        db, "if nextval('public.tries') < 3 then raise 'lost' using errcode = 'deadlock_detected'; end if;"
    )
    assert "1 functions and views" in ok(db.run(["deferred", "migrate"]))
    assert db.one("select last_value from public.tries") == 3


def test_migrate_leaves_a_newer_database_alone_that_fits_this_program(db):
    db.sql("insert into deferred.__deferred_migration (version, name, oldest) values (999, 'future', 1)")
    db.sql("create function deferred.future() returns int language sql as 'select 1'")
    db.sql("update deferred.__deferred_source set checksum = 'newer' where name = 'functions/state'")
    said = "nothing to do: the schema has version 999, newer than this program, which works with it\n"
    assert ok(db.run(["deferred", "migrate"])) == said
    assert ok(db.run(["deferred", "migrate", "--dry-run"])) == ""
    assert db.one("select checksum from deferred.__deferred_source where name = 'functions/state'") == "newer"
    assert db.one("select deferred.future()") == 1
    job = ok(db.run(["deferred", "add", "noop"]))
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == OK
    assert db.log(int(job)) == [(1, "ok")]
    db.sql("insert into deferred.__deferred_migration (version, name, oldest) values (1000, 'its future', 999)")
    for args in ["deferred", "migrate"], ["deferred", "add", "noop"], ["check_deferred"]:
        refused = db.run(args)
        assert refused.returncode == CONFIG and "version 1000, but this program works with" in refused.stderr
        assert "hint: install" in refused.stderr


def test_migrate_refuses_a_newer_database(db):
    db.sql("insert into deferred.__deferred_migration (version, name) values (999, 'future')")
    fails(db.run(["deferred", "migrate"]), CONFIG, "version 999", "hint: install")


# ---- add


def test_add_prints_the_id_and_nothing_else(db):
    assert ok(db.run(["deferred", "add", "noop"])) == "1\n"
    assert json.loads(ok(db.run(["deferred", "--json", "add", "noop"]))) == {"id": 2}
    assert db.sql("select fn, queue, params::text from deferred.__deferred where id = 1") == [("noop", "default", "{}")]


def test_every_option_of_add_lands_in_the_row(db):
    ok(
        db.run(
            [
                "deferred",
                "add",
                "send_mail",
                '{"b": 1.10, "b": 18446744073709551615}',
                "--queue",
                "mail",
                "--label",
                "hé llo",
                "--priority",
                "-7",
                "--delay",
                "1.5h",
                "--expires",
                "2d",
                "--key",
                "k",
                "--max-attempts",
                "3",
                "--timeout",
                "10s",
            ]
        )
    )
    assert (
        db.sql(
            """select queue, label, priority, key, max_attempts, timeout_ms, params::text,
                     abs(extract(epoch from run_at - created_at) - 5400) < 1, abs(extract(epoch
                     from expires_at - created_at) - 172800) < 1
                     from deferred.__deferred"""
        )
        == [("mail", "hé llo", -7, "k", 3, 10000, '{"b": 1.10, "b": 18446744073709551615}', True, True)]
    )
    ok(db.run(["deferred", "add", "noop", "--run-at", "2100-01-01 00:00:00+00"]))
    assert db.one("select run_at = '2100-01-01 00:00:00+00' from deferred.__deferred where id = 2")


def test_a_key_is_skipped_refused_or_replaced(db):
    add = ["deferred", "add", "noop", "--key", "k"]
    first = ok(db.run(add))
    assert ok(db.run(add)) == first
    fails(db.run([*add, "--on-duplicate", "error"]), NOT_DONE, "has key 'k' already")
    second = ok(db.run([*add, "--on-duplicate", "replace"]))
    assert second != first
    assert db.sql("select id::text from deferred.__deferred_hot") == [(second.strip(),)]


def test_a_waiting_job_is_updated(db):
    add = ["deferred", "add", "noop", "--key", "k", "--on-duplicate", "update"]
    first = ok(db.run([*add, "--key-until", "1h"]))
    assert ok(db.run([*add, "--delay", "1h", "--label", "later", "--key-until", "end"])) == first
    assert db.sql("select label, state, key from deferred.job") == [("later", "delayed", "k")]
    assert ok(db.run([*add])) == first
    assert db.run(["check_deferred"]).returncode == 0
    assert ok(db.run(["deferred", "add", "noop", "--key", "k", "--key-until", "start"])) == first
    fails(db.run(add), NOT_DONE, "job 1 of queue 'default' has ended and keeps key 'k' until")
    for what in ("show", "why"):
        assert re.search(r"key is +held until 2\d{3}-", ok(db.run(["deferred", what, first.strip()])))
    shown = json.loads(ok(db.run(["deferred", "show", first.strip(), "--json"])))
    assert shown["key_until_ms"] == 3600000 and shown["key_state"].startswith("held until 2")
    fails(db.run(["deferred", "add", "noop", "--key", "k", "--key-until", "never"]), USAGE, "use end, start or a span")
    fails(db.run(["deferred", "add", "noop", "--key", "k", "--key-until", "5"]), USAGE, "'--key-until'")
    fails(db.run(["deferred", "add", "noop", "--key-until", "start"]), DATA, "'key' is missing")


@pytest.mark.parametrize(
    "until, state",
    [
        ("end", "held until the job has ended"),
        ("start", "held until the first attempt starts"),
        ("10min", "held until 00:10:00 after the end of the job"),
    ],
)
def test_the_state_of_a_key_is_shown(db, until, state):
    job = ok(db.run(["deferred", "add", "noop", "--key", "k", "--key-until", until])).strip()
    assert f"key is      {state}\n" in ok(db.run(["deferred", "show", job]))
    assert f"its key is {state}\n" in ok(db.run(["deferred", "why", job]))
    db.hold(int(job))
    other = int(ok(db.run(["deferred", "add", "noop", "--key", "k", "--key-until", until])))
    assert (f"key is      held by job {other}\n" in ok(db.run(["deferred", "show", job]))) == (until == "start")
    db.sql("delete from deferred.__deferred_key")
    db.sql("delete from deferred.__deferred_hot")
    assert "key is      free\n" in ok(db.run(["deferred", "show", job]))


@pytest.mark.parametrize(
    "args, text",
    [
        (["noop", "{x"], "after '{x': "),
        (["noop", ""], "such as {\"id\": 17}"),
        (["noop", "[" * 1000], "nested deeper"),
        (["noop", b'"\xff"'], "invalid JSON"),
        (["no op"], "function"),
        ([""], "function"),
        (["noop", "--queue", "a b"], "queue"),
        (["noop", '"' + "x" * 100000 + '" "'], "invalid JSON"),
    ],
)
def test_wrong_data_ends_with_65_and_stores_nothing(db, args, text):
    fails(db.run(["deferred", "add", *args]), DATA, text)
    assert db.one("select count(*) from deferred.__deferred") == 0


def test_a_time_that_is_none_is_wrong_use_and_stores_nothing(db):
    fails(
        db.run(["deferred", "add", "noop", "--run-at", "whenever"]),
        USAGE,
        "option '--run-at': value 'whenever' is not a time",
    )
    assert db.one("select count(*) from deferred.__deferred") == 0


def test_params_are_read_from_standard_input_in_place_of_a_dash(db):
    given = '{"text":  "' + "ü" * 300000 + '"}'  # longer than an argument may be
    assert ok(db.run(["deferred", "add", "noop", "-", "--delay", "1 day 00:30:00"], input=given + "\r\n\n")) == "1\n"
    assert db.sql("select params::text, run_at > now() + '24 h' from deferred.__deferred") == [(given, True)]
    for text, says in (
        ("", "standard input is empty"),
        ("{\0}", "standard input has a NUL byte"),
        ("{x", "after '{x': "),
        ("\n", "such as {"),
    ):
        fails(db.run(["deferred", "add", "noop", "-"], input=text), DATA, says)
    fails(db.run(["deferred", "add", "noop", "--delay", "5 parsecs"]), USAGE, "'5 parsecs'", "5s", "5 minutes")
    assert db.hot() == 1


def test_add_stdin_stores_each_line_in_order(db):
    lines = [
        '{"fn": "noop", "params": {"b": 1.10,  "b": 2, "big": 18446744073709551615, "e": 1e400}}',
        "",
        "   ",
        '  {"fn": "append", "queue": "q", "delay": "1h", "label": "x", "max_attempts": 3, "params": "\\u00e9"}\r',
        '{"fn": "noop", "priority": 5, "key": "k", "timeout": 1.5}',
    ]
    ids = ok(db.run(["deferred", "add", "--stdin"], input="\n".join(lines))).split()
    assert ids == ["1", "2", "3"]
    assert db.sql(
        "select params::text, queue, label, max_attempts, priority, timeout_ms from deferred.__deferred order by id"
    ) == [
        ('{"b": 1.10,  "b": 2, "big": 18446744073709551615, "e": 1e400}', "default", None, None, 0, None),
        ('"\\u00e9"', "q", "x", 3, 0, None),
        ("{}", "default", None, None, 5, 1500),
    ]


def test_add_stdin_takes_more_lines_than_a_chunk(db):
    ids = json.loads(ok(db.run(["deferred", "add", "--stdin", "--json"], input='{"fn": "noop"}\n' * 2500)))
    assert ids == list(range(1, 2501))
    assert db.hot() == 2500


def test_add_stdin_of_nothing_stores_nothing(db):
    assert ok(db.run(["deferred", "add", "--stdin"], input="")) == ""
    assert ok(db.run(["deferred", "add", "--stdin"], input="\n\n")) == ""


@pytest.mark.parametrize(
    "bad, text",
    [
        ('{"fn": "noop"', "invalid JSON"),
        ("[]", "no JSON object: []\nhint: a line is such as {"),
        ("é" * 50, "invalid JSON"),
        ('"' + "é" * 50 + '"', 'no JSON object: "' + "é" * 29 + "...\n"),
        ('{"fn": "no op"}', "function name 'no op' is invalid"),
        ("{}", "the function is missing"),
        (
            '{"fn": "noop", "quue": "q"}',
            "option 'quue' is unknown\nhint: known besides fn and params: queue, label, priority, ",
        ),
        ('{"fn": "noop", "delay": "soon"}', "'soon' is not a time span"),
        ('{"fn": "noop", "priority": "high"}', "high"),
        ('{"fn": "noop", "params": "a\0b"}', "NUL byte"),
        ('{"fn": "noop"} {"fn": "noop"}', "invalid JSON"),
        ('{"fn": "noop", "params": "' + "x" * 1100000 + '"}', "bytes"),
    ],
    ids=lambda value: repr(value)[:40],
)
@pytest.mark.parametrize("before", [2, 1499])
def test_a_bad_line_is_named_and_nothing_at_all_is_stored(db, bad, text, before):
    good = '{"fn": "noop"}\n'
    fails(
        db.run(["deferred", "add", "--stdin"], input=good * before + bad + "\n" + good * 3),
        DATA,
        f"line {before + 1}: ",
        text,
    )
    assert db.one("select count(*) from deferred.__deferred") == 0


def test_invalid_utf8_in_a_line_is_refused(db):
    result = db.run(["deferred", "add", "--stdin"], input=b'{"fn": "noop", "params": "\xff"}\n')
    assert result.returncode == DATA and b"line 1: invalid JSON" in result.stderr


def test_progress_is_shown_on_a_terminal_only(db):
    path = os.path.join(db.dir, "lines")
    with open(path, "w") as f:
        f.write('{"fn": "noop"}\n' * 10)
    ours, theirs = pty.openpty()
    with open(path) as f:
        result = db.run(["deferred", "add", "--stdin"], stdin=f, stderr=theirs)
    os.close(theirs)
    shown = os.read(ours, 4096).decode()
    os.close(ours)
    assert result.returncode == OK and len(result.stdout.split()) == 10
    assert "[########################################] 100%  10 jobs" in shown


# ---- ls and show


def test_ls_lists_hot_jobs_oldest_first(db):
    assert ok(db.run(["deferred", "ls"])) == ""
    assert json.loads(ok(db.run(["deferred", "ls", "--json"]))) == []
    db.defer("noop", label="first")
    db.defer("append", queue="q", delay="2h")
    done = db.defer("noop")
    end(db, done)
    header, first, second = ok(db.run(["deferred", "ls"])).splitlines()
    assert header.split() == "ID STATE QUEUE FUNCTION PRIO TRIES AGE WHEN LAST LABEL".split()
    assert first.split()[:6] == ["1", "ready", "default", "noop", "0", "0"] and first.endswith("first")
    assert second.split()[:4] == ["2", "delayed", "q", "append"] and re.search(r" in (119min|2h)", second)
    jobs = json.loads(ok(db.run(["deferred", "ls", "--json"])))
    assert [(j["id"], j["state"], j["fn"]) for j in jobs] == [(1, "ready", "noop"), (2, "delayed", "append")]
    assert set(jobs[0]) == set(
        "id queue fn label key priority created_at created_by state attempt visible_at worker started_at "
        "finished_at last_outcome concurrency_key limited rule tags traceparent held_by".split()
    )


def test_ls_filters_by_state_queue_function_and_limit(db):
    for i in range(5):
        db.defer("noop", queue="a")
    db.defer("append", queue="a")
    db.defer("noop", queue="b", delay="1h")
    db.hold(2)

    def ids(*args):
        return [j["id"] for j in json.loads(ok(db.run(["deferred", "ls", "--json", *args])))]

    assert ids("--queue", "a") == [1, 2, 3, 4, 5, 6]
    assert ids("--fn", "append") == [6]
    assert ids("--queue", "a", "--limit", "2") == [1, 2]
    assert ids("--state", "claimed") == [2]
    assert ids("--state", "delayed") == [7]
    assert ids("--state", "ready", "--fn", "noop") == [1, 3, 4, 5]
    assert ids("--queue", "none") == []

    db.sql(
        "update deferred.__deferred set created_at = now() - interval '3 days', label = 'old', rule = 'r', "
        "created_by = 'her' where id in (1, 7)"
    )
    db.defer("noop", key="k", queue="b")
    for args, expected in (
        (["--label", "old"], [1, 7]),
        (["--label", "ol"], []),
        (["--rule", "r", "--queue", "b"], [7]),
        (["--key", "k"], [8]),
        (["--by", "her"], [1, 7]),
        (["--until", "2d"], [1, 7]),
        (["--since", "2d"], [2, 3, 4, 5, 6, 8]),
        (["--since", "2020-01-01", "--until", "yesterday"], [1, 7]),
        (["--since", "1h", "--until", "1 minute"], []),
    ):
        assert ids(*args) == expected, args
    for args, says in (
        (["--since", "soon"], "option '--since': value 'soon' is not a time"),
        (["--until", "soon"], "option '--until': value 'soon' is not a time"),
        (["--since", "2020-01-01", "--until", "soon"], "option '--until': value 'soon' is not a time"),
        (["--since", "late", "--until", "soon"], "option '--since': value 'late' is not a time"),
        (["--since", "late", "--until", "1h"], "option '--since': value 'late' is not a time"),
    ):
        fails(db.run(["deferred", "ls", *args]), USAGE, says)
    assert re.search(r"^rule +r$", ok(db.run(["deferred", "show", 1])), re.M)


def test_jobs_are_chosen_by_the_time_they_ended(db):
    """Deferred long ago and failed yesterday, or the other way round: the end alone counts. An end at the first
    moment fits, and one at the last does not. A job that has not ended never fits."""
    old, late, early, well, waits, gone = (db.defer("noop", queue="a") for _ in range(6))
    for job, outcome, when in (
        (early, "failed", "2026-03-01 23:59:59.9"),
        (old, "failed", "2026-03-02"),
        (well, "ok", "2026-03-02 12:00"),
        (gone, "cancelled", "2026-03-02 12:00"),
        (late, "crashed", "2026-03-03"),
    ):
        end(db, job, outcome)
        db.sql("update deferred.__deferred_log set finished_at = %s where job_id = %s", when, job)
    db.sql("update deferred.__deferred set created_at = '2026-01-01'")
    day = ["--ended-since", "2026-03-02", "--ended-until", "2026-03-03"]

    def ids(*args):
        return [j["id"] for j in json.loads(ok(db.run(["deferred", "ls", "--json", *args])))]

    assert ids("--state", "dead", *day) == [old]
    assert ids("--state", "done", *day) == [well]
    assert ids("--state", "cancelled", *day) == [gone]
    assert ids("--state", "dead", "--ended-since", "2026-03-02") == [late, old]
    assert ids("--state", "dead", "--ended-until", "2026-03-02") == [early]
    assert ids("--state", "done", "--ended-until", "2026-03-02") == []
    assert ids("--state", "dead", "--ended-since", "1h") == []
    assert ids("--state", "dead", "--since", "1h", *day) == []
    assert ids("--state", "dead", "--since", "2025-12-31", *day) == [old]
    for state in ([], ["--state", "ready"]):
        fails(db.run(["deferred", "ls", *state, "--ended-since", "1h"]), USAGE, "needs a state", "use --state with")
    fails(
        db.run(["deferred", "ls", "--state", "dead", "--ended-since", "1h", "--ended-until", "soon"]),
        USAGE,
        "option '--ended-until': value 'soon' is not a time",
    )
    run = lambda *args: ok(db.run(["deferred", *args]))
    assert run("retry", "--dry-run", "--ended-since", "1h") == "0 jobs to retry\n"
    assert run("retry", "--dry-run", *day) == "1 job to retry\n"
    assert run("retry", "--state", "cancelled", *day) == "1 job ready\n"
    assert run("retry", *day) == "1 job ready\n"
    assert ids("--state", "ready") == [old, waits, gone]
    assert run("cancel", "--ended-since", "2020-01-01") == "0 jobs cancelled\n"
    noted = db.one("select filter from deferred.__action order by id desc limit 1")
    assert noted["ended_since"].startswith("2026-03-02") and noted["ended_until"].startswith("2026-03-03")


def test_a_step_by_the_time_of_the_end_goes_on_where_the_last_one_ended(db):
    """Several jobs end at one moment, which a step cuts in two."""
    db.sql("select deferred.defer('noop') from generate_series(1, 7)")
    db.sql("delete from deferred.__deferred_hot")
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at) "
        "select id, 1, 'failed', true, timestamptz '2026-03-01' + id / 3 * interval '1 h' from deferred.__deferred"
    )
    found, at = [], None
    while at or not found:
        ids, at = db.sql(
            "select ids, after::text from deferred.__matching('{dead}', "
            '\'{"ended_since": "2026-03-01 01:00", "ended_until": "2026-03-01 02:00"}\', %s, 2)',
            at,
        )[0]
        found.append(ids)
    assert found == [[3, 4], [5]]


def test_ls_goes_on_after_a_job(db):
    """Page by page, also among jobs that ended in one moment; and where so many were looked at that
    it stops before it has found all."""
    db.sql("select deferred.defer('noop') from generate_series(1, 12)")
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at) "
        "select id, 1, case when id < 10 then 'failed' else 'ok' end, true, now() from generate_series(5, 12) id"
    )
    db.sql("delete from deferred.__deferred_hot where id > 4")
    for args, expected in (
        ([], [1, 2, 3, 4]),
        (["--state", "dead"], [9, 8, 7, 6, 5]),
        (["--state", "done"], [12, 11, 10]),
    ):
        seen, after = [], []
        while True:
            *lines, last = ok(db.run(["deferred", "ls", *args, "--limit", 2, *after])).splitlines()
            seen += [int(line.split()[0]) for line in (*lines, last)[1:3]]
            if "--after" not in last:
                break
            after = last.split()[-2:]
            assert after == ["--after", str(seen[-1])]
        assert seen == expected
    db.sql(
        "insert into deferred.__deferred_hot (id, queue, fn, visible_at) select i, 'default', 'noop', now() "
        "from generate_series(101, 10096) i"
    )
    db.sql(
        "insert into deferred.__deferred (id, queue, fn, params, label) "
        "select i, 'default', 'noop', '{}', case when i > 10094 then 'l' end from generate_series(101, 10200) i"
    )
    db.sql(
        "insert into deferred.__deferred_hot (id, queue, fn, visible_at) select i, 'default', 'noop', now() "
        "from generate_series(10097, 10200) i"
    )
    for args in ([], ["--json"]):
        done = db.run(["deferred", "ls", "--label", "l", "--fn", "noop", "--limit", "3", *args])
        assert "--after 10097" in (done.stderr or done.stdout) or "--after 10096" in (done.stderr or done.stdout), done


@pytest.mark.slow
def test_ls_and_show_tell_what_holds_a_ready_job(db):
    for queue in ("free", "halted", "few"):
        ok(db.run(["deferred", "queue", "set", queue, "--create", *(["--max-running", "1"] if queue == "few" else [])]))
    free, held, limited, both, later = (
        db.defer(fn, queue=queue, **opts)
        for fn, queue, opts in (
            ("noop", "free", {}),
            ("noop", "halted", {}),
            ("echo", "few", {"concurrency_key": "o'k"}),
            ("noop", "few", {}),
            ("noop", "halted", {"delay": "1h"}),
        )
    )
    ok(db.run(["deferred", "function", "set", "echo", "--rate", "1/s"]))
    ok(db.run(["deferred", "queue", "pause", "halted"]))

    def told(job):
        lines = ok(db.run(["deferred", "show", job])).splitlines()
        return [line.split(None, 2)[2] for line in lines if line.startswith("held by ")], json.loads(
            ok(db.run(["deferred", "show", job, "--json"]))
        )["held_by"]

    assert told(free) == ([], None) and told(later) == ([], None)
    assert told(held) == (["queue halted is paused"], "paused")
    assert told(limited) == (["limits, where used up: of queue few, of function echo, of key 'o''k'"], "limit")
    assert told(both) == (["limits, where used up: of queue few"], "limit")
    text = ok(db.run(["deferred", "ls"]))
    for job, state in ((free, "ready"), (held, "ready (paused)"), (limited, "ready (limit)"), (later, "delayed")):
        assert re.search(rf"^ *{job}  {re.escape(state)} ", text, re.M), text
    assert [j["held_by"] for j in json.loads(ok(db.run(["deferred", "ls", "--json"])))] == [
        None,
        "paused",
        "limit",
        "limit",
        None,
    ]
    ok(db.run(["deferred", "queue", "pause", "few"]))
    assert told(both) == (["queue few is paused; limits, where used up: of queue few"], "paused")
    end(db, free)
    assert [j["held_by"] for j in json.loads(ok(db.run(["deferred", "ls", "--state", "done", "--json"])))] == [None]


def test_ls_finds_ended_jobs_by_their_last_outcome(db):
    jobs = {outcome: db.defer("noop") for outcome in ("ok", "failed", "crashed", "timeout", "cancelled", "expired")}
    for outcome, job in jobs.items():
        end(db, job, outcome)
    retried = db.defer("noop")
    end(db, retried, "failed")
    ok(db.run(["deferred", "retry", retried]))

    def ids(state):
        return [j["id"] for j in json.loads(ok(db.run(["deferred", "ls", "--json", "--state", state])))]

    assert ids("done") == [jobs["ok"]]
    assert ids("dead") == [jobs["timeout"], jobs["crashed"], jobs["failed"]]
    assert ids("cancelled") == [jobs["cancelled"]]
    assert ids("expired") == [jobs["expired"]]
    assert ids("ready") == [retried]
    end(db, retried, "ok", attempt=2)
    assert ids("done") == [retried, jobs["ok"]]
    assert retried not in ids("dead")


def test_show_shows_job_params_and_every_attempt(db):
    params = '{"b": 1.10,  "b": 2}'
    job = db.defer("crash", params, label="boom", key="k", max_attempts=2)
    end(db, job, "crashed", "killed by signal 11", final=False, signal=11, run_us=1500, user_us=900, max_rss_kb=4096)
    end(db, job, "failed", "line one\nline two", attempt=2, exit_code=3, result="so far", plugin="sample 1.0")
    text = ok(db.run(["deferred", "show", job]))
    for expected in (
        "state       dead",
        "function    crash",
        "label       boom",
        "params      " + params,
        "signal 11",
        "1.5ms",
        "4096",
        "1 error: killed by signal 11",
        "2 error: line one\n    line two",
        "2 result: so far",
        "attempts 2",
    ):
        assert expected in text
    shown = ok(db.run(["deferred", "show", "--json", job]))
    assert params in shown
    document = json.loads(shown)
    assert (document["id"], document["state"], document["key"]) == (job, "dead", "k")
    assert [
        (a["attempt"], a["outcome"], a["final"], a["signal"], a["exit_code"], a["error"], a["result"])
        for a in document["attempts"]
    ] == [
        (1, "crashed", False, 11, None, "killed by signal 11", None),
        (2, "failed", True, None, 3, "line one\nline two", "so far"),
    ]


@pytest.mark.parametrize("option", sorted(STORED))
def test_show_tells_each_option_of_a_job(db, option):
    """On the terminal and in JSON, it differs from a job without that option."""

    def shown(options):
        job = int(db.one("select deferred.defer('noop', '{}', %s)", json.dumps(options)))
        try:
            value = json.loads(ok(db.run(["deferred", "show", job, "--json"])))
            value = value[option + "_ms" if option in SPANS else option]
            text = ok(db.run(["deferred", "show", job]))
        finally:
            db.run(["deferred", "cancel", str(job)])
        return value, {line for line in text.splitlines() if not re.match("job |deferred |(ready since|due) ", line)}

    others = TOGETHER.get(option, {})
    (without, few), (value, lines) = shown(others), shown({**others, option: VALUES[option]})
    assert value != without and lines - few, (few, lines)


def test_text_of_a_job_cannot_play_with_the_terminal(db):
    job = db.defer("noop", label="\x1b[31mred\u009b")
    end(db, job, "failed", "\x1b]0;title\x07", final=False)
    for args in (["ls"], ["show", job]):
        out = ok(db.run(["deferred", *args]))
        assert "\x1b" not in out and "\x07" not in out and "\u009b" not in out
        assert "\\x1b[31mred\\u009b" in out


EVIL = "a\nstate       done \u009b31m \u202egnp.exe\u2066 \u200f \x1b]0;t\x07 \x7f end"
SEEN = "a\\nstate       done \\u009b31m \\u202egnp.exe\\u2066 \\u200f \\x1b]0;t\\x07 \\x7f end"


def test_no_text_forges_a_line_or_changes_the_order_of_what_is_read(db):
    """Labels, errors, results, rule and role names, queue names where SQL lets them through."""
    job = db.defer("noop", label=EVIL)
    end(db, job, "failed", EVIL, final=False)
    out = ok(db.run(["deferred", "show", job]))
    assert f"label       {SEEN}\n" in out
    assert "1 error: a\n    state       done \\u009b31m" in out and not re.search(r"^state +done", out, re.M)
    listed = ok(db.run(["deferred", "ls"]))
    assert len(listed.splitlines()) == 2 and "\\nstate       done \\u009b" in listed
    failed = db.run(["deferred", "run", "fail", json.dumps({"error": EVIL})])
    assert failed.stderr.startswith("deferred: fail failed: a\n    state") and "\\u202egnp" in failed.stderr
    unknown = db.run(["deferred", "queue", "pause", EVIL])
    for text in (out, listed, failed.stderr, unknown.stderr):
        assert text and not set(text) & set("\u009b\u202e\u2066\u200f\x1b\x07\x7f"), ascii(text)
    # Programs get it whole.
    assert json.loads(ok(db.run(["deferred", "show", "--json", job])))["label"] == EVIL
    assert json.loads(ok(db.run(["deferred", "ls", "--json"])))[0]["label"] == EVIL


def test_no_text_forges_a_line_of_the_log(db):
    script = os.path.join(db.dir, "say")
    with open(script, "wb") as f:
        os.fchmod(f.fileno(), 0o755)
        f.write(b"#!/bin/sh\necho '\xc2\x9b31m \xff \xe2\x80\xaex' >&2; exit 1\n")
    db.config(f'function "say" {{ command = {{"{script}"}} }}\n')
    db.defer("say")
    db.defer("fail", json.dumps({"error": EVIL.replace("\n", "; ")}))
    done = db.run(["check_deferred", "--cnt", "0", "--log-level", "debug"])
    assert done.returncode == 0
    assert SEEN.replace("\\n", "; ") in done.stderr and "\\u009b" in done.stderr and "\\u202ex" in done.stderr
    assert not set(done.stderr) & set("\u009b\u202e\u2066\u200f\x1b\x07\x7f\udc9b\udcff"), ascii(done.stderr)
    for line in done.stderr.splitlines():
        assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z check_deferred\[\d+\] (error|warning|info|debug): ", line), ascii(
            line
        )


def test_show_of_no_such_job_ends_with_1(db):
    fails(db.run(["deferred", "show", "17"]), NOT_DONE, "job 17 does not exist\nhint: ")
    fails(db.run(["deferred", "show", "--json", "17"]), NOT_DONE)


# ---- cancel and retry


def test_cancel_takes_jobs_out_and_reports_each(db, ledger):
    for _ in range(3):
        db.defer("noop")
    assert ok(db.run(["deferred", "cancel", 1, 2])) == "1 cancelled\n2 cancelled\n"
    result = db.run(["deferred", "cancel", 1, 3, 99])
    assert (result.returncode, result.stdout) == (NOT_DONE, "3 cancelled\n")
    assert result.stderr == (
        "deferred: job 1 cannot be cancelled: it is cancelled\n"
        "hint: only jobs that have not ended can be cancelled\n"
        "deferred: job 99 does not exist\n"
        "hint: it was never deferred, was purged, or belongs to a role that you are not a member of\n"
    )
    for outcome, state in (("ok", "done"), ("failed", "dead"), ("expired", "expired")):
        job = db.defer("noop")
        end(db, job, outcome)
        fails(
            db.run(["deferred", "cancel", job]), NOT_DONE, f"deferred: job {job} cannot be cancelled: it is {state}\n"
        )
    assert db.hot() == 0
    result = db.run(["deferred", "cancel", "--json", 1])
    assert result.returncode == NOT_DONE and json.loads(result.stdout) == [{"id": 1, "cancelled": False}]
    ledger(db)


def test_retry_makes_ended_and_delayed_jobs_ready(db, ledger):
    dead, delayed, done, running = (db.defer("noop", **({"delay": "1h"} if i == 1 else {})) for i in range(4))
    end(db, dead, "failed")
    end(db, done)
    db.hold(running)
    for attempt in (1, 2):
        end(db, delayed, "failed", attempt=attempt, final=False)
    db.sql("update deferred.__deferred_hot set attempt = 2 where id = %s", delayed)
    assert ok(db.run(["deferred", "retry", dead, delayed])) == f"{dead} ready\n{delayed} ready\n"
    assert db.sql(
        "select id, attempt, coalesce(attempt_base, 0), due_at from deferred.__deferred_hot where id <> %s order by id",
        running,
    ) == [(dead, 1, 1, None), (delayed, 2, 0, None)]
    result = db.run(["deferred", "retry", "--json", done, running, 99])
    assert result.returncode == NOT_DONE
    assert json.loads(result.stdout) == [{"id": i, "ready": False} for i in (done, running, 99)]
    for text in (f"job {done} is done", f"job {running} is running", "job 99"):
        assert text in result.stderr
    ledger(db)


@pytest.mark.slow
def test_tags_are_given_shown_and_filtered_by(db, ledger):
    run = lambda *args: ok(db.run(["deferred", *args]))
    ids = lambda *args: [j["id"] for j in json.loads(run("ls", "--json", *args))]
    both, dead, gone = (
        int(run("add", "noop", "--tag", "red, or not", "--tag", "a", "--tag", "a")),
        db.defer("noop", tags=["a"]),
        db.defer("noop", tags=["a"]),
    )
    well, other, plain = db.defer("noop", tags=["a", "b"]), db.defer("noop", tags=["b"]), db.defer("noop")
    end(db, dead, "failed")
    end(db, gone, "cancelled")
    end(db, well)
    assert db.run(["deferred", "add", "--stdin"], input='{"fn": "noop", "tags": ["lines"]}\n').returncode == OK
    assert (
        ids("--tag", "lines") == [plain + 1]
        and ids("--tag", "a", "--tag", "red, or not") == [both]
        and ids("--tag", "b", "--tag", "a") == []
    )
    assert [ids("--state", state, "--tag", "a") for state in ("dead", "done", "ready")] == [[dead], [well], [both]]
    assert re.search("(?m)^tags +red, or not, a$", run("show", str(both))) and json.loads(
        run("show", "--json", str(both))
    )["tags"] == ["red, or not", "a"]
    db.sql("insert into deferred.__deferred_worker (instance, host, pid, version) values ('i', 'h', 1, '0')")
    db.hold(other)
    assert [json.loads(run("ls", "--json", *args))[0]["tags"] for args in (["--tag", "b"], ["--running"])] == [
        ["b"],
        ["b"],
    ]
    db.sql(
        "select deferred.defer_many((select json_agg(json_build_object('fn', 'noop', 'tags', '[\"many\"]'::json)) "
        "from generate_series(1, 5100)))"
    )
    assert (
        run("retry", "--tag", "a", "--state", "cancelled") == "1 job ready\n"
        and run("cancel", "--tag", "a", "--tag", "b") == "0 jobs cancelled\n"
    )
    assert (
        run("cancel", "--tag", "many", "--dry-run") == "5100 jobs to cancel\n"
        and run("cancel", "--tag", "a") == "2 jobs cancelled\n"
    )
    assert sorted(r[0] for r in db.sql("select id from deferred.__deferred_hot"))[:3] == [other, plain, plain + 1]
    fails(db.run(["deferred", "add", "noop", "--tag", ""]), USAGE, "option '--tag' has an empty value")
    ledger(db)


def test_a_filter_cancels_and_retries_many(db, ledger):
    keyed = db.defer("noop", key="k", queue="b")
    end(db, keyed, "failed")
    db.defer("noop", key="k", queue="b")
    dead, delayed, gone = db.defer("echo"), db.defer("echo", delay="1h"), db.defer("echo", label="x")
    end(db, dead, "failed")
    end(db, gone, "cancelled")
    held = db.defer("echo")
    db.hold(held)
    run = lambda *args: ok(db.run(["deferred", *args]))
    assert run("retry", "--fn", "echo", "--dry-run") == "2 jobs to retry\n"
    # What has failed since it began is not met again.
    began = (
        "select done from deferred.__retry_some('dead', '{}', json_build_object('last_time', "
        "now() - %s * interval '1 hour'), true, 1000)"
    )
    assert [db.one(began, hours) for hours in (1, 0)] == [0, 2]
    assert run("retry", "--fn", "nosuch") == "0 jobs ready\n"
    assert run("retry", "--fn", "echo", "--until", "1h") == "0 jobs ready\n"
    assert run("retry", "--fn", "echo", "--json") == '{"ready": 2, "refused": 0, "more": false}\n'
    assert db.sql("select id from deferred.__deferred_hot where due_at is null and fn = 'echo' order by id") == [
        (dead,),
        (delayed,),
        (held,),
    ]
    assert run("retry", "--state", "cancelled", "--label", "x", "--since", "1h") == "1 job ready\n"
    result = db.run(["deferred", "retry", "--key", "k"])
    assert (result.returncode, result.stdout) == (
        NOT_DONE,
        "0 jobs ready\n",
    ) and "1 job refused, the first: job 1 cannot be retried: key 'k' is in use by" in result.stderr
    assert run("cancel", "--state", "claimed", "--fn", "echo") == "1 job cancelled\n"
    assert run("cancel", "--dry-run", "--json", "--since", "1h") == '{"jobs": 4, "more": false}\n'
    assert run("cancel", "--queue", "default") == "3 jobs cancelled\n"
    assert [r[0] for r in db.sql("select id from deferred.__deferred_hot")] == [keyed + 1]
    fails(db.run(["deferred", "cancel", "--since", "soon"]), USAGE, "option '--since': value 'soon' is not a time")
    ledger(db)


@pytest.mark.slow
def test_an_interrupt_leaves_done_what_is_done(db, wait_for, ledger):
    """A thousand in a transaction: the one under way ends first, and the count is that of what was committed."""
    db.sql(
        "select deferred.defer_many((select json_agg(json_build_object('fn', 'noop')) from generate_series(1, 2100)))"
    )
    counts, at = [], None
    while at or not counts:
        n, at = db.sql("select done, after::text from deferred.__cancel_some(null, '{}', %s::json, true, 1000)", at)[0]
        counts.append(n)
        if len(counts) == 1:
            db.defer("noop")  # what comes after it has begun is left alone
    assert counts == [1000, 1000, 100]
    other = db.connect()
    other.cursor().execute("select from deferred.__deferred_hot where id = 1500 for update")
    started = db.spawn(["deferred", "cancel", "--fn", "noop"])
    wait_for(lambda: db.hot() == 1101 and db.one(WAITING) > 0)
    started.signal(signal.SIGINT)
    other.rollback()
    other.close()
    assert started.wait() == NOT_DONE
    assert sorted(started.output().splitlines()) == [
        "2000 jobs cancelled",
        "deferred: interrupted: the printed jobs are done",
        "hint: the same command continues",
    ]
    assert db.hot() == 101
    assert ok(db.run(["deferred", "cancel", "--fn", "noop"])) == "101 jobs cancelled\n"
    ledger(db)


# ---- purge


def test_purge_removes_what_ended_long_ago_and_keeps_the_rest(db, ledger):
    old, young, hot, dead = (db.defer("noop") for _ in range(4))
    end(db, old, age="40 days")
    end(db, young, age="10 days")
    end(db, hot, "failed", age="40 days", final=False)
    db.sql("update deferred.__deferred_hot set attempt = 1 where id = %s", hot)
    end(db, dead, "failed", age="31 days")
    db.sql("update deferred.__deferred set created_at = now() - interval '50 days'")
    db.sql(
        "insert into deferred.__deferred_worker (instance, host, pid, version, seen_at, ended_at) "
        "values ('x', 'h', 1, '0', now() - interval '40 days', now() - interval '40 days'), ('y', 'h', 1, '0', now(), "
        "now())"
    )
    assert json.loads(
        ok(db.run(["deferred", "purge", "--older-than", "30d", "--dead-older-than", "30d", "--batch", "1", "--json"]))
    ) == {"partitions": [], "attempts": 2, "jobs": 2, "runs": 1}
    assert db.sql("select id from deferred.__deferred order by id") == [(young,), (hot,)]
    assert db.sql("select job_id from deferred.__deferred_log order by job_id") == [(young,), (hot,)]
    assert ok(db.run(["deferred", "purge", "--older-than", "30d"])) == "deleted 0 attempts, 0 jobs, 0 runs\n"
    assert ok(db.run(["deferred", "purge", "--older-than", "5d"])) == "deleted 1 attempt, 1 job, 0 runs\n"
    ledger(db)


def old_week(db, first, past):
    name = f"deferred.__deferred_log_{first.replace('-', '')}"
    db.sql(
        f"""create table {name} partition of deferred.__deferred_log
                   for values from ('{first} 00:00:00+00') to ('{past} 00:00:00+00');
               alter table {name} owner to deferred_owner"""
    )


def purge(db, *options):
    return ok(db.run(["deferred", "purge", "--older-than", "30d", *options]))


def test_purge_keeps_dead_jobs_unless_it_is_told_how_long(db, ledger):
    old_week(db, "2020-01-06", "2020-01-13")
    old_week(db, "2020-01-13", "2020-01-20")
    dead, cancelled, saved = (db.defer("noop") for _ in range(3))
    db.sql("delete from deferred.__deferred_hot")
    # The second week holds a job that died, was retried and succeeded: that one is not dead.
    db.sql(
        """insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at)
              values (%(dead)s, 1, 'failed', false, '2020-01-07'), (%(dead)s, 2, 'failed', true, '2020-01-08'),
                     (%(cancelled)s, 1, 'cancelled', true, '2020-01-07'),
                     (%(saved)s, 1, 'crashed', true, '2020-01-14'), (%(saved)s, 2, 'ok', true, '2020-01-15')""",
        {"dead": dead, "cancelled": cancelled, "saved": saved},
    )
    db.sql("update deferred.__deferred set created_at = '2020-01-06'")
    for options in ["--dead-older-than", "36500d"], [], []:
        assert "log_20200106" not in purge(db, *options)
        assert db.sql("select id from deferred.__deferred") == [(dead,)] and db.log(dead) == [(2, "failed")]
    assert db.one("select to_regclass('deferred.__deferred_log_20200113')") is None
    ledger(db)
    assert "dead" in ok(db.run(["deferred", "show", str(dead)]))
    ok(db.run(["deferred", "retry", str(dead)]))
    assert db.run(["check_deferred"]).returncode == 0 and db.log(dead)[-1][1] == "ok"
    assert "dropped __deferred_log_20200106" in purge(db)


def test_purge_takes_dead_jobs_that_are_old_enough(db):
    dead = db.defer("noop")
    end(db, dead, "failed", age="50 days")
    db.sql("update deferred.__deferred set created_at = now() - interval '60 days'")
    assert purge(db, "--dead-older-than", "51d") == "deleted 0 attempts, 0 jobs, 0 runs\n"
    assert purge(db, "--dead-older-than", "49d") == "deleted 1 attempt, 1 job, 0 runs\n"
    for wrong in ["--dead-older-than", "20d"], ["--dead-older-than", "40d", "--archive", "cat"]:
        assert db.run(["deferred", "purge", "--older-than", "30d", *wrong]).returncode == USAGE


def test_an_archive_has_dead_jobs_too(db, tmp_path):
    old_week(db, "2020-01-06", "2020-01-13")
    db.sql(
        """insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at)
              values (1, 1, 'failed', true, '2020-01-07')"""
    )
    assert "archived deferred_log_20200106, 1 row\n" in purge(db, "--archive", f"cat > {tmp_path}/$NAME")
    assert "failed" in (tmp_path / "deferred_log_20200106").read_text()


def test_purge_works_through_many_rows_in_batches(db, ledger):
    db.sql("select deferred.defer('noop') from generate_series(1, 3000)")
    db.sql("delete from deferred.__deferred_hot where id <= 2500")
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at) "
        "select id, 1, 'ok', true, now() - interval '2 days' from deferred.__deferred where id <= 2500"
    )
    db.sql("update deferred.__deferred set created_at = now() - interval '3 days'")
    assert (
        ok(db.run(["deferred", "purge", "--older-than", "1d", "--batch", "100"]))
        == "deleted 2500 attempts, 2500 jobs, 0 runs\n"
    )
    assert db.one("select count(*) from deferred.__deferred") == 500
    ledger(db)


def test_purge_reads_no_partition_that_is_younger_than_the_limit(db):
    db.sql("prepare parts as " + pg.source("admin_purge_parts"))
    looked_at = {days: [r[0] for r in db.sql(f"execute parts({days * 86400000}, '{{}}')")] for days in (0, 30)}
    assert looked_at[30] == ["deferred.__deferred_log_default"]
    begun = db.sql(
        "select 'deferred.' || relname from pg_class where relkind = 'r' and relname ~ '^__deferred_log_[0-9]+$' "
        "and right(relname, 8) <= to_char(now() at time zone 'UTC', 'YYYYMMDD') order by relname"
    )
    assert begun and looked_at[0] == [r[0] for r in begun] + ["deferred.__deferred_log_default"]


def test_purge_drops_partitions_nobody_needs(db):
    db.sql(
        "create table deferred.__deferred_log_20200106 partition of deferred.__deferred_log "
        "for values from ('2020-01-06 00:00:00+00') to ('2020-01-13 00:00:00+00')"
    )
    db.sql("alter table deferred.__deferred_log_20200106 owner to deferred_owner")
    assert "dropped __deferred_log_20200106\n" in ok(db.run(["deferred", "purge", "--older-than", "30d"]))
    assert db.one("select to_regclass('deferred.__deferred_log_20200106')") is None


def outlived(db, weeks=("2020-01-06", "2020-01-13"), rows=3):
    """Partitions of the log with attempts of jobs that are gone, hostile texts among them."""
    for week in weeks:
        name = "__deferred_log_" + week.replace("-", "")
        db.sql(
            f"""create table deferred.{name} partition of deferred.__deferred_log for values
                from ('{week} 00:00:00+00') to ('{week[:-2]}{int(week[-2:]) + 7:02} 00:00:00+00');
                   alter table deferred.{name} owner to deferred_owner"""
        )
        db.sql(
            "insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at, wait_us, error) "
            "select -n, 1, 'failed', true, %s::timestamptz + '1 day', 3e9, E'two\nlines, \"quoted\"\n.\n\U0001F600' "
            "from generate_series(1, %s) n",
            week,
            rows,
        )


def test_a_partition_that_is_in_use_is_left_whole_and_dropped_later(db):
    outlived(db)
    db.sql(
        """insert into deferred.__deferred (id, queue, fn, params, created_at, created_by)
              values (7, 'default', 'noop', '{}', now() - interval '1 year', 'x');
              select setval('deferred.__deferred_id_seq', p.past::bigint)
              from deferred.__partitions('deferred.__deferred') p where p.name = '__deferred_0'"""
    )
    names = ["__deferred_log_20200106", "__deferred_0"]

    def purged():
        return ok(db.run(["deferred", "purge", "--older-than", "30d", "--dead-older-than", "30d"]))

    with db.connect() as reader, reader.cursor() as cursor:
        for name in names:
            cursor.execute(f"lock table deferred.{name} in access share mode")  # as pg_dump has it
        said = purged()
        assert [f"left {name} for the next time: it is in use\n" in said for name in names] == [True, True]
        assert "dropped __deferred_log_20200113\n" in said and "deleted 0 attempts, 0 jobs" in said
        assert [db.one(f"select count(*) from deferred.{name}") for name in names] == [3, 1]
    reader.close()
    said = purged()
    assert [f"dropped {name}\n" in said for name in names] == [True, True]


def archive(db, command, *more):
    return db.run(["deferred", "purge", "--older-than", "30d", "--archive", command, *more])


def tables(db):
    return [
        t
        for t, in db.sql(
            "select relname::text from pg_class where relkind = 'r' and relnamespace = 'deferred'::regnamespace "
            "and (relname ~ '^__deferred_log_2020' or relname ~ '^__purged') order by 1"
        )
    ]


def test_purge_archives_whole_partitions(db, tmp_path):
    outlived(db)
    end(db, db.defer("noop"), age="40 days")
    assert ok(archive(db, f'cat > {tmp_path}/"$NAME".csv')) == (
        "archived deferred_log_20200106, 3 rows\narchived deferred_log_20200113, 3 rows\n"
        "deleted 0 attempts, 0 jobs, 0 runs\n"
    ), "rows alone stay"
    assert tables(db) == [] and db.one("select count(*) from deferred.__deferred_log") == 1
    assert sorted(os.listdir(tmp_path)) == ["deferred_log_20200106.csv", "deferred_log_20200113.csv"]
    with open(tmp_path / "deferred_log_20200113.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    assert [(r["job_id"], r["wait_us"]) for r in rows] == [(str(n), "3000000000") for n in (-1, -2, -3)] and {
        r["error"] for r in rows
    } == {'two\nlines, "quoted"\n.\n\U0001F600'}
    assert list(rows[0]) == [
        c
        for c, in db.sql(
            "select attname::text from pg_attribute where attrelid = 'deferred.__deferred_log'::regclass "
            "and attnum > 0 order by attnum"
        )
    ]
    outlived(db)
    assert json.loads(ok(archive(db, "cat >/dev/null", "--json"))) == {
        "partitions": ["deferred_log_20200106", "deferred_log_20200113"],
        "attempts": 0,
        "jobs": 0,
        "runs": 0,
    }


@pytest.mark.parametrize(
    "command, says",
    [
        ("cat >/dev/null; exit 3", "the command ended with exit code 3"),
        ("exit 3", "the command ended with exit code 3"),
        ("head -c 1 >/dev/null", "the command ended before it had read all rows"),
        ("cat >/dev/null; kill -9 $$", "the command was ended by signal 9"),
        ("/nonexistent/zstd 2>/dev/null", "the command ended with exit code 127"),
    ],
)
def test_what_was_not_archived_stays(db, tmp_path, command, says):
    """And is taken first by the next one; a purge without --archive leaves it. More rows than a
    pipe and all buffers hold."""
    outlived(db, rows=20000)
    done = archive(db, command)
    assert (
        done.returncode == NOT_DONE
        and says in done.stderr
        and "deferred.__purged_deferred_log_20200106 stays until a purge with --archive has archived it" in done.stderr
    )
    assert (
        tables(db) == ["__deferred_log_20200113", "__purged_deferred_log_20200106"]
        and db.one("select count(*) from deferred.__purged_deferred_log_20200106") == 20000
    )
    assert "dropped __deferred_log_20200113\n" in ok(
        db.run(["deferred", "purge", "--older-than", "30d", "--dead-older-than", "30d"])
    )
    assert tables(db) == ["__purged_deferred_log_20200106"]
    assert (
        "deferred.__purged_deferred_log_20200106 was set aside and is not archived"
        in db.run(["deferred", "doctor"]).stdout
    )
    assert ok(archive(db, f"cat > {tmp_path}/$NAME")).startswith("archived deferred_log_20200106, 20000 rows\n")
    assert tables(db) == []


def test_what_happens_while_it_is_being_archived(db, wait_for, tmp_path):
    """Killed, beside another purge, with a table that was changed: nothing goes that was not
    archived. And nobody waits for it."""
    outlived(db, weeks=("2020-01-06",))
    going = db.spawn(
        [
            "deferred",
            "purge",
            "--older-than",
            "30d",
            "--archive",
            f"touch {tmp_path}/begun; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; cat >/dev/null",
        ]
    )
    wait_for((tmp_path / "begun").exists, 10, "the command was begun")
    db.sql("set lock_timeout = '2s'")
    db.defer("noop")
    db.sql("delete from deferred.__deferred_log where job_id = 1; select deferred.maintain()")
    done = archive(db, "cat >/dev/null")
    assert done.returncode == NOT_DONE
    assert "table 'deferred_log_20200106' is being archived by another purge" in done.stderr
    going.signal(signal.SIGKILL)
    going.wait()
    (tmp_path / "go").touch()
    assert tables(db) == ["__purged_deferred_log_20200106"]
    with pytest.raises(psycopg2.Error, match="has 3 rows, but 2 were archived"):
        db.sql("select deferred.__purge_archived('__purged_deferred_log_20200106', 2)")
    for name in "__deferred_hot", "__purged_x", "__purged_deferred_1; drop":
        with pytest.raises(psycopg2.Error, match="was not set aside for the archive"):
            db.sql("select deferred.__purge_archived(%s, 0)", name)
    wait_for(lambda: archive(db, "cat >/dev/null").returncode == 0, 10, "the killed one has left its transaction")
    assert tables(db) == []


def test_nobody_without_rights_holds_up_an_archive(db):
    """Who archives a table locks the table; an advisory lock is for anybody who can connect."""
    outlived(db)
    name, env = login(db)
    with db.connect(user=name) as other, other.cursor() as cursor:
        cursor.execute("select pg_advisory_lock(hashtextextended('deferred.__purged_deferred_log_20200106', 0))")
        assert ok(archive(db, "cat >/dev/null")).startswith("archived deferred_log_20200106, 3 rows\n")
    db.sql(f"drop role {name}")


def test_jobs_are_archived_after_their_attempts(db, tmp_path):
    job, hot = db.defer("noop", params='{"to": "a@example.org"}'), db.defer("noop")
    db.sql("delete from deferred.__deferred_hot where id = %s", job)
    db.sql("update deferred.__deferred set created_at = now() - interval '40 days'")
    db.sql("select setval('deferred.__deferred_id_seq', 10000001); select deferred.maintain()")
    assert ok(archive(db, "cat >/dev/null")) == "deleted 0 attempts, 0 jobs, 0 runs\n", "one of them is hot"
    db.sql("delete from deferred.__deferred_hot where id = %s", hot)
    _, env = login(db, "deferred_purger")
    done = db.run(["deferred", "purge", "--older-than", "30d", "--archive", f"cat > {tmp_path}/$NAME"], env=env)
    assert (
        ok(done).startswith("archived deferred_0, 2 rows\n")
        and "a@example.org" in (tmp_path / "deferred_0").read_text()
    )
    assert db.one("select count(*) from deferred.__deferred") == 0


# ---- status


def test_status_shows_queues_workers_and_the_last_hour(db):
    db.defer("noop")
    claimed = db.defer("noop")
    db.defer("noop", delay="1h")
    db.defer("noop", queue="mail")
    end(db, db.defer("noop"))
    end(db, db.defer("noop"), "failed", age="2 hours")
    db.hold(claimed)
    db.sql("insert into deferred.__deferred_worker (instance, host, pid, version) values ('x', 'h', 1, '0')")
    db.sql("update deferred.__deferred_queue set paused = true where name = 'mail'")
    text = ok(db.run(["deferred", "status"]))
    assert "live workers: 1\n" in text and text.endswith("last hour: 1 ok\n")
    assert re.search(r"^default +1 +1 +1 +\d+s$", text, re.M) and re.search(
        r"^mail +1 +0 +0 +\d+s  paused$", text, re.M
    )
    status = json.loads(ok(db.run(["deferred", "status", "--json"])))
    assert status["schema_version"] == db.one("select max(version) from deferred.__deferred_migration")
    assert status["workers"] == 1
    assert [(q["queue"], q["paused"], q["ready"], q["claimed"], q["delayed"]) for q in status["queues"]] == [
        ("default", False, 1, 1, 1),
        ("mail", True, 1, 0, 0),
    ]
    assert status["last_hour"] == [{"outcome": "ok", "attempts": 1, "dead": 0, "more": False}]


def test_status_names_limits_only_where_they_may_hold_a_job(db):
    ok(db.run(["deferred", "queue", "set", "few", "--create", "--max-running", "1"]))
    assert re.search(r"^few +0 +0 +0 *$", ok(db.run(["deferred", "status"])), re.M)
    db.defer("noop", queue="few", delay="1h")
    assert re.search(r"^few +0 +1 +0 *$", ok(db.run(["deferred", "status"])), re.M)
    db.defer("noop", queue="few")
    assert re.search(r"^few +1 +1 +0 +\d+s  limits$", ok(db.run(["deferred", "status"])), re.M)


def test_status_tells_the_dead_from_those_to_be_tried_again(db):
    for outcome, final in (
        ("failed", False),
        ("failed", True),
        ("failed", True),
        ("timeout", True),
        ("crashed", False),
        ("cancelled", True),
    ):
        end(db, db.defer("noop"), outcome, final=final)
    assert ok(db.run(["deferred", "status"])).endswith(
        "last hour: 1 cancelled, 1 crashed, 3 failed (2 dead), 1 timeout (1 dead)\n"
    )
    assert {o["outcome"]: o["dead"] for o in json.loads(ok(db.run(["deferred", "status", "--json"])))["last_hour"]} == {
        "cancelled": 0,
        "crashed": 0,
        "failed": 2,
        "timeout": 1,
    }


def test_status_counts_the_dead_for_good(db):
    """Those of long ago too, until they are retried; and so far only as was looked."""
    assert "\n\ndead: 0\nlast hour: no attempts\n" in ok(db.run(["deferred", "status"]))
    ages = ("50 hours", "40 hours", "2 hours", "10 minutes", "5 minutes")
    jobs = [db.defer("noop") for _ in ages]
    for job, age in zip(jobs, ages):
        end(db, job, "failed", age=age)
    end(db, db.defer("noop"), "cancelled", age="60 hours")
    again, well = jobs[0], jobs[3]
    assert db.one("select deferred.retry(%s)", again) and db.one("select deferred.retry(%s)", well)
    end(db, well, attempt=2)
    text = ok(db.run(["deferred", "status"]))
    assert (
        "\ndead: 3, 1 of them in the last hour, the oldest for 40h\n" in text
        or "\ndead: 3, 1 of them in the last hour, the oldest for 1d" in text
    )
    dead = json.loads(ok(db.run(["deferred", "status", "--json"])))["dead"]
    assert 144000 <= dead.pop("oldest_s") < 145000
    assert dead == {"dead": 3, "more": False, "last_hour": 1, "last_hour_more": False}
    end(db, again, "failed", attempt=2)
    query = "prepare dead as " + pg.source("admin_status_dead")
    db.sql(query)
    assert db.sql("execute dead(100)")[0][:4] == (4, False, 2, False)
    assert db.sql("execute dead(3)")[0][:4] == (
        3,
        True,
        2,
        False,
    )  # of the newest four ends one is of a job that ended well after
    assert db.sql("execute dead(1)")[0][:4] == (2, True, 2, True)
    # However many there are, the log is not read through.
    plan = "\n".join(
        r[0] for r in db.sql("set enable_seqscan = off; set enable_sort = off; explain execute dead(10000)")
    )
    assert "Anti Join" not in plan and "Seq Scan" not in plan and "__deferred_log_job" not in plan.split("SubPlan")[0]
    db.sql("reset enable_seqscan; reset enable_sort; deallocate dead")


def test_what_is_overdue_counts_as_ready_since_it_was_due(db):
    """Nobody runs check_deferred: a delay that is over and a retry that is due wait as long as jobs
    that never were delayed."""
    late, retry, coming = (
        db.defer("noop", queue="mail", delay="1h"),
        db.defer("noop", queue="mail"),
        db.defer("noop", queue="mail", delay="9h"),
    )
    end(db, retry, "failed", final=False)
    db.sql(
        "update deferred.__deferred_hot set due_at = now() - interval '3 days', "
        "visible_at = now() - interval '3 days' where id = %s",
        late,
    )
    db.sql(
        "update deferred.__deferred_hot set attempt = 1, due_at = now() - interval '1 hour', "
        "visible_at = now() - interval '1 hour' where id = %s",
        retry,
    )
    (q,) = [q for q in json.loads(ok(db.run(["deferred", "status", "--json"])))["queues"] if q["queue"] == "mail"]
    assert (q["ready"], q["delayed"], q["claimed"], q["oldest_ready_s"] // 60) == (2, 1, 0, 3 * 24 * 60)
    assert re.search(r"^mail +2 +1 +0 +3d$", ok(db.run(["deferred", "status"])), re.M)
    for state, jobs in (("ready", [late, retry]), ("delayed", [coming])):
        assert [j["id"] for j in json.loads(ok(db.run(["deferred", "ls", "--state", state, "--json"])))] == jobs
    assert re.search(rf"^ *{late} +ready .* 3d ago$", ok(db.run(["deferred", "ls"])), re.M)
    assert "ready since" in ok(db.run(["deferred", "show", late]))
    db.sql(
        "update deferred.__deferred_queue set removed_at = now() where name = 'mail'"
    )  # what is left in it still shows
    db.sql("delete from deferred.__deferred_hot where id <> %s", late)
    assert "mail" in ok(db.run(["deferred", "status"]))


def test_status_stops_counting(db):
    db.sql(
        "insert into deferred.__deferred_hot (id, queue, fn, visible_at) select -i, 'default', 'noop', now() "
        "from generate_series(1, 100001) i"
    )
    assert re.search(r"^default +100000\+ +0 +0 ", ok(db.run(["deferred", "status"])), re.M)
    db.sql("update deferred.__deferred_hot set due_at = visible_at")
    assert re.search(r"^default +100000\+ +0 +0 ", ok(db.run(["deferred", "status"])), re.M)


# ---- run


def test_run_calls_a_function_without_a_database(db):
    nowhere = {"DEFERRED_DB": "host=/nonexistent"}
    params = '{"b": 1.10,  "b": 2}'
    assert ok(db.run(["deferred", "run", "echo", params], env=nowhere)) == params + "\n"
    assert json.loads(ok(db.run(["deferred", "run", "--json", "echo", params], env=nowhere))) == {
        "outcome": "ok",
        "result": params,
    }
    assert ok(db.run(["deferred", "run", "noop"], env=nowhere)) == ""
    fails(
        db.run(["deferred", "run", "fail", '{"error": "out of luck"}'], env=nowhere),
        NOT_DONE,
        "fail failed: out of luck",
    )
    fails(db.run(["deferred", "run", "crash", '{"signal": 11}'], env=nowhere), NOT_DONE, "signal 11")
    fails(
        db.run(["deferred", "run", "sleep", '{"ms": 60000}', "--timeout", "100ms"], env=nowhere),
        NOT_DONE,
        "sleep timeout",
    )
    fails(db.run(["deferred", "run", "nosuch"], env=nowhere), UNAVAILABLE, "', a program or a command\n")
    fails(db.run(["deferred", "run", "noop", "{x"], env=nowhere), DATA, "invalid JSON")
    assert db.run(["deferred", "run"], env=nowhere).returncode == USAGE


def test_run_calls_a_command_of_the_config_file(db):
    db.config(
        'function "upper" { command = {"/usr/bin/tr", "a-z", "A-Z"} }\nfunction "no" { command = {"/bin/false"} }\n'
    )
    assert ok(db.run(["deferred", "run", "upper", '{"a": "b"}'])) == '{"A": "B"}\n'
    fails(db.run(["deferred", "run", "no"]), NOT_DONE, "exit status 1")


# ---- rights


@pytest.mark.slow
def test_rights_decide_what_a_role_may_do(db):
    job = db.defer("noop", '{"secret": 1}')
    producer, producing = login(db, "deferred_producer")
    viewer, viewing = login(db, "deferred_viewer")
    worker, working = login(db, "deferred_worker")
    nobody, nothing = login(db)
    purger, purging = login(db, "deferred_purger")
    reader, reading = login(db, "deferred_reader")
    try:
        own = int(ok(db.run(["deferred", "add", "noop"], env=producing)))
        ok(db.run(["deferred", "add", "--stdin"], env=producing, input='{"fn": "noop"}\n'))
        fails(
            db.run(["deferred", "ls"], env=producing),
            NOPERM,
            "permission denied",
            f"\nhint: grant deferred_viewer to {producer}\n",
        )
        fails(db.run(["deferred", "cancel", job], env=producing), NOT_DONE, f"job {job} does not exist\nhint: ")
        ok(db.run(["deferred", "cancel", own], env=producing))
        fails(db.run(["deferred", "cancel", own], env=producing), NOT_DONE, "it is cancelled")
        assert (
            ok(db.run(["deferred", "cancel", "--dry-run", "--fn", "noop"], env=producing)) == "1 job to cancel\n"
        )  # the other line's
        fails(
            db.run(["deferred", "retry", "--fn", "noop"], env=producing),
            NOPERM,
            "permission denied",
            f"\nhint: grant deferred_worker to {producer}\n",
        )
        for args in (["ls"], ["ls", "--state", "dead"], ["ls", "--state", "done"], ["status"]):
            ok(db.run(["deferred", *args], env=viewing))
            ok(db.run(["deferred", *args], env=working))
        fails(
            db.run(["deferred", "show", job], env=viewing),
            NOPERM,
            "permission denied",
            f"\nhint: grant deferred_reader to {viewer}\n",
        )
        fails(
            db.run(["deferred", "add", "noop"], env=viewing),
            NOPERM,
            "permission denied",
            f"\nhint: grant deferred_producer to \"{viewer}\"\n",
        )
        assert "secret" in ok(db.run(["deferred", "show", job], env=working))
        assert "secret" in ok(db.run(["deferred", "show", job], env=reading))
        fails(db.run(["deferred", "retry", own], env=reading), NOPERM, "permission denied")
        ok(db.run(["deferred", "retry", own], env=working))
        fails(
            db.run(["deferred", "purge", "--older-than", "1d"], env=working),
            NOPERM,
            "permission denied",
            f"hint: grant deferred_purger to {worker}\n",
        )
        ended = db.defer("noop")
        end(db, ended, age="40 days")
        db.sql("update deferred.__deferred set created_at = now() - interval '40 days' where id = %s", ended)
        db.sql(
            "insert into deferred.__deferred_progress (job_id, attempt, reported_at) "
            "values (%s, 1, now() - interval '1 day')",
            ended,
        )
        assert (
            ok(db.run(["deferred", "purge", "--older-than", "30 days"], env=purging))
            == "deleted 1 attempt, 1 job, 0 runs\n"
        )
        fails(
            db.run(["deferred", "ls"], env=purging),
            NOPERM,
            "permission denied",
            f"\nhint: grant deferred_viewer to {purger}\n",
        )
        fails(
            db.run(["deferred", "ls"], env=nothing),
            NOPERM,
            "permission denied",
            f"\nhint: grant deferred_viewer to {nobody}\n",
        )
        fails(db.run(["deferred", "queue", "ls"], env=nothing), NOPERM, f"\nhint: grant deferred_viewer to {nobody}\n")
        fails(
            db.run(["deferred", "queue", "pause", "default"], env=viewing),
            NOPERM,
            f"\nhint: grant deferred_worker to {viewer}\n",
        )
        fails(
            db.run(["deferred", "add", "noop"], env=nothing),
            NOPERM,
            "permission denied",
            f"\nhint: grant deferred_producer to \"{nobody}\"\n",
        )
        db.sql("insert into deferred.__deferred_grant (role, fn) values (%s, 'echo')", producer)
        result = db.run(
            ["deferred", "add", "noop"], env=producing
        )  # what is refused to who has the role is something else
        assert result.returncode == NOPERM and "grant deferred_" not in result.stderr
    finally:
        for role in (producer, viewer, worker, nobody, purger, reader):
            db.sql(f"drop role {role}")


def test_looking_gives_up_after_its_time(db):
    """A lock that is not let go shows as a clear message, not as a command that hangs."""
    other = db.connect()
    other.cursor().execute("lock table deferred.__deferred_hot in access exclusive mode")
    fails(db.run(["deferred", "ls"], timeout=30), NOT_DONE, "statement timeout")
    other.close()


UNWRITTEN = "hint: free space where the answer goes, or write it elsewhere\n"


def test_a_full_disk_is_no_success(db):
    with open("/dev/full", "w") as full:
        result = db.run(["deferred", "status"], stdout=full)
    assert (
        result.returncode == 74
        and result.stderr == "deferred: cannot write the answer: No space left on device\n" + UNWRITTEN
    )


@pytest.mark.parametrize("n", [1, 2, 5000])
def test_who_cannot_be_told_the_ids_is_told_that_the_jobs_are_stored(db, n):
    """Else they would be deferred once more."""
    with open("/dev/full", "w") as full:
        one = db.run(["deferred", "add", "noop"], stdout=full)
        many = db.run(["deferred", "add", "--stdin"], stdout=full, input='{"fn": "noop"}\n' * n)
        none = db.run(["deferred", "add", "no op"], stdout=full)
    assert (one.returncode, one.stderr) == (
        74,
        "deferred: cannot write the answer: No space left on device; job 1 is stored\n" + UNWRITTEN,
    )
    assert (many.returncode, many.stderr) == (
        74,
        f"deferred: cannot write the answer: No space left on device; all jobs are stored, ids from 2 to {n + 1}\n"
        + UNWRITTEN,
    )
    assert none.returncode == DATA and "stored" not in none.stderr
    assert db.hot() == n + 1


def test_the_man_page_names_each_command_and_exit_code(run):
    page = documents.read("bin", "deferred", "deferred.1")
    commands = re.findall(r"^  (\w+) ", ok(run(["deferred", "--help"])), re.M)
    assert len(commands) == documents.read("bin", "deferred", "main.c").count("&cmd_")
    for command in commands:
        assert f".Xr deferred-{command} 1" in page, command
    for code in (0, 1, 4, 5, 6, 7, 8, 9, 64, 65, 69, 74, 75, 77, 78):
        assert re.search(rf"\n\.It (?:\d+ , )*{code}\b", page), code


@pytest.mark.parametrize(
    "args, option",
    [
        ("purge", "--older-than"),
        ("purge --older-than 1d", "--dead-older-than"),
        ("ls", "--since"),
        ("ls", "--until"),
        ("cancel", "--since"),
        ("retry", "--until"),
        ("retry", "--ended-since"),
        ("ls --state dead", "--ended-until"),
        ("spans", "--since"),
        ("add noop", "--delay"),
        ("add noop", "--expires"),
        ("add noop", "--timeout"),
        ("ls", "--answer-timeout"),
        ("ls", "--lock-timeout"),
        ("top", "--interval"),
        ("simulate", "--since"),
        ("advise", "--within"),
        ("simulate", "--start"),
        ("queue set q", "--ttl"),
        ("rule add r noop select --key n", "--statement-timeout"),
        ("rule add r noop select --key n", "--delay"),
        *(
            ("schedule set s @daily noop", option)
            for option in ("--late", "--jitter", "--expires", "--timeout", "--backoff-floor", "--backoff-ceiling")
        ),
    ],
)
def test_a_span_needs_its_unit(run, args, option):
    """30 could be seconds or days: `purge --older-than 30` deleted all but half a minute. 0 is the same in any unit."""
    for number in "30", "1.5":
        done = run(["deferred", *args.split(), option, number], env={"DEFERRED_DB": "host=/nonexistent"})
        assert done.returncode == USAGE and f"'{number}'" in done.stderr and "unit" in done.stderr
        assert option.strip("-") in done.stderr
