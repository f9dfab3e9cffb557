"""The claim as a whole under random events, with a printed seed: many workers
(tests/harness/claim_call: the store's own cycles, without runners), producers whose transactions
stay open, roll back to savepoints or are prepared, operators who cancel, lock, change and retry,
kills of workers and sessions at any moment, and immediate stops of the server.

tests/model explores every interleaving of a small model of the claim. This is the other half: the
real statements, in as many orders as there is time for, held against what a worker may conclude
from the answers it got.
"""

import json
import os
import select
import subprocess
import time

import psycopg2
import pytest

from harness import BUILD, OwnServer, wait_for

LEASE_MS = 1500
PREPARED_MAX = 20
QUEUES = ("a", "b", "limited")


class Worker:
    """One claim_call. It has one line in work at most; what it holds is known from its answers only."""

    def __init__(self, db, window):
        self.process = subprocess.Popen(
            [
                os.path.join(BUILD, "tests", "harness", "claim_call"),
                "-l",
                str(LEASE_MS),
                "-w",
                str(window),
                "-k",
                "3",
                db.conninfo,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=db.env,
        )
        self.held = {}  # id: when the lease was asked for, at the latest
        self.asked = self.asked_at = None
        self.busy = True  # until the first line, which has its id

    def send(self, asked):
        line = "; ".join(" ".join([verb, *map(str, of)]) for verb, of in asked)
        self.asked, self.asked_at, self.busy = dict(asked), time.monotonic(), True
        try:
            self.process.stdin.write((line + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def is_giving_up(self, job):
        return (
            self.busy and self.asked and any(job in self.asked.get(verb, []) for verb in ("finish", "retry", "release"))
        )

    def answer(self):
        """The answer, {} for the first line; None: it has died."""
        line = self.process.stdout.readline()
        self.busy = False
        if not line.endswith(b"\n"):
            return None
        if self.asked is None:
            return {}
        return json.loads(line)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class World:
    """The server with all who are at it, and what each of them was told."""

    def __init__(self, db, rng, workers, can_stop):
        self.db, self.rng, self.n, self.can_stop = db, rng, workers, can_stop
        self.workers = [self.worker() for _ in range(workers)]
        self.accepted = set()  # a worker was told that its ok counts
        self.touched = set()  # by hand: may be held and ready again at once
        self.stored = set()  # committed
        self.once = set()  # of these, with one attempt
        self.open = []  # (connection, ids, ids of one attempt, prepared name or None)
        self.locks = []
        self.prepared = 0
        self.counts = {}

    def worker(self):
        return Worker(self.db, self.rng.choice([1, 5, 100, 1000]))

    def count(self, what, n=1):
        self.counts[what] = self.counts.get(what, 0) + n

    # ---- producers

    def defer(self, cursor):
        n, once = self.rng.choice([1, 1, 3, 20]), self.rng.random() < 0.05
        opts = {
            "queue": self.rng.choice(QUEUES),
            "priority": self.rng.choice([0, 0, 3]),
            "max_attempts": 1 if once else 10000,
            "backoff_floor": "1ms",
            "backoff_ceiling": "1ms",
        }
        if self.rng.random() < 0.1:
            opts["delay"] = f"{self.rng.randrange(2000)}ms"
        cursor.execute("select deferred.defer('f', '{}', %s) from generate_series(1, %s)", (json.dumps(opts), n))
        return {r[0] for r in cursor.fetchall()}, once

    def produce(self):
        c = psycopg2.connect(self.db.conninfo, options="-c lock_timeout=20s")  # nobody is to wait, but a test is to end
        cursor, ids, once = c.cursor(), set(), set()
        for _ in range(self.rng.choice([1, 1, 2, 4])):
            subtransaction = self.rng.random()
            if subtransaction < 0.3:
                cursor.execute("savepoint s")
            more, one = self.defer(cursor)
            if subtransaction < 0.15:
                cursor.execute("rollback to s")
                continue
            ids |= more
            once |= more if one else set()
        self.open.append((c, ids, once, None))
        if self.rng.random() < 0.6:  # the others stay open while workers go on
            self.end_producer(len(self.open) - 1)

    def end_producer(self, i):
        c, ids, once, name = self.open.pop(i)
        how = self.rng.random()
        if name:
            c.autocommit = True
            c.cursor().execute(("commit" if how < 0.8 else "rollback") + f" prepared '{name}'")
        elif how < 0.1 and sum(o[3] is not None for o in self.open) < PREPARED_MAX:
            self.prepared += 1
            name = f"p{self.prepared}"
            c.cursor().execute(f"prepare transaction '{name}'")
            c.rollback()
            self.open.append((c, ids, once, name))
            return
        elif how < 0.8:
            c.commit()
        else:
            c.rollback()
        if how < 0.8:
            self.stored |= ids
            self.once |= once
            self.count("deferred", len(ids))
        c.close()

    # ---- operators

    def sql(self, query, *args):
        """Waits for no lock for long: it may be one of ours. An error may have closed the connection before."""
        self.db.sql("set lock_timeout = '100ms'")
        return self.db.sql(query, *args)

    def some_hot(self):
        return [r[0] for r in self.sql("select id from deferred.__deferred_hot order by random() limit 5")]

    def operate(self):
        try:
            self.do_something()
        except psycopg2.errors.LockNotAvailable:
            self.count("locked")

    def do_something(self):
        what = self.rng.choice(["cancel", "lock", "lock", "unlock", "unlock", "retry", "repair", "update"])
        if what == "cancel" and self.rng.random() < 0.3:
            for job in self.some_hot()[:2]:
                self.touched.add(job)
                self.count("cancelled", len(self.sql("select c from deferred.cancel(%s) c where c", job)))
        elif what == "lock" and len(self.locks) < 3:
            c = psycopg2.connect(self.db.conninfo)
            c.cursor().execute(
                "select from deferred.__deferred_hot where id = any (%s) for update skip locked", (self.some_hot(),)
            )
            self.locks.append(c)
        elif what == "unlock" and self.locks:
            c = self.locks.pop(self.rng.randrange(len(self.locks)))
            c.rollback()
            c.close()
        elif what == "retry":
            for (job,) in self.sql(
                "select job_id from deferred.__deferred_log where final and outcome <> 'ok' order by random() limit 1"
            ):
                self.touched.add(job)
                try:
                    self.sql("select deferred.retry(%s)", job)
                except (psycopg2.errors.ObjectInUse, psycopg2.errors.ObjectNotInPrerequisiteState):
                    self.count("retried before")
        elif what == "repair":
            self.sql("select deferred.__repair()")
        elif what == "update":
            for job in self.some_hot()[:2]:
                changes = [{"params": [1]}, {"priority": 3}, {"queue": self.rng.choice(QUEUES)}, {"delay": "0"}]
                try:
                    self.sql("select deferred.update(%s, %s)", job, json.dumps(self.rng.choice(changes)))
                    self.count("updated")
                except psycopg2.errors.ObjectInUse:
                    self.count("claimed or ended before")

    # ---- workers

    def ask(self, w):
        held, asked = list(w.held), []
        self.rng.shuffle(held)

        def some(share):
            n = self.rng.randrange(int(len(held) * share) + 2)
            taken = held[:n]
            del held[:n]
            return taken

        for verb, share in (("finish", 1), ("retry", 0.3), ("release", 0.3)):
            of = some(share) if held and self.rng.random() < 0.6 else []
            if of:
                asked.append((verb, [self.rng.choice([0, 20]), *of] if verb == "retry" else of))
        if held and self.rng.random() < 0.3:
            asked.append(("renew", held))
        asked += [
            (verb, [])
            for verb, share in (("lost", 0.2), ("promote", 0.3), ("rollback", 0.03))
            if self.rng.random() < share
        ]
        if self.rng.random() < 0.7:
            asked.append(("claim", [self.rng.choice([1, 3, 10, 60])]))
        if self.rng.random() < 0.3:
            asked.append(("limited", [self.rng.choice([1, 5])]))
        w.send(asked or [("claim", [1])])

    def hear(self, w):
        answer = w.answer()
        if answer is None:
            self.count("died")
            self.replace(w)
            return
        if not answer:
            return
        now = time.monotonic()
        done = set(w.asked.get("finish", []))
        if answer["recorded_ok"]:
            ok = done & set(answer["recorded"])
            assert not ok & self.accepted, f"accepted twice: {ok & self.accepted}"
            self.accepted |= ok
            self.count("ok", len(ok))
            self.count("refused", len(done - ok))
            back = set(w.asked.get("release", [])) - set(answer["locked"])
            for job in done | set(w.asked.get("retry", [])[1:]) | back:
                w.held.pop(job, None)
            for job in answer["renewed"]:
                w.held[job] = w.asked_at
        if answer["claimed_ok"]:
            for job, _, _, _ in answer["claimed"]:
                for other in self.workers:
                    since = other.held.get(job)
                    if since is not None and job not in self.touched and other is not w and not other.is_giving_up(job):
                        # Or what is heard now is the older one of the two, and its lease is over: a
                        # lease counts from when it was asked for.
                        assert (
                            now >= min(since, w.asked_at) + LEASE_MS / 1000
                        ), f"job {job} is leased twice: asked for {(now - since) * 1000:.0f} ms ago, "
                        f"and {(now - w.asked_at) * 1000:.0f} ms ago"
                assert (
                    job not in self.accepted or job in self.touched
                ), f"job {job} is claimed after its ok was accepted"
                w.held[job] = w.asked_at
            self.count("claimed", len(answer["claimed"]))

    def replace(self, w):
        w.kill()
        self.workers[self.workers.index(w)] = self.worker()

    def hear_all(self, timeout):
        busy = {w.process.stdout: w for w in self.workers if w.busy}
        for ready in select.select(list(busy), [], [], timeout)[0]:
            self.hear(busy[ready])

    # ---- what breaks

    def break_something(self):
        what = self.rng.random()
        if what < 0.5:
            self.count("killed")
            self.replace(self.rng.choice(self.workers))
        elif what < 0.9 or not self.can_stop:
            self.count("terminated")
            self.db.sql(
                """select pg_terminate_backend(pid) from (select pid from pg_stat_activity
                    where application_name like '%claim_call%'
                           and datname = current_database() order by random() limit 1) x"""
            )
        else:
            self.stop()

    def stop(self):
        """Claims that were not flushed are lost; who has them is told so when it records. Prepared
        transactions are not."""
        self.count("stopped")
        kept = [o for o in self.open if o[3]]
        for c in [o[0] for o in self.open] + self.locks:
            c.close()
        self.locks = []
        self.db.stop("immediate")
        self.db.start()
        for w in list(self.workers):
            self.replace(w)
        self.open = [(psycopg2.connect(self.db.conninfo), ids, once, name) for _, ids, once, name in kept]

    def step(self):
        self.hear_all(0)
        idle = [w for w in self.workers if not w.busy]
        if not idle:
            self.hear_all(20)
            return
        what = self.rng.random()
        if what < 0.15:
            self.produce()
        elif what < 0.22 and self.open:
            self.end_producer(self.rng.randrange(len(self.open)))
        elif what < 0.3:
            self.operate()
        elif what < 0.35:
            self.break_something()
        else:
            self.ask(self.rng.choice(idle))

    # ---- the end

    def settle(self):
        while self.open:
            self.end_producer(self.rng.randrange(len(self.open)))
        for c in self.locks:
            c.close()
        for w in self.workers:
            w.kill()

    def drain(self):
        """By one worker that nothing happens to; what dead ones held comes back when its leases are over."""
        w = Worker(self.db, 1000)
        w.answer()
        self.workers = [w]

        def empty():
            if w.held:
                w.send([("finish", list(w.held))])
                self.hear(w)
            w.send([("lost", []), ("promote", []), ("claim", [1000]), ("limited", [5])])
            self.hear(w)
            return not w.held and self.db.hot() == 0

        wait_for(empty, 60, "everything is done")
        w.kill()

    def check(self):
        assert self.db.sql("select invariant, job_id, detail from deferred.check_ledger()") == []
        ends = dict(
            self.db.sql(
                "select job_id, array_agg(outcome order by outcome) from deferred.__deferred_log where final "
                "group by job_id"
            )
        )
        jobs = {r[0] for r in self.db.sql("select id from deferred.__deferred")}
        assert jobs == self.stored, "stored is what was committed"
        for job in jobs:
            ok = ends[job].count("ok")
            if job in self.accepted:
                assert ok == 1, (job, ends[job])
            elif job not in self.touched and job not in self.once:
                assert ends[job] == ["ok"], (job, ends[job])
            assert (
                ok <= 1
                and set(ends[job]) <= {"ok", "cancelled", "lost"}
                and ("lost" not in ends[job] or job in self.once)
            ), (job, ends[job])


def run(db, rng, steps, workers, can_stop):
    for queue in QUEUES:  # or one whose first producer stays open would have the others wait, all in this one thread
        db.sql("select deferred.__queue_set(%s, %s, true)", queue, '{"max_running": 4}' if queue == "limited" else "{}")
    world = World(db, rng, workers, can_stop)
    try:
        for _ in range(steps):
            world.step()
    except BaseException:
        print(world.counts)
        raise
    world.settle()
    if world.counts.get("stopped"):
        db.sql("select deferred.__repair()")  # as the first maintenance after a crash does
    world.drain()
    world.check()
    print(world.counts)
    return world.counts


@pytest.fixture
def server():
    servers = []

    def make(**settings):
        servers.append(OwnServer(settings={"max_prepared_transactions": str(PREPARED_MAX), **settings}))
        return servers[-1]

    yield make
    for s in servers:
        s.close()


@pytest.mark.slow
@pytest.mark.parametrize("can_stop", [pytest.param(False, marks=pytest.mark.long), True])
def test_claims_under_random_events(server, rng, can_stop):
    counts = run(server(wal_writer_delay="'10s'"), rng, 250, 5, can_stop)
    assert counts["ok"] > 20 and sum(counts.get(what, 0) for what in ("killed", "terminated", "stopped")) > 0, counts


@pytest.mark.long
@pytest.mark.parametrize("workers", [3, 16])
@pytest.mark.parametrize("can_stop", [False, True])
def test_claims_under_random_events_for_long(server, rng, can_stop, workers):
    run(server(wal_writer_delay="'10s'"), rng, 8000, workers, can_stop)
