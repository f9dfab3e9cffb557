"""Functions with a connection of their own that mean harm to the jobs of others: those that were
claimed with theirs."""

import hashlib
import os
import struct

import pytest

from harness import ledger

JOBS = 20


def token(receipt, job):
    """What a function is told of its claim, computed a third time: SQL and C have their own."""
    return struct.unpack(">q", hashlib.sha256(struct.pack(">qq", receipt, job)).digest()[:8])[0]


@pytest.fixture
def producer(db):
    name = f"producer_{os.getpid()}"
    db.sql(f"drop role if exists {name}")
    db.sql(f"create role {name} login in role deferred_producer")
    db.plugins("neighbour")
    db.config(f'settings "neighbour" {{ conninfo = "{db.conninfo} user={name}" }}\n')
    yield name
    db.sql(f"drop role {name}")


@pytest.mark.slow
@pytest.mark.parametrize("fn", ["greedy", "greedy_apart"])
def test_a_function_acts_on_its_own_job_alone(db, producer, fn):
    # The function's own role deferred all of them, so only the receipt stands between it and the others.
    jobs = [db.one(f"set local role {producer}; select deferred.defer('{fn}')") for _ in range(JOBS)]
    done = db.run(["check_deferred", "--cnt", "0", "--runners", "4"])  # so many are claimed at once at least
    assert done.returncode == 0, done.stderr
    assert (
        db.one("select count(distinct receipt) from deferred.__deferred_log where job_id = any(%s)", jobs) < JOBS
    ), "some were claimed together"
    assert db.sql(
        "select job_id, outcome, result from deferred.__deferred_log where job_id = any(%s) order by 1", jobs
    ) == [(j, "ok", "took 0") for j in jobs]
    ledger(db)


def test_a_command_is_told_what_is_good_for_its_job_alone(db):
    db.plugins()
    db.config('function "tell" { command = {"/bin/sh", "-c", "env"} }\n')
    jobs = [db.defer("tell") for _ in range(3)]
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    rows = db.sql(
        "select job_id, receipt, result, deferred.__token(job_id, receipt, worker) from deferred.__deferred_log "
        "order by 1"
    )
    assert [r[0] for r in rows] == jobs
    for job, receipt, result, told in rows:
        assert told == token(receipt, job)
        assert f"DEFERRED_JOB_RECEIPT={told}" in result.split("\n")
        assert str(receipt) not in result


def test_tokens_of_all_kinds_of_numbers_are_those_of_sql(db):
    numbers = [0, 1, -1, 255, 256, 2**31, -(2**31), 2**63 - 1, -(2**63), 4711, -4711]
    for receipt in numbers:
        for job in numbers:
            assert db.one("select deferred.__token(%s, %s, 1)", job, receipt) == token(receipt, job)
    assert (
        db.one("select deferred.__token(5, 4711, null)") == 4711
    ), "of a message that a consumer holds the receipt itself"


@pytest.mark.parametrize("role", ["deferred_producer", "deferred_viewer", "deferred_http"])
def test_nobody_but_a_worker_reads_receipts(db, role):
    """Views included: none has the column."""
    columns = db.sql(
        """select attrelid::regclass::text, attname from pg_attribute join pg_class c on c.oid = attrelid
                        where relnamespace = 'deferred'::regnamespace and c.relkind in ('r', 'p', 'v', 'm')
                        and attname in ('receipt', 'put_receipt')"""
    )
    assert len(columns) >= 5, "hot, log and its partitions"
    for table, column in columns:
        assert db.one("select has_column_privilege(%s, %s, %s, 'select')", role, table, column) is False, (
            table,
            column,
        )
    assert (
        db.one("select has_function_privilege(%s, 'deferred.__token(bigint, bigint, bigint)', 'execute')", role)
        is False
    )
