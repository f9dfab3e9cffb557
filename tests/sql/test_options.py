"""Options of jobs: one list, and on purpose what is refused where."""

import json
import re

import psycopg2
import pytest

from documents import read
from job_options import TOGETHER, VALUES

RULE = set(
    "label delay expires key_until max_attempts timeout backoff_floor backoff_ceiling backoff_exponent tags".split()
)
SCHEDULE = RULE - {"delay", "key_until"} | {"priority", "concurrency_key", "concurrency", "queue"}
WAYS = {
    "defer": ("select deferred.defer('noop', '{}', %s)", set(VALUES)),
    "defer_many": (
        "select deferred.defer_many(json_build_array('{\"fn\": \"noop\"}'::jsonb || %s::jsonb))",
        set(VALUES),
    ),
    "schedule": ("select deferred.schedule('s', '0 3 * * *', 'noop', '{}', %s)", SCHEDULE),
    "rule": ("select deferred.__rule_add('r', 'select 1 as k', 'noop', '{}', 'k', 'q', 0, %s, 1000, '')", RULE),
}


def companions(way, option):
    """The options that must be given with this one, if this way of deferring takes them."""
    return {name: value for name, value in TOGETHER.get(option, {}).items() if name in WAYS[way][1]}


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
    statement, taken = WAYS[way]
    for option, value in VALUES.items():
        db.sql("select deferred.defer('noop')")
        with db.connect() as connection, connection.cursor() as cursor:
            try:
                cursor.execute(statement, (json.dumps({option: value, **companions(way, option)}),))
                unknown = False
            except psycopg2.Error as e:
                unknown = f"option '{option}' is unknown" in str(e)
                assert unknown or option == "flow", str(e)
            connection.rollback()
        assert unknown == (option not in taken), option


AFTERWARDS = {
    "schedule": "select deferred.schedule_run('s')",
    "rule": "select deferred.__rule_open('r'); select deferred.__rule_run('r', 1, false, null)",
}
ITS_OWN = [
    "id",
    "created_at",
    "visible_at",
    "xid",
    "tick",
    "previous_tick",
    "rule",
    "key",
]  # differ between any two jobs


def stored(db, way, options):
    """The rows of the job that is deferred in that way."""
    with db.connect() as connection, connection.cursor() as cursor:
        cursor.execute(WAYS[way][0], (json.dumps(options),))
        cursor.execute(AFTERWARDS.get(way, "select"))
        cursor.execute(
            "select (to_jsonb(d) || to_jsonb(h)) - %s::text[] || jsonb_build_object('has_key', d.key is not null)"
            " from deferred.__deferred d join deferred.__deferred_hot h using (id) order by id desc limit 1",
            (ITS_OWN,),
        )
        row = cursor.fetchone()[0]
        connection.rollback()
    return row


@pytest.mark.parametrize("way", WAYS)
def test_an_option_that_is_taken_is_stored(db, way):
    not_in_the_row = {"on_duplicate", "after", "wait_for", "flow"}
    for option in WAYS[way][1] - not_in_the_row:
        others = companions(way, option)
        assert stored(db, way, others) == stored(db, way, others), option
        assert stored(db, way, others) != stored(db, way, {option: VALUES[option], **others}), option


def test_jobs_of_a_schedule_have_its_tags(db):
    db.sql("""select deferred.schedule('s', '0 3 * * *', 'noop', '{}', '{"tags": ["night", "a"]}')""")
    db.sql("select deferred.schedule_run('s')")
    assert db.one("select tags from deferred.__deferred order by id desc limit 1") == ["night", "a"]
