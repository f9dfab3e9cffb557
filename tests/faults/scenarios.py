"""One fault each: a queue at work, something that happens to it, and what became of the jobs.
Pieces of the tests of tests/faults are used where these have the same fault."""

import contextlib
import json
import os
import re
import signal
import threading
import time

import psycopg2

import harness
import pg
import test_clocks
import test_disk
from api_client import add_token
from claimers import CALLS, ByApi, BySql, Claimer
from front import Front
from harness import wait_for
from proxy import Proxy
from verdict import COUNTS, Journal, Verdict, now_ms

SETTINGS = (
    'interval_floor = "50ms"\ninterval_ceiling = "200ms"\nbackoff_floor = "1ms"\nbackoff_ceiling = "20ms"\n'
    'database { answer_timeout = "2s" }\n'
)
PAUSE_S = 0.04  # between two jobs that are deferred


class Result:
    def __init__(self):
        self.jobs = self.lost = self.twice = 0
        self.recovered = self.pause = None
        self.said, self.wrong = "nothing", []


class Stage:
    """A server of its own with two services and a producer. way: how workers reach the server,
    where it is not straight."""

    def __init__(self, rng, settings=None, server_env=None, services=2, config=""):
        self.rng, self.services = rng, services
        self.db = harness.OwnServer(settings=settings, server_env=server_env)
        self.db.plugins("unruly")
        self.db.config(SETTINGS + config)
        self.record = os.path.join(self.db.dir, "record")
        self.journal, self.may_lose = Journal(), frozenset()
        self.conninfo = self.db.conninfo  # of producer and workers
        self.runs, self.expected = [], set()
        self.stopped = threading.Event()
        self.sql = None
        self.began = self.ended = None
        self.wrong = []

    def service(self, *args):
        name = f"{self.db.dir}/pid{len(self.runs)}"
        run = self.db.spawn(
            ["check_deferred", "--loop", "--runners", "2", "--pidfile", name, *args], env={"DEFERRED_DB": self.conninfo}
        )
        self.runs.append(run)
        return run

    def producer(self):
        connection = None
        while not self.stopped.is_set():
            try:
                if connection is None or connection.closed:
                    connection = psycopg2.connect(
                        self.conninfo, application_name="producer", connect_timeout=3, tcp_user_timeout=3000
                    )
                with connection, connection.cursor() as cursor:
                    cursor.execute(
                        "set local statement_timeout = '3s'; select deferred.defer('record', %s)",
                        (json.dumps({"file": self.record, "ms": self.rng.randrange(20)}),),
                    )
                    job = cursor.fetchone()[0]
                self.journal.add([job], "job")
            except psycopg2.Error:
                if connection is not None:
                    connection.close()
            time.sleep(PAUSE_S)
        if connection is not None:
            connection.close()

    def backlog(self, n):
        """Jobs of 10 ms that are there all at once."""
        ids = self.db.sql(
            "select deferred.defer_many(%s)",
            json.dumps([{"fn": "record", "params": {"file": self.record, "ms": 10}}] * n),
        )
        self.journal.add([r[0] for r in ids], "job")

    def ends(self):
        return [ms for what, *_, ms in harness.read_times(self.record) if what == "end"]

    def go(self, seconds):
        time.sleep(seconds)

    @contextlib.contextmanager
    def fault(self):
        """What is in here is the fault; at its end it is mended."""
        self.began = now_ms()
        yield
        self.ended = now_ms()

    def play(self, scenario):
        if self.sql:
            self.db.sql(self.sql)
        for _ in range(self.services):
            self.service()
        thread = threading.Thread(target=self.producer)
        try:
            with contextlib.ExitStack() as stack:
                self.stack, self.thread = stack, thread
                scenario(self)
                self.stopped.set()
                thread.join(30)
                return self.result()
        finally:
            self.stopped.set()
            if thread.ident:
                thread.join(30)
            self.db.close()

    def begin(self):
        """Jobs come, and are done."""
        self.thread.start()
        wait_for(lambda: len(self.ends()) > 15, 30, "jobs are done")

    def result(self):
        result = Result()
        stuck = None
        try:
            wait_for(lambda: self.db.one("select count(*) from deferred.__deferred_hot where fn is not null") == 0, 60)
        except AssertionError as e:
            stuck = str(e)
        for run in self.runs:
            run.signal(signal.SIGTERM) if run.alive() else None
        for run in self.runs:
            run.wait(60)
        verdict = Verdict(self.db, self.journal, self.record, self.may_lose)
        count = verdict.counts["all"]
        result.jobs, result.lost, result.twice = (
            count["jobs"],
            count["lost"] + len(verdict.lost_by_server),
            count["run twice"],
        )
        result.wrong = (
            [f"{what}: {count[what]}" for what in COUNTS if count[what]]
            + [str(v) for v in verdict.violations]
            + ([stuck] if stuck else [])
            + self.wrong
        )
        ends = sorted(run.ended for run in verdict.runs if run.ended is not None)
        after = [ms for ms in ends if ms > self.ended]
        result.recovered = (after[0] - self.ended) / 1000 if after else None
        span = [self.began, *(ms for ms in ends if ms > self.began)]
        result.pause = max((b - a for a, b in zip(span, span[1:])), default=0) / 1000
        if not after:
            result.wrong.append("nothing was done afterwards")
        result.said = self.said()
        missing = [text for text in self.expected if not re.search(text, result.said)]
        result.wrong += [f"nobody was told: {text}" for text in missing]
        return result

    def said(self):
        """What the logs of the workers warn of, each kind once, without what differs from time to time."""
        found = {}
        for run in self.runs:
            for line in run.output().splitlines():
                level, text = (
                    re.match(r".*?(?:check_deferred\S*:? )?(error|warning|info): (.*)", line).groups()
                    if re.search("(error|warning|info): ", line)
                    else (None, "")
                )
                if level in ("error", "warning") or "connected again" in text or "came back" in text:
                    if "run as root" not in text:
                        found.setdefault(re.sub(r"\d+", "N", text)[:60], text)
        text = "; ".join(list(found.values())[:3]).replace(harness.root() + "/", "")
        return text[:400] if text else "nothing"


def play(scenario, rng, sql=None):
    how = getattr(scenario, "how", {})
    env, clock = None, None
    if how.get("clock"):
        clock = test_clocks.Clock("ledger")
        env = clock.env
    stage = Stage(rng, how.get("settings"), env, how.get("services", 2), how.get("config", ""))
    stage.clock, stage.sql = clock, sql
    try:
        return stage.play(scenario)
    finally:
        if clock:
            clock.close()


def how(**more):
    def mark(scenario):
        scenario.how = more
        return scenario

    return mark


# ---- the faults


def worker_killed(stage):
    stage.begin()
    with stage.fault():
        for pid in [stage.runs[0].pid, *pg.children_of(stage.runs[0].pid)]:
            os.kill(pid, signal.SIGKILL)
    stage.go(4)


def server_restarted(stage):
    stage.begin()
    with stage.fault():
        stage.db.stop("fast")
        stage.go(1)
        stage.db.start()
    stage.go(2)


def server_killed(stage):
    stage.begin()
    with stage.fault():
        stage.db.kill()
        stage.db.start()
    stage.go(2)


def sessions_terminated(stage):
    stage.begin()
    with stage.fault():
        for _ in range(8):
            stage.db.sql(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
                "and pid <> pg_backend_pid()"
            )
            stage.go(0.5)
    stage.go(1)


@how(services=0)
def network_cut(stage):
    way = stage.stack.enter_context(Proxy(stage.db.cluster))
    stage.conninfo = way.conninfo(stage.db.name)
    stage.service()
    stage.service()
    stage.begin()
    with stage.fault():
        way.swallow = True  # nothing arrives any more, and nothing is closed
        stage.go(7)
        way.cut()
        way.swallow = False
    stage.go(3)


@how(settings={"max_connections": "20", "superuser_reserved_connections": "0"})
def no_connections(stage):
    stage.begin()
    others = []
    stage.db.sql("select 1")  # it has a connection, and keeps it
    with stage.fault():
        deadline, full = time.monotonic() + 4, False
        while time.monotonic() < deadline:
            try:
                others.append(psycopg2.connect(stage.db.conninfo))
            except psycopg2.OperationalError:
                if not full:  # whoever had one has to get it again now
                    stage.db.sql(
                        "select pg_terminate_backend(pid) from pg_stat_activity "
                        "where application_name in ('check_deferred', 'producer')"
                    )
                full = True
                time.sleep(0.005)
        for connection in others:
            connection.close()
    stage.go(2)


def disk_full_for_tables(stage):
    disk = stage.stack.enter_context(small_disk(stage, test_disk.data_on, 64))
    stage.begin()
    stage.backlog(800)  # so that there is something to be recorded
    with stage.fault():
        disk.fill()
        stage.go(5)
        disk.free()
    stage.go(2)


def disk_full_for_wal(stage):
    disk = stage.stack.enter_context(small_disk(stage, test_disk.wal_on, 16))
    stage.begin()
    with stage.fault():
        disk.fill()
        with contextlib.suppress(psycopg2.Error):
            while stage.db.cluster.pid():  # or it would take a while
                stage.db.sql("select pg_logical_emit_message(true, 'x', repeat('x', 500000))")
        wait_for(lambda: not stage.db.cluster.pid(), 30, "the server has stopped")
        disk.free()
        stage.db.start()
    stage.go(2)


@contextlib.contextmanager
def small_disk(stage, make, megabytes):
    """The result is taken before the disk, and the server with it, goes; and nobody is there while it is put in."""
    for run in stage.runs:
        wait_for(
            lambda run=run: stage.db.sql("select 1 from deferred.__deferred_worker where pid = %s", run.pid),
            20,
            "it has registered",
        )
        run.signal(signal.SIGTERM)
        run.wait(30)
    stage.runs.clear()
    with make(stage.db, megabytes) as disk:
        stage.service()
        stage.service()
        yield disk


def lock_on_the_hot_table(stage):
    stage.begin()
    with contextlib.closing(
        psycopg2.connect(stage.db.conninfo, application_name="editor")
    ) as holder, holder.cursor() as cursor:
        with stage.fault():
            cursor.execute("lock table deferred.__deferred_hot in access exclusive mode")
            stage.go(5)
            holder.rollback()
    stage.go(2)


def held_snapshot(stage):
    stage.begin()
    with contextlib.closing(
        psycopg2.connect(stage.db.conninfo, application_name="reader")
    ) as holder, holder.cursor() as cursor:
        holder.set_session(isolation_level="REPEATABLE READ")
        cursor.execute("select count(*) from deferred.__deferred_hot")
        with stage.fault():
            stage.go(5)
        stage.go(1)
        holder.rollback()


@how(clock=True)
def clocks(stage):
    stage.begin()
    with stage.fault():
        stage.clock.set(3600)
        stage.go(3)
        stage.clock.set(0)
    stage.go(3)


def poison(stage):
    stage.begin()
    with stage.fault():
        for fn in (
            "segv",
            "abort",
            "exit0",
            "_exit0",
            "close_all_fds",
            "junk_on_fds",
            "hang_ignoring_sigterm",
            "survivor",
        ) * 3:
            stage.db.defer(fn, json.dumps({"file": f"{stage.db.dir}/survivors"}), max_attempts=2, timeout="300ms")
        stage.go(4)
    stage.go(1)


@how(config='memory_limit = "100m"\n')
def memory(stage):
    stage.begin()
    with stage.fault():
        for _ in range(6):
            stage.db.defer("eat_memory", max_attempts=2)
        stage.go(3)
    stage.go(1)


@how(services=0)
def claimers_server_and_front_killed(stage):
    """Programs execute the jobs, by SQL and by the JSON API with tokens."""
    front = Front(stage.db)
    stage.stack.callback(lambda: front.program.kill())
    tokens = [add_token(stage.db, name, "--may", "work") for name in ("first", "second")]
    ways = [lambda: BySql(stage.db)] * 2 + [lambda token=token: ByApi(front, token) for token in tokens]
    saved = set()
    claimers = [Claimer(way, type(stage.rng)(stage.rng.random()), saved, stage.wrong) for way in ways]
    for claimer in claimers:
        claimer.start()
        stage.stack.callback(claimer.stop)
    stage.begin()
    with stage.fault():
        for _ in range(5):
            front.program.kill()
            front.start(wait=False)
            stage.go(stage.rng.random())
            stage.db.kill()
            stage.db.start()
            stage.go(stage.rng.random())
    stage.go(2)
    for one, other in claimers[:2], claimers[2:]:
        stage.wrong += [f"never called: {verb}" for verb in set(CALLS) - one.verbs - other.verbs]


def promoted(stage, synchronous):
    db, first = stage.db, stage.db.cluster
    with Proxy(first) as way:
        second = first.standby(first.folder + "-second", way.conninfo("postgres"))
        stage.stack.callback(second.remove)
        stage.stack.callback(setattr, db, "cluster", first)
        if synchronous:
            db.sql("alter system set synchronous_standby_names = 'second'")
            db.sql("select pg_reload_conf()")
            wait_for(
                lambda: db.sql("select 1 from pg_stat_replication where sync_state = 'sync'"),
                20,
                "the standby is synchronous",
            )
        stage.conninfo = (
            f"host={first.folder},{second.folder} port={pg.PORT},{pg.PORT} user={pg.USER} dbname={db.name} "
            "target_session_attrs=read-write"
        )
        stage.service()
        stage.service()
        stage.begin()
        if not synchronous:
            way.refuse = True
            way.cut()
            stage.go(1)  # what is acknowledged from here on is lost with this server
        with stage.fault():
            db.kill()
            second.promote()
        db.cluster, db.conninfo = second, second.conninfo(db.name)
        with stage.journal.lock:
            before = set(stage.journal.jobs)
        if not synchronous:
            there = {r[0] for r in db.sql("select id from deferred.__deferred")}
            stage.may_lose = frozenset(before - there)
        stage.go(3)


@how(services=0)
def standby_promoted_synchronous(stage):
    promoted(stage, True)


@how(services=0)
def standby_promoted_asynchronous(stage):
    promoted(stage, False)


@how(services=0)
def pooler_killed(stage):
    pooler, stage.conninfo = harness.start_pooler(stage.db)
    stage.service()
    stage.service()
    stage.begin()
    with stage.fault():
        pooler.kill()
        stage.go(2)
        harness.start_pooler(stage.db)
    stage.go(2)


ALL = {
    "worker killed": worker_killed,
    "server restarted": server_restarted,
    "server killed": server_killed,
    "sessions terminated twice a second": sessions_terminated,
    "network cut without closing": network_cut,
    "no connections left": no_connections,
    **(
        {"disk full for tables": disk_full_for_tables, "disk full for WAL": disk_full_for_wal}
        if os.geteuid() == 0
        else {}
    ),
    "lock on the hot table": lock_on_the_hot_table,
    "held snapshot": held_snapshot,
    "server's clock an hour ahead and back": clocks,
    "poison": poison,
    "memory": memory,
    "server and front of claimers killed": claimers_server_and_front_killed,
    "standby promoted, synchronous": standby_promoted_synchronous,
    "standby promoted, asynchronous": standby_promoted_asynchronous,
    "pooler killed": pooler_killed,
}
