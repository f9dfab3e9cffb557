"""Many jobs in one call of a function that takes 1 ms however many jobs it has, against a call for each job."""

TITLE = "Many jobs in one call of 1 ms"
PARAMS = '{"ms": 1}'


def run(b):
    jobs = b.size(100000, 2000)
    few = max(jobs // 20, 200)
    with b.database() as db:

        def rate(n, fn, params=PARAMS):
            def measure():
                db.clear()
                db.fill(n, fn=fn, params=params)
                db.settle()
                seconds = db.work(1, cnt=0)
                db.expect(n, 0)
                return n / seconds

            return measure

        ways = {"one": rate(few, "sleep"), "many": rate(jobs, "sleep_together"), "nothing": rate(jobs, "noop")}
        f = b.in_turns(ways)
    b.report.row(f"{few:,} jobs, a call of 1 ms for each", f["one"], "jobs/s")
    b.report.row(f"{jobs:,} jobs, up to 100 in a call of 1 ms, against that", f["many"], "jobs/s", f["one"], least=20)
    b.report.row(f"{jobs:,} jobs, the same against jobs that do nothing", f["many"], "jobs/s", f["nothing"], least=0.4)
