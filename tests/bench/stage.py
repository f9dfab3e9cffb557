"""What is measured stands here: a private server with durable settings, databases in it, runs of check_deferred.

Whoever finds that a measured run did not do what it should raises Failed: a figure of half-done work is none.
"""

import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "harness"))

import psycopg2  # noqa: E402

import pg  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(pg.BUILD, "tests", "bench")
PARAMS = '{"n": 1}'
TICKS = os.sysconf("SC_CLK_TCK")

# A ready job in the hot table, beside its id.
HOT_COLUMNS, HOT_VALUES = "queue, fn, visible_at", "'default', 'noop', now()"
# What a fresh database has no rows in.
EMPTY_TABLES = (
    "__deferred",
    "__deferred_hot",
    "__deferred_log",
    "__deferred_worker",
    "__deferred_cursor",
    "__deferred_lease",
)

# Durable, as in production; the rest so that no scenario waits for a checkpoint in its middle.
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "jit": "off",
    "autovacuum": "on",
}

# Said by every run as root, and no fault of it.
HARMLESS = ("functions run as root", "left for workers that do")
# Said by the server when a scenario's database is dropped, for TRUNCATE, and of plain SQL, whose second way tries again
# (plain.py). To a run of check_deferred each would be an error of its own.
HARMLESS_SERVER = ("due to administrator command", "canceling autovacuum task", "pgbench ERROR:  deadlock detected")


class Failed(Exception):
    """A run did not do what was to be measured, or did it wrongly."""


class Stage:
    """The server. One database is migrated once; the others are copies of it."""

    def __init__(self, folder):
        os.chmod(folder, 0o711)
        self.folder = folder
        self.run_dir = os.path.join(folder, "run")
        self.scripts = os.path.join(folder, "scripts")
        for path in (self.run_dir, self.scripts):
            os.mkdir(path, 0o700)
        self.cluster = pg.Cluster(os.path.join(folder, "pg"), durable=True, settings=SETTINGS)
        self.complaints_seen = 0

    def start(self):
        self.cluster.start()
        pg.migrate(self.cluster.create_db("model"))

    def database(self, name):
        return Database(self, name, self.cluster.create_db(name, "model"))

    def server_version(self):
        return pg.call(
            [os.path.join(pg.bindir(), "psql"), "-XAtq", "-c", "show server_version", self.cluster.conninfo()]
        ).strip()

    def close(self):
        self.cluster.remove()

    def cpu_seconds(self):
        """Processor time of the server until now: of all its processes, also of those that have ended."""
        postmaster = self.cluster.pid()
        return cpu_of(postmaster, True) + sum(cpu_of(pid, False) for pid in pg.children_of(postmaster))

    def defer_loop(self, conninfo, *args):
        """Calls per second, and their number."""
        rate, said = self.program("defer_loop", conninfo, *args)
        return float(rate), int(said.split()[0])

    def check_log(self):
        """Fails if the server complained since the last call: nothing here makes an error on purpose."""
        with open(self.cluster.log, errors="replace") as f:
            lines = [
                line
                for line in f
                if re.search(r" (ERROR|FATAL|PANIC): ", line) and not any(h in line for h in HARMLESS_SERVER)
            ]
        new, self.complaints_seen = lines[self.complaints_seen :], len(lines)
        if new:
            raise Failed("the server complained:\n" + "".join(new[:20]))

    def program(self, name, *args):
        """What one of the programs in tests/bench wrote to standard output and to standard error."""
        done = subprocess.run(
            [os.path.join(PROGRAMS, name), *map(str, args)], capture_output=True, text=True, env=base_env()
        )
        if done.returncode != 0:
            raise Failed(f"{name}: exit status {done.returncode}\n{done.stderr}")
        return done.stdout, done.stderr


def cpu_of(pid, with_children):
    """Seconds of processor time of a process; with_children: and of the children it has waited for."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            words = f.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(w) for w in words[11 : 15 if with_children else 13]) / TICKS


def base_env():
    return {"PATH": "/usr/bin:/bin", "DEFERRED_CONFIG": "/dev/null", "DEFERRED_ALLOW_ROOT": "1"}


class Database:
    """A database with our schema, and all that is done with it."""

    def __init__(self, stage, name, conninfo):
        self.stage, self.name, self.conninfo = stage, name, conninfo
        self.db = psycopg2.connect(conninfo)
        self.db.autocommit = True
        self.room = 0  # ids below this one have their partition

    def close(self):
        self.db.close()
        admin = psycopg2.connect(self.stage.cluster.conninfo())
        admin.autocommit = True
        with admin.cursor() as cursor:
            cursor.execute(f"drop database {self.name} with (force)")
        admin.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def sql(self, query, *args):
        with self.db.cursor() as cursor:
            cursor.execute(query, args or None)
            return cursor.fetchall() if cursor.description else []

    def one(self, query, *args):
        return self.sql(query, *args)[0][0]

    # ---- what is in it

    def clear(self):
        """Tables as after `deferred migrate`."""
        self.sql("truncate " + ", ".join("deferred." + table for table in EMPTY_TABLES))
        self.sql("select setval('deferred.__deferred_id_seq', 1, false)")

    def clear_log(self):
        self.sql("truncate deferred.__deferred_log, deferred.__deferred_worker")

    def fill(self, n, say=None, fn="noop", params=PARAMS):
        """Add n ready jobs, in transactions of 100,000, straight into the tables: quicker than deferring them."""
        done = 0
        while done < n:
            some = min(n - done, 100000)
            first = self.one(
                "select setval('deferred.__deferred_id_seq', nextval('deferred.__deferred_id_seq') + %s) - %s",
                some - 1,
                some - 1,
            )
            if first + some > self.room:  # maintain() makes partitions for half of one more, five million ids
                self.sql("select deferred.maintain()")
                self.room = first + some + 4000000
            with self.db.cursor() as cursor:
                cursor.execute("begin")
                cursor.execute(
                    "insert into deferred.__deferred (id, queue, fn, params)"
                    " select n, 'default', %s, %s::json from generate_series(%s, %s) n",
                    (fn, params, first, first + some - 1),
                )
                cursor.execute(
                    f"insert into deferred.__deferred_hot (id, {HOT_COLUMNS}) select n, 'default', %s, now()"
                    " from generate_series(%s, %s) n",
                    (fn, first, first + some - 1),
                )
                cursor.execute("commit")
            done += some
            if say and done % 1000000 == 0:
                say(f"{done:,} of {n:,} jobs filled in")

    def settle(self):
        """The same start for what is measured next."""
        tables = self.sql(
            "select string_agg(oid::regclass::text, ', ') from pg_class where relkind = 'r'"
            " and relnamespace in (select oid from pg_namespace where nspname in ('deferred', 'plain', 'public'))"
        )[0][0]
        self.sql(f"vacuum (analyze) {tables}")
        self.sql("checkpoint")

    def ready(self):
        return self.one("select count(*) from deferred.__deferred_hot")

    # ---- check_deferred

    def command(self, number=0, **options):
        """The command line of a run; options by name, underscores for hyphens."""
        options = {"plugin_dir": os.path.join(pg.BUILD, "plugins"), **options}
        more = [part for k, v in options.items() if v is not None for part in ("--" + k.replace("_", "-"), str(v))]
        return [
            os.path.join(pg.BUILD, "bin", "check_deferred"),
            "--db",
            self.conninfo,
            "--pidfile",
            os.path.join(self.stage.run_dir, f"{self.name}.{number}"),
            "--log-level",
            "warning",
            *more,
        ]

    def start(self, number=0, **options):
        return Run(self.command(number, **options))

    def work(self, processes=1, **options):
        """Run so many at once to their end. Returns seconds from the first start to the last end."""
        return work_all([self], processes, **options)

    def expect(self, done, left):
        """Each of `done` jobs exactly once in the log and out of the queue, `left` still in it."""
        rows, jobs, ok = self.sql(
            "select count(*), count(distinct job_id),"
            " count(*) filter (where outcome = 'ok' and final and attempt = 1) from deferred.__deferred_log"
        )[0]
        hot = self.ready()
        both = (
            self.one("select count(*) from deferred.__deferred_log l join deferred.__deferred_hot h on h.id = l.job_id")
            if left
            else 0
        )
        if (rows, jobs, ok, hot, both) != (done, done, done, left, 0):
            raise Failed(
                f"{done} jobs were to be done and {left} to be left; the log has {rows} rows of {jobs} jobs, {ok} of "
                f"them ok; "
                f"{hot} are left, {both} of which are in the log"
            )

    def deadlocks(self):
        self.sql("select pg_stat_force_next_flush()")
        return self.one("select deadlocks from pg_stat_database where datname = current_database()")

    # ---- plain SQL

    def pgbench(self, script, clients, *args, options=""):
        """Returns transactions per second and their number. script: a path, or the text of one."""
        if "\n" in script or ";" in script:
            path = os.path.join(self.stage.scripts, "script.sql")
            with open(path, "w") as f:
                f.write(script + "\n")
            script = path
        text = pg.call(
            [
                os.path.join(pg.bindir(), "pgbench"),
                "-n",
                "-M",
                "prepared",
                "-c",
                str(clients),
                "-j",
                str(min(clients, 4)),
                "-f",
                script,
                *map(str, args),
                f"{self.conninfo} options='{options}'",
            ]
        )
        rate = re.search(r"tps = ([\d.]+)", text)  # not said of no transaction at all
        if not re.search(r"number of failed transactions: 0 ", text) or not rate:
            raise Failed(f"pgbench: {text}")
        return float(rate[1]), int(re.search(r"actually processed: (\d+)", text)[1])


def work_all(databases, processes, **options):
    """Run so many on each of them at once, to their end. Returns seconds from the first start to the last end."""
    start, runs = time.monotonic(), []
    try:
        for i in range(processes):
            runs += [db.start(i, **options) for db in databases]
        for run in runs:
            run.wait()
    finally:
        for run in runs:
            run.stop()
    seconds = time.monotonic() - start
    for run in runs:
        run.check()
    return seconds


class Run:
    """A run of check_deferred. What it says goes to a file, so that it never waits for a reader."""

    def __init__(self, command, env=None):
        self.said = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self.said,
            stderr=self.said,
            env={**base_env(), **(env or {})},
            cwd="/",
        )
        self.pid = self.process.pid

    def wait(self, timeout=900):
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"check_deferred was not done within {timeout} s") from None

    def stop(self):
        """Ends it if it still runs; by SIGKILL if SIGTERM is not heard."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def check(self):
        """Fails unless it ended well and without a word."""
        self.said.seek(0)
        lines = [line for line in self.said if not any(h in line for h in HARMLESS)]
        self.said.close()
        if self.process.returncode != 0 or lines:
            raise Failed(f"check_deferred: exit status {self.process.returncode}\n{''.join(lines[:20])}")
