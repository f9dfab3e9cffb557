"""The cost of pages of deferred_web with a long history, and of an open page while jobs run.

    web.py [--quick] [--rows N] [--ready N] [--visits N] [--jobs N] [--rounds N] [--window SECONDS]

A private, durable server has N folded rows of log of a week, and N ready jobs. Each page is requested --visits
times, which gives a median and p99.

Then one run of check_deferred executes --jobs jobs without work in each round. Meanwhile the overview is open and
closed in turns, for --window seconds each (windows.py). An open page is requested at once, and then as page.js
requests it. A closed page is not requested, and neither is it for GAP_S between two windows, which count for none.

Afterwards the log tells how many jobs ended in each window. The ratio is that of all jobs in open windows to all in
the closed windows next to them. A median would omit what happens in some windows only, such as folding. In each
third pair the page is closed in both windows. Their difference is the noise of the machine.

An open page also folds what is new since it was closed (pages_before_figures() in
bin/deferred_web/pages/why_pages.c). The time for that is bounded. Nobody else folds meanwhile, so the folding for a
closed window is charged to the next open one.

At the end the processor time of an open page is measured while no job runs and all is folded, here and in the
server. It is measured with the page in front and in the background. JSON goes to build/bench/web.json. Exit status
1: an aim was missed.

With 100,000,000 rows and 10,000,000 ready jobs, for which the pages are meant, it needs some 50 GB while it runs.
The table goes to RESULTS.md then.
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
import windows  # noqa: E402
from bench import SETTINGS  # noqa: E402

PAGES = [
    "/",
    "/?range=24h",
    "/?range=7d",
    "/queues",
    "/queues/q1",
    "/jobs",
    "/jobs?after={middle}",
    "/jobs?state=dead",
    "/jobs?state=ready",
    "/jobs?q=order+47",
    "/jobs?q=tag:rare",
    "/jobs?q=params.customer:47",
    "/jobs/{middle}",
    "/running",
    "/dead",
    "/functions",
    "/functions/f1",
    "/recurring",
    "/flows",
    "/workers",
    "/audit",
]
MEANT_FOR = {"rows": 100000000, "ready": 10000000}
AIM_MS = {"median": 50, "p99": 300}
AIM_RATIO = 0.98
AIM_OPEN = 0.005  # of a processor
# As page.js asks, milliseconds, where the last answer took so long: while somebody looks, and once
# nobody has touched it for ten minutes.
PAUSES = {"looked at": lambda took: max(2000, 50 * took), "left alone": lambda took: max(10000, 250 * took)}

CALLS = """
insert into deferred.__deferred (id, queue, fn, params, label, created_at, created_by, tags)
select i, 'q' || i % 6, 'f' || i % 20, ('{{"customer": ' || i % 100000 || '}}')::json, 'order ' || i,
now() - ({n} - i) * interval '7 days' / {n}, 'bench',
       case when i % 100000 = 0 then '{{rare}}'::text[] end
from generate_series({lo}::bigint, {hi}::bigint) i"""
ATTEMPTS = """
insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, finished_at, worker,
plugin, wait_us, run_us, user_us, sys_us, max_rss_kb)
select i, 1, case when i % 100 = 0 then 'failed' else 'ok' end, true,
case when i % 100 = 0 then 'no order ' || i end, t, t + interval '0.1 s', 1, 'bench 1.0 1',
       1000 + i % 100000, 100000, 500, 300, 9000
from generate_series({lo}::bigint, {hi}::bigint) i cross
join lateral (select now() - interval '3 s' - ({n} - i) * interval '7 days' / {n} as t) x"""
READY = """
select count(*) from generate_series(1, %s, 1000) b cross join lateral (select count(*) from deferred.defer_many((
    select json_agg(json_build_object('fn', 'noop', 'queue', %s)) from generate_series(b, least(b + 999, %s))))) x"""
STEP = 500000
GAP_S = 0.25
EXECUTE_S = 900  # a round at most
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
        return subprocess.Popen(
            [os.path.join(pg.BUILD, "bin", name), "--config", self.conf, *args],
            env=self.env,
            stdin=subprocess.DEVNULL,
            text=True,
            **more,
        )

    def prepare(self):
        self.cluster.start()
        self.conninfo = self.cluster.create_db("bench")
        pg.migrate(self.conninfo)
        with open(self.conf, "w") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(
                f'database {{ conninfo = "{self.conninfo}" }}\nplugin_dir = "{pg.BUILD}/plugins"\npidfile = '
                f'"{self.conf}.pid"\nallow_root = 1\nlog_level = error\n'
            )
        self.db = psycopg2.connect(self.conninfo)
        self.db.autocommit = True
        self.c = self.db.cursor()
        self.c.execute(
            "set synchronous_commit = off; insert into deferred.__deferred_worker (instance, host, pid, version, "
            "ended_at) values ('b', 'b', 1, '1', now()); "
            "insert into deferred.__deferred_queue (name) select 'q' || i from generate_series(0, 5) i; "
            "create role password_people; create role ann login password 'bench' in role password_people, "
            "deferred_operator"
        )
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
        """One connection stores calls and another one attempts. The partitions have only the primary
        key then. After that one connection stores the figures, and another one the rest. Rows of a
        partition are stored in the order of their times."""
        rows, began = self.args.rows, time.monotonic()
        self.c.execute(
            "select pg_get_indexdef(i.indexrelid), i.indexrelid::regclass from pg_index i "
            "where i.indrelid in ('deferred.__deferred'::regclass, "
            "'deferred.__deferred_log'::regclass) and not i.indisunique"
        )
        self.indexes = [
            d.replace(" ON ONLY ", " ON ") for d, name in self.c.fetchall() if not self.c.execute(f"drop index {name}")
        ]
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
        """Those that are there are empty: emptied, they count as made by this transaction. wanted:
        (name, first, past)"""
        db = psycopg2.connect(self.conninfo)
        c = db.cursor()
        for name, first, past in wanted:
            c.execute("select to_regclass(%s) is null", ("deferred." + name,))
            if c.fetchone()[0]:
                c.execute(
                    "select deferred.__add_partition(%s, %s, %s, %s, %s, false)", (parent, name, column, first, past)
                )
            else:
                c.execute(f"truncate deferred.{name}")
        for lo in range(1, size + 1, STEP):
            c.execute(statement.format(n=size, lo=lo, hi=min(size, lo + STEP - 1)))
        db.commit()
        db.close()

    def fill_calls(self):
        last = self.args.rows + self.args.ready + self.args.jobs * self.args.rounds
        self.c.execute("select max(past::bigint) from deferred.__partitions('deferred.__deferred')")
        past = self.c.fetchone()[0]
        wanted = [
            ("__deferred_0", None, None),
            *((f"__deferred_{lo}", str(lo), str(lo + IDS)) for lo in range(past, last + 1, IDS)),
        ]
        self.fill_partitions("__deferred", "id", wanted, CALLS, self.args.rows)

    def fill_attempts(self):
        with contextlib.closing(self.connect()) as db, db.cursor() as c:
            c.execute(
                "select to_char(w, 'YYYYMMDD'), w::date::text || ' 00:00:00+00', "
                "(w + interval '7 days')::date::text || ' 00:00:00+00' "
                "from generate_series(date_trunc('week', (now() - interval '7 days 1 hour') at time zone 'UTC'), "
                "now() at time zone 'UTC', interval '7 days') w"
            )
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
            c.execute(
                "update deferred.__deferred_folded set folded_to = date_bin('1 hour', now() - interval '1 day', "
                "'2000-01-01 00:00+00'), id_to = %s, slice = '1 minute', "
                "exact_to = date_bin('1 minute', now() - interval '70 minutes', '2000-01-01 00:00+00') returning "
                "folded_to",
                (self.args.rows - self.args.rows // 7,),
            )
            first = c.fetchone()[0]
            began = time.monotonic()
            subprocess.run(
                [os.path.join(pg.BUILD, "bin", "deferred"), "fold", "--config", self.conf],
                env=self.env,
                stdout=subprocess.DEVNULL,
                check=True,
            )
            self.fold_s = time.monotonic() - began
            c.execute(
                "create temporary table day as select * from deferred.__deferred_sum where span > 0 and at >= %s "
                "and at < %s::timestamptz + interval '1 day'",
                (first, first),
            )
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
        postmaster = self.cluster.pid()
        return sum(self.took_s([self.web.pid, *self.children(postmaster)]).values()) + sum(
            self.took_s([postmaster], ended=True).values()
        )

    def page_s(self):
        """By process: what deferred_web and its sessions at the server took of a processor."""
        self.c.execute("select pid from pg_stat_activity where application_name = 'deferred_web'")
        return self.took_s([self.web.pid, *(pid for pid, in self.c.fetchall())])

    @staticmethod
    def took_s(pids, ended=False):
        """By process, of those that are still there; ended: with what its children took that have ended."""
        took = {}
        for pid in pids:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/stat") as f:
                took[pid] = sum(map(int, f.read().rpartition(")")[2].split()[11 : 15 if ended else 13])) / os.sysconf(
                    "SC_CLK_TCK"
                )
        return took

    @staticmethod
    def children(pid):
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(word) for word in f.read().split()]

    def open_page(self):
        """Share of a processor that the overview takes, for each way to refresh it. Many answers are
        requested, one by one. Between two requests the answer has become stale."""
        subprocess.run(
            [os.path.join(pg.BUILD, "bin", "deferred"), "fold", "--config", self.conf],
            env=self.env,
            stdout=subprocess.DEVNULL,
            check=True,
        )
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
            result[path] = {
                "median": round(statistics.median(ms), 1),
                "p99": round(ms[min(len(ms) - 1, int(len(ms) * 0.99))], 1),
            }
            print(f"{path:32} median {result[path]['median']:7.1f} ms   p99 {result[path]['p99']:7.1f} ms", flush=True)
        return result

    def look(self, until):
        """As somebody does who opens the overview now and closes it then."""
        pause = 0
        while time.time() + pause < until:
            time.sleep(pause)
            ms, self.tag = self.ask("/", self.tag)
            pause = PAUSES["looked at"](ms) / 1000
        time.sleep(max(0, until - time.time()))

    def execute(self):
        """One run. [(jobs a second without a page, with one, what that took of a processor)],
        [(without, without)], one for each pair of windows. Windows begin and end by the clock of
        the server, which is the one of this machine."""
        jobs, seen, page_s = self.args.jobs, [], []
        self.ask, self.tag = self.visitor(), None
        self.defer(jobs)
        self.c.execute("checkpoint")
        self.c.execute("select clock_timestamp()")
        began, until = self.c.fetchone()[0], time.time() + EXECUTE_S
        worker = self.spawn("check_deferred", "--cnt", str(jobs), "--queue", "turn")
        while worker.poll() is None:
            if time.time() > until:
                worker.kill()
                raise SystemExit(f"check_deferred has not executed {jobs:,} jobs within {EXECUTE_S} s")
            time.sleep(GAP_S)
            on, before, begin = windows.on(len(seen)), self.page_s(), time.time()
            if on:
                self.look(begin + self.args.window)
            else:
                time.sleep(self.args.window)
            seen.append(windows.Window(on, begin, time.time()))
            page_s.append(sum(s - before.get(pid, 0) for pid, s in self.page_s().items()))
        self.c.execute(
            "select count(*), count(*) filter (where outcome = 'ok'), extract(epoch "
            "from min(finished_at))::float8, extract(epoch from max(finished_at))::float8 "
            "from deferred.__deferred_log where finished_at > %s",
            (began,),
        )
        ended, ok, first, last = self.c.fetchone()
        if worker.returncode != 0 or ended != jobs or ok != jobs:
            raise SystemExit(
                f"check_deferred: status {worker.returncode}, {ended} of {jobs} jobs have ended, {ok} well"
            )
        ended = self.ended(began, seen)
        pairs, control = windows.pairs(seen, first, last)
        return [(ended[off], ended[on], page_s[on] / (seen[on].end - seen[on].begin)) for off, on in pairs], [
            (ended[one], ended[other]) for one, other in control
        ]

    def ended(self, began, seen):
        """Jobs a second that ended, by window."""
        bounds = [bound for w in seen for bound in (w.begin, w.end)]
        self.c.execute(
            "select width_bucket(extract(epoch from finished_at)::float8, %s::float8[]), count(*) "
            "from deferred.__deferred_log where finished_at > %s group by 1",
            (bounds, began),
        )
        count = dict(self.c.fetchall())
        return [count.get(2 * i + 1, 0) / (w.end - w.begin) for i, w in enumerate(seen)]

    def defer(self, n):
        self.c.execute(READY, (n, "turn", n))

    def close(self):
        if hasattr(self, "web"):
            self.web.terminate()
            self.web.wait(30)
        self.cluster.remove()


def row(name, value, unit, aim=None, reached=None, ratio=None):
    return {"name": name, "value": value, "unit": unit, "ratio": ratio, "aim": aim, "reached": reached}


def table(measured):
    """As RESULTS.md has them: each page, then what it costs."""
    rows = [
        row(f"`{path}`, {kind}", ms[kind], "ms", f"<= {aim} ms", ms[kind] <= aim)
        for path, ms in measured["pages"].items()
        for kind, aim in AIM_MS.items()
    ]
    jobs_s, ratio, (lower, _, upper) = measured["jobs_s"], measured["ratio"], measured["quartiles"]
    rows.append(row("executed meanwhile, no page open", jobs_s["plain"], "jobs/s"))
    rows.append(
        row(
            "with the overview open, against none",
            jobs_s["open page"],
            "jobs/s",
            f">= {AIM_RATIO}",
            ratio >= AIM_RATIO,
            ratio,
        )
    )
    rows.append(row(f"quartiles of {len(measured['pairs'])} pairs of windows: lower", lower * 100, "%"))
    rows.append(row("upper", upper * 100, "%"))
    rows.append(
        row(
            f"of {len(measured['control'])} pairs without a page, one against the other",
            measured["control ratio"][1] * 100,
            "%",
        )
    )
    rows += [
        row(f"of these the {which} quartile", measured["control ratio"][i] * 100, "%")
        for which, i in (("lower", 0), ("upper", 2))
    ]
    rows.append(
        row("of a processor, the overview open while jobs are executed", measured["open page, executing"] * 100, "%")
    )
    for how, share in measured["open page"].items():
        rows.append(
            row(
                f"of a processor, the overview {how}",
                share * 100,
                "%",
                *((f"<= {AIM_OPEN:.1%}", share <= AIM_OPEN) if how == "left alone" else ()),
            )
        )
    rows.append(
        row("folding, beside the filling of the tables", measured["fold_s"] / (measured["rows"] / 7) * 1e6, "us a row")
    )
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", default=bool(os.environ.get("BENCH_QUICK")))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--ready", type=int)
    parser.add_argument("--visits", type=int)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--window", type=float)
    args = parser.parse_args()
    for name, quick, full in (
        ("rows", 20000, 2000000),
        ("ready", 20000, 400000),
        ("visits", 3, 100),
        ("jobs", 400000, 4000000),
        ("rounds", 1, 3),
        ("window", 0.2, 2),
    ):
        if getattr(args, name) is None:
            setattr(args, name, quick if args.quick else full)
    with tempfile.TemporaryDirectory(prefix="deferred-bench-web.") as folder:
        bench = Bench(folder, args)
        try:
            bench.prepare()
            bench.open_web()
            print(
                f"{args.rows:,} rows of log, a day of it folded in {bench.fold_s:.1f} s, {args.ready:,} ready jobs, "
                f"{bench.bytes / 1e9:.1f} GB",
                flush=True,
            )
            pages = bench.pages()
            pairs, control = [], []
            for turn in range(args.rounds):
                for to, more in zip((pairs, control), bench.execute()):
                    to += more
                if not pairs or not control:
                    raise SystemExit(f"{args.jobs:,} jobs are executed before six windows of {args.window} s are over")
                print(f"round {turn + 1} of {args.rounds}: {len(pairs)} pairs of windows so far", flush=True)
            opened = bench.open_page()
            about = report.about(
                args.quick, ".".join(map(str, divmod(bench.db.server_version, 10000))), SETTINGS, folder, args.rounds
            )
        finally:
            bench.close()
    plain, watched = (statistics.fmean(pair[i] for pair in pairs) for i in range(2))
    executing = statistics.fmean(share for _, _, share in pairs)  # folding comes in some windows, not in each
    ratio, quartiles, by_itself = (
        watched / plain,
        windows.quartiles([on / off for off, on, _ in pairs]),
        windows.quartiles([one / other for one, other in control]),
    )
    missed = [ratio < AIM_RATIO, opened["left alone"] > AIM_OPEN]
    print(
        f"executed: {plain:,.0f} jobs/s, with an open page {watched:,.0f}: ratio {ratio:.3f} (aim >= {AIM_RATIO}), "
        f"quartiles {quartiles[0]:.3f}, {quartiles[1]:.3f}, {quartiles[2]:.3f} of {len(pairs)} pairs of windows; the "
        f"page took {executing:.2%} of a processor\n"
        f"without a page in both windows: quartiles {by_itself[0]:.3f}, {by_itself[1]:.3f}, {by_itself[2]:.3f} of "
        f"{len(control)} pairs"
    )
    print(
        f"an open page takes {opened['looked at']:.2%} of a processor while it is looked at, "
        f"{opened['left alone']:.2%} left alone (aim <= {AIM_OPEN:.1%})"
    )
    for kind, aim in AIM_MS.items():
        path, worst = max(((p, ms[kind]) for p, ms in pages.items()), key=lambda x: x[1])
        missed.append(worst > aim)
        print(f"slowest page, {kind}: {path}, {worst} ms (aim <= {aim})")
    os.makedirs(os.path.join(pg.BUILD, "bench"), exist_ok=True)
    measured = {
        "rows": args.rows,
        "ready": args.ready,
        "fold_s": round(bench.fold_s, 1),
        "bytes": bench.bytes,
        "pages": pages,
        "jobs_s": {"plain": plain, "open page": watched},
        "ratio": ratio,
        "quartiles": quartiles,
        "pairs": pairs,
        "control": control,
        "control ratio": by_itself,
        "open page, executing": executing,
        "open page": opened,
    }
    with open(os.path.join(pg.BUILD, "bench", "web.json"), "w") as f:
        json.dump({**measured, "about": about}, f, indent=1)
    if all(measured[k] >= size for k, size in MEANT_FOR.items()):
        title = f"Pages beside {args.rows:,} rows of log and {args.ready:,} ready jobs, {bench.bytes / 1e9:.0f} GB"
        results.record(results.RESULTS, scenarios.NAMES, "web", results.section("web", title, about, table(measured)))
    return 1 if any(missed) and not args.quick else 0


if __name__ == "__main__":
    sys.exit(main())
