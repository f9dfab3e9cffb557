"""The catalogue of messages: each class is provoked, and has object, cause, hint, and the exit code of its kind."""

import contextlib
import json
import os
import pty
import re
import subprocess

import psycopg2
import pytest

import harness

NOT_DONE, USAGE, DATA, NO_INPUT, UNAVAILABLE, NO_RIGHT, CONFIG = 1, 64, 65, 66, 69, 77, 78
LOG_LINE = re.compile(r"\S+Z (\w+)\[\d+\] (?:error|warning): (.*); hint: (.*)")


def parts(said):
    """(program, message, hint) of what a program printed, be it two lines or one line of a log."""
    logged = LOG_LINE.fullmatch(said.strip())
    if logged:
        return logged.groups()
    shown = re.fullmatch(r"(deferred|\w+): (.+)\nhint: (.+)\n", said)
    assert shown, said
    return shown.groups()


def check_form(message, hint):
    """Values are in single quotes. Names that begin with __, and words of the server, follow words of ours."""
    bare = re.sub(r"\(.*\)|'[^']*'|(?<=invalid JSON: ).*", "", message)
    assert "__" not in bare, message
    assert '"' not in re.sub("(?:cannot connect|not valid|invalid connection string): .*", "", bare), message
    assert not re.match(r"ERROR|FATAL|(relation|permission denied|canceling|invalid input)\b", message), message
    for text in (message, hint):
        assert not text.endswith(".") and not re.match(r"[A-Z][a-z]", text), text
        assert not re.search(r"\b(?:is|are) no [a-z]|is wanted|\bTry\b|\banew\b|\b1 (?:jobs|attempts)\b", text), text


def refused(done, code, *says):
    assert done.returncode == code, done
    _, message, hint = parts("".join(line for line in done.stderr.splitlines(True) if " info: " not in line))
    check_form(message, hint)
    for text in says:
        assert text in f"{message}\nhint: {hint}", done.stderr


WITHOUT_DATABASE = [
    (["deferred", "--frobnicate"], "option '--frobnicate' is unknown", "deferred --help"),
    (["deferred", "--db"], "option '--db' needs a value"),
    (["deferred", "ls", "--json=1"], "option '--json' takes no value"),
    (["deferred", "ls", "--queu", "x"], "option '--queue' is abbreviated", "write --queue"),
    (["deferred", "lss"], "command 'lss' is unknown"),
    (["deferred", "queue", "sell"], "argument 'sell' is not one of ls, patterns, set"),
    (["deferred", "queue"], "argument is missing: one of ls, patterns, set"),
    (["deferred", "add"], "argument FUNCTION is missing"),
    (["deferred", "add", "noop", "{}", "word"], "argument 'word' is not expected"),
    (["deferred", "ls", "word"], "argument 'word' is not expected"),
    (
        ["deferred", "add", "noop", "--priority", "x"],
        "option '--priority': value 'x' is not a whole number from -32768 to 32767",
    ),
    (
        ["deferred", "add", "noop", "--on-duplicate", "x"],
        "option '--on-duplicate': value 'x' is unknown",
        "skip, error, replace or update",
    ),
    (["deferred", "add", "noop", "--after", "x"], "job id 'x' is not a whole number"),
    (["deferred", "purge"], "option '--older-than' is missing", "30d"),
    (["deferred", "purge", "--older-than", "30"], "option '--older-than': value '30' has no unit", "30d"),
    (["deferred", "purge", "--older-than", "1d", "--dead-older-than", "1h"], "is shorter than option '--older-than'"),
    (["deferred", "retry"], "job ids or a filter are missing", "--fn"),
    (["deferred", "retry", "17", "--fn", "f"], "argument '17' contradicts the filter"),
    (["deferred", "retry", "--dry-run"], "option '--dry-run' needs a filter"),
    (["deferred", "ls", "--state", "x"], "option '--state': value 'x' is not one of"),
    (["deferred", "ls", "--running", "--state", "dead"], "option '--running' contradicts option '--state'"),
    (["deferred", "show"], "argument ID is missing"),
    (["deferred", "why", "17", "--queue", "q"], "argument '17' contradicts option '--queue'", "deferred why 17"),
    (["deferred", "flow", "retry"], "argument ID is missing"),
    (["deferred", "flow", "add"], "argument FILE is missing"),
    (["deferred", "rule", "add", "r"], "argument FUNCTION is missing"),
    (["deferred", "rule", "add", "r", "noop", "select 1"], "option '--key' is missing", "identifies its rows"),
    (["deferred", "schedule", "set", "s"], "argument RULE is missing"),
    (["deferred", "schedule", "backfill", "s"], "option '--from' is missing"),
    (["deferred", "queue", "set", "a b", "--weight", "1"], "queue name 'a b' is invalid", "1 to 88 letters"),
    (["deferred", "queue", "set", "q"], "a setting is missing"),
    (["deferred", "queue", "pause", "q", "--create"], "option '--create' is unknown", "deferred queue --help"),
    (["deferred", "queue", "ls", "--weight", "2"], "option '--weight' is unknown"),
    (["deferred", "function", "ls", "--rate", "1/s"], "option '--rate' is unknown"),
    (["deferred", "function", "resume", "f", "--unset", "rate"], "option '--unset' is unknown"),
    (["deferred", "account", "rm", "acct", "--endpoint", "http://h"], "option '--endpoint' is unknown"),
    (["deferred", "add", "noop", "--delay", "5"], "option '--delay': value '5' has no unit", "such as 200ms"),
    (
        ["deferred", "schedule", "set", "s", "@daily", "noop", "--late", "5"],
        "option '--late': value '5' has no unit",
        "such as 200ms",
    ),
    (["deferred", "run", "noop", "--timeout", "5"], "option '--timeout': value '5' has no unit", "such as 200ms"),
    (["check_deferred", "--lease", "5"], "option '--lease': value '5' has no unit", "such as 200ms"),
    (["deferred", "account", "add", "A"], "account name 'A' is invalid", "3 to 24"),
    (["deferred", "account", "rotate", "acct"], "option '--key' is missing", "--key 1"),
    (["deferred", "metrics", "--json"], "option '--json' is not possible"),
    (["deferred", "top", "--interval", "1ms"], "option '--interval': value '1ms' is out of range", "100ms"),
    (["deferred", "shard", "ls", "--db", "dbname=x"], "option '--db' has no effect on command 'shard'", "leave"),
    (["deferred", "--db", "dbname=x", "shard", "for", "r"], "option '--db' has no effect on command 'shard'"),
    (["deferred", "shard", "ls", "--shard", "a"], "option '--shard' has no effect on command 'shard'"),
    (["deferred", "run", "noop", "--all-shards"], "option '--all-shards' has no effect on command 'run'"),
    (["check_deferred", "--listen"], "option '--listen' has no effect without --loop", "add --loop"),
    (["check_deferred", "--frobnicate"], "option '--frobnicate' is unknown", "check_deferred --help"),
    (["check_deferred", "word"], "argument 'word' is not expected"),
    (["deferred_http", "--loo"], "option '--loo' is unknown"),
    (["deferred_web", "word"], "argument 'word' is not expected"),
]


@pytest.mark.parametrize(
    "args, says", [(args, says) for args, *says in WITHOUT_DATABASE], ids=lambda v: " ".join(v)[:60]
)
def test_wrong_usage(run, args, says):
    refused(run(args, env={"DEFERRED_DB": "host=/nonexistent", "DEFERRED_ALLOW_ROOT": "1"}), USAGE, *says)


def test_a_server_that_cannot_be_reached(db, run):
    for program in (["deferred", "ls"], ["check_deferred", "--cnt", "0", "--pidfile", f"{db.dir}/pid"]):
        refused(
            run(program, env={"DEFERRED_DB": "host=/nonexistent"}),
            UNAVAILABLE,
            "cannot connect",
            "is the server running",
        )
        refused(
            db.run([*program, "--db", f"{db.conninfo} dbname=nosuch"]),
            UNAVAILABLE,
            '"nosuch" does not exist',
            "createdb",
        )
        refused(
            db.run([*program, "--db", f"{db.conninfo} user=nosuch"]),
            UNAVAILABLE,
            '"nosuch" does not exist',
            "create role",
        )
        refused(db.run([*program, "--db", "frobnicate=1"]), CONFIG, "connection string")


WITH_DATABASE = [
    (["show", "99"], NOT_DONE, "job 99 does not exist", "was purged"),
    (["retry", "99"], NOT_DONE, "job 99 does not exist", "was purged"),
    (["cancel", "99"], NOT_DONE, "job 99 does not exist", "was purged"),
    (["flow", "release", "99"], NOT_DONE, "job 99 does not exist", "was purged"),
    (["flow", "show", "99"], NOT_DONE, "flow 99 does not exist", "was purged"),
    (["flow", "retry", "99"], NOT_DONE, "flow 99 does not exist", "was purged"),
    (["flow", "cancel", "99"], NOT_DONE, "flow 99 does not exist", "was purged"),
    (["flow", "close", "99"], NOT_DONE, "flow 99 does not exist", "was purged"),
    (["graph", "99"], NOT_DONE, "flow 99 does not exist", "was purged"),
    (["add", "noop", "--flow", "99"], NOT_DONE, "flow 99 does not exist", "was purged"),
    (["add", "noop", "--after", "99"], DATA, "option 'after': job 99 does not exist", "deferred earlier"),
    (["flow", "add", "/nosuch.json"], NO_INPUT, "file '/nosuch.json' cannot be opened", "correct the path"),
    (["add", "noop", "{x"], DATA, "params of function 'noop': invalid JSON", "one JSON value"),
    (["add", "no op"], DATA, "function name 'no op' is invalid", "1 to 127 letters"),
    (
        ["add", "noop", "--run-at", "tomorow"],
        USAGE,
        "option '--run-at': value 'tomorow' is not a time",
        "2026-01-31",
    ),
    (["queue", "pause", "nosuch"], NOT_DONE, "queue 'nosuch' does not exist", "deferred queue"),
    (["account", "rm", "nosuch"], NOT_DONE, "account 'nosuch' does not exist", "deferred account ls"),
    (["rule", "run", "nosuch"], NOT_DONE, "rule 'nosuch' does not exist", "deferred rule ls"),
    (
        ["rule", "add", "r", "noop", "delete from foo", "--key", "id"],
        DATA,
        "rule 'r': the query is not valid (syntax error",
        "one SELECT",
    ),
    (["schedule", "pause", "nosuch"], NOT_DONE, "schedule 'nosuch' does not exist", "deferred schedule ls"),
    (
        ["schedule", "set", "s", "61 2 * * *", "noop"],
        DATA,
        "schedule rule '61 2 * * *': minute '61' is out of range (0 to 59)",
        "0 to 59",
    ),
    (
        ["schedule", "set", "s", "every day", "noop"],
        DATA,
        "schedule rule 'every day': 'day' is not a time span",
        "@daily",
    ),
    (
        ["schedule", "set", "s", "1 2 * *", "noop"],
        DATA,
        "schedule rule '1 2 * *' has 4 fields instead of 5",
        "minute hour day",
    ),
    (["schedule", "set", "s", "@reboot", "noop"], DATA, "schedule rule '@reboot' is unknown", "@daily"),
    (
        ["schedule", "set", "s", "@daily", "noop", "--timezone", "Europe/Berln"],
        DATA,
        "time zone 'Europe/Berln' is unknown",
        "Europe/Berlin",
    ),
]


@pytest.mark.parametrize(
    "args, code, says",
    [(a, c, says) for a, c, *says in WITH_DATABASE],
    ids=lambda v: " ".join(v)[:60] if isinstance(v, list) else str(v),
)
def test_what_is_asked_for_in_vain(db, args, code, says):
    refused(db.run(["deferred", *args]), code, *says)


def test_a_wrong_time_zone_of_the_config_file(db):
    db.config('timezone = "Europe/Berln"')
    for args in (["set", "s", "@daily", "noop"], ["next", "@daily"]):
        done = db.run(["deferred", "schedule", *args])
        refused(done, CONFIG, "setting 'timezone': time zone 'Europe/Berln' is unknown")
    done = db.run(["deferred", "schedule", "next", "@daily", "--timezone", "Mars"])
    refused(done, DATA, "time zone 'Mars' is unknown")


def test_a_function_that_no_worker_offers_is_named(db):
    """By add on a terminal only. Before workers have offered anything nothing is known."""
    warning = "deferred: function 'maail': no worker offers it\nhint: "

    def run(*args):
        done = db.run(args)
        assert done.returncode == 0, done.stderr
        return done

    def add(fn):
        main, side = pty.openpty()
        done = subprocess.run(
            [harness.program("deferred"), "add", fn],
            stdout=subprocess.PIPE,
            stderr=side,
            env={**os.environ, **db.env},
            text=True,
            check=True,
        )
        os.close(side)
        said = b""
        with contextlib.suppress(OSError):
            while piece := os.read(main, 1000):
                said += piece
        os.close(main)
        assert done.stdout.strip().isdigit()
        return said.decode().replace("\r", "")

    assert add("maail") == "" and run("deferred", "function", "set", "maail", "--max-running", "1").stderr == ""
    run("check_deferred")
    assert add("maail").startswith(warning) and add("noop") == ""
    assert run("deferred", "function", "set", "maail", "--max-running", "2").stderr.startswith(warning)
    assert run("deferred", "function", "set", "noop", "--max-running", "2").stderr == ""
    assert run("deferred", "add", "maail").stderr == ""


@pytest.mark.parametrize(
    "args, says",
    [
        (["ls"], "no jobs"),
        (["schedule", "ls"], "no schedules"),
        (["flow", "ls"], "no flows"),
        (["rule", "ls"], "no rules"),
        (["account", "ls"], "no accounts"),
        (["function", "ls"], "no functions with settings"),
        (["alert", "--list"], "no problems"),
    ],
    ids=lambda v: v if isinstance(v, str) else "_".join(v),
)
def test_an_empty_list_says_so_on_a_terminal(db, args, says):
    assert db.run(["deferred", *args]).stdout == ""
    main, side = pty.openpty()
    subprocess.run([harness.program("deferred"), *args], stdout=side, env={**os.environ, **db.env}, check=True)
    assert os.read(main, 100).decode() == f"{says}\r\n"
    os.close(main)
    os.close(side)


def test_a_database_without_the_schema(db):
    db.sql("drop schema deferred cascade")
    for program in (["deferred", "ls"], ["check_deferred", "--cnt", "0"]):
        refused(db.run(program), CONFIG, "schema 'deferred'", "deferred migrate")


def test_a_role_without_rights(db):
    role = f"plain_{db.name}"
    db.sql(f"create role {role} login")
    try:
        for args in (
            ["ls"],
            ["status"],
            ["queue", "ls"],
            ["flow", "ls"],
            ["retry", "--fn", "f"],
            ["purge", "--older-than", "1d"],
        ):
            done = db.run(["deferred", *args, "--db", f"{db.conninfo} user={role}"])
            refused(done, NO_RIGHT, "the role lacks a right (permission denied", "grant deferred_")
    finally:
        db.sql(f"drop role {role}")


def refused_by_the_server(status, text, says, hint):
    assert status != 0
    _, message, said_hint = parts(text)
    check_form(message, said_hint)
    assert message.startswith(f"{says} (") and hint in said_hint, text


def test_a_server_that_is_read_only_is_the_cause_of_a_message(db):
    """A setting of the database makes the server itself refuse; raise in a function would carry words of ours."""
    db.sql(f"alter database {db.one('select current_database()')} set default_transaction_read_only = on")
    done = db.run(["deferred", "add", "noop", "--db", db.conninfo])
    says, hint = "the server is read-only", "reset default_transaction_read_only"
    refused_by_the_server(done.returncode, done.stderr, says, hint)


def test_a_cancelled_statement_is_the_cause_of_a_message(db):
    with db.connect() as c, c.cursor() as cursor:
        cursor.execute("lock table deferred.__deferred_hot in access exclusive mode")
        adding = db.spawn(["deferred", "add", "noop", "--db", db.conninfo])
        waiting = (
            "select count(pg_cancel_backend(pid)) from pg_locks where not granted and database = "
            "(select oid from pg_database where datname = current_database())"
        )
        harness.wait_for(lambda: db.one(waiting) == 1, 10, "the command waits for the lock, and is cancelled")
        status = adding.wait(10)
    refused_by_the_server(status, adding.output(), "the statement was cancelled", "statement_timeout")


SQL = [
    ("select deferred.defer('f', '{}', '[1]')", "22023", "opts must be a JSON object, but a JSON array was given"),
    (r"""select deferred.defer('f', '{}', '{"label": "\u0000"}')""", "22P05", r"opts: the escape \u0000 cannot be"),
    (r"""select deferred.defer('f', '{}', '{"key": "\ud83d"}')""", "22P02", r"opts: an escape such as \ud83d is"),
    ("select deferred.defer('f', '{}', '{\"priority\": 1e200000}')", "22003", "opts: a number is too large"),
    ("select deferred.defer_many('[{x')", "22P02", 'jobs: invalid JSON (Token "x" is invalid; JSON data, line 1'),
    (r"""select deferred.defer_many('[{"fn": "\u0000"}]')""", "22P05", r"jobs: the escape \u0000 cannot be stored"),
    (r"""select deferred.defer_flow('{"label": "\u0000"}')""", "22P05", r"flow: the escape \u0000 cannot be stored"),
    (r"""select deferred.flow_open('{"label": "\u0000"}')""", "22P05", r"flow: the escape \u0000 cannot be stored"),
    (
        r"""select deferred.schedule('s', '@daily', 'f', '{}', '{"label": "\u0000"}')""",
        "22P05",
        r"schedule 's': options: the escape \u0000 cannot be stored",
    ),
    (
        r"""select deferred.send_mail('a@b.example', 's', 't', headers => '{"X-A": "\u0000"}')""",
        "22P05",
        r"headers: the escape \u0000 cannot be stored",
    ),
    (
        r"""select deferred.send_mail('a@b.example', 's', 't', attachments => '[{"name": "\u0000"}]')""",
        "22P05",
        r"attachments: the escape \u0000 cannot be stored",
    ),
    ("select deferred.defer('f', '{}', '{\"que\": 1}')", "22023", "option 'que' is unknown"),
    (
        "select deferred.defer('f', '{}', '{\"priority\": \"high\"}')",
        "22023",
        "option 'priority' is not a number: 'high'",
    ),
    ("select deferred.defer('f', '{}', '{\"priority\": 40000}')", "22003", "option 'priority' is out of range: 40000"),
    ("select deferred.defer('f', '{}', '{\"delay\": \"soon\"}')", "22023", "option 'delay': 'soon' is not a time span"),
    ("select deferred.defer('f', '{}', '{\"run_at\": \"soon\"}')", "22023", "option 'run_at': 'soon' is not a time"),
    (
        "select deferred.defer_many('[{\"fn\": \"f\", \"expires_at\": 1}]'::json)",
        "22023",
        "option 'expires_at': '1' is not",
    ),
    (
        "select deferred.defer_many('[{\"fn\": \"f\", \"priority\": \"x\"}]'::json)",
        "22023",
        "option 'priority' is not a number",
    ),
    ("select deferred.defer('f', '{}', '{\"key\": \"\"}')", "22003", "option 'key' is out of range"),
    ("select deferred.defer('f', '{}', '{\"tags\": 1}')", "22023", "tags must be a JSON array"),
    (
        "select deferred.defer('f', '{}', '{\"traceparent\": \"x\"}')",
        "22023",
        "option 'traceparent' has the invalid value 'x'",
    ),
    ("select deferred.defer('f', '{}', '{\"flow\": 7}')", "P0002", "flow 7 does not exist"),
    ("select deferred.defer('f', '{}', '{\"after\": 7}')", "22023", "option 'after': job 7 does not exist"),
    (
        "select deferred.defer('f', '{}', '{\"concurrency\": 2}')",
        "22023",
        "option 'concurrency' is 2, but 'concurrency_key' is missing",
    ),
    ("select deferred.defer(null)", "22023", "the function is missing"),
    ("select deferred.defer('f', null)", "22004", "params of function 'f' are NULL"),
    ("select deferred.defer('f', queue => 'a b')", "22023", "queue name 'a b' is invalid"),
    ("select deferred.defer_many('{}'::json)", "22023", "jobs must be a JSON array"),
    ("select deferred.defer_many('[1]'::json)", "22023", "job 1 must be a JSON object"),
    ("select deferred.defer_flow('{}'::json)", "22023", "flow: 'jobs' is missing"),
    ("select deferred.flow_open('{\"oops\": 1}')", "22023", "flow: option 'oops' is unknown"),
    ("select deferred.flow_close(7)", "P0002", "flow 7 does not exist"),
    ("select deferred.flow_cancel(7)", "P0002", "flow 7 does not exist"),
    ("select deferred.flow_retry(7)", "P0002", "flow 7 does not exist"),
    (
        "select deferred.schedule('s', '61 * * * *', 'f')",
        "22023",
        "schedule rule '61 * * * *': minute '61' is out of range",
    ),
    ("select deferred.schedule('a b', '@daily', 'f')", "22023", "schedule name 'a b' is invalid"),
    ("select deferred.schedule('s', '0 0 31 2 *', 'f')", "22023", "schedule rule '0 0 31 2 *' never comes due"),
    (
        "select deferred.schedule('s', '@daily', 'f', '{}', '{\"missed\": \"x\"}')",
        "22023",
        "option 'missed' has the invalid value 'x'",
    ),
    ("select deferred.schedule_pause('nosuch')", "P0002", "schedule 'nosuch' does not exist"),
    ("select deferred.send_mail(null::text, 's', 't')", "22023", "the recipient is missing"),
    ("select deferred.send_mail('ann', 's', 't')", "22023", "to: 'ann' is not a mail address"),
    ("select deferred.send_mail('a@b.example', 's')", "22023", "text and html are both missing"),
    ("select deferred.finish(null, null)", "22004", "the job id is NULL"),
    ("select deferred.finish(7, 7)", "55000", "job 7 is not held by this receipt"),
    ("select deferred.claim('nosuch')", "42704", "queue 'nosuch' does not exist"),
    ("select deferred.claim('default', 0)", "22003", "claim of 0 messages"),
    ("select deferred.__queue_set('q', '{\"colour\": 1}', true)", "22023", "setting 'colour' of queue 'q' is unknown"),
    ("select deferred.__queue_rm('default')", "55000", "queue 'default' cannot be removed"),
    ("select deferred.__function_set('f', '{\"burst\": 1}')", "22023", "function 'f' has a burst of 1 but no rate"),
]


@pytest.mark.parametrize("statement, state, says", SQL, ids=[statement[7:60] for statement, _, _ in SQL])
def test_functions_in_sql(db, statement, state, says):
    with pytest.raises(psycopg2.Error) as caught:
        db.sql(statement)
    diag = caught.value.diag
    assert (diag.sqlstate, diag.message_primary.startswith(says)) == (state, True), diag.message_primary
    assert diag.message_hint, diag.message_primary
    check_form(diag.message_primary, diag.message_hint)


def test_each_raise_of_ours_has_a_hint(db):
    """The sources are read, so that no message is left out; four errors that nobody sees are known by SQLSTATE."""
    sources = db.sql(
        "select p.oid::regproc::text, p.prosrc from pg_proc p where p.pronamespace = 'deferred'::regnamespace"
    )
    raises = [
        (name, raised)
        for name, text in sources
        for raised in re.findall(r"(?s)raise exception using (.*?);\s*\n", text)
    ]
    assert len(raises) > 150
    known = "'DF001'|'DEF0[123]'|'DR000'|'28000'"
    assert [r for r in raises if "hint" not in r[1] and not re.search(known, r[1])] == []
    for name, raised in raises:
        for text in re.findall(r"message = (?:format\()?'((?:''|[^'])*)'", raised):
            assert '"' not in text and not re.search(r"\b(?:is|are) no [a-z]|%L|%I", text), (name, text)


CONFIGS = [
    ('timeout = 5 minutes\n', ':1: ', 'quotes'),
    ('frobnicate = 1\n', ":1: setting 'frobnicate' is unknown", "deferred.conf(5)"),
    ('cnt = many\n', ":1: setting 'cnt'", "deferred.conf(5)"),
    ('log_level = loud\n', ":1: setting 'log_level'", "deferred.conf(5)"),
]


@pytest.mark.parametrize("text, says, hint", CONFIGS, ids=[c[0].strip() for c in CONFIGS])
@pytest.mark.parametrize("program", ["deferred", "check_deferred", "deferred_http", "deferred_web"])
def test_the_config_file(run, tmp_path, program, text, says, hint):
    path = tmp_path / "deferred.conf"
    path.write_text(text)
    args = [program, *(["ls"] if program == "deferred" else []), "--config", str(path)]
    refused(run(args, env={"DEFERRED_DB": "host=/nonexistent"}), CONFIG, f"{path}{says}", hint)


def test_a_command_whose_program_is_missing_is_named_at_each_start_that_has_work(db):
    db.config('function "lost" { command = {"/nowhere/lost"} }\n')
    assert db.run(["check_deferred"]).stderr == ""
    db.defer("lost")
    warning, attempt, _ = db.run(["check_deferred"]).stderr.splitlines(True)
    _, message, hint = parts(warning)
    check_form(message, hint)
    assert message == "function 'lost': cannot execute '/nowhere/lost' (No such file or directory)"
    assert "job" in attempt and "'/nowhere/lost': No such file" in attempt


def test_a_time_zone_of_the_settings_that_the_server_does_not_know(db):
    says = "setting 'timezone': time zone 'Europe/Berln' is unknown", "Europe/Berlin"
    db.config('timezone = "Europe/Berln"\n')
    job = db.defer("noop")
    for command in (
        ["check_deferred"],
        ["check_deferred", "--loop"],
        ["deferred", "schedule", "set", "s", "@daily", "noop"],
        ["deferred", "schedule", "next", "@daily"],
    ):
        refused(db.run(command), CONFIG, *says)
    checks = json.loads(db.run(["deferred", "doctor", "--json"]).stdout)
    assert [(c["what"], c["do"]) for c in checks if c["check"] == "schedules"] == [
        (says[0], "use a name from the view pg_timezone_names, such as Europe/Berlin")
    ]
    assert db.one("select state from deferred.job where id = %s", job) == "ready"
    db.config('timezone = "Europe/Berlin"\n')
    assert db.run(["check_deferred"]).returncode == 0
    assert db.one("select state from deferred.job where id = %s", job) == "done"


def test_a_schedule_file_with_a_wrong_time_zone(db, tmp_path):
    path = tmp_path / "jobs.conf"
    for text in (
        'timezone = "Mars"\nschedule "s" { rule = "@daily" function = noop }\n',
        'schedule "s" { rule = "@daily" function = noop timezone = "Mars" }\n',
    ):
        path.write_text(text)
        done = db.run(["deferred", "schedule", "sync", str(path)])
        refused(done, DATA, f"{path}: schedule 's': time zone 'Mars' is unknown", "Europe/Berlin")
    refused(db.run(["deferred", "schedule", "sync", "/nosuch"]), NO_INPUT, "file '/nosuch' cannot be opened")


def test_key_files(db, tmp_path):
    path = tmp_path / "http.key"

    def add(*says):
        done = db.run(["deferred", "account", "add", "acme"], env={"DEFERRED_HTTP_KEY_FILE": str(path)})
        refused(done, CONFIG, f"key file '{path}'", *says)

    path.write_text("x\n")
    path.chmod(0o644)
    add("has mode 0644", "chmod 0600")
    path.chmod(0o600)
    add("does not hold a key", "restore the file from a copy")
    path.unlink()
    path.symlink_to("/etc/passwd")
    add("is a symbolic link", "regular file")
    path.unlink()
    path.mkdir()
    add("is not a regular file", "http.key_file")


def test_pidfiles(db, tmp_path):
    def start(path, code, *says):
        refused(db.run(["check_deferred", "--pidfile", str(path)]), code, f"pidfile '{path}'", *says)

    start("/nowhere/pid", 73, "cannot create pidfile", "No such file", "make the folder")
    link = tmp_path / "link"
    link.symlink_to("elsewhere")
    start(link, NO_RIGHT, "is a symbolic link", "remove it")
    shared = tmp_path / "shared"
    shared.touch()
    shared.chmod(0o666)
    start(shared, NO_RIGHT, "is writable by others", "chmod go-w")


def test_plugins(db, tmp_path):
    refused(db.run(["check_deferred", "--plugin-dir", "/nowhere"]), CONFIG, "plugin folder '/nowhere'", "--plugin-dir")
    broken = tmp_path / "broken.so"
    broken.write_text("no code")
    db.defer("noop")
    refused_by = ["check_deferred", "--plugin-dir", str(tmp_path)]
    warnings = [line for line in db.run(refused_by).stderr.splitlines() if "broken.so" in line]
    assert len(warnings) == 1 and "warning: plugin 'broken.so' not loaded: cannot be loaded: " in warnings[0]
    assert "run ldd -r on the file" in warnings[0]
    broken.chmod(0o666)
    refused(db.run(refused_by), NO_RIGHT, f"'{broken}' is writable by others", "chmod go-w")


def test_certificates_addresses_and_logs_of_a_server(db, tmp_path):
    names = [str(tmp_path / name) for name in ("a.key", "a.crt", "b.key", "b.crt")]
    for key, certificate in (names[:2], names[2:]):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
            + ["-keyout", key, "-out", certificate, "-subj", "/CN=localhost", "-days", "2"],
            check=True,
            capture_output=True,
        )
        os.chmod(key, 0o600)
    garbage = tmp_path / "garbage"
    garbage.write_text("x")
    garbage.chmod(0o600)

    def start(code, *args, says):
        refused(db.run(["deferred_http", *args]), code, *says)

    def tls(certificate, key, *says):
        start(
            CONFIG,
            "--tls-certificate",
            certificate,
            "--tls-key",
            key,
            says=(*says, "set tls_certificate and tls_key"),
        )

    tls("/nowhere", names[0], "cannot use certificate '/nowhere'")
    tls(str(garbage), names[0], f"cannot use certificate '{garbage}'")
    tls(names[1], str(garbage), f"cannot use key '{garbage}'")
    tls(names[1], names[2], f"key '{names[2]}' is not that of certificate '{names[1]}'")
    start(CONFIG, "--tls-certificate", names[1], says=["setting 'http.tls_key' is missing", "http.listen_tls"])
    start(CONFIG, "--listen", "256.1.1.1:x", says=["cannot listen on '256.1.1.1:x'", "set http.listen to"])
    start(73, "--access-log", "/nowhere/log", says=["cannot open access log '/nowhere/log'", "name a file"])
    refused(db.run(["deferred_web", "--listen", "1.2.3.4.5:80"]), CONFIG, "cannot listen on", "set web.listen to")


def test_a_lock_that_another_transaction_holds(db):
    with contextlib.closing(db.connect()) as other, other.cursor() as cursor:
        cursor.execute("lock table deferred.__deferred_queue in access exclusive mode")
        done = db.run(["deferred", "queue", "set", "q", "--create", "--lock-timeout", "50ms"])
        other.rollback()
    assert done.returncode != 0
    _, message, hint = parts(done.stderr)
    check_form(message, hint)
    assert message.startswith("another transaction holds a lock (canceling statement due to lock timeout)"), done
    assert "--lock-timeout" in hint


PLACES = [
    ["deferred", *place.split()[1:]]
    for place in sorted(
        {
            line.split("\t")[0]
            for line in subprocess.run(
                [harness.program("deferred"), "--describe"], capture_output=True, text=True, check=True
            ).stdout.splitlines()
        }
    )
    if len(place.split()) > 1 and place != "deferred help"
]


@pytest.mark.parametrize("place", PLACES, ids=" ".join)
def test_each_command_names_what_it_does_not_take(run, place):
    """Arguments that are too many or not valid, then each option with a value that is not valid."""
    env = {"DEFERRED_DB": "host=/nonexistent"}
    described = run([place[0], "--describe"]).stdout.splitlines()
    options = [line.split("\t") for line in described if line.startswith("\t".join([" ".join(place), "option"]))]
    lines = [["a b"] * 7] + [[what, "\x1b"] for _, _, what, takes, _ in options if takes]
    for words in lines:
        done = run([*place, *words], env=env)
        if done.stderr:
            failed = 2 if place[-1] == "doctor" else USAGE
            assert done.returncode in (failed, USAGE, DATA, NO_INPUT, UNAVAILABLE, CONFIG), (words, done)
            _, message, hint = parts(done.stderr)
            check_form(message, hint)
        else:
            assert done.stdout or done.returncode == 0, (words, done)  # doctor, or an option without effect


CALLS = """
select p.proname, p.oid::regprocedure::text,
       array(select format_type(t.oid, null) from unnest(p.proargtypes) with ordinality a(oid, n)
             join pg_type t on t.oid = a.oid order by a.n)
from pg_proc p
where p.pronamespace = 'deferred'::regnamespace and p.proname !~ '^__' and p.prorettype <> 'trigger'::regtype
order by 2
"""
VALUES = {
    "null": lambda t: "null",
    "zero": lambda t: {"bigint": "0", "integer": "0", "boolean": "false", "text": "''", "text[]": "'{}'"}.get(t),
    "minus": lambda t: {"bigint": "-1", "integer": "-1", "text": "'a b'", "text[]": "array['a b', null]"}.get(t),
    "array": lambda t: {"json": "'[]'", "jsonb": "'[]'", "text": "'x'", "bigint": "9", "integer": "9"}.get(t),
    "object": lambda t: {"json": """'{"a": {"b": 1}}'""", "jsonb": """'{"a": 1}'""", "text": "'x'"}.get(t),
    "infinite": lambda t: {"timestamp with time zone": "'infinity'", "text": "'@daily'", "integer": "1"}.get(t),
    "huge": lambda t: {"bigint": str(2**63 - 1), "integer": str(2**31 - 1), "text": "repeat('x', 2000)"}.get(t),
}


@pytest.mark.parametrize("kind", VALUES)
def test_each_public_function_in_sql_refuses_in_words_of_ours(db, kind):
    refusals = 0
    for _, signature, types in db.sql(CALLS):
        name = signature.split("(")[0]
        given = [f"{VALUES[kind](t) or 'null'}::{t}" for t in types]
        with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
            try:
                cursor.execute(f"select {name}({', '.join(given)})")
            except psycopg2.Error as e:
                refusals += 1
                assert e.diag.message_hint, (signature, given, e)
                check_form(e.diag.message_primary, e.diag.message_hint)
            c.rollback()
    assert refusals > 5


SERVERS = [
    (["deferred_http", "--listen-tls", "127.0.0.1:0"], CONFIG, "setting 'http.tls_certificate' is missing", "HTTPS"),
    (["deferred_http", "--listen-metrics", "0.0.0.0:0"], CONFIG, "open beyond this machine", "http.listen_metrics"),
    (["deferred_http", "--threads", "0"], USAGE, "option '--threads': value '0' is out of range (1 to", "(5)"),
    (["deferred_http", "--listen", "127.0.0.1:99999"], CONFIG, "cannot listen on '127.0.0.1:99999'", "http.listen"),
    (["deferred_http", "--listen", ""], CONFIG, "no address to listen on is set", "set http.listen or"),
    (["deferred_web", "--auth", "peer", "--listen", "127.0.0.1:0"], CONFIG, "web.auth is peer", "Unix socket"),
    (["deferred_web", "--auth", "guess"], USAGE, "option '--auth': value 'guess' is not one of", "(5)"),
    (["deferred_web", "--listen", "0.0.0.0:0"], CONFIG, "is open beyond this machine", "web.listen_tls"),
    (
        ["deferred_web", "--listen-tls", "127.0.0.1:0"],
        CONFIG,
        "setting 'web.tls_certificate' is missing",
        "web.tls_key",
    ),
    (["deferred_web", "--listen-metrics", "0.0.0.0:0"], CONFIG, "open beyond this machine", "web.listen_metrics"),
    (["check_deferred", "--log-level", "loud"], USAGE, "option '--log-level': value 'loud' is not one of", "(5)"),
    (["check_deferred", "--lease", "-5s"], USAGE, "option '--lease': value '-5s' is not a time span", "(5)"),
    (["deferred", "add", "noop", "--delay=-5s"], USAGE, "option '--delay': value '-5s' is not a time span", "--help"),
]
for name in ("deferred_http", "deferred_web", "check_deferred", "deferred"):
    command = [name, "ls"] if name == "deferred" else [name]
    SERVERS += [
        (
            [*command, "--config", "/nonexistent"],
            CONFIG,
            "config file '/nonexistent' does not exist",
            "leave out --config",
        ),
        ([*command, "--config", "/"], CONFIG, "cannot read config file '/': Is a directory", "name another file"),
        (
            [*command, "--db", "host=h", "--shard", "s"],
            USAGE,
            "option '--db' contradicts option '--shard'",
            "leave one",
        ),
    ]


@pytest.mark.parametrize("args, code, says", [(a, c, says) for a, c, *says in SERVERS], ids=lambda v: str(v)[:60])
def test_settings_that_a_program_cannot_use(db, args, code, says):
    refused(db.run(args), code, *says)


ATTEMPTS = [
    ("crash", '{"signal": 11}', "killed by signal 11 (Segmentation fault)"),
    ("crash", '{"signal": 99}', "signal 99 does not exist; hint: use 1 to"),
    ("fail", "[]", "params are not a JSON object: another JSON value was given; hint: pass {}"),
    ("append", "{}", "'file' is missing; hint: pass 'file'"),
    ("append", '{"file": "a"}', "'text' is missing; hint: pass 'file'"),
    ("append", '{"file": "a", "text": "b\\nc"}', "'text' is longer than a line; hint: pass 'file'"),
    ("append", '{"file": "a", "text": "b"}', "cannot append to 'a': setting 'sample.dir' is not set; hint: set it"),
    ("send_mail", "{}", "the recipient is missing: to, cc and bcc are empty; hint: set to"),
    ("send_mail", '{"tu": 1}', "field 'tu' is unknown; hint: deferred_functions(7)"),
    ("send_mail", '{"to": "a..b@c.example", "text": ""}', "to: 'a..b@c.example' is not valid before the @; hint: "),
]


def test_lines_about_attempts_name_job_cause_and_what_comes_next(db):
    jobs = {db.defer(fn, params): (fn, says) for fn, params, says in ATTEMPTS}
    said = db.run(["check_deferred", "--cnt", "0"]).stderr
    for job, (fn, says) in jobs.items():
        line = re.search(rf"warning: job {job} {fn} attempt 1: (\w+): (.*); (dead|retrying in [\d.]+ s)\n", said)
        assert line and line[2].startswith(says), (says, said)
