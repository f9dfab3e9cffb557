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

        ways = {f"{n} runner(s)": measure(n) for n in (1, 2, 4)}
        bare = "the smallest program that forks and waits"
        f = b.in_turns({bare: lambda: float(b.stage.program("fork_min", jobs)[0]), **ways})
    best = max(ways, key=f.get)
    b.report.row(f"{jobs:,} times, {bare}", f[bare], "forks/s")
    for name in ways:
        b.report.row(
            f"{jobs:,} jobs, {name}, against that", f[name], "jobs/s", f[bare], least=0.5 if name == best else None
        )
