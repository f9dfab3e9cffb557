"""The service (check_deferred --loop) and its server: restarts, failover, killed processes."""

import contextlib
import json
import os
import re
import signal
import socket
import threading
import time

import psycopg2
import pytest

import pg
from harness import ledger, wait_for

SETTINGS = 'interval_floor = "50ms"\ninterval_ceiling = "200ms"\nbackoff_floor = "1ms"\nbackoff_ceiling = "1ms"\n'


def service(db, *args, **kw):
    before = db.one("select coalesce(max(id), 0) from deferred.__deferred_worker")
    started = db.spawn(["check_deferred", "--loop", *args], **kw)
    looked = "select 1 from deferred.__deferred_worker where id > %s and seen_at > started_at + interval '100 us'"
    wait_for(lambda: not started.alive() or db.sql(looked, before), 20, "it looks for work")
    assert started.alive(), started.output()
    return started


def stop(started, code=0):
    started.signal(signal.SIGTERM)
    assert started.wait(30) == code, started.output()


def drained(db, timeout=60):
    wait_for(lambda: db.hot() == 0, timeout, "nothing is hot")


@pytest.mark.slow
def test_an_idle_service_survives_restarts_of_the_server(own_server):
    db = own_server
    db.config(SETTINGS)
    run = service(db)
    pid = run.pid
    for mode in "fast", "immediate", None:
        if mode:
            db.stop(mode)
        else:
            db.kill()
        wait_for(
            lambda: not run.alive()
            or run.output().count("warning: connection lost: ") > run.output().count("connected again"),
            20,
            "it has noticed",
        )
        time.sleep(0.5)
        assert run.alive(), run.output()
        assert (
            run.output().count("warning: connection lost: ") == run.output().count("connected again") + 1
        ), run.output()
        db.start()
        job = db.defer("noop")
        wait_for(lambda: db.log(job) == [(1, "ok")], 20)
    stop(run)
    assert run.pid == pid and run.output().count("connected again") == 3, run.output()
    ledger(db)


@pytest.mark.slow
def test_a_server_away_for_longer_than_the_limit_of_a_run_is_waited_for_and_not_hammered(own_server):
    db = own_server
    db.config(SETTINGS + 'reconnect = "500ms"\n')
    run = service(db)
    db.stop()
    before = pg.cpu_ns(run.pid)
    time.sleep(3)
    assert run.alive()
    assert (pg.cpu_ns(run.pid) - before) / 3e9 < 0.05
    db.start()
    job = db.defer("noop")
    wait_for(lambda: db.log(job) == [(1, "ok")], 20)
    stop(run)
    ledger(db)


@pytest.mark.long
def test_a_server_that_stays_away_is_told_of_at_once_and_once_a_minute(own_server):
    db = own_server
    db.config(SETTINGS)
    run = service(db)
    db.stop()
    time.sleep(130)
    assert run.output().count("connection lost: ") == 1, run.output()
    told = re.findall(r"no connection for (\d+) s: ", run.output())
    assert told[0] in "23" and told[1:] in (["60", "120"], ["60", "121"], ["61", "120"], ["61", "121"])
    db.start()
    wait_for(lambda: "connected again" in run.output())
    stop(run)


@pytest.mark.slow
def test_it_can_be_stopped_while_the_server_is_away(own_server):
    db = own_server
    db.config(SETTINGS)
    run = service(db)
    db.stop()
    wait_for(lambda: not os.path.exists(os.path.join(db.cluster.data, "postmaster.pid")), 20)
    began = time.monotonic()
    stop(run)
    assert time.monotonic() - began < 5
    db.start()
    job = db.defer("noop")
    again = service(db)
    wait_for(lambda: db.log(job) == [(1, "ok")], 20)
    stop(again)
    ledger(db)


@pytest.mark.slow
def test_a_busy_service_loses_nothing_when_its_server_is_stopped_and_killed(own_server, recorded_on, rng):
    db, recorded = own_server, recorded_on(own_server)
    db.config(SETTINGS)
    ids = recorded.defer(300, ms=5)
    run = service(db, "--runners", "2", "--batch", "20")
    for _ in range(4):
        seen = len(recorded.lines())
        wait_for(lambda: len(recorded.lines()) >= seen + rng.randrange(5, 40) or db.hot() == 0, 60)
        if rng.random() < 0.5:
            db.stop("immediate")
        else:
            db.kill()
        db.start()
    drained(db, 40)  # claims whose answer was lost are given back at the reconnection, not after the lease of 60 s
    assert run.alive()
    stop(run)
    recorded.assert_all_ok(ids, lost=True)


def defer_until_it_fails(recorded, connection):
    """A thread that defers one job a transaction. Returns the ids whose commit was answered, and the thread."""
    connection.autocommit = True
    acknowledged, params = [], json.dumps({"file": recorded.file, "ms": 0})

    def work():
        with contextlib.suppress(psycopg2.Error), connection.cursor() as cursor:
            while True:
                cursor.execute("select deferred.defer('record', %s)", (params,))
                acknowledged.append(cursor.fetchone()[0])

    thread = threading.Thread(target=work)
    thread.start()
    return acknowledged, thread


@pytest.mark.slow
def test_a_promoted_standby_is_found_and_nothing_acknowledged_is_missing(own_server, recorded_on):
    db, recorded = own_server, recorded_on(own_server)
    db.config(SETTINGS)
    first = db.cluster
    standby = first.standby(first.folder + "-second")
    try:
        db.sql("alter system set synchronous_standby_names = 'second'")
        db.sql("select pg_reload_conf()")
        wait_for(
            lambda: db.one("select count(*) from pg_stat_replication where sync_state = 'sync'"),
            20,
            "the standby is synchronous",
        )
        both = f"host={first.folder},{standby.folder} port={pg.PORT},{pg.PORT} user={pg.USER} dbname={db.name}"
        both += " target_session_attrs=read-write"
        ids = recorded.defer(200, ms=5)
        run = service(db, "--runners", "2", "--batch", "20", env={"DEFERRED_DB": both})
        wait_for(lambda: len(recorded.lines()) > 50, 30)
        acknowledged, producer = defer_until_it_fails(recorded, db.connect())
        wait_for(lambda: len(acknowledged) > 50, 30)
        db.kill()
        producer.join(60)
        ids += acknowledged
        standby.promote()
        db.cluster, db.conninfo = standby, standby.conninfo(db.name)
        drained(db)
        ids += recorded.defer(5)
        drained(db)
        stop(run)
        assert "connected again" in run.output()
        recorded.assert_all_ok(ids, lost=True)
    finally:
        db.cluster = first
        if db.connection is not None:
            db.connection.close()
        standby.remove()


class Silent:
    """A host that refuses connections, and from begin() on takes them and never says a word."""

    def __enter__(self):
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        return self

    def begin(self):
        self.socket.listen(64)

    def __exit__(self, *_):
        self.socket.close()


def hosts(db, *before):
    """A connection string with these hosts in front of the server's own."""
    return (
        f"host={','.join(['127.0.0.1'] * len(before) + [db.cluster.folder])} "
        f"port={','.join([str(h.port) for h in before] + [str(pg.PORT)])} "
        f"user={pg.USER} dbname={db.name}"
    )


def test_a_run_that_is_cut_off_gets_past_a_host_that_is_silent(db):
    db.config('reconnect = "4s"\n')
    job = db.defer("sleep", '{"ms": 500}')
    with Silent() as refuses, Silent() as silent:
        run = db.spawn(["check_deferred"], env={"DEFERRED_DB": hosts(db, refuses, silent)})
        wait_for(lambda: db.sql("select 1 from deferred.__held"))
        silent.begin()
        terminate_workers(db)
        assert run.wait(20) == 0, run.output()
    assert "connected again" in run.output()
    assert db.log(job) == [(1, "ok")]
    ledger(db)


@pytest.mark.long
def test_a_service_gets_past_hosts_that_are_silent(db):
    db.config(SETTINGS)
    with Silent() as first, Silent() as second:
        run = service(db, env={"DEFERRED_DB": hosts(db, first, second)})
        first.begin()
        second.begin()
        terminate_workers(db)
        job = db.defer("noop")
        wait_for(lambda: db.log(job) == [(1, "ok")], 40, "each host has had its 10 s")
        stop(run)
    ledger(db)


def terminate_workers(db):
    # Of this database alone: other tests share the server.
    db.sql(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'check_deferred' "
        "and datname = current_database()"
    )


def test_one_that_is_to_stop_sleeps_while_its_job_ends(db):
    db.config(SETTINGS + 'function "slow" { command = {"/bin/sleep", "60"} }\n')
    run = service(db, "--grace", "1min")
    db.defer("slow")
    wait_for(lambda: len(db.orphans()) == 2, 20, "a runner, and the command")
    run.signal(signal.SIGTERM)
    wait_for(lambda: "asked to stop" in run.output())
    terminate_workers(db)  # housekeeping is due at once after a reconnection
    wait_for(lambda: "connected again" in run.output())
    before = pg.cpu_ns(run.pid)
    time.sleep(1)
    assert (pg.cpu_ns(run.pid) - before) / 1e9 < 0.1
    stop(run)  # asked twice
    ledger(db)


def test_a_registration_that_a_failover_lost_is_made_again(db):
    db.config(SETTINGS)
    run = service(db)
    db.sql("delete from deferred.__deferred_worker")
    terminate_workers(db)
    wait_for(lambda: db.one("select count(*) from deferred.__deferred_worker where ended_at is null") == 1, 20)
    job = db.defer("noop")
    wait_for(lambda: db.log(job) == [(1, "ok")], 20)
    stop(run)
    assert "registered again" in run.output()
    ledger(db)


def test_a_schema_that_became_too_new_under_way_ends_it(db):
    db.config(SETTINGS)
    run = service(db)
    db.sql("insert into deferred.__deferred_migration (version, name) values (9999, 'of the future')")
    terminate_workers(db)
    assert run.wait(20) == 78, run.output()
    assert "9999" in run.output()


def test_a_newer_schema_that_says_it_fits_ends_no_service(db):
    db.config(SETTINGS)
    run = service(db)
    db.sql("insert into deferred.__deferred_migration (version, name, oldest) values (9999, 'of the future', 1)")
    terminate_workers(db)
    wait_for(lambda: "connected again" in run.output() and db.run(["deferred", "status"]).returncode == 0, 20)
    job = db.defer("noop")
    wait_for(lambda: db.log(job) == [(1, "ok")], 20)
    db.sql("insert into deferred.__deferred_migration (version, name, oldest) values (10000, 'of its future', 9999)")
    terminate_workers(db)
    assert run.wait(20) == 78, run.output()
    ledger(db)


def test_sigkill_of_the_service_frees_its_jobs_at_the_next_start(recorded):
    db = recorded.db
    db.config(SETTINGS)
    ids = recorded.defer(3, ms=3000)
    run = service(db, "--runners", "2")
    wait_for(lambda: len(recorded.starts()) == 2, 20)
    run.kill()
    wait_for(lambda: not db.orphans(), 20, "its runners are gone")
    run = service(db, "--runners", "3")
    drained(db, 30)
    stop(run)
    recorded.assert_all_ok(ids, lost=True)
    assert {line[1:3] for line in recorded.starts()} == {(job, 1) for job in ids}, "it counted against none of them"


def test_who_is_not_let_in_again_says_so_when_a_restart_would_be_over(db):
    """Why the connection was lost is one thing; why there is no other one, the second: no room
    left, a password, a database that is closed."""
    db.config(SETTINGS)
    run = service(db)
    with contextlib.closing(psycopg2.connect(db.cluster.conninfo())) as c:
        c.autocommit = True
        cursor = c.cursor()
        cursor.execute(f"alter database {db.name} allow_connections false")
        try:
            cursor.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (db.name,))
            wait_for(lambda: "no connection for" in run.output(), 20)
        finally:
            cursor.execute(f"alter database {db.name} allow_connections true")
    assert re.search(
        r"warning: no connection for [2-9] s: .*is not currently accepting connections; trying again", run.output()
    ), run.output()
    assert run.output().count("connection lost: terminating connection") == 1
    wait_for(lambda: "connected again" in run.output())
    stop(run)


def test_sessions_terminated_again_and_again_are_opened_again(recorded):
    db = recorded.db
    db.config(SETTINGS)
    ids = recorded.defer(150, ms=5)
    run = service(db, "--batch", "10")
    for _ in range(6):
        seen = len(recorded.lines())
        wait_for(lambda: len(recorded.lines()) > seen + 10 or db.hot() == 0, 30)
        db.sql(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
            "and pid <> pg_backend_pid()"
        )
    drained(db)
    stop(run)
    recorded.assert_all_ok(ids)


@pytest.mark.slow
def test_a_stopped_service_that_wakes_after_its_lease_kills_its_runner_and_goes_on(recorded):
    db = recorded.db
    db.config(SETTINGS + 'lease = "1s"\n')
    (job,) = recorded.defer(1, ms=4000)
    run = service(db)
    wait_for(lambda: recorded.starts(), 20)
    os.killpg(os.getpgid(run.pid), 0)
    pids = [run.pid] + db.orphans()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(1.5)
    other = service(db, "--pidfile", db.dir + "/other")
    wait_for(lambda: len(recorded.starts()) == 2, 20)
    for pid in reversed(pids):  # the service kills its runner as soon as it wakes
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: db.hot() == 0, 30)
    late = recorded.defer(1)
    wait_for(lambda: db.hot() == 0, 30)
    stop(run)
    stop(other)
    assert "leases could not be renewed in time" in run.output()
    recorded.assert_all_ok([job] + late, lost=True)


@pytest.mark.slow
def test_a_listener_survives_restarts_and_is_woken_again(own_server):
    db = own_server
    db.config('interval_floor = "1min"\ninterval_ceiling = "1min"\n')
    run = service(db, "--listen")
    for mode in "fast", "immediate":
        db.stop(mode)
        db.start()
        held = "select 1 from pg_locks where locktype = 'advisory' and classid = 1145390674 and mode = 'ShareLock'"
        wait_for(lambda: db.sql(held), 20, "armed")
        job = db.defer("noop")
        wait_for(lambda: db.log(job) == [(1, "ok")], 20)
    stop(run)
    ledger(db)


@pytest.mark.long
def test_random_traffic_never_waits_for_a_poll(recorded, rng):
    """Transactions that defer and stay open for a moment, against listeners that sleep and wake: no wake-up is lost."""
    db = recorded.db
    db.config('interval_floor = "2s"\ninterval_ceiling = "1min"\nexponent = 100\n')
    runs = [service(db, "--listen", "--pidfile", f"{db.dir}/pid{i}") for i in range(2)]
    connections = [db.connect() for _ in range(4)]
    ids, until = [], {}
    deadline = time.monotonic() + 12
    while time.monotonic() < deadline or until:
        c = rng.choice(connections)
        if c in until:
            if time.monotonic() >= until[c]:
                c.commit()
                del until[c]
        elif time.monotonic() < deadline:
            with c.cursor() as cursor:
                cursor.execute("select deferred.defer('noop')")
                ids.append(cursor.fetchone()[0])
            until[c] = time.monotonic() + rng.choice([0, 0, 0.005, 0.02, 0.1])
        time.sleep(rng.choice([0, 0.001, 0.005, 0.03]))
    committed = time.monotonic()
    wait_for(lambda: db.hot() == 0, 20)
    assert time.monotonic() - committed < 5
    late = db.sql(
        """select l.job_id, extract(epoch from l.started_at - d.created_at)::float8 from deferred.__deferred_log l
                     join deferred.__deferred d on d.id = l.job_id where l.started_at - d.created_at > interval '2 s'"""
    )
    assert late == []
    assert len(ids) > 100
    for run in runs:
        stop(run)
    for c in connections:
        c.close()
    ledger(db)
