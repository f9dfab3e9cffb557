"""`make bench`: what the project costs, as ratios to plain PostgreSQL measured in the same run.

    bench.py [--quick] [--only execute,defer,bulk,start]

A private server with durable settings is started for it. What is compared runs in turns, several rounds;
the median counts. Figures go to the terminal and to build/bench/bench.json.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "harness"))

import psycopg2  # noqa: E402

import pg  # noqa: E402

PROGRAMS = os.path.join(pg.BUILD, "tests", "bench")
SETTINGS = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "256MB", "max_wal_size": "4GB",
            "checkpoint_timeout": "30min", "jit": "off"}

# The plans check_deferred asks for too.
PLANNER = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c enable_bitmapscan=off"

# What is compared with deferred.defer(): one row, and the two rows with all their indexes, both bare.
SQL = {
    "bare": "insert into bare (queue, fn, params) values ('default', 'noop', '{\"n\": 1}');",
    "rows": "with i as (select nextval('plain.id') as id), h as (insert into plain.hot (id, queue, fn, visible_at)"
            " select id, 'default', 'noop', now() from i) insert into plain.job (id, queue, fn, params)"
            " select id, 'default', 'noop', '{\"n\": 1}' from i;",
    "sql": "select deferred.defer('noop', '{\"n\": 1}');",
}
SCHEMA = """
create table bare (id bigint generated always as identity primary key, queue text not null, fn text not null, params json not null,
    created_at timestamptz not null default clock_timestamp());
create schema plain;
create sequence plain.id;
create table plain.hot (like deferred.__deferred_hot including defaults including indexes)
    with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
create table plain.job (like deferred.__deferred including defaults, primary key (id));
create table plain.log (like deferred.__deferred_log including defaults);
create index on plain.log (job_id);
"""
EMPTY = ("truncate bare, plain.hot, plain.job, plain.log, deferred.__deferred, deferred.__deferred_hot, deferred.__deferred_log,"
         " deferred.__deferred_worker")


class Bench:
    def __init__(self, quick):
        self.quick = quick
        self.rounds = 1 if quick else 3
        self.seconds = 1 if quick else 4
        self.jobs = 20000 if quick else 200000
        self.starts = 10 if quick else 40
        self.figures = {}

    def open(self, folder):
        os.chmod(folder, 0o711)
        self.folder = folder
        self.cluster = pg.Cluster(os.path.join(folder, "pg"), durable=True, settings=SETTINGS).start()
        self.conninfo = self.cluster.create_db("bench")
        pg.migrate(self.conninfo)
        self.db = psycopg2.connect(self.conninfo)
        self.db.autocommit = True
        self.sql(SCHEMA)
        self.run_dir = os.path.join(folder, "run")
        os.mkdir(self.run_dir, 0o700)
        for name, text in SQL.items():
            with open(os.path.join(folder, name + ".sql"), "w") as f:
                f.write(text + "\n")

    def close(self):
        self.db.close()
        self.cluster.remove()

    def sql(self, query):
        with self.db.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchall() if cursor.description else []

    def settle(self):
        """The same start for what is measured next."""
        self.sql("vacuum analyze")
        self.sql("checkpoint")

    def program(self, *args):
        done = subprocess.run([os.path.join(PROGRAMS, args[0]), *map(str, args[1:])], capture_output=True, text=True,
                              env={"PATH": "/usr/bin:/bin", "DEFERRED_CONFIG": "/dev/null"})
        if done.returncode != 0:
            sys.exit(f"bench: {args[0]}: {done.stderr}")
        return done.stdout

    def pgbench(self, script, clients, *args, options=""):
        """Returns transactions per second."""
        text = pg.call([os.path.join(pg.bindir(), "pgbench"), "-n", "-M", "prepared", "-c", str(clients), "-j", str(min(clients, 2)),
                        "-f", script, *map(str, args), f"{self.conninfo} options='{options}'"])
        return float(re.search(r"tps = ([\d.]+)", text).group(1))

    def in_turns(self, ways, rounds=None):
        """Measure each way once a round, in changing order. Returns the median of each by name."""
        figures = {name: [] for name in ways}
        for i in range(rounds or self.rounds):
            names = list(ways)[i % len(ways):] + list(ways)[:i % len(ways)]
            for name in names:
                figures[name].append(ways[name]())
                if sys.stderr.isatty():
                    print(f"\r{name} ...", end="\r\033[K", file=sys.stderr, flush=True)
        return {name: statistics.median(values) for name, values in figures.items()}

    # ---- what is measured

    def check_deferred(self):
        return [os.path.join(pg.BUILD, "bin", "check_deferred"), "--db", self.conninfo, "--pidfile", os.path.join(self.run_dir, "pid"),
                "--plugin-dir", os.path.join(pg.BUILD, "plugins"), "--config", "/dev/null"]

    def execute_ours(self):
        self.sql(EMPTY)
        self.sql(f"select count(*) from deferred.__enqueue_many(array_fill('noop'::text, array[{self.jobs}]),"
                 f" array_fill('{{\"n\": 1}}'::json, array[{self.jobs}]), null, null, null, null, null, null, null, null, null,"
                 " null, null, null, null, null)")
        self.settle()
        start = time.monotonic()
        done = subprocess.run(self.check_deferred() + ["--cnt", "0", "--runners", "2", "--log-level", "error"], capture_output=True, text=True,
                              timeout=600)
        seconds = time.monotonic() - start
        count = self.sql("select count(*), count(distinct job_id) from deferred.__deferred_log where outcome = 'ok'")[0]
        if done.returncode != 0 or count != (self.jobs, self.jobs):
            sys.exit(f"bench: check_deferred: exit status {done.returncode}, {count} of {self.jobs} jobs done\n{done.stderr}")
        return self.jobs / seconds

    def execute_plain(self):
        self.sql(EMPTY)
        self.sql(f"insert into plain.job (id, queue, fn, params) select n, 'default', 'noop', '{{\"n\": 1}}' from generate_series(1, {self.jobs}) n")
        self.sql(f"insert into plain.hot (id, queue, fn, visible_at) select n, 'default', 'noop', now() from generate_series(1, {self.jobs}) n")
        self.settle()
        start = time.monotonic()
        self.pgbench(os.path.join(HERE, "plain.sql"), 2, "-t", self.jobs // 200, options=PLANNER)
        seconds = time.monotonic() - start
        count = self.sql("select count(*) from plain.log")[0][0]
        if count < self.jobs * 0.99:
            sys.exit(f"bench: plain SQL did {count} of {self.jobs} jobs")
        return count / seconds

    def execute(self):
        f = self.in_turns({"plain": self.execute_plain, "ours": self.execute_ours})
        title(f"Executing {self.jobs} no-op jobs", "jobs/s")
        self.row("execute", "plain SQL, pgbench, 2 connections, batches of 100", f["plain"])
        self.row("execute", "check_deferred --cnt 0 --runners 2", f["ours"], f["plain"], 0.7)

    def defer(self):
        title("One defer a transaction", "calls/s")
        for clients in (1, 4, 16):
            def pgbench(name):
                def way():
                    self.sql(EMPTY)
                    self.settle()
                    return self.pgbench(os.path.join(self.folder, name + ".sql"), clients, "-T", self.seconds)
                return way

            def library():
                self.sql(EMPTY)
                self.settle()
                return float(self.program("defer_loop", self.conninfo, "single", clients, self.seconds))

            f = self.in_turns({"bare": pgbench("bare"), "rows": pgbench("rows"), "sql": pgbench("sql"), "c": library})
            many = f"{clients} client{'s' if clients > 1 else ''}"
            self.row("defer", f"{many}: INSERT of one row, pgbench", f["bare"])
            self.row("defer", f"{many}: INSERT of the two rows, pgbench", f["rows"], f["bare"])
            self.row("defer", f"{many}: deferred_defer()", f["c"], f["bare"], 0.8)
            self.row("defer", f"{many}: deferred.defer(), pgbench", f["sql"], f["bare"])

    def bulk(self):
        def way(kind):
            def measure():
                self.sql(EMPTY)
                self.settle()
                return float(self.program("defer_loop", self.conninfo, kind, self.jobs))
            return measure

        f = self.in_turns({"copy": way("copy"), "bulk": way("bulk")})
        title(f"{self.jobs} calls at once", "calls/s")
        self.row("bulk", "COPY into one table", f["copy"])
        self.row("bulk", "deferred_defer_many()", f["bulk"], f["copy"])

    def start(self):
        self.sql(EMPTY)
        self.settle()
        text = self.program("spawn", self.starts, "--", os.path.join(PROGRAMS, "libpq_min"), self.conninfo, "--", *self.check_deferred())
        runs = [[int(v) for v in line.split()] for line in text.splitlines()]
        title("A start with nothing due", "")
        for column, name, unit, factor in ((1, "wall time", "ms", 1000), (2, "processor time", "ms", 1000), (3, "peak memory", "MiB", 1024)):
            least, ours = (statistics.median(r[column] for r in runs if r[0] == n) / factor for n in (0, 1))
            self.row("start", f"{name}, smallest libpq program, {unit}", least)
            self.row("start", f"{name}, check_deferred, {unit}", ours, least, -1.5)

    def row(self, group, name, value, base=None, aim=None):
        """aim: the ratio wanted at least, or, negative, at most."""
        ratio = f"{value / base:8.2f}" if base else ""
        wanted = "" if aim is None else f"  (aim: {'at most' if aim < 0 else 'at least'} {abs(aim)})"
        print(f"  {name:<52}{value:>12,.{0 if value > 100 else 2}f}{ratio}{wanted}", flush=True)
        self.figures.setdefault(group, []).append({"name": name, "value": round(value, 3),
                                                   "ratio": round(value / base, 3) if base else None,
                                                   "aim": aim})


def title(text, unit):
    print(f"\n{text:<54}{unit:>12}{'ratio':>8}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: shows that it works")
    parser.add_argument("--only", default="execute,defer,bulk,start")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: terminated"))  # so that the server is stopped
    bench = Bench(args.quick)
    with tempfile.TemporaryDirectory(prefix="deferred-bench.") as folder:
        try:
            bench.open(folder)
            version = bench.sql("show server_version")[0][0]
            disk = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True).stdout.strip()
            print(f"PostgreSQL {version} on the same {os.cpu_count()} cores, data on {disk}; "
                  f"medians of {bench.rounds} rounds in turns\n" + ", ".join(f"{k} = {v}" for k, v in SETTINGS.items()))
            for name in args.only.split(","):
                getattr(bench, name)()
        finally:
            bench.close()
    path = os.path.join(pg.BUILD, "bench", "bench.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        json.dump({"quick": args.quick, "postgresql": version, "cores": os.cpu_count(), "disk": disk, "settings": SETTINGS,
                   "rounds": bench.rounds, "figures": bench.figures}, f, indent=1)
        f.write("\n")
    print(f"\nAlso in {os.path.relpath(path)}.")


if __name__ == "__main__":
    main()
