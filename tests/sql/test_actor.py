"""Who acts, where the server runs somebody's code for somebody else."""

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


@pytest.mark.parametrize("maintain", ["analyze {o}.t", "vacuum analyze {o}.t", "reindex table {o}.t", "refresh materialized view {o}.v"])
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
