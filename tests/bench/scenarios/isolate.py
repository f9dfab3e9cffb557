"""The same through `--isolate job`: a process of its own for each attempt."""

TITLE = "Executing no-op jobs, each in a process of its own (--isolate job)"


def run(b):
    jobs = b.size(15000, 1000)
    with b.database() as db:
        def measure(runners):
            def way():
                db.clear()
                db.fill(jobs)
                db.settle()
                seconds = db.work(1, cnt=0, isolate="job", runners=runners)
                db.expect(jobs, 0)
                return jobs / seconds
            return way

        f = b.in_turns({f"{n} runner(s)": measure(n) for n in (1, 2, 4)})
    best = max(f, key=f.get)
    for name, value in f.items():
        b.report.row(f"{jobs:,} jobs, {name}", value, "jobs/s", value_least=3000 if name == best else None)
