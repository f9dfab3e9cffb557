"""PostgreSQL's own limit: the same rows in tables of schema plain, worked by pgbench with the best plain SQL we know."""

import os
import time

from stage import HERE, PARAMS, Failed

# The plans check_deferred asks for too.
PLANNER = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c enable_bitmapscan=off"

# bare is the one row of an application without a queue, columns a table of our columns without any index; the others
# are our tables without partitions.
SCHEMA = """
create table bare (id bigint generated always as identity primary key, queue text not null, fn text not null, params json not null,
    created_at timestamptz not null default clock_timestamp());
create schema plain;
create table plain.columns (like deferred.__deferred including defaults);
create sequence plain.id;
alter table plain.columns alter id set default nextval('plain.id');
create table plain.hot (like deferred.__deferred_hot including defaults including indexes)
    with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
create table plain.job (like deferred.__deferred including defaults, primary key (id));
create table plain.log (like deferred.__deferred_log including defaults);
create index on plain.log (job_id);
"""

# Ways to store one job.
INSERT_BARE = f"insert into bare (queue, fn, params) values ('default', 'noop', '{PARAMS}');"
INSERT_ROWS = ("with i as (select nextval('plain.id') as id), h as (insert into plain.hot (id, queue, fn, visible_at)"
               " select id, 'default', 'noop', now() from i) insert into plain.job (id, queue, fn, params)"
               f" select id, 'default', 'noop', '{PARAMS}' from i;")
DEFER = f"select deferred.defer('noop', '{PARAMS}');"

# Ways to execute a batch.
WAYS = ("two", "one")


def window_of(batch):
    """Jobs among which plain SQL draws a batch. check_deferred chooses its window itself."""
    return max(1000, 2 * batch)


class Plain:
    def __init__(self, db):
        self.db = db
        db.sql(SCHEMA)

    def clear(self):
        self.db.sql("truncate bare, plain.columns, plain.hot, plain.job, plain.log")
        self.db.sql("select setval('plain.id', 1, false)")

    def fill(self, n):
        done = 0
        while done < n:
            some = min(n - done, 100000)
            first = self.db.one("select setval('plain.id', nextval('plain.id') + %s) - %s", some - 1, some - 1)
            self.db.sql(f"insert into plain.job (id, queue, fn, params) select n, 'default', 'noop', '{PARAMS}'"
                        " from generate_series(%s, %s) n", first, first + some - 1)
            self.db.sql("insert into plain.hot (id, queue, fn, visible_at) select n, 'default', 'noop', now()"
                        " from generate_series(%s, %s) n", first, first + some - 1)
            done += some

    def ready(self):
        return self.db.one("select count(*) from plain.hot")

    def top_up(self, n):
        """Log empty, n jobs ready and none claimed."""
        self.db.sql("truncate plain.log")
        self.db.sql("delete from plain.hot where receipt is not null")  # what way "one" held when it stopped
        self.fill(n - self.ready())

    def work(self, way, clients, batch, jobs=None, seconds=None):
        """Execute about `jobs` jobs, or for so long; returns jobs per second."""
        window = window_of(batch)
        if way == "two":
            window += batch * (clients - 1)  # as many as others may have locked
        before = self.ready()
        turns = 10**9 if seconds else max(1, jobs // (batch * clients)) + (way == "one")
        # Tried again after a deadlock: in way "one" a claim may lock, for the moment it takes to see that it is too late, a row
        # whose claimer is about to delete it.
        limit = ["-T", seconds] if seconds else ["-t", turns, "--max-tries=10"]
        start = time.monotonic()
        self.db.pgbench(os.path.join(HERE, f"plain_{way}.sql"), clients, *limit, "-D", f"batch={batch}", "-D", f"window={window}",
                        "-D", f"turns={turns}", "-D", "tids={}", options=PLANNER)
        took = time.monotonic() - start
        rows, done = self.db.sql("select count(*), count(distinct job_id) from plain.log")[0]
        if rows != done or done + self.ready() != before or done == 0:
            raise Failed(f"plain SQL: {before} jobs were ready, {done} are done in {rows} attempts, {self.ready()} are left")
        return done / took
