"""Options of jobs: one list, and on purpose what is refused where."""

import json
import re

import psycopg2
import pytest

from documents import read

VALUES = {
    "queue": "q",
    "label": "l",
    "priority": 1,
    "delay": "1h",
    "run_at": "2030-01-01",
    "expires": "1d",
    "expires_at": "2031-01-01",
    "key": "k",
    "key_until": "1h",
    "on_duplicate": "skip",
    "max_attempts": 2,
    "timeout": "1s",
    "backoff_floor": "1s",
    "backoff_ceiling": "2s",
    "backoff_exponent": 2,
    "concurrency_key": "c",
    "concurrency": 1,
    "tags": ["t"],
    "traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01",
    "after": [1],
    "wait_for": "e",
    "flow": 1,
}
TOGETHER = {
    "concurrency": {"concurrency_key": "c"},
    "on_duplicate": {"key": "k"},
    "key_until": {"key": "k", "on_duplicate": "replace"},
}
NOW = {
    "delay",
    "run_at",
    "expires_at",
    "key",
    "key_until",
    "on_duplicate",
    "traceparent",
    "after",
    "wait_for",
    "flow",
}  # of one job, not of each of many
WAYS = {
    "defer": ("select deferred.defer('noop', '{}', %s)", set()),
    "defer_many": ("select deferred.defer_many(json_build_array('{\"fn\": \"noop\"}'::jsonb || %s::jsonb))", set()),
    "schedule": ("select deferred.schedule('s', '0 3 * * *', 'noop', '{}', %s)", NOW),
    "rule": (
        "select deferred.__rule_add('r', 'select 1 as k', 'noop', '{}', 'k', 'q', 0, %s, 1000, '')",
        NOW - {"delay"} | {"queue", "priority", "concurrency_key", "concurrency"},
    ),
}


def test_the_list_is_whole(db):
    assert db.one("select deferred.__job_options()") == list(VALUES)
    page = read("lib", "deferred_sql.3")
    assert [o for o in VALUES if not re.search(rf"\b{o}\b", page)] == []


def test_the_table_in_c_has_the_same_options_in_the_order_of_the_statement():
    table = re.findall(r'(?m)^\t\{ "(\w+)", JOB_OPTION_', read("lib", "store", "enqueue", "job_options.c"))
    assert set(table) == set(VALUES) - {"queue", "wait_for"}
    head = read("sql", "queries", "job", "job_enqueue.sql").split("-- returns")[0]
    parameters = re.findall(r"(\w+) (?:text|json|int\d|float8)\b", head)
    assert [re.sub("_ms$", "", p) for p in parameters] == ["fn", "params", "queue", *table]


@pytest.mark.parametrize("way", WAYS)
def test_an_option_is_taken_or_refused_on_purpose(db, way):
    statement, refused = WAYS[way]
    for option, value in VALUES.items():
        db.sql("select deferred.defer('noop')")
        with db.connect() as connection, connection.cursor() as cursor:
            try:
                cursor.execute(statement, (json.dumps({option: value, **TOGETHER.get(option, {})}),))
                unknown = False
            except psycopg2.Error as e:
                unknown = f"option '{option}' is unknown" in str(e) or any(
                    f"option '{o}' is unknown" in str(e) for o in TOGETHER.get(option, {})
                )
                assert unknown or option == "flow", str(e)
            connection.rollback()
        assert unknown == (option in refused), option


def stored(db, way, options):
    """The rows of the newest job after one was deferred in that way, without what differs between any two jobs."""
    db.sql(WAYS[way][0], json.dumps(options))
    if way == "schedule":
        db.sql("select deferred.schedule_run('s')")
    return db.one(
        "select (to_jsonb(d) || to_jsonb(h)) - array['id', 'created_at', 'visible_at', 'xid', 'tick', 'previous_tick']"
        " from deferred.__deferred d join deferred.__deferred_hot h using (id) order by id desc limit 1"
    )


@pytest.mark.parametrize("way", ["defer", "defer_many", "schedule"])
def test_an_option_that_is_taken_is_stored(db, way):
    not_in_the_row = {"on_duplicate", "after", "wait_for", "flow"}
    for option, value in VALUES.items():
        if option in WAYS[way][1] | not_in_the_row:
            continue
        others = TOGETHER.get(option, {})
        assert stored(db, way, others) == stored(db, way, others), option
        assert stored(db, way, others) != stored(db, way, {option: value, **others}), option


def test_jobs_of_a_schedule_have_its_tags(db):
    db.sql("""select deferred.schedule('s', '0 3 * * *', 'noop', '{}', '{"tags": ["night", "a"]}')""")
    db.sql("select deferred.schedule_run('s')")
    assert db.one("select tags from deferred.__deferred order by id desc limit 1") == ["night", "a"]
