"""PostgreSQL's own limit: the same rows in tables of schema plain, worked by pgbench with the best plain SQL we know.

There are two yardsticks. Skip-locked is the usual queue in PostgreSQL (plain_one.sql, plain_two.sql):
a claim updates each row. Lease is our design (lease_claim.sql, lease_batch.sql): a claim writes one
row for the batch.
"""

import os
import time

from stage import HERE, HOT_COLUMNS, HOT_VALUES, PARAMS, Failed

# The plans check_deferred asks for too.
PLANNER = (
    "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c enable_bitmapscan=off"
    " -c plan_cache_mode=force_generic_plan"
)

# bare is the one row of an application without a queue, columns a table of our columns without any
# index; the others are our tables without partitions. hot is what a claim updates, with the columns
# and indexes that takes, ready what it leaves alone.
SCHEMA = """
create table bare (id bigint generated always as identity primary key, queue text not null, fn text not null,
params json not null,
    created_at timestamptz not null default clock_timestamp());
create schema plain;
create table plain.columns (like deferred.__deferred including defaults);
create sequence plain.id;
alter table plain.columns alter id set default nextval('plain.id');
create table plain.hot (like deferred.__deferred_hot including defaults, primary key (id))
    with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0);
alter table plain.hot add column if not exists visible_at timestamptz not null,
add column if not exists attempt integer not null default 0,
    add column if not exists receipt bigint, add column if not exists worker bigint,
    add column if not exists started_at timestamptz;
create index on plain.hot (queue, priority desc, xid, id) where due_at is null and not limited and fn is not null;
create table plain.ready (like deferred.__deferred_hot including defaults including indexes)
    with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
create table plain.job (like deferred.__deferred including defaults, primary key (id));
create table plain.log (like deferred.__deferred_log including defaults);
create index on plain.log (job_id);
"""

# Ways to store one job.
INSERT_BARE = f"insert into bare (queue, fn, params) values ('default', 'noop', '{PARAMS}');"
INSERT_ROWS = (
    "with i as (select nextval('plain.id') as id), h as (insert into plain.ready"
    f" (id, {HOT_COLUMNS}) select id, {HOT_VALUES} from i) insert into plain.job (id, queue, fn, params)"
    f" select id, 'default', 'noop', '{PARAMS}' from i;"
)
DEFER = f"select deferred.defer('noop', '{PARAMS}');"

# Ways to execute a batch: those of skip-locked, and all.
SKIP_LOCKED = ("two", "one")
WAYS = (*SKIP_LOCKED, "lease")
SCRIPTS = {"two": "plain_two.sql", "one": "plain_one.sql", "lease": "lease_batch.sql"}
TABLES = {"two": "plain.hot", "one": "plain.hot", "lease": "plain.ready"}
INTO = {"plain.hot": ("queue, fn, visible_at", "'default', 'noop', now()"), "plain.ready": (HOT_COLUMNS, HOT_VALUES)}


def window_of(batch):
    """Jobs among which skip-locked SQL draws a batch. check_deferred draws claims of fewer than 100
    only, among that many."""
    return max(1000, 2 * batch)


class Plain:
    def __init__(self, db):
        self.db = db
        db.sql(SCHEMA)
        with open(os.path.join(HERE, "lease_claim.sql")) as f:
            db.sql(f.read())

    def clear(self):
        self.db.sql("truncate bare, plain.columns, plain.hot, plain.ready, plain.job, plain.log, plain.lease")
        self.db.sql("select setval('plain.id', 1, false)")

    def fill(self, way, n):
        """Add n ready jobs for this way of executing them."""
        table, done = TABLES[way], 0
        columns, values = INTO[table]
        while done < n:
            some = min(n - done, 100000)
            first = self.db.one("select setval('plain.id', nextval('plain.id') + %s) - %s", some - 1, some - 1)
            self.db.sql(
                f"insert into plain.job (id, queue, fn, params) select n, 'default', 'noop', '{PARAMS}'"
                " from generate_series(%s, %s) n",
                first,
                first + some - 1,
            )
            self.db.sql(
                f"insert into {table} (id, {columns}) select n, {values} from generate_series(%s, %s) n",
                first,
                first + some - 1,
            )
            done += some

    def ready(self, way):
        return self.db.one(f"select count(*) from {TABLES[way]}")

    def top_up(self, way, n):
        """Log empty, n jobs ready and none claimed."""
        self.db.sql("truncate plain.log")
        if way in SKIP_LOCKED:
            self.db.sql("delete from plain.hot where receipt is not null")  # what way "one" held when it stopped
        else:
            self.db.sql(
                "with l as (delete from plain.lease returning ids) delete from plain.ready "
                "where id in (select unnest(ids) from l)"
            )
        self.fill(way, n - self.ready(way))

    def work(self, way, clients, batch, jobs=None, seconds=None):
        """Execute about `jobs` jobs, or for so long; returns jobs per second, and microseconds of the server a job."""
        window = window_of(batch)
        if way == "two":
            window += batch * (clients - 1)  # as many as others may have locked
        before = self.ready(way)
        turns = 10**9 if seconds else max(1, jobs // (batch * clients)) + (way == "one")
        # Tried again after a deadlock: in way "one" a claim may lock, for the moment it takes to
        # see that it is too late, a row whose claimer is about to delete it.
        limit = ["-T", seconds] if seconds else ["-t", turns, "--max-tries=10"]
        cpu, start = self.db.stage.cpu_seconds(), time.monotonic()
        self.db.pgbench(
            os.path.join(HERE, SCRIPTS[way]),
            clients,
            *limit,
            "-D",
            f"batch={batch}",
            "-D",
            f"window={window}",
            "-D",
            f"turns={turns}",
            "-D",
            "tids={}",
            options=PLANNER,
        )
        took, cpu = time.monotonic() - start, self.db.stage.cpu_seconds() - cpu
        rows, done = self.db.sql("select count(*), count(distinct job_id) from plain.log")[0]
        if rows != done or done + self.ready(way) != before or done == 0:
            raise Failed(
                f"plain SQL: {before} jobs were ready, {done} are done in {rows} attempts, {self.ready(way)} are left"
            )
        return done / took, cpu / done * 1e6
