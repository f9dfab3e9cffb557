"""What the fault tests share: recorded jobs, and how a test of the engine ends."""

import json
import os

import pytest

from harness import ledger, read_record, wait_for


class Recorded:
    """Jobs of the test plugin's function `record`, which appends a line when it starts and when it ends: the ledger
    outside the database."""

    def __init__(self, db):
        self.db, self.file = db, os.path.join(db.dir, "record")
        db.plugins("unruly")

    def defer(self, n, ms=0, **opts):
        """Defer n jobs that take ms milliseconds; returns their ids."""
        calls = [{"fn": "record", "params": {"file": self.file, "ms": ms}, **opts}] * n
        return [r[0] for r in self.db.sql("select deferred.defer_many(%s)", json.dumps(calls))]

    def lines(self):
        return read_record(self.file)

    def starts(self, job=None):
        return [line for line in self.lines() if line[0] == "start" and job in (None, line[1])]

    def overlaps(self):
        """Executions of one job that began while another one of it, which later came to its end, was in progress."""
        running, found = {}, []
        for number, (what, job, attempt, pid) in enumerate(self.lines()):
            if what == "start":
                running.setdefault(job, {})[(attempt, pid)] = number
            else:
                began = running.get(job, {}).pop((attempt, pid), None)
                found += [
                    (job, attempt, pid)
                    for other in running.get(job, {}).values()
                    if began is not None and other > began
                ]
        return found

    def drain(self, *args, timeout=120, **kw):
        """Runs until nothing is hot. Leases of dead workers are waited for."""

        def drained():
            done = self.db.run(["check_deferred", "--cnt", "0", *args], **kw)
            assert done.returncode == 0, done.stderr
            return self.db.hot() == 0

        wait_for(drained, timeout, "all jobs are done")

    def assert_all_ok(self, jobs, lost=False):
        """Every job has exactly one accepted success, was really executed, and never twice at once.
        lost: some executions counted for nothing, for who had begun them was killed, or the server
        lost what it had said of them."""
        assert (
            self.db.sql(
                """select count(*), count(distinct job_id) from deferred.__deferred_log
                              where outcome = 'ok' and job_id = any(%s)""",
                jobs,
            )
            == [(len(jobs), len(jobs))]
        )
        assert {line[1] for line in self.starts()} >= set(jobs)
        begun = [(job, attempt) for _, job, attempt, _ in self.starts()]
        assert lost or len(begun) == len(set(begun)), "an attempt that was begun twice"
        assert self.overlaps() == []
        ledger(self.db)


@pytest.fixture
def recorded(db):
    return Recorded(db)


@pytest.fixture
def recorded_on():
    return Recorded
