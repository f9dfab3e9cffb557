"""Who dies with a batch in hand, be it worker or server: what it costs which job, and what it must not."""

import contextlib
import json
import os
import signal
import subprocess
import time

import pytest

from harness import BUILD, ledger, wait_for

QUICK = 'interval_floor = "50ms"\ninterval_ceiling = "100ms"\nbackoff_floor = "1ms"\nbackoff_ceiling = "1ms"\n'


def charged(db):
    """Ids of jobs that an attempt was counted against, with the outcomes."""
    rows = {}
    for job, _, outcome in db.log():
        if outcome != "ok":
            rows.setdefault(job, []).append(outcome)
    return rows


def killed_at_work(recorded, rng, kills, *args):
    """Short jobs, so that a worker has a batch in hand, and a kill -9 at some moment of it."""
    db = recorded.db
    for _ in range(kills):
        if db.hot() < 200:
            recorded.defer(400, ms=1)
        seen = len(recorded.lines())
        run = db.spawn(["check_deferred", "--cnt", "0", *args])
        wait_for(lambda: len(recorded.lines()) >= seen + rng.randrange(60, 200) or not run.alive())
        run.kill()
        wait_for(lambda: not db.orphans(), 5, "runners die with their parent")


@pytest.mark.slow
def test_a_kill_counts_against_no_job_but_those_that_were_about_to_begin(recorded, rng):
    """Of the batch nobody knows which had begun: it counts against none. What is then claimed one
    by one begins as soon as it is claimed, so that of those that have not at most one a runner is on its way there."""
    db = recorded.db
    db.config(QUICK)
    ids = recorded.defer(400, ms=1)
    killed_at_work(recorded, rng, 6, "--batch", "50", "--runners", "2")
    unbegun = set(charged(db)) - {line[1] for line in recorded.starts()}
    assert len(unbegun) <= 6 * 2, sorted(unbegun)
    recorded.drain()
    assert {outcome for outcomes in charged(db).values() for outcome in outcomes} <= {"lost"}
    assert db.one("select count(*) from deferred.job where state = 'dead'") == 0
    recorded.assert_all_ok(ids, lost=True)


@pytest.mark.slow
def test_a_job_with_one_attempt_begins_once_at_most_and_is_not_dead_before_it_began(recorded, rng):
    db = recorded.db
    db.config(QUICK)
    recorded.defer(400, ms=1, max_attempts=1)
    for _ in range(6):
        if db.hot() < 100:
            recorded.defer(200, ms=1, max_attempts=1)
        seen = len(recorded.lines())
        run = db.spawn(["check_deferred", "--cnt", "0", "--batch", "50", "--runners", "2"])
        wait_for(lambda: len(recorded.lines()) >= seen + rng.randrange(20, 100) or not run.alive())
        run.kill()
        wait_for(lambda: not db.orphans(), 5, "runners die with their parent")
    recorded.drain()
    begun = [job for _, job, *_ in recorded.starts()]
    assert len(begun) == len(set(begun)), "begun twice"
    dead = set(charged(db))
    # A runner each: what was about to begin when its worker died. All the others go on.
    assert len(dead - set(begun)) <= 6 * 2, sorted(dead - set(begun))
    ledger(db)


def test_a_job_that_kills_its_worker_dies_after_its_attempts_and_takes_no_other_along(recorded):
    db = recorded.db
    db.config(QUICK)
    bad = db.defer("kill_parent", max_attempts=3, priority=5)
    good = recorded.defer(60)
    for _ in range(20):
        # Short jobs first: a claim after these takes many.
        good += recorded.defer(40, priority=9)
        db.run(["check_deferred", "--cnt", "0", "--batch", "50"])
        wait_for(lambda: not db.orphans(), 5, "runners die with their parent")
        if db.hot() == 0:
            break
    assert db.log(bad) == [(1, "lost"), (2, "lost"), (3, "lost")]
    assert db.one("select state from deferred.job where id = %s", bad) == "dead"
    assert charged(db) == {bad: ["lost"] * 3}, "what was counted against its neighbours"
    recorded.assert_all_ok(good, lost=True)


@pytest.mark.slow
def test_takeovers_and_stops_use_up_no_attempt(recorded):
    db = recorded.db
    (job,) = recorded.defer(1, ms=60000, max_attempts=2)
    run = None
    for n in range(4):
        run = db.spawn(["check_deferred", "--grace", "0s"])  # takes over from the one before
        wait_for(lambda: len(recorded.starts(job)) == n + 1, 20)
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0
    assert [o for _, o in db.log(job)] == ["superseded"] * 3 + ["interrupted"]
    assert db.one("select state from deferred.job where id = %s", job) == "ready"
    for attempt in 5, 6:  # it is alone in its lease from the first kill on
        run = db.spawn(["check_deferred"])
        wait_for(lambda: recorded.starts(job)[-1][2] == attempt, 20)
        run.kill()
        if attempt == 5 and len(db.log(job)) == 4:  # the one with a batch in hand
            run = db.spawn(["check_deferred"])
            wait_for(lambda: len(recorded.starts(job)) == 6, 20)
            run.kill()
    db.run(["check_deferred"])
    assert db.log(job)[4:] == [(5, "lost"), (6, "lost")]
    assert db.one("select state from deferred.job where id = %s", job) == "dead"
    ledger(db)


@pytest.mark.slow
@pytest.mark.parametrize("isolate", ["child", "job"])
def test_what_a_crash_of_the_server_makes_of_claims_is_all_or_nothing(own_server, recorded_on, rng, isolate):
    """Claims commit asynchronously, outcomes do not. The server is stopped just after claims, in
    the middle of batches."""
    db, recorded = own_server, recorded_on(own_server)
    db.sql("alter system set wal_writer_delay = '10s'")  # what nobody waits for is lost for long
    db.sql("select pg_reload_conf()")
    db.config(QUICK)
    once = recorded.defer(40, ms=1, max_attempts=1)
    ids = recorded.defer(600, ms=2)
    runs = [
        db.spawn(
            [
                "check_deferred",
                "--loop",
                "--runners",
                "2",
                "--batch",
                "50",
                f"--isolate={isolate}",
                "--pidfile",
                f"{db.dir}/pid{i}",
            ]
        )
        for i in range(2)
    ]
    for _ in range(5):
        seen = len(recorded.lines())
        wait_for(lambda: len(recorded.lines()) >= seen + rng.randrange(20, 80) or db.hot() == 0, 60)
        if db.hot() < 100:
            ids += recorded.defer(300, ms=2)
        db.stop("immediate")
        db.start()
    wait_for(lambda: db.hot() == 0, 90, "nothing is hot")
    for run in runs:
        assert run.alive(), run.output()
        run.signal(signal.SIGTERM)
        assert run.wait(20) == 0, run.output()
    recorded.assert_all_ok(ids, lost=True)
    begun = [job for _, job, *_ in recorded.starts() if job in set(once)]
    assert len(begun) == len(set(begun)), "one with a single attempt was begun twice"


class Caller:
    """tests/harness/claim_call: a worker without runners, which does one cycle a line."""

    def __init__(self, db):
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "tests", "harness", "claim_call"), db.conninfo],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=db.env,
        )
        self.answer()

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(20) == 0


@contextlib.contextmanager
def callers(db, n):
    made = [Caller(db) for _ in range(n)]
    yield made
    for c in made:
        c.close()


@pytest.mark.slow
def test_first_claims_of_a_lane_exclude_each_other(db):
    """It has no place yet that could be locked; and in between it loses the one it had, for it is empty."""
    with callers(db, 4) as all_of_them:
        for turn in range(150):
            jobs = [
                r[0]
                for r in db.sql(
                    "select deferred.defer('noop', '{}', '{\"queue\": \"fresh\"}') from generate_series(1, 3)"
                )
            ]
            claims = []
            for c in all_of_them:
                c.send("claim 2")
            for c in all_of_them:
                answer = c.answer()
                assert answer["error"] is None, answer
                claims.append([job[0] for job in answer["claimed"]])
            taken = sum(claims, [])
            assert len(taken) == len(set(taken)), f"claimed twice: {claims}"
            assert set(taken) <= set(jobs)
            for c, mine in zip(all_of_them, claims):
                if mine:
                    c.send("finish " + " ".join(map(str, mine)))
                    assert sorted(c.answer()["recorded"]) == sorted(mine)
            while db.hot() > 0:
                c.send("claim 3")
                mine = [job[0] for job in c.answer()["claimed"]]
                c.send("finish " + " ".join(map(str, mine)))
                c.answer()
            db.sql("select deferred.__repair()")
    ledger(db)
