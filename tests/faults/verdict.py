"""What became of the jobs of a campaign: the promises held against three accounts that know nothing
of each other. What producers were answered is in a Journal, what functions did in the record that
they write outside of the database, what the database says of both in its log."""

import collections
import json
import threading
import time

from harness import read_times, wait_for

# The functions that journal their executions: of the test plugin, and of the program in storm_tasks.py.
RECORDING = ("record", "record_python", "record_many")
COUNTS = ("lost", "never run", "accepted twice", "overlapping", "orphans", "stuck", "contradictions")


class Journal:
    """Jobs whose storing was answered, with their kind and key, by several threads."""

    def __init__(self):
        self.lock = threading.Lock()
        self.jobs = {}
        self.unknown = 0  # transactions of which nobody was told what became of them

    def add(self, ids, kind, key=None):
        with self.lock:
            self.jobs.update((job, (kind, key)) for job in ids)

    def doubt(self):
        with self.lock:
            self.unknown += 1

    def __len__(self):
        return len(self.jobs)


class Execution:
    __slots__ = ("job", "attempt", "pid", "begun", "ended")

    def __init__(self, job, attempt, pid, begun):
        self.job, self.attempt, self.pid, self.begun, self.ended = job, attempt, pid, begun, None


def executions(path):
    """All of them in order of their beginning; ended is None where the process died before that."""
    found, last = [], {}
    for what, job, attempt, pid, ms in read_times(path):
        if what == "start":
            last[job, attempt, pid] = Execution(job, attempt, pid, ms)
            found.append(last[job, attempt, pid])
        elif (job, attempt, pid) in last:
            last[job, attempt, pid].ended = ms
    return found


def overlaps(runs):
    """Of executions that exclude each other: those that began while one, which came to its end, was in progress."""
    found, busy = [], None
    for run in sorted((r for r in runs if r.ended is not None), key=lambda r: (r.begun, r.ended)):
        if busy is not None and run.begun < busy.ended:
            found.append(run)
        if busy is None or run.ended > busy.ended:
            busy = run
    return found


def percentile(values, share):
    values = sorted(values)
    return values[min(int(len(values) * share), len(values) - 1)] if values else None


class Verdict:
    """counts by kind of job, how long they waited, and a line for each job. may_lose: jobs that the
    server itself has lost, as one does whose standby had not received them."""

    def __init__(self, db, journal, record, may_lose=frozenset()):
        self.db, self.journal = db, journal
        self.runs = executions(record)
        self.counts = collections.defaultdict(collections.Counter)
        self.waits = collections.defaultdict(list)
        self.lost_by_server = set()
        self.jobs = []
        self.read()
        self.judge(may_lose)
        self.judge_all()

    def read(self):
        self.stored = {
            r[0]: r[1:]
            for r in self.db.sql(
                """
            select id, fn, extract(epoch from greatest(created_at, coalesce(run_at, created_at)))::float8
            from deferred.__deferred where fn is not null"""
            )
        }
        self.log = collections.defaultdict(list)
        for job, *row in self.db.sql(
            """
                select job_id, attempt, outcome, final, extract(epoch from started_at)::float8
                from deferred.__deferred_log order by job_id, attempt"""
        ):
            self.log[job].append(row)
        self.hot = {r[0] for r in self.db.sql("select id from deferred.__deferred_hot where fn is not null")}

    def judge(self, may_lose):
        by_job = collections.defaultdict(list)
        for run in self.runs:
            by_job[run.job].append(run)
        by_key = collections.defaultdict(list)
        kinds = {**{job: ("unanswered", None) for job in self.stored}, **self.journal.jobs}
        for job, (kind, key) in kinds.items():
            count, log, ran = self.counts[kind], self.log.get(job, []), by_job.get(job, [])
            accepted = [row for row in log if row[1] == "ok"]
            final = [row for row in log if row[2]]
            found = []
            if job in may_lose and job not in self.stored:
                self.lost_by_server.add(job)
            elif job not in self.hot and not final:
                found.append("lost")
            elif job in self.hot:
                found.append("stuck")
            if (
                accepted
                and self.stored.get(job, RECORDING)[0] in RECORDING
                and not any(run.ended is not None for run in ran)
            ):
                found.append("never run")
            if len(accepted) > 1 or len(final) > 1:
                found.append("accepted twice")
            if overlaps(ran):
                found.append("overlapping")
            if sum(run.ended is not None for run in ran) > max(1, sum(row[1] in ("ok", "failed") for row in log)):
                count["run twice"] += 1
            count["jobs"] += 1
            count["begun"] += len(ran)
            count["dead"] += bool(final) and final[-1][1] != "ok"
            for what in found:
                count[what] += 1
            begun = [row[3] for row in log if row[3] is not None]
            wait = max(min(begun) - self.stored[job][1], 0) if begun and job in self.stored else None
            if wait is not None:
                self.waits[kind].append(wait)
            if key is not None:
                by_key[key] += ran
            self.jobs.append(
                {
                    "job": job,
                    "kind": kind,
                    "attempts": [row[1] for row in log],
                    "begun": len(ran),
                    "ended": sum(run.ended is not None for run in ran),
                    "wait_ms": None if wait is None else round(wait * 1000),
                    "verdict": found or ["ok" if accepted else "dead" if final else "lost by the server"],
                }
            )
        for runs in by_key.values():  # jobs of one key exclude each other
            self.counts["key"]["overlapping"] += len(overlaps(runs))

    def judge_all(self):
        count = self.counts["all"]
        for kind, others in list(self.counts.items()):
            if kind != "all":
                count.update(others)
        violations = self.db.sql("select invariant, job_id, detail from deferred.check_ledger()")
        count["contradictions"] = len(violations)
        self.violations = violations[:20]
        try:
            wait_for(lambda: not self.db.left(), 10)
        except AssertionError:
            count["orphans"] = len(self.db.left())

    def wrong(self):
        return sum(self.counts["all"][what] for what in COUNTS)

    def wait_of(self, kind):
        """p50, p99 and the longest, in seconds."""
        waits = self.waits[kind] if kind != "all" else [w for of in self.waits.values() for w in of]
        return tuple(percentile(waits, share) for share in (0.5, 0.99, 1.0))

    def write_lines(self, path, **more):
        with open(path, "a") as f:
            for line in self.jobs:
                f.write(json.dumps({**more, **line}) + "\n")


def recoveries(faults, runs):
    """Seconds by kind of fault, of (kind, at, pids): from the fault to the next beginning of each
    job that ended with these runners; where no runner is known to have died, to the next end of any job."""
    begun, ends = collections.defaultdict(list), sorted(r.ended for r in runs if r.ended is not None)
    by_pid = collections.defaultdict(list)
    for run in runs:
        begun[run.job].append(run.begun)
        by_pid[run.pid].append(run)
    found = collections.defaultdict(list)
    for kind, at, pids in faults:
        hit = [run for pid in pids for run in by_pid[pid] if run.begun <= at and run.ended is None]
        for run in hit:
            after = [ms for ms in begun[run.job] if ms > at]
            found[kind] += [(min(after) - at) / 1000] if after else []
        if not hit:
            after = next((ms for ms in ends if ms > at), None)
            found[kind] += [(after - at) / 1000] if after is not None else []
    return found


def now_ms():
    """By the clock of the record."""
    return int(time.monotonic() * 1000)
