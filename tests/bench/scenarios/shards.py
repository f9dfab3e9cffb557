"""The same jobs on one server, or spread over two or four, each with as many workers as cores: on
one machine a shard costs nothing of its own if the servers' processor time for a job stays what it is."""

import os

from stage import SETTINGS, Database, Stage, cpu_of, work_all

import pg

TITLE = "Jobs spread over servers of their own"
COUNTS = (1, 2, 4)


class Server(Stage):
    """One more of them, in the folder of the first."""

    def __init__(self, first, number):
        self.folder, self.run_dir, self.scripts = first.folder, first.run_dir, first.scripts
        self.cluster = pg.Cluster(
            os.path.join(first.folder, f"shard{number}"), durable=True, settings={**SETTINGS, "shared_buffers": "256MB"}
        )
        self.complaints_seen = 0
        self.cluster.start()
        self.db = Database(self, f"shard{number}", self.cluster.create_db("queue"))
        pg.migrate(self.cluster.conninfo("queue"))


def cpu_of_workers():
    return cpu_of(os.getpid(), True) - cpu_of(os.getpid(), False)


def run(b):
    jobs = b.size(240000, 8000)
    servers = [Server(b.stage, i) for i in range(max(COUNTS))]
    costs = {n: {"servers": [], "workers": []} for n in COUNTS}
    try:

        def execute(n):
            def way():
                dbs = [s.db for s in servers[:n]]
                for db in dbs:
                    db.clear()
                    db.fill(jobs // n)
                    db.settle()
                before, own = sum(s.cpu_seconds() for s in servers), cpu_of_workers()
                seconds = work_all(dbs, max(COUNTS) // n, cnt=0, batch=500)
                for db in dbs:
                    db.expect(jobs // n, 0)
                costs[n]["servers"].append((sum(s.cpu_seconds() for s in servers) - before) / jobs * 1e6)
                costs[n]["workers"].append((cpu_of_workers() - own) / jobs * 1e6)
                for s in servers:
                    s.check_log()
                return jobs / seconds

            return way

        f = b.in_turns({n: execute(n) for n in COUNTS})
    finally:
        for s in servers:
            s.db.db.close()
            s.cluster.remove()
    middle = {n: {who: sorted(us)[len(us) // 2] for who, us in of.items()} for n, of in costs.items()}
    for n in COUNTS:
        b.report.row(f"{jobs:,} jobs, {n} server(s), {max(COUNTS)} processes in all, against one", f[n], "jobs/s", f[1])
    for n in COUNTS:
        b.report.row(
            f"the servers for a job, {n} of them, against one",
            middle[n]["servers"],
            "us",
            middle[1]["servers"],
            most=1.05 if n > 1 else None,
        )
    for n in COUNTS:
        b.report.row(
            f"workers and runners for a job, {n} server(s), against one",
            middle[n]["workers"],
            "us",
            middle[1]["workers"],
        )
