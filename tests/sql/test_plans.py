"""How the statements of a worker go to work must not depend on what the server believes of the
tables: its statistics are of a moment at which there was nothing, or nothing claimed, or all that
has gone since. `make bench-plans` tells what each costs."""

import json
import re

import pytest

import pg
from test_claim import Worker, nodes

pytestmark = pytest.mark.by_hand

# Sent while jobs are executed. Those that people ask for may be planned as the table is.
HOT = sorted(
    name
    for name in pg.sources()
    if name.startswith(("job_", "run_", "worker_")) and re.search(r"(?m)^[^-]*__deferred_hot", pg.source(name))
)


def fill(db, n):
    db.sql(
        """insert into deferred.__deferred_hot (id, queue, fn, visible_at)
              select nextval('deferred.__deferred_id_seq'), 'default', 'noop', now() from generate_series(1, %s)""",
        n,
    )


def empty(db):
    db.sql("vacuum analyze deferred.__deferred_hot")


def filled(db):
    fill(db, 20000)


def few(db):
    fill(db, 100)
    db.sql("analyze deferred.__deferred_hot")


def claimed(db):
    db.sql(
        """insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone, expires_at)
              select 'default', 1, id / 100, array_agg(id), int8range(min(id), max(id), '[]'),
              pg_current_snapshot(), false, now() + interval '1 hour'
              from deferred.__deferred_hot group by id / 100"""
    )
    db.sql("vacuum analyze deferred.__deferred_hot, deferred.__deferred_lease")


def deleted(db):
    """The pages stay, for the last job is still there, and the next ones go into them unseen."""
    db.sql("delete from deferred.__deferred_hot where id <> (select max(id) from deferred.__deferred_hot)")
    db.sql("vacuum analyze deferred.__deferred_hot")
    fill(db, 20000)


def plan(db, name):
    """As a worker has it planned: its settings, its types, whatever the arguments are."""
    text = pg.source(name)
    setup = pg.source("session_setup")
    db.sql("begin")
    db.sql(setup.replace("$1::text", "'20s'"))
    db.sql(f"prepare statement as {text}")
    types = db.one(
        "select coalesce(array_agg(format('null::%s', t)), '{}') from (select unnest(parameter_types)::text as t"
        " from pg_prepared_statements where name = 'statement') p"
    )
    rows = db.sql("explain (costs off) execute statement" + (f"({', '.join(types)})" if types else ""))
    db.sql("rollback")
    db.sql("deallocate statement")
    # In which order small lists are joined is no matter.
    return sorted(
        line.strip(" ->") for row in rows for line in [row[0]] if " on __deferred" in line or "Index Cond" in line
    )


@pytest.mark.parametrize("name", HOT)
def test_a_statement_has_the_same_plan_whatever_the_statistics_are(db, name):
    for table in "hot", "lease", "cursor":
        db.sql(f"alter table deferred.__deferred_{table} set (autovacuum_enabled = false)")
    first = plan(db, name)
    # From PostgreSQL 18 on, a scan that is turned off is chosen where it is part of the cheapest plan.
    assert {line for line in first if line.startswith("Seq Scan")} <= {"Seq Scan on __deferred_state x"}  # one row
    for state in (empty, filled, few, claimed, deleted):
        state(db)
        assert plan(db, name) == first, state.__name__


# ---- what functions do, which plan within


class Explained(Worker):
    """A worker whose statements, and those within functions, say how they went to work."""

    tables = "__deferred", "__deferred_hot", "__deferred_lease", "__deferred_cursor"

    def __init__(self, db):
        super().__init__(db, "host:/explained")
        self.connection.autocommit = True
        self.connection.cursor().execute(
            """load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_nested_statements = on;
            set auto_explain.log_analyze = on; set auto_explain.log_timing = off; set auto_explain.log_buffers = on;
            set auto_explain.log_format = json;
            set client_min_messages = log"""
        )
        self.connection.autocommit = False

    def plans(self, act):
        """Of all statements that act() has the server run: table, node and index of each scan of a
        table that grows; and pages that the outermost ones touched."""
        del self.connection.notices[:]
        act()
        self.connection.commit()
        scans, pages = set(), 0
        for notice in self.connection.notices:
            text = notice[notice.index("{") :]
            plan = json.JSONDecoder().raw_decode(text)[0]
            pages = max(pages, plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])
            scans |= {
                (
                    re.sub("_(0|default)$", "", node["Relation Name"]),
                    node["Node Type"],
                    node.get("Index Name"),
                    "Index Cond" in node,
                )
                for node in nodes(plan["Plan"])
                if "Relation Name" in node
            }
        return {s for s in scans if s[0] in self.tables}, pages


def cycle(w, n=50):
    """Claim, renew, record of each kind, give back, look for what is lost."""
    jobs = w.take(n, window=100)
    w.renew(*jobs)
    third = len(jobs) // 3
    w.done(*jobs[:third])
    w.finish(*jobs[third : 2 * third], outcome="failed")
    w.retry(*jobs[2 * third : -5])
    w.release(*jobs[-5:])
    w.commit()
    w.close(*jobs)
    w.lost()
    return len(jobs)


def cost(db, w):
    """What a cycle of 50 jobs costs, the second time, when all is planned, and beside a transaction
    that has been open for long: its scans, and pages of the dearest statement."""
    writer = db.connect()
    writer.cursor().execute("select deferred.defer('f')")
    cycle(w)
    cycle(w)
    writer.commit()
    scans, pages = w.plans(lambda: cycle(w))
    writer.cursor().execute("select deferred.defer('f')")
    looked, more = w.plans(lambda: (cycle(w), w.ask("run_probe", None, "host:/pid", None)))
    writer.rollback()
    writer.close()
    return scans | looked, max(pages, more)


def prepare_state(db, state):
    for table in "hot", "lease", "cursor", "0":
        db.sql(f"alter table deferred.__deferred_{table} set (autovacuum_enabled = false)")
    make = (
        "select count(*) from deferred.defer_many((select json_agg(json_build_object('fn', 'f')) "
        "from generate_series(1, %s)))"
    )
    analyze = (
        "vacuum analyze deferred.__deferred_hot, deferred.__deferred_lease, deferred.__deferred_cursor, "
        "deferred.__deferred_0"
    )
    db.sql(make, 200)
    if state == "analysed while empty, then filled":
        db.sql(analyze)
    if state in ("analysed while empty, then filled", "filled", "filled and analysed", "dead"):
        db.sql(make, 20000)
    if state == "filled and analysed":
        db.sql(analyze)
    if state == "held":
        db.sql(make, 20000)
        holder = Worker(db, "host:/holder")
        for _ in range(20):
            holder.take(1000)
        holder.connection.close()
        db.sql(make, 200)
        db.sql(analyze)


def test_what_a_cycle_costs_depends_neither_on_statistics_nor_on_the_backlog_nor_on_the_dead(db):
    """Pages that the dearest statement touches, and by which index each table is read."""
    costs = {}
    for state in ("few", "analysed while empty, then filled", "filled", "filled and analysed", "held", "dead"):
        db.sql(
            "truncate deferred.__deferred_hot, deferred.__deferred_lease, deferred.__deferred_cursor, "
            "deferred.__deferred, deferred.__deferred_log"
        )
        reader = db.connect()
        prepare_state(db, state)
        if state == "dead":  # for a reader holds a snapshot, and nothing is removed
            reader.set_session(isolation_level="REPEATABLE READ")
            reader.cursor().execute("select count(*) from deferred.__deferred_hot")
            killer = Worker(db, "host:/killer")
            for _ in range(19):
                jobs = killer.take(1000)
                killer.finish(*jobs)
                killer.close(*jobs)
                killer.commit()
            killer.connection.close()
        w = Explained(db)
        costs[state] = cost(db, w)
        w.connection.close()
        reader.close()
    print({state: pages for state, (_, pages) in costs.items()})
    for state, (scans, pages) in costs.items():
        assert not [s for s in scans if s[1] == "Seq Scan" or (s[1].startswith("Index") and not s[3])], (state, scans)
        assert pages < 3 * costs["few"][1] + 300, (state, {s: p for s, (_, p) in costs.items()})


def test_what_lies_in_each_queue_is_told_without_reading_all_of_one(db):
    """Where nearly all jobs lie in one queue, the planner takes any other for as full."""
    db.sql("insert into deferred.__deferred_queue (name) select 'q' || i from generate_series(1, 5) i")
    fill(db, 30000)
    db.sql("vacuum analyze deferred.__deferred_hot")
    with db.connect() as c, c.cursor() as cursor:
        cursor.execute("select queue, ready, ready_more from deferred.__depths(1000)")
        assert sorted(cursor) == [("default", 1000, True), *((f"q{i}", 0, False) for i in range(1, 6))]
        cursor.execute(
            "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = '__deferred_hot'"
        )
        assert cursor.fetchone()[0] < 3000


def test_what_people_ask_is_not_looked_for_among_the_dead(db):
    """While somebody holds a snapshot, and nothing is removed, is when they ask. With the settings
    of deferred.__fold() too, which has it written down each minute."""
    fill(db, 60000)
    db.sql("insert into deferred.__deferred_offer values ('h', 'p', 1, now(), '{other}', '{p 1 2}', '{0}', '{0}')")
    db.sql("vacuum analyze deferred.__deferred_hot")
    reader = db.connect()
    reader.set_session(isolation_level="REPEATABLE READ")
    reader.cursor().execute("select count(*) from deferred.__deferred_hot")
    w = Worker(db, "host:/killer")
    for _ in range(59):
        jobs = w.take(1000)
        w.finish(*jobs)
        w.close(*jobs)
        w.commit()
    unknown = pg.source("admin_functions_unknown")
    ahead = pg.source("why_ahead")
    priority, xid, last = db.sql(
        "select priority, xid::text, id from deferred.__deferred_hot order by id desc limit 1"
    )[0]
    behind = f"execute ahead ('default', {priority}, '{xid}', {last}, 10000)"
    for settings in (
        "",
        "; set enable_nestloop = off; set enable_mergejoin = off; set enable_seqscan = on; set enable_bitmapscan = on",
    ):
        with db.connect() as c, c.cursor() as cursor:
            cursor.execute("set jit = off; set plan_cache_mode = force_generic_plan" + settings)
            cursor.execute("prepare unknown as " + unknown)
            cursor.execute("prepare ahead as " + ahead)
            for asked in ("select * from deferred.__depths(1000)", "execute unknown (1000)", behind):
                cursor.execute(asked)  # and learns the catalog
                cursor.execute("explain (analyze, buffers, format json) " + asked)
                plan = cursor.fetchone()[0][0]["Plan"]
                assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 500, (settings, asked, plan)
            cursor.execute("select ready, claimed, ready_more from deferred.__depths(999)")
            assert cursor.fetchall() == [(999, 0, True)]
            cursor.execute(behind)
            assert cursor.fetchall() == [(999,)]
        c.close()
    w.connection.close()
    reader.close()
