"""Tags: words that jobs are found by."""

import json

import psycopg2
import psycopg2.errors
import pytest


def tags_of(db, job):
    return db.one("select tags from deferred.__deferred where id = %s", job)


def test_tags_are_stored_from_wherever_they_are_given(db, ledger):
    assert tags_of(db, db.defer("f", tags=["b", "a", "b", "Ünicode, and a comma"])) == [
        "b",
        "a",
        "Ünicode, and a comma",
    ]
    assert (
        tags_of(db, db.defer("f", tags=[])) is None
        and tags_of(db, db.defer("f")) is None
        and tags_of(db, db.defer("f", tags=None)) is None
    )
    assert tags_of(db, db.one("select deferred.defer('f', '{}'::jsonb, '{\"tags\": [\"j\"]}'::jsonb)")) == ["j"]
    assert tags_of(
        db, db.one("select deferred.send_mail('a@example.org', 's', 't', opts => '{\"tags\": [\"m\"]}')")
    ) == ["m"]
    assert tags_of(db, db.one("select deferred.defer(null, '1', '{\"queue\": \"q\", \"tags\": [\"message\"]}')")) == [
        "message"
    ]
    assert tags_of(db, db.defer("f", tags=["t" * 100] + [str(i) for i in range(31)] * 2)) == ["t" * 100] + [
        str(i) for i in range(31)
    ]
    for key in ({}, {"key": "k"}):  # the second goes job by job
        jobs = [
            {"fn": "f", "tags": ["x", "y", "x"]},
            {"fn": "f"},
            {"fn": "f", "tags": []},
            {"fn": "f", "tags": ["z"], **key},
        ]
        ids = [r[0] for r in db.sql("select deferred.defer_many(%s::json)", json.dumps(jobs))]
        assert [tags_of(db, i) for i in ids] == [["x", "y"], None, None, ["z"]]
    ledger(db)
    for wrong in ("'{}'", "'{a,a}'", "'{\"\"}'", "array[null]", "'{{a},{b}}'", "array[repeat('x', 101)]"):
        with db.connect() as c, c.cursor() as cursor:
            cursor.execute(f"update deferred.__deferred set tags = {wrong} where id = 1")
            cursor.execute("select count(*) from deferred.check_ledger()")
            assert cursor.fetchone() == (1,), wrong
            c.rollback()


WRONG = [
    ('"a"', "tags must be a JSON array, but a JSON string was given: \"a\""),
    ('{"a": 1}', "tags must be a JSON array, but a JSON object was given"),
    ('["a", 1]', "tag 2 must be a text, but a JSON number was given: 1"),
    ('[["a"]]', "tag 1 must be a text, but a JSON array was given"),
    ("[null]", "tag 1 must be a text, but a JSON null was given"),
    ('[""]', 'tag 1 has 0 characters: ""'),
    (json.dumps(["ok", "é" * 101]), "tag 2 has 101 characters: "),
    (json.dumps([str(i) for i in range(33)]), '33 tags, more than 32: ["0", "1"'),
    (json.dumps(["t"] * 1001), "1001 tags, more than 32: "),
    (r'["a\u0000"]', ""),
]


def test_wrong_tags_are_refused_by_name_wherever_they_are_given(db):
    with db.connect() as c, c.cursor() as cursor:
        for text, says in WRONG:
            for statement, argument in (
                ("select deferred.defer('f', '{}', %s)", '{"tags": %s}' % text),
                ("select deferred.defer_many(%s)", '[{"fn": "f"}, {"fn": "f", "tags": %s}]' % text),
                (
                    "select deferred.__rule_add('r', 'select 1 as k', 'f', '{}', 'k', null, 0, %s, 1000, 'public')",
                    '{"tags": %s}' % text,
                ),
            ):
                with pytest.raises(psycopg2.Error) as refused:
                    cursor.execute(statement, (argument,))
                c.rollback()
                assert says in str(refused.value) and refused.value.pgcode[:2] == "22", (text, statement, refused.value)
    assert db.hot() == 0


def test_the_jobs_of_a_tag_are_found_by_an_index_and_others_are_not_in_it(db):
    db.sql("select deferred.defer_many((select json_agg(json_build_object('fn', 'f')) from generate_series(1, 3000)))")
    index = db.one(
        "select c.oid from pg_index i join pg_class c on c.oid = i.indexrelid join pg_am a on a.oid = c.relam"
        " where a.amname = 'gin' and i.indrelid = (select tableoid from deferred.__deferred limit 1)"
    )
    empty = db.one("select pg_relation_size(%s)", index)
    tagged = [db.defer("f", tags=["rare"]) for _ in range(2)]
    db.sql(
        "select deferred.defer_many((select json_agg(json_build_object('fn', 'f', 'tags', json_build_array('other', "
        "i::text))) from generate_series(1, 300) i))"
    )
    assert (
        db.one("select pg_relation_size(%s)", index)
        > empty
        == db.one("select 2 * current_setting('block_size')::integer")
    )
    db.sql("analyze deferred.__deferred")
    with db.connect() as c, c.cursor() as cursor:
        cursor.execute("set role deferred_viewer")
        cursor.execute("explain (analyze, format json) select id from deferred.__deferred d where d.tags @> '{rare}'")
        plan = json.dumps(cursor.fetchone()[0])
        cursor.execute("select id from deferred.__deferred d where d.tags @> '{rare}'")
        assert sorted(r[0] for r in cursor) == tagged
        assert "_tags_idx" in plan and plan.count('"Seq Scan"') == 1, "of the net, which is empty"


def test_who_deferred_a_job_sees_its_rule_and_tags(db):
    job = db.defer("f", tags=["mine"])
    db.sql("update deferred.__deferred set rule = 'r' where id = %s", job)
    assert db.sql("select id, rule, tags from deferred.my_job where tags @> '{mine}'") == [(job, "r", ["mine"])]
    assert db.sql("select id, tags from deferred.job where tags @> '{mine}'") == [(job, ["mine"])]
