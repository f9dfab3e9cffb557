"""Batches of one, as a worker claims that has long jobs: what a claim costs is all there is."""

from plain import SKIP_LOCKED, Plain

TITLE = "Claims of one job, many workers"
WORKERS = 16
# What claims that updated each row came to here (217/s, skip-locked SQL 868, median of 3 rounds on
# a busy machine): those under a lease are not to come to less.
BEFORE = 0.25


def run(b):
    jobs = b.size(24000, 1600) // WORKERS * WORKERS
    with b.database() as db:
        plain = Plain(db)

        def ours():
            db.clear()
            db.fill(2 * jobs)
            db.settle()
            seconds = db.work(WORKERS, cnt=jobs // WORKERS, batch=1)
            db.expect(jobs, jobs)
            return jobs / seconds

        def theirs(way):
            def measure():
                plain.top_up(way, 2 * jobs)
                db.settle()
                return plain.work(way, WORKERS, 1, jobs)[0]

            return measure

        f = b.in_turns({"ours": ours, **{way: theirs(way) for way in (*SKIP_LOCKED, "lease")}})
    way = max(SKIP_LOCKED, key=f.get)
    r = b.report
    r.row(f"{jobs:,} jobs one by one, {WORKERS} connections, skip-locked plain SQL, way {way}", f[way], "claims/s")
    r.row(f"{jobs:,} jobs one by one, {WORKERS} connections, plain SQL of our design, no draw", f["lease"], "claims/s")
    r.row(
        f"{jobs:,} jobs one by one, {WORKERS} workers, against skip-locked", f["ours"], "claims/s", f[way], least=BEFORE
    )
    r.row(f"{jobs:,} jobs one by one, {WORKERS} workers, against our design", f["ours"], "claims/s", f["lease"])
