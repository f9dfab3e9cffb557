"""Jobs that no worker can run, in many queues: executing others must not get slower.

Each queue has a key that is taken, because its first job waits for a retry, and a key of an unknown function. One
queue more, which is also that of the jobs executed, has jobs of unknown functions, each of another one.
"""

import statistics

TITLE = "Beside keyed jobs in many queues and jobs of unknown functions"
DEFER = (
    "select count(*) from deferred.defer_many((select json_agg(json_build_object({})) from generate_series(%s, %s) i))"
)
BATCH = 5000


def fill(db, queues, unknown):
    """Returns how many jobs that makes."""
    for first in range(1, queues + 1, BATCH):
        last = min(first + BATCH - 1, queues)
        for job in (
            "'fn', 'noop', 'concurrency_key', 'taken'",
            "'fn', 'noop', 'concurrency_key', 'taken'",
            "'fn', 'nosuch', 'concurrency_key', 'unknown'",
        ):
            db.sql(DEFER.format(job + ", 'queue', 'crowd' || i"), first, last)
    db.sql(
        "update deferred.__deferred_hot set attempt = 1, due_at = 'infinity' where id in (select min(id)"
        " from deferred.__deferred_hot where limited and fn = 'noop' group by queue)"
    )
    for first in range(1, unknown + 1, BATCH):
        db.sql(DEFER.format("'fn', 'nosuch' || i"), first, min(first + BATCH - 1, unknown))
    return 3 * queues + unknown


def run(b):
    some, queues, unknown = b.size(200000, 10000), 100 if b.quick else 999, b.rows(40000, 2000)
    server_us = {"alone": [], "crowd": []}
    with b.database("alone") as alone, b.database("crowd") as crowd:
        others = {alone: 0, crowd: fill(crowd, queues, unknown)}

        def execute(name, db, processes=b.best["processes"]):
            def way():
                db.clear_log()
                db.fill(some)
                db.settle()
                before = b.stage.cpu_seconds()
                seconds = db.work(processes, cnt=0, batch=b.best["batch"])
                server_us[name].append((b.stage.cpu_seconds() - before) / some * 1e6)
                db.expect(some, others[db])
                return some / seconds

            return way

        first = execute("crowd", crowd, 1)()
        server_us["crowd"].clear()
        f = b.in_turns({"alone": execute("alone", alone), "crowd": execute("crowd", crowd)})
    us = {name: statistics.median(values) for name, values in server_us.items()}
    row = b.report.row
    row(f"{some:,} jobs, while {unknown:,} of unknown functions are set aside, 1 process", first, "jobs/s")
    row(f"{some:,} jobs beside these, and keyed ones in {queues} queues", f["crowd"], "jobs/s", f["alone"], least=0.9)
    row("  the server for a job", us["crowd"], "us", us["alone"])
