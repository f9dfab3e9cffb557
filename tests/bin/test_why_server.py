"""What the server itself does to keep jobs waiting, as `deferred why` tells it: a standby, commits
that no standby confirms, connections, snapshots, locks of prepared transactions and of whole
tables. Each on a server of its own, by the command that is said to remedy it."""

import contextlib
import json
import os
import struct
import threading

import pytest

import harness
import pg
from harness import wait_for
from test_deferred import login


@pytest.fixture
def server():
    """With few connections, where transactions may be prepared, and whose clock can be set on."""
    path = os.path.join(harness.root(), f"clock{os.getpid()}-why")
    with open(path, "wb") as f:
        f.write(struct.pack("q", 0))
    server = harness.OwnServer(
        settings={"max_prepared_transactions": 5, "max_connections": 20},
        server_env={
            "LD_PRELOAD": os.path.join(harness.BUILD, "tests", "harness", "clock_shift.so"),
            "CLOCK_SHIFT": path,
        },
    )

    def set_clock(seconds):
        with open(path, "r+b") as f:
            f.write(struct.pack("q", seconds))

    server.set_clock = set_clock
    yield server
    server.close()


def why(db, *args, code=0, **env):
    done = db.run(["deferred", "--json", "why", *args], env=env)
    assert done.returncode == code and done.stderr == "", done
    return [(c["cause"], c["why"], c["figure"], c["do"]) for c in json.loads(done.stdout)]


def causes(db, *args, **env):
    return [c[0] for c in why(db, *args, **env)]


@pytest.mark.slow
def test_on_a_standby_no_job_can_be_claimed(server):
    db = server
    job = db.defer("noop")
    worker = db.one(
        "insert into deferred.__deferred_worker (instance, host, pid, version, watch)"
        " values ('h:/x#1.2@b', 'h', 1, '1', 7) returning id"
    )
    held = db.defer("noop")
    db.hold(held, worker=worker)
    assert why(db, str(held))[0][0] == "worker_vanished", "its session is gone"
    standby = db.cluster.standby(db.cluster.folder + "-second")
    try:
        there = {"DEFERRED_DB": standby.conninfo(db.name)}
        wait_for(
            lambda: db.run(["deferred", "why", str(job)], env=there).returncode == 0, what="the job is on the standby"
        )
        assert why(db, str(held), **there)[0][0] == "running", "sessions of the primary are not seen there"
        db.sql("delete from deferred.__deferred_lease")
        first = why(db, **there)[0]
        assert first == (
            "database",
            "the database takes no writes, so no job can be claimed",
            "it is a standby, or default_transaction_read_only is on",
            "connect to the primary: target_session_attrs=read-write; deferred doctor",
        )
        both = (
            f"host={db.cluster.folder},{standby.folder} port={pg.PORT},{pg.PORT} user={pg.USER} dbname={db.name} "
            f"target_session_attrs=read-write"
        )
        assert "database" not in causes(db, DEFERRED_DB=both)
        assert db.run(["check_deferred"], env={"DEFERRED_DB": both}).returncode == 0 and db.log(job) == [(1, "ok")]
    finally:
        standby.remove()


@pytest.mark.slow
def test_commits_that_no_standby_confirms(server):
    db = server
    db.defer("noop")
    db.sql("alter system set synchronous_standby_names = 'nobody'")
    db.sql("select pg_reload_conf()")
    wait_for(lambda: db.one("show synchronous_standby_names") == "nobody")
    assert "database" not in causes(db)  # nobody commits anything
    waiter = db.connect()
    waiter.autocommit = True
    thread = threading.Thread(target=lambda: waiter.cursor().execute("select deferred.defer('noop')"))
    thread.start()
    wait_for(
        lambda: db.one("select count(*) from pg_stat_activity where wait_event = 'SyncRep'") == 1,
        what="a commit that waits",
    )
    db.set_clock(60)
    cause, sentence, figure, remedy = why(db)[0]
    assert (cause, sentence) == (
        "database",
        "commits wait for a synchronous standby, and none of 'nobody' confirms them: nothing is recorded as done",
    )
    assert figure.startswith("1 session waits, the first for ") and remedy.startswith(
        "start the standby, or let the primary go on alone: "
    )
    for statement in remedy.split(": ", 1)[1].split("; "):
        db.sql(statement)
    thread.join(30)
    waiter.close()
    assert not thread.is_alive() and "database" not in causes(db)


@pytest.mark.slow
def test_connections_that_are_used_up_and_a_snapshot_that_is_held(server):
    db = server
    db.defer("noop")
    assert "database" not in causes(db)
    many = [db.connect() for _ in range(17)]  # beside that of this test, and the one that asks
    told = {c[1]: c[2:] for c in why(db, "--all") if c[0] == "database"}
    assert told == {
        "the server has hardly a connection left, so workers may not connect": (
            "19 of 20 connections are taken",
            "end some, or raise max_connections; deferred doctor",
        )
    }
    many.pop().close()
    wait_for(lambda: db.one("select count(*) from pg_stat_activity where backend_type = 'client backend'") == 17)
    assert "database" not in causes(db)
    for connection in many:
        connection.close()
    holder = db.connect(application_name="report")
    holder.cursor().execute("select pg_current_xact_id()")
    pid = holder.get_backend_pid()
    assert "database" not in causes(db)
    db.set_clock(400)
    cause, sentence, figure, remedy = [c for c in why(db, "--all") if c[0] == "database"][0]
    assert (
        sentence == "an open transaction prevents the removal of dead rows, so finding jobs gets slower"
        and figure.startswith(f"session {pid} of ")
        and "idle in transaction" in figure
    )
    assert remedy == f"select pg_terminate_backend({pid})"
    db.sql(remedy)
    wait_for(lambda: "database" not in causes(db, "--all"), what="nothing is held any more")
    holder.close()


@pytest.mark.slow
def test_a_row_that_a_prepared_transaction_has_locked(server):
    db = server
    db.defer("noop")
    assert db.run(["check_deferred"]).returncode == 0
    job = db.defer("noop")
    prepared = db.connect()
    prepared.cursor().execute("select from deferred.__deferred_hot for update; prepare transaction 'half'")
    prepared.close()
    assert why(db, str(job))[0] == (
        "locked",
        "an open transaction has locked the row of the job",
        "a prepared transaction: table pg_prepared_xacts",
        "commit prepared, or rollback prepared",
    )
    db.sql("rollback prepared 'half'")
    assert causes(db, str(job))[0] == "next_start"


def locked(db, table, holder):
    """Asked of a job and of all, and what both say."""
    job, backlog = why(db, "1"), why(db)
    assert (
        len(job) == 1
        and job[0][:2] == backlog[0][:2]
        and job[0][3] == backlog[0][3] == f"commit there, or: select pg_terminate_backend({holder.get_backend_pid()})"
    )
    assert (
        job[0][0] == "locked"
        and f"table deferred.{table}" in job[0][1]
        and job[0][2].startswith(f"session {holder.get_backend_pid()} of ")
    )
    return job[0][1]


def test_a_table_that_is_locked_as_a_whole(db):
    """As by an administrator's alter table or vacuum full, or by one that waits for a report to end."""
    assert db.defer("noop") == 1
    _, env = login(db, "deferred_viewer")
    for table in ("__deferred_hot", "__deferred_queue", "__deferred_lease"):
        with contextlib.closing(db.connect(application_name="alter")) as holder:
            holder.cursor().execute(f"lock table deferred.{table} in access exclusive mode")
            assert locked(db, table, holder) == f"an open transaction has locked all of table deferred.{table}"
            assert why(db, "1", **env)[0][0] == "locked"
    report, waiter = db.connect(application_name="report"), db.connect(application_name="alter")
    report.cursor().execute("select from deferred.__deferred_hot")
    pid = waiter.get_backend_pid()
    thread = threading.Thread(target=waits, args=[waiter], daemon=True)
    thread.start()
    wait_for(
        lambda: db.one("select count(*) from pg_locks where pid = %s and not granted", pid) == 1,
        what="somebody who waits",
    )
    assert (
        locked(db, "__deferred_hot", report)
        == "an open transaction delays another one that locks all of table deferred.__deferred_hot, and all sessions "
        "that need the table wait"
    )
    db.sql(why(db)[0][3].split(": ")[1])
    thread.join(30)
    waiter.close()
    report.close()
    assert causes(db, "1")[0] != "locked"


def waits(connection):
    connection.cursor().execute("lock table deferred.__deferred_hot in access exclusive mode")
    connection.rollback()
