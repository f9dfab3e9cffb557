"""Many instances of check_deferred on one queue: they are not to stand in each other's way."""

import svg
from stage import Failed

TITLE = "Instances at once on one queue"
COUNTS = (1, 2, 4, 8, 16, 32, 50)
AIMS = {16: 0.95, 50: 0.9}


def run(b):
    jobs, many, few = b.size(500000, 10000), b.size(1000000, 20000), b.size(5000, 500)
    with b.database() as db:

        def measure(n, jobs):
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

        f = b.in_turns({n: measure(n, jobs) for n in COUNTS})
        longer = b.in_turns({n: measure(n, many) for n in (2, COUNTS[-1])})
        start = few / b.in_turns({COUNTS[-1]: measure(COUNTS[-1], few)})[COUNTS[-1]] / COUNTS[-1]
    best = max(f.values())
    for n, value in f.items():
        b.report.row(
            f"{jobs:,} jobs, {n} instance(s), against the best number", value, "jobs/s", best, least=AIMS.get(n)
        )
    # What a start costs is paid once each, and 50 of them cost as much as some hundred thousand
    # jobs: so where there is more to do, they are nearer.
    b.report.row(f"{many:,} jobs, {COUNTS[-1]} instances, against 2", longer[COUNTS[-1]], "jobs/s", longer[2])
    b.report.row(f"a start, of {COUNTS[-1]} at once that share {few:,} jobs", start * 1000, "ms")
    b.report.chart(
        svg.lines,
        "",
        "No-op jobs executed, over number of instances",
        "instances of check_deferred",
        "jobs a second",
        [("one queue", list(f.items()))],
        log_x=True,
    )
