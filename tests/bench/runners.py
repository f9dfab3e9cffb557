"""`make bench-runners`: a burst of 20,000 jobs of 5 ms each, with a fixed number of runners and with a range.

    runners.py [--quick]

Both in turns, several rounds, medians. Each service is idle and warm before the burst, and is watched until it is back
at one runner. Figures go to the terminal and to build/bench/runners.json.
"""

import argparse
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

EMPTY = "truncate deferred.__deferred, deferred.__deferred_hot, deferred.__deferred_log"
IDLE_S = 2


class Bench:
    def __init__(self, folder):
        os.chmod(folder, 0o711)
        self.folder = folder
        self.cluster = pg.Cluster(
            os.path.join(folder, "pg"), durable=True, settings={"shared_buffers": "256MB"}
        ).start()
        self.conninfo = self.cluster.create_db("bench")
        pg.migrate(self.conninfo)
        self.db = psycopg2.connect(self.conninfo)
        self.db.autocommit = True

    def one(self, query):
        with self.db.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchone()[0] if cursor.description else None

    def wait(self, query):
        while self.one(query):
            time.sleep(0.005)

    def burst(self, runners, jobs):
        """Seconds to drain, and what the log says."""
        self.one(EMPTY)
        self.one("checkpoint")
        log = os.path.join(self.folder, "log")
        env = {
            "PATH": "/usr/bin:/bin",
            "DEFERRED_DB": self.conninfo,
            "DEFERRED_PLUGIN_DIR": os.path.join(pg.BUILD, "plugins"),
            "DEFERRED_PIDFILE": os.path.join(self.folder, "pid"),
            "DEFERRED_CONFIG": "/dev/null",
            "DEFERRED_ALLOW_ROOT": "1",
            "DEFERRED_RUNNER_IDLE": f"{IDLE_S}s",
        }
        with open(log, "w") as said:
            run = subprocess.Popen(
                [os.path.join(pg.BUILD, "bin", "check_deferred"), "--loop", "--listen", "--runners", runners],
                env=env,
                stderr=said,
            )
        self.one("select deferred.defer('noop')")
        self.wait("select count(*) from deferred.__deferred_hot")
        began = time.monotonic()
        self.one(f"select count(deferred.defer('sleep', '{{\"ms\": 5}}')) from generate_series(1, {jobs})")
        deferred = time.monotonic()
        self.wait("select exists (select from deferred.__deferred_hot)")
        drained = time.monotonic()
        while len(pg.children_of(run.pid)) > 1:
            time.sleep(0.01)
        back = time.monotonic() - drained
        run.send_signal(signal.SIGTERM)
        run.wait(30)
        with open(log) as said:
            steps = [line.split(": ", 1)[1].strip() for line in said if " runners " in line]
        return {
            "seconds": drained - deferred,
            "defer_seconds": deferred - began,
            "back_to_one_seconds": back,
            "steps": steps,
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    jobs, rounds = (4000, 1) if args.quick else (20000, 3)
    folder = tempfile.mkdtemp(prefix="deferred-bench.")
    bench = Bench(folder)
    try:
        found = {"16": [], "1..16": []}
        for _ in range(rounds):
            for runners, results in found.items():
                results.append(bench.burst(runners, jobs))
        seconds = {r: statistics.median(x["seconds"] for x in results) for r, results in found.items()}
        for r, s in seconds.items():
            back = statistics.median(x["back_to_one_seconds"] for x in found[r])
            print(
                f"runners {r:6} {jobs} jobs of 5 ms in {s:6.2f} s, {jobs / s:7.0f}/s; back to one runner after "
                f"{back:.1f} s"
            )
        print(f"1..16 against 16: {seconds['16'] / seconds['1..16']:.2f}")
        print("decisions of the last burst:", *found["1..16"][-1]["steps"], sep="\n    ")
        os.makedirs(os.path.join(pg.BUILD, "bench"), exist_ok=True)
        with open(os.path.join(pg.BUILD, "bench", "runners.json"), "w") as f:
            json.dump({"jobs": jobs, "ratio": seconds["16"] / seconds["1..16"], "rounds": found}, f, indent=1)
    finally:
        bench.db.close()
        bench.cluster.remove()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
