"""A log of many millions of rows: no claim, status page, list or purge is to notice it."""

import os
import statistics
import subprocess
import time

import pg
import svg
from stage import Failed, base_env

TITLE = "A long history"
WEEKS = 12
STAMP = "to_char(date_trunc('week', now() at time zone 'UTC') - {0} * interval '1 week', 'YYYY-MM-DD')"


def partitions(db):
    """Adds those of the weeks gone by; returns their names and that of this week, oldest first."""
    names = []
    db.sql("set role deferred_owner")  # who owns all of them
    for back in range(WEEKS, -1, -1):
        low, high = db.sql(f"select {STAMP.format(back)}, {STAMP.format(back - 1)}")[0]
        name = "__deferred_log_" + low.replace("-", "")
        if back > 0:
            db.sql(
                "select deferred.__add_partition('__deferred_log', %s, 'finished_at', %s, %s)",
                name,
                low + " 00:00:00+00",
                high + " 00:00:00+00",
            )
        names.append((name, low, high))
    db.sql("reset role")
    return names


def fill(b, db, names, rows):
    """One insert a partition, without going through us: jobs that are done and purged, their attempts still there."""
    first = 1
    for i, (name, low, high) in enumerate(names):
        some = rows // len(names)
        db.sql(
            f"""insert into deferred.{name} (job_id, attempt, outcome, final, started_at, finished_at, worker,
                receipt, plugin,
                wait_us, run_us, user_us, sys_us, max_rss_kb)
            select {first} + n, 1, 'ok', true, at, at, 1, n, 'sample', 1, 1, 1, 1, 5000
            from (select '{low} 00:00+00'::timestamptz as low, least('{high} 00:00+00', now()) as high) week,
                 generate_series(0, {some} - 1) n, lateral (select low + (high - low) * (n::float8 / {some}) as at) t"""
        )
        first += some
        b.say(f"history: {first - 1:,} of {rows:,} rows")
    db.sql("select setval('deferred.__deferred_id_seq', %s, false)", first)
    db.sql("select deferred.maintain()")
    return first - 1


def run(b):
    rows, some = b.rows(10000000, 52000), b.size(100000, 5000)
    with b.database("empty") as empty, b.database("full") as full:
        partitions(empty)
        names = partitions(full)
        old = fill(b, full, names, rows)
        b.say("history: vacuum")
        full.settle()

        def execute(db, history):
            def way():
                known = db.one("select coalesce(max(id), %s) from deferred.__deferred", history)
                db.fill(some)
                db.sql("analyze deferred.__deferred_hot")
                db.sql("checkpoint")
                n = b.best["processes"]
                seconds = db.work(n, cnt=0, batch=b.best["batch"])
                done, jobs = db.sql(
                    "select count(*), count(distinct job_id) from deferred.__deferred_log"
                    " where job_id > %s and outcome = 'ok'",
                    known,
                )[0]
                if (done, jobs, db.ready()) != (some, some, 0):
                    raise Failed(
                        f"{some} jobs were to be done, the log has {done} rows of {jobs}; {db.ready()} are left"
                    )
                return some / seconds

            return way

        f = b.in_turns({"empty": execute(empty, 0), "full": execute(full, old)})
        r = b.report
        r.row(f"{some:,} jobs, history empty in the beginning", f["empty"], "jobs/s")
        r.row(f"{some:,} jobs, {old:,} rows of history", f["full"], "jobs/s", f["empty"], least=0.9)
        times = []
        for args in (
            ["status"],
            ["ls"],
            ["ls", "--state", "done"],
            ["ls", "--state", "dead"],
            ["purge", "--older-than", "3650d"],
        ):
            t = {
                name: statistics.median(command(db, args) for _ in range(3 if b.quick else 9))
                for name, db in (("empty", empty), ("full", full))
            }
            name = "deferred " + " ".join(args)
            r.row(f"{name}, {old:,} rows", t["full"], "ms", t["empty"], most=1.5)
            times.append((name, t))
        span = f"{7 * (WEEKS - 2)}d"
        t = {name: command(db, ["purge", "--older-than", span]) for name, db in (("empty", empty), ("full", full))}
        gone = old - full.one("select count(*) from deferred.__deferred_log where job_id <= %s", old)
        if gone == 0:
            raise Failed(f"purge --older-than {span} left all of the history")
        r.row(f"deferred purge --older-than {span}, {gone:,} rows go, against none", t["full"], "ms", t["empty"])
        r.chart(
            svg.bars,
            "",
            f"With {old:,} rows of history",
            "",
            "milliseconds",
            [n.replace("deferred ", "") for n, _ in times],
            [
                ("empty in the beginning", [t["empty"] for _, t in times]),
                (f"{old:,} rows", [t["full"] for _, t in times]),
            ],
        )


def command(db, args):
    """Milliseconds of an admin command."""
    start = time.monotonic()
    done = subprocess.run(
        [os.path.join(pg.BUILD, "bin", "deferred"), "--db", db.conninfo, *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=base_env(),
    )
    if done.returncode != 0:
        raise Failed(f"deferred {' '.join(args)}: exit status {done.returncode}\n{done.stderr}")
    return (time.monotonic() - start) * 1000
