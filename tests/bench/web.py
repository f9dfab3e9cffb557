"""What pages of deferred_web take beside a long history, and what an open page costs the jobs that are executed meanwhile.

    web.py [--quick] [--rows N] [--ready N] [--visits N] [--jobs N] [--rounds N]

A private, durable server with N rows of log of a week, folded, and N ready jobs. Each page is asked for --visits times: median and p99. Then jobs that do
nothing are executed, --jobs of them a turn, without a page and with the overview open, which is asked for every 2 s and folds: the median of the turns,
as a ratio. JSON goes to build/bench/web.json.
"""

import argparse
import base64
import http.client
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "harness"))

import psycopg2  # noqa: E402

import pg  # noqa: E402
from bench import SETTINGS  # noqa: E402

PAGES = ["/", "/?range=24h", "/?range=7d", "/queues", "/queues/q1", "/jobs", "/jobs?after={middle}", "/jobs?state=dead", "/jobs?state=ready", "/jobs?q=order+47",
         "/jobs?q=tag:rare", "/jobs?q=params.customer:47", "/jobs/{middle}", "/running", "/dead", "/functions", "/functions/f1", "/recurring", "/flows", "/workers", "/audit"]
AIM_MS = {"median": 50, "p99": 300}

HISTORY = """
insert into deferred.__deferred (id, queue, fn, params, label, created_at, created_by, tags)
select i, 'q' || i %% 6, 'f' || i %% 20, json_build_object('customer', i %% 100000), 'order ' || i, now() - (%(n)s - i) * interval '7 days' / %(n)s, 'bench',
       case when i %% 100000 = 0 then '{rare}'::text[] end
from generate_series(%(lo)s::bigint, %(hi)s::bigint) i;
insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, finished_at, worker, plugin, wait_us, run_us, user_us, sys_us, max_rss_kb)
select i, 1, case when i %% 100 = 0 then 'failed' else 'ok' end, true, case when i %% 100 = 0 then 'no order ' || i end, t, t + interval '0.1 s', 1, 'bench 1.0 1',
       1000 + i %% 100000, 100000, 500, 300, 9000
from generate_series(%(lo)s::bigint, %(hi)s::bigint) i cross join lateral (select now() - interval '3 s' - (%(n)s - i) * interval '7 days' / %(n)s as t) x;
"""


class Bench:
    def __init__(self, folder, args):
        os.chmod(folder, 0o711)
        self.args = args
        self.cluster = pg.Cluster(os.path.join(folder, "pg"), durable=True, settings=SETTINGS)
        self.conf = os.path.join(folder, "deferred.conf")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "DEFERRED_"))}

    def spawn(self, name, *args, **more):
        return subprocess.Popen([os.path.join(pg.BUILD, "bin", name), "--config", self.conf, *args], env=self.env, stdin=subprocess.DEVNULL, text=True, **more)

    def prepare(self):
        self.cluster.start()
        self.conninfo = self.cluster.create_db("bench")
        pg.migrate(self.conninfo)
        with open(self.conf, "w") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(f'database {{ conninfo = "{self.conninfo}" }}\nplugin_dir = "{pg.BUILD}/plugins"\npidfile = "{self.conf}.pid"\nallow_root = 1\nlog_level = error\n')
        self.db = psycopg2.connect(self.conninfo)
        self.db.autocommit = True
        self.c = self.db.cursor()
        self.c.execute("set synchronous_commit = off; insert into deferred.__deferred_worker (instance, host, pid, version, ended_at) values ('b', 'b', 1, '1', now()); "
                       "insert into deferred.__deferred_queue (name) select 'q' || i from generate_series(0, 5) i; "
                       "create role password_people; create role ann login password 'bench' in role password_people, deferred_operator")
        rows = self.args.rows
        for lo in range(1, rows + 1, 500000):
            self.c.execute(HISTORY, {"n": rows, "lo": lo, "hi": min(rows, lo + 499999)})
        self.c.execute("select setval('deferred.__deferred_id_seq', %s)", (rows + 1,))
        self.c.execute("select count(*) from generate_series(1, %s, 1000) b cross join lateral (select count(*) from deferred.defer_many((select json_agg(json_build_object("
                       "'fn', 'noop', 'queue', 'q1')) from generate_series(b, least(b + 999, %s))))) x", (self.args.ready, self.args.ready))
        self.c.execute("select deferred.maintain(); select deferred.__fold_anew()")
        began = time.monotonic()
        subprocess.run([os.path.join(pg.BUILD, "bin", "deferred"), "fold", "--config", self.conf], env=self.env, check=True, stdout=subprocess.DEVNULL)
        self.fold_s = time.monotonic() - began
        self.c.execute("vacuum analyze")

    def open_web(self):
        self.web = self.spawn("deferred_web", "--listen", "127.0.0.1:0", "--log-level", "info", stderr=subprocess.PIPE)
        for line in self.web.stderr:
            said = re.search(r"listening on \S+:(\d+), HTTP$", line)
            if said:
                break
        else:
            raise SystemExit("deferred_web did not start")
        threading.Thread(target=lambda: [None for _ in self.web.stderr], daemon=True).start()
        self.port = int(said[1])

    def visitor(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        login = {"Authorization": "Basic " + base64.b64encode(b"ann:bench").decode()}

        def ask(path):
            began = time.monotonic()
            connection.request("GET", path, headers=login)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise SystemExit(f"{path}: {answer.status}")
            return (time.monotonic() - began) * 1000
        return ask

    def pages(self):
        ask, result = self.visitor(), {}
        for path in PAGES:
            path = path.format(middle=self.args.rows // 2)
            ask(path)
            ms = sorted(ask(path) for _ in range(self.args.visits))
            result[path] = {"median": round(statistics.median(ms), 1), "p99": round(ms[min(len(ms) - 1, int(len(ms) * 0.99))], 1)}
            print(f"{path:32} median {result[path]['median']:7.1f} ms   p99 {result[path]['p99']:7.1f} ms", flush=True)
        return result

    def execute(self, open_page):
        """Jobs a second, of those that are deferred for it, with a page that somebody looks at or without."""
        jobs, over, ask = self.args.jobs, threading.Event(), self.visitor()

        def look():
            while not over.wait(2):
                ask("/")
        self.defer(jobs)
        self.c.execute("checkpoint")
        before = self.done()
        looking = threading.Thread(target=look)
        if open_page:
            ask("/")
            looking.start()
        began = time.monotonic()
        worker = self.spawn("check_deferred", "--cnt", str(jobs), "--queue", "turn")
        status = worker.wait(900)
        took = time.monotonic() - began
        over.set()
        if open_page:
            looking.join()
        if status != 0 or self.done() - before != jobs:
            raise SystemExit(f"check_deferred: status {status}, {self.done() - before} of {jobs} jobs are done")
        return jobs / took

    def defer(self, n):
        self.c.execute("select count(*) from generate_series(1, %s, 1000) b cross join lateral (select count(*) from deferred.defer_many((select json_agg(json_build_object("
                       "'fn', 'noop', 'queue', 'turn')) from generate_series(b, least(b + 999, %s))))) x", (n, n))

    def done(self):
        self.c.execute("select count(*) from deferred.__deferred_log where outcome = 'ok' and plugin <> 'bench 1.0 1' and finished_at > now() - interval '1 hour'")
        return self.c.fetchone()[0]

    def close(self):
        if hasattr(self, "web"):
            self.web.terminate()
            self.web.wait(30)
        self.cluster.remove()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", default=bool(os.environ.get("BENCH_QUICK")))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--ready", type=int)
    parser.add_argument("--visits", type=int)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--rounds", type=int)
    args = parser.parse_args()
    for name, quick, full in (("rows", 20000, 2000000), ("ready", 20000, 400000), ("visits", 3, 100), ("jobs", 20000, 600000), ("rounds", 1, 5)):
        if getattr(args, name) is None:
            setattr(args, name, quick if args.quick else full)
    with tempfile.TemporaryDirectory(prefix="deferred-bench-web.") as folder:
        bench = Bench(folder, args)
        try:
            bench.prepare()
            bench.open_web()
            print(f"{args.rows:,} rows of log, folded in {bench.fold_s:.1f} s, {args.ready:,} ready jobs", flush=True)
            pages = bench.pages()
            rates = {False: [], True: []}
            for turn in range(args.rounds):
                for open_page in (False, True) if turn % 2 == 0 else (True, False):
                    rates[open_page].append(bench.execute(open_page))
                    print(f"{'with a page' if open_page else 'without'}: {rates[open_page][-1]:,.0f} jobs/s", flush=True)
        finally:
            bench.close()
    plain, watched = (statistics.median(rates[k]) for k in (False, True))
    worst = {kind: max(p[kind] for p in pages.values()) for kind in AIM_MS}
    print(f"executed: {plain:,.0f} jobs/s, with an open page {watched:,.0f}: ratio {watched / plain:.3f} (aim >= 0.98)")
    for kind, aim in AIM_MS.items():
        print(f"slowest page, {kind}: {worst[kind]} ms (aim <= {aim})")
    os.makedirs(os.path.join(pg.BUILD, "bench"), exist_ok=True)
    with open(os.path.join(pg.BUILD, "bench", "web.json"), "w") as f:
        json.dump({"rows": args.rows, "ready": args.ready, "fold_s": round(bench.fold_s, 1), "pages": pages, "jobs_s": {"plain": plain, "open page": watched}}, f, indent=1)


if __name__ == "__main__":
    main()
