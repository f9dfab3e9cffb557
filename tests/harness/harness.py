"""What the tests are made of: programs under test, databases to point them at, conditions to wait for.

Every process started here has DEFERRED_TEST_ROOT in its environment, and every runner has a
DEFERRED_INSTANCE below that folder: so pg.sweep() finds what a broken test left behind.
"""

import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

import psycopg2
import psycopg2.extras
import pytest

import pg

BUILD = os.path.join(pg.TOP, os.environ.get("DEFERRED_BUILD", "build"))
SAN = os.path.basename(BUILD) == "san"


def make_reachable():
    """Some tests become another user, who needs the programs. Below a folder that is closed to others, as /root is,
    a copy in the session's folder is tested."""
    global BUILD
    if os.geteuid() != 0 or pg.reachable(BUILD):
        return
    place = os.path.join(root(), os.path.basename(BUILD))
    if not os.path.isdir(place):
        for name in ("bin", "completion", "lib", "plugins", "tests"):
            shutil.copytree(os.path.join(BUILD, name), os.path.join(place, name), symlinks=True)
    BUILD = place


def sanitizer_env(catch_signals):
    """How the sanitizers report. Crashes made on purpose have to end in their signal: then leave signals alone."""
    asan = "detect_leaks=1:halt_on_error=1:abort_on_error=0:exitcode=99:allocator_may_return_null=1"
    if not catch_signals:
        asan += ":use_sigaltstack=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0"
    return {
        "ASAN_OPTIONS": asan,
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=99",
        "LSAN_OPTIONS": "print_suppressions=0:suppressions=" + os.path.join(pg.TOP, "tests", "harness", "lsan.supp"),
    }


def root():
    """Folder of this test session."""
    return os.environ["DEFERRED_TEST_ROOT"]


def base_env():
    """What every program under test gets: little, and nothing of the user's own settings."""
    return {
        "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": root(),
        "TMPDIR": root(),
        "LANG": "C.UTF-8",
        "DEFERRED_TEST_ROOT": root(),
        "DEFERRED_ALLOW_ROOT": "1",  # tests run as root, and what they defer is their own
        "DEFERRED_CGROUP": "0",  # one that is killed would leave its groups on the machine; test_cgroup.py has its own
        **{name: os.environ[name] for name in ("NODE_OPTIONS",) if name in os.environ},  # see node.py
        **(sanitizer_env(False) if SAN else {}),
    }


def program(name):
    """Path of one of our programs; other names pass unchanged."""
    path = os.path.join(BUILD, "bin", name)
    return path if "/" not in name and os.path.exists(path) else name


def command(args):
    return [program(str(args[0]))] + [a if isinstance(a, bytes) else str(a) for a in args[1:]]


def run(args, env=None, input=None, timeout=120, cwd=None, **kw):
    """Run a program to its end; `check_deferred` and `deferred` are those of the build under test. Input
    as bytes makes the output bytes too."""
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if not isinstance(input, bytes):
        how.update(text=True, errors="surrogateescape")
    how.update({"input": input} if input is not None else {"stdin": subprocess.DEVNULL})
    return subprocess.run(
        command(args), env={**base_env(), **(env or {})}, cwd=cwd or root(), timeout=timeout, **{**how, **kw}
    )


def json_once(text):
    """What a JSON text says. A member that comes twice in an object, which each reader takes in its
    own way, is an error."""

    def members(pairs):
        twice = [name for i, (name, _) in enumerate(pairs) if name in dict(pairs[:i])]
        assert twice == [], twice
        return dict(pairs)

    return json.loads(text, object_pairs_hook=members)


class Started:
    """A program that runs beside the test. What it says goes to a file, so that it never waits for a reader."""

    def __init__(self, args, env=None, cwd=None, **kw):
        self.said = tempfile.TemporaryFile("w+", dir=root(), errors="surrogateescape")
        self.process = subprocess.Popen(
            command(args),
            env={**base_env(), **(env or {})},
            cwd=cwd or root(),
            **{"stdin": subprocess.DEVNULL, "stdout": self.said, "stderr": self.said, **kw},
        )
        self.pid = self.process.pid

    def alive(self):
        return self.process.poll() is None

    def wait(self, timeout=60):
        return self.process.wait(timeout)

    def signal(self, number):
        self.process.send_signal(number)

    def output(self):
        """All it said so far."""
        # Opened anew: the position of self.said is also the one at which the program writes.
        with open(f"/proc/self/fd/{self.said.fileno()}", errors="surrogateescape") as said:
            return said.read()

    def kill(self):
        """SIGKILL, and SIGCONT in case it was stopped."""
        if self.alive():
            self.signal(signal.SIGKILL)
            self.signal(signal.SIGCONT)
        self.process.wait(20)


# How many sessions wait for a lock, of this database only: other tests run at the same time.
WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


def wait_for(condition, timeout=30, what=None):
    """Wait until condition() is true and return what it returned; fail when the time is up."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(
                f"not within {timeout} s: {what or getattr(condition, '__doc__', None) or 'condition'}"
            )
        time.sleep(0.01)


class Db:
    """A database of a test's own, and a private folder for its pid file, config and plugins."""

    count = 0

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.conninfo = cluster.conninfo(name)
        Db.count += 1
        self.dir = os.path.join(root(), f"{name}.{os.getpid()}.{Db.count}")
        os.mkdir(self.dir, 0o700)
        self.pidfile = os.path.join(self.dir, "pid")
        self.config_file = os.path.join(self.dir, "deferred.conf")
        self.env = {
            **base_env(),
            "DEFERRED_DB": self.conninfo,
            "DEFERRED_PIDFILE": self.pidfile,
            "DEFERRED_CONFIG": self.config_file,
            "DEFERRED_PLUGIN_DIR": os.path.join(BUILD, "plugins"),
        }
        self.config("")
        self.started = []
        self.connection = None
        if pg.VARIANT == "pooler":
            self.env["DEFERRED_DB"] = start_pooler(self, pool=20)[1]

    def connect(self, **kw):
        """A new connection: psycopg2's, in its default transaction mode. Tests let such connections wait for each
        other, as those of workers do, which choose their isolation."""
        isolation = {"options": "-c default_transaction_isolation=read\\ committed"} if pg.VARIANT == "settings" else {}
        return psycopg2.connect(self.conninfo, **{**isolation, **kw})

    def sql(self, query, *args):
        """Run a statement in a transaction of its own, with arguments in order, or by name in a
        dict; rows as a list of tuples, [] where there are none."""
        if self.connection is None or self.connection.closed:
            # A test that waits for a lock of its own is to fail, not to hang.
            self.connection = psycopg2.connect(self.conninfo, application_name="test", options="-c lock_timeout=240s")
            self.connection.autocommit = True
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(query, args[0] if args and isinstance(args[0], dict) else args or None)
                return cursor.fetchall() if cursor.description is not None else []
        except psycopg2.OperationalError:
            self.connection.close()
            raise

    def one(self, query, *args):
        """The first column of the only row."""
        rows = self.sql(query, *args)
        assert len(rows) == 1, rows
        return rows[0][0]

    def config(self, text):
        """Write the config file the environment names."""
        with open(self.config_file, "w") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(text)

    def defer(self, fn, params="{}", **opts):
        """deferred.defer() with options by name; returns the job id."""
        return self.one(
            "select deferred.defer(%s, %s::json, %s::json)", fn, params, psycopg2.extras.Json(opts) if opts else None
        )

    def hold(self, *jobs, worker=1, receipt=1, lease="1 minute", alone=False):
        """Has a worker, that need not be there, hold these ready jobs, as if it had claimed them;
        their lanes are handed out up to here, with the other ready jobs left over."""
        self.sql(
            """
            with lease as (
                insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone, expires_at)
                select h.queue, %(worker)s, %(receipt)s, array_agg(h.id
                order by h.id), int8range(min(h.id), max(h.id), '[]'), pg_current_snapshot(),
                       %(alone)s, clock_timestamp() + %(lease)s::interval
                from deferred.__deferred_hot h where h.id = any (%(jobs)s) group by h.queue),
            marked as (
                update deferred.__deferred_hot h set receipt = %(receipt)s, worker = %(worker)s
                where h.id = any (%(jobs)s) and h.limited),
            place as (
                delete from deferred.__deferred_cursor p
                where exists (select from deferred.__deferred_hot h where h.id = any (%(jobs)s)
                and h.queue = p.queue and h.priority = p.priority)
                returning p.queue, p.priority, p.seq)
            insert into deferred.__deferred_cursor (queue, priority, seq, done, cur, id, rest_xid, rest_id)
            select h.queue, h.priority, coalesce((select max(p.seq) from place p where p.queue = h.queue
            and p.priority = h.priority), 0) + 1,
                   pg_current_snapshot(), pg_current_snapshot(), 0,
                   coalesce(array_agg(h.xid order by h.id) filter (where h.free), '{}'),
                   coalesce(array_agg(h.id order by h.id) filter (where h.free), '{}')
            from (select x.*, x.id <> all (%(jobs)s) and x.due_at is null
                              and not exists (select from deferred.__held l where l.id = x.id) as free
                  from deferred.__deferred_hot x where not x.limited) h
            group by h.queue, h.priority having bool_or(h.id = any (%(jobs)s))""",
            {"jobs": list(jobs), "worker": worker, "receipt": receipt, "alone": alone, "lease": lease},
        )

    def spawn(self, args, env=None, **kw):
        """Start a program beside the test; it is killed at the test's end if it still runs."""
        started = Started(args, env={**self.env, **(env or {})}, **kw)
        self.started.append(started)
        return started

    def run(self, args, env=None, **kw):
        return run(args, env={**self.env, **(env or {})}, **kw)

    def plugins(self, *names):
        """Fill a plugin folder with the stock plugins and the named ones of tests/plugins, and have it used."""
        folder = os.path.join(self.dir, "plugins")
        os.makedirs(folder, mode=0o755, exist_ok=True)
        stock = os.path.join(BUILD, "plugins")
        for path in [os.path.join(stock, f) for f in os.listdir(stock) if f.endswith(".so")] + [
            os.path.join(BUILD, "tests", "plugins", n + ".so") for n in names
        ]:
            shutil.copy(path, folder)
            os.chmod(os.path.join(folder, os.path.basename(path)), 0o755)
        self.env["DEFERRED_PLUGIN_DIR"] = folder
        return folder

    def log(self, job=None):
        """(attempt, outcome) of a job's attempts, or (job_id, attempt, outcome) of all, in order."""
        if job is not None:
            return self.sql(
                "select attempt, outcome from deferred.__deferred_log where job_id = %s order by attempt, finished_at",
                job,
            )
        return self.sql(
            "select job_id, attempt, outcome from deferred.__deferred_log order by job_id, attempt, finished_at"
        )

    def held(self, job):
        """The worker that has a job, and since when; None: nobody has."""
        rows = self.sql("select worker, claimed_at from deferred.__held where id = %s", job)
        return rows[0] if rows else None

    def noted(self):
        """Some job with a lease of its own has begun, as the next start will see."""
        with open(self.pidfile + ".begun", "rb") as f:
            return any(f.read()[16:])

    def hot(self):
        """Number of jobs still to be run."""
        return self.one("select count(*) from deferred.__deferred_hot")

    def close(self):
        for started in self.started:
            started.kill()
            started.said.close()
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):  # one whose parent was killed above ends by itself
                os.kill(pid, signal.SIGKILL)
        if self.connection is not None:
            self.connection.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def left(self):
        """Processes of this test that live, as far as this user sees them."""
        return pg.processes_with("DEFERRED_INSTANCE", self.dir + "/")

    def orphans(self):
        """Runners of this test that live. They hold secrets, so the kernel hides their environment."""
        if os.geteuid() != 0:
            pytest.skip("only root sees the environment of a runner")
        return self.left()

    def of_orphans(self, look):
        """What look(pid) returned for each of them, by pid. Some end by themselves, as the child
        does that tells a runner what is in the plugins: one that has ended meanwhile is left out."""
        found = {}
        for pid in self.orphans():
            try:
                found[pid] = look(pid)
            except (FileNotFoundError, ProcessLookupError):
                wait_for(lambda: not pg.running(pid), 10, "the end of what could not be looked at")  # it is under way
        return found


class OwnServer(Db):
    """A database on a server of its own, which the test may stop, kill and start. Without `migrated` the server has
    no role of deferred, either."""

    count = 0

    def __init__(self, settings=None, server_env=None, migrated=True):
        OwnServer.count += 1
        cluster = pg.Cluster(
            os.path.join(root(), f"own{os.getpid()}-{OwnServer.count}"), settings=settings, server_env=server_env
        )
        cluster.start().create_db("own")
        if migrated:
            prepare(cluster, "own")
        super().__init__(cluster, "own")

    def start(self):
        self.cluster.start()

    def stop(self, mode="fast"):
        if self.connection is not None:
            self.connection.close()
        self.cluster.stop(mode)

    def kill(self):
        if self.connection is not None:
            self.connection.close()
        self.cluster.kill()

    def close(self):
        super().close()
        self.cluster.remove()


def start_pooler(db, pool=3, lifetime_s=1):
    """Starts pgbouncer in transaction mode in front of the test's database, also again after its death. Returns the
    program and its conninfo."""
    folder, cluster = os.path.join(db.dir, "pooler"), db.cluster
    os.makedirs(folder, mode=0o700, exist_ok=True)
    ini = os.path.join(folder, "ini")
    with open(ini, "w") as f:
        f.write(
            f"""[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
unix_socket_mode = 0700
listen_port = {pg.PORT}
auth_type = any
pool_mode = transaction
default_pool_size = {pool}
server_lifetime = {lifetime_s}
ignore_startup_parameters = extra_float_digits,options
[databases]
{db.name} = host={cluster.folder} port={pg.PORT} dbname={db.name} user={pg.USER}
"""
        )
    if os.geteuid() == 0:
        who = pwd.getpwnam("postgres")
        os.chmod(db.dir, 0o711)
        for path in folder, ini:
            os.chown(path, who.pw_uid, who.pw_gid)
    socket = f"{folder}/.s.PGSQL.{pg.PORT}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(socket)  # one that was killed leaves it behind
    started = db.spawn(pg.as_server(["/usr/sbin/pgbouncer", ini]))
    wait_for(lambda: os.path.exists(socket) or not started.alive(), 10)
    assert started.alive(), started.output()
    return started, f"host={folder} port={pg.PORT} user={pg.USER} dbname={db.name}"


def prepare(cluster, dbname):
    """Bring a new database up to the newest schema."""
    pg.migrate(cluster.conninfo(dbname), BUILD)


def ledger(db):
    """What every test of the engine ends with: nothing lost, accepted twice or orphaned, no gap in the log."""
    violations = db.sql("select invariant, job_id, detail from deferred.check_ledger()")
    assert violations == []
    wait_for(lambda: not db.left(), 10, "the runners of this test are gone")


def ran_in_build(db, fn, plugin, n, ms, hours_ago, crashed=0):
    """Adds n attempts to the log, of half to one and a half times so many milliseconds, some of which crashed."""
    db.sql(
        """
        with job as (insert into deferred.__deferred (id, queue, fn,
        params) select nextval('deferred.__deferred_id_seq'), 'default', %s, '{}' from generate_series(1, %s)
        returning id),
        one as (select id, row_number() over () as i from job)
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, plugin, started_at, finished_at,
        wait_us, run_us)
        select id, 1, case when i <= %s then 'crashed' else 'ok' end, true, %s, at, at, 0,
        1000 * %s * (0.5 + i * 1.0 / %s)
        from one, (select now() - %s * interval '1 hour' as at) t""",
        fn,
        n,
        crashed,
        plugin,
        ms,
        n,
        hours_ago,
    )


def read_times(path):
    """Lines `start|end ID ATTEMPT PID MILLISECONDS` that the test plugin appended: the ledger
    outside the database. The time is that of time.monotonic()."""
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return [
            (w[0], int(w[1]), int(w[2]), int(w[3]), int(w[4]))
            for w in (line.split() for line in f if line.endswith("\n"))
        ]  # of the last one some may be there


def read_record(path):
    """The same without the time."""
    return [line[:4] for line in read_times(path)]


def unforeseeable(numbers):
    """Do these, of 64 bits, look as if drawn? All differ, and each bit is sometimes set and
    sometimes not, also from each to the next."""

    def both(values):
        return all({v >> bit & 1 for v in values} == {0, 1} for bit in range(64))

    assert len(numbers) >= 50  # of so many, drawn, it is not so once in 10^13 times
    return len(set(numbers)) == len(numbers) and both(numbers) and both([b - a for a, b in zip(numbers, numbers[1:])])
