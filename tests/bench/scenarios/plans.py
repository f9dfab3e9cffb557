"""What a statement of the hot path costs the server, whatever that believes of the tables: its statistics may be of a moment at which
there was nothing, or nothing claimed, or of all that has gone since."""

import os
import statistics

import psycopg2

from stage import Failed, pg

TITLE = "Statements of the hot path, over rows and statistics"
BATCH = 500
LEASE_MS = 3600000
WORKER = 1
QUERIES = os.path.join(pg.TOP, "sql", "queries")


def text_of(name):
    with open(os.path.join(QUERIES, name + ".sql")) as f:
        return f.read()


def literal(values):
    return "{" + ",".join("null" if v is None else f'"{v}"' if isinstance(v, str) else str(v) for v in values) + "}"


class Session:
    """A session with the settings of a worker. What it costs is the processor time of its backend, as the kernel counts it."""

    def __init__(self, db):
        self.connection = psycopg2.connect(db.conninfo)
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.cursor.execute(text_of("session_setup").replace("$1::text", "'300s'").replace(", true)", ", false)"))
        self.cursor.execute("select pg_backend_pid()")
        self.schedstat = f"/proc/{self.cursor.fetchone()[0]}/schedstat"
        self.prepared = set()

    def cpu_us(self):
        with open(self.schedstat) as f:
            return int(f.read().split()[0]) / 1000

    def run(self, name, *args):
        """Microseconds of one execution, and the rows that came back."""
        if name not in self.prepared:
            self.cursor.execute(f"prepare {name} as {text_of(name)}")
            self.prepared.add(name)
        # Arrays as one literal each: reading 500 of them would cost more than what is measured.
        values = [literal(a) if isinstance(a, list) else a for a in args]
        before = self.cpu_us()
        self.cursor.execute(f"execute {name}({', '.join(['%s'] * len(args))})", values)
        return self.cpu_us() - before, self.cursor.fetchall()


# ---- what the server believes, and what is there


def fresh(db, rows):
    """Nobody has looked at the table yet."""
    db.fill(rows)


def empty(db, rows):
    """It was looked at while it was empty."""
    db.sql("analyze deferred.__deferred_hot")
    db.fill(rows)


def unclaimed(db, rows):
    """It was looked at while nothing was claimed."""
    db.fill(rows)
    db.sql("analyze deferred.__deferred_hot")


def deleted(db, rows):
    """It was looked at when nearly all had gone: the pages are there, for the last row is, and new ones go into them."""
    db.fill(100000)
    db.sql("delete from deferred.__deferred_hot where id <> (select max(id) from deferred.__deferred_hot)")
    db.sql("vacuum analyze deferred.__deferred_hot")
    db.fill(rows)


STATES = (fresh, empty, unclaimed, deleted)

# ---- the statements, each executed once for a claimed batch, or to claim one


def constant(n, *values):
    return [[v] * n for v in values]


def texts(ids, receipt):
    """What job_finish and job_retry are told of attempts that failed."""
    return [ids, *constant(len(ids), receipt, "failed", "failed on request", None, None, 1000, 500, "sample 1", 10, 5, 5, 4000, None)]


def claiming(_, receipt):
    """Without a cursor: the queue is read from its first job that is ready."""
    return [None, 1000, BATCH, WORKER, receipt, LEASE_MS, None, [], receipt, *[[]] * 7, 0, None, BATCH, 1 << 24]


STATEMENTS = {
    "job_claim": claiming,
    "job_done": lambda ids, receipt: [ids, *constant(len(ids), receipt, "1 ms", "1 ms", 1000, 10, 5, 5, 4000), "sample 1"],
    "job_finish": texts,
    "job_retry": lambda ids, receipt: [*texts(ids, receipt), [0] * len(ids), WORKER],
    "job_renew": lambda ids, receipt: [ids, *constant(len(ids), receipt, LEASE_MS)],
    "job_release": lambda ids, receipt: [ids, *constant(len(ids), receipt)],
}


def claim(db, receipt):
    """A batch, as a claim leaves it: some of those that came last."""
    return sorted(row[0] for row in db.sql(
        "update deferred.__deferred_hot set receipt = %s, worker = %s, attempt = attempt + 1, started_at = now(),"
        " visible_at = now() + interval '1 hour'"
        " where id in (select id from deferred.__deferred_hot where receipt is null order by id desc limit %s) returning id",
        receipt, WORKER, BATCH))


def measure(db, state, rows, times):
    """{statement: microseconds a job}: medians of so many batches."""
    db.clear()
    db.sql("vacuum deferred.__deferred_hot")
    db.sql("select pg_stat_reset()")
    state(db, rows)
    session, costs = Session(db), {name: [] for name in STATEMENTS}
    db.sql("insert into deferred.__deferred_worker (id, instance, host, pid, version) overriding system value values (%s, 'i', 'h', 1, '0')", WORKER)
    for receipt in range(1, times + 2):
        for name, args in STATEMENTS.items():
            db.fill(BATCH)
            ids = [] if args is claiming else claim(db, receipt)
            us, accepted = session.run(name, *args(ids, receipt))
            if len(accepted) != BATCH:
                raise Failed(f"{name}: {len(accepted)} of {BATCH} jobs were accepted")
            db.sql("delete from deferred.__deferred_hot where id = any (%s)", [row[0] for row in accepted])
            costs[name].append(us / BATCH)
    session.connection.close()
    return {name: statistics.median(us[1:]) for name, us in costs.items()}  # the first one is planned


def run(b):
    sizes = (0, 100, 1000, 10000, 100000, b.rows(1000000, 20000))
    costs = {name: {} for name in STATEMENTS}
    with b.database() as db:
        db.sql("alter table deferred.__deferred_hot set (autovacuum_enabled = false)")
        for rows in sizes if not b.quick else sizes[:4] + sizes[5:]:
            for state in STATES:
                for name, us in measure(db, state, rows, 2 * b.rounds + 1).items():
                    costs[name][state.__name__, rows] = us
            b.say(f"{rows:,} jobs beside them: " + ", ".join(
                f"{name} {max(us for (_, n), us in c.items() if n == rows):.1f} us" for name, c in costs.items()))
    for name, c in costs.items():
        (state, rows), worst = max(c.items(), key=lambda kv: kv[1])
        b.report.row(f"{name}, cheapest", min(c.values()), "us/job")
        b.report.row(f"{name}, dearest: {rows:,} jobs, {state}", worst, "us/job", min(c.values()), most=1.5)
    b.report.fact("costs_us", {name: [{"state": s, "rows": n, "us": round(us, 2)} for (s, n), us in c.items()] for name, c in costs.items()})
