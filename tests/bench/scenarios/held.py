"""Under a held snapshot dead rows stay: what has been executed must not slow down what follows."""

import contextlib
import statistics

import psycopg2

import svg
from plain import Plain

TITLE = "Executing while somebody keeps dead rows from being removed"
SMALL_BATCH = 20
HOLDERS = {"nobody": "nothing held", "reader": "a held REPEATABLE READ reader", "writer": "an open writing transaction"}


@contextlib.contextmanager
def held(db, what, own):
    """Another session in a transaction. The writer has deferred `own` jobs in it, and commits in the end."""
    if what == "nobody":
        yield
        return
    other = psycopg2.connect(db.conninfo)
    try:
        with other.cursor() as cursor:
            if what == "reader":
                other.set_session(isolation_level="REPEATABLE READ")
                cursor.execute("select id from deferred.__deferred_hot limit 1")
            else:
                cursor.execute(
                    "select count(deferred.defer('noop', '{\"late\": 1}')) from generate_series(1, %s)", (own,)
                )
            yield
        other.commit()
    finally:
        other.close()


def over_time(db, table, worker="()"):
    """[(second, jobs/s)] of whole seconds, or tenths where there are few; and jobs/s of the last
    fifth. Attempts after the end of the first worker do not count, because then fewer workers share
    the machine.
    """
    seconds, n, late = db.sql(
        f"with e as (select min(z) as z from (select max(finished_at) as z from {table} group by {worker}) w),"
        " t as (select min(finished_at) as a, max(finished_at) as z, count(*) as n,"
        f" percentile_disc(0.8) within group (order by finished_at) as late from {table}, e where finished_at <= e.z)"
        " select extract(epoch from z - a)::float8, n, extract(epoch from z - late)::float8 from t"
    )[0]
    width = 1.0 if seconds >= 5 else 0.1
    buckets = dict(
        db.sql(
            "select floor(extract(epoch from l.finished_at - t.a) / %s)::int8, count(*)"
            f" from {table} l, (select min(finished_at) as a from {table}) t group by 1",
            width,
        )
    )
    whole = max(int(seconds / width), 1)  # the last one is cut off
    return [((i + 1) * width, buckets.get(i, 0) / width) for i in range(whole)], n * 0.2 / max(late, 1e-3)


def run(b):
    jobs = b.size(1250000, 25000)  # the last fifth comes after 1 M
    r = b.report
    with b.database() as db:
        curves = work_held(b, db, jobs, b.best["batch"])
        work_held(b, db, jobs // 5, SMALL_BATCH)
        b.say("plain SQL under the reader, to compare")
        plain = Plain(db)
        plain.fill("two", jobs)
        db.settle()
        with held(db, "reader", 0):
            plain.work("two", 2, 100, seconds=1 if b.quick else 10)
        curves["plain"], _ = over_time(db, "plain.log")
    tail = curves["plain"]
    r.row(
        f"skip-locked plain SQL, batch 100, reader: after {tail[-1][0]:.1f} s against the beginning",
        tail[-1][1],
        "jobs/s",
        tail[0][1],
    )
    r.fact("over_time", curves)
    r.chart(
        svg.lines,
        "",
        "No-op jobs executed under a held snapshot",
        "seconds",
        "jobs a second",
        [(text, curves[what]) for what, text in HOLDERS.items()] + [("plain SQL, reader", curves["plain"], "dashed")],
        dots=False,
    )


def work_held(b, db, jobs, batch):
    """The rows of one size of batch; returns the curve of each holder's last round."""
    rest, own, n = 1000, 1000, b.best["processes"]
    curves = {}
    lasts, wholes, starts, idle_starts = ({k: [] for k in HOLDERS} for _ in range(4))
    for i in range(b.rounds):
        for what in list(HOLDERS)[i % 3 :] + list(HOLDERS)[: i % 3]:
            db.clear()
            db.fill(jobs + rest)
            db.settle()
            with held(db, what, own):
                seconds = db.work(n, cnt=jobs // n, batch=batch)
                done = jobs // n * n
                db.expect(done, jobs + rest - done)
                curve, last = over_time(db, "deferred.__deferred_log", "worker")
                starts[what].append(db.work(1, cnt=0) * 1000)
                db.expect(jobs + rest, 0)
                idle_starts[what].append(db.work(1, cnt=0) * 1000)
            if what == "writer":  # what it deferred comes to light behind all the others, and is not to be missed
                db.work(1, cnt=0)
                db.expect(jobs + rest + own, 0)
            wholes[what].append(done / seconds)
            lasts[what].append(last)
            curves[what] = curve
            b.say(
                f"round {i + 1} of {b.rounds}, batch {batch}, {HOLDERS[what]}: {done / seconds:,.0f}/s, in the last "
                f"fifth {last:,.0f}/s"
            )
    for name, unit, figures, least in (
        (f"last fifth of {jobs:,} jobs, batch {batch}", "jobs/s", lasts, 0.95),
        (f"all of them, batch {batch}", "jobs/s", wholes, None),
        (f"the next start, {rest:,} jobs", "ms", starts, None),
        ("the start after that, nothing due", "ms", idle_starts, None),
    ):
        median = {what: statistics.median(values) for what, values in figures.items()}
        for what, text in HOLDERS.items():
            base = None if what == "nobody" else median["nobody"]
            b.report.row(f"{name}, {text}", median[what], unit, base, least=least if base else None)
    return curves
