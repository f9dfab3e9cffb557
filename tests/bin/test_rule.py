"""`deferred rule`: stored queries whose rows become jobs. Whose rights a query has is tested in
tests/sql/test_rule_rights.py."""

import json
import os
import pty
import re
import signal
import threading

import pytest

OK, NOT_DONE, USAGE, DATA, UNAVAILABLE, TEMPFAIL, NOPERM, CONFIG = 0, 1, 64, 65, 69, 75, 77, 78


def ok(result):
    assert (result.returncode, result.stderr) == (OK, ""), result
    return result.stdout


def fails(result, code, *texts):
    assert result.returncode == code, result
    for text in texts:
        assert text in result.stderr
    return result.stdout


def rule(db, *args, **kw):
    return db.run(["deferred", "rule", *args], **kw)


@pytest.fixture
def docs(db):
    db.sql("create table doc as select i as id, 'doc ' || i as title from generate_series(1, 100) i; analyze doc")
    return db


def params(db):
    return [r[0] for r in db.sql("select params::text from deferred.__deferred order by id")]


# ---- usage


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["frobnicate"],
        ["--frobnicate"],
        ["ls", "x"],
        ["test"],
        ["test", "a", "b"],
        ["test", "a", "--limit", "-1"],
        ["test", "a", "--limit", "1001"],
        ["rm"],
        ["run", "--frobnicate"],
        ["add"],
        ["add", "a", "noop"],
        ["add", "a", "noop", "select 1"],
        ["add", "a", "noop", "select 1", "x", "--key", "id"],
        ["add", "a", "noop", "select 1", "--key", "id", "--priority", "32768"],
        ["add", "a", "noop", "select 1", "--key", "id", "--delay", "soon"],
        ["add", "a", "noop", "select 1", "--key", "id", "--statement-timeout", "-1s"],
        ["add", "a", "noop", "select 1", "--key", "id", "--max-attempts", "0"],
        ["add", "a", "noop", "select 1", "--key", "id", "--timeout", "nan"],
        ["add", "a", "noop", "select 1", "--key", "id", "--expires", "x"],
    ],
)
def test_wrong_usage_ends_with_64_before_anything_is_touched(run, args):
    result = run(["deferred", "rule", *args], env={"DEFERRED_DB": "host=/nonexistent"})
    assert result.returncode == USAGE, result
    assert re.fullmatch(r"deferred: .+\nhint: .+\n", result.stderr)
    assert result.stdout == ""


def test_help_needs_no_server(run):
    for args in ([], ["add"], ["ls"], ["test"], ["run"], ["rm"]):
        assert ok(run(["deferred", "rule", *args, "--help"])).startswith("usage: deferred rule add NAME FN QUERY")


@pytest.mark.parametrize(
    "args",
    [["add", "a", "noop", "select 1 as id", "--key", "id"], ["ls"], ["test", "a"], ["run"], ["run", "a"], ["rm", "a"]],
)
def test_an_unreachable_server_ends_with_69(db, args):
    fails(db.run(["deferred", "--db", "host=/nonexistent", "rule", *args]), UNAVAILABLE, "cannot connect")


# ---- add, ls, rm


def test_a_rule_is_added_listed_and_removed(docs):
    assert ok(rule(docs, "ls")) == ""
    assert (
        ok(
            rule(
                docs,
                "add",
                "old",
                "noop",
                "select * from doc;\n",
                "--key",
                "id",
                "--params",
                '{"n": 1.10}',
                "--queue",
                "archive",
                "--priority",
                "-3",
                "--label",
                "x",
                "--delay",
                "1h",
                "--expires",
                "2d",
                "--max-attempts",
                "3",
                "--timeout",
                "10s",
                "--statement-timeout",
                "5min",
            )
        )
        == ""
    )
    [r] = json.loads(ok(rule(docs, "ls", "--json")))
    assert {
        k: r[k]
        for k in (
            "name",
            "query",
            "fn",
            "params",
            "key_column",
            "queue",
            "priority",
            "opts",
            "owner",
            "statement_timeout_ms",
            "last_run_at",
        )
    } == {
        "name": "old",
        "query": "select * from doc",
        "fn": "noop",
        "params": {"n": 1.1},
        "key_column": "id",
        "queue": "archive",
        "priority": -3,
        "opts": {"label": "x", "delay": "1h", "expires": "2d", "max_attempts": "3", "timeout": "10s"},
        "owner": "deferred",
        "statement_timeout_ms": 300000,
        "last_run_at": None,
    }
    header, line = ok(rule(docs, "ls")).splitlines()
    assert header.split() == [
        "RULE",
        "FUNCTION",
        "QUEUE",
        "OWNER",
        "LAST",
        "RUN",
        "TOOK",
        "QUEUED",
        "SKIPPED",
        "FAILED",
        "ERROR",
    ]
    assert line.split() == ["old", "noop", "archive", "deferred", "never"]
    assert ok(rule(docs, "rm", "old")) == ""
    assert ok(rule(docs, "ls")) == ""


def test_a_query_may_come_from_standard_input(docs):
    ok(rule(docs, "add", "r", "noop", "-", "--key", "id", input="-- the old ones\nselect * from doc -- all\n"))
    assert "100 queued" in ok(rule(docs, "run", "r"))


@pytest.mark.parametrize(
    "args, texts",
    [
        (["a b", "noop", "select 1 as id"], ["rule name 'a b' is invalid", "hint: "]),
        (["", "noop", "select 1 as id"], ["rule name"]),
        (["a", "no op", "select 1 as id"], ["function name 'no op' is invalid"]),
        (["a", "noop", " ; "], ["rule 'a': the query is empty"]),
        (["a", "noop", "select 1 as id", "--queue", "a b"], ["queue name 'a b' is invalid"]),
        (["a", "noop", "select 1 as id", "--params", "[]"], ["must be a JSON object, but a JSON array was given"]),
        (["a", "noop", "select 1 as id", "--params", "{x"], ["invalid JSON"]),
        (
            ["a", "noop", "select 1 as id", "--params", json.dumps({"x" * 64: 1})],
            ['rule \'a\': params have the invalid member \'xxxx'],
        ),
        (["a", "noop", "select 1 as id", "--params", '{"": 1}'], ['rule \'a\': params have the invalid member \'\'']),
        (["a", "noop", "select 1 as id", "--label", "x" * 1001], ["out of range"]),
        (["a", "noop", "select 1 as id", "--statement-timeout", "25d"], ["2160000000 ms is out of range"]),
        (["a", "noop", "select 1 as ids"], ["no column 'id'", "hint: columns of the query: ids"]),
        (["a", "noop", "select 1 as id, 2 as id"], ["two columns of the query have the same name", "id, id"]),
        (
            ["a", "noop", "select id from nowhere"],
            ['rule \'a\': the query is not valid (relation "nowhere" does not exist'],
        ),
        (["a", "noop", "selec 1"], ["rule 'a': the query is not valid (syntax error"]),
        (["a", "noop", "select 1 as id) x; select (2"], ["rule 'a': the query is not valid (syntax error"]),
        (
            ["a", "noop", "insert into deferred.__deferred_queue (name) values ('q') returning 1 as id"],
            ["rule 'a': the query is not valid (syntax error"],
        ),
        (["a", "noop", ""], ["rule 'a': the query is empty"]),
    ],
)
def test_a_wrong_rule_ends_with_65_and_is_not_stored(docs, args, texts):
    assert fails(rule(docs, "add", *args, "--key", "id"), DATA, *texts) == ""
    assert docs.one("select count(*) from deferred.__deferred_rule") == 0


def test_names_are_unique_and_unknown_ones_are_told(docs):
    ok(rule(docs, "add", "r", "noop", "select * from doc", "--key", "id"))
    fails(
        rule(docs, "add", "r", "noop", "select * from doc", "--key", "id"),
        NOT_DONE,
        "rule 'r' exists already",
        "deferred rule rm r",
    )
    for command in ("test", "run", "rm"):
        fails(rule(docs, command, "nobody"), NOT_DONE, "deferred: rule 'nobody' does not exist\n")
    fails(rule(docs, "rm", "nobody", "r"), NOT_DONE, "nobody")
    assert ok(rule(docs, "ls")) == ""


# ---- test


def test_test_shows_plan_and_first_rows_and_queues_nothing(docs):
    ok(
        rule(
            docs,
            "add",
            "r",
            "noop",
            "select * from doc order by id",
            "--key",
            "id",
            "--params",
            '{"title": "none", "n": 1.10}',
        )
    )
    text = ok(rule(docs, "test", "r", "--limit", "2"))
    assert text.startswith("about 100 rows\n\n") and "Seq Scan on doc" in text
    assert text.endswith('\n1\t{"n":1.10,"id":1,"title":"doc 1"}\n2\t{"n":1.10,"id":2,"title":"doc 2"}\n')
    answer = json.loads(ok(rule(docs, "test", "r", "--json")))
    assert (answer["rule"], answer["estimate"], len(answer["jobs"])) == ("r", 100, 5)
    assert answer["jobs"][4] == {"key": "5", "params": {"n": 1.1, "id": 5, "title": "doc 5"}}
    assert "Seq Scan" in answer["plan"]
    assert docs.hot() == 0


def test_test_of_a_query_without_rows_still_knows_its_columns(docs):
    ok(rule(docs, "add", "r", "noop", "select * from doc where false", "--key", "id"))
    assert json.loads(ok(rule(docs, "test", "r", "--json")))["jobs"] == []


# ---- run


def test_every_row_becomes_a_job_with_its_columns_as_params(docs, ledger):
    ok(
        rule(
            docs,
            "add",
            "r",
            "noop",
            'select id, title, null as nothing, id = 1 as first, \'{"b": 1.10,  "b": 2}\'::json as doc, '
            '1.50 as "Odd Name" from doc',
            "--key",
            "id",
            "--params",
            '{"title": "a column wins", "n": {"deep": [1, 18446744073709551615]}}',
            "--queue",
            "q",
            "--priority",
            "7",
            "--label",
            "old",
        )
    )
    answer = json.loads(ok(rule(docs, "run", "r", "--json")))
    assert [{k: a[k] for k in ("rule", "estimate", "queued", "skipped", "failed", "examples")} for a in answer] == [
        {"rule": "r", "estimate": 100, "queued": 100, "skipped": 0, "failed": 0, "examples": []}
    ]
    assert (
        params(docs)[0]
        == '{"n":{"deep": [1, 18446744073709551615]},"id":1,"title":"doc 1","nothing":null,"first":true,"doc":{"b": '
        '1.10,  "b": 2},"Odd Name":1.50}'
    )
    assert docs.sql(
        "select distinct queue, fn, priority, label, created_by, run_at, rule from deferred.__deferred"
    ) == [("q", "noop", 7, "old", "deferred", None, "r")]
    assert docs.sql(
        "select count(*), count(distinct key), min(priority), max(queue), count(due_at) from deferred.__deferred_hot"
    ) == [(100, 100, 7, "q", 0)]
    assert (
        docs.one(
            "select count(*) from deferred.__deferred d join deferred.__deferred_hot h using (id) "
            "where h.key = '8:deferred:' || d.key and d.params->>'id' = d.key"
        )
        == 100
    )
    ledger(docs)
    assert docs.run(["check_deferred", "--cnt", 0, "--runners", 1]).returncode == 0
    assert docs.sql("select outcome, count(*) from deferred.__deferred_log group by 1") == [("ok", 100)]
    ledger(docs)


@pytest.mark.slow
def test_columns_may_have_any_name(docs):
    names = [
        "s",
        "r",
        "x",
        "y",
        "z",
        "q",
        "key",
        "params",
        "v_row",
        "v_query",
        "a b",
        'a"b',
        "a'b",
        "%s",
        "$$",
        "$f$",
        "\\",
        "select",
    ]
    columns = ", ".join('1 as "%s"' % n.replace('"', '""') for n in names)
    for i, name in enumerate(names):
        ok(
            rule(
                docs,
                "add",
                f"r{i}",
                "noop",
                f"select {columns}",
                "--key",
                name,
                "--queue",
                f"q{i}",
                "--params",
                json.dumps({n + "'": n for n in names}),
            )
        )
    ok(rule(docs, "test", "r0"))
    assert all(a["queued"] == 1 for a in json.loads(ok(rule(docs, "run", "--json"))))
    assert json.loads(params(docs)[0]) == {**{n + "'": n for n in names}, **{n: 1 for n in names}}


def test_options_of_the_rule_land_in_the_jobs(docs, ledger):
    ok(
        rule(
            docs,
            "add",
            "r",
            "noop",
            "select * from doc limit 2",
            "--key",
            "id",
            "--delay",
            "1h",
            "--expires",
            "2d",
            "--max-attempts",
            "3",
            "--timeout",
            "10s",
            "--tag",
            "of a rule",
            "--tag",
            "x",
        )
    )
    ok(rule(docs, "run", "r"))
    assert docs.sql("select distinct rule, tags from deferred.my_job") == [("r", ["of a rule", "x"])]
    assert (
        docs.sql(
            """select count(*), min(max_attempts), min(timeout_ms), bool_and(abs(extract(epoch
                from run_at - created_at) - 3600) < 1),
                       bool_and(abs(extract(epoch from expires_at - created_at) - 172800) < 1)
                       from deferred.__deferred"""
        )
        == [(2, 3, 10000, True, True)]
    )
    assert docs.sql(
        "select count(due_at), count(expires_at), bool_and(due_at = visible_at) from deferred.__deferred_hot"
    ) == [(2, 2, True)]
    ledger(docs)


def test_rows_that_are_hot_are_skipped_and_use_up_no_id(docs, ledger):
    docs.defer("noop", key="5")
    docs.defer("noop", key="6", queue="another")
    ok(rule(docs, "add", "r", "noop", "select * from doc", "--key", "id"))
    assert ok(rule(docs, "run", "r")).startswith("r: 99 queued, 1 skipped, 0 failed, ")
    last = docs.one("select last_value from deferred.__deferred_id_seq")
    for _ in range(3):
        assert ok(rule(docs, "run", "r")).startswith("r: 0 queued, 100 skipped, 0 failed, ")
    assert docs.one("select last_value from deferred.__deferred_id_seq") == last
    docs.sql("insert into doc values (101, 'new')")
    assert ok(rule(docs, "run", "r")).startswith("r: 1 queued, 100 skipped")
    ledger(docs)


def test_two_rows_of_one_key_are_one_job(docs, ledger):
    ok(rule(docs, "add", "r", "noop", "select id % 10 as id from doc", "--key", "id"))
    assert ok(rule(docs, "run", "r")).startswith("r: 10 queued, 90 skipped, 0 failed, ")
    ledger(docs)


def test_rows_that_cannot_become_jobs_are_told_and_stop_no_others(docs, ledger):
    docs.sql("insert into deferred.__deferred_queue (name, params_max_bytes) values ('small', 1200)")
    ok(
        rule(
            docs,
            "add",
            "r",
            "noop",
            """
        select id, case when id = 1 then null when id = 2 then '' when id = 3 then repeat('k',
        1001) else id::text end as k,
               case when id = 4 then repeat('x', 2000) end as big, case when id = 5 then (repeat('[',
               550) || repeat(']', 550))::json end as deep
        from doc where id <= 10""",
            "--key",
            "k",
            "--queue",
            "small",
        )
    )
    result = rule(docs, "run", "r", "--json")
    fails(result, NOT_DONE, "rule 'r': 5 rows could not become jobs, such as ")
    [answer] = json.loads(result.stdout)
    assert (answer["queued"], answer["skipped"], answer["failed"], len(answer["examples"])) == (5, 0, 5, 3)
    told = {e["key"]: e["error"] for e in answer["examples"]}
    assert told == {
        "": "its key has 0 characters, 1 to 1000 are taken",
        "4": "params have 2037 bytes, but queue 'small' allows 1200",
        "5": "params nest deeper than 512 levels",
    }
    assert {r[0] for r in docs.sql("select key from deferred.__deferred")} == {"6", "7", "8", "9", "10"}
    ledger(docs)
    docs.sql("delete from doc where id in (2, 4, 5)")
    [answer] = json.loads(rule(docs, "run", "r", "--json").stdout)
    assert {e["error"] for e in answer["examples"]} == {
        "its key is NULL",
        "its key has 1001 characters, 1 to 1000 are taken",
    }


def test_a_run_that_fails_has_queued_nothing_and_is_noted(docs):
    ok(rule(docs, "add", "r", "noop", "select id, 1 / (50 - id) as x from doc", "--key", "id"))
    fails(rule(docs, "run", "r"), DATA, "rule 'r': division by zero")
    assert docs.hot() == 0
    [r] = json.loads(ok(rule(docs, "ls", "--json")))
    assert (r["last_error"], r["last_queued"], r["last_run_by"]) == ("division by zero", None, "deferred")
    assert "division by zero" in ok(rule(docs, "ls"))
    docs.sql("delete from doc where id = 50")
    ok(rule(docs, "run", "r"))
    [r] = json.loads(ok(rule(docs, "ls", "--json")))
    assert (r["last_error"], r["last_queued"], r["last_skipped"], r["last_failed"]) == (None, 99, 0, 0)
    docs.sql("drop table doc")
    fails(rule(docs, "run", "r"), DATA, 'deferred: rule \'r\': the query is not valid (relation "doc" does not exist')


def test_run_without_a_name_runs_all_and_one_that_fails_stops_no_other(docs):
    ok(rule(docs, "add", "a", "noop", "select id, 1 / (50 - id) as x from doc", "--key", "id", "--queue", "a"))
    ok(rule(docs, "add", "b", "noop", "select * from doc", "--key", "id", "--queue", "b"))
    result = rule(docs, "run")
    assert result.returncode == DATA and result.stdout.startswith("b: 100 queued")
    answer = json.loads(rule(docs, "run", "--json").stdout)
    assert [a["rule"] for a in answer] == ["a", "b"]
    assert answer[0]["error"] == "rule 'a': division by zero" and answer[1]["skipped"] == 100


def test_names_in_a_query_are_those_its_owner_saw(docs):
    docs.sql("create schema app; create table app.doc as select 1000 as id")
    ok(rule(docs, "add", "r", "noop", "select * from doc", "--key", "id", env={"PGOPTIONS": "-c search_path=app"}))
    assert ok(rule(docs, "run", "r")).startswith("r: 1 queued")
    assert params(docs) == ['{"id":1000}']


def test_a_rule_has_a_time_limit(docs):
    ok(
        rule(
            docs,
            "add",
            "r",
            "noop",
            "select id, pg_sleep(id)::text as s from doc",
            "--key",
            "id",
            "--statement-timeout",
            "300ms",
        )
    )
    fails(
        rule(docs, "run", "r"),
        NOT_DONE,
        "rule 'r': the statement was cancelled (canceling statement due to statement timeout)",
    )
    assert docs.hot() == 0


def test_a_rule_is_run_and_removed_by_one_at_a_time(docs):
    ok(rule(docs, "add", "r", "noop", "select * from doc", "--key", "id"))
    with docs.connect() as conn, conn.cursor() as cursor:
        cursor.execute("select deferred.__rule_get('r', true)")
        fails(rule(docs, "run", "r"), TEMPFAIL, "deferred: rule 'r' is running", "hint: wait")
        fails(rule(docs, "rm", "r"), TEMPFAIL, "deferred: rule 'r' is running")
        assert json.loads(ok(rule(docs, "ls", "--json")))[0]["last_error"] is None
    conn.close()
    ok(rule(docs, "run", "r"))


def test_of_two_runs_at_once_one_queues_the_rows(docs, ledger):
    docs.sql("insert into doc select i, 'x' from generate_series(101, 5000) i")
    ok(rule(docs, "add", "r", "noop", "select * from doc", "--key", "id"))
    results = []
    threads = [threading.Thread(target=lambda: results.append(rule(docs, "run", "r"))) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert {r.returncode for r in results} <= {OK, TEMPFAIL} and any(r.returncode == OK for r in results)
    assert docs.hot() == 5000
    ledger(docs)


def test_a_key_that_somebody_else_defers_meanwhile_is_skipped(docs, ledger, wait_for):
    ok(rule(docs, "add", "r", "noop", "select * from doc", "--key", "id"))
    sessions = (
        "select count(*) from pg_stat_activity where application_name = 'deferred' and datname = current_database()"
    )
    with docs.connect() as conn, conn.cursor() as cursor:
        cursor.execute("select deferred.defer('noop', '{}', '{\"key\": \"50\"}')")
        started = docs.spawn(["deferred", "rule", "run", "r"])
        wait_for(lambda: docs.one(sessions + " and wait_event_type = 'Lock'"), 20, "the key is waited for")
    conn.close()
    assert started.wait() == OK
    assert started.output().startswith("r: 99 queued, 1 skipped, 0 failed")
    ledger(docs)


def test_a_run_whose_client_dies_ends_and_leaves_nothing(docs, wait_for):
    ok(rule(docs, "add", "r", "noop", "select id, pg_sleep(1)::text as s from doc", "--key", "id"))
    started = docs.spawn(["deferred", "rule", "run", "r"])
    sessions = (
        "select count(*) from pg_stat_activity where application_name = 'deferred' and datname = current_database()"
    )
    wait_for(lambda: docs.one(sessions + " and state = 'active' and query ~ '__rule_run'") == 1, 20, "it runs")
    started.signal(signal.SIGKILL)
    wait_for(lambda: docs.one(sessions) == 0, 20, "its session has ended")
    assert docs.hot() == 0
    ok(rule(docs, "rm", "r"))


def test_progress_is_shown_on_a_terminal_only(docs):
    docs.sql("insert into doc select i, 'x' from generate_series(101, 20000) i; analyze doc")
    ok(rule(docs, "add", "r", "noop", "select * from doc", "--key", "id"))
    ours, theirs = pty.openpty()
    result = rule(docs, "run", "r", stderr=theirs)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert result.returncode == OK and result.stdout.startswith("r: 20000 queued")
    assert "8192 of about 20000 rows" in shown and "16384 of about 20000 rows" in shown
    assert "%  8192 of 16384 rows" in shown


def test_what_a_query_says_does_not_reach_the_terminal(docs):
    forged = " ".join(
        f"raise info using errcode = 'DR001', message = '{text}';"
        for text in ("queued nan", "stored inf", "stored -1", "queued 1e300", "\x1b[31m")
    )
    docs.sql(
        f"create function say() returns integer language plpgsql as $$ begin raise info E'\\x1b[31mhello'; "
        f"{forged} return 1; end $$"
    )
    ok(rule(docs, "add", "r", "noop", "select say() as id", "--key", "id"))
    for args in (["test", "r"], ["run", "r"]):
        assert "hello" not in ok(rule(docs, *args))
        ours, theirs = pty.openpty()
        assert rule(docs, *args, stderr=theirs).returncode == OK
        os.write(theirs, b".")
        os.close(theirs)
        shown = os.read(ours, 65536).decode()
        os.close(ours)
        assert "hello" not in shown and "\x1b[31m" not in shown and "nan" not in shown and "inf" not in shown


def test_a_rule_leaves_its_session_as_it_was(docs):
    """All rules are run on one connection."""
    ok(
        rule(
            docs,
            "add",
            "a",
            "noop",
            "select 1 as id, set_config('search_path', 'nowhere', false) as x, set_config('statement_timeout', '1min', "
            "false) as y",
            "--key",
            "id",
        )
    )
    ok(rule(docs, "add", "b", "noop", "select current_setting('statement_timeout') as id", "--key", "id"))
    ok(rule(docs, "run"))
    assert params(docs)[1] == '{"id":"1h"}'


def test_a_query_leaves_no_statement_or_lock_in_the_session(docs):
    docs.sql(
        """create function leave() returns integer language plpgsql as $$ begin
        execute 'prepare left_behind as select 1'; perform pg_advisory_lock_shared(4711);
        execute 'listen left_behind'; return 1; end $$"""
    )
    ok(rule(docs, "add", "a", "noop", "select leave() as id", "--key", "id"))
    ok(
        rule(
            docs,
            "add",
            "b",
            "noop",
            """select 2 as id, (select count(*) from pg_prepared_statements) as statements, (select count(*)
                from pg_listening_channels()) as channels,
        (select count(*) from pg_locks where locktype = 'advisory' and objid = 4711 and database = (select oid
        from pg_database where datname = current_database())) as locks""",
            "--key",
            "id",
        )
    )
    ok(rule(docs, "run"))
    assert params(docs)[1] == '{"id":2,"statements":0,"channels":0,"locks":0}'


def test_many_rows_get_their_partitions_first(docs):
    docs.sql("select setval('deferred.__deferred_id_seq', 4999950)")
    ok(rule(docs, "add", "r", "noop", "select * from doc", "--key", "id"))
    ok(rule(docs, "run", "r"))
    assert docs.one("select count(*) from deferred.__deferred_default") == 0
    docs.sql("delete from deferred.__deferred_hot; select setval('deferred.__deferred_id_seq', 9999950)")
    ok(rule(docs, "run", "r"))
    assert docs.one("select count(*) from deferred.__deferred_default") == 0
    assert docs.one("select count(*) from deferred.__deferred_10000000") == 51
    docs.sql("select deferred.__rule_room(25e6)")
    assert docs.one("select max(past::bigint) >= 40000000 from deferred.__partitions('deferred.__deferred')")


# ---- settings of the queue


def hot(db, queue="archive"):
    return db.sql(
        f"select count(*), bool_and(limited), bool_and(bounded), bool_and(expires_at is not null) "
        f"from deferred.__deferred_hot where queue = '{queue}'"
    )[0]


def test_jobs_of_a_rule_are_under_the_limits_of_queue_and_function(docs):
    ok(rule(docs, "add", "old", "noop", "select * from doc", "--key", "id", "--queue", "archive"))
    ok(docs.run(["deferred", "queue", "set", "archive", "--create", "--max-running", "1", "--ttl", "2d"]))
    ok(rule(docs, "run", "old"))
    assert hot(docs) == (100, True, False, True)
    ok(docs.run(["deferred", "queue", "set", "archive", "--unset", "max-running"]))
    ok(docs.run(["deferred", "function", "set", "noop", "--rate", "1/s"]))
    ok(rule(docs, "add", "new", "noop", "select * from doc", "--key", "id", "--queue", "other"))
    ok(rule(docs, "run", "new"))
    assert hot(docs, "other") == (100, True, False, False)
    assert docs.sql("select count(*) from deferred.__deferred_limited where queue = 'other'") == [(1,)]


@pytest.mark.parametrize("on_full", ["error", "drop"])
def test_a_rule_fills_a_queue_to_its_length_and_no_further(docs, on_full):
    ok(
        rule(
            docs,
            "add",
            "old",
            "noop",
            "select * from doc union all select null, 'none'",
            "--key",
            "id",
            "--queue",
            "archive",
        )
    )
    ok(docs.run(["deferred", "queue", "set", "archive", "--create", "--max-length", "30", "--on-full", on_full]))
    result = rule(docs, "run", "old")
    assert hot(docs) == (30, False, True, False)
    assert docs.sql("select last_queued, last_skipped, last_failed from deferred.__deferred_rule") == [
        (30, 0, 71) if on_full == "error" else (30, 70, 1)
    ]
    said = (result.stdout + result.stderr).replace('\\"', '"')
    assert ("queue 'archive' is full (max_length 30)" in said) == (on_full == "error"), result
    docs.sql(
        "delete from deferred.__deferred_hot where id in (select id from deferred.__deferred_hot order by id limit 10)"
    )
    rule(docs, "run", "old")
    assert hot(docs) == (30, False, True, False)  # the others have their jobs already, and take no room again
