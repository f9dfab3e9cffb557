"""Keys are their creators': two roles that choose the same one never meet, in whatever way jobs are deferred."""

import concurrent.futures
import json
import os

import psycopg2
import pytest
from psycopg2 import errors as pgerror

from harness import ledger, wait_for
from test_claim import MINUTE, Claimed, ids, many, worker  # noqa: F401


@pytest.fixture
def roles(db):
    """Two producers' names."""
    names = [f"{who}_{os.getpid()}" for who in ("ann", "bob")]
    for name in names:
        db.sql(f"drop role if exists {name}")
        db.sql(f"create role {name} login in role deferred_producer")
    yield names
    db.sql("reset role")
    for name in names:
        db.sql(f"drop role {name}")


def acting(db, role, query, *args):
    """The rows of a statement of this role's."""
    db.sql(f'set role "{role}"')
    try:
        return db.sql(query, *args)
    finally:
        db.sql("reset role")


def defer(db, role, fn="noop", **opts):
    return acting(db, role, "select deferred.defer(%s, '{}', %s::json)", fn, json.dumps(opts))[0][0]


def by_function(db, role):
    return defer(db, role, key="k")


def by_many(db, role):
    return acting(
        db, role, """select deferred.defer_many('[{"fn": "noop", "key": "k"}, {"fn": "noop", "key": "k"}]')"""
    )[1][0]


def by_shell(db, role):
    done = db.run(["deferred", "add", "noop", "{}", "--key", "k"], env={"DEFERRED_DB": f"{db.conninfo} user={role}"})
    assert done.returncode == 0, done
    return int(done.stdout)


def by_lines(db, role):
    done = db.run(
        ["deferred", "add", "--stdin"],
        input='{"fn": "noop", "key": "k"}\n',
        env={"DEFERRED_DB": f"{db.conninfo} user={role}"},
    )
    assert done.returncode == 0, done
    return acting(db, role, "select deferred.defer('noop', '{}', '{\"key\": \"k\"}')")[0][0]


def by_rule(db, role):
    name = f"r_{role}"
    if not db.sql("select 1 from deferred.__deferred_rule where name = %s", name):
        acting(
            db,
            role,
            "select deferred.__rule_add(%s, 'select ''k'' as k', 'noop', '{}', 'k', null, null, '{}', 60000, '')",
            name,
        )
    done = db.run(["deferred", "rule", "run", name])
    assert done.returncode == 0, done
    return acting(db, role, "select deferred.defer('noop', '{}', '{\"key\": \"k\"}')")[0][0]


WAYS = [by_function, by_many, by_shell, by_lines, by_rule]


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
@pytest.mark.parametrize("before", WAYS, ids=lambda w: w.__name__)
def test_a_key_of_somebody_else_swallows_no_job(db, roles, before, way):
    ann, bob = roles
    theirs = before(db, bob)
    mine = way(db, ann)
    assert mine != theirs
    assert db.sql("select id, created_by, key from deferred.job order by created_by") == [
        (mine, ann, "k"),
        (theirs, bob, "k"),
    ]
    assert (way(db, ann), way(db, bob)) == (mine, theirs), "of one's own it does"
    assert db.hot() == 2
    ledger(db)
    db.sql("delete from deferred.__deferred_rule")


def test_neither_error_nor_replace_meets_the_job_of_another_role(db, roles):
    ann, bob = roles
    theirs = defer(db, bob, key="k")
    mine = defer(db, ann, key="k", on_duplicate="error")
    with pytest.raises(pgerror.UniqueViolation, match=f"job {mine} of queue 'default' has key 'k' already"):
        defer(db, ann, key="k", on_duplicate="error")
    again = defer(db, ann, key="k", on_duplicate="replace")
    assert db.sql("select id from deferred.__deferred_hot order by id") == [(theirs,), (again,)]
    assert db.one("select error from deferred.__deferred_log") == f"replaced by job {again}"
    ledger(db)


def test_a_full_queue_takes_no_job_for_a_key_of_somebody_else(db, roles):
    ann, bob = roles
    db.sql("select deferred.__queue_set('q', '{\"max_length\": 1}', true)")
    theirs = defer(db, bob, key="k", queue="q")
    assert defer(db, bob, key="k", queue="q") == theirs
    with pytest.raises(psycopg2.Error, match="queue 'q' is full"):
        defer(db, ann, key="k", queue="q")


def test_a_dead_job_comes_back_beside_a_key_of_somebody_else(db, roles):
    ann, bob = roles
    mine = defer(db, ann, fn="fail", key="k", max_attempts=1, concurrency_key="c")
    assert db.run(["check_deferred"]).returncode == 0
    theirs = defer(db, bob, key="k")
    assert db.one("select deferred.retry(%s)", mine) is True
    assert db.sql("select id from deferred.__deferred_hot order by id") == [(mine,), (theirs,)]
    with pytest.raises(pgerror.UniqueViolation, match="already"):
        defer(db, ann, key="k", on_duplicate="error")
    ledger(db)


def test_a_role_is_the_one_taken_by_set_role(db, roles):
    """So the logins of one application that are to share keys take one role."""
    ann, bob = roles
    db.sql(f"grant {bob} to {ann}")
    conn = db.connect(user=ann)
    conn.autocommit = True
    with conn.cursor() as cursor:
        cursor.execute(f"set role {bob}")
        cursor.execute("select deferred.defer('noop', '{}', '{\"key\": \"k\"}')")
        assert cursor.fetchone()[0] == defer(db, bob, key="k")
    conn.close()


def test_names_that_look_like_the_beginning_of_a_key_do_not_collide(db, roles):
    odd = [f'o"dd:{os.getpid()}', f'o"dd:{os.getpid()}:x']
    for name in odd:
        quoted = name.replace('"', '""')
        db.sql(f'drop role if exists "{quoted}"')
        db.sql(f'create role "{quoted}" in role deferred_producer')
    jobs = [defer(db, odd[0].replace('"', '""'), key="x:k"), defer(db, odd[1].replace('"', '""'), key="k")]
    assert jobs[0] != jobs[1] and db.hot() == 2
    ledger(db)
    for name in odd:
        quoted = name.replace('"', '""')
        db.sql(f'drop role "{quoted}"')


def test_the_longest_key_of_the_longest_names_fits_the_index(db, roles):
    role = "r" * 40 + f"{os.getpid():023d}"
    db.sql(f"drop role if exists {role}")
    db.sql(f"create role {role} in role deferred_producer")
    key = db.one(
        """select substr(string_agg(md5(i::text), ''), 1, 250) || (select string_agg(chr(19968 + (i * 7919) %
            20000), '')
                    from generate_series(1, 750) i) from generate_series(1, 10) i"""
    )
    assert (len(role), len(key), len(key.encode())) == (63, 1000, 2500)
    job = defer(db, role, key=key, queue="q" * 88)
    assert defer(db, role, key=key, queue="q" * 88) == job
    db.sql("delete from deferred.__deferred_hot")
    db.sql(f"drop role {role}")


# ---- concurrency keys


@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_a_concurrency_key_of_somebody_else_holds_up_no_job(db, roles, many):
    ann, bob = roles
    # It keeps its place for an hour.
    theirs = defer(db, bob, fn="fail", concurrency_key="cust-7", backoff_floor="1h")
    assert db.run(["check_deferred"]).returncode == 0
    opts = json.dumps([{"fn": "noop", "concurrency_key": "cust-7"}])
    mine = (
        acting(db, ann, "select deferred.defer_many(%s)", opts)[0][0]
        if many
        else defer(db, ann, concurrency_key="cust-7")
    )
    their_next = (
        acting(db, bob, "select deferred.defer_many(%s)", opts)[0][0]
        if many
        else defer(db, bob, concurrency_key="cust-7")
    )
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert db.log(mine) == [(1, "ok")] and db.log(their_next) == []
    assert db.sql("select id from deferred.__deferred_hot order by id") == [(theirs,), (their_next,)]
    assert db.sql("select distinct concurrency_key from deferred.job") == [
        ("cust-7",)
    ], "people see the key as it was given"
    ledger(db)


# ---- on_duplicate: replace, and expiry, while the job is claimed


def replace(db, **opts):
    return db.defer("f", key="k", on_duplicate="replace", **opts)


def take_limited(w):
    rows = w.ask("job_claim_limited", None, 5, 5, w.id, MINUTE, 3, None, 1, 1 << 24, 5, None, 1)
    w.commit()
    return [Claimed(r) for r in rows if r[0]]


@pytest.mark.parametrize("how", ["free", "limited"])
def test_a_claimed_job_is_not_replaced(db, worker, how):  # noqa: F811
    if how == "limited":
        db.sql("insert into deferred.__deferred_function (name, max_running) values ('f', 5)")
    w, first = worker(), db.defer("f", key="k")
    (job,) = w.take() if how == "free" else take_limited(w)
    assert job.id == first
    with pytest.raises(psycopg2.Error, match="is running and cannot be replaced") as e:
        replace(db)
    assert e.value.pgcode == "55006"
    assert db.defer("f", key="k") == first
    assert w.retry(job) == {first}
    w.commit()
    assert replace(db) > first
    assert db.one("select state from deferred.job where id = %s", first) == "cancelled"


def test_a_message_is_replaced_unless_a_consumer_holds_it(db, worker):  # noqa: F811
    first = db.one("""select deferred.defer(null, '{}', '{"queue": "m", "key": "k"}')""")
    again = """select deferred.defer(null, '{}', '{"queue": "m", "key": "k", "on_duplicate": "replace"}')"""
    receipt = db.one("select receipt from deferred.claim('m')")
    with pytest.raises(psycopg2.Error, match="is running and cannot be replaced"):
        db.sql(again)
    db.sql("select deferred.release(%s, %s)", first, receipt)
    assert db.one(again) > first


def test_an_expired_job_that_runs_keeps_its_key(db, worker):  # noqa: F811
    w, first = worker(), db.defer("f", key="k", expires="1h")
    (job,) = w.take()
    db.sql("update deferred.__deferred_hot set expires_at = clock_timestamp() - interval '1 s'")
    assert db.defer("f", key="k") == first
    with pytest.raises(psycopg2.Error, match="has key 'k' already"):
        db.defer("f", key="k", on_duplicate="error")
    with pytest.raises(psycopg2.Error, match="is running and cannot be replaced"):
        replace(db)
    assert w.finish(job) == {first}
    w.commit()


@pytest.mark.parametrize("first_of_lane", [True, False])
@pytest.mark.parametrize("expired", [True, False])
def test_a_replacement_waits_for_a_claim_under_way(db, worker, first_of_lane, expired):  # noqa: F811
    """The claim has read the job, and its lease is not visible yet."""
    w = worker()
    if not first_of_lane:
        db.defer("f")
        w.finish(*w.take())
        w.commit()
    first = db.defer("f", key="k", **({"expires": "1h"} if expired else {}))
    assert ids(w.claim()) == [first]
    if expired:
        db.sql("update deferred.__deferred_hot set expires_at = clock_timestamp() - interval '1 s'")
    c = db.connect()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(
            c.cursor().execute, """select deferred.defer('f', '{}', '{"key": "k", "on_duplicate": "replace"}')"""
        )
        wait_for(
            lambda: waiting.done()
            or db.one(
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            )
            == 1
        )
        w.commit()
        with pytest.raises(psycopg2.Error, match="is running and cannot be replaced"):
            waiting.result()
    c.close()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
@pytest.mark.parametrize("first_of_lane", [True, False])
def test_a_replacement_with_an_old_snapshot_replaces_no_job_that_runs(db, worker, level, first_of_lane):  # noqa: F811
    w = worker()
    if not first_of_lane:
        db.defer("f")
        w.finish(*w.take())
        w.commit()
    first = db.defer("f", key="k")
    c = db.connect()
    cursor = c.cursor()
    cursor.execute(f"set transaction isolation level {level}")
    cursor.execute("select 1")
    assert ids(w.take()) == [first]
    with pytest.raises(psycopg2.errors.SerializationFailure):
        cursor.execute("""select deferred.defer('f', '{}', '{"key": "k", "on_duplicate": "replace"}')""")
    c.close()


@pytest.mark.parametrize("known", [None, ["f"]])
def test_an_open_replacement_holds_up_no_claim(db, worker, known):  # noqa: F811
    """Neither of its lane, nor one that finds that the worker has not the function of the job."""
    w, c = worker(), db.connect()
    first, unknown = db.defer("f", key="k"), db.defer("g", key="k2")
    cursor = c.cursor()
    for fn, key in (("f", "k"), ("g", "k2")):
        cursor.execute(
            "select deferred.defer(%s, '{}', json_build_object('key', %s::text, 'on_duplicate', 'replace'))", (fn, key)
        )
    others = many(db, 3)
    assert sorted(ids(w.take(known=known))) == others
    c.rollback()
    c.close()
    assert sorted(ids(w.take(known=known))) == ([first, unknown] if known is None else [first])


def test_a_claim_puts_nothing_apart_whose_row_is_locked(db):
    """The row was locked after the claim read it."""
    apart, expired = [db.defer("g"), db.defer("g")], [db.defer("f", expires="1h"), db.defer("f", expires="1h")]
    db.sql(
        "update deferred.__deferred_hot set expires_at = clock_timestamp() - interval '1 s' where id = any (%s)",
        expired,
    )
    c = db.connect()
    c.cursor().execute("select from deferred.__deferred_hot where id = any (%s) for update", ([apart[0], expired[0]],))
    db.sql("set lock_timeout = '50ms'")
    assert sorted(db.one("select deferred.__claim_aside('default', %s, %s)", apart, expired)) == [apart[0], expired[0]]
    assert db.sql("select id, limited from deferred.__deferred_hot order by id") == [
        (apart[0], False),
        (apart[1], True),
        (expired[0], False),
    ]
    c.close()
