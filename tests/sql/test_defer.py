"""The SQL functions: deferring, cancelling, retrying, rights, the ledger, partitions and retention."""

import json
import os
import random
import re
import threading

import psycopg2
import psycopg2.errors as pgerror
import pytest

import pg

OPTIONS = {
    "queue": "q-1",
    "label": "für Leute",
    "priority": -7,
    "delay": "1.5min",
    "expires": "2h",
    "key": "k 1",
    "on_duplicate": "error",
    "max_attempts": 3,
    "timeout": "200ms",
    "backoff_floor": "5",
    "backoff_ceiling": "1d",
    "backoff_exponent": 1.5,
}


def defer(db, fn="f", params="{}", **opts):
    return db.one("select deferred.defer(%s, %s::json, %s::json)", fn, params, json.dumps(opts) if opts else None)


def refused(db, error, says, query, *args):
    with pytest.raises(error) as caught:
        db.sql(query, *args)
    assert says in str(caught.value)


def as_role(db, role):
    connection = db.connect(options=f"-c role={role}")
    connection.autocommit = True
    return connection


def ask(connection, query, *args):
    with connection.cursor() as cursor:
        cursor.execute(query, args or None)
        return cursor.fetchall()


def finish(db, job, outcome="ok", error=None, result=None):
    """What a worker does at the end of an attempt."""
    db.sql(
        "with h as (delete from deferred.__deferred_hot where id = %s returning id)"
        " insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, result) select id, 1, %s, "
        "true, %s, %s from h",
        job,
        outcome,
        error,
        result,
    )


def clean(db):
    assert db.sql("select * from deferred.check_ledger()") == []


# ---- defer ---------------------------------------------------------------------------------------


def test_defaults(db):
    job = db.one("select deferred.defer('noop')")
    assert db.sql(
        "select queue, fn, params::text, label, key, priority, run_at, expires_at, max_attempts, "
        "created_by = session_user"
        " from deferred.__deferred where id = %s",
        job,
    ) == [("default", "noop", "{}", None, None, 0, None, None, None, True)]
    assert db.sql(
        "select queue, fn, priority, due_at, attempt, receipt, visible_at <= clock_timestamp()"
        " from deferred.__deferred_hot where id = %s",
        job,
    ) == [("default", "noop", 0, None, 0, None, True)]
    clean(db)


def test_the_short_way_stores_what_the_long_way_does(db):
    """A job without options is stored without most of the checks: the two rows are to be the same."""
    db.sql("insert into deferred.__deferred_queue (name) values ('q')")
    short = db.one("""select deferred.defer('f', '{"a": 1}', queue => 'q')""")
    long = db.one("""select deferred.defer('f', '{"a": 1}', '{"queue": "q", "priority": 0}')""")
    hot = db.sql(
        "select to_jsonb(h) - '{id,xid,visible_at}'::text[] from deferred.__deferred_hot h where id in (%s, %s) "
        "order by id",
        short,
        long,
    )
    job = db.sql(
        "select to_jsonb(d) - '{id,created_at}'::text[] from deferred.__deferred d where id in (%s, %s) order by id",
        short,
        long,
    )
    assert len(hot) == len(job) == 2 and hot[0] == hot[1] and job[0] == job[1]
    assert (
        db.one(
            "select count(*) from deferred.__deferred_hot h join deferred.__deferred d on d.id = h.id "
            "and d.created_at = h.visible_at"
        )
        == 2
    )
    clean(db)


@pytest.mark.parametrize(
    "setting, simple",
    [
        ("paused = true", True),
        ("weight = 3", True),
        ("max_attempts = 3", True),
        ("visibility_timeout_ms = 5000", True),
        ("params_max_bytes = 512", True),
        ("params_max_bytes = 511", False),
        ("ttl_ms = 1000", False),
        ("max_length = 10", False),
        ("max_running = 1", False),
        ("rate = 1", False),
        ("removed_at = now()", False),
    ],
)
def test_the_short_way_is_for_queues_without_settings_about_a_new_job(db, setting, simple):
    db.sql(f"update deferred.__deferred_queue set {setting} where name = 'default'")
    assert db.one("select simple from deferred.__deferred_queue where name = 'default'") == simple
    db.sql("select deferred.defer('f')")
    stored = db.sql(
        "select d.expires_at is not null, h.limited, h.bounded, q.removed_at is null from deferred.__deferred_hot h"
        " join deferred.__deferred d using (id) join deferred.__deferred_queue q on q.name = h.queue"
    )
    assert stored == [("ttl" in setting, "running" in setting or "rate" in setting, "length" in setting, True)]


def test_the_short_way_is_shut_while_somebody_or_something_is_limited(db):
    """From the first row on, before its transaction has committed, and until none is left and no
    transaction may be adding one."""

    def open_way():
        return db.one("select last_value = 1 from deferred.__deferred_unrestricted")

    add = {
        "grant": "insert into deferred.__deferred_grant (role, fn) values ('nobody', 'f')",
        "function": "insert into deferred.__deferred_function (name, max_running) values ('f', 1)",
    }
    for table, statement in add.items():
        assert open_way()
        other = db.connect()
        with other.cursor() as cursor:
            cursor.execute(statement)
            assert not open_way()
            db.sql("select deferred.maintain()")
            assert not open_way()
        other.commit()
        db.sql("select deferred.maintain()")
        assert not open_way()
        db.sql(
            "alter sequence deferred.__deferred_unrestricted restart 1; "
            "select nextval('deferred.__deferred_unrestricted')"
        )
        assert open_way()
        db.sql("select deferred.maintain()")
        assert not open_way()
        db.sql(f"delete from deferred.__deferred_{table}")
        with other.cursor() as cursor:
            cursor.execute("set transaction isolation level repeatable read; select deferred.maintain()")
            assert not open_way()
        other.commit()
        other.close()
        db.sql("select deferred.maintain()")
        assert open_way()


def test_one_index_finds_the_jobs_with_a_key_and_those_that_count_for_a_max_length(db):
    db.sql(
        """insert into deferred.__deferred_hot (id, queue, fn, visible_at, key, bounded)
              select i, 'q', 'f', now(), case when i % 10 = 0 then 'k' || i end, i % 10 = 1
              from generate_series(1, 5000) i;
              analyze deferred.__deferred_hot"""
    )
    for query, parameters in (
        (
            "select count(*) from (select from deferred.__deferred_hot h where h.queue = $1 and h.bounded limit 10) x",
            "'q'",
        ),
        ("select h.id from deferred.__deferred_hot h where h.queue = $1 and h.key = $2", "'q', 'k10'"),
    ):
        db.sql(
            f"prepare p{len(parameters)} as {query}; set plan_cache_mode = force_generic_plan; set enable_seqscan = off"
        )
        plan = "\n".join(r[0] for r in db.sql(f"explain execute p{len(parameters)}({parameters})"))
        assert "__deferred_hot_key" in plan, plan
    assert db.one("select deferred.__queue_length('q', 1000)") == 500


def test_a_queue_is_named_once(db):
    job = db.one("select deferred.defer('f', queue => 'q', opts => '{\"label\": \"x\"}')")
    assert db.sql("select queue, label from deferred.__deferred where id = %s", job) == [("q", "x")]
    job = db.one("select deferred.defer('f', queue => 'new-one')")
    assert db.one("select queue from deferred.__deferred where id = %s", job) == "new-one"
    refused(
        db,
        pgerror.InvalidParameterValue,
        "option 'queue' and the argument queue 'a' are both given",
        "select deferred.defer('f', queue => 'a', opts => '{\"queue\": \"b\"}')",
    )
    refused(
        db, pgerror.InvalidParameterValue, "queue name 'a b' is invalid", "select deferred.defer('f', queue => 'a b')"
    )
    refused(db, pgerror.InvalidParameterValue, "the function is missing", "select deferred.defer(null)")
    refused(db, pgerror.NullValueNotAllowed, "params of function 'f' are NULL", "select deferred.defer('f', null)")
    assert db.one("select count(*) from deferred.__deferred") == 2


def test_every_option_lands_in_the_row(db):
    job = defer(db, "f", "[1]", **OPTIONS)
    assert db.sql(
        "select queue, label, priority, key, max_attempts, timeout_ms, backoff_floor_ms, backoff_ceiling_ms, "
        "backoff_exponent,"
        " extract(epoch from run_at - created_at)::int, extract(epoch from expires_at - created_at)::int"
        " from deferred.__deferred where id = %s",
        job,
    ) == [("q-1", "für Leute", -7, "k 1", 3, 200, 5000, 86400000, 1.5, 90, 7200)]
    assert db.sql(
        "select h.queue, h.priority, h.key = '8:deferred:' || d.key, h.due_at = d.run_at, h.visible_at = d.run_at, "
        "h.expires_at = d.expires_at"
        " from deferred.__deferred_hot h join deferred.__deferred d using (id) where id = %s",
        job,
    ) == [("q-1", -7, True, True, True, True)]
    job = defer(db, run_at="2031-02-03 04:05:06+00", expires_at="2032-01-01 00:00:00+00")
    assert db.sql(
        "select run_at = '2031-02-03 04:05:06+00', expires_at = '2032-01-01 00:00:00+00' from deferred.__deferred"
        " where id = %s",
        job,
    ) == [(True, True)]


def test_a_bad_option_is_named(db):
    for opts, says in [
        ({"que": 1}, "option 'que' is unknown"),
        ({"delay": "5 parsecs"}, "is not a time span"),
        ({"delay": "-5s"}, "is not a time span"),
        ({"timeout": "1e3"}, "is not a time span"),
        ({"expires": ""}, "is not a time span"),
        ({"timeout": 0}, "out of range"),
        ({"priority": "high"}, "is not a number"),
        ({"priority": 40000}, "option 'priority' is out of range: 40000"),
        ({"max_attempts": 0}, "out of range"),
        ({"max_attempts": "1; drop table x"}, "is not a number"),
        ({"backoff_exponent": 0.5}, "out of range"),
        ({"backoff_exponent": "NaN"}, "is not a number"),
        ({"queue": "a b"}, "queue name"),
        ({"queue": ""}, "queue name"),
        ({"key": ""}, "out of range"),
        ({"label": "x" * 1001}, "out of range"),
        ({"key": "k", "on_duplicate": "maybe"}, "option 'on_duplicate' has the invalid value"),
        ({"run_at": "soon"}, "soon"),
        ([], "opts must be a JSON object, but a JSON array was given"),
        ("text", "opts must be a JSON object, but a JSON string was given"),
    ]:
        refused(db, psycopg2.Error, says, "select deferred.defer('f', '{}', %s::json)", json.dumps(opts))
    assert db.hot() == 0


def test_time_spans_are_read_as_in_c(db):
    """An interval as PostgreSQL writes it among them; tests/lib/config_test.c reads the same list."""
    with open(os.path.join(pg.TOP, "tests", "lib", "time_spans")) as f:
        spans = [line.rstrip("\n").split("| ") for line in f if not line.startswith("#")]
    good = [(text, int(ms)) for text, ms in spans if ms != "none"]
    assert db.sql("select s, deferred.__ms('delay', s) from unnest(%s) s", [text for text, _ in good]) == good
    db.sql(
        """create function pg_temp.refusal(span text) returns text language plpgsql as $$
        declare h text; begin return deferred.__ms('delay', span);
        exception when invalid_parameter_value then get stacked diagnostics h = pg_exception_hint;
        return sqlerrm || ' ' || h; end $$"""
    )
    bad = [text for text, ms in spans if ms == "none"]
    said = db.sql("select s, pg_temp.refusal(s) from unnest(%s) s", bad)
    long = {text: said for text, said in said if "36525d" in said}
    assert set(long) == {"999999999999", "36525d 1ms", "999999999999d", "9999999999 days"}
    assert all(f"option 'delay': time span '{text}' is too long" in said for text, said in long.items())
    assert len(said) == len(bad) and not [
        s
        for s in said
        if s[0] not in long and not (f"'{s[0]}' is not a time span" in s[1] and "5s" in s[1] and "5 minutes" in s[1])
    ]
    job = db.one("""select deferred.defer('f', '{}', '{"delay": "1 day 02:00:00", "timeout": "5 minutes"}')""")
    assert db.one(
        "select run_at between created_at + '26 h' and created_at + '26 h 1 s' and timeout_ms = 300000 "
        "from deferred.__deferred where id = %s",
        job,
    )
    # What the server writes of any interval below a month is understood.
    assert (
        db.sql(
            "select i from (select (random() * 1e9)::int8 * interval '1 ms' as i from generate_series(1, 200)) x"
            " where deferred.__ms('delay', i::text) <> round(extract(epoch from i) * 1000)"
        )
        == []
    )


def test_a_call_takes_jsonb_and_literals_go_where_they_went(db):
    """Of the functions that take jsonb none makes a call ambiguous that has literals, parameters
    without a type, or other strings."""

    how = [
        ("'f', to_jsonb(1)", '1'),
        ("'f', '{ }'::jsonb", '{}'),
        ("fn => 'f', params => '[1]'::jsonb, queue => 'q'", '[1]'),
        ("'f'::text, '2'::jsonb, '{\"queue\": \"q\"}'", '2'),
        ("'f'::varchar, '3'::jsonb, null, 'q'", '3'),
        ("'f', '4'::jsonb, '{\"queue\": \"q\"}'::jsonb", '4'),
        ("'f', '{ }'", '{ }'),
        ("'f'::text, '{ }'", '{ }'),
        ("'f'::varchar, '{ }'", '{ }'),
        ("'f'::name, '{ }'", '{ }'),
        ("'f', '{ }', '{\"queue\": \"q\"}'", '{ }'),
        ("'f', '{ }', queue => 'q'", '{ }'),
        ("'f', queue => 'q'", '{}'),
        ("'f'", '{}'),
        ("'f', '{ }', null, null", '{ }'),
        ("'f', '{ }'::json", '{ }'),
        ("null, '{ }', '{\"queue\": \"q\"}'", '{ }'),
        ("null, '{ }'::jsonb, queue => 'q'", '{}'),
    ]
    for call, params in how:
        job = db.one(f"select deferred.defer({call})")
        assert db.one("select params::text from deferred.__deferred where id = %s", job) == params, call
    db.sql("prepare p as select deferred.defer($1, $2, queue => $3)")
    assert [r[0] for r in db.sql("select parameter_types::text[] from pg_prepared_statements where name = 'p'")] == [
        ["text", "json", "text"]
    ]
    for jobs in (
        "'[{\"fn\": \"f\", \"params\": { }}, {\"fn\": \"g\"}]'" + cast for cast in ("", "::text", "::json", "::jsonb")
    ):
        ids = [r[0] for r in db.sql(f"select * from deferred.defer_many({jobs})")]
        assert len(ids) == 2 and db.sql("select fn from deferred.__deferred where id = any (%s) order by id", ids) == [
            ("f",),
            ("g",),
        ]
    refused(db, psycopg2.Error, "invalid input syntax for type json", "select deferred.defer('f', '{')")
    refused(db, psycopg2.Error, "jobs: invalid JSON (The input string ended", "select deferred.defer_many('[')")
    refused(
        db, psycopg2.Error, "jobs must be a JSON array, but a JSON null was given", "select deferred.defer_many(null)"
    )
    refused(db, psycopg2.Error, "are NULL", "select deferred.defer('f', null::jsonb)")
    producer = as_role(db, "deferred_producer")
    assert (
        ask(
            producer,
            "select deferred.defer('f', to_jsonb(1)), array(select deferred.defer_many('[{\"fn\": \"f\"}]'::jsonb))",
        )[0][0]
        > 0
    )
    producer.close()
    plan = db.sql("explain verbose select deferred.defer('f', to_jsonb(now()))")
    assert "defer('f'::text, (to_jsonb(now()))::json, " in str(plan)  # the planner put it in place
    clean(db)


def test_a_bad_function_name_is_refused(db):
    for fn, says in [(fn, "function name") for fn in ("", "1x", "a b", "a;b", "x" * 128, "ü", "a\nb", "a\n")] + [
        (None, "the function is missing")
    ]:
        refused(db, psycopg2.Error, says, "select deferred.defer(%s, '{}')", fn)


@pytest.mark.parametrize(
    "params, says",
    [
        ("{", "invalid input syntax for type json"),
        ("", "invalid input syntax for type json"),
        ("[" * 600 + "]" * 600, "nest deeper than 512 levels"),
        ('"' + "x" * (10 << 20) + '"', "bytes, but queue 'default' allows 1048576"),
        (None, "are NULL"),
    ],
    ids=["unfinished", "empty", "deep", "10 MB", "NULL"],
)
def test_bad_params_are_refused(db, params, says):
    refused(db, psycopg2.Error, says, "select deferred.defer('f', %s::json)", params)
    refused(
        db,
        psycopg2.Error,
        says,
        "select deferred.__enqueue_many(array['f', 'f'], array['{}', %s]::json[], null, null, null,"
        " null, null, null, null, null, null, null, null, null, null, null)",
        params,
    )
    assert db.hot() == 0


def test_512_levels_and_many_flat_brackets_are_taken(db):
    defer(db, "f", "[" * 512 + "]" * 512)
    defer(db, "f", "[" + ",".join(["[]"] * 5000) + "]")
    defer(db, "f", json.dumps("[" * 5000))


def test_a_job_shares_the_fate_of_its_transaction(db):
    connection = db.connect()
    ask(connection, "select deferred.defer('f')")
    assert db.hot() == 0
    connection.rollback()
    assert db.hot() == 0
    ask(connection, "select deferred.defer('f')")
    connection.commit()
    assert db.hot() == 1
    connection.close()
    clean(db)


def test_a_trigger_defers(db):
    db.sql(
        """create table orders (id int primary key, mail text);
        create function order_mail() returns trigger language plpgsql as $$
        begin
            perform deferred.defer('send_mail', json_build_object('to', new.mail), '{"queue": "mail"}');
            return new;
        end $$;
        create trigger order_mail after insert on orders for each row execute function order_mail();
        insert into orders values (1, 'a@example.org'), (2, 'b@example.org')"""
    )
    assert db.sql("select fn, params->>'to' from deferred.__deferred where queue = 'mail' order by id") == [
        ("send_mail", "a@example.org"),
        ("send_mail", "b@example.org"),
    ]


def test_keys_skip_refuse_and_replace(db):
    first = defer(db, key="k")
    assert defer(db, key="k") == first
    refused(
        db,
        pgerror.UniqueViolation,
        "has key 'k' already",
        "select deferred.defer('f', '{}', %s::json)",
        '{"key": "k", "on_duplicate": "error"}',
    )
    second = defer(db, key="k", on_duplicate="replace")
    assert second != first
    assert db.sql("select outcome, final, error from deferred.__deferred_log where job_id = %s", first) == [
        ("cancelled", True, f"replaced by job {second}")
    ]
    assert defer(db, key="k", queue="other") != second
    finish(db, second)
    assert defer(db, key="k") not in (first, second)
    clean(db)


def test_an_expired_job_does_not_stand_in_the_way_of_a_new_one_with_its_key(db):
    old = defer(db, key="daily", expires="1h")
    assert defer(db, key="daily") == old
    db.sql("update deferred.__deferred_hot set expires_at = clock_timestamp() - interval '1 s' where id = %s", old)
    new = defer(db, key="daily", on_duplicate="error")
    assert new != old and db.one("select id from deferred.__deferred_hot") == new
    assert db.one("select state from deferred.job where id = %s", old) == "expired"
    clean(db)


@pytest.mark.parametrize(
    "how",
    [
        "defer('f', '{}', '{\"run_at\": \"-infinity\", \"delay\": \"1h\"}')",
        "defer_many('[{\"fn\": \"f\", \"run_at\": \"-infinity\", \"delay\": \"1h\"}, {\"fn\": \"f\"}]')",
    ],
)
def test_a_time_before_all_times_is_now(db, how):
    db.sql("select deferred." + how)
    assert (
        db.one("select count(*) from deferred.__deferred_hot where due_at is not null or not isfinite(visible_at)") == 0
    )
    assert db.one("select count(*) from deferred.__deferred where run_at is not null") == 0
    clean(db)


def test_the_functions_work_where_a_backslash_escapes(db):
    connection = db.connect(options="-c standard_conforming_strings=off")
    connection.autocommit = True
    params = json.dumps({"a": "[" * 600})
    ask(connection, "select deferred.defer('f', %s::json, '{\"delay\": \"1.5s\", \"backoff_exponent\": 1.5}')", params)
    with pytest.raises(psycopg2.Error, match="'1x5s' is not a time span"):
        ask(connection, "select deferred.defer('f', '{}', '{\"delay\": \"1x5s\"}')")
    connection.close()


@pytest.mark.parametrize(
    "opts, says",
    [
        ({"key": ""}, "option 'key' is out of range: 0 characters"),
        ({"key": "\u4e00" * 1000}, "1000 characters, 3000 bytes"),
        ({"max_attempts": 0}, "option 'max_attempts' is out of range: 0"),
        ({"timeout": "0"}, "option 'timeout' is out of range: 0 ms"),
        ({"backoff_exponent": 0.5}, "option 'backoff_exponent' is out of range: 0.5"),
        ({"on_duplicate": "nope"}, "option 'on_duplicate' has the invalid value 'nope'"),
    ],
)
def test_an_option_out_of_range_is_named_with_its_value(db, opts, says):
    refused(db, psycopg2.Error, says, "select deferred.defer('f', '{}', %s::json)", json.dumps(opts))


def test_concurrent_defers_of_one_key_store_one_job(db):
    ids, errors = [], []

    def work(number):
        connection = db.connect()
        try:
            for i in range(50):
                ids.append(
                    (
                        i,
                        ask(
                            connection, "select deferred.defer('f', '{}', json_build_object('key', %s::text))", f"k{i}"
                        )[0][0],
                    )
                )
                connection.rollback() if (i + number) % 5 == 0 else connection.commit()
        except psycopg2.Error as e:
            errors.append(e)
        connection.close()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
    assert db.sql("select count(*), count(distinct key) from deferred.__deferred_hot") == [(50, 50)]
    stored = dict(db.sql("select substr(key, 2)::int, id from deferred.__deferred"))
    # Each key ends with one job, and at least one caller was told its id.
    assert all(stored[i] in [job for n, job in ids if n == i] for i in range(50))
    clean(db)


def test_replacing_defers_do_not_deadlock(db):
    errors = []

    def work():
        connection = db.connect()
        connection.autocommit = True
        try:
            for _ in range(50):
                ask(connection, """select deferred.defer('f', '{}', '{"key": "one", "on_duplicate": "replace"}')""")
        except psycopg2.Error as e:
            errors.append(e)
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
    assert db.sql(
        "select (select count(*) from deferred.__deferred), (select count(*) from deferred.__deferred_hot),"
        " (select count(*) from deferred.__deferred_log where outcome = 'cancelled')"
    ) == [(150, 1, 149)]
    clean(db)


def random_json(rng, depth=0):
    """JSON text as people and machines write it: odd numbers, duplicate keys, blanks, escapes."""
    blank = rng.choice(["", " ", "\n", "\t "])
    kind = rng.randrange(4 if depth > 4 else 6)
    if kind == 0:
        text = rng.choice(
            ["true", "false", "null", "-0", "1e400", "0.1", "1.10", "18446744073709551616", "1E+2", "-1.5e-300"]
        )
    elif kind == 1:
        text = str(rng.randrange(-(10**30), 10**30))
    elif kind == 2:
        text = (
            '"'
            + "".join(
                rng.choice(["a", "ß", "😀", "\\n", "\\u0041", "\\\\", '\\"', "\\/", " ", "\\ud83d\\ude00"])
                for _ in range(rng.randrange(8))
            )
            + '"'
        )
    elif kind == 3:
        text = rng.choice(["[]", "{}", '""', "{ }"])
    elif kind == 4:
        text = "[" + ",".join(random_json(rng, depth + 1) for _ in range(rng.randrange(4))) + "]"
    else:
        text = (
            "{"
            + ",".join(f'"{rng.choice("aab")}"{blank}:' + random_json(rng, depth + 1) for _ in range(rng.randrange(4)))
            + "}"
        )
    return blank + text + blank


def test_params_are_kept_byte_for_byte(db):
    rng = random.Random(4711)
    texts = [random_json(rng) for _ in range(10000)]
    db.sql("create table given (id bigint, params text)")
    connection = db.connect()
    for start in range(0, len(texts), 1000):
        part = texts[start : start + 1000]
        many = ask(
            connection,
            "select * from deferred.__enqueue_many(array_fill('f'::text, array[%s]), %s::json[], null, null, null, "
            "null,"
            " null, null, null, null, null, null, null, null, null, null)",
            len(part),
            part,
        )
        one = ask(connection, "select deferred.defer('f', p::json) from unnest(%s) p", part[:100])
        ask(
            connection,
            "insert into given select * from unnest(%s, %s) returning 1",
            [i[0] for i in many + one],
            part + part[:100],
        )
    connection.commit()
    connection.close()
    assert db.one("select count(*) from given") == 11000
    assert (
        db.sql(
            "select g.params, d.params::text from given g left join deferred.__deferred d using (id)"
            " where d.params::text is distinct from g.params"
        )
        == []
    )


# ---- many ----------------------------------------------------------------------------------------


def test_many_keep_their_order_and_options(db):
    jobs = [{"fn": f"f{i}", "params": {"n": i}, "priority": i % 5} for i in range(500)]
    jobs[250].update(OPTIONS, key=None)
    ids = [r[0] for r in db.sql("select * from deferred.defer_many(%s::json)", json.dumps(jobs))]
    assert len(set(ids)) == 500
    rows = dict((r[0], r[1:]) for r in db.sql("select id, fn, (params->>'n')::int, queue from deferred.__deferred"))
    assert [rows[i] for i in ids] == [(f"f{i}", i, "q-1" if i == 250 else "default") for i in range(500)]
    assert (
        db.one(
            "select concat_ws('|', label, max_attempts, timeout_ms, run_at - created_at) from deferred.__deferred "
            "where id = %s",
            ids[250],
        )
        == "für Leute|3|200|00:01:30"
    )
    assert db.sql("select * from deferred.defer_many('[]')") == []
    clean(db)


PLAIN = [{"fn": "f"}, {"fn": "g", "params": {"a": 1}}, {"fn": "h", "params": "x"}]


def many_and_each(db, jobs):
    """Rows of jobs that were stored together, and of the same ones that were stored alone."""

    def rows(ids):
        hot = "select to_jsonb(h) - array['id', 'visible_at', 'xid'] from deferred.__deferred_hot h where id = %s"
        job = "select to_jsonb(d) - array['id', 'created_at'] from deferred.__deferred d where id = %s"
        return [(db.sql(hot, i), db.sql(job, i)) for i in ids]

    many = [r[0] for r in db.sql("select deferred.defer_many(%s::json)", json.dumps(jobs))]
    assert many == sorted(many)
    each = [db.one("select deferred.defer(%s, %s)", j["fn"], json.dumps(j.get("params", {}))) for j in jobs]
    return rows(many), rows(each)


@pytest.mark.parametrize("change", ["", "ttl", "function", "queue", "large", "mail"])
def test_jobs_without_options_are_the_same_together_and_alone(db, change):
    jobs = list(PLAIN)
    if change == "ttl":
        db.sql("update deferred.__deferred_queue set ttl_ms = 1000000 where name = 'default'")
    elif change == "function":
        db.run(["deferred", "function", "set", "g", "--max-running", "1"], check=True)
    elif change == "queue":
        db.run(["deferred", "queue", "set", "default", "--max-running", "1"], check=True)
    elif change == "large":
        jobs.append({"fn": "f", "params": "x" * 2000})
    elif change == "mail":
        jobs.append({"fn": "send_mail", "params": {"to": "a@example.org", "subject": "s", "text": "t"}})
    many, each = many_and_each(db, jobs)
    if change == "ttl":  # from the time of each
        for (hot,), (row,) in (*many, *each):
            assert hot[0].pop("expires_at") and row[0].pop("expires_at")
    assert many == each


def test_jobs_without_options_meet_limits_and_grants_together(db):
    db.run(["deferred", "queue", "set", "default", "--max-length", "2"], check=True)
    with pytest.raises(psycopg2.Error, match="queue 'default' is full"):
        db.sql("select deferred.defer_many(%s::json)", json.dumps(PLAIN))
    assert db.hot() == 0
    for bad in ("1f", "f-g", "f" * 128, None):
        with pytest.raises(psycopg2.Error, match="function"):
            db.sql("select deferred.defer_many(%s::json)", json.dumps([*PLAIN, {"fn": bad}]))


def test_one_bad_among_many_stores_none(db):
    for bad, says in [
        ({"fn": "a b"}, "function name"),
        ({"params": {}}, "the function is missing"),
        ({"fn": "f", "que": 1}, "option 'que' is unknown"),
        ({"fn": "f", "delay": "x"}, "is not a time span"),
        ({"fn": "f", "queue": "a b"}, "queue name"),
        (7, "must be a JSON object, but a JSON number was given"),
        ({"fn": "f", "timeout": 0}, "out of range"),
    ]:
        refused(
            db,
            psycopg2.Error,
            says,
            "select * from deferred.defer_many(%s::json)",
            json.dumps([{"fn": "f"}] * 10 + [bad] + [{"fn": "f"}] * 10),
        )
    assert db.hot() == 0
    assert db.one("select count(*) from deferred.__deferred") == 0


def test_many_are_stored_alike_with_and_without_options(db):
    """Jobs of which none has an option are read in another way than jobs of which one has."""
    rng = random.Random(4712)
    fn, params = ['"fn": "f"', '"f\\u006e" :"f"'], ['"params":', '"par\\u0061ms" : ', '"params": 7, "params":']
    jobs = []
    for _ in range(5000):
        parts = [rng.choice(fn)] + [rng.choice(params) + random_json(rng)] * (rng.random() < 0.9)
        rng.shuffle(parts)
        jobs.append("{" + ", ".join(parts) + "}")
    for start, size in [(0, 3000), *((n, 1) for n in range(3000, 3500)), (3500, 1500)]:
        part = jobs[start : start + size]
        ids = [
            [row[0] for row in db.sql("select * from deferred.defer_many(%s)", f"[{','.join(texts)}]")]
            for texts in (part, part + ['{"fn": "f", "label": "x"}'])
        ]
        assert db.sql(
            "select a.params::text from deferred.__deferred a where id = any (%s) order by id", ids[0]
        ) == db.sql("select b.params::text from deferred.__deferred b where id = any (%s) order by id", ids[1][:-1])
    assert db.one("select count(*) from deferred.__deferred where params::text = 'null'") > 0
    clean(db)


@pytest.mark.parametrize("fn", ['"fn":"f"', '"fn" : "f"', '"fn":true', '"fn":null'])
@pytest.mark.parametrize("params", ["", ',"params":{}', ', "params" : 1', ',"params":null'])
@pytest.mark.parametrize("extra", ['"":1', '"x":1', '"x" : []', '"fn":"g"', '"params":2'])
def test_many_notice_a_short_member_that_is_not_known(db, fn, params, extra):
    """Jobs without options are known by their bytes, and these are the fewest."""
    jobs = f'[{{"fn":"f"}},{{{fn}{params},{extra}}}]'
    want = json.loads(jobs)[1]
    if unknown := set(want) - {"fn", "params"}:
        refused(
            db,
            psycopg2.Error,
            f"job 2: option '{unknown.pop()}' is unknown",
            "select deferred.defer_many(%s)",
            jobs,
        )
    elif want["fn"] is None:
        refused(db, psycopg2.Error, "the function is missing", "select deferred.defer_many(%s)", jobs)
    else:
        job = db.one("select max(m) from deferred.defer_many(%s) m", jobs)
        assert db.sql("select fn, params from deferred.__deferred where id = %s", job) == [
            ("true" if want["fn"] is True else want["fn"], want.get("params", {}))
        ]


def test_many_meet_the_settings_of_each_queue(db):
    db.sql("insert into deferred.__deferred_queue (name, params_max_bytes) values ('small', 9), ('large', 100)")
    db.sql("insert into deferred.__deferred_queue (name, rate, ttl_ms) values ('slow', 1, 5000)")

    def many(*jobs):
        return db.sql(
            "select deferred.defer_many(%s)",
            json.dumps([{"fn": "f", "queue": queue, "params": "x" * size} for queue, size in jobs]),
        )

    assert len(many(("large", 50), ("small", 0), ("default", 0))) == 3
    with pytest.raises(psycopg2.Error, match="have 52 bytes, but queue 'small' allows 9"):
        many(("slow", 0), ("default", 0), ("small", 50))
    many(("slow", 0), ("default", 0))
    assert db.sql("select queue, limited, expires_at > now() from deferred.__deferred_hot order by id offset 3") == [
        ("slow", True, True),
        ("default", False, None),
    ]
    assert db.sql("select queue from deferred.__deferred_limited") == [("slow",)]
    clean(db)


def test_a_span_of_many_that_no_time_can_hold_is_refused(db):
    nulls = ", ".join(["null"] * 10)
    refused(
        db,
        psycopg2.Error,
        "option 'delay' is out of range",
        f"select deferred.__enqueue_many(array['f'], array['{{}}']::json[], null, null, null, array[%s], {nulls})",
        2**63 - 1,
    )


def test_many_honour_keys_among_them(db):
    jobs = [{"fn": "f", "key": "a"}, {"fn": "f"}, {"fn": "g", "key": "a"}]
    ids = [r[0] for r in db.sql("select * from deferred.defer_many(%s::json)", json.dumps(jobs))]
    assert ids[0] == ids[2] != ids[1]
    assert db.hot() == 2


# ---- rights --------------------------------------------------------------------------------------


def test_the_producer_role_alone_suffices(db):
    producer = as_role(db, "deferred_producer")
    job = ask(producer, "select deferred.defer('f', '{}', '{\"queue\": \"fresh\", \"key\": \"k\"}')")[0][0]
    assert len(ask(producer, "select * from deferred.defer_many('[{\"fn\": \"f\"}, {\"fn\": \"g\"}]')")) == 2
    assert db.one("select created_by from deferred.__deferred where id = %s", job) == "deferred_producer"
    assert ask(producer, "select deferred.cancel(%s)", job) == [(True,)]
    assert ask(producer, "select deferred.cancel(%s)", defer(db)) == [(False,)]
    for query in (
        "select * from deferred.__deferred",
        "select * from deferred.__deferred_hot",
        "select * from deferred.__deferred_log",
        "insert into deferred.__deferred_hot (id, queue, visible_at) values (1, 'x', now())",
        "select * from deferred.job",
        "delete from deferred.__deferred_hot",
        "select deferred.retry(1)",
        "select deferred.maintain()",
        "select deferred.__purge_jobs('1 s', 0, 1)",
        "select nextval('deferred.__deferred_id_seq')",
    ):
        with pytest.raises(pgerror.InsufficientPrivilege):
            ask(producer, query)
    producer.close()


def test_nobody_else_defers(db):
    db.sql("do $$ begin create role nobody_special; exception when duplicate_object then null; end $$")
    nobody = as_role(db, "nobody_special")
    with pytest.raises(pgerror.InsufficientPrivilege):
        ask(nobody, "select deferred.defer('f')")
    nobody.close()


def test_grants_limit_a_role_to_functions_and_queues(db):
    producer = as_role(db, "deferred_producer")
    db.sql(
        "insert into deferred.__deferred_grant values ('deferred_producer', 'mail', 'send_mail'), "
        "('deferred_producer', null, 'noop'),"
        " ('deferred_producer', 'free', null)"
    )
    ask(producer, "select deferred.defer('send_mail', '{}', '{\"queue\": \"mail\"}')")
    ask(producer, "select deferred.defer('noop', '{}', '{\"queue\": \"any\"}')")
    ask(producer, "select deferred.defer('whatever', '{}', '{\"queue\": \"free\"}')")
    for query in (
        "select deferred.defer('send_mail')",
        "select deferred.defer('system', '{}', '{\"queue\": \"mail\"}')",
        "select * from deferred.defer_many('[{\"fn\": \"noop\"}, {\"fn\": \"system\"}]')",
    ):
        with pytest.raises(pgerror.InsufficientPrivilege) as caught:
            ask(producer, query)
        assert "role 'deferred_producer' may not defer" in str(caught.value)
    assert db.hot() == 3
    assert db.one("select count(*) from deferred.__deferred_queue where name = 'any'") == 1
    defer(db, "system")  # another role is not limited
    producer.close()


def test_a_hostile_search_path_changes_nothing(db):
    db.sql(
        """create schema evil;
        create function evil.format(text, variadic text[]) returns text language sql as 'select (1 / 0)::text';
        create function evil.clock_timestamp() returns timestamptz
        language sql as $$ select '1970-01-01'::timestamptz $$;
        create table evil.__deferred_hot (id int);
        grant usage on schema evil to public"""
    )
    connection = db.connect(options="-c search_path=evil,pg_catalog")
    ask(connection, "select deferred.defer('f')")
    connection.commit()
    connection.close()
    assert db.one("select created_at > now() - interval '1 hour' from deferred.__deferred") is True


# A schema with a function, operator, type and collation of each name in pg_catalog that a statement
# may well use, and temporary types: whatever is looked up in the search_path is found here first,
# and fails.
FORGERY = """
create schema evil; grant usage on schema evil to public;
do $forge$
declare
    f record;
    body constant text := format('begin raise exception %%L; end', 'forged');
begin
    for f in select p.proname, pg_get_function_identity_arguments(p.oid) as args, p.prorettype::regtype as result
             from pg_proc p where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and not p.proretset
               and p.proname = any (%s) and 'internal'::regtype <> all (p.proargtypes) loop
        begin
            execute format('create function evil.%%I(%%s) returns %%s language plpgsql as %%L', f.proname,
            f.args, f.result, body);
        exception when others then
        end;
    end loop;
    for f in select o.oprname, o.oid, o.oprleft::regtype as l, o.oprright::regtype as r, o.oprresult::regtype as result
             from pg_operator o where o.oprnamespace = 'pg_catalog'::regnamespace and o.oprleft <> 0 loop
        begin
            execute format('create function evil.o%%s(%%s, %%s) returns %%s language plpgsql as %%L', f.oid,
            f.l, f.r, f.result, body);
            execute format('create operator evil.%%s (leftarg = %%s, rightarg = %%s, function = evil.o%%s)',
            f.oprname, f.l, f.r, f.oid);
        exception when others then
        end;
    end loop;
end
$forge$;
create collation evil."C" (provider = icu, locale = 'und', deterministic = false);
create type pg_temp.text as enum ('forged'); create type pg_temp.json as enum ('forged');
create type pg_temp.name as enum ('forged');
create type evil.text as enum ('forged'); create type evil.json as enum ('forged');
create type evil.name as enum ('forged');
create table evil.__deferred_hot (id int); create table pg_temp.__deferred_queue (id int);
"""

# What defer() does with the rights of its owner and on the search_path of its caller.
UNPINNED = ("defer", "__actor", "__nobody_waits", "__unawaited", "__waits", "__wake")


def body_of(name):
    return re.sub("--.*", "", pg.source(name, "functions"))


def test_defer_looks_up_nothing_in_the_search_path_of_its_caller(db):
    sleeper, caller = db.connect(options="-c statement_timeout=10s"), db.connect(options="-c statement_timeout=10s")
    words = sorted(set(re.findall(r"\w+", " ".join(map(body_of, UNPINNED)))))
    keywords = {row[0] for row in db.sql("select word from pg_get_keywords() where catcode = 'C'")}
    forged = "rollback to forged; set local search_path = evil, pg_catalog, pg_temp; set local role deferred_worker"

    def call(cursor):
        """All ways: nobody waits, somebody does for another queue, somebody does for all."""
        for locks in (
            "pg_advisory_unlock_all()",
            "pg_advisory_lock_shared(1145390674, 0)",
            "pg_advisory_lock_shared(1145390674, hashtext('*'))",
        ):
            ask(sleeper, "select " + locks)
            cursor.execute(
                "select deferred.defer('f', '{}'), deferred.defer('f', '{}'::pg_catalog.jsonb), deferred.__actor()"
            )

    with caller.cursor() as cursor:
        cursor.execute(FORGERY, (words,))
        cursor.execute("savepoint forged")
        cursor.execute(forged)
        with pytest.raises(psycopg2.Error, match="forged"):
            cursor.execute("select current_setting('role')")
        cursor.execute(forged)
        call(cursor)
        # And each of the names is needed: without its schema the call fails.
        for name in UNPINNED:
            source = body_of(name)
            for found in re.finditer(r"operator\(pg_catalog\.(.+?)\)|pg_catalog\.()", source):
                # json is a keyword from PostgreSQL 17 on: as a type it is looked up nowhere.
                if re.match(r"\w*", source[found.end() :])[0] in keywords:
                    continue
                # A lock that a forged function kept from being given back is held for the session.
                cursor.execute(
                    "rollback to forged; set local search_path = pg_catalog, pg_temp; select pg_advisory_unlock_all()"
                )
                cursor.execute(source[: found.start()] + (found[1] or "") + source[found.end() :])
                cursor.execute(forged.split(";", 1)[1])
                with pytest.raises(psycopg2.Error):
                    call(cursor)
                    pytest.fail(f"{name}: {source[found.start():found.end() + 20]} was not missed")
    caller.close()
    sleeper.close()


def test_a_viewer_sees_no_params_and_no_error_texts(db):
    job = defer(db, "f", '{"secret": 1}')
    finish(db, job, "failed", "secret")
    viewer = as_role(db, "deferred_viewer")
    assert ask(viewer, "select id, state, last_outcome from deferred.job") == [(job, "dead", "failed")]
    assert ask(viewer, "select outcome from deferred.__deferred_log") == [("failed",)]
    for query in (
        "select params from deferred.__deferred",
        "select error from deferred.__deferred_log",
        "select result from deferred.__deferred_log",
        "select * from deferred.__deferred_log",
        "select receipt from deferred.__deferred_hot",
        "select deferred.defer('f')",
        f"select deferred.cancel({job})",
        f"select deferred.retry({job})",
    ):
        with pytest.raises(pgerror.InsufficientPrivilege):
            ask(viewer, query)
    columns = [
        c[0] for c in ask(viewer, "select column_name::text from information_schema.columns where table_name = 'job'")
    ]
    assert "params" not in columns and "error" not in columns
    viewer.close()


def test_a_producer_sees_its_own_jobs_and_nothing_of_others(db):
    """Neither by rows nor by what a function of its own is shown, nor by an error in a condition."""
    roles = [f"{name}_{os.getpid()}" for name in ("shop", "bank")]
    for role in roles:
        db.sql(f"create role {role} in role deferred_producer")
    shop, bank = (as_role(db, role) for role in roles)
    try:
        mine, running, theirs = (
            ask(who, "select deferred.defer('f', '{}', json_build_object('label', current_user))")[0][0]
            for who in (shop, shop, bank)
        )
        finish(db, mine, "failed", "at smtp.internal")
        db.sql("update deferred.__deferred_log set final = false where job_id = %s", mine)
        db.sql(
            "insert into deferred.__deferred_log (job_id, attempt, outcome, final, result) "
            "values (%s, 2, 'ok', true, 'a-1')",
            mine,
        )
        db.hold(running, theirs)
        db.sql(
            "insert into deferred.__deferred_progress (job_id, attempt, done, total, text, reported_at) select id, 1, "
            "id, 9, 'at ' || id, now() from deferred.__deferred"
        )
        finish(db, theirs, result="secret")
        query = (
            "select id, state, attempt, last_outcome, progress_done, progress_text, result from deferred.my_job "
            "order by id"
        )
        assert ask(shop, query) == [
            (mine, "done", 2, "ok", None, None, "a-1"),
            (running, "claimed", 1, None, running, f"at {running}", None),
        ]
        assert ask(bank, query) == [(theirs, "done", 1, "ok", None, None, "secret")]
        assert ask(shop, f"select count(*) from deferred.my_job where id = {theirs}") == [(0,)]
        columns = [c[0] for c in ask(shop, "select jsonb_object_keys(to_jsonb(j)) from deferred.my_job j limit 1")]
        assert "error" not in columns and "receipt" not in columns
        ask(
            shop, f"select from deferred.my_job where 1 / (id - {theirs}) > 5"
        )  # division by zero, were it asked of another's
        cursor = shop.cursor()
        cursor.execute(
            """create function pg_temp.spy(bigint, text) returns boolean language plpgsql cost 1e-9 as $$
            begin raise notice '% %', $1, $2; return true; end $$"""
        )
        cursor.execute("select from deferred.my_job where pg_temp.spy(id, label)")
        cursor.execute("drop function pg_temp.spy(bigint, text)")  # the session may end later than the role
        seen = " ".join(shop.notices)
        assert f"NOTICE:  {mine} " in seen and f"NOTICE:  {theirs} " not in seen
        # One job is found by its id; what comes from the table is not read through.
        plan = "\n".join(r[0] for r in ask(shop, f"explain select * from deferred.my_job where id = {mine}"))
        assert "Seq Scan on __deferred_0" not in plan and "Index" in plan
        # Who acts counts, not who logged in; a role that defers nothing sees nothing, and is told
        # nothing that it may not see.
        worker = as_role(db, "deferred_worker")
        assert ask(worker, "select count(*) from deferred.my_job") == [(0,)]
        worker.close()
        viewer = as_role(db, "deferred_viewer")
        with pytest.raises(pgerror.InsufficientPrivilege):
            ask(viewer, "select count(*) from deferred.my_job")
        viewer.close()
    finally:
        shop.close()
        bank.close()
        for role in roles:
            db.sql(f"drop role {role}")


# ---- state, cancel, retry ------------------------------------------------------------------------


def test_the_view_tells_the_state(db):
    def state(job):
        return db.one("select state from deferred.job where id = %s", job)

    job = defer(db)
    assert state(job) == "ready"
    db.hold(job)
    assert state(job) == "claimed"
    db.sql("update deferred.__deferred_lease set expires_at = clock_timestamp() - interval '1 min'")
    assert state(job) == "ready"
    finish(db, job)
    assert state(job) == "done"
    assert state(defer(db, delay="1h")) == "delayed"
    for outcome, wanted in (
        ("failed", "dead"),
        ("crashed", "dead"),
        ("timeout", "dead"),
        ("expired", "expired"),
        ("cancelled", "cancelled"),
    ):
        job = defer(db)
        finish(db, job, outcome)
        assert state(job) == wanted
    clean(db)


def test_cancel_takes_a_job_out_once(db):
    job = defer(db)
    assert db.one("select deferred.cancel(%s)", job) is True
    assert db.one("select deferred.cancel(%s)", job) is False
    assert db.sql("select attempt, outcome, final from deferred.__deferred_log") == [(0, "cancelled", True)]
    running = defer(db)
    db.hold(running, receipt=5)
    assert db.one("select deferred.cancel(%s)", running) is True
    assert db.sql("select attempt, outcome, receipt from deferred.__deferred_log where job_id = %s", running) == [
        (1, "cancelled", 5)
    ]
    assert db.one("select deferred.cancel(999999)") is False
    clean(db)


def test_retry_brings_back_the_dead_and_not_the_done(db):
    done, dead, delayed = defer(db), defer(db, key="k", priority=3), defer(db, delay="1h")
    finish(db, done)
    finish(db, dead, "failed")
    refused(db, psycopg2.Error, f"job {done} is done", "select deferred.retry(%s)", done)
    assert db.one("select deferred.retry(%s)", dead) is True
    assert db.sql(
        "select attempt, attempt_base, key, priority, fn from deferred.__deferred_hot where id = %s", dead
    ) == [(1, 1, "8:deferred:k", 3, "f")]
    assert db.one("select deferred.retry(%s)", delayed) is True
    assert db.one("select state from deferred.job where id = %s", delayed) == "ready"
    assert db.one("select deferred.retry(999999)") is False
    clean(db)
    db.hold(dead)
    refused(db, psycopg2.Error, "is running", "select deferred.retry(%s)", dead)


def test_retry_is_refused_while_a_newer_job_has_the_key(db):
    dead = defer(db, key="k")
    finish(db, dead, "failed")
    newer = defer(db, key="k")
    refused(db, pgerror.UniqueViolation, f"is in use by job {newer}", "select deferred.retry(%s)", dead)
    finish(db, newer)
    assert db.one("select deferred.retry(%s)", dead) is True


def test_a_retry_with_a_snapshot_from_before_another_one_fails_instead_of_running_it_twice(db):
    job = defer(db)
    finish(db, job, "failed")
    old = db.connect()
    old.set_session(isolation_level="REPEATABLE READ")
    assert ask(old, "select state from deferred.job where id = %s", job) == [("dead",)]
    assert db.one("select deferred.retry(%s)", job) is True
    db.sql(
        "with h as (delete from deferred.__deferred_hot where id = %s returning id)"
        " insert into deferred.__deferred_log (job_id, attempt, outcome, final) select id, 2, 'ok', true from h",
        job,
    )
    with pytest.raises(pgerror.SerializationFailure):
        ask(old, "select deferred.retry(%s)", job)
    old.close()
    assert db.one("select count(*) from deferred.__deferred_hot") == 0
    clean(db)


def test_a_job_whose_attempts_were_purged_is_not_taken_for_a_dead_one(db):
    job = defer(db)
    finish(db, job)
    db.sql("delete from deferred.__deferred_log")
    refused(db, psycopg2.Error, "its attempts were purged", "select deferred.retry(%s)", job)


# ---- ledger --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage, invariant",
    [
        ("delete from deferred.__deferred_hot", "I1"),
        ("delete from deferred.__deferred", "I1"),
        (
            "insert into deferred.__deferred_log (job_id, attempt, outcome, final) select id, n, 'ok', false "
            "from deferred.__deferred_hot,"
            " generate_series(1, 2) n",
            "I2",
        ),
        (
            "insert into deferred.__deferred_log (job_id, attempt, outcome, final) select id, 2, 'failed', false "
            "from deferred.__deferred_hot",
            "I3",
        ),
        ("update deferred.__deferred_hot set attempt = 1", "I3"),
        (
            "insert into deferred.__deferred_log (job_id, attempt, outcome, final) select id, 1, 'ok', true "
            "from deferred.__deferred_hot",
            "I6",
        ),
        ("update deferred.__deferred_hot set receipt = 1", "I7"),
        ("update deferred.__deferred_hot set receipt = 1, worker = 1, due_at = now(), attempt = 1", "I7"),
        ("update deferred.__deferred set fn = 'system(1)'", "I8"),
        ("update deferred.__deferred set max_attempts = 0", "I8"),
    ],
)
def test_the_ledger_finds_planted_damage(db, damage, invariant):
    job = defer(db)
    clean(db)
    db.sql(damage)
    found = db.sql("select left(invariant, 2), job_id from deferred.check_ledger()")
    assert (invariant, job) in found


# ---- partitions and retention --------------------------------------------------------------------


def test_maintain_adds_partitions_once_and_empties_the_net(db):
    assert db.one("select deferred.maintain()") == 0
    # Ids run ahead of the partitions: rows land in the net.
    db.sql("select setval('deferred.__deferred_id_seq', 25000000)")
    job = defer(db)
    assert db.one("select count(*) from deferred.__deferred_default") == 1
    assert db.one("select deferred.maintain()") > 0
    assert db.one("select count(*) from deferred.__deferred_default") == 0
    assert (
        db.one(
            "select relname::text from deferred.__deferred d join pg_class c on c.oid = d.tableoid where id = %s", job
        )
        == "__deferred_20000000"
    )
    assert db.one("select deferred.maintain()") == 0
    clean(db)


def partitions(db):
    return db.sql(
        "select first::bigint / 1000000, past::bigint / 1000000 from deferred.__partitions('deferred.__deferred') "
        "order by first::bigint"
    )


def ids_from(db, n, age=None):
    """The next job gets this id; it was deferred so long ago."""
    db.sql("select setval('deferred.__deferred_id_seq', %s, false)", n)
    job = defer(db)
    if age:
        db.sql("update deferred.__deferred set created_at = now() - %s::interval where id = %s", age, job)
    return job


def test_a_partition_is_as_wide_as_a_day_of_jobs(db):
    """Each begins where the one before ends; what there is stays as it is."""
    assert partitions(db) == [(0, 10)]
    ids_from(db, 1, "2 days")
    ids_from(db, 5000000)
    assert db.one("select deferred.maintain()") == 1 and partitions(db)[1:] == [(10, 20)]  # 2.5 million a day
    ids_from(db, 16000000)
    assert db.one("select deferred.maintain()") == 1 and partitions(db)[2:] == [(20, 30)]  # 8 million a day
    ids_from(db, 26000000)
    assert db.one("select deferred.maintain()") == 1 and partitions(db)[3:] == [(30, 50)]  # 13 million a day
    ids_from(db, 39000000, "30 hours")
    assert db.one("select deferred.maintain()") == 0
    ids_from(db, 46000000)
    assert db.one("select deferred.maintain()") == 1 and partitions(db)[4:] == [
        (50, 60)
    ]  # 5.6 million: the last partition is more than a day old, it alone counts
    ids_from(db, 59000000)
    assert db.one("select deferred.maintain()") == 1 and partitions(db)[5:] == [(60, 80)]  # 16 million
    ids_from(db, 79000000)
    assert db.one("select deferred.maintain()") == 1 and partitions(db)[6:] == [(80, 130)]  # 32 million
    assert db.one("select count(*) from deferred.__deferred_default") == 0
    assert db.one("select deferred.__id_width(%s, 0)", 10**15) == 1000000000
    assert db.one("select deferred.__id_room(1e9)") == 10 and partitions(db)[-1] == (
        1030,
        1130,
    ), "a billion at once: a hundred million each"
    assert db.one("select deferred.__id_room('nan')") == 0 and db.one("select deferred.__id_room('-infinity')") == 0
    clean(db)


def test_those_that_fell_into_the_net_find_a_place_between_others(db):
    """Ids ran ahead, fell back as after a standby took over, and ran on: nothing is left in the
    net, and nothing is made for ids nobody had."""
    low = ids_from(db, 60000001)
    assert db.one("select deferred.maintain()") == 1 and partitions(db) == [(0, 10), (60, 70)]
    between = [ids_from(db, n) for n in (12345678, 29999999, 31000000)]
    assert db.one("select count(*) from deferred.__deferred_default") == 3
    db.sql(
        "select setval('deferred.__deferred_id_seq', 64000000); update deferred.__deferred_upkeep "
        "set repaired_at = '-infinity'"
    )
    assert db.one("select deferred.maintain()") == 3
    assert partitions(db)[1:4] == [(10, 20), (20, 30), (30, 40)]
    assert db.one("select count(*) from deferred.__deferred_default") == 0
    assert db.one("select count(*) from deferred.__deferred where id = any (%s)", [low, *between]) == 4
    clean(db)


def test_a_partition_that_went_is_made_anew(db):
    """By hand, say. What was remembered of how far they reach does not hide that for longer than five minutes."""
    assert db.one("select deferred.maintain()") == 0
    db.sql("drop table deferred.__deferred_0")
    assert db.one("select deferred.maintain()") == 0
    job = defer(db)
    db.sql("update deferred.__deferred_upkeep set repaired_at = now() - interval '6 minutes'")
    assert db.one("select deferred.maintain()") == 1
    assert db.one("select tableoid::regclass::text from deferred.__deferred where id = %s", job) == "__deferred_0"
    clean(db)


def test_maintain_empties_a_net_that_is_in_use(db):
    """Rows that arrive between the move of what was caught and the attachment would fail it."""
    db.sql("set default_transaction_isolation = 'read committed'")  # as a worker does
    db.sql("select setval('deferred.__deferred_id_seq', 10000001)")
    assert db.one("select deferred.maintain()") == 1
    db.sql("select setval('deferred.__deferred_id_seq', 19999990)")
    stop, failed = threading.Event(), []

    def producer():
        connection = db.connect()
        connection.autocommit = True
        try:
            while not stop.is_set():
                ask(connection, "select count(deferred.defer('f')) from generate_series(1, 20)")
        except psycopg2.Error as e:
            failed.append(e)
        connection.close()

    threads = [threading.Thread(target=producer) for _ in range(4)]
    for t in threads:
        t.start()
    try:
        for _ in range(20):
            if db.one("select deferred.maintain()") and db.one(
                "select to_regclass('deferred.__deferred_20000000') is not null"
            ):
                break
    finally:
        stop.set()
        for t in threads:
            t.join(60)
    assert failed == [] and db.one("select to_regclass('deferred.__deferred_20000000') is not null")
    assert db.one("select count(*) from deferred.__deferred_default") == 0
    clean(db)


def test_maintain_moves_log_rows_out_of_the_net(db):
    partition = db.one(
        "select relname::text from pg_class where relname ~ '^__deferred_log_[0-9]{8}$' order by relname limit 1"
    )
    db.sql(f"drop table deferred.{partition}")
    job = defer(db)
    finish(db, job)
    assert db.one("select count(*) from deferred.__deferred_log_default") == 1
    # The week it looks at first is missing: the quick way out is not taken.
    ahead = db.one("select to_char(date_trunc('week', now() at time zone 'UTC') + interval '3 weeks', 'YYYYMMDD')")
    db.sql(f"drop table deferred.__deferred_log_{ahead}")
    assert db.one("select deferred.maintain()") == 2
    assert db.one("select count(*) from deferred.__deferred_log_default") == 0
    clean(db)


def test_maintain_gives_up_rather_than_wait_for_a_reader(db):
    db.sql("select setval('deferred.__deferred_id_seq', 25000000)")
    reader = db.connect()
    ask(reader, "select count(*) from deferred.__deferred_default")
    assert db.one("select deferred.maintain()") == 0
    defer(db)
    reader.rollback()
    reader.close()
    assert db.one("select deferred.maintain()") > 0
    clean(db)


def old_job(db, age="40 days"):
    """A finished job of long ago, in a partition of the log made for it."""
    job = defer(db)
    finish(db, job)
    db.sql("update deferred.__deferred set created_at = now() - %s::interval where id = %s", age, job)
    db.sql("delete from deferred.__deferred_log where job_id = %s", job)
    week = db.one("select date_trunc('week', (now() - %s::interval) at time zone 'UTC')::date", age)
    name = f"__deferred_log_{week:%Y%m%d}"
    if db.one("select to_regclass(%s)::text", "deferred." + name) is None:
        db.sql(
            f"select deferred.__add_partition('__deferred_log', '{name}', 'finished_at', '{week} 00:00:00+00', "
            f"('{week}'::date + 7) || ' 00:00:00+00')"
        )
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at) "
        "values (%s, 1, 'ok', true, now() - %s::interval)",
        job,
        age,
    )
    return job, name


def test_a_log_partition_past_the_limit_is_dropped(db):
    job, name = old_job(db)
    assert db.one("select name from deferred.__purge_partition('60 days')") is None
    assert db.one("select name from deferred.__purge_partition('30 days')") == name
    assert db.one("select name from deferred.__purge_partition('30 days')") is None
    assert db.one("select to_regclass(%s)::text", "deferred." + name) is None
    assert db.sql("select purged from deferred.__purge_jobs('30 days', 0, 1000)") == [(1,)]
    assert db.one("select count(*) from deferred.__deferred where id = %s", job) == 0
    clean(db)


def test_a_log_partition_with_attempts_of_a_hot_job_stays(db):
    job, name = old_job(db)
    other = defer(db, delay="30d")
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at)"
        " select %s, 1, 'failed', false, finished_at from deferred.__deferred_log where job_id = %s",
        other,
        job,
    )
    db.sql("update deferred.__deferred_hot set attempt = 1 where id = %s", other)
    assert db.one("select name from deferred.__purge_partition('30 days')") is None
    clean(db)
    db.sql("delete from deferred.__deferred_hot where id = %s", other)
    assert db.one("select name from deferred.__purge_partition('30 days')") == name


def test_a_job_partition_is_dropped_once_nothing_of_it_is_needed(db):
    job, name = old_job(db)
    hot = defer(db)
    db.sql("update deferred.__deferred set created_at = now() - interval '40 days'")
    db.sql("select setval('deferred.__deferred_id_seq', 10000001)")
    db.sql("select deferred.maintain()")
    assert db.one("select name from deferred.__purge_partition('30 days')") == name
    assert db.one("select name from deferred.__purge_partition('30 days')") is None  # a job of it is hot
    db.sql("delete from deferred.__deferred_hot where id = %s", hot)
    assert db.one("select name from deferred.__purge_partition('30 days')") == "__deferred_0"
    assert db.one("select count(*) from deferred.__deferred where id = %s", job) == 0


def test_a_partition_in_use_is_left_for_the_next_time(db):
    _, name = old_job(db)
    reader = db.connect()
    ask(reader, f"select count(*) from deferred.{name}")
    assert db.sql("select * from deferred.__purge_partition('30 days')") == [(name, False)]
    assert db.sql("select * from deferred.__purge_partition('30 days', null, array[%s])", name) == [(None, None)]
    reader.rollback()
    reader.close()
    assert db.one("select name from deferred.__purge_partition('30 days')") == name


def test_purging_works_in_steps_and_spares_hot_jobs(db):
    jobs = [defer(db) for _ in range(10)]
    for job in jobs[:8]:
        finish(db, job)
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final) values (%s, 1, 'failed', false)", jobs[9]
    )
    db.sql("update deferred.__deferred_hot set attempt = 1 where id = %s", jobs[9])
    db.sql("update deferred.__deferred set created_at = now() - interval '40 days' where id <> %s", jobs[0])
    db.sql("update deferred.__deferred_log set finished_at = finished_at - interval '2 hours'")
    for part in [
        r[0]
        for r in db.sql(
            "select inhrelid::regclass::text from pg_inherits where inhparent = 'deferred.__deferred_log'::regclass"
        )
    ]:
        db.sql("select deferred.__purge_log(%s, '1 hour', 0, 100)", part)
    assert db.sql("select job_id from deferred.__deferred_log") == [(jobs[9],)]
    assert db.sql("select * from deferred.__purge_jobs('30 days', 0, 4)") == [(3, jobs[3] + 1)]
    purged, from_id = 3, jobs[3] + 1
    while from_id is not None:
        n, from_id = db.sql("select * from deferred.__purge_jobs('30 days', %s, 4)", from_id)[0]
        purged += n
    assert purged == 7
    assert sorted(r[0] for r in db.sql("select id from deferred.__deferred")) == [jobs[0], jobs[8], jobs[9]]
    refused(
        db,
        psycopg2.Error,
        "is not a partition of the log",
        "select deferred.__purge_log('deferred.__deferred_hot', '1 s', 0, 1)",
    )


def test_purge_and_the_ledger_agree(db):
    """Attempts past the limit go while the last ones of the same job stay, and jobs after their
    attempts; what is gone within the limit is found."""

    def attempts(job, *ages):
        """Each ended that many hours ago; the last is the final one."""
        db.sql("delete from deferred.__deferred_hot where id = %s", job)
        db.sql(
            """insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at)
                  select %s, n, 'failed', n = %s, now() - h * interval '1 hour' from unnest(%s)
                  with ordinality x(h, n)""",
            job,
            len(ages),
            list(ages),
        )

    def purge():
        for (part,) in db.sql(
            "select inhrelid::regclass::text from pg_inherits where inhparent = 'deferred.__deferred_log'::regclass"
        ):
            db.sql("select deferred.__purge_log(%s, '30 hours', 0, 100, '30 hours')", part)

    slow, old, back, gap, young = [defer(db) for _ in range(5)]
    db.sql("update deferred.__deferred set created_at = now() - interval '5 days' where id <> %s", young)
    for job, ages in (
        (slow, (100, 50, 20, 10)),
        (old, (50,)),
        (back, (60, 50, 1)),
        (gap, (50, 20, 10, 5)),
        (young, (3, 2, 1)),
    ):
        attempts(job, *ages)
    clean(db)
    purge()
    assert db.log(slow) == [(3, "failed"), (4, "failed")] and db.log(old) == []
    clean(db)
    db.sql("select deferred.retry(%s)", back)
    clean(db)
    db.sql("delete from deferred.__deferred_log where (job_id, attempt) in ((%s, 3), (%s, 1))", gap, young)
    assert {r[1] for r in db.sql("select left(invariant, 2), job_id from deferred.check_ledger()")} == {gap, young}
    db.sql("delete from deferred.__deferred_log where job_id = any(%s)", [gap, young, back])
    assert set(db.sql("select left(invariant, 2), job_id from deferred.check_ledger()")) == {
        ("I1", young)
    }, "of the others purge may have had all"


def test_rows_of_runs_ended_long_ago_are_purged(db):
    db.sql(
        "insert into deferred.__deferred_worker (instance, host, pid, version, seen_at, ended_at) values"
        " ('a', 'h', 1, '0', now() - interval '9 days', now() - interval '9 days'), ('b', 'h', 2, '0', now(), null),"
        " ('c', 'h', 3, '0', now() - interval '9 days', null)"
    )
    assert db.one("select deferred.__purge_workers('5 days')") == 2
    assert db.sql("select instance from deferred.__deferred_worker") == [("b",)]


def test_an_option_that_few_of_many_have_is_theirs_alone(db):
    options = [
        ("label", "x"),
        ("priority", 7),
        ("queue", "mail"),
        ("max_attempts", 4),
        ("timeout_ms", 5000),
        ("backoff_floor_ms", 10),
        ("backoff_ceiling_ms", 60000),
        ("backoff_exponent", 3.0),
        ("concurrency_key", "k"),
        ("concurrency", 2),
    ]
    names = {"timeout_ms": "timeout", "backoff_floor_ms": "backoff_floor", "backoff_ceiling_ms": "backoff_ceiling"}
    spans = {"timeout_ms": "5s", "backoff_floor_ms": "10ms", "backoff_ceiling_ms": "1min"}
    jobs = []
    for option, value in options:
        extra = {"concurrency_key": "k"} if option == "concurrency" else {}
        jobs += [
            {"fn": "f"},
            {"fn": "f", names.get(option, option): spans.get(option, value), **extra},
            {"fn": "f", "params": {"n": len(jobs)}},
        ]
    ids = [r[0] for r in db.sql("select deferred.defer_many(%s::json)", json.dumps(jobs))]
    assert ids == sorted(ids) and len(ids) == len(jobs)
    for i, (option, value) in enumerate(options):
        have = {
            r[0]: r[1:]
            for r in db.sql(
                f"select id, {option}, params::text from deferred.__deferred where id = any (%s)",
                ids[3 * i : 3 * i + 3],
            )
        }
        default = {"queue": "default", "priority": 0}.get(option)
        assert have == {
            ids[3 * i]: (default, "{}"),
            ids[3 * i + 1]: (value, "{}"),
            ids[3 * i + 2]: (default, '{"n": %d}' % (3 * i)),
        }, option
