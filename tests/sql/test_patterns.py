"""Patterns: settings of queues that have none of their own, by the beginning of the queue's name."""

import json
import re
import threading

import psycopg2
import pytest

import pg

SETTINGS = {
    "params_max_bytes": 5000,
    "visibility_timeout_ms": 2000,
    "ttl_ms": 60000,
    "max_attempts": 7,
    "backoff_floor_ms": 10,
    "backoff_ceiling_ms": 20,
    "backoff_exponent": 1.5,
    "max_running": 4,
    "rate": 10,
    "burst": 3,
    "max_length": 100,
    "on_full": "drop",
    "weight": 0.5,
    "age_ms": 5000,
    "key_rate": 2.5,
    "key_burst": 4,
}


def set_queue(db, name, add=False, **settings):
    db.sql("select deferred.__queue_set(%s, %s, %s)", name, json.dumps(settings), add)


def settings(db, name):
    """The pattern of a queue, and its settings that are not defaults."""
    ((pattern, found),) = db.sql(
        "select q.pattern, (select jsonb_object_agg(k, to_jsonb(q)->k)"
        " from jsonb_each(deferred.__queue_plain()) p(k, v) where to_jsonb(q)->k <> v)"
        " from deferred.__deferred_queue q where name = %s",
        name,
    )
    return pattern, found or {}


def defer(db, name, **opts):
    return db.one("select deferred.defer('f', '{}', %s)", json.dumps({"queue": name, **opts}))


def test_the_settings_of_a_pattern_are_those_of_a_queue_with_their_defaults(db):
    plain = db.one("select deferred.__queue_plain()")
    assert set(plain) == set(SETTINGS)
    row = db.one("select to_jsonb(q) from deferred.__deferred_queue q where name = 'default'")
    assert {k: row[k] for k in plain} == plain
    watched = db.sql(
        "select attname::text from pg_trigger t cross join unnest(tgattr::int2[]) n"
        " join pg_attribute on attrelid = tgrelid and attnum = n where tgname = '__deferred_follow'"
    )
    assert {name for name, in watched} == set(plain) | {"removed_at", "pattern"}


ADDED = {
    "defer": "select deferred.defer('f', queue => 'tenant.a')",
    "a message": "select deferred.defer(null, '{}', queue => 'tenant.a')",
    "defer_many": "select deferred.defer_many('[{\"fn\": \"f\", \"queue\": \"tenant.a\"}]')",
    "an administrator": "select deferred.__queue_set('tenant.a', '{}', true)",
    "a retry": "select deferred.__queue_there('tenant.a')",
    "COPY": None,
}


@pytest.mark.parametrize("way", ADDED)
def test_a_queue_takes_the_settings_of_the_pattern_however_it_is_added(db, way):
    set_queue(db, "tenant.*", **SETTINGS)
    if way == "COPY":
        query = re.sub(r"(?m)^--.*\n", "", pg.source("job_enqueue_queues")).replace("$1", "%(queues)s")
        assert db.sql(query, {"queues": ["tenant.a", "default"]}) == [(5000, True), (1048576, False)]
    else:
        db.sql(ADDED[way])
    assert settings(db, "tenant.a") == ("tenant.*", SETTINGS)
    assert db.one("select count(*) from deferred.__deferred_limited where queue = 'tenant.a'") == 1


def test_the_settings_hold_for_the_first_job(db):
    set_queue(db, "tenant.*", rate=1, ttl_ms=60000, max_length=1)
    first = defer(db, "tenant.a")
    assert db.sql(
        "select limited, bounded, expires_at - visible_at = '1 min' from deferred.__deferred_hot where id = %s", first
    ) == [(True, True, True)]
    with pytest.raises(psycopg2.Error, match="queue 'tenant.a' is full"):
        defer(db, "tenant.a")
    set_queue(db, "small.*", params_max_bytes=1)
    with pytest.raises(psycopg2.Error, match="queue 'small.a' allows 1"):
        defer(db, "small.a")


def test_the_longest_pattern_decides(db):
    defer(db, "tenant.big.1")
    set_queue(db, "tenant.big.*", rate=100)
    set_queue(db, "*", max_attempts=1)
    set_queue(db, "tenant.*", rate=10, ttl_ms=1000)
    defer(db, "tenant.big.2")
    defer(db, "tenant.small")
    defer(db, "tenant")
    big = ("tenant.big.*", {"rate": 100})
    assert settings(db, "tenant.big.1") == settings(db, "tenant.big.2") == big
    assert settings(db, "tenant.small") == ("tenant.*", {"rate": 10, "ttl_ms": 1000})
    assert settings(db, "tenant") == settings(db, "default") == ("*", {"max_attempts": 1})
    db.sql("select deferred.__queue_rm('tenant.big.*')")
    assert settings(db, "tenant.big.1") == ("tenant.*", {"rate": 10, "ttl_ms": 1000})
    db.sql("select deferred.__queue_rm('tenant.*'), deferred.__queue_rm('*')")
    assert settings(db, "tenant.big.1") == settings(db, "default") == (None, {})
    with pytest.raises(psycopg2.Error, match="pattern 'tenant.*' does not exist"):
        db.sql("select deferred.__queue_rm('tenant.*')")


def test_a_changed_pattern_changes_its_queues_and_no_setting_of_their_own(db):
    for name in ("q.follows", "q.paused", "q.own", "other"):
        defer(db, name)
    set_queue(db, "q.own", max_running=1)
    set_queue(db, "q.*", rate=5, burst=2)
    set_queue(db, "q.paused", paused=True, metadata={"a": 1}, on_dead="g")
    set_queue(db, "q.*", rate=6, burst=None, ttl_ms=1000)
    now = ("q.*", {"rate": 6, "ttl_ms": 1000})
    assert settings(db, "q.follows") == settings(db, "q.paused") == now
    assert settings(db, "q.own") == (None, {"max_running": 1}) and settings(db, "other") == (None, {})
    assert db.one("select paused from deferred.__deferred_queue where name = 'q.paused'") is True
    set_queue(db, "q.follows", max_running=2)
    set_queue(db, "q.*", rate=7)
    assert settings(db, "q.follows") == (None, {"rate": 6, "ttl_ms": 1000, "max_running": 2})
    set_queue(db, "q.follows", max_running=None, rate=None, ttl_ms=None)
    assert settings(db, "q.follows") == ("q.*", {"rate": 7, "ttl_ms": 1000})


@pytest.mark.parametrize("way", ["rm", "http"])
def test_a_queue_that_comes_back_takes_the_settings_again(db, way):
    set_queue(db, "a.*", rate=5)
    defer(db, "a.q")
    if way == "rm":
        set_queue(db, "a.q", rate=9)
        db.sql("select deferred.__queue_rm('a.q')")
    else:
        db.sql("select deferred.__message_queue_rm('a.q', 100)")
    set_queue(db, "a.*", rate=6)
    assert settings(db, "a.q")[1] != {"rate": 6}
    defer(db, "a.q")
    assert settings(db, "a.q") == ("a.*", {"rate": 6})


@pytest.mark.parametrize(
    "pattern, given, says",
    [
        ("a*b*", {}, "pattern 'a\\*b\\*' is invalid"),
        ("-*", {}, "pattern '-\\*' is invalid"),
        ("x" * 88 + "*", {}, "is invalid"),
        ("q*", {"rate": 0}, "pattern 'q\\*': setting 'rate' is out of range"),
        ("q*", {"burst": 2}, "'q\\*' has a burst of 2 but no rate"),
        ("q*", {"on_full": "wait"}, "pattern 'q\\*': setting 'on_full' has the invalid value 'wait'"),
        *[
            ("q*", {k: 1}, f"setting '{k}' of pattern 'q\\*' is unknown")
            for k in ("paused", "fn", "metadata", "on_dead")
        ],
    ],
)
def test_what_a_pattern_cannot_give_is_refused(db, pattern, given, says):
    with pytest.raises(psycopg2.Error, match=says):
        set_queue(db, pattern, **given)
    assert db.one("select count(*) from deferred.__deferred_pattern") == 0


def test_a_queue_that_is_added_while_a_pattern_is_set_takes_it_at_the_next_housekeeping(db):
    adding = db.connect()
    with adding.cursor() as cursor:
        cursor.execute("select deferred.defer('f', queue => 'q.1')")
        set_queue(db, "q.*", rate=5)
    adding.commit()
    adding.close()
    assert settings(db, "q.1") == (None, {})
    set_queue(db, "q.own", add=True, rate=1)
    db.sql("update deferred.__deferred_upkeep set repaired_at = now() - interval '1 hour'")
    db.sql("select deferred.maintain()")
    assert settings(db, "q.1") == ("q.*", {"rate": 5})
    assert settings(db, "q.own") == (None, {"rate": 1})


def test_many_who_add_the_same_queues_take_the_same_settings(db):
    set_queue(db, "q*", max_running=3)
    errors = []

    def add():
        connection = db.connect()
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                for i in range(30):
                    cursor.execute("select deferred.defer('f', queue => %s)", (f"q{i}",))
        except psycopg2.Error as e:
            errors.append(e)
        connection.close()

    threads = [threading.Thread(target=add) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
    assert db.sql("select count(*) from deferred.__deferred_queue where (pattern, max_running) = ('q*', 3)") == [(30,)]
    assert db.one("select count(*) from deferred.__deferred_hot where limited") == 120


def test_a_locked_queue_is_named(db):
    defer(db, "q.1")
    holder = db.connect()
    with holder.cursor() as cursor:
        cursor.execute("select from deferred.__deferred_queue where name = 'q.1' for update")
        with pytest.raises(psycopg2.Error, match="a queue that matches pattern 'q\\*' is locked"):
            db.sql("set lock_timeout = '50ms'; select deferred.__queue_set('q*', '{\"rate\": 1}')")
    holder.close()
    db.sql("reset lock_timeout")


def test_an_empty_pattern_exempts_queues(db):
    set_queue(db, "*", rate=1)
    set_queue(db, "free.*", rate=None)
    defer(db, "free.q")
    assert settings(db, "free.q") == ("free.*", {})
