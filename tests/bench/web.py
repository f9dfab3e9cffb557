"""What pages of deferred_web take beside a long history, and what an open page costs the jobs that are executed meanwhile.

    web.py [--quick] [--rows N] [--ready N] [--visits N] [--jobs N] [--rounds N]

A private, durable server with N rows of log of a week, folded, and N ready jobs. Each page is asked for --visits times: median and p99. Then jobs that do
nothing are executed, --jobs of them a turn, without a page and with the overview open, which is asked for as page.js does and folds: the median of the
turns, as a ratio. At last what an open page takes of a processor, here and in the server, while nothing is executed and all is folded: looked at, and left alone. JSON
goes to build/bench/web.json; exit status 1: an aim was missed.

100,000,000 rows and 10,000,000 ready jobs, the sizes that the pages are meant for, take some 50 GB for as long as it runs; the table goes to RESULTS.md then.
"""

import argparse
import base64
import concurrent.futures
import contextlib
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
import report  # noqa: E402
import results  # noqa: E402
import scenarios  # noqa: E402
from bench import SETTINGS  # noqa: E402

PAGES = ["/", "/?range=24h", "/?range=7d", "/queues", "/queues/q1", "/jobs", "/jobs?after={middle}", "/jobs?state=dead", "/jobs?state=ready", "/jobs?q=order+47",
         "/jobs?q=tag:rare", "/jobs?q=params.customer:47", "/jobs/{middle}", "/running", "/dead", "/functions", "/functions/f1", "/recurring", "/flows", "/workers", "/audit"]
MEANT_FOR = {"rows": 100000000, "ready": 10000000}
AIM_MS = {"median": 50, "p99": 300}
AIM_RATIO = 0.98
AIM_OPEN = 0.005  # of a processor
# As page.js asks, milliseconds, where the last answer took so long: while somebody looks, and once nobody has touched it for ten minutes.
PAUSES = {"looked at": lambda took: max(2000, 10 * took), "left alone": lambda took: max(10000, 250 * took)}

CALLS = """
insert into deferred.__deferred (id, queue, fn, params, label, created_at, created_by, tags)
select i, 'q' || i % 6, 'f' || i % 20, ('{{"customer": ' || i % 100000 || '}}')::json, 'order ' || i, now() - ({n} - i) * interval '7 days' / {n}, 'bench',
       case when i % 100000 = 0 then '{{rare}}'::text[] end
from generate_series({lo}::bigint, {hi}::bigint) i"""
ATTEMPTS = """
insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, finished_at, worker, plugin, wait_us, run_us, user_us, sys_us, max_rss_kb)
select i, 1, case when i % 100 = 0 then 'failed' else 'ok' end, true, case when i % 100 = 0 then 'no order ' || i end, t, t + interval '0.1 s', 1, 'bench 1.0 1',
       1000 + i % 100000, 100000, 500, 300, 9000
from generate_series({lo}::bigint, {hi}::bigint) i cross join lateral (select now() - interval '3 s' - ({n} - i) * interval '7 days' / {n} as t) x"""
READY = """
select count(*) from generate_series(1, %s, 1000) b cross join lateral (select count(*) from deferred.defer_many((
    select json_agg(json_build_object('fn', 'noop', 'queue', %s)) from generate_series(b, least(b + 999, %s))))) x"""
STEP = 500000
SNAPSHOT_S = 2  # a page that is kept fresh is no older than that
IDS = 20000000  # of a partition
# What a table is filled with in the transaction that made it, or emptied it, is in no WAL then.
FILLING = {"wal_level": "minimal", "max_wal_senders": 0, "maintenance_work_mem": "512MB"}


class Bench:
    def __init__(self, folder, args):
        os.chmod(folder, 0o711)
        self.args = args
        self.cluster = pg.Cluster(os.path.join(folder, "pg"), durable=True, settings={**SETTINGS, **FILLING})
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
        self.fill()
        began = time.monotonic()
        self.c.execute("vacuum analyze deferred.__deferred_hot, deferred.__deferred_sum, deferred.__deferred_series")
        self.say(f"statistics in {time.monotonic() - began:.0f} s")
        self.c.execute("select pg_database_size(current_database())")
        self.bytes = self.c.fetchone()[0]

    @staticmethod
    def say(text):
        print(text, flush=True)

    def connect(self):
        db = psycopg2.connect(self.conninfo)
        db.autocommit = True
        return db

    @staticmethod
    def at_once(*functions):
        """Each in a thread of its own. What one of them raises is raised."""
        with concurrent.futures.ThreadPoolExecutor(len(functions)) as pool:
            for future in [pool.submit(f) for f in functions]:
                future.result()

    def fill(self):
        """Calls by one connection and attempts by another, into partitions without indexes but for the primary key; then the figures by one, and by another what is
        left. What lies in a partition is in the order in which it would have come."""
        rows, began = self.args.rows, time.monotonic()
        self.c.execute("select pg_get_indexdef(i.indexrelid), i.indexrelid::regclass from pg_index i where i.indrelid in ('deferred.__deferred'::regclass, "
                       "'deferred.__deferred_log'::regclass) and not i.indisunique")
        self.indexes = [d.replace(" ON ONLY ", " ON ") for d, name in self.c.fetchall() if not self.c.execute(f"drop index {name}")]
        self.at_once(self.fill_calls, self.fill_attempts)
        self.say(f"{rows:,} calls and attempts in {time.monotonic() - began:.0f} s")
        began = time.monotonic()
        self.c.execute("select setval('deferred.__deferred_id_seq', %s)", (rows + 1,))
        # Folding reads the log by this one.
        self.create([d for d in self.indexes if " brin " in d])
        self.c.execute("analyze deferred.__deferred; analyze deferred.__deferred_log")
        self.say(f"an index and statistics in {time.monotonic() - began:.0f} s")
        began = time.monotonic()
        self.at_once(self.fold, self.rest)
        self.say(f"figures, the other indexes, {self.args.ready:,} ready jobs in {time.monotonic() - began:.0f} s")

    def fill_partitions(self, parent, column, wanted, statement, size):
        """Those that are there are empty: emptied, they count as made by this transaction. wanted: (name, first, past)"""
        db = psycopg2.connect(self.conninfo)
        c = db.cursor()
        for name, first, past in wanted:
            c.execute("select to_regclass(%s) is null", ("deferred." + name,))
            if c.fetchone()[0]:
                c.execute("select deferred.__add_partition(%s, %s, %s, %s, %s, false)", (parent, name, column, first, past))
            else:
                c.execute(f"truncate deferred.{name}")
        for lo in range(1, size + 1, STEP):
            c.execute(statement.format(n=size, lo=lo, hi=min(size, lo + STEP - 1)))
        db.commit()
        db.close()

    def fill_calls(self):
        last = self.args.rows + self.args.ready + 2 * self.args.jobs * self.args.rounds
        self.c.execute("select max(past::bigint) from deferred.__partitions('deferred.__deferred')")
        past = self.c.fetchone()[0]
        wanted = [("__deferred_0", None, None), *((f"__deferred_{lo}", str(lo), str(lo + IDS)) for lo in range(past, last + 1, IDS))]
        self.fill_partitions("__deferred", "id", wanted, CALLS, self.args.rows)

    def fill_attempts(self):
        with contextlib.closing(self.connect()) as db, db.cursor() as c:
            c.execute("select to_char(w, 'YYYYMMDD'), w::date::text || ' 00:00:00+00', (w + interval '7 days')::date::text || ' 00:00:00+00' "
                      "from generate_series(date_trunc('week', (now() - interval '7 days 1 hour') at time zone 'UTC'), now() at time zone 'UTC', interval '7 days') w")
            wanted = [("__deferred_log_" + week, first, past) for week, first, past in c.fetchall()]
        self.fill_partitions("__deferred_log", "finished_at", wanted, ATTEMPTS, self.args.rows)

    def rest(self):
        self.create([d for d in self.indexes if " brin " not in d])
        with contextlib.closing(self.connect()) as db, db.cursor() as c:
            c.execute("set synchronous_commit = off")
            c.execute(READY, (self.args.ready, "q1", self.args.ready))

    def create(self, definitions):
        with contextlib.closing(self.connect()) as db, db.cursor() as c:
            for definition in definitions:
                c.execute(definition)

    def fold(self):
        """The last day is folded. Of the six before it the log has the same, and so the sums are the same."""
        with contextlib.closing(self.connect()) as db, db.cursor() as c:
            c.execute("select deferred.maintain()")
            c.execute("update deferred.__deferred_folded set folded_to = date_bin('1 hour', now() - interval '1 day', '2000-01-01 00:00+00'), id_to = %s, slice = '1 minute', "
                      "exact_to = date_bin('1 minute', now() - interval '70 minutes', '2000-01-01 00:00+00') returning folded_to", (self.args.rows - self.args.rows // 7,))
            first = c.fetchone()[0]
            began = time.monotonic()
            subprocess.run([os.path.join(pg.BUILD, "bin", "deferred"), "fold", "--config", self.conf], env=self.env, stdout=subprocess.DEVNULL, check=True)
            self.fold_s = time.monotonic() - began
            c.execute("create temporary table day as select * from deferred.__deferred_sum where span > 0 and at >= %s and at < %s::timestamptz + interval '1 day'", (first, first))
            for days in range(1, 7):
                c.execute("update day set at = at - interval '1 day'")
                c.execute("insert into deferred.__deferred_sum select * from day")

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

    def processor_s(self):
        """What deferred_web and the server, with all that it has ended, took of a processor."""
        ticks = 0
        for pid in (self.web.pid, self.cluster.pid(), *self.children(self.cluster.pid())):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/stat") as f:
                fields = f.read().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:13])) + (sum(map(int, fields[13:15])) if pid == self.cluster.pid() else 0)
        return ticks / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def children(pid):
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(word) for word in f.read().split()]

    def open_page(self):
        """Share of a processor that the overview takes, by how it is kept fresh; many answers are asked for, one by one, and more seldom than they are to be had anew."""
        subprocess.run([os.path.join(pg.BUILD, "bin", "deferred"), "fold", "--config", self.conf], env=self.env, stdout=subprocess.DEVNULL, check=True)
        ask, took = self.visitor(), []
        tag = ask("/")[1]
        before = self.processor_s()
        for _ in range(5 if self.args.quick else 30):
            ms, tag = ask("/", tag)
            took.append(ms)
            time.sleep(SNAPSHOT_S)
        each_ms = (self.processor_s() - before) * 1000 / len(took)
        return {how: each_ms / pause(statistics.median(took)) for how, pause in PAUSES.items()}

    def visitor(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        login = {"Authorization": "Basic " + base64.b64encode(b"ann:bench").decode()}

        def ask(path, tag=None):
            """Milliseconds, and the name of what was answered."""
            began = time.monotonic()
            connection.request("GET", path, headers={**login, **({"If-None-Match": tag} if tag else {})})
            answer = connection.getresponse()
            answer.read()
            if answer.status not in (200, 304):
                raise SystemExit(f"{path}: {answer.status}")
            return (time.monotonic() - began) * 1000, answer.headers["ETag"]
        return ask

    def pages(self):
        ask, result = self.visitor(), {}
        for path in PAGES:
            path = path.format(middle=self.args.rows // 2)
            ask(path)
            ms = sorted(ask(path)[0] for _ in range(self.args.visits))
            result[path] = {"median": round(statistics.median(ms), 1), "p99": round(ms[min(len(ms) - 1, int(len(ms) * 0.99))], 1)}
            print(f"{path:32} median {result[path]['median']:7.1f} ms   p99 {result[path]['p99']:7.1f} ms", flush=True)
        return result

    def execute(self, open_page):
        """Jobs a second, of those that are deferred for it, with a page that somebody looks at or without."""
        jobs, over, ask = self.args.jobs, threading.Event(), self.visitor()

        def look():
            took = 0
            while not over.wait(PAUSES["looked at"](took) / 1000):
                took = ask("/")[0]
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
        self.c.execute(READY, (n, "turn", n))

    def done(self):
        self.c.execute("select count(*) from deferred.__deferred_log where outcome = 'ok' and plugin <> 'bench 1.0 1' and finished_at > now() - interval '1 hour'")
        return self.c.fetchone()[0]

    def close(self):
        if hasattr(self, "web"):
            self.web.terminate()
            self.web.wait(30)
        self.cluster.remove()


def row(name, value, unit, aim=None, reached=None, ratio=None):
    return {"name": name, "value": value, "unit": unit, "ratio": ratio, "aim": aim, "reached": reached, "quote": False}


def table(measured):
    """As RESULTS.md has them: each page, then what it costs."""
    rows = [row(f"`{path}`, {kind}", ms[kind], "ms", f"<= {aim} ms", ms[kind] <= aim) for path, ms in measured["pages"].items() for kind, aim in AIM_MS.items()]
    plain, watched = measured["jobs_s"]["plain"], measured["jobs_s"]["open page"]
    rows.append(row("executed meanwhile, no page open", plain, "jobs/s"))
    rows.append(row("with the overview open, against none", watched, "jobs/s", f">= {AIM_RATIO}", watched / plain >= AIM_RATIO, watched / plain))
    for how, share in measured["open page"].items():
        rows.append(row(f"of a processor, the overview {how}", share * 100, "%", *((f"<= {AIM_OPEN:.1%}", share <= AIM_OPEN) if how == "left alone" else ())))
    rows.append(row("folding, beside the filling of the tables", measured["fold_s"] / (measured["rows"] / 7) * 1e6, "us a row"))
    return rows


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
            print(f"{args.rows:,} rows of log, a day of it folded in {bench.fold_s:.1f} s, {args.ready:,} ready jobs, {bench.bytes / 1e9:.1f} GB", flush=True)
            pages = bench.pages()
            rates = {False: [], True: []}
            for turn in range(args.rounds):
                for open_page in (False, True) if turn % 2 == 0 else (True, False):
                    rates[open_page].append(bench.execute(open_page))
                    print(f"{'with a page' if open_page else 'without'}: {rates[open_page][-1]:,.0f} jobs/s", flush=True)
            opened = bench.open_page()
            about = report.about(args.quick, ".".join(map(str, divmod(bench.db.server_version, 10000))), SETTINGS, folder, args.rounds)
        finally:
            bench.close()
    plain, watched = (statistics.median(rates[k]) for k in (False, True))
    missed = [watched / plain < AIM_RATIO, opened["left alone"] > AIM_OPEN]
    print(f"executed: {plain:,.0f} jobs/s, with an open page {watched:,.0f}: ratio {watched / plain:.3f} (aim >= {AIM_RATIO})")
    print(f"an open page takes {opened['looked at']:.2%} of a processor while it is looked at, {opened['left alone']:.2%} left alone (aim <= {AIM_OPEN:.1%})")
    for kind, aim in AIM_MS.items():
        path, worst = max(((p, ms[kind]) for p, ms in pages.items()), key=lambda x: x[1])
        missed.append(worst > aim)
        print(f"slowest page, {kind}: {path}, {worst} ms (aim <= {aim})")
    os.makedirs(os.path.join(pg.BUILD, "bench"), exist_ok=True)
    measured = {"rows": args.rows, "ready": args.ready, "fold_s": round(bench.fold_s, 1), "bytes": bench.bytes, "pages": pages,
                "jobs_s": {"plain": plain, "open page": watched}, "open page": opened}
    with open(os.path.join(pg.BUILD, "bench", "web.json"), "w") as f:
        json.dump({**measured, "about": about}, f, indent=1)
    if all(measured[k] >= size for k, size in MEANT_FOR.items()):
        title = f"Pages beside {args.rows:,} rows of log and {args.ready:,} ready jobs, {bench.bytes / 1e9:.0f} GB"
        results.record(results.RESULTS, scenarios.NAMES, "web", results.section("web", title, about, table(measured)))
    return 1 if any(missed) and not args.quick else 0


if __name__ == "__main__":
    sys.exit(main())
