"""`make bench-peers`: this project beside other queues that live in PostgreSQL, in turns on one private server.

    peers.py [--only execute,backlog,held,defer,bulk,latency,start] [--rounds N] [--jobs N] [--backlog N] [--held N]
             [--seconds S] [--batch N]

graphile-worker and pg-boss are set up at their documented best (see graphile.mjs and boss.mjs). The server has durable
settings; each system has a database of its own on it; params are {"n": 1}; medians of several rounds in changing
order. What is run is held against the system's own tables and against what its processes saw. "net" leaves out what
the same processes take to start and stop with nothing due, as graphile-worker's own performance test does; the
ratios are of these. Processor time is of all workers and the server, and bears a shared machine better than the
rest does. Figures go to the terminal and to build/bench/peers.json.
"""

import argparse
import datetime
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
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "harness"))

import psycopg2  # noqa: E402

import pg  # noqa: E402

NODE_DIR = os.path.join(pg.BUILD, "bench", "peers")
PROGRAMS = os.path.join(pg.BUILD, "tests", "bench")
NODE = os.environ.get("NODE") or "/usr/bin/node"
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "30min",
    "jit": "off",
}
PAYLOAD = '{"n": 1}'
TICKS = os.sysconf("SC_CLK_TCK")

# Beside the figures: what a job that was run leaves behind, and what its worker may rely on.
KEEPS = {
    "graphile": [
        "the row of a job is deleted when it is done: no history",
        "functions run in the worker's own process, on its one thread; one that blocks holds up the others",
        "no receipt: a completion deletes the row by its id; what a dead worker had fetched (up to 500) comes back "
        "after 4 hours",
        "completions wait in memory for the batch; those of a worker killed meanwhile are run again",
    ],
    "boss": [
        "the row of a job stays for 7 days, with start, end and result; of earlier attempts only the number",
        "functions run in the worker's own process, on its one thread; one that blocks holds up the others",
        "complete() by id, as here, takes any active attempt",
        "what a dead worker had fetched (here up to 2,000) comes back after 15 minutes",
        "completed when complete() answers, a batch at a time and with one result for it",
    ],
    "ours": [
        "the call is kept, and a log row for every attempt: outcome, times, processor time, memory, worker, result",
        "functions run in a child process without database secret; a crash costs one attempt",
        "a receipt for each claim: at most one outcome is accepted; jobs of a dead worker come back after 60 s",
        "outcome and log row in one transaction; a defer is durable when it answers",
    ],
}


class Failed(Exception):
    pass


def cpu_of(pid, with_children):
    """Seconds of processor time; with_children: and of the children it has waited for."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            words = f.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(int(w) for w in words[11 : 15 if with_children else 13]) / TICKS


def peak_kb(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return int(re.search(r"VmHWM:\s+(\d+)", f.read()).group(1))
    except (OSError, AttributeError):
        return 0


def family(pid):
    found = [pid]
    for member in found:
        found += pg.children_of(member)
    return found


class Workers:
    """Commands run side by side: wall time, processor time, peak memory of all processes together, what they said."""

    def __init__(self, commands, env):
        self.out = [tempfile.TemporaryFile("w+") for _ in commands]
        self.err = [tempfile.TemporaryFile("w+") for _ in commands]
        self.start = time.monotonic()
        self.processes = [
            subprocess.Popen(c, stdin=subprocess.DEVNULL, stdout=o, stderr=e, env=env)
            for c, o, e in zip(commands, self.out, self.err)
        ]
        self.peaks = {}

    def wait(self, limit_s):
        """False when the time was up and they were terminated."""
        living, cpu, in_time = {p.pid: p for p in self.processes}, 0, True
        try:
            while living:
                for pid in list(living):
                    done, status, usage = os.wait4(pid, os.WNOHANG)
                    if done:
                        living.pop(pid).returncode = os.waitstatus_to_exitcode(status)
                        cpu += usage.ru_utime + usage.ru_stime
                        continue
                    for member in family(pid):
                        self.peaks[member] = max(self.peaks.get(member, 0), peak_kb(member))
                if living and in_time and time.monotonic() > self.start + limit_s:
                    in_time = False
                    for p in living.values():
                        p.terminate()
                time.sleep(0.02)
        finally:
            for p in living.values():
                p.kill()
        self.seconds, self.cpu = time.monotonic() - self.start, cpu
        for p, err in zip(self.processes, self.err):
            if in_time and p.returncode != 0:
                err.seek(0)
                raise Failed(f"{' '.join(p.args)}: exit status {p.returncode}\n{err.read()}")
        return in_time

    def answers(self):
        found = []
        for out in self.out:
            out.seek(0)
            found += [json.loads(line) for line in out if line.startswith("{")]
        return found


class System:
    """One of what is compared: a database of its own, and how to fill it, run it and check what was done."""

    def __init__(self, bench, name):
        self.bench, self.name = bench, name
        self.conninfo = bench.cluster.create_db(name)
        self.env = {"PATH": "/usr/bin:/bin", "HOME": bench.folder, "LANG": "C.UTF-8", "NO_LOG_SUCCESS": "1"}
        self.prepare()
        self.db = psycopg2.connect(self.conninfo)
        self.db.autocommit = True

    def sql(self, query, *args):
        with self.db.cursor() as cursor:
            cursor.execute(query, args or None)
            return cursor.fetchall() if cursor.description else []

    def settle(self):
        """The same start for what is measured next."""
        self.sql("vacuum analyze")
        self.sql("checkpoint")

    def node(self, verb, **settings):
        return [NODE, os.path.join(NODE_DIR, self.script), verb, json.dumps({"conninfo": self.conninfo, **settings})]

    def ask(self, verb, **settings):
        done = subprocess.run(self.node(verb, **settings), capture_output=True, text=True, env=self.env, timeout=900)
        if done.returncode != 0:
            raise Failed(f"{self.script} {verb}: exit status {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout) if done.stdout else None

    def rate(self, answer):
        """Calls a second of an answer, after a look whether all of them are there."""
        if self.waiting() < answer["calls"]:
            raise Failed(f"{self.name}: {answer['calls']} calls, but {self.waiting()} jobs")
        return answer["calls"] / answer["seconds"]

    def pgbench(self, script, clients, seconds):
        path = os.path.join(self.bench.folder, self.name + ".sql")
        with open(path, "w") as f:
            f.write(script + "\n")
        text = pg.call(
            [
                os.path.join(pg.bindir(), "pgbench"),
                "-n",
                "-M",
                "prepared",
                "-c",
                str(clients),
                "-j",
                str(min(clients, 2)),
                "-f",
                path,
                "-T",
                str(max(1, round(seconds))),
                self.conninfo,
            ]
        )
        calls = int(re.search(r"actually processed: (\d+)", text).group(1))
        return self.rate({"calls": calls, "seconds": calls / float(re.search(r"tps = ([\d.]+)", text).group(1))})

    def looped(self, command, drive):
        """What drive() returned, and the stamps of a worker that ran meanwhile."""
        with tempfile.TemporaryFile("w+") as out:
            worker = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, text=True, env=self.env
            )
            try:
                deadline = time.monotonic() + 30
                while os.fstat(out.fileno()).st_size == 0:
                    if worker.poll() is not None or time.monotonic() > deadline:
                        why = worker.stderr.read() if worker.poll() is not None else "silent"
                        raise Failed(f"{' '.join(command)} did not start: {why}")
                    time.sleep(0.05)
                time.sleep(2)
                driven = drive()
                time.sleep(3)
                worker.terminate()
                worker.wait(60)
            finally:
                if worker.poll() is None:
                    worker.kill()
                    worker.wait()
            out.seek(0)
            return driven, json.loads(out.read().splitlines()[-1])["stamps"]


class Graphile(System):
    """graphile-worker: its page on performance says local queue of 500, batched completion, 24 jobs at once."""

    script = "graphile.mjs"
    processes = (1, 2, 4)

    def prepare(self):
        subprocess.run(self.node("migrate"), check=True, env=self.env, timeout=60)

    def empty(self):
        self.sql("truncate graphile_worker._private_jobs")

    def add_jobs(self, n):
        self.sql(
            "select count(*) from "
            "graphile_worker.add_jobs(array_fill(json_populate_record(null::graphile_worker.job_spec,"
            " json_build_object('identifier', 'noop', 'payload', %s::json)), array[%s]))",
            PAYLOAD,
            n,
        )

    def fill(self, n):
        for queued in range(0, n, 100000):
            self.add_jobs(min(n - queued, 100000))
        count, self.ids, self.xor = self.sql(
            "select count(*), sum(id), bit_xor(id) from graphile_worker._private_jobs"
        )[0]
        if count != n:
            raise Failed(f"graphile: {count} jobs queued, not {n}")

    def commands(self, processes):
        return [self.node("once", concurrency=24, queue_size=500)] * processes

    def waiting(self):
        return self.sql("select count(*) from graphile_worker._private_jobs")[0][0]

    def verify(self, workers, n):
        answers, xor = workers.answers(), 0
        for a in answers:
            xor ^= int(a["xor"])
        seen = (sum(a["count"] for a in answers), sum(int(a["sum"]) for a in answers), xor, self.waiting())
        if seen != (n, self.ids, self.xor, 0):
            raise Failed(f"graphile: {seen} is not {(n, self.ids, self.xor, 0)}")

    def times(self, workers):
        return sorted(t for a in workers.answers() for t in a["times"])

    def single(self):
        return {
            "add_job(), SQL, pgbench": lambda c, s: self.pgbench(
                f"select graphile_worker.add_job('noop', '{PAYLOAD}');", c, s
            ),
            "addJob(), JS": lambda c, s: self.rate(self.ask("send", clients=c, seconds=s)),
        }

    def bulk(self):
        def add_jobs(n):
            start = time.monotonic()
            self.add_jobs(n)
            return self.rate({"calls": n, "seconds": time.monotonic() - start})

        return {
            "add_jobs(), SQL, one call": add_jobs,
            "addJobs(), JS, 10,000 a call": lambda n: self.rate(self.ask("bulk", jobs=n, batch=10000)),
        }

    def latency(self):
        def way(queue_size):
            return lambda count, ms: self.looped(
                self.node("loop", concurrency=24, queue_size=queue_size),
                lambda: self.ask("pace", count=count, interval_ms=ms)["stamps"],
            )

        return {"LISTEN, local queue of 500": way(500), "LISTEN, no local queue": way(0)}

    def idle(self):
        return self.node("once", concurrency=24, queue_size=500)


class Boss(System):
    """pg-boss: batches of 1,000, two loops of fetch() and complete() in a process, so that one
    waits while the other works."""

    script = "boss.mjs"
    processes = (1, 2, 4)

    def prepare(self):
        subprocess.run(self.node("migrate"), check=True, env=self.env, timeout=60)

    def empty(self):
        self.sql("truncate pgboss.job")

    def fill(self, n):
        self.ask("bulk", jobs=n, batch=1000)
        if self.waiting() != n:
            raise Failed(f"pg-boss: {self.waiting()} jobs queued, not {n}")

    def commands(self, processes):
        return [self.node("once", batch=1000, loops=2)] * processes

    def waiting(self):
        return self.sql("select count(*) from pgboss.job where state < 'completed'")[0][0]

    def verify(self, workers, n):
        seen = (
            sum(a["count"] for a in workers.answers()),
            *self.sql(
                "select count(*), count(distinct id), max(retry_count), count(*) filter (where state <> 'completed')"
                " from pgboss.job"
            )[0],
        )
        if seen != (n, n, n, 0, 0):
            raise Failed(f"pg-boss: {seen} is not {(n, n, n, 0, 0)}")

    def times(self, workers):
        rows = self.sql(
            "select extract(epoch from completed_on) from (select completed_on, "
            "row_number() over (order by completed_on) as n"
            " from pgboss.job where state = 'completed') x where n % 1000 = 1 order by 1"
        )
        return [float(t) for t, in rows]

    def single(self):
        return {"send(), JS": lambda c, s: self.rate(self.ask("send", clients=c, seconds=s))}

    def bulk(self):
        return {"insert(), JS, 1,000 a call": lambda n: self.rate(self.ask("bulk", jobs=n, batch=1000))}

    def latency(self):
        def way(notify):
            return lambda count, ms: self.looped(
                self.node("loop", notify=notify),
                lambda: self.ask("pace", count=count, interval_ms=ms, notify=notify)["stamps"],
            )

        return {"LISTEN (queue made with notify)": way(True), "polling each 0.5 s, the least": way(False)}

    def idle(self):
        return self.node("once", batch=1000, loops=2)


class Ours(System):
    processes = ("1", "1, 2 runners", "2")

    def prepare(self):
        pg.migrate(self.conninfo)
        self.run_dir = os.path.join(self.bench.folder, "run")
        os.mkdir(self.run_dir, 0o700)

    def empty(self):
        self.sql(
            "truncate deferred.__deferred, deferred.__deferred_hot, deferred.__deferred_log, deferred.__deferred_worker"
        )

    def program(self, *args):
        done = subprocess.run(
            [os.path.join(PROGRAMS, args[0]), *map(str, args[1:])],
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin", "DEFERRED_CONFIG": "/dev/null", "DEFERRED_ALLOW_ROOT": "1"},
        )
        if done.returncode != 0:
            raise Failed(f"{args[0]}: {done.stderr}")
        return done.stdout

    def defer_many(self, n):
        rate = float(self.program("defer_loop", self.conninfo, "bulk", n))
        return self.rate({"calls": n, "seconds": n / rate})

    def fill(self, n):
        self.defer_many(n)

    def check_deferred(self, i=0):
        return [
            os.path.join(pg.BUILD, "bin", "check_deferred"),
            "--db",
            self.conninfo,
            "--pidfile",
            os.path.join(self.run_dir, f"pid{i}"),
            "--plugin-dir",
            os.path.join(pg.BUILD, "plugins"),
            "--config",
            "/dev/null",
            "--log-level",
            "error",
            "--allow-root",
        ]

    def commands(self, processes):
        number, runners = int(processes[0]), 2 if "runners" in processes else 1
        options = ["--cnt", "0", "--runners", str(runners), "--batch", str(self.bench.args.batch)]
        return [self.check_deferred(i) + options for i in range(number)]

    def waiting(self):
        return self.sql("select count(*) from deferred.__deferred_hot")[0][0]

    def verify(self, workers, n):
        seen = (
            *self.sql(
                "select count(*), count(distinct job_id), count(*) filter (where outcome <> 'ok')"
                " from deferred.__deferred_log"
            )[0],
            self.waiting(),
        )
        if seen != (n, n, 0, 0):
            raise Failed(f"deferred: {seen} is not {(n, n, 0, 0)}")

    def times(self, workers):
        return [
            float(t)
            for t, in self.sql(
                "select extract(epoch from finished_at) from (select finished_at, row_number() over (order by"
                " finished_at) as n from deferred.__deferred_log) x where n % 1000 = 1 order by 1"
            )
        ]

    def single(self):
        return {
            "deferred.defer(), SQL, pgbench": lambda c, s: self.pgbench(
                f"select deferred.defer('noop', '{PAYLOAD}');", c, s
            ),
            "deferred_defer(), C": self.single_c,
        }

    def single_c(self, clients, seconds):
        rate = float(self.program("defer_loop", self.conninfo, "single", clients, seconds))
        if self.waiting() < rate * seconds * 0.9:
            raise Failed(f"deferred: {rate} calls a second, but {self.waiting()} jobs after {seconds} s")
        return rate

    def bulk(self):
        def sql(n):
            start = time.monotonic()
            self.sql(
                "select count(*) from deferred.defer_many(array_to_json(array_fill(%s::json, array[%s])))",
                json.dumps({"fn": "noop", "params": json.loads(PAYLOAD)}),
                n,
            )
            return self.rate({"calls": n, "seconds": time.monotonic() - start})

        return {"deferred.defer_many(), SQL, one call": sql, "deferred_defer_many(), C, one call": self.defer_many}

    def latency(self):
        usage = subprocess.run([self.check_deferred()[0], "--help"], capture_output=True, text=True).stdout
        if "--listen" not in usage:
            return {"check_deferred --loop --listen": None}
        return {"check_deferred --loop --listen": self.listen}

    def listen(self, count, ms):
        """Starts are read from the log. Its clock and that of the calls are the same, the machine's."""
        command = self.check_deferred() + ["--loop", "--listen", "--cnt", "0", "--runners", "2"]
        worker = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=self.env)
        try:
            time.sleep(2)
            called, start = {}, time.monotonic()
            with self.db.cursor() as cursor:
                for n in range(count):
                    time.sleep(max(0, start + (n + 1) * ms / 1000 - time.monotonic()))
                    now = time.time()
                    cursor.execute("select deferred.defer('noop', %s::json)", (json.dumps({"n": n}),))
                    called[cursor.fetchone()[0]] = (n, now)
            time.sleep(3)
            if worker.poll() is not None:
                raise Failed(f"{' '.join(command)}: exit status {worker.returncode}\n{worker.stderr.read()}")
        finally:
            worker.terminate()
            worker.wait(60)
        began = self.sql(
            "select job_id, extract(epoch from started_at)::float8 from deferred.__deferred_log where outcome = 'ok'"
        )
        return list(called.values()), [(called[job][0], at) for job, at in began if job in called]

    def idle(self):
        return self.check_deferred()


class Bench:
    def __init__(self, args):
        self.args, self.figures, self.load, self.failures = args, {}, [], []

    def open(self, folder):
        os.chmod(folder, 0o711)
        self.folder = folder
        self.cluster = pg.Cluster(os.path.join(folder, "pg"), durable=True, settings=SETTINGS).start()
        self.systems = {"graphile": Graphile(self, "graphile"), "boss": Boss(self, "boss"), "ours": Ours(self, "ours")}

    def close(self):
        for system in getattr(self, "systems", {}).values():
            system.db.close()
        self.cluster.remove()

    def server_cpu(self):
        """Processor time of the server and of all it ever started; what is still open is ours, and idle."""
        master = self.cluster.pid()
        return cpu_of(master, True) + sum(cpu_of(p, False) for p in pg.children_of(master))

    def wal(self):
        return self.systems["ours"].sql("select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint")[0][0]

    def in_turns(self, ways, rounds=None):
        """Measure each way once a round, in changing order. Returns the results of each, by name."""
        results = {way: [] for way in ways}
        for i in range(rounds or self.args.rounds):
            order = list(ways)[i % len(ways) :] + list(ways)[: i % len(ways)]
            for way in order:
                self.load.append(round(os.getloadavg()[0], 2))
                if sys.stderr.isatty():
                    print(f"\r\033[Kround {i + 1}: {', '.join(way)} ...", end="", file=sys.stderr, flush=True)
                try:
                    results[way].append(ways[way]())
                except Failed as e:
                    self.failures.append(str(e))
                    print(f"bench-peers: {e}", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        return results

    def once(self, system, n, processes, held=False, limit_s=900):
        """A backlog of n no-op jobs from the first start of a worker to the end of the last."""
        system.empty()
        system.settle()
        idle = Workers(system.commands(processes), system.env)
        idle.wait(60)
        wal = self.wal()
        system.fill(n)
        queued_wal = self.wal() - wal
        system.settle()
        reader = None
        if held:
            reader = psycopg2.connect(system.conninfo)
            reader.set_session(isolation_level="REPEATABLE READ", readonly=True)
            reader.cursor().execute("select count(*) from pg_class")
        try:
            cpu, wal = self.server_cpu(), self.wal()
            workers = Workers(system.commands(processes), system.env)
            in_time = workers.wait(limit_s)
            time.sleep(0.1)  # its sessions have ended
            cpu, wal = self.server_cpu() - cpu, self.wal() - wal
        finally:
            if reader:
                reader.close()
        done = n - system.waiting()
        if in_time:
            system.verify(workers, n)
        elif done == 0:
            raise Failed(f"{system.name}: no job done within {limit_s} s")
        # The first tenth is left out: node compiles while it runs.
        times = system.times(workers)
        part = len(times) // 10
        spans = (times[3 * part] - times[part], times[-1] - times[-1 - 2 * part]) if part else (0, 0)
        return {
            "rate": done / workers.seconds,
            "net_rate": done / max(workers.seconds - idle.seconds, 0.001),
            "seconds": workers.seconds,
            "done": done,
            "cpu_us": (cpu + max(workers.cpu - idle.cpu, 0)) / done * 1e6,
            "server_cpu_us": cpu / done * 1e6,
            "wal_bytes": (queued_wal / n + wal / done),
            "wal_queued": queued_wal / n,
            "peak_mib": sum(workers.peaks.values()) / 1024,
            "late_early": spans[0] / spans[1] if spans[0] and spans[1] else None,
        }

    def ways(self, n, best=False, **kw):
        found = {}
        for name, system in self.systems.items():
            for processes in (self.best(name),) if best else system.processes:
                found[name, str(processes)] = lambda s=system, p=processes: self.once(s, n, p, **kw)
        return found

    def best(self, name):
        """The number of processes that was quickest in `execute`; two where that was not measured."""
        rows = [r for r in self.figures.get("execute", []) if r["system"] == name and "rate" in r]
        if not rows:
            return "2" if name == "ours" else 2
        way = max(rows, key=lambda r: r["net_rate"])["way"]
        return way if name == "ours" else int(way)

    # ---- what is measured

    def execute_rows(self, group, results):
        rates = {way: median(r["net_rate"] for r in rounds) for way, rounds in results.items() if rounds}
        peer = max((v for (name, _), v in rates.items() if name != "ours"), default=None)
        least = min(
            (median(r["cpu_us"] for r in rounds) for (name, _), rounds in results.items() if rounds and name != "ours"),
            default=None,
        )
        header = (
            f"  {'':<34}{'jobs/s':>9}{'net jobs/s':>12}{'to best peer':>14}{'CPU us/job':>12}"
            f"{'to best peer':>14}{'of it server':>14}{'WAL B/job':>11}{'peak MiB':>10}{'late/early':>12}"
        )
        print(header)
        for (name, way), rounds in results.items():
            if not rounds:
                continue
            row = {
                "system": name,
                "way": way,
                **{k: median(r[k] for r in rounds if r[k] is not None) for k in rounds[0]},
                "rounds": [round(r["rate"]) for r in rounds],
            }
            ratio = row["net_rate"] / peer if peer and name == "ours" else None
            row["to_best_peer"] = ratio
            cpu_ratio = row["cpu_us"] / least if least and name == "ours" else None
            row["cpu_to_best_peer"] = cpu_ratio
            processes = (
                f"{way} process{'es' if way not in ('1', '1, 2 runners') else ''}"
                if "," not in way
                else "1 process, 2 runners"
            )
            late = f"{row['late_early']:.2f}" if row["late_early"] else ""
            print(
                f"  {TITLE[name] + ', ' + processes:<34}{row['rate']:>9,.0f}{row['net_rate']:>12,.0f}"
                f"{f'{ratio:.2f}' if ratio else '':>14}{row['cpu_us']:>12.1f}"
                f"{f'{cpu_ratio:.2f}' if cpu_ratio else '':>14}"
                f"{row['server_cpu_us']:>14.1f}{row['wal_bytes']:>11.0f}{row['peak_mib']:>10.1f}{late:>12}",
                flush=True,
            )
            self.figures.setdefault(group, []).append(row)

    def execute(self):
        title(f"{self.args.jobs:,} no-op jobs executed, from the start of the first process to the end of the last")
        self.execute_rows("execute", self.in_turns(self.ways(self.args.jobs)))

    def backlog(self):
        title(f"The same from a backlog of {self.args.backlog:,}, best number of processes")
        self.execute_rows("backlog", self.in_turns(self.ways(self.args.backlog, best=True)))

    def held(self):
        title(
            f"{self.args.held:,} no-op jobs under an open REPEATABLE READ reader; late/early: the last fifth's speed "
            f"to an early one's"
        )
        self.execute_rows("held", self.in_turns(self.ways(self.args.held, best=True, held=True)))

    def plain_rows(self, group, results, unit):
        values = {way: median(v) for way, v in results.items() if v}
        peer = max((v for (name, _), v in values.items() if name != "ours"), default=None)
        for (name, way), value in values.items():
            ratio = value / peer if peer and name == "ours" else None
            print(
                f"  {TITLE[name] + ': ' + way:<52}{value:>12,.0f} "
                f"{unit:<8}{f'{ratio:.2f} to best peer' if ratio else ''}",
                flush=True,
            )
            self.figures.setdefault(group, []).append(
                {
                    "system": name,
                    "way": way,
                    "rate": value,
                    "to_best_peer": ratio,
                    "rounds": [round(v) for v in results[name, way]],
                }
            )

    def prepared(self, system, call, *args):
        def way():
            system.empty()
            system.settle()
            return call(*args)

        return way

    def defer(self):
        for clients in (1, 4, 16):
            title(f"Jobs queued one a transaction, {clients} client{'s' if clients > 1 else ''}")
            ways = {
                (name, way): self.prepared(system, call, clients, self.args.seconds)
                for name, system in self.systems.items()
                for way, call in system.single().items()
            }
            self.plain_rows(f"defer {clients}", self.in_turns(ways), "jobs/s")

    def bulk(self):
        title(f"{self.args.jobs:,} jobs queued in bulk")
        ways = {
            (name, way): self.prepared(system, call, self.args.jobs)
            for name, system in self.systems.items()
            for way, call in system.bulk().items()
        }
        self.plain_rows("bulk", self.in_turns(ways), "jobs/s")

    def latency(self):
        count, ms = int(self.args.seconds * 50), 20
        title(
            f"From the call that queues a job to its start, {1000 // ms} a second on an idle system ({count} a round)"
        )
        ways = {}
        for name, system in self.systems.items():
            for way, call in system.latency().items():
                if call is None:
                    print(f"  {TITLE[name] + ': ' + way:<52}not in this build", flush=True)
                    self.figures.setdefault("latency", []).append({"system": name, "way": way, "p50_ms": None})
                else:
                    ways[name, way] = self.prepared(system, self.delays, system, call, count, ms)
        for (name, way), rounds in self.in_turns(ways).items():
            if rounds:
                p50, p99 = (median(r[q] for r in rounds) for q in (0, 1))
                print(f"  {TITLE[name] + ': ' + way:<52}p50 {p50:8.2f} ms   p99 {p99:8.2f} ms", flush=True)
                self.figures.setdefault("latency", []).append(
                    {"system": name, "way": way, "p50_ms": p50, "p99_ms": p99}
                )

    def delays(self, system, call, count, ms):
        called, began = call(count, ms)
        called, first = dict((n, t) for n, t in called), {}
        for n, t in began:
            if n in first:
                raise Failed(f"{system.name}: job {n} ran twice")
            first[n] = t
        if not called.keys() <= first.keys():
            raise Failed(f"{system.name}: {len(called.keys() - first.keys())} of {len(called)} jobs did not start")
        delays = sorted((first[n] - t) * 1000 for n, t in called.items())
        return delays[len(delays) // 2], delays[min(len(delays) - 1, len(delays) * 99 // 100)]

    def start(self):
        title("Start and stop of a worker with nothing due")
        for system in self.systems.values():
            system.empty()
            system.settle()
        command = [os.path.join(PROGRAMS, "spawn"), "1" if self.args.rounds == 1 else "7"]
        for system in self.systems.values():
            command += ["--", *system.idle()]
        text = subprocess.run(command, capture_output=True, text=True, env=self.systems["ours"].env, check=True).stdout
        self.load.append(round(os.getloadavg()[0], 2))
        runs = [[int(w) for w in line.split()] for line in text.splitlines() if re.fullmatch(r"\d+ \d+ \d+ \d+", line)]
        for i, name in enumerate(self.systems):
            wall, cpu, peak = (median(r[c] for r in runs if r[0] == i) for c in (1, 2, 3))
            print(
                f"  {TITLE[name]:<34}{wall / 1000:>9.1f} ms, processor {cpu / 1000:>7.1f} ms, "
                f"peak memory {peak / 1024:>6.1f} MiB",
                flush=True,
            )
            self.figures.setdefault("start", []).append(
                {"system": name, "wall_ms": wall / 1000, "cpu_ms": cpu / 1000, "peak_mib": peak / 1024}
            )

    def report(self, versions, disk):
        path = os.path.join(pg.BUILD, "bench", "peers.json")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            json.dump(
                {
                    "date": datetime.date.today().isoformat(),
                    "versions": versions,
                    "cores": os.cpu_count(),
                    "disk": disk,
                    "settings": SETTINGS,
                    "arguments": vars(self.args),
                    "load_average": {
                        "least": min(self.load, default=None),
                        "median": median(self.load),
                        "most": max(self.load, default=None),
                    },
                    "keeps": KEEPS,
                    "failures": self.failures,
                    "figures": self.figures,
                },
                f,
                indent=1,
            )
            f.write("\n")
        print(
            f"\nLoad average before each measurement: {min(self.load, default=0)} to {max(self.load, default=0)}. "
            f"Also in {os.path.relpath(path)}."
        )


TITLE = {"graphile": "graphile-worker", "boss": "pg-boss", "ours": "deferred"}
PARTS = ("execute", "backlog", "held", "defer", "bulk", "latency", "start")


def median(values):
    values = list(values)
    return statistics.median(values) if values else None


def node_version():
    """Ends the program where node is missing or too old to load the packages."""
    try:
        said = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as e:
        sys.exit(
            f"bench-peers: cannot run node: {e}\nhint: install node 20 or newer, or name it: make bench-peers "
            f"NODE=/path/to/node"
        )
    if int(re.match(r"v(\d+)", said).group(1)) < 20:
        sys.exit(
            f"bench-peers: \"{NODE}\" is node {said}\nhint: install node 20 or newer, or name it: make bench-peers "
            f"NODE=/path/to/node"
        )
    return said


def title(text):
    print(f"\n{text}", flush=True)


def versions_of(bench, node):
    found = {"postgresql": bench.systems["ours"].sql("show server_version")[0][0], "node": node}
    for package in ("graphile-worker", "pg-boss", "pg"):
        with open(os.path.join(NODE_DIR, "node_modules", package, "package.json")) as f:
            found[package] = json.load(f)["version"]
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=",".join(PARTS), help="some of " + ",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=200000)
    parser.add_argument("--backlog", type=int, default=1000000)
    parser.add_argument("--held", type=int, default=500000, help="jobs beside a held snapshot")
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement of single defers and of latency")
    parser.add_argument("--batch", type=int, default=500, help="of check_deferred")
    args = parser.parse_args()
    parts = args.only.split(",")
    if not set(parts) <= set(PARTS) or args.rounds < 1 or min(args.jobs, args.backlog, args.held) < 10000:
        parser.error(
            f"--only takes some of {','.join(PARTS)}; --rounds at least 1, --jobs, --backlog and --held at least 10000"
        )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench-peers: terminated"))  # so that the server is stopped
    node = node_version()
    bench = Bench(args)
    with tempfile.TemporaryDirectory(prefix="deferred-peers.") as folder:
        try:
            bench.open(folder)
            versions = versions_of(bench, node)
            disk = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True).stdout.strip()
            print(
                ", ".join(f"{k} {v}" for k, v in versions.items())
                + f"\non the same {os.cpu_count()} cores, data on {disk}; "
                f"medians of {args.rounds} rounds in turns; " + ", ".join(f"{k} = {v}" for k, v in SETTINGS.items())
            )
            for name, lines in KEEPS.items():
                print(f"\n{TITLE[name]}\n" + "\n".join("  - " + line for line in lines))
            for part in parts:
                getattr(bench, part)()
        finally:
            bench.close()
    bench.report(versions, disk)
    sys.exit(1 if bench.failures else 0)


if __name__ == "__main__":
    main()
