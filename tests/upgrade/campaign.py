"""A storm (tests/faults/storm.py) during which programs of one build are replaced by those of another, and back.

Besides the jobs of a storm there are flows, a schedule, and a message whose receipt is kept over the replacement of the
HTTP front. The plugins are those of the first build, because an upgrade does not compile them again."""

import collections
import contextlib
import json
import os
import re
import signal
import threading
import time

import psycopg2

import harness
from api_client import add_token
from storm import WORKERS, Line, Storm
from verdict import percentile

CONFIG = 78
LIMIT_S = 900  # for a whole plan


def take_new(client):
    """A new message and its receipt. Others of the queue may be hidden, by answers that were lost."""
    client.put("held")
    (got,) = client.get("held", 1, "&visibilitytimeout=600")
    return got


class VersionedLine(Line):
    """A line whose programs are those of a build. Counts the attempts and the exit codes of each build."""

    def __init__(self, db, number, mode, every, args, build):
        super().__init__(db, number, mode, every, args)
        self.attempts, self.codes = collections.Counter(), collections.Counter()
        self.builds = {}
        self.use(build)

    def use(self, build):
        self.build = build
        self.args[0] = os.path.join(build, "bin", "check_deferred")

    def replace(self, build, takeover):
        """The next start is of that build. A takeover does not wait for the end of the running program."""
        run = self.running()
        self.use(build)
        if takeover:
            self.start()
        elif run is not None:
            run.signal(signal.SIGTERM)

    def start(self):
        super().start()
        self.builds[self.current[-1]] = self.build

    def bury(self, run):
        build = self.builds.pop(run)
        self.codes[build, run.process.returncode] += 1
        self.attempts[build] += sum(int(n) for n in re.findall(r"run ended: (\d+) attempt", run.output()))
        super().bury(run)


class Upgrade(Storm):
    """plan(self) is a generator. Each step of it is under load, and yields until it is done."""

    mixes = False  # until the migration

    def __init__(self, db, rng, plan, jobs, kills, say):
        super().__init__(db, rng, "cron", jobs, kills, say)
        self.plan, self.planned = plan(self), True
        self.migrations = []  # seconds from start to success, and what failed ones said
        self.families, self.next_family = [], 0
        self.kept_token = None
        self.deadline = time.monotonic() + LIMIT_S
        self.waits, self.windows = [], []  # (from, to) of deferring a job, and of migrations
        self.deadlocks = []  # what the server said to the producer that lost one

    # ---- steps of a plan

    def work(self, n):
        """Until n more runs have ended."""
        target = self.ended + n
        while self.ended < target:
            yield

    def until(self, condition):
        while not condition():
            yield

    def sql(self, query):
        """Again, if the session was terminated."""
        while True:
            with contextlib.suppress(psycopg2.Error):
                return self.db.sql(query)
            yield

    def migrate(self, build):
        """As an administrator does: again, if the server went away."""
        failed, began = [], time.monotonic()
        while True:
            run = self.db.spawn([os.path.join(build, "bin", "deferred"), "migrate"])
            yield from self.until(lambda: not run.alive())
            self.windows.append((began, time.monotonic()))
            if run.process.returncode == 0:
                break
            failed.append(f"{run.process.returncode}: {run.output().strip()}")
            assert len(failed) < 20, failed
        self.migrations.append((time.monotonic() - began, run.output().strip(), failed))
        self.say(f"migrate: {self.migrations[-1]}")

    def replace(self, lines, build, takeover=False):
        for line in lines:
            line.replace(build, takeover)
            yield from self.until(lambda: any(line.builds[run] == build for run in line.current))

    def replace_front(self, build, works=True):
        """A message is gotten from the old front, if that works with the schema, and deleted at the new one."""
        got = (yield from self.call(take_new)) if works else None
        harness.BUILD, self.token = build, None
        before = self.consumer.front.program
        before.signal(signal.SIGTERM)
        yield from self.until(lambda: self.consumer.front.program is not before)
        got = got or (yield from self.call(take_new))
        # A first attempt may have succeeded though its answer was lost.
        deleted = yield from self.call(lambda client: client.delete("held", got))
        assert deleted.status in (204, 404), deleted
        if self.db.run(["deferred", "token", "--help"]).returncode == 0:
            self.kept_token = self.token = self.kept_token or add_token(self.db, "storm", "--may", "defer")

    def call(self, request):
        """A request, again until it is answered: the front or the server may have been killed."""
        while True:
            with contextlib.suppress(OSError, AssertionError, AttributeError, ValueError):
                client = self.consumer.front.client()
                try:
                    return request(client)
                finally:
                    client.close()
            yield

    # ---- what a storm does besides

    def prepare(self):
        super().prepare()
        self.consumer.front.client().create("held")
        build = harness.BUILD
        self.lines = [
            VersionedLine(self.db, i, mode, every, args, build)
            for i, (mode, (every, args)) in enumerate((mode, how) for mode in WORKERS for how in WORKERS[mode])
        ]
        params = json.dumps({"file": self.record, "ms": 0})
        self.db.sql("select deferred.schedule('minute', '* * * * *', 'record', %s)", params)
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()

    def enough(self):
        return super().enough() and not self.planned

    def over(self):
        return super().over() and not self.planned

    def give_up(self):
        """Threads end with the plan."""
        self.planned = False

    def tick(self):
        super().tick()
        if self.planned:
            try:
                assert time.monotonic() < self.deadline, "the plan does not come to its end"
                self.planned = next(self.plan, self) is not self
            except BaseException:
                self.give_up()
                raise
        if self.planned and time.monotonic() >= self.next_family:
            self.defer_family()
            self.next_family = time.monotonic() + 0.2

    def defer_family(self):
        """Two parents and a child."""
        params, family = json.dumps({"file": self.record, "ms": self.rng.randrange(30)}), []
        try:
            for after in None, None, family:
                family.append(self.db.defer("record", params, **({"after": list(after)} if after else {})))
                self.journal.add(family[-1:], "family")
            self.families.append(family)
        except psycopg2.Error:
            self.journal.doubt()

    def watch(self):
        """One producer that measures how long it waits."""
        params = json.dumps({"file": self.record, "ms": 0})
        while self.planned:
            with contextlib.suppress(psycopg2.Error), contextlib.closing(self.db.connect(connect_timeout=5)) as one:
                one.autocommit = True
                while self.planned:
                    began = time.monotonic()
                    try:
                        with one.cursor() as cursor:
                            cursor.execute("select deferred.defer('record', %s)", (params,))
                            self.journal.add(cursor.fetchone(), "watched")
                    except psycopg2.Error as error:
                        self.journal.doubt()
                        if isinstance(error, psycopg2.errors.DeadlockDetected):
                            self.deadlocks.append(str(error))
                        raise
                    self.waits.append((began, time.monotonic()))
                    time.sleep(0.02)

    # ---- the result

    def drain(self, limit=90):
        self.watcher.join(60)
        super().drain(limit)
        ids = self.db.sql("select job_id from deferred.__deferred_tick where job_id is not null")
        self.journal.add([i for i, in ids], "tick")

    def disorder(self, runs):
        """Families whose child began before a parent had ended."""
        begun, ended = collections.defaultdict(list), collections.defaultdict(list)
        for run in runs:
            begun[run.job].append(run.begun)
            if run.ended is not None:
                ended[run.job].append(run.ended)
        return [
            family
            for family in self.families
            if any(min(ended[parent], default=0) > min(begun[family[2]], default=0) for parent in family[:2])
        ]

    def missing_ticks(self):
        """Minutes of the schedule that became no job, from the first tick to the last."""
        return self.db.sql(
            """select m from (select min(t.tick) as first, max(t.tick) as last from deferred.__deferred_tick t) x
               cross join generate_series(x.first, x.last, interval '1 minute') m
               where not exists (select from deferred.__deferred_tick t where t.tick = m)"""
        )

    def of_builds(self, what):
        total = collections.Counter()
        for line in self.lines:
            total.update(getattr(line, what))
        return total

    def longest_wait(self):
        """Of the measuring producer, in seconds: half of all within, the longest, the longest during a migration."""
        waits = [to - begun for begun, to in self.waits]
        within = [to - begun for begun, to in self.waits if any(begun < b and to > a for a, b in self.windows)]
        return percentile(waits, 0.5), max(waits), max(within, default=0)
