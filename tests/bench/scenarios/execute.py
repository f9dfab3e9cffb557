"""No-op jobs: over batch size and number of processes, against plain SQL that does the same row
work, in both designs."""

import os
import os
import statistics

import svg
from plain import SKIP_LOCKED, WAYS, Plain, window_of

TITLE = "Executing no-op jobs"
BATCHES = (100, 250, 500, 1000, 2000)
PROCESSES = (1, 2, 4)
CPU_BATCH = 500  # at which the server's processor time for a job is looked at


def run(b):
    jobs = b.size(1000000, 20000)
    some = max(jobs // 10, 4000)  # executed at each point of the grid, from a backlog of `jobs`
    batches, processes = ((100, CPU_BATCH), (1, 2)) if b.quick else (BATCHES, PROCESSES)
    cpu_us = {}  # (way, processes, batch): microseconds of the server a job, each round
    with b.database() as db:
        plain = Plain(db)

        def charge(way, n, batch, us):
            cpu_us.setdefault((way, n, batch), []).append(us)

        def ours(n, batch):
            def measure():
                db.clear_log()
                db.fill(jobs - db.ready())
                db.settle()
                before = b.stage.cpu_seconds()
                seconds = db.work(n, cnt=some // n, batch=batch)
                charge("ours", n, batch, (b.stage.cpu_seconds() - before) / (some // n * n) * 1e6)
                db.expect(some // n * n, jobs - some // n * n)
                return some // n * n / seconds

            return measure

        def theirs(way, n, batch):
            def measure():
                plain.top_up(way, jobs)
                db.settle()
                rate, us = plain.work(way, n, batch, some)
                charge(way, n, batch, us)
                return rate

            return measure

        grid = {}  # (processes, batch): {"ours", "skip", "lease": jobs/s, "way": the faster one of skip-locked}
        for n in processes:
            for batch in batches:
                b.say(f"{n} process(es) or connections, batch {batch}")
                f = b.in_turns({"ours": ours(n, batch), **{w: theirs(w, n, batch) for w in WAYS}}, min(b.rounds, 2))
                way = max(SKIP_LOCKED, key=f.get)
                grid[n, batch] = {"ours": f["ours"], "skip": f[way], "lease": f["lease"], "way": way}
        best = {kind: max(grid, key=lambda k, kind=kind: grid[k][kind]) for kind in ("ours", "skip", "lease")}
        way = grid[best["skip"]]["way"]
        b.best.update(processes=best["ours"][0], batch=best["ours"][1])
        b.say(
            "best, processes or connections and batch: "
            + ", ".join(f"{kind} {k}" for kind, k in best.items())
            + f", skip-locked by way {way}"
        )

        def all_ours():
            db.clear()
            plain.clear()
            db.fill(jobs)
            db.settle()
            seconds = db.work(best["ours"][0], cnt=0, batch=best["ours"][1])
            db.expect(jobs, 0)
            return jobs / seconds

        def all_plain(kind, way):
            def measure():
                db.clear()
                plain.clear()
                plain.fill(way, jobs)
                db.settle()
                return plain.work(way, *best[kind], jobs)[0]

            return measure

        f = b.in_turns({"skip": all_plain("skip", way), "lease": all_plain("lease", "lease"), "ours": all_ours})
    r = b.report
    at = {
        kind: f"{n} {'process(es)' if kind == 'ours' else 'connection(s)'}, batch {batch}"
        for kind, (n, batch) in best.items()
    }
    r.row(f"{jobs:,} jobs, skip-locked plain SQL: {at['skip']}", f["skip"], "jobs/s")
    r.row(f"{jobs:,} jobs, plain SQL of our design: {at['lease']}", f["lease"], "jobs/s")
    r.row(f"{jobs:,} jobs, {at['ours']}, against skip-locked", f["ours"], "jobs/s", f["skip"], least=1.2)
    r.row(f"{jobs:,} jobs, {at['ours']}, against our design", f["ours"], "jobs/s", f["lease"], least=0.65)
    for n in processes:
        us = {w: statistics.median(cpu_us[w, n, CPU_BATCH]) for w in ("ours", *WAYS)}
        r.row(
            f"the server for a job, {n} process(es), batch {CPU_BATCH}, against our design",
            us["ours"],
            "us",
            us["lease"],
            value_most=9 if n <= os.cpu_count() else None,
        )
        r.row(f"  skip-locked plain SQL, way {min(SKIP_LOCKED, key=us.get)}", min(us[w] for w in SKIP_LOCKED), "us")
    for kind, name in (("skip", "skip-locked"), ("lease", "our design")):
        for (n, batch), point in grid.items():
            r.row(
                f"{some:,} of them, {n} process(es), batch {batch}, against {name}",
                point["ours"],
                "jobs/s",
                point[kind],
            )
    r.fact(
        "grid",
        [
            {
                "processes": n,
                "batch": batch,
                "plain_window": window_of(batch),
                "plain_way": p["way"],
                **{kind: round(p[kind]) for kind in best},
                "server_us": {w: [round(us, 2) for us in cpu_us[w, n, batch]] for w in ("ours", *WAYS)},
            }
            for (n, batch), p in grid.items()
        ],
    )
    for kind, suffix, name in (("skip", "", "skip-locked"), ("lease", "design", "our design in SQL")):
        r.chart(
            svg.lines,
            suffix,
            "No-op jobs executed, over batch size",
            "jobs a batch",
            "jobs a second",
            [
                (f"check_deferred x {n}", [(batch, grid[n, batch]["ours"]) for batch in batches], "", i)
                for i, n in enumerate(processes)
            ]
            + [
                (f"{name} x {n}", [(batch, grid[n, batch][kind]) for batch in batches], "dashed", i)
                for i, n in enumerate(processes)
            ],
            log_x=True,
        )
