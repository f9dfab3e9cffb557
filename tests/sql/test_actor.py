"""Who acts, where the server runs somebody's code for somebody else."""

import json
import os

import pytest

from harness import ledger

# Calls what it is told to, and goes on if that is refused.
TRY = """
create function {o}.try(i integer) returns integer language plpgsql immutable as $$
begin
    begin
        perform deferred.cancel(i);
    exception when others then
    end;
    begin
        perform deferred.defer('noop', '{{"by": "{o}"}}');
    exception when others then
    end;
    return i;
end $$;
"""


@pytest.fixture
def stranger(db):
    """A producer with a schema of his own; its name is that of the role."""
    name = f"stranger_{os.getpid()}"
    db.sql(f"drop role if exists {name}")
    db.sql(f"create role {name} login in role deferred_producer")
    db.sql(f"create schema {name} authorization {name}")
    db.sql(f"set role {name}")
    db.sql(TRY.format(o=name))
    db.sql("reset role")
    yield name
    db.sql(f"drop owned by {name}; drop role {name}")


@pytest.mark.parametrize(
    "maintain", ["analyze {o}.t", "vacuum analyze {o}.t", "reindex table {o}.t", "refresh materialized view {o}.v"]
)
def test_who_maintains_a_table_is_not_taken_for_its_owner(db, stranger, maintain):
    job = db.defer("noop")
    db.sql(f"set role {stranger}")
    db.sql(f"create table {stranger}.t as select {job} as i")
    db.sql(f"create index on {stranger}.t ({stranger}.try(i))")
    db.sql(f"create materialized view {stranger}.v as select {stranger}.try({job}) with no data")
    db.sql("reset role")
    db.sql(maintain.format(o=stranger))
    assert db.sql("select id from deferred.__deferred_hot where id = %s", job) == [(job,)]
    assert db.sql("select distinct created_by from deferred.__deferred where id <> %s", job) in ([], [(stranger,)])
    ledger(db)


@pytest.fixture
def operator(db):
    """An operator who may have the function `may` run, in any queue, and `here` in the queue default alone."""
    name = f"operator_{os.getpid()}"
    db.sql(f"drop role if exists {name}")
    db.sql(f"create role {name} login in role deferred_operator, deferred_producer")
    db.sql(
        "insert into deferred.__deferred_grant (role, queue, fn) values (%s, null, 'may'), (%s, 'default', 'here')",
        name,
        name,
    )
    db.sql("select deferred.__queue_add('default', session_user); select deferred.__queue_add('other', session_user)")
    yield name
    db.sql("reset role")
    db.sql(f"drop owned by {name}; drop role {name}")


def of_jobs(db, fn):
    """Jobs of the function that each way of having it run again finds: dead, dead, delayed, waiting, of a flow."""
    db.sql("select deferred.schedule('nightly', '0 3 * * *', %s, '{}')", fn)
    db.sql("select deferred.schedule_pause('nightly')")
    jobs = [db.defer(fn, max_attempts=1) for _ in range(2)]
    flow = db.one("select deferred.defer_flow(%s)", json.dumps({"jobs": [{"fn": fn}]}))
    db.sql(
        "with h as (delete from deferred.__deferred_hot returning id) insert into deferred.__deferred_log (job_id, "
        "attempt, outcome, final, error) "
        "select id, 1, 'failed', true, 'x' from h"
    )
    delayed = db.defer(fn, delay="1h")
    return *jobs, delayed, flow


@pytest.mark.parametrize("fn", ["may", "may_not"])
def test_whatever_an_operator_has_run_he_must_be_allowed_to_defer(db, operator, fn):
    one, some, delayed, flow = of_jobs(db, fn)
    acts = {
        "defer": ("select refused from deferred.__act_defer(%s, '{}', '{}', 'o', null)", fn),
        "schedule": ("select deferred.__act_schedule_set('new', '', '@daily', %s, '{}', '{}', 'o', null)", fn),
        "retry": ("select deferred.__act('retry', %s, null, 'o', null)", one),
        "run": ("select deferred.__act('run', %s, null, 'o', null)", delayed),
        "retry many": (
            "select why from deferred.__act_some('retry', 'dead', json_build_object('fn', %s), null, false, 'o', null)",
            fn,
        ),
        "flow retry": ("select refused from deferred.__act_flow('retry', %s, null, 'o', null)", flow),
        "schedule run": ("select deferred.__act('run', null, null, 'o', null, null, 'nightly')",),
        "schedule resume": ("select deferred.__act('resume', null, null, 'o', null, null, 'nightly')",),
        "on_dead of a queue": (
            "select deferred.__act('set', null, 'default', 'o', null, null, null, json_build_object('on_dead', %s))",
            fn,
        ),
        "on_dead of a function": (
            "select deferred.__act('set', null, null, 'o', null, 'may', null, json_build_object('on_dead', %s))",
            fn,
        ),
    }
    db.sql(f"set session authorization {operator}")
    said = {name: db.one(*act) for name, act in acts.items()}
    db.sql("reset session authorization")
    assert [name for name, why in said.items() if ("may not defer" in (why or "")) != (fn == "may_not")] == [], said


def test_what_dies_in_any_queue_needs_a_grant_for_all(db, operator):
    db.sql("delete from deferred.__deferred_grant where queue is null")
    db.sql(f"set session authorization {operator}")

    def dead(**of):
        return db.one(
            "select deferred.__act('set', null, %s, 'o', null, %s, null, '{\"on_dead\": \"here\"}')",
            of.get("queue"),
            of.get("fn"),
        )

    assert (
        dead(queue="default") is None
        and "to queue 'other'" in dead(queue="other")
        and "to every queue" in dead(fn="may")
    )
    db.sql("reset session authorization")
    assert db.sql("select kind, name from deferred.__deferred_on_dead") == [("queue", "default")]


def test_only_a_login_of_deferred_http_can_act_as_a_token(db, stranger):
    """The attack: a producer makes the setting by which deferred_http says who acts."""
    job = db.defer("noop")
    forger = db.connect(user=stranger)
    forger.autocommit = True
    with forger.cursor() as c:
        c.execute("set deferred.token = 'token:ci'; set deferred.token_reach = 'all'")
        c.execute("select deferred.__actor(), deferred.__acting_token(), deferred.cancel(%s)", [job])
        assert c.fetchall() == [(stranger, None, False)]
        c.execute("""select deferred.defer('noop', '{}', '{"priority": 1}')""")
    forger.close()
    assert db.sql("select created_by from deferred.__deferred where id <> %s", job) == [(stranger,)]
    db.sql("set deferred.token = 'token:ci'; set role deferred_producer")
    assert db.one("select deferred.__actor()") == "token:ci", "a superuser is a member of every role"
    db.sql("reset role; reset deferred.token")
    assert db.one("select deferred.__actor() = session_user")
