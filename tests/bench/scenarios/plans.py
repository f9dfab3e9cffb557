"""The cost of the statements of the hot path on the server, with statistics of different ages. The
table was empty then, or had no lease, or had rows that have gone since.

The speed of a processor changes by half for seconds, so states that are measured one after the other
differ by that. Here each state has a database of its own. A round prepares a batch in all of them.
Then it executes the statement in each of them, within half a second. There are many rounds, and a
low percentile of each state counts. Instructions would not depend on the speed, but most virtual
machines cannot count them."""

import contextlib

import psycopg2

from stage import Failed, pg
from turns import quantile

TITLE = "Statements of the hot path, over rows and statistics"
BATCH = 500
ROUNDS = 8  # for each round asked for
SHARE = 0.2  # of a state's rounds: the slowest of the quickest fifth counts
LEASE_MS = 3600000
WORKER = 1
TABLES = (
    "deferred.__deferred_hot",
    "deferred.__deferred_lease",
    "deferred.__deferred_cursor",
)  # of which the server believes something


def text_of(name):
    return pg.source(name)


def literal(values):
    return "{" + ",".join("null" if v is None else f'"{v}"' if isinstance(v, str) else str(v) for v in values) + "}"


class Session:
    """A session with the settings of a worker. Its cost is the processor time of its backend, as the
    kernel counts it."""

    def __init__(self, conninfo):
        self.connection = psycopg2.connect(conninfo)
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.cursor.execute(text_of("session_setup").replace("$1::text", "'300s'").replace(", true)", ", false)"))
        self.cursor.execute("select pg_backend_pid()")
        self.schedstat = f"/proc/{self.cursor.fetchone()[0]}/schedstat"
        self.prepared = set()

    def cpu_us(self):
        with open(self.schedstat) as f:
            return int(f.read().split()[0]) / 1000

    def prepare(self, name):
        if name not in self.prepared:
            self.cursor.execute(f"prepare {name} as {text_of(name)}")
            self.prepared.add(name)

    def execute(self, name, *args):
        # Arrays as one literal each: reading 500 of them would cost more than what is measured.
        values = [literal(a) if isinstance(a, list) else a for a in args]
        self.cursor.execute(f"execute {name}({', '.join(['%s'] * len(args))})", values)
        return self.cursor.fetchall()

    def run(self, name, *args):
        """Microseconds of one execution, and the rows that came back."""
        self.prepare(name)
        before = self.cpu_us()
        self.cursor.execute("begin")
        rows = self.execute(name, *args)
        self.cursor.execute("commit")
        return self.cpu_us() - before, rows

    def close(self):
        self.connection.close()


# ---- what the server believes, and what is there


def fresh(db, rows):
    """Nobody has looked at the table yet."""
    db.fill(rows)


def empty(db, rows):
    """It was looked at while it was empty."""
    look(db)
    db.fill(rows)


def unclaimed(db, rows):
    """It was looked at while nothing was claimed."""
    db.fill(rows)
    look(db)


def deleted(db, rows):
    """It was looked at when nearly all had gone: the pages are there, for the last row is, and new
    ones go into them."""
    db.fill(100000)
    db.sql("delete from deferred.__deferred_hot where id <> (select max(id) from deferred.__deferred_hot)")
    db.sql("vacuum deferred.__deferred_hot")
    look(db)
    db.fill(rows)


def look(db):
    for table in TABLES:
        db.sql(f"analyze {table}")


STATES = (fresh, empty, unclaimed, deleted)

# ---- the statements: what each needs to be there, its arguments, and which jobs it settled by the
# rows that it returned


def ready(db, receipt):
    """A batch that nobody holds."""
    db.fill(BATCH)


class Held(list):
    """Ids, and where their hot rows are."""

    def __init__(self, db, ids):
        super().__init__(ids)
        self.tids = [
            r[0] for r in db.sql("select ctid::text from deferred.__deferred_hot where id = any (%s) order by id", ids)
        ]


def claimed(db, receipt):
    """A batch under a lease, as a claim leaves it: those that came last."""
    db.fill(BATCH)
    last = db.one("select last_value from deferred.__deferred_id_seq")
    ids = list(range(last - BATCH + 1, last + 1))
    db.sql(
        "insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone, expires_at)"
        " values ('default', %s, %s, %s::int8[], int8range(%s, %s, '[]'), pg_current_snapshot(), false, now() + "
        "interval '1 hour')",
        WORKER,
        receipt,
        ids,
        ids[0],
        ids[-1],
    )
    return Held(db, ids)


def constant(n, *values):
    return [[v] * n for v in values]


def texts(ids, receipt):
    """What job_finish and job_retry are told of attempts that failed."""
    return [
        ids,
        *constant(
            len(ids), receipt, "failed", "failed on request", None, None, 1000, 500, "sample 1", 10, 5, 5, 4000, None
        ),
    ]


def claiming(_, receipt):
    """As of a worker that knows no lane yet, and has to find them."""
    return [None, BATCH, 100, WORKER, LEASE_MS, 25, None, receipt, 1 << 24, [], [], 1, 1, None]


def named(ids, rows):
    """A row for each that was settled. The last row of a claim has no id."""
    return [row[0] for row in rows if row[0]]


def unless_named(ids, rows):
    """A row for each that was refused."""
    refused = {row[0] for row in rows}
    return [id for id in ids if id not in refused]


def given_back(ids, rows):
    """A row for each, and whether it was."""
    return [id for id, back in rows if back]


def renewed(ids, rows):
    """A row for each lease that was, and one for each job that is not in it any more."""
    gone = {row[0] for row in rows}
    return [id for id in ids if id not in gone] if None in gone else []


STATEMENTS = {
    "job_claim": (ready, claiming, named),
    "job_done": (
        claimed,
        lambda ids, receipt: [
            ids,
            *constant(len(ids), receipt, "1 ms", "1 ms", 1000, 10, 5, 5, 4000),
            "sample 1",
            [receipt],
            ids.tids,
        ],
        unless_named,
    ),
    "job_finish": (claimed, lambda ids, receipt: [*texts(ids, receipt), [receipt]], named),
    "job_retry": (claimed, lambda ids, receipt: [*texts(ids, receipt), *constant(len(ids), 0, 0), [receipt]], named),
    "job_renew": (claimed, lambda ids, receipt: [ids, *constant(len(ids), receipt), [receipt], [LEASE_MS]], renewed),
    "job_release": (
        claimed,
        lambda ids, receipt: [ids, *constant(len(ids), receipt), [receipt], *constant(len(ids), 0)],
        given_back,
    ),
}

# ---- measuring


class Place:
    """A state: a database in which the server believes one thing and another is there."""

    def __init__(self, db, believe, rows):
        self.db, self.name, self.rows = db, believe.__name__, rows
        # No plan depends on the disk; who waits for it stretches the round.
        db.sql(f"alter database {db.name} set synchronous_commit = off")
        db.sql("set synchronous_commit = off")
        # What is prepared and removed between the measures must not read whole tables for the wrong statistics.
        db.sql("set enable_seqscan = off")
        for table in TABLES:
            db.sql(f"alter table {table} set (autovacuum_enabled = false)")
            db.sql(f"vacuum {table}")
        db.sql("select pg_stat_reset()")
        believe(db, rows)
        db.sql(
            "insert into deferred.__deferred_worker (id, instance, host, pid, version) overriding system value "
            "values (%s, 'i', 'h', 1, '0')",
            WORKER,
        )
        self.session = Session(db.conninfo)
        self.costs_us = {name: [] for name in STATEMENTS}  # a job, each round

    def measure(self, name, ids, receipt):
        _, arguments, accepted = STATEMENTS[name]
        us, rows = self.session.run(name, *arguments(ids, receipt))
        settled = accepted(ids, rows)
        if len(settled) != BATCH:
            raise Failed(f"{name}: {len(settled)} of {BATCH} jobs were accepted")
        self.costs_us[name].append(us / BATCH)
        return settled

    def cost(self, name):
        """Without the first one, in which it is planned."""
        return quantile(sorted(self.costs_us[name][1:]), SHARE)


def measure_all(places, rounds):
    for i in range(1, rounds + 2):
        for name, (prepare, *_) in STATEMENTS.items():
            held = [prepare(place.db, i) for place in places]
            first = i % len(places)
            turn = [*range(first, len(places)), *range(first)]
            settled = {n: places[n].measure(name, held[n], i) for n in turn}
            for n, ids in settled.items():
                places[n].db.sql("delete from deferred.__deferred_hot where id = any (%s)", ids)
                places[n].db.sql("delete from deferred.__deferred_lease")


def run(b):
    sizes = [0, 100, 1000, *([] if b.quick else [10000, 100000]), b.rows(1000000, 10000)]
    with contextlib.ExitStack() as open_ones:
        places = []
        for rows in sizes:
            for believe in STATES:
                place = Place(open_ones.enter_context(b.database(f"{believe.__name__}_{rows}")), believe, rows)
                open_ones.callback(place.session.close)
                places.append(place)
            b.say(f"{rows:,} jobs filled in, {len(STATES)} times")
        measure_all(places, (2 if b.quick else ROUNDS) * b.rounds)
    for name in STATEMENTS:
        best, worst = min(places, key=lambda p: p.cost(name)), max(places, key=lambda p: p.cost(name))
        b.report.row(f"{name}, cheapest: {best.rows:,} jobs, {best.name}", best.cost(name), "us/job")
        b.report.row(
            f"{name}, dearest: {worst.rows:,} jobs, {worst.name}", worst.cost(name), "us/job", best.cost(name), most=1.5
        )
    b.report.fact(
        "costs_us",
        {
            name: [
                {
                    "state": p.name,
                    "rows": p.rows,
                    "us": round(p.cost(name), 2),
                    "rounds": [round(us, 2) for us in p.costs_us[name]],
                }
                for p in places
            ]
            for name in STATEMENTS
        },
    )
