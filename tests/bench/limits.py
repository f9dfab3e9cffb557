"""What limits cost: jobs a second without any, beside limits that are about others, and under limits.

    limits.py [--quick] [--jobs N] [--processes 1,2]

The scenarios run in turns on a private, durable server; the median of the rounds counts, each as a ratio to the first
one. JSON goes to build/bench/limits.json. "elsewhere" is what a queue without limits must not pay for.
"""

import argparse
import json
import os
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
from bench import SETTINGS  # noqa: E402

CHECK = os.path.join(pg.BUILD, "bin", "check_deferred")
QUEUE = "select deferred.__queue_set(%s, %s::json, true)"


def queue(name, **settings):
    return (QUEUE, (name, json.dumps(settings)))


def limits_elsewhere(c, jobs):
    """A queue at its limit with a backlog, a function with a limit, a queue full of keys: none of it is served or ready."""
    c.execute(*queue("elsewhere", max_running=2))
    c.execute("select deferred.__function_set('other', '{\"rate\": 1}')")
    c.execute("select count(*) from deferred.defer_many((select json_agg(json_build_object('fn', 'noop', 'queue', 'elsewhere', 'delay', '1d')) "
              "from generate_series(1, 1000)))")
    c.execute("update deferred.__deferred_queue set paused = true where name = 'elsewhere'")


# name: (what is set up, how the jobs differ)
SCENARIOS = {
    "no limits": (None, "'queue', 'default'"),
    "limits elsewhere": (limits_elsewhere, "'queue', 'default'"),
    "max_running 1000": (lambda c, n: c.execute(*queue("default", max_running=1000)), "'queue', 'default'"),
    "max_running 4": (lambda c, n: c.execute(*queue("default", max_running=4)), "'queue', 'default'"),
    "rate 1000000/s": (lambda c, n: c.execute(*queue("default", rate=1e6, burst=1000000)), "'queue', 'default'"),
    "function max_running 1000": (lambda c, n: c.execute("select deferred.__function_set('noop', '{\"max_running\": 1000}')"), "'queue', 'default'"),
    "1000 keys": (None, "'concurrency_key', 'key ' || i % 1000"),
    "a key for each job": (None, "'concurrency_key', 'key ' || i"),
}
ENDLESS = {"max_running 4", "1000 keys"}  # each claim gets few: fewer jobs do


class Bench:
    def __init__(self, folder, jobs):
        os.chmod(folder, 0o711)
        self.folder, self.jobs = folder, jobs
        self.cluster = pg.Cluster(os.path.join(folder, "pg"), durable=True, settings=SETTINGS).start()
        self.conninfo = self.cluster.create_db("bench")
        pg.migrate(self.conninfo)
        self.db = psycopg2.connect(self.conninfo)
        self.db.autocommit = True
        os.mkdir(os.path.join(folder, "run"), 0o700)

    def close(self):
        self.db.close()
        self.cluster.remove()

    def measure(self, name, processes):
        """Jobs a second."""
        prepare, options = SCENARIOS[name]
        jobs = self.jobs // 10 if name in ENDLESS else self.jobs
        with self.db.cursor() as c:
            c.execute("truncate deferred.__deferred, deferred.__deferred_hot, deferred.__deferred_log, deferred.__deferred_worker, "
                      "deferred.__deferred_lease, deferred.__deferred_place, deferred.__deferred_limit, deferred.__deferred_function, deferred.__deferred_queue")
            c.execute("insert into deferred.__deferred_queue (name) values ('default')")
            if prepare:
                prepare(c, jobs)
            for at in range(0, jobs, 5000):
                c.execute(f"select count(*) from deferred.defer_many((select json_agg(json_build_object('fn', 'noop', {options})) "
                          f"from generate_series({at + 1}, {min(at + 5000, jobs)}) i))")
            c.execute("vacuum analyze")
            c.execute("checkpoint")
            env = {"PATH": "/usr/bin:/bin", "DEFERRED_DB": self.conninfo, "DEFERRED_CONFIG": "/dev/null", "DEFERRED_ALLOW_ROOT": "1", "DEFERRED_LOG_LEVEL": "error",
                   "DEFERRED_PLUGIN_DIR": os.path.join(pg.BUILD, "plugins")}
            began = time.monotonic()
            left = jobs
            while left:  # a run ends when nothing can be claimed
                runs = [subprocess.Popen([CHECK, "--cnt", "0", "--queue", "default", "--pidfile", os.path.join(self.folder, "run", str(i))], env=env)
                        for i in range(processes)]
                for run in runs:
                    if run.wait() != 0:
                        sys.exit(f"limits: check_deferred ended with {run.returncode}")
                c.execute("select count(*) from deferred.__deferred_hot where queue = 'default'")
                left = c.fetchone()[0]
            return jobs / (time.monotonic() - began)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--processes", default="1,2")
    args = parser.parse_args()
    jobs = args.jobs or (5000 if args.quick else 50000)
    rounds = 1 if args.quick else 3
    figures = {}
    with tempfile.TemporaryDirectory(prefix="deferred-limits.") as folder:
        bench = Bench(folder, jobs)
        try:
            for processes in map(int, args.processes.split(",")):
                seen = {name: [] for name in SCENARIOS}
                for i in range(rounds):
                    names = list(SCENARIOS)
                    for name in names[i % len(names):] + names[:i % len(names)]:
                        seen[name].append(bench.measure(name, processes))
                base = statistics.median(seen["no limits"])
                for name, values in seen.items():
                    rate = statistics.median(values)
                    figures[f"{name}, {processes} processes"] = {"jobs_per_s": round(rate), "ratio": round(rate / base, 3)}
                    print(f"{name:28} {processes} processes {rate:10.0f} jobs/s  {rate / base:5.2f}", flush=True)
        finally:
            bench.close()
    os.makedirs(os.path.join(pg.BUILD, "bench"), exist_ok=True)
    with open(os.path.join(pg.BUILD, "bench", "limits.json"), "w") as f:
        json.dump({"jobs": jobs, "rounds": rounds, "figures": figures}, f, indent=1)


if __name__ == "__main__":
    main()
