"""What a claim and a run cost does not depend on queues without jobs. Counted in pages read, not in time."""

import os
import subprocess

import pytest

import pg
from harness import command, ledger, wait_for

FEW, MANY = 10, 5000


def text(name):
    return pg.source(name)


def add_queues(db, n, removed="null"):
    db.sql(
        f"insert into deferred.__deferred_queue (name, removed_at) select 'q' || i, {removed} "
        f"from generate_series(1, {n}) i on conflict do nothing"
    )


def pages(db, name, arguments):
    """Pages that a prepared statement of a worker touches. The first time it reads the catalog too. It does so again
    after autovacuum has analyzed a table. So the least of three counts."""
    connection, touched = db.connect(), []
    with connection.cursor() as cursor:
        cursor.execute("prepare s as " + text("session_setup"))
        cursor.execute(f"prepare p as {text(name)}")
        for _ in range(3):
            cursor.execute("execute s('60000')")
            cursor.execute(f"explain (analyze, buffers, format json) execute p({arguments})")
            plan = cursor.fetchone()[0][0]["Plan"]
            touched.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
            connection.rollback()
    connection.close()
    return min(touched)


STATEMENTS = {
    "job_claim": "null, 20, 1000, 1, 60000, 3, null, 3, 16777216, '{}', '{}', 1, 20, null",
    "job_claim_limited": "null, 20, 20, 1, 60000, 3, null, 3, 16777216, 20, null, 1",
    "run_probe": "null, 'host:/pid', null",
}


@pytest.mark.parametrize("kind", ["empty", "removed"])
@pytest.mark.parametrize("jobs", ["plain", "limited", "none"])
def test_a_claim_reads_no_more_beside_many_queues_without_jobs(db, kind, jobs):
    for table in ("queue", "hot", "0"):
        db.sql(f"alter table deferred.__deferred_{table} set (autovacuum_enabled = off)")
    for i in range(0 if jobs == "none" else 5):
        db.defer("f", queue=f"busy{i}", **({"concurrency_key": "k"} if jobs == "limited" else {}))
    removed = "now()" if kind == "removed" else "null"
    add_queues(db, FEW, removed)
    few = {name: pages(db, name, arguments) for name, arguments in STATEMENTS.items()}
    add_queues(db, MANY, removed)
    many = {name: pages(db, name, arguments) for name, arguments in STATEMENTS.items()}
    # The index of the queues is one or two levels deeper: so many pages more for each queue that is
    # looked up, and for each job of it.
    assert all(many[name] <= few[name] + 60 for name in STATEMENTS), (few, many)


def test_a_claim_planned_beside_few_queues_reads_no_more_when_there_are_many(db):
    """A plan stays with its session."""
    db.sql("alter table deferred.__deferred_queue set (autovacuum_enabled = off)")
    db.defer("f", queue="busy")
    connection = db.connect()
    with connection.cursor() as cursor:
        cursor.execute("prepare s as " + text("session_setup"))
        for name in STATEMENTS:
            cursor.execute(f"prepare p_{name} as {text(name)}")

        def read(name):
            cursor.execute("execute s('60000')")
            cursor.execute(f"explain (analyze, buffers, format json) execute p_{name}({STATEMENTS[name]})")
            plan = cursor.fetchone()[0][0]["Plan"]
            connection.rollback()
            return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]

        def read_all():
            for name in STATEMENTS:
                read(name)  # and learns the catalog
            return {name: read(name) for name in STATEMENTS}

        few = read_all()
        add_queues(db, MANY)
        many = read_all()
    connection.close()
    assert all(many[name] <= few[name] + 30 for name in STATEMENTS), (few, many)


def test_a_claim_reads_no_places_and_no_leases_that_a_held_snapshot_keeps(db):
    """Each claim leaves a dead place. The first look for lanes comes past all of them, if it comes
    from the wrong side; so does a claim that passes over the newest, for another claim is at it.
    And each batch leaves a dead lease, with an end that is still to come; and later on one that is long over.
    """
    db.sql("select deferred.defer('f'), deferred.defer('f', opts => '{\"queue\": \"other\"}')")
    db.sql(
        "insert into deferred.__deferred_cursor (queue, priority, seq, done, cur, id, rest_xid, rest_id) "
        "values ('default', 0, 1, '1:1:', '1:1:', 0, '{}', '{}')"
    )
    close = "array[7]"
    holder, other = db.connect(), db.connect()
    holder.set_session(isolation_level="REPEATABLE READ")
    with holder.cursor() as cursor:
        cursor.execute("select count(*) from deferred.__deferred_cursor")

    def read():
        free = pages(db, "job_claim", STATEMENTS["job_claim"])
        with other.cursor() as cursor:
            cursor.execute(
                "select from deferred.__deferred_cursor p where p.queue = 'default' order by p.seq desc limit 1 "
                "for update"
            )
            locked = pages(db, "job_claim", STATEMENTS["job_claim"])
        other.rollback()
        return [free, locked, pages(db, "job_close", close), pages(db, "job_lost", "3, 10000")]

    few = read()
    db.sql(
        """do $$ begin for i in 2 .. 2000 loop
                  insert into deferred.__deferred_cursor (queue, priority, seq, done, cur, id, rest_xid, rest_id)
                  select p.queue, p.priority, i, p.done, p.cur, p.id, p.rest_xid, p.rest_id
                  from deferred.__deferred_cursor p;
                  delete from deferred.__deferred_cursor p where p.seq < i;
                  insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone, expires_at)
                  values ('default', 1, i, array[i], int8range(i, i, '[]'), pg_current_snapshot(), false,
                  now() + (i % 2 - 0.5) * interval '1 hour');
                  delete from deferred.__deferred_lease;
              end loop; end $$"""
    )
    many = read()
    holder.close()
    other.close()
    assert all(m <= f + 30 for f, m in zip(few, many)), (few, many)


@pytest.mark.parametrize("jobs", [0, 300])
def test_a_run_reads_no_more_beside_many_queues_without_jobs(db, jobs):
    db.sql("alter system set autovacuum = off")  # which would read too
    db.sql("select pg_reload_conf()")

    def run():
        if jobs:
            db.sql("select count(deferred.defer('noop', queue => 'busy')) from generate_series(1, %s)", jobs)
        before = read(db)
        done = db.run(["check_deferred", "--cnt", "0", "--batch", "50"])
        assert done.returncode == 0, done.stderr
        wait_for(
            lambda: db.one(
                "select count(*) from pg_stat_activity where application_name = 'check_deferred' "
                "and datname = current_database()"
            )
            == 0
        )
        return read(db) - before

    try:
        run()
        add_queues(db, FEW)
        few = run()
        add_queues(db, MANY)
        many = run()
    finally:
        db.sql("alter system reset autovacuum")
        db.sql("select pg_reload_conf()")
    print(f"{few} entries of indexes and rows read beside {FEW} queues, {many} beside {MANY}")
    # How many claims a run makes is a matter of time, seven or some more, and each reads as many
    # jobs as are left. One that read all queues would read 5,000 entries more, and so would the
    # question whether there is anything to do.
    assert few >= (jobs > 0) and many <= few + (3 * MANY if jobs else MANY / 2)
    # Nor does a claim come past all that is ready, or was, for each job that the claim before it passed over.
    assert many <= 40 * jobs + MANY / 2
    ledger(db)


def read(db):
    """Entries of indexes and rows that have been read of the table of queues and of that of ready
    jobs; sessions tell when they end."""
    db.sql("select pg_stat_force_next_flush()")
    db.sql("select pg_stat_clear_snapshot()")
    return int(
        db.one(
            """select (select sum(idx_tup_read) from pg_stat_user_indexes
                where relname in ('__deferred_queue', '__deferred_hot'))
                              + (select sum(seq_tup_read) from pg_stat_user_tables
                              where relname in ('__deferred_queue', '__deferred_hot'))"""
        )
    )


def test_queues_with_a_job_each_are_all_served(db):
    db.sql("select count(deferred.defer('noop', queue => 'q' || i)) from generate_series(1, 300) i")
    assert db.run(["check_deferred", "--cnt", "0", "--batch", "50"]).returncode == 0
    assert db.hot() == 0
    ledger(db)


@pytest.mark.parametrize("args", [["status"], ["queue", "ls"], ["queue", "ls", "--json"]], ids=" ".join)
def test_what_people_ask_for_grows_no_faster_than_the_queues(db, args):
    """Ten times as many cost ten times as much, not a hundred times: processor time of the program."""
    used = []
    for n in (2000, 20000):
        add_queues(db, n)
        program = subprocess.Popen(
            command(["deferred", *args]), env=db.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(program.pid, 0)
        program.returncode = status
        assert status == 0
        used.append(usage.ru_utime + usage.ru_stime)
    assert used[1] < 40 * max(used[0], 0.01), used
