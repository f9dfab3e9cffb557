"""What --on-dead names is deferred once for each dead job, whoever recorded the death. Runs of
programs are in tests/bin/test_alerting.py."""

import json

import psycopg2
import pytest

NOTICE = "select deferred.__notice()"


def die(db, fn="import", queue="default", outcome="failed", attempt=1, ago="0", params="{}", error="no such file"):
    job = db.one("select nextval('deferred.__deferred_id_seq')")
    db.sql(
        "insert into deferred.__deferred (id, queue, fn, params, label) values (%s, %s, %s, %s, 'a label')",
        job,
        queue,
        fn,
        params,
    )
    again(db, job, outcome, attempt, ago, error)
    return job


def again(db, job, outcome, attempt, ago="0", error=None):
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, finished_at) "
        "values (%s, %s, %s, true, %s, clock_timestamp() - %s::interval)",
        job,
        attempt,
        outcome,
        error,
        ago,
    )


def on_dead(db, fn="mourn", queue="default"):
    db.sql("select deferred.__queue_set(%s, %s)", queue, json.dumps({"on_dead": fn}))


def told(db, fn="mourn"):
    return [
        json.loads(p) if isinstance(p, str) else p
        for p, in db.sql("select params from deferred.__deferred where fn = %s order by id", fn)
    ]


@pytest.mark.parametrize("outcome", ["failed", "crashed", "timeout", "interrupted", "superseded", "lost"])
def test_each_death_is_told_once_with_what_is_known_of_it(db, outcome):
    die(db)  # before it was set
    on_dead(db)
    job = die(db, outcome=outcome, params='{"n": 1}')
    assert db.one(NOTICE) is False and db.one(NOTICE) is False
    assert told(db) == [
        {
            "job": job,
            "fn": "import",
            "queue": "default",
            "attempt": 1,
            "outcome": outcome,
            "error": "no such file",
            "label": "a label",
            "params": {"n": 1},
            "params_bytes": 8,
        }
    ]
    assert db.sql(
        "select d.queue, d.created_by, h.priority from deferred.__deferred d "
        "join deferred.__deferred_hot h using (id) where d.fn = 'mourn'"
    ) == [("default", "deferred_owner", 0)]
    again(db, job, "failed", 2)  # retried by hand
    assert db.one(NOTICE) is False and [t["attempt"] for t in told(db)] == [1, 2]


@pytest.mark.parametrize("outcome", ["ok", "cancelled", "expired"])
def test_what_is_not_dead_is_not_told(db, outcome):
    on_dead(db)
    die(db, outcome=outcome)
    db.one(NOTICE)
    assert told(db) == []


def test_a_functions_goes_before_its_queues_and_no_chain_is_made(db):
    on_dead(db)
    db.sql("select deferred.__function_set('import', '{\"on_dead\": \"cry\"}')")
    db.sql("select deferred.__function_set('mourn', '{\"on_dead\": \"cry\"}')")
    assert db.one("select count(*) from deferred.__deferred_function") == 0  # no limit comes of it
    for fn in ("import", "export", "mourn", "cry"):
        die(db, fn=fn)
    db.one(NOTICE)
    assert sorted(t["fn"] for t in told(db) + told(db, "cry") if "fn" in t) == ["export", "import"]


def test_large_params_are_not_passed_on_and_text_is_data(db):
    on_dead(db)
    die(db, params=json.dumps({"x": "y" * 70000}), error="'; drop table x; \" \\ {" + "e" * 9000)
    die(db, params='{"a": "\\u0000"}', error=None)
    db.one(NOTICE)
    rows = db.sql("select params::text from deferred.__deferred where fn = 'mourn' order by id")
    first = json.loads(rows[0][0])
    assert (
        first["params"] is None
        and first["params_bytes"] == 70009
        and len(first["error"]) == 8192
        and first["error"].startswith("'; drop")
    )
    assert json.loads(rows[1][0])["params"] == {"a": "\0"}


def test_two_at_once_and_one_that_dies_tell_it_once(db):
    on_dead(db)
    die(db)
    other = psycopg2.connect(db.dsn) if hasattr(db, "dsn") else db.connect()
    other.autocommit = False
    with other.cursor() as cursor:
        cursor.execute(NOTICE)
        assert db.one(NOTICE) is False and told(db) == []  # the other one has it
        other.rollback()  # as a kill -9 does
        db.one(NOTICE)
        cursor.execute(NOTICE)
        other.commit()
    other.close()
    assert len(told(db)) == 1


def test_a_death_that_commits_late_is_found(db):
    on_dead(db)
    db.sql("update deferred.__deferred_on_dead set since = since - interval '1 day'")
    die(db)
    db.one(NOTICE)
    die(db, fn="late", ago="50 minutes")
    db.one(NOTICE)
    assert [t["fn"] for t in told(db)] == ["import", "late"]


def test_ten_thousand_deaths_are_told_once_each_in_steps(db):
    on_dead(db)
    db.sql(
        """with j as (select nextval('deferred.__deferred_id_seq') as id from generate_series(1, 10000)),
                   d as (insert into deferred.__deferred (id, queue, fn, params) select id, 'default',
                   'import', '{}' from j returning id)
              insert into deferred.__deferred_log (job_id, attempt, outcome, final) select id, 1, 'failed',
              true from d"""
    )
    steps = 1
    while db.one(NOTICE):
        steps += 1
    assert 10 <= steps <= 11 and len({t["job"] for t in told(db)}) == len(told(db)) == 10000
    db.one(NOTICE)
    assert len(told(db)) == 10000


def test_where_nobody_has_it_the_row_is_not_even_looked_at(db):
    die(db)
    assert db.one(NOTICE) is False and db.sql("select noticed_to = '-infinity' from deferred.__deferred_notice") == [
        (True,)
    ]
    on_dead(db)
    on_dead(db, None)
    assert db.one("select count(*) from deferred.__deferred_on_dead") == 0
    with pytest.raises(psycopg2.Error, match="is not the name of a function"):
        on_dead(db, "a b")
