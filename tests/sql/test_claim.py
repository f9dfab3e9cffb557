"""The statements of a worker, run as they lie in sql/queries, by sessions that the test steps one by one.

Every test ends with the ledger check: see the fixture worker.
"""

import concurrent.futures
import datetime
import json
import os
import re

import psycopg2
import psycopg2.extensions
import pytest

import pg
from harness import WAITING, ledger, wait_for

MINUTE = 60000
ALL = "-infinity"  # delayed jobs, whenever they were due


COMMON = (1, 14, 15, 16, 23)  # of job_claim: NULL where it is as in the row before


class Claimed:
    """A row of job_claim or job_claim_limited."""

    def __init__(self, row):
        (
            self.id,
            self.receipt,
            self.attempt,
            self.attempt_base,
            self.max_attempts,
            self.timeout_ms,
            self.floor_ms,
            self.ceiling_ms,
            self.exponent,
            self.created_at,
            self.ready_since,
            self.fn,
            self.label,
            self.params,
            self.queue,
            self.priority,
            self.lease_ms,
        ) = row[:17]
        self.tid, self.claimed_at = row[22:24]


def filled(rows):
    """Rows of job_claim, each with all that it means."""
    full = []
    for row in map(list, rows):
        for column in COMMON:
            row[column] = full[-1][column] if row[column] is None else row[column]
        row[3] = row[3] or 0
        full.append(row)
    return full


class Worker:
    """A registered worker and its connection. A transaction begins with the first statement and ends with
    commit() or rollback(); its settings are those of session_setup. A statement that waits for a lock fails."""

    def __init__(self, db, instance, queues=None):
        self.connection = db.connect(application_name="worker")
        self.prepared = set()
        self.id = self.ask("worker_register", instance, "host", os.getpid(), "test", queues, "place", 0, 0, 0, 0, None)[
            0
        ][0]
        self.commit()

    def ask(self, name, *args):
        """Run a statement of sql/queries; its rows."""
        cursor = self.connection.cursor()
        if self.connection.status == psycopg2.extensions.STATUS_READY:
            self.prepare("session_setup")
            cursor.execute("execute session_setup('20s')")
            cursor.execute("set local lock_timeout = '50ms'")
        self.prepare(name)
        cursor.execute(self.call(name, args), args or None)
        return cursor.fetchall() if cursor.description else []

    def prepare(self, name):
        """The types of parameters are those of the casts in the file, as for the C library."""
        if name not in self.prepared:
            self.connection.cursor().execute(f"prepare {name} as " + pg.source(name))
            self.prepared.add(name)

    @staticmethod
    def call(name, args):
        return f"execute {name}" + (f"({', '.join(['%s'] * len(args))})" if args else "")

    def commit(self):
        self.connection.commit()

    def rollback(self):
        self.connection.rollback()

    def claim(
        self,
        n=100,
        window=1000,
        queues=None,
        lease_ms=MINUTE,
        max_attempts=3,
        known=None,
        seed=1,
        size=1 << 24,
        lanes=None,
        alone=1000000,
        at=None,
    ):
        """Of all lanes there are, or of those named, each a queue and a priority."""
        names, priorities = zip(*lanes) if lanes else ([], [])
        rows = self.ask(
            "job_claim",
            queues,
            n,
            window,
            self.id,
            lease_ms,
            max_attempts,
            known,
            seed,
            size,
            list(names),
            list(priorities),
            int(lanes is None),
            alone,
            at,
        )
        *rows, found = rows
        self.busy, self.left, self.limits, self.more, _, self.waiting, self.round = found[24:]
        return sorted(map(Claimed, filled(rows)), key=lambda j: -j.priority)

    def take(self, *args, **kw):
        """Claim and commit; the jobs."""
        jobs = self.claim(*args, **kw)
        self.commit()
        return jobs

    def lost(self, max_attempts=3):
        """Put right what leases that have ended hold, and commit; how many jobs."""
        n = len(self.ask("job_lost", max_attempts, 0))
        self.commit()
        return n

    def finish(self, *jobs, outcome="ok", error=None):
        """Ids accepted."""
        return {r[0] for r in self.ask("job_finish", *attempts(jobs, outcome, error), receipts(jobs))}

    def done(self, *jobs):
        """The same of those that ended well and left no text, for which there is a statement of its own."""
        times = [[datetime.timedelta(0)] * len(jobs)] * 2 + [[0] * len(jobs)] * 5
        return set(ids(jobs)) - {
            r[0]
            for r in self.ask(
                "job_done",
                *ids_and_receipts(jobs),
                *times,
                "sample",
                receipts(jobs),
                "{%s}" % ",".join(f'"{j.tid}"' for j in jobs),
            )
        }

    def retry(self, *jobs, delay_ms=0, outcome="failed", counts=True):
        return {
            r[0]
            for r in self.ask(
                "job_retry",
                *attempts(jobs, outcome, "no"),
                [delay_ms] * len(jobs),
                [int(not counts)] * len(jobs),
                receipts(jobs),
            )
        }

    def renew(self, *jobs, lease_ms=MINUTE):
        """Those still ours."""
        each = receipts(jobs)
        rows = self.ask("job_renew", *ids_and_receipts(jobs), each, [lease_ms] * len(each))
        live, gone = {r[1] for r in rows if r[0] is None}, {(r[0], r[1]) for r in rows}
        assert all(r[2] > 0 and r[3] is None for r in rows if r[0] is None)
        return {j.id for j in jobs if j.receipt in live and (j.id, j.receipt) not in gone}

    def release(self, *jobs):
        """How many were given back."""
        return sum(
            given for _, given in self.ask("job_release", *ids_and_receipts(jobs), receipts(jobs), [0] * len(jobs))
        )

    def close(self, *jobs):
        self.ask("job_close", receipts(jobs))

    def follow(self, job, fn="follower", params="{}", opts=None):
        return [r[0] for r in self.ask("job_follow", job.id, job.receipt, fn, params, opts)]

    def held(self):
        """Ids that are claimed by it."""
        return [r[0] for r in self.ask_plain("select id from deferred.__held where worker = %s order by id", self.id)]

    def ask_plain(self, query, *args):
        cursor = self.connection.cursor()
        cursor.execute(query, args or None)
        return cursor.fetchall()


def ids_and_receipts(jobs):
    return [j.id for j in jobs], [j.receipt for j in jobs]


def receipts(jobs):
    """Each once."""
    return sorted({j.receipt for j in jobs})


def attempts(jobs, outcome, error):
    """$1..$14 of job_finish and job_retry: started 3 ms ago, ended 1 ms ago."""
    n = len(jobs)
    return (
        *ids_and_receipts(jobs),
        [outcome] * n,
        [error] * n if error else None,
        None,
        None,
        [3000] * n,
        [1000] * n,
        ["p 1"] * n,
        [5] * n,
        [6] * n,
        [7] * n,
        [8] * n,
        None,
    )


@pytest.fixture
def worker(db):
    """Makes workers. At the end they are closed, and the tables have to agree with each other."""
    made = []

    def make(instance="host:/pid", queues=None):
        made.append(Worker(db, instance, queues))
        return made[-1]

    yield make
    for w in made:
        w.connection.close()
    ledger(db)


def many(db, n, fn="f", **opts):
    """Defer n jobs in one statement; their ids in order."""
    return [r[0] for r in db.sql("select deferred.defer_many(%s::json)", json.dumps([{"fn": fn, **opts}] * n))]


def ids(jobs):
    return [j.id for j in jobs]


def stale(job):
    """The same job with a receipt that is not its."""
    return Claimed([job.id, job.receipt ^ 1] + [None] * 20 + [job.tid, None])


def lapse(db, *jobs):
    """Have the leases of claimed jobs end now, and with them those of all that were claimed together."""
    db.sql(
        "update deferred.__deferred_lease set expires_at = clock_timestamp() - interval '1 ms' "
        "where receipt = any (%s)",
        receipts(jobs),
    )


def row(db, job):
    """The hot row, or None."""
    rows = db.sql(
        "select to_json(h) from deferred.__deferred_hot h where id = %s", job if isinstance(job, int) else job.id
    )
    return rows[0][0] if rows else None


def queues(db, sql):
    db.sql("update deferred.__deferred_queue set " + sql)


# ---- who gets what


def test_two_open_claims_share_no_job_and_wait_only_with_empty_hands(db, worker):
    """What another claim is at is passed while another lane has jobs."""
    many(db, 10)
    a, b, c = worker(), worker(), worker()
    a.claim(4)
    assert b.claim(100) == [] and b.busy  # there is no row yet to wait for
    b.rollback()
    a.commit()
    first = ids(b.take(1)) + ids(a.claim(3))
    with pytest.raises(psycopg2.errors.LockNotAvailable):
        b.claim(100)
    b.rollback()
    for opts in ({"queue": "other"}, {"priority": 5}, {"priority": -5}):
        other = many(db, 3, **opts)
        assert sorted(ids(b.take(100))) == other
    with pytest.raises(psycopg2.errors.LockNotAvailable):
        c.claim(1)
    c.rollback()
    a.commit()
    second = b.claim(100)
    assert len(second) == 2 and not set(first) & set(ids(second)) and not b.busy
    b.rollback()
    assert set(ids(c.take(100))) == set(ids(second))


def test_who_waits_for_a_claim_gets_what_it_left(db, worker):
    """With a snapshot that is younger than the lock."""
    a, b = worker(), worker()
    db.defer("f")
    a.take()
    jobs = many(db, 10)
    for last in (a.commit, a.rollback):
        taken = ids(a.claim(4, window=4))
        b.ask("job_patience", "20s")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(b.claim)
            wait_for(lambda: db.one(WAITING) == 1)
            last()
        assert sorted(ids(waiting.result())) == jobs[4:] and sorted(taken) == (
            jobs[:4] if last == a.commit else jobs[4:8]
        )
        b.rollback()


def test_who_waits_for_a_claim_that_leaves_nothing_stores_nothing(db, worker):
    """Where many workers come to an empty lane, each would make the next ones wait."""
    a, b = worker(), worker()
    many(db, 10)
    assert len(a.take(4, window=4)) == 4
    assert len(a.claim()) == 6
    query = "select seq, xid from deferred.__deferred_cursor"
    cursor = a.connection.cursor()
    cursor.execute(query)
    left = cursor.fetchall()
    b.ask("job_patience", "20s")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(b.claim)
        wait_for(lambda: db.one(WAITING) == 1)
        a.commit()
    assert waiting.result() == []
    b.commit()
    assert db.sql(query) == left and left[0][1] is None


def test_a_claim_is_seen_by_the_next_one_even_with_the_same_draw(db, worker):
    jobs = many(db, 9)
    a, b = worker(), worker()
    taken = []
    for w in (a, b, a):
        taken += ids(w.claim(3, seed=7))
        w.commit()
    assert sorted(taken) == jobs


def test_the_draw_is_from_the_window_and_repeats_with_its_seed(db, worker):
    jobs = many(db, 300)
    w = worker()
    draws = []
    for seed in (1, 1, 2, 3):
        draws.append(sorted(ids(w.claim(20, window=50, seed=seed))))
        w.rollback()
    assert draws[0] == draws[1]
    assert len({tuple(d) for d in draws}) == 3
    assert all(set(d) <= set(jobs[:50]) and len(set(d)) == 20 for d in draws)
    assert draws[0] != jobs[:20]
    assert set().union(*(ids(one_draw(w, seed)) for seed in range(200))) == set(jobs[:5])  # each has its chance


def test_what_the_draw_leaves_stays_in_the_window(db, worker):
    """The next claim draws among those and as many new ones as fill it up."""
    jobs, w = many(db, 400), worker()
    left = list(jobs)
    for seed in range(15):
        drawn = ids(w.take(20, window=50, seed=seed))
        assert len(drawn) == 20 and set(drawn) < set(left[:50]) and set(drawn) != set(left[:20])
        left = [job for job in left if job not in drawn]
    while drawn := ids(w.take(30, window=50, seed=len(left))):
        left = [job for job in left if job not in drawn]
    assert left == []


def test_of_several_queues_each_gives_some_at_random(db, worker):
    jobs = [many(db, 50, queue=name) for name in "ab"]
    w = worker()
    for seed in range(10):
        drawn = set(ids(w.claim(20, window=50, seed=seed)))
        w.rollback()
        for queue in jobs:
            mine = drawn & set(queue)
            assert len(mine) == 10 and mine != set(queue[:10])


def one_draw(w, seed):
    drawn = w.claim(1, window=5, seed=seed)
    w.rollback()
    return drawn


def test_higher_priority_always_goes_first(db, worker):
    low, high, middle = many(db, 5, priority=-3), many(db, 5, priority=9), many(db, 5, priority=1, queue="other")
    w = worker()
    for seed in range(20):
        drawn = ids(w.claim(12, seed=seed))
        assert set(drawn[:5]) == set(high) and set(drawn[5:10]) == set(middle) and set(drawn[10:]) < set(low)
        w.rollback()
        drawn = ids(w.claim(5, window=6, seed=seed))  # the window too is filled from the top
        assert set(drawn) == set(high)
        w.rollback()
        assert set(ids(w.claim(5, queues=["default"], seed=seed))) == set(high)
        w.rollback()


def test_within_a_priority_the_window_is_the_oldest_jobs_of_each_queue(db, worker):
    """A long queue does not shut out the others, whichever of them was there first."""
    queues(db, "paused = true where name = 'default'")
    bulk, mail = many(db, 3, queue="bulk"), many(db, 3, queue="mail")
    many(db, 50, queue="bulk")
    late = many(db, 2, queue="another", priority=1)
    w = worker()
    assert set(ids(w.claim(8, window=3))) == set(late + bulk + mail)
    w.rollback()
    drawn = ids(w.claim(6, window=50))  # the short queue gets its share
    assert set(late) <= set(drawn) and len(set(drawn) & set(mail)) == 2


def test_only_the_queues_served_and_not_paused_are_looked_at(db, worker):
    a, b, c = (many(db, 2, queue=q) for q in "abc")
    w = worker()
    queues(db, "paused = true where name = 'b'")
    for served, expected in (
        (None, a + c),
        (["a"], a),
        (["a", "b"], a),
        (["b"], []),
        (["c", "a", "nosuch"], a + c),
        ([], []),
    ):
        assert sorted(ids(w.claim(queues=served))) == expected
        w.rollback()
    queues(db, "paused = false")
    assert sorted(ids(w.claim())) == a + b + c
    w.commit()


@pytest.mark.parametrize("n, window", [(100, 1000), (3, 3), (1, 1), (1, 10), (1, 100)])
def test_functions_that_are_unknown_are_passed_over_and_fill_no_window(db, worker, n, window):
    """They are put apart, where a worker that knows them finds them."""
    elsewhere = many(db, 30, fn="elsewhere")
    mine = many(db, 3, fn="here")
    w = worker()
    got = []
    while jobs := w.take(n, window=window, known=["here", "nowhere"]):
        got += ids(jobs)
    assert sorted(got) == mine
    assert w.take(known=["nowhere"]) == [] and w.limits
    assert w.take(known=None) == []
    w.ask("job_claim_limited", None, 100, 100, w.id, MINUTE, 3, None, 1, 1 << 24, 1000, None, 1)
    assert w.held() == sorted(elsewhere + mine)
    w.commit()


def rest(db):
    return db.one("select coalesce(max(cardinality(rest_id)), 0) from deferred.__deferred_cursor")


@pytest.mark.parametrize("n, window", [(500, 100), (20, 100)])
def test_what_needs_a_lease_of_its_own_does_not_pile_up(db, worker, n, window):
    """Of these few can begin at a time. What is left of them is looked at by each claim, so it must
    not become more with each. A claim that leaves some reads no further."""
    db.sql(f"alter database {db.name} set track_functions = 'pl'")
    w = worker()
    db.sql(
        "select deferred.defer_many((select json_agg(case when n % 2 = 0 then '{\"fn\": \"f\", "
        "\"max_attempts\": 1}'::json else '{\"fn\": \"f\"}' end)"
        " from generate_series(1, 4000) n))"
    )
    reads = (  # since the last flush
        "select pg_stat_get_xact_function_calls(oid), pg_stat_force_next_flush() from pg_proc "
        "where proname = '__claim_read' and pronamespace = 'deferred'::regnamespace"
    )
    taken = []
    for i in range(12):
        got = w.claim(n, window=window, alone=2, seed=i)
        ((read, _),) = w.ask_plain(reads)
        w.commit()
        taken += ids(got)
        assert read == 1, "it does not look again for what it would leave again"
        assert sum(j.id % 2 == 0 for j in got) <= 2 and rest(db) <= max(n, window), "no more than one claim looks at"
    assert len(taken) == len(set(taken)) > 24
    while got := w.take(n, window=window, alone=1000):
        taken += ids(got)
    assert sorted(taken) == list(range(min(taken), min(taken) + 4000)), "each of them once"


@pytest.mark.parametrize("n, window", [(500, 100), (3, 100)])
def test_behind_many_that_are_put_aside_the_window_is_no_wider(db, worker, n, window):
    """Those that nobody here can run are put apart by the thousand, so that a claim finds what is
    behind them; of that it takes a window, no more."""
    w = worker()
    many(db, 3000, "g")
    all_ids = list(range(3001, 8001))
    many(db, 5000)
    got = w.take(n, window=window, known=["f"], seed=7)
    assert len(got) == n and all(j.fn == "f" for j in got) and rest(db) <= max(n, window)
    assert set(ids(got)) <= set(all_ids[: max(n, window)]), "the oldest of them"
    taken = ids(got)
    while got := w.take(500, window=window, known=["f"]):
        taken += ids(got)
    assert sorted(taken) == all_ids


def test_a_message_is_nobodys_call(db, worker):
    message = db.one(
        """
        with d as (insert into deferred.__deferred (id, queue, params)
                   values (nextval('deferred.__deferred_id_seq'), 'default', '{}') returning id),
        h as (insert into deferred.__deferred_hot (id, queue, visible_at) select id, 'default', now() from d)
        select id from d"""
    )
    w = worker()
    assert w.take() == []
    assert probe(w)["work"] is False
    assert row(db, message)["attempt"] == 0


def test_what_a_claim_hands_out(db, worker):
    job = db.defer(
        "f",
        '{"b":1,  "a": 12345678901234567890, "a": null}',
        label="Für Leute",
        max_attempts=4,
        timeout="1.5s",
        backoff_floor="20ms",
        backoff_ceiling="2h",
        backoff_exponent=1.5,
    )
    plain = db.defer("g")
    w = worker()
    claimed = {j.id: j for j in w.claim(lease_ms=5000)}
    j = claimed[job]
    assert (
        j.attempt,
        j.attempt_base,
        j.max_attempts,
        j.timeout_ms,
        j.floor_ms,
        j.ceiling_ms,
        j.exponent,
        j.fn,
        j.label,
    ) == (1, 0, 4, 1500, 20, 7200000, 1.5, "f", "Für Leute")
    assert w.ask_plain("select params::text from deferred.__deferred where id = %s", job) == [
        ('{"b":1,  "a": 12345678901234567890, "a": null}',)
    ]
    j = claimed[plain]
    assert (j.max_attempts, j.timeout_ms, j.floor_ms, j.ceiling_ms, j.exponent, j.label, j.params) == (None,) * 6 + (
        {},
    )
    assert j.claimed_at >= j.ready_since
    w.commit()
    assert db.sql(
        "select worker, receipt, expires_at - claimed_at = interval '5 s', alone, queue from deferred.__deferred_lease"
    ) == [(w.id, j.receipt, True, False, "default")]
    assert db.sql("select id, attempt, worker from deferred.__held order by id") == [(job, 1, w.id), (plain, 1, w.id)]


# Between two of the queue lie so many of another.
@pytest.mark.parametrize("n, between", [(40, 0), (40, 1), (40, 9), (15, 0), (1, 0)])
def test_each_job_comes_with_its_own_call(db, worker, n, between):
    """Many, with most ids between: their calls are found in one walk. Few, or far apart: each by its id."""
    db.sql(
        "select deferred.defer('f' || i %% 3, json_build_object('n', i), json_build_object('label', 'job ' || i, "
        "'queue', case when i %% %s = 0 then 'default' else 'other' end))"
        " from generate_series(0, %s) i",
        between + 1,
        n * (between + 1) - 1,
    )
    w = worker()
    for again in range(2):
        jobs = w.take(n, window=1, lanes=[("default", 0)])
        assert (
            len(jobs) == n
            and {j.receipt for j in jobs} == {jobs[0].receipt}
            and {j.attempt for j in jobs} == {1 + again}
        )
        expected = {
            r[0]: r[1:]
            for r in db.sql(
                """
            select d.id, d.fn, d.label, d.params, h.visible_at, h.ctid::text, d.created_at from deferred.__deferred d
            join deferred.__deferred_hot h using (id) where d.queue = 'default'"""
            )
        }
        assert {j.id: (j.fn, j.label, j.params, j.ready_since, j.tid, j.created_at) for j in jobs} == expected
        if not again:
            for some in jobs[n // 2 :], jobs[: n // 2]:  # so that they come in another order than that of their ids
                w.retry(*some)
                w.commit()
    assert len(w.done(*jobs)) == len(jobs)
    w.commit()


@pytest.mark.parametrize("gone", [(0,), (20,), (39,), (0, 20, 39), range(40)])
def test_a_job_whose_call_is_gone_is_handed_out_too(db, worker, gone):
    jobs = many(db, 40)
    lost = [jobs[i] for i in gone]
    db.sql(
        "create table kept as select * from deferred.__deferred; delete from deferred.__deferred where id = any (%s)",
        lost,
    )
    w = worker()
    claimed = w.take(40, window=1)
    assert sorted(ids(claimed)) == jobs and {j.receipt for j in claimed} == {claimed[0].receipt}
    assert {j.id for j in claimed if j.created_at is None} == set(lost) and {j.fn for j in claimed} == {"f"}
    db.sql("insert into deferred.__deferred select * from kept where id = any (%s)", lost)


# ---- when a job becomes ready


def test_a_delayed_job_is_claimed_only_after_it_was_promoted(db, worker):
    due, later = db.defer("f", delay="1h"), db.defer("f", delay="1h")
    w = worker()
    assert w.take() == []
    assert w.ask("job_promote", 10, ALL) == [(0,)]
    w.commit()
    db.sql("update deferred.__deferred_hot set due_at = now() - interval '1 s' where id = %s", due)
    assert w.take() == [] and probe(w)["work"] is True
    assert w.ask("job_promote", 10, ALL) == [(1,)]
    w.commit()
    assert ids(w.take()) == [due]
    assert w.ask("job_promote", 10, ALL) == [(0,)]
    w.commit()
    assert row(db, later)["due_at"] is not None


def test_promotion_takes_the_longest_due_up_to_its_limit_and_does_not_wait(db, worker):
    jobs = [db.defer("f", run_at=f"2020-01-0{day}") for day in (3, 1, 2)]
    a, b = worker(), worker()
    assert a.ask("job_promote", 2, ALL) == [(2,)]
    assert b.ask("job_promote", 10, ALL) == [(1,)]  # what the other has locked is left to it
    a.commit()
    b.commit()
    assert db.sql("select id from deferred.__deferred_hot order by visible_at") == [(jobs[1],), (jobs[2],), (jobs[0],)]
    assert sorted(ids(a.claim())) == sorted(jobs)
    a.rollback()


def test_a_job_that_becomes_ready_again_goes_to_the_tail(db, worker):
    jobs = many(db, 5)
    w = worker()
    claimed = {j.id: j for _ in jobs for j in w.take(1, window=1)}
    assert list(claimed) == jobs
    w.release(claimed[jobs[0]])
    w.commit()
    w.retry(claimed[jobs[1]])
    w.commit()
    w.renew(claimed[jobs[2]])
    w.commit()
    lapse(db, claimed[jobs[2]])
    assert w.lost() == 1
    w.release(claimed[jobs[3]], claimed[jobs[4]])
    w.commit()
    delayed = db.defer("f", run_at="2020-01-01")
    late = db.defer("f")
    w.ask("job_promote", 10, ALL)
    w.commit()
    order = [*jobs, late, delayed]
    for n in range(1, 8):
        assert set(ids(w.claim(n, window=n))) == set(order[:n])
        w.rollback()


def test_an_insert_that_commits_late_is_found_and_one_rolled_back_never(db, worker):
    late, gone = db.connect(), db.connect()
    w = worker()
    with late, late.cursor() as cursor:
        cursor.execute("select deferred.defer('late')")
        with gone.cursor() as never:
            never.execute("select deferred.defer('gone')")
        with late.cursor() as inner:  # an id of the top transaction, though a savepoint made the row
            inner.execute("savepoint s; select deferred.defer('inner'); release s")
            inner.execute("savepoint s; select deferred.defer('undone'); rollback to s")
        early = db.defer("early")
        assert [j.fn for j in w.claim(1)] == ["early"]
        w.commit()
        gone.rollback()
        assert w.claim() == []
        w.rollback()
    assert sorted(j.fn for j in w.take()) == ["inner", "late"]
    assert w.take() == []
    assert db.one("select count(*) from deferred.__deferred where fn in ('gone', 'undone')") == 0
    assert early in w.held()
    w.rollback()
    late.close()
    gone.close()


def test_a_prepared_insert_is_found_once_it_is_committed(db, worker):
    other = db.connect()
    other.autocommit = True
    with other.cursor() as cursor:
        cursor.execute(f"begin; select deferred.defer('f'); prepare transaction '{db.name}'")
        w = worker()
        assert w.claim() == []
        w.rollback()
        cursor.execute(f"commit prepared '{db.name}'")
    assert len(w.claim()) == 1
    w.commit()
    other.close()


# ---- leases that ended


def test_what_a_batch_held_whose_lease_ended_is_claimed_again_one_by_one_and_not_counted(db, worker):
    jobs = many(db, 3)
    a, b, c = worker(), worker(), worker()
    old = a.take()
    assert b.take() == [] and b.lost() == 0
    lapse(db, *old)
    assert b.take() == []  # before it is put right
    assert b.lost() == 3 and b.lost() == 0
    assert db.log() == [] and db.sql("select distinct suspect, attempt from deferred.__deferred_hot") == [(True, 0)]
    new = b.take(2, window=2) + b.take(2)
    assert sorted(ids(new)) == jobs and {j.attempt for j in new} == {1} and len({j.receipt for j in new}) == 3
    assert c.take() == []
    assert a.finish(*old) == set()
    a.commit()
    assert b.finish(*new) == set(jobs)
    b.commit()
    assert db.log() == [(job, 1, "ok") for job in jobs]


def test_a_lease_of_one_job_that_ended_is_an_attempt_and_logged_as_lost_once(db, worker):
    job = db.defer("f")
    a, b, c = worker(), worker(), worker()
    lapse(db, *a.take())
    assert a.lost() == 1  # which makes it suspect
    (old,) = a.take()
    assert old.attempt == 1
    lapse(db, old)
    first = b.ask("job_lost", 3, 0)
    assert [row[2:] for row in first] == [(job, "f", 1, False, True)] and c.lost() == 0  # that one is locked
    b.commit()
    (new,) = b.take()
    assert (new.id, new.attempt) == (job, 2)
    assert c.take() == [] and c.lost() == 0
    assert db.sql(
        "select attempt, outcome, final, worker, receipt, started_at is not null, error from deferred.__deferred_log"
    ) == [(1, "lost", False, a.id, old.receipt, True, "the lease ended before a result was recorded")]
    assert b.finish(new) == {job}
    b.commit()
    assert db.log(job) == [(1, "lost"), (2, "ok")]


def test_a_suspect_that_ends_otherwise_is_one_no_more(db, worker):
    many(db, 3)
    w = worker()
    lapse(db, *w.take())
    w.lost()
    first, second, third = w.take()
    assert len({first.receipt, second.receipt, third.receipt}) == 3
    w.retry(first, second)
    w.release(third)  # it has not been tried
    w.commit()
    assert dict(db.sql("select id, suspect from deferred.__deferred_hot")) == {
        first.id: False,
        second.id: False,
        third.id: True,
    }
    again = {j.id: j.receipt for j in w.take()}
    assert again[first.id] == again[second.id] != again[third.id]
    assert (
        dict(db.sql("select receipt, alone from deferred.__deferred_lease where expires_at > now()"))[again[third.id]]
        is True
    )


def test_a_lost_attempt_that_was_the_last_one_leaves_the_job_dead(db, worker):
    """One of a batch may not have begun: what is lost with others counts from the next time on."""
    own, default = db.defer("f", max_attempts=1), db.defer("f")
    w = worker()
    for expected in ([own, default], [default], [default]):
        claimed = w.take(max_attempts=2)
        assert sorted(ids(claimed)) == expected
        lapse(db, *claimed)
        assert w.lost(max_attempts=2) == len(expected)
    assert w.take(max_attempts=2) == []
    assert db.hot() == 0 and w.held() == []
    assert db.sql("select job_id, attempt, outcome, final from deferred.__deferred_log order by 1, 2") == [
        (own, 1, "lost", True),
        (default, 1, "lost", False),
        (default, 2, "lost", True),
    ]
    assert db.sql("select id, state from deferred.job order by id") == [(own, "dead"), (default, "dead")]
    w.rollback()


def test_a_retry_by_hand_gives_all_attempts_again(db, worker):
    job = db.defer("f", max_attempts=1)
    w = worker()
    w.finish(*w.take(), outcome="failed")
    w.commit()
    assert db.one("select deferred.retry(%s)", job)
    (again,) = w.take()
    assert (again.attempt, again.attempt_base) == (2, 1)
    lapse(db, again)
    assert w.lost() == 1 and w.take() == []
    assert db.log(job) == [(1, "failed"), (2, "lost")]
    assert db.hot() == 0


def test_a_job_past_its_expiry_is_not_started(db, worker):
    expired, fresh = db.defer("f", expires_at="2020-01-01"), db.defer("f", expires="1h")
    w = worker()
    assert ids(w.claim()) == [fresh]
    w.commit()
    assert db.sql(
        "select job_id, attempt, outcome, final, started_at, error ~ '^not started before 2020-01-01' "
        "from deferred.__deferred_log"
    ) == [(expired, 0, "expired", True, None, True)]
    assert row(db, expired) is None


def test_a_lapsed_attempt_of_an_expired_job_is_logged_too(db, worker):
    job = db.defer("f", expires="1h")
    last = db.defer("f", expires="1h", max_attempts=1)
    w = worker()
    alone = db.defer("f", expires="1h")
    for _ in range(2):
        claimed = w.take()
        assert len(claimed) == db.hot()
        lapse(db, *claimed)
        if db.hot() == 3:
            assert w.lost() == 3
            db.sql("update deferred.__deferred_hot set expires_at = now() where id = %s", job)
    db.sql("update deferred.__deferred_hot set expires_at = now()")
    assert w.lost() == 1 and w.take() == []
    assert db.sql("select job_id, attempt, outcome, final from deferred.__deferred_log order by 1, 2") == [
        (job, 0, "expired", True),
        (last, 1, "lost", True),
        (alone, 0, "expired", True),
        (alone, 1, "lost", False),
    ]
    assert db.hot() == 0


def test_expiry_does_not_end_an_attempt_that_runs(db, worker):
    job = db.defer("f", expires="1h")
    w = worker()
    claimed = w.claim()
    w.commit()
    db.sql("update deferred.__deferred_hot set expires_at = now()")
    assert w.renew(*claimed) == {job} and w.finish(*claimed) == {job}
    w.commit()
    assert db.log(job) == [(1, "ok")]


# ---- receipts

WAYS_TO_LOSE_A_JOB = {
    "wrong receipt": lambda db, owner, other, job: None,
    "lapsed": lambda db, owner, other, job: lapse(db, job),
    "claimed by another": lambda db, owner, other, job: (lapse(db, job), other.lost(), other.take()),
    "released": lambda db, owner, other, job: owner.release(job),
    "delayed": lambda db, owner, other, job: owner.retry(job, delay_ms=MINUTE),
    "finished": lambda db, owner, other, job: owner.finish(job),
    "cancelled": lambda db, owner, other, job: db.sql("select deferred.cancel(%s)", job.id),
}


@pytest.mark.parametrize("how", WAYS_TO_LOSE_A_JOB)
def test_who_does_not_own_a_job_changes_nothing(db, worker, how):
    many(db, 1)
    owner, other = worker(), worker()
    (job,) = owner.claim()
    owner.commit()
    WAYS_TO_LOSE_A_JOB[how](db, owner, other, job)
    owner.commit()
    if how == "wrong receipt":
        job = stale(job)

    def everything():
        return row(db, job), db.log(), db.sql("select id from deferred.__deferred")

    before = everything()
    for step in (owner.finish, owner.done, owner.retry, owner.renew, owner.follow, owner.release):
        if step == owner.release and how == "lapsed":
            continue  # see below
        assert not step(job), step
        owner.commit()
        assert everything() == before, step


def test_one_receipt_records_one_result(db, worker):
    (job,) = many(db, 1)
    a, b = worker(), worker()
    claimed = a.claim()
    a.commit()
    assert a.finish(*claimed) == {job}
    with pytest.raises(psycopg2.errors.LockNotAvailable):  # the second waits for the first to commit
        b.finish(*claimed, outcome="failed")
    b.rollback()
    a.commit()
    assert b.finish(*claimed, outcome="failed") == set()
    b.commit()
    assert a.finish(*claimed) == set() and a.retry(*claimed) == set()
    a.commit()
    assert db.log(job) == [(1, "ok")]


def test_a_success_without_a_text_is_recorded_once(db, worker):
    jobs = many(db, 2)
    a = worker()
    claimed = a.claim()
    a.commit()
    assert a.done(*claimed) == set(jobs) and a.done(*claimed) == a.finish(*claimed) == set()
    a.commit()
    assert db.hot() == 0 and db.log() == [(job, 1, "ok") for job in jobs]


def test_a_batch_is_accepted_one_by_one(db, worker):
    many(db, 4)
    w = worker()
    good, stranger, cancelled = w.take(3, window=3)
    (lapsed,) = w.take()
    lapse(db, lapsed)
    db.sql("select deferred.cancel(%s)", cancelled.id)
    batch = [cancelled, stale(stranger), lapsed, good]
    assert w.release(*batch[:2]) == 0
    assert w.renew(*batch) == {good.id}
    assert w.finish(*batch) == {good.id}
    w.commit()
    assert w.finish(stranger) == {stranger.id}
    w.commit()
    w.lost()
    assert ids(w.take()) == [lapsed.id]


def test_what_an_attempt_leaves_in_the_log(db, worker):
    job, again = many(db, 2)
    w = worker()
    claimed = {j.id: j for j in w.claim()}
    w.commit()
    first, other = claimed[job], claimed[again]
    assert {
        r[0]
        for r in w.ask(
            "job_finish",
            [first.id],
            [first.receipt],
            ["crashed"],
            ["boom"],
            None,
            [11],
            [3000],
            [1000],
            None,
            [5],
            [6],
            [7],
            [8],
            ["res"],
            [first.receipt],
        )
    } == {job}
    assert w.retry(other, delay_ms=1000) == {again}
    w.commit()
    columns = (
        "attempt, outcome, final, error, exit_code, signal, worker, receipt, plugin, wait_us, run_us, user_us, "
        "sys_us, max_rss_kb, result"
    )
    log = (
        f"select {columns}, finished_at - started_at = interval '2 ms', finished_at < clock_timestamp() "
        f"from deferred.__deferred_log where job_id = %s"
    )
    assert db.sql(log, job) == [
        (1, "crashed", True, "boom", None, 11, w.id, first.receipt, None, 5, 2000, 6, 7, 8, "res", True, True)
    ]
    assert db.sql(log, again) == [
        (1, "failed", False, "no", None, None, w.id, other.receipt, "p 1", 5, 2000, 6, 7, 8, None, True, True)
    ]
    hot = row(db, again)
    assert hot["due_at"] == hot["visible_at"] and hot["receipt"] is hot["worker"] is None and hot["attempt"] == 1
    assert w.ask("job_recorded", [job, again, job], [first.receipt, other.receipt, 5]) == [
        (1, "crashed"),
        (2, "failed"),
    ]


def test_renewing_extends_the_lease_from_now(db, worker):
    many(db, 1)
    w = worker()
    (job,) = w.claim(lease_ms=1000)
    w.commit()
    assert w.renew(job, lease_ms=3600000) == {job.id}
    w.commit()
    lease = "select expires_at > now() + interval '59 min' and receipt = %s from deferred.__deferred_lease"
    assert db.one(lease, job.receipt)
    assert w.renew(job, lease_ms=1000) == {job.id}  # never less than it was
    w.commit()
    assert db.one(lease, job.receipt)
    assert w.finish(job) == {job.id}
    w.commit()


def test_renewing_does_not_wait_for_a_row_that_another_has_locked(db, worker):
    """A cancel that is not yet committed must not cost the other jobs their leases."""
    many(db, 2)
    w = worker()
    jobs = w.take(lease_ms=1000)
    other = db.connect()
    other.cursor().execute("select deferred.cancel(%s)", (jobs[0].id,))
    assert w.renew(*jobs) == set(ids(jobs))
    w.commit()
    other.rollback()
    other.close()
    assert db.one("select expires_at > now() + interval '50 s' from deferred.__deferred_lease")


def test_a_released_job_has_made_no_attempt(db, worker):
    many(db, 2)
    w = worker()
    for _ in range(3):
        claimed = w.claim()
        assert {j.attempt for j in claimed} == {1}
        w.commit()
        assert w.release(*claimed) == 2
        w.commit()
    assert db.log() == []
    assert db.sql("select distinct attempt, receipt, worker, suspect from deferred.__deferred_hot") == [
        (0, None, None, None)
    ]


def test_a_job_can_be_given_back_after_its_lease_as_long_as_nobody_took_it(db, worker):
    many(db, 1)
    w = worker()
    (job,) = w.claim()
    w.commit()
    lapse(db, job)
    assert w.release(job) == 1
    w.commit()
    (again,) = w.claim()
    assert again.attempt == 1  # neither counted nor logged as lost
    w.commit()
    assert db.log() == []


def test_a_locked_job_is_not_given_back_and_holds_up_nothing(db, worker):
    many(db, 2)
    w = worker()
    jobs = w.claim()
    w.commit()
    holder = db.connect()
    holder.cursor().execute("select deferred.cancel(%s)", (jobs[0].id,))
    both = [*jobs, stale(jobs[1])]
    assert dict(w.ask("job_release", *ids_and_receipts(both), receipts(both), [0] * 3)) == {
        jobs[0].id: False,
        jobs[1].id: True,
    }
    w.commit()
    holder.rollback()
    holder.close()
    assert w.ask("job_release", *ids_and_receipts(jobs), receipts(jobs), [0, 0]) == [(jobs[0].id, True)]
    w.commit()
    assert (
        db.log() == [] and db.sql("select distinct attempt from deferred.__deferred_hot") == [(0,)] and w.held() == []
    )
    w.rollback()


def test_calls_that_follow_appear_with_the_success_or_not_at_all(db, worker):
    (job,) = many(db, 1)
    w = worker()
    (claimed,) = w.claim()
    w.commit()
    w.follow(claimed)
    w.finish(claimed)
    w.rollback()  # the run died before the commit
    assert db.sql("select id from deferred.__deferred") == [(job,)]
    (first,) = w.follow(claimed, "g", '{"n":  1}', '{"queue": "next", "key": "k"}')
    assert w.follow(claimed, "h", '{}', '{"queue": "next", "key": "k"}') == [first]  # the options of defer() hold
    assert w.finish(claimed) == {job}
    w.commit()
    assert db.sql("select id, fn, params::text, queue from deferred.__deferred where id <> %s", job) == [
        (first, "g", '{"n":  1}', "next")
    ]
    assert ids(w.claim(queues=["next"])) == [first]
    w.commit()


# ---- what a worker leaves behind


def test_what_a_worker_holds_stands_in_its_leases(db, worker):
    many(db, 6)
    w = worker()
    assert w.held() == []
    w.rollback()
    w.claim(2)
    w.rollback()
    assert w.held() == []
    w.rollback()
    first = w.take(2)
    assert w.held() == sorted(ids(first))
    second = w.take(2)
    assert w.held() == sorted(ids(first + second))
    w.finish(first[0])
    w.release(second[0])
    w.retry(second[1], delay_ms=MINUTE)
    w.commit()
    assert w.held() == [first[1].id]
    w.close(*second)
    w.finish(first[1])
    w.close(*first)
    w.commit()
    assert w.held() == [] and db.sql("select * from deferred.__deferred_lease") == []
    w.ask("worker_end", w.id)
    w.commit()
    assert db.one("select ended_at >= seen_at from deferred.__deferred_worker where id = %s", w.id)
    w.rollback()


def recover(w, instance="host:/pid", outcome="lost", max_attempts=3, begun_worker=None, begun=()):
    """Jobs taken over: id, function, number of the attempt, whether that was the last one, whether there was one."""
    recovered = sorted(w.ask("worker_recover", instance, w.id, outcome, max_attempts, begun_worker, list(begun)))
    w.commit()
    return recovered


def test_of_jobs_held_alone_those_that_had_not_begun_are_as_they_were(db, worker):
    begun, waited, _ = [db.defer("g", max_attempts=n) for n in (1, 1, 1)]
    dead = worker()
    held = {j.id: j for j in dead.take()}
    assert len({j.receipt for j in held.values()}) == 3
    w = worker()
    receipts = [j.receipt for j in held.values() if j.id != waited]
    assert recover(w, begun_worker=dead.id, begun=[*receipts, 0]) == [
        (j, "g", 1, j != waited, j != waited) for j in sorted(held)
    ]
    assert db.sql("select id, attempt, suspect is true, receipt from deferred.__deferred_hot") == [
        (waited, 0, False, None)
    ]
    assert [j.id for j in w.take()] == [waited]


def test_what_another_run_has_noted_says_nothing_of_this_one(db, worker):
    job = db.defer("g", max_attempts=1)
    dead = worker()
    dead.take()
    w = worker()
    assert recover(w, begun_worker=dead.id + 1000, begun=[0]) == [(job, "g", 1, True, True)]


@pytest.mark.parametrize(
    "outcome, error, final",
    [("lost", "check_deferred died", True), ("superseded", "replaced by a new start of check_deferred", False)],
)
def test_a_successor_takes_back_what_the_run_before_held(db, worker, outcome, error, final):
    """What was held alone has lost an attempt, which counts unless we ended it."""
    done, job = many(db, 2)
    last = db.defer("g", max_attempts=1)
    dead, other = worker(), worker("host:/other")
    held = {j.id: j for j in dead.take()}
    dead.finish(held[done])
    dead.commit()
    others = many(db, 2)
    foreign = other.take()
    assert probe(other)["unclean"] is True  # as the successor would find it
    w = worker()
    assert recover(w, outcome=outcome) == [(job, "f", 1, False, False), (last, "g", 1, final, True)]
    assert db.sql(
        "select job_id, attempt, outcome, final, error, worker, receipt, started_at is not null "
        "from deferred.__deferred_log "
        "where job_id <> %s order by 1",
        done,
    ) == [(last, 1, outcome, final, error, dead.id, held[last].receipt, True)]
    assert db.sql("select id, ended_at is null from deferred.__deferred_worker order by id") == [
        (dead.id, False),
        (other.id, True),
        (w.id, True),
    ]
    assert db.sql("select distinct worker from deferred.__deferred_lease") == [(other.id,)]
    assert recover(w) == []  # once
    assert dead.finish(*held.values()) == set()
    dead.commit()
    again = {j.id: (j.attempt, j.attempt_base) for j in w.take()}  # at once, long before the lease would have ended
    assert again == ({job: (1, 0)} if final else {job: (1, 0), last: (2, 1)})
    assert other.finish(*foreign) == set(others)
    other.commit()


def test_a_successor_leaves_alone_what_is_no_longer_held(db, worker):
    """Jobs the dead run had released, or lost to another when its lease ended. Its leases are deleted all the same.
    A look at leases that have ended takes the 20 oldest. Leases that are never deleted would hide all later ones."""
    leases = "select distinct worker from deferred.__deferred_lease"
    many(db, 2)
    dead, other, w = worker(), worker("host:/other"), worker()
    lost, released = dead.claim()
    dead.commit()
    dead.release(released)
    dead.commit()
    lapse(db, lost)
    assert other.lost() == 1 and db.sql(leases) == []
    taken = {j.id: j for j in other.take()}
    assert set(taken) == {lost.id, released.id}
    many(db, 2)
    kept, given = dead.take()
    dead.release(given)
    dead.commit()
    taken.update((j.id, j) for j in other.take())
    assert set(taken) == {lost.id, released.id, given.id}
    assert recover(w) == [(kept.id, "f", 1, False, False)] and db.sql(leases) == [(other.id,)]
    assert other.finish(*taken.values()) == set(taken)
    other.commit()
    assert sorted(db.log()) == sorted((job, 1, "ok") for job in taken)


def test_a_lapsed_lease_of_the_run_before_is_logged_once(db, worker):
    job = db.defer("f", max_attempts=1)
    dead = worker()
    lapse(db, *dead.take())
    w = worker()
    assert recover(w, max_attempts=1) == [(job, "f", 1, True, True)]
    assert w.lost() == 0 and w.take() == []
    assert db.log(job) == [(1, "lost")] and db.hot() == 0


def test_several_dead_runs_of_an_instance_are_recovered_together(db, worker):
    many(db, 3)
    dead = [worker() for _ in range(3)]
    for d in dead:
        d.claim(1)
        d.commit()
    w = worker()
    assert len(recover(w)) == 3
    assert len(w.claim()) == 3
    w.commit()


def test_claims_whose_answer_was_lost_are_given_back_uncounted(db, worker):
    many(db, 7)
    alone = db.defer("f", max_attempts=1, priority=-1)
    w, other = worker(), worker()
    known = w.take(2)
    unknown = w.take(2)
    foreign = other.take(2)
    unknown += w.take(1) + w.take(1)
    assert alone in ids(unknown)
    claimed = "select coalesce(array_agg(id order by id), '{}') from deferred.__held where worker = %s"
    before = [db.one(claimed, i.id) for i in (w, other)]
    assert w.ask("worker_orphans", w.id, receipts(known), "host:/another", 0, 0)[0][0] is False
    w.commit()
    assert [db.one(claimed, i.id) for i in (w, other)] == before
    for _ in range(2):
        assert w.ask("worker_orphans", w.id, receipts(known), "host:/pid", 0, 0)[0][0] is True
        w.commit()
        assert [db.one(claimed, i.id) for i in (w, other)] == [sorted(ids(known)), sorted(ids(foreign))]
    assert w.finish(*unknown) == set()
    w.commit()
    assert {(j.id, j.attempt) for j in w.take()} == {(j.id, 1) for j in unknown}
    assert w.finish(*known) == set(ids(known)) and other.finish(*foreign) == set(ids(foreign))
    w.commit()
    other.commit()
    assert {outcome for _, _, outcome in db.log()} == {"ok"}


def test_where_many_are_locked_those_that_are_not_are_found(db, worker):
    jobs, w = many(db, 60), worker()
    holder = db.connect()
    with holder.cursor() as cursor:
        cursor.execute("select id from deferred.__deferred_hot where id <> all (%s) for update", (jobs[40:43],))
        got = ids(w.take(2, window=60))
        assert set(got) < set(jobs[40:43])
        assert ids(w.take(2, window=60)) == list(set(jobs[40:43]) - set(got))
        assert w.take(2, window=60) == []
    holder.rollback()
    holder.close()
    assert len(w.take(5, window=60)) == 5


# ---- the probe


def probe(w, served=None, instance="host:/pid"):
    answer = dict(zip(("work", "unclean"), w.ask("run_probe", served, instance, ALL)[0]))
    w.commit()
    return answer


def test_the_probe_tells_whether_there_is_anything_to_do(db, worker):
    w = worker("host:/a")
    assert probe(w) == {"work": False, "unclean": False}
    assert probe(w, instance="host:/a")["unclean"] is True
    job = db.defer("f", queue="q")
    for served, work in ((None, True), (["q"], True), (["default", "q"], True), (["default"], False), ([], False)):
        assert probe(w, served)["work"] is work
    queues(db, "paused = true where name = 'q'")
    assert probe(w)["work"] is False
    queues(db, "paused = false")
    claimed = w.take()
    assert probe(w)["work"] is False
    lapse(db, *claimed)
    assert probe(w)["work"] is True and probe(w, ["default"])["work"] is False
    assert w.lost() == 1 and probe(w)["work"] is True
    assert ids(w.take()) == [job]
    db.defer("f", queue="q", delay="1h")
    assert probe(w)["work"] is False
    db.sql("update deferred.__deferred_hot set due_at = now() where due_at is not null")
    assert probe(w)["work"] is True and probe(w, ["default"])["work"] is False


def test_what_somebody_has_locked_is_left_to_the_end_of_its_lease(db, worker):
    locked, free = many(db, 2)
    dead, w = worker(), worker()
    held = dead.take()
    holder = db.connect()
    holder.cursor().execute("select deferred.cancel(%s)", (locked,))
    assert recover(w) == [(free, "f", 1, False, False)]
    assert ids(w.take()) == [free]
    lapse(db, *held)
    assert w.lost() == 0
    holder.rollback()
    holder.close()
    assert w.lost() == 1
    assert (
        ids(w.take()) == [locked]
        and db.sql("select worker from deferred.__deferred_lease where worker = %s", dead.id) == []
    )


# ---- what it costs the server


def statements(w):
    """Every statement of a worker with plausible arguments; which tables it may read through which
    index. What a function does is planned in there: see test_plans.py."""
    n = [1, 2, 3]
    columns = (n, n, ["ok"] * 3, None, None, None, n, n, None, n, n, n, n, None)
    moment = [datetime.timedelta(0)] * 3
    hot = {"__deferred_hot": "__deferred_hot_pkey", "__deferred_lease": "__deferred_lease_receipt"}
    return {
        "run_probe": (
            (None, "host:/pid", None),
            {
                "__deferred_hot": ("__deferred_hot_limited", "__deferred_hot_concurrency", "__deferred_hot_delayed"),
                "__deferred_lease": "__deferred_lease_expires",
                "__deferred_worker": "__deferred_worker_alive",
            },
        ),
        "job_finish": ((*columns, n), hot),
        "job_done": ((n, n, moment, moment, n, n, n, n, n, "p", n, '{"(0,1)","(0,2)","(1,1)"}'), hot),
        "job_retry": ((*columns, [0, 0, 0], [0, 0, 0], n), hot),
        "job_renew": ((n, n, n, [MINUTE] * 3), hot),
        "job_release": ((n, n, n, [0, 0, 0]), hot),
        "job_close": ((n,), hot),
        "job_follow": ((1, 1, "f", "{}", None), hot),
        "job_promote": ((1000, None), {"__deferred_hot": ("__deferred_hot_delayed", "__deferred_hot_pkey")}),
        "job_recorded": ((n, n), {}),
        "worker_orphans": ((w.id, n, "host:/pid", 0, 0), {**hot, "__deferred_lease": "__deferred_lease_worker"}),
        "job_lost": (
            (3, 10000),
            {"__deferred_lease": "__deferred_lease_expires", "__deferred_worker": "__deferred_worker_pkey"},
        ),
        "worker_look": ((w.id,), {"__deferred_worker": ("__deferred_worker_alive", "__deferred_worker_pkey")}),
        "worker_bury": (
            ([1, 2], 1, 3),
            {
                "__deferred_worker": ("__deferred_worker_alive", "__deferred_worker_pkey"),
                "__deferred_hot": "__deferred_hot_pkey",
                "__deferred_lease": "__deferred_lease_worker",
            },
        ),
        "worker_watch": ((w.id,), {"__deferred_worker": "__deferred_worker_pkey"}),
        "worker_recover": (
            ("host:/pid", w.id, "lost", 3, None, []),
            {"__deferred_worker": ("__deferred_worker_alive", "__deferred_worker_pkey")},
        ),
    }


def nodes(plan):
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


STATES = {
    "empty": ["plan"],
    "filled, never analysed": ["fill", "plan"],
    "analysed while empty, then filled": ["analyse", "fill", "plan"],
    "planned while empty, then filled": ["analyse", "add", "plan", "fill"],
    "analysed while full, then emptied": ["fill", "analyse", "empty", "plan"],
}


@pytest.mark.parametrize("state", STATES)
def test_d22_every_statement_of_a_worker_goes_by_index_whatever_the_statistics(db, worker, state):
    tables = ["__deferred_hot", "__deferred_0", "__deferred_default"]
    for table in tables:  # else its launcher may choose a moment of its own
        db.sql(f"alter table deferred.{table} set (autovacuum_enabled = off)")
    w = worker()

    def plans():
        """A generic plan is kept in its session once it was made."""
        made = {}
        for name, (args, _) in statements(w).items():
            w.ask(
                "worker_register", "host:/pid", "host", 1, "test", None, "place", 0, 0, 0, 0, None
            )  # has the transaction begin with the settings
            assert w.ask_plain("select current_setting('jit'), current_setting('plan_cache_mode')") == [
                ("off", "force_generic_plan")
            ]
            w.prepare(name)
            made[name] = w.ask_plain("explain (format json) " + w.call(name, args), *args)[0][0][0]["Plan"]
            w.rollback()
        return made

    steps = {
        "plan": plans,
        "analyse": lambda: [db.sql(f"vacuum analyze deferred.{table}") for table in tables],
        "add": lambda: db.defer("f"),
        "fill": lambda: db.sql(
            "select count(*) from deferred.__enqueue_many(array_fill('f'::text, array[20000]), array_fill('{}'::json, "
            "array[20000]), " + ", ".join(["null"] * 14) + ")"
        ),
        "empty": lambda: db.sql("delete from deferred.__deferred_hot; truncate deferred.__deferred"),
    }
    for step in STATES[state]:
        steps[step]()
    for name, plan in plans().items():
        if state.startswith("planned") and not name.startswith("job_"):
            continue  # sent once at the start of a run, and so planned for what is there then
        allowed = statements(w)[name][1]
        for node in nodes(plan):
            relation = node.get("Relation Name", "")
            table = re.sub("_([0-9]+|default)$", "", relation)
            if not node["Node Type"].endswith("Scan") or table not in (
                "__deferred",
                "__deferred_hot",
                "__deferred_log",
                "__deferred_lease",
                "__deferred_worker",
            ):
                continue
            assert node["Node Type"] in ("Index Scan", "Index Only Scan", "Tid Scan"), (name, node)
            if node["Node Type"] != "Tid Scan":
                # An index is walked as a whole only where that is short: runs that live, an empty table.
                assert (
                    "Index Cond" in node
                    or relation in ("__deferred_worker", "__deferred_default")
                    or (name, state) == ("run_probe", "empty")
                ), (name, node)
                expected = allowed.get(table, node["Index Name"])
                assert node["Index Name"] in ([expected] if isinstance(expected, str) else expected), (name, node)


def test_a_claim_does_not_touch_the_jobs(db, worker):
    """Nothing of them dies by it: neither rows nor entries of an index."""
    many(db, 1000)
    w = worker()
    jobs = w.take(100)
    w.ask_plain("select pg_stat_force_next_flush()")
    w.commit()
    db.sql("select pg_stat_force_next_flush(), pg_stat_clear_snapshot()")
    assert db.sql(
        "select n_tup_ins, n_tup_upd, n_tup_del from pg_stat_user_tables "
        "where relid = 'deferred.__deferred_hot'::regclass"
    ) == [(1000, 0, 0)]
    w.finish(*jobs)
    w.commit()


def test_a_run_makes_no_multixact(own_server):
    """Several lockers of one row would: their members are written to disk, and clean-up is a burden
    for the whole server."""
    db = own_server
    many(db, 300, fn="noop")
    many(db, 20, fn="fail", max_attempts=2, backoff_floor="1ms")
    many(db, 2, fn="crash", max_attempts=1)
    next_id = "select mxid_age('1'::xid)"
    before = db.one(next_id)

    def drained():
        runs = [
            db.spawn(["check_deferred", "--cnt", "0", "--batch", "10", "--pidfile", f"{db.dir}/pid{i}"])
            for i in range(2)
        ]
        assert [run.wait(60) for run in runs] == [0, 0]
        return db.hot() == 0

    wait_for(drained, 60, "all jobs have ended")
    assert db.one(next_id) == before
    with db.connect() as a, db.connect() as b:  # two claims set jobs of unknown functions aside at the same moment
        for connection in (a, b):
            connection.cursor().execute("select deferred.__functions_offered()")
    assert db.one(next_id) == before
    with db.connect() as a, db.connect() as b:  # what the test looks for would have been counted
        job = db.defer("noop")
        for connection in (a, b):
            connection.cursor().execute("select from deferred.__deferred_hot where id = %s for share", (job,))
    assert db.one(next_id) == before + 1
    db.sql("select deferred.cancel(%s)", job)
    a.close()
    b.close()
    ledger(db)


# ---- params

LARGE = 200000


def large(db, n, compressible=False, **opts):
    """Ids of so many jobs with large params."""
    text = (
        "repeat('a', %s)"
        if compressible
        else "(select string_agg(md5(random()::text || x || i), '') from generate_series(1, %s / 32) x)"
    )
    return [
        r[0]
        for r in db.sql(
            f"select deferred.defer('f', to_json({text}), %s) from generate_series(1, %s) i",
            LARGE,
            json.dumps(opts) if opts else None,
            n,
        )
    ]


@pytest.mark.parametrize("compressible", [False, True])
def test_a_claim_takes_jobs_up_to_the_bytes_of_their_params(db, worker, compressible):
    jobs = large(db, 12, compressible)
    if compressible:
        assert db.one("select max(pg_column_size(params)) from deferred.__deferred") < LARGE / 20
    w = worker()
    taken = w.claim(100, size=5 * LARGE + LARGE // 2)
    assert sum(len(json.dumps(j.params)) for j in taken) <= 5 * LARGE + LARGE // 2 and w.left
    assert len(taken) == 5
    assert sorted(w.held()) == sorted(ids(taken))
    w.commit()
    # The others are as they were, for anybody to take.
    rest = worker().claim(100, size=1 << 30)
    assert sorted(ids(taken) + ids(rest)) == jobs
    assert all(j.attempt == 1 for j in rest)


def test_a_claim_takes_one_job_however_large_its_params_are(db, worker):
    large(db, 3)
    w = worker()
    for left in (True, True, False):
        assert len(w.claim(100, size=0)) == 1 and w.left is left
        w.commit()


def test_the_most_urgent_jobs_come_first_where_params_let_few_be_taken(db, worker):
    large(db, 4)
    urgent = large(db, 2, priority=5)
    w = worker()
    assert sorted(ids(w.claim(100, size=2 * LARGE + LARGE // 2))) == urgent


def test_a_claim_does_not_read_the_params_it_leaves(db, worker):
    """Pages of the table that large values are kept in."""
    large(db, 40)
    w = worker()

    def read():
        w.ask_plain("select pg_stat_force_next_flush()")
        w.commit()
        db.sql("select pg_stat_force_next_flush()")
        db.sql("select pg_stat_clear_snapshot()")
        return db.one(
            """select heap_blks_hit + heap_blks_read from pg_statio_all_tables
                         where relid = (select reltoastrelid from pg_class
                         where oid = 'deferred.__deferred_0'::regclass)"""
        )

    before = read()
    assert len(w.claim(100, size=1)) == 1
    one = read() - before
    assert 0 < one < 4 * LARGE / 8192


def test_a_transaction_younger_than_all_that_have_ended_is_open_too(db, worker):
    """A snapshot does not list it. It may have deferred a job before the locks of a sleeper were there."""
    w = worker()
    w.commit()
    with db.connect() as late:
        cursor = late.cursor()
        cursor.execute("select pg_current_xact_id()::text::int8, pg_snapshot_xmax(pg_current_snapshot())::text::int8")
        number, end = cursor.fetchone()
        assert number >= end
        assert number in [row[0] for row in w.ask("worker_open")]
        w.rollback()
    assert number not in [row[0] for row in w.ask("worker_open")]


def test_an_attempt_whose_lease_was_extended_reports_progress(db, worker):
    """It has two leases with one receipt."""
    db.defer("f")
    w = worker()
    (job,) = w.take()
    w.commit()
    told = db.one("select deferred.__token(%s, receipt, worker) from deferred.__deferred_lease", job.id)
    db.sql("select deferred.extend(%s, %s, 3600000)", job.id, told)
    assert db.one("select count(*) from deferred.__deferred_lease where %s = any (ids)", job.id) == 2
    w.ask("job_progress", [job.id], [job.receipt], [1], [2], ["half"], [0])
    w.commit()
    assert db.sql("select job_id, done, total, text from deferred.__deferred_progress") == [(job.id, 1, 2, "half")]
