"""No-op jobs: over batch size and number of processes, against plain SQL that does the same row work."""

import svg
from plain import WAYS, Plain, window_of

TITLE = "Executing no-op jobs"
BATCHES = (100, 250, 500, 1000, 2000)
PROCESSES = (1, 2, 4)


def run(b):
    jobs = b.size(1000000, 20000)
    some = max(jobs // 10, 4000)  # executed at each point of the grid, from a backlog of `jobs`
    batches, processes = ((100, 500), (1, 2)) if b.quick else (BATCHES, PROCESSES)
    with b.database() as db:
        plain = Plain(db)
        db.fill(jobs)
        plain.fill(jobs)

        def ours(n, batch):
            def measure():
                db.clear_log()
                db.fill(jobs - db.ready())
                db.settle()
                seconds = db.work(n, cnt=some // n, batch=batch)
                db.expect(some // n * n, jobs - some // n * n)
                return some // n * n / seconds
            return measure

        def theirs(way, n, batch):
            def measure():
                plain.top_up(jobs)
                db.settle()
                return plain.work(way, n, batch, some)
            return measure

        grid = {}
        for n in processes:
            for batch in batches:
                b.say(f"{n} process(es) or connections, batch {batch}")
                f = b.in_turns({"check_deferred": ours(n, batch), **{f"plain {w}": theirs(w, n, batch) for w in WAYS}}, min(b.rounds, 2))
                grid[n, batch] = f["check_deferred"], max((f[f"plain {w}"], w) for w in WAYS)
        our_n, our_batch = max(grid, key=lambda k: grid[k][0])
        plain_n, plain_batch = max(grid, key=lambda k: grid[k][1])
        way = grid[plain_n, plain_batch][1][1]
        b.best.update(processes=our_n, batch=our_batch)
        b.say(f"best: {our_n} process(es) with batch {our_batch}; plain SQL: {plain_n} connection(s) with batch {plain_batch}, way {way}")

        def all_ours():
            db.clear()
            plain.clear()
            db.fill(jobs)
            db.settle()
            seconds = db.work(our_n, cnt=0, batch=our_batch)
            db.expect(jobs, 0)
            return jobs / seconds

        def all_plain():
            db.clear()
            plain.clear()
            plain.fill(jobs)
            db.settle()
            return plain.work(way, plain_n, plain_batch, jobs)

        f = b.in_turns({"plain": all_plain, "ours": all_ours})
    r = b.report
    r.row(f"{jobs:,} jobs, plain SQL: {plain_n} connection(s), batch {plain_batch}", f["plain"], "jobs/s")
    r.row(f"{jobs:,} jobs, check_deferred: {our_n} process(es), batch {our_batch}", f["ours"], "jobs/s", f["plain"], least=0.9)
    for (n, batch), (mine, (other, _)) in grid.items():
        r.row(f"{some:,} of them, {n} process(es), batch {batch}, against plain SQL", mine, "jobs/s", other)
    r.fact("grid", [{"processes": n, "batch": batch, "plain_window": window_of(batch), "check_deferred": round(mine), "plain": round(other),
                     "plain_way": w} for (n, batch), (mine, (other, w)) in grid.items()])
    r.chart(svg.lines, "", "No-op jobs executed, over batch size", "jobs a batch", "jobs a second",
            [(f"check_deferred x {n}", [(batch, grid[n, batch][0]) for batch in batches], "", i) for i, n in enumerate(processes)]
            + [(f"plain SQL x {n}", [(batch, grid[n, batch][1][0]) for batch in batches], "dashed", i) for i, n in enumerate(processes)],
            log_x=True)
