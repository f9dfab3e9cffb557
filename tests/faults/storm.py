"""A campaign with kills: producers defer every kind of job, to a plugin and to a resident program.
Workers run as cron or systemd starts them, and clients exchange messages over HTTP. All of it is drawn from a seed."""

import collections
import contextlib
import json
import os
import signal
import socket
import threading
import time
import uuid

import psycopg2

import pg
from api_client import Api, add_token
from front import Front
from verdict import Journal, Verdict, now_ms, recoveries

SETTINGS = 'interval_floor = "50ms"\ninterval_ceiling = "200ms"\nbackoff_floor = "1ms"\nbackoff_ceiling = "20ms"\n'

# Of each kind its share, what it takes at most in ms, and its options. "long" ones are begun less
# often the more jobs there are.
KINDS = {
    "short": (60, 0, {}),
    "busy": (10, 30, {"queue": "busy"}),
    "long": (1, 2500, {"queue": "long"}),
    "delayed": (5, 0, {"delay": "1s"}),
    "key": (6, 10, {}),
    "limited": (6, 10, {"queue": "two"}),
    "rated": (4, 0, {"queue": "rated"}),
    "failing": (4, 0, {"max_attempts": 2}),
    "once": (4, 5, {"max_attempts": 1}),
}
LONG_MAX = 400
# The share of calls that use what only some jobs use, see Storm.more().
MORE_SHARE = 0.4
# Answers that name why a job is not there twice, or cannot be changed.
NAMED = ("23505", "55006")
# The share of jobs of each kind that run in a resident program.
PROGRAM_SHARE = 0.3
MODULE = "storm_tasks"
MODULE_PATH = f"{pg.TOP}/lib/languages/python:{os.path.dirname(os.path.abspath(__file__))}"
PROGRAM = f"""program "storm" {{
    command = {{"/usr/bin/env", "PYTHONPATH={MODULE_PATH}", "/usr/bin/python3", "-B", "-m", "deferred", "{MODULE}"}}
    max_jobs = 100
}}
"""
# Cron's lines start the program at its first job, services before they are ready.
DECLARED = {
    "cron": 'function "record_python" { program = "storm" }\nfunction "record_many" { program = "storm" }\n',
    "service": "",
}
QUEUES = ["busy", "long", "two --max-running 2", "rated --rate 400/s --burst 400"]

# Of cron's lines the seconds from start to start; a service is started again when it has ended.
WORKERS = {
    "cron": [
        (1.0, ["--cnt", "0", "--if-running=skip", "--runners", "2"]),
        (2.0, ["--cnt", "0", "--runners", "2", "--batch", "20"]),
        (1.5, ["--cnt", "25", "--isolate=job"]),
    ],
    "service": [
        (0.2, ["--loop", "--listen", "--runners", "2", "--batch", "20"]),
        (0.2, ["--loop", "--runners", "1..3"]),
        (0.2, ["--loop", "--isolate=job"]),
    ],
}
# How often each is drawn.
FAULTS = {
    "kill parent": 6,
    "kill runner": 6,
    "kill program": 8,
    "kill group": 4,
    "stop": 3,
    "takeover": 3,
    "terminate sessions": 4,
    "kill server": 1,
    "restart server": 1,
    "kill HTTP front": 2,
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def is_program(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline") as f:
        return MODULE in f.read().split("\0")
    return False


class Line:
    """A line of crontab, or a unit: the same pidfile again and again."""

    def __init__(self, db, number, mode, every, args):
        self.db, self.every, self.loop = db, every, mode == "service"
        self.args = ["check_deferred", "--pidfile", f"{db.dir}/line{number}", *args]
        self.current, self.due, self.said = [], 0, []

    def tick(self):
        for run in [r for r in self.current if not r.alive()]:
            self.bury(run)
        if time.monotonic() >= self.due and not (self.loop and self.current):
            self.start()

    def start(self):
        # A session of its own, as cron and systemd give it: what is killed as a group is this.
        self.current.append(self.db.spawn(self.args, start_new_session=True))
        self.due = time.monotonic() + self.every

    def bury(self, run):
        self.current.remove(run)
        self.said += [
            line.partition(": ")[2] for line in run.output().splitlines() if "error: " in line or "warning: " in line
        ]
        run.said.close()
        self.db.started.remove(run)
        if self.loop:
            self.due = time.monotonic() + self.every

    def running(self):
        return next((r for r in self.current if r.alive()), None)

    def end(self):
        for run in list(self.current):
            run.signal(signal.SIGTERM)
        for run in list(self.current):
            with contextlib.suppress(Exception):
                run.wait(60)
            run.kill()
            self.bury(run)


class Consumer:
    """A client of the HTTP front that puts, gets and deletes, and what it was told."""

    def __init__(self, db, rng):
        self.db, self.rng = db, rng
        self.front = Front(db, "--listen", f"127.0.0.1:{free_port()}")
        self.front.client().create("mail")
        self.put, self.perhaps, self.deleted, self.gotten, self.twice = set(), set(), set(), 0, 0
        self.calls = self.failed = 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.work)

    def tick(self):
        if not self.front.program.alive():
            with contextlib.suppress(AssertionError):
                self.db.started.remove(self.front.program)
                self.front.start(wait=False)

    def work(self):
        client, number = self.front.client(), 0
        while not self.stop.is_set():
            number += 1
            try:
                self.calls += 1
                self.one(client, f"message {number}")
            except (OSError, AssertionError, AttributeError, ValueError):  # cut off, refused, half an answer
                self.failed += 1
                client.close()
                time.sleep(0.05)
            time.sleep(0.01)

    def one(self, client, text):
        if (
            client.call(
                "POST", "/mail/messages", f"<QueueMessage><MessageText>{text}</MessageText></QueueMessage>"
            ).status
            == 201
        ):
            self.put.add(text)
        if self.rng.random() < 0.7:
            for message in client.get("mail", 2, "&visibilitytimeout=2"):
                self.gotten += 1
                self.twice += message["MessageText"] in self.deleted
                self.perhaps.add(message["MessageText"])
                if client.delete("mail", message).status == 204:
                    self.deleted.add(message["MessageText"])

    def verdict(self):
        stored = [
            t
            for t, in self.db.sql(
                "select params #>> '{}' from deferred.__deferred_hot h join deferred.__deferred d using (id) "
                "where h.fn is null"
            )
        ]
        return {
            "jobs": len(self.put),
            "lost": len(self.put - self.perhaps - set(stored)),
            "accepted twice": self.twice + len(self.deleted & set(stored)),
            "deleted": len(self.deleted),
            "left": len(stored),
            "calls without answer": self.failed,
        }


class Storm:
    mixes = True  # keys, events, edits, batches and the JSON API too, which releases before 0.2.0 lack
    token = None  # of the JSON API, if it is there

    def __init__(self, db, rng, mode, jobs, kills, say):
        self.db, self.rng, self.mode, self.jobs, self.kills, self.say = db, rng, mode, jobs, kills, say
        self.record = os.path.join(db.dir, "record")
        self.journal, self.faults, self.ruled = Journal(), [], 0
        self.ended, self.read_to = 0, 0
        self.long_left = LONG_MAX
        self.produced = threading.Event()
        self.deferred, self.named, self.wrong = 0, collections.Counter(), []
        self.sessions = threading.local()

    # ---- jobs

    def calls(self, rng):
        """Some of one kind, and their key."""
        kind = rng.choices(list(KINDS), [k[0] for k in KINDS.values()])[0]
        _, ms, opts = KINDS[kind]
        n = rng.choice([1, 1, 5, 25]) if kind != "long" else 1
        if kind == "long":
            self.long_left -= 1
            kind, ms, opts = (kind, ms, opts) if self.long_left >= 0 else ("short", *KINDS["short"][1:])
        key = f"key {rng.randrange(8)}" if kind == "key" else None
        params = {"file": self.record, "ms": rng.randrange(ms + 1), **({"fail": 1} if kind == "failing" else {})}
        call = {"fn": "record", "params": params, **opts, **({"concurrency_key": key} if key else {})}
        if rng.random() < PROGRAM_SHARE:
            kind, call["fn"] = "program", "record_python"
        return kind, key, [call] * n

    def produce(self, rng):
        connection = None
        while not self.enough():
            if self.deferred - self.ended > max(200, self.jobs // 50):
                time.sleep(0.02)  # a queue of bounded length
                continue
            if self.mixes and rng.random() < MORE_SHARE:
                rng.choice([self.unique, self.event, self.edit, self.batch, *([self.request] if self.token else [])])(
                    rng
                )
                continue
            kind, key, calls = self.calls(rng)
            try:
                if connection is None or connection.closed:
                    connection = psycopg2.connect(self.db.conninfo, application_name="producer", connect_timeout=5)
                with connection, connection.cursor() as cursor:
                    cursor.execute("select deferred.defer_many(%s)", (json.dumps(calls),))
                    ids = [r[0] for r in cursor.fetchall()]
                self.journal.add(ids, kind, key)
                self.deferred += len(ids)
            except psycopg2.Error:
                if connection is not None:
                    self.journal.doubt()
                    connection.close()
                time.sleep(0.05)
        if connection is not None:
            connection.close()

    # ---- what only some jobs use

    def ask(self, query, *values):
        """The answer, in a transaction of its own. None: nobody knows what became of it. Or an SQLSTATE of NAMED."""
        session = getattr(self.sessions, "one", None)
        try:
            if session is None or session.closed:
                session = self.sessions.one = self.db.connect(application_name="producer", connect_timeout=5)
            with session, session.cursor() as cursor:
                cursor.execute(query, values)
                return cursor.fetchone()[0]
        except psycopg2.Error as error:
            if error.pgcode in NAMED:
                self.named[error.pgcode] += 1
                return error.pgcode
            if (error.pgcode or "57")[:2] not in ("57", "08", "55", "40"):
                self.wrong.append(str(error))
            self.journal.doubt()
            if session is not None:
                session.close()
            time.sleep(0.05)
            return None

    def one(self, rng, kind, excludes=None, fn=None, **opts):
        params = json.dumps({"file": self.record, "ms": rng.randrange(5)})
        fn = fn or rng.choice(["record", "record_python"])
        job = self.ask("select deferred.defer(%s, %s, %s)", fn, params, json.dumps(opts))
        if isinstance(job, int):
            self.deferred += job not in self.journal.jobs
            self.journal.add([job], kind, excludes)
        return job

    def unique(self, rng):
        """Jobs with one of a few keys. Those that hold it to their end or longer exclude each other."""
        until = rng.choice(["end", "start", "100ms"])
        n = rng.randrange(10)
        key, fn = f"{'start' if until == 'start' else 'held'} {n}", ("record", "record_python")[n % 2]
        opts = {"key": key, "key_until": until, "on_duplicate": rng.choice(["skip", "error", "replace", "update"])}
        self.one(rng, "unique", None if until == "start" else key, fn, **opts)

    def event(self, rng):
        """An event that is sent before its job is deferred, behind it, with it, or not in time."""
        name, when = f"event {rng.random()}", rng.choice(["before", "behind", "with", "never"])
        send = "deferred.send_event(%s, '1')"

        def sure():
            while self.ask(f"select {send}", name) is None and not self.wrong:
                pass

        if when == "before":
            sure()
        if when == "with":
            params = json.dumps({"file": self.record, "ms": 0})
            opts = json.dumps({"wait_for": {"event": name, "within": "1s", "on_timeout": "run"}})
            job = self.ask(f"select deferred.defer('record', %s, %s), {send}", params, opts, name)
            if job is not None:
                self.deferred += 1
                self.journal.add([job], "event")
            return
        late = {"within": "500ms", "on_timeout": rng.choice(["cancel", "fail", "run"])} if when == "never" else {}
        self.one(rng, "event", wait_for={"event": name, **late})
        if when == "behind":
            sure()

    def edit(self, rng):
        """A job that waits is changed while workers claim."""
        job = self.one(rng, "edited", delay=rng.choice(["0", "50ms", "1s"]))
        change = rng.choice([{"priority": rng.randrange(3)}, {"delay": "0"}, {"delay": "300ms"}, {"queue": "busy"}])
        if isinstance(job, int):
            self.ask("select deferred.update(%s, %s)", job, json.dumps(change))

    def batch(self, rng):
        for _ in range(rng.randrange(1, 8)):
            self.one(rng, "batch", fn="record_many")

    def request(self, rng):
        """A job over the JSON API. Its request is repeated with its Idempotency-Key until there is an answer."""
        key = str(uuid.UUID(int=rng.getrandbits(128)))
        body = {"fn": "record", "params": {"file": self.record, "ms": 0, "request": key}}
        while self.token and not self.wrong:
            with contextlib.closing(Api(self.consumer.front, self.token)) as api, contextlib.suppress(
                OSError, AssertionError, AttributeError, ValueError
            ):
                got = api.call("POST", "/v1/jobs", body, headers=[("Idempotency-Key", key)])
                if got.status == 201:
                    self.deferred += 1
                    return self.journal.add([got.json["id"]], "request")
                if got.status < 500 and self.token:
                    self.wrong.append(str(got))
            time.sleep(0.05)
        self.journal.doubt()

    def repeated(self):
        """Jobs that exist twice, though their requests had one key."""
        return self.db.one(
            "select count(*) - count(distinct params ->> 'request') from deferred.__deferred "
            "where params ->> 'request' is not null"
        )

    def rule(self):
        """Twenty more rows become jobs; those of a run that says it is done are acknowledged."""
        batch = self.ruled + 1
        with contextlib.suppress(psycopg2.Error):
            self.db.sql(
                "insert into public.todo select %s, i from generate_series(1, 20) i on conflict do nothing", batch
            )
            if self.db.run(["deferred", "rule", "run", "todo"]).returncode == 0:
                ids = [
                    r[0] for r in self.db.sql("select id from deferred.__deferred where key like %s", f"todo {batch}-%")
                ]
                self.ruled = batch
                self.missing += 20 - len(ids)
                self.journal.add(ids, "rule")
                self.deferred += len(ids)

    # ---- faults

    def strike(self, what):
        line = self.rng.choice(self.lines)
        run = line.running()
        if what in ("kill parent", "kill runner", "kill program", "kill group", "stop", "takeover") and run is None:
            return False
        runners, at = pg.children_of(run.pid) if run else [], now_ms()
        programs = [p for runner in runners for p in pg.children_of(runner) if is_program(p)]
        pids = [*runners, *programs]
        if what == "kill parent":
            run.signal(signal.SIGKILL)
        elif what in ("kill runner", "kill program"):
            victims = runners if what == "kill runner" else programs
            if not victims:
                return False
            victim = self.rng.choice(victims)
            pids = [victim, *pg.children_of(victim)]
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        elif what == "kill group":
            for pid in [run.pid, *pids]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        elif what == "stop":
            pids = []
            run.signal(signal.SIGTERM)
        elif what == "takeover":
            pids = []
            line.start()
        elif what == "terminate sessions":
            pids = []
            with contextlib.suppress(psycopg2.Error):
                self.db.sql(
                    """select pg_terminate_backend(pid) from (select pid from pg_stat_activity
                               where datname = current_database() and pid <> pg_backend_pid()
                               order by random() limit %s) x""",
                    self.rng.randrange(1, 4),
                )
        elif what == "kill HTTP front":
            pids = []
            self.consumer.front.program.signal(signal.SIGKILL)
        else:
            pids = []
            self.db.kill() if what == "kill server" else self.db.stop(
                "fast" if self.rng.random() < 0.5 else "immediate"
            )
            self.db.start()
        self.faults.append((what, at, pids))
        return True

    # ---- the whole

    def prepare(self):
        db = self.db
        db.plugins("unruly")
        self.consumer = Consumer(db, self.rng)
        with open(db.config_file) as f:
            db.config(f.read() + SETTINGS + PROGRAM + DECLARED[self.mode])
        for queue in QUEUES:
            done = db.run(["deferred", "queue", "set", *queue.split(), "--create"])
            assert done.returncode == 0, done.stderr
        db.sql("create table public.todo (batch int, i int, primary key (batch, i))")
        query = (
            f"select 'todo ' || batch || '-' || i as key, '{self.record}' as file from public.todo "
            f"where batch = (select max(batch) from public.todo)"
        )
        done = db.run(["deferred", "rule", "add", "todo", "record", query, "--key", "key"])
        assert done.returncode == 0, done.stderr
        self.missing = 0
        self.token = add_token(db, "storm", "--may", "defer") if self.mixes else None
        self.lines = [Line(db, i, self.mode, *how) for i, how in enumerate(WORKERS[self.mode])]

    def enough(self):
        """Whether producers have stored all jobs."""
        return self.deferred >= self.jobs

    def over(self):
        """Whether all has happened that is to happen under load."""
        return len(self.faults) >= self.kills

    def tick(self):
        for line in self.lines:
            line.tick()
        self.consumer.tick()
        self.look()

    def look(self):
        """How many have ended, by what was added to the record."""
        with contextlib.suppress(FileNotFoundError), open(self.record, "rb") as f:
            f.seek(self.read_to)
            text = f.read()
            self.read_to += len(text)
            self.ended += text.count(b"end ")

    def run(self, sql=None):
        self.prepare()
        if sql:
            self.db.sql(sql)
        producers = [threading.Thread(target=self.produce, args=(type(self.rng)(self.rng.random()),)) for _ in range(2)]
        for thread in [*producers, self.consumer.thread]:
            thread.start()
        next_fault = next_rule = next_word = began = time.monotonic()
        try:
            while any(t.is_alive() for t in producers) or not self.over():
                now = time.monotonic()
                assert not self.wrong, self.wrong[0]
                self.tick()
                if (
                    len(self.faults) < self.kills
                    and now >= next_fault
                    and self.ended * self.kills >= len(self.faults) * self.jobs * 0.9
                ):
                    self.strike(self.rng.choices(list(FAULTS), list(FAULTS.values()))[0])
                    next_fault = time.monotonic() + self.rng.random() * 0.4
                if now >= next_rule and any(t.is_alive() for t in producers):
                    self.rule()
                    next_rule = time.monotonic() + 2
                if now >= next_word:
                    self.say(
                        f"{self.mode}: {now - began:.0f} s, {self.deferred} deferred, {self.ended} runs ended, "
                        f"{len(self.faults)} faults"
                    )
                    next_word = now + 30
                time.sleep(0.03)
            self.drain()
        finally:
            self.consumer.stop.set()
            self.deferred = max(self.deferred, self.jobs)
            for thread in [*producers, self.consumer.thread]:
                thread.join(60)
            for line in self.lines:
                line.end()
        verdict = Verdict(self.db, self.journal, self.record)
        verdict.counts["message"].update(self.consumer.verdict())
        verdict.counts["rule"]["lost"] += self.missing
        verdict.counts["request"]["accepted twice"] += self.repeated()
        verdict.counts["all"]["accepted twice"] += self.repeated()
        for what in ("lost", "accepted twice", "jobs"):
            verdict.counts["all"][what] += verdict.counts["message"][what]
        verdict.counts["all"]["lost"] += self.missing
        self.seconds = time.monotonic() - began
        self.recovered = recoveries(self.faults, verdict.runs)
        return verdict

    def drain(self, limit=90):
        """What is left has nobody to disturb it; what is not through then is stuck."""
        deadline, idle = time.monotonic() + limit, self.ended
        while time.monotonic() < deadline:
            for line in self.lines:
                line.tick()
            self.look()
            if self.ended > idle:  # as long as it goes on it is not stuck
                deadline, idle = time.monotonic() + limit, self.ended
            with contextlib.suppress(psycopg2.Error):
                if self.db.one("select count(*) from deferred.__deferred_hot where fn is not null") == 0:
                    return
            time.sleep(0.1)


def sentence(kind, count, waits):
    """One line of result."""
    text = f"{kind}: {count['jobs']} jobs" + "".join(
        f", {what} {count[what]}"
        for what in ("lost", "never run", "accepted twice", "overlapping", "stuck", "run twice")
    )
    if waits[0] is not None:
        text += ", waited p50 {:.3f} s, p99 {:.3f} s, max {:.3f} s".format(*waits)
    return text
