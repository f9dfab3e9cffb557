"""`make bench-wake`: from deferring a job to its start on an idle system, and what listeners cost who defers.

    wake.py [--quick] [--only latency,enqueue]

A private server with durable settings. The reference of the latency is a bare INSERT + NOTIFY claimed by a libpq
client that sleeps; that of the throughput the same load without --listen. All in turns, several rounds, medians.
Figures go to the terminal and to build/bench/wake.json.
"""

import argparse
import contextlib
import json
import os
import shutil
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
SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "4GB", "checkpoint_timeout": "30min"}
EMPTY = "truncate deferred.__deferred, deferred.__deferred_hot, deferred.__deferred_log"


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(len(values) * q))]


class Bench:
    def __init__(self, folder, quick):
        self.rounds, self.n, self.seconds = (1, 200, 2) if quick else (3, 1000, 5)
        self.folder = folder
        os.chmod(folder, 0o711)
        self.cluster = pg.Cluster(os.path.join(folder, "pg"), durable=True, settings=SETTINGS).start()
        self.conninfo = self.cluster.create_db("bench")
        pg.migrate(self.conninfo)
        self.db = psycopg2.connect(self.conninfo)
        self.db.autocommit = True
        self.plugins = os.path.join(folder, "plugins")
        os.mkdir(self.plugins, 0o755)
        for path in os.path.join(pg.BUILD, "plugins", "sample.so"), os.path.join(
            pg.BUILD, "tests", "plugins", "stamp.so"
        ):
            shutil.copy(path, self.plugins)
        self.run_dir = os.path.join(folder, "run")
        os.mkdir(self.run_dir, 0o700)
        self.script = os.path.join(folder, "defer.sql")
        with open(self.script, "w") as f:
            f.write("select deferred.defer('noop', '{\"n\": 1}');\n")

    def sql(self, query):
        for _ in range(5):
            # TRUNCATE beside a worker may meet its locks in another order.
            with contextlib.suppress(psycopg2.errors.DeadlockDetected), self.db.cursor() as cursor:
                cursor.execute(query)
                return cursor.fetchall() if cursor.description else []
        raise RuntimeError(f"deadlock after deadlock: {query}")

    def service(self, name, *args):
        env = {
            "PATH": "/usr/bin:/bin",
            "DEFERRED_DB": self.conninfo,
            "DEFERRED_PLUGIN_DIR": self.plugins,
            "DEFERRED_PIDFILE": os.path.join(self.run_dir, name),
            "DEFERRED_CONFIG": "/dev/null",
            "DEFERRED_ALLOW_ROOT": "1",
            "DEFERRED_LOG_LEVEL": "error",
        }
        return subprocess.Popen([os.path.join(pg.BUILD, "bin", "check_deferred"), "--loop", *args], env=env)

    def wait_armed(self, n=1):
        while (
            self.sql(
                "select count(distinct pid) from pg_locks where locktype = 'advisory' and classid = 1145390674"
                " and mode = 'ShareLock'"
            )[0][0]
            < n
        ):
            time.sleep(0.01)

    @staticmethod
    def stop(*processes):
        for p in processes:
            p.send_signal(signal.SIGTERM)
        for p in processes:
            p.wait(30)

    def latency(self, *args):
        said = subprocess.run(
            [os.path.join(PROGRAMS, "wake_latency"), self.conninfo, *map(str, args)],
            check=True,
            capture_output=True,
            text=True,
        )
        return [float(line.split()[0]) for line in said.stdout.splitlines()]

    def latencies(self):
        found = {"bare": [], "listen": []}
        for _ in range(self.rounds):
            found["bare"].append(self.latency("bare", self.n))
            run = self.service("latency", "--listen")
            self.wait_armed()
            file = os.path.join(self.folder, "stamps")
            self.latency("defer", 20, file)  # starts the runner, prepares the statements
            found["listen"].append(self.latency("defer", self.n, file))
            self.stop(run)
        return {
            name: {
                f"p{int(q * 100)}_us": round(statistics.median(quantile(r, q) for r in rounds), 1) for q in (0.5, 0.99)
            }
            for name, rounds in found.items()
        }

    def pgbench(self, clients):
        said = subprocess.run(
            [
                os.path.join(pg.bindir(), "pgbench"),
                "-n",
                "-M",
                "prepared",
                "-f",
                self.script,
                "-c",
                str(clients),
                "-j",
                "2",
                "-T",
                str(self.seconds),
                self.conninfo,
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        return float(next(line for line in said.stdout.splitlines() if line.startswith("tps")).split()[2])

    def enqueue(self, clients):
        """Calls a second: nobody there; workers busy, polling and listening; a listener asleep for
        another queue; one that is woken."""
        found = {}

        def note(name):
            self.sql(EMPTY)
            self.sql("checkpoint")
            found.setdefault(name, []).append(self.pgbench(clients))

        for _ in range(self.rounds):
            note("nobody")
            run = self.service("other", "--listen", "--queue", "elsewhere")
            self.wait_armed()
            note("a listener of another queue")
            self.stop(run)
            for name, args in ("busy, polling", []), ("busy, listening", ["--listen"]):
                self.sql(EMPTY)
                self.sql("select deferred.defer('sleep', '{\"ms\": 20}') from generate_series(1, 20000)")
                run = self.service("busy", "--runners", "2", *args)
                time.sleep(1)
                found.setdefault(name, []).append(self.pgbench(clients))
                run.send_signal(signal.SIGTERM)
                run.send_signal(signal.SIGTERM)
                run.wait(30)
            run = self.service("asleep", "--listen")
            self.wait_armed()
            note("a listener that is woken")
            self.stop(run)
        return {name: round(statistics.median(rounds)) for name, rounds in found.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="latency,enqueue")
    args = parser.parse_args()
    only = args.only.split(",")
    folder = tempfile.mkdtemp(prefix="deferred-bench.")
    bench = Bench(folder, args.quick)
    try:
        figures = {"latency": bench.latencies() if "latency" in only else {}}
        for name, values in figures["latency"].items():
            print(
                f"defer to start, {name:8} p50 {values['p50_us']:8.1f} us   p99 {values['p99_us']:8.1f} us", flush=True
            )
        for clients in [] if "enqueue" not in only else (1, 4) if args.quick else (1, 4, 16):
            rates = figures[f"enqueue_{clients}"] = bench.enqueue(clients)
            for name, rate in rates.items():
                print(
                    f"defer, {clients:2} clients, {name:30} {rate:7}/s  {rate / rates['nobody']:.2f} of nobody",
                    flush=True,
                )
            ratio = rates["busy, listening"] / rates["busy, polling"]
            print(f"defer, {clients:2} clients, busy, listening against polling: {ratio:.2f}", flush=True)
        os.makedirs(os.path.join(pg.BUILD, "bench"), exist_ok=True)
        with open(os.path.join(pg.BUILD, "bench", "wake.json"), "w") as f:
            json.dump(figures, f, indent=1)
    finally:
        bench.db.close()
        bench.cluster.remove()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
