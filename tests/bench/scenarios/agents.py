"""Many instances of check_deferred on one queue: they are not to stand in each other's way."""

import svg
from stage import Failed

TITLE = "Instances at once on one queue"
COUNTS = (1, 2, 4, 8, 16, 32, 50)
AIMS = {16: 0.95, 50: 0.9}


def run(b):
    jobs = b.size(500000, 10000)
    with b.database() as db:
        def measure(n):
            def way():
                db.clear()
                db.fill(jobs)
                db.settle()
                before = db.deadlocks()
                seconds = db.work(n, cnt=0, batch=b.best["batch"])  # fails on any line in a log, any exit status but 0
                db.expect(jobs, 0)
                if db.deadlocks() != before:
                    raise Failed(f"{n} instances: {db.deadlocks() - before} deadlocks")
                return jobs / seconds
            return way

        f = b.in_turns({n: measure(n) for n in COUNTS})
    best = max(f.values())
    for n, value in f.items():
        b.report.row(f"{jobs:,} jobs, {n} instance(s), against the best number", value, "jobs/s", best,
                     least=AIMS.get(n), quote=n == 50)
    b.report.chart(svg.lines, "", "No-op jobs executed, over number of instances", "instances of check_deferred", "jobs a second",
                   [("one queue", list(f.items()))], log_x=True)
