"""What has been handed out of a lane, and what not: a claim finds what a full scan finds, whatever
transactions did before, and reads little for it. The words are those of sql/functions/claim/__claim.sql.

Claims are stepped as in test_claim.py. After each step same() has workers claim all there is, in a
transaction that is rolled back, and compares that with a sequential scan of jobs and leases.
"""

import json
import os
import random
import threading
import time

import psycopg2
import pytest

import harness
import pg
from documents import literal, read, section, typed
from harness import ledger
from test_claim import ALL, MINUTE, Claimed, Worker, ids, lapse, many, worker  # noqa: F401

EVERYTHING = 1000000


class Writer:
    """A session of an application. It begins with its first statement."""

    def __init__(self, db):
        self.connection = db.connect(application_name="writer")

    def __call__(self, query, *args):
        cursor = self.connection.cursor()
        cursor.execute(query, args or None)
        return cursor.fetchall() if cursor.description else []

    def defer(self, n=1, **opts):
        return [r[0] for r in self("select deferred.defer_many(%s::json)", json.dumps([{"fn": "f", **opts}] * n))]

    def prepare(self, name):
        """Leaves the session without a transaction."""
        self(f"prepare transaction '{name}'")
        self.connection.rollback()

    def lock(self, *jobs):
        self("select from deferred.__deferred_hot where id = any (%s) for update", list(jobs))

    def commit(self):
        self.connection.commit()

    def rollback(self):
        self.connection.rollback()


@pytest.fixture
def writer(db, worker):  # noqa: F811
    """What these leave open ends before the tables are checked."""
    made = []

    def make(of=db):
        made.append(Writer(of))
        return made[-1]

    yield make
    for w in made:
        w.connection.close()
    for (name,) in db.sql("select gid from pg_prepared_xacts where database = current_database()"):
        db.sql(f"rollback prepared '{name}'")


def full_scan(db):
    """Ids of the jobs that nobody holds."""
    return {
        i
        for i, in db.sql(
            """select h.id from deferred.__deferred_hot h join deferred.__deferred_queue q on q.name = h.queue
                and not q.paused
        where h.due_at is null and not h.limited and h.fn is not null
          and not exists (select from deferred.__deferred_lease l where h.id = any (l.ids)
          and pg_visible_in_snapshot(h.xid, l.snap))"""
        )
    }


def same(db, *workers, locked=()):
    """What each of these can claim is what a full scan finds, but for those that are locked; returns it."""
    expected = full_scan(db) - set(locked)
    for w in workers:
        claimed = ids(w.claim(EVERYTHING))
        w.rollback()
        assert len(set(claimed)) == len(claimed)
        assert (
            set(claimed) == expected
        ), f"unseen: {sorted(expected - set(claimed))[:20]}, seen in error: {sorted(set(claimed) - expected)[:20]}"
    return expected


def done(w, *jobs):
    assert w.finish(*jobs) == set(ids(jobs))
    w.close(*jobs)
    w.commit()


def churn(db, *workers, rounds=3, n=10, **opts):
    """Jobs come and go, so that the places move on."""
    for _ in range(rounds):
        for w in workers:
            jobs = set(many(db, n, **opts))
            got = w.take(EVERYTHING)
            assert set(ids(got)) == jobs
            done(w, *got)


def draw(w, n, **opts):
    """Claim some and have them done; their ids."""
    got = w.take(n, **opts)
    done(w, *got)
    return set(ids(got))


# ---- transactions


def test_a_late_commit_is_found_behind_jobs_that_are_long_done(db, worker, writer):  # noqa: F811
    a, b, late = worker(), worker(), writer()
    churn(db, a, b)
    jobs = late.defer(5)
    churn(db, a, b)
    assert same(db, a, b) == set()
    late.commit()
    assert same(db, a, b) == set(jobs)
    first = draw(a, 2)
    assert first < set(jobs)
    later = many(db, 3)
    assert same(db, a, b) == set(jobs + later) - first
    assert draw(b, EVERYTHING) == set(jobs + later) - first
    assert same(db, a, b) == set()


def test_a_long_writer_goes_on_deferring_while_others_come_and_go(db, worker, writer):  # noqa: F811
    a, b = worker(), worker()
    long, other = writer(), writer()
    jobs = []
    for i in range(5):
        jobs += long.defer(2, priority=i % 2)
        churn(db, a, b, rounds=1, priority=i % 2)
        between = other.defer(2)
        churn(db, a, b, rounds=1)
        assert same(db, a, b) == set()
        other.commit()
        assert same(db, a, b) == set(between)
        draw(a, EVERYTHING)
    assert same(db, a, b) == set()
    long.commit()
    assert same(db, a, b) == set(jobs)


def test_transactions_that_end_in_any_order(db, worker, writer):  # noqa: F811
    a, b = worker(), worker()
    churn(db, a, b)
    writers = [writer() for _ in range(8)]
    jobs = [w.defer(2) for w in writers]
    churn(db, a, b)
    expected = set()
    for i in (5, 0, 7, 3, 1, 6, 2, 4):
        writers[i].commit()
        expected |= set(jobs[i])
        assert same(db, a, b) == expected
        expected -= draw(a, 1, window=1 + i % 3)
        assert same(db, a, b) == expected


def test_subtransactions_count_with_the_transaction_they_are_part_of(db, worker, writer):  # noqa: F811
    a, b, w = worker(), worker(), writer()
    churn(db, a, b)
    kept = w.defer(1)
    w("savepoint s1")
    kept += w.defer(2)
    w("savepoint s2")
    w.defer(3)
    churn(db, a, b)
    w("rollback to s2")
    kept += w.defer(1)
    w("release s1")
    churn(db, a, b)
    w("savepoint s3")
    w.defer(2)
    w("rollback to s3")
    for i in range(100):  # more than a snapshot holds: it says of the rest only that there were more
        w(f"savepoint many{i}")
        kept += w.defer(1)
    churn(db, a, b)
    assert same(db, a, b) == set()
    w.commit()
    assert same(db, a, b) == set(kept)
    draw(a, EVERYTHING)
    only = w("savepoint s") or w.defer(1)  # the transaction writes in a subtransaction alone
    w("release s")
    churn(db, a)
    w.commit()
    assert same(db, a, b) == set(only)


def test_prepared_transactions_are_in_progress_until_they_are_resolved(db, worker, writer):  # noqa: F811
    a, b, w = worker(), worker(), writer()
    churn(db, a, b)
    jobs = w.defer(3)
    w.prepare(f"{db.name}.one")
    w.defer(3, priority=2)
    w.prepare(f"{db.name}.two")
    churn(db, a, b, rounds=5)
    assert same(db, a, b) == set()
    db.sql(f"rollback prepared '{db.name}.two'")
    assert same(db, a, b) == set()
    churn(db, a, b)
    db.sql(f"commit prepared '{db.name}.one'")
    assert same(db, a, b) == set(jobs)
    churned = many(db, 2, priority=2)
    assert same(db, a, b) == set(jobs + churned)


def test_a_prepared_transaction_outlives_the_server_and_so_does_what_was_claimed(own_server):
    db = own_server
    a, w = Worker(db, "host:/a"), Writer(db)
    churn(db, a)
    late = w.defer(3)
    w.prepare("late")
    held = many(db, 2)
    claimed = a.take()
    many(db, 1)
    churned = a.take()
    done(a, *churned)  # commits synchronously, and by that all before it
    for connection in (a.connection, w.connection):
        connection.close()
    db.kill()
    db.start()
    a = Worker(db, "host:/a")
    churn(db, a)
    assert a.finish(*claimed) == set(held)
    a.commit()
    assert same(db, a) == set()
    db.sql("commit prepared 'late'")
    assert same(db, a) == set(late) == draw(a, EVERYTHING)
    a.connection.close()
    ledger(db)


def test_a_claim_that_a_crash_of_the_server_undid_never_was(own_server):
    """Claims commit asynchronously: place and lease are lost together. What may have begun alone is not."""
    db = own_server
    db.sql("alter system set wal_writer_delay = '10s'")
    db.sql("select pg_reload_conf()")
    a = Worker(db, "host:/a")
    churn(db, a)
    jobs = many(db, 20)
    alone = db.defer("f", max_attempts=1, priority=9)
    first = a.take(1)
    assert ids(first) == [alone]
    claimed = a.take(7)
    a.connection.close()
    db.kill()
    db.start()
    b = Worker(db, "host:/b")
    left = same(db, b)
    assert left == set(jobs), "this crash undid nothing, so it shows nothing"
    assert b.finish(*claimed) == set() and b.held() == []
    assert b.finish(*first) == {alone}
    b.commit()
    assert draw(b, EVERYTHING) == set(jobs)
    b.connection.close()
    ledger(db)


def test_what_is_rolled_back_leaves_everything_as_it_was(db, worker, writer):  # noqa: F811
    a, b, w = worker(), worker(), writer()
    jobs = many(db, 4)
    assert same(db, a, b) == set(jobs)
    w.defer(3)
    w("select deferred.cancel(%s)", jobs[0])
    assert same(db, a, b, locked=jobs[:1]) == set(jobs[1:])
    assert draw(a, EVERYTHING) == set(jobs[1:])
    assert same(db, a, b, locked=jobs[:1]) == set()
    w.rollback()
    assert same(db, a, b) == {jobs[0]}


@pytest.mark.parametrize("way", ["finish", "release", "retry"])
def test_a_claim_that_failed_moved_nothing(db, worker, way):  # noqa: F811
    a, b = worker(), worker()
    jobs = many(db, 10)
    claimed = a.take(5)
    for _ in range(3):
        assert getattr(a, way)(*claimed)
        a.rollback()
        a.claim(3)
        a.rollback()
        assert same(db, a, b) == set(jobs) - set(ids(claimed))
    done(a, *claimed)
    assert draw(b, EVERYTHING) == set(jobs) - set(ids(claimed))


# ---- ways to become ready again


def test_jobs_given_back_are_found_by_everybody(db, worker):  # noqa: F811
    a, b = worker(), worker()
    churn(db, a, b)
    jobs = many(db, 12)
    held = {j.id: j for j in a.take()}
    churn(db, b)
    a.retry(*(held[j] for j in jobs[:3]))
    a.commit()
    assert same(db, a, b) == set(jobs[:3])
    again = b.take()
    a.release(*(held[j] for j in jobs[3:6]))
    a.commit()
    assert same(db, a, b) == set(jobs[3:6])
    a.renew(*(held[j] for j in jobs[6:]))
    a.commit()
    assert same(db, a, b) == set(jobs[3:6])
    b.release(*again)
    b.commit()
    assert same(db, a, b) == set(jobs[:6])
    a.release(*(held[j] for j in jobs[6:]))
    assert same(db, b) == set(jobs[:6])  # not committed
    a.commit()
    assert same(db, a, b) == set(jobs)


def test_delayed_jobs_are_found_when_they_were_promoted(db, worker, writer):  # noqa: F811
    a, b, w = worker(), worker(), writer()
    first = many(db, 2, delay="1h")
    churn(db, a, b)
    jobs = first + many(db, 2, delay="1h")
    late = w.defer(2, delay="1h")
    retried = many(db, 2)
    a.retry(*a.take(), delay_ms=3600000)
    a.commit()
    churn(db, a, b)
    assert same(db, a, b) == set()
    due = "update deferred.__deferred_hot set due_at = now() - interval '1 s' where due_at is not null"
    db.sql(due)
    assert same(db, a, b) == set()
    assert b.ask("job_promote", 1000, ALL) == [(6,)]
    assert same(db, a) == set()
    b.commit()
    w.commit()
    assert same(db, a, b) == set(jobs + retried)
    db.sql(due)
    assert a.ask("job_promote", 1000, ALL) == [(2,)]
    a.commit()
    assert same(db, a, b) == set(jobs + retried + late)


def test_leases_that_ended_are_found_when_they_were_put_right(db, worker, writer):  # noqa: F811
    a, b, w = worker(), worker(), writer()
    dead = many(db, 3)
    claimed = a.take()
    churn(db, b, rounds=5)
    lapse(db, *claimed)
    assert same(db, a, b) == set() and b.take() == []
    w.lock(dead[0])
    assert b.lost() == 2
    assert same(db, a, b) == set(dead[1:])
    assert draw(b, EVERYTHING) == set(dead[1:])
    w.rollback()
    assert b.lost() == 1
    assert same(db, a, b) == {dead[0]}
    assert a.finish(*claimed) == set()
    a.rollback()


def test_retry_and_cancel_by_hand(db, worker, writer):  # noqa: F811
    a, b, w = worker(), worker(), writer()
    jobs = many(db, 4)
    delayed = many(db, 2, delay="1h")
    assert db.one("select count(*) filter (where deferred.cancel(id)) from unnest(%s::bigint[]) id", jobs) == 4
    churn(db, a, b)
    assert w("select deferred.retry(%s)", jobs[0]) == [(True,)]
    assert w("select deferred.retry(%s)", delayed[0]) == [(True,)]
    churn(db, a, b)
    assert db.one("select deferred.retry(%s)", jobs[1]) is True
    assert db.one("select deferred.retry(%s)", delayed[1]) is True
    assert same(db, a, b) == {jobs[1], delayed[1]}
    w.commit()
    assert same(db, a, b) == {*jobs[:2], *delayed}
    assert db.one("select deferred.cancel(%s)", jobs[0]) is True
    assert same(db, a, b) == {jobs[1], *delayed}


def test_a_retry_by_hand_while_the_old_lease_is_there(db, worker):  # noqa: F811
    """It is in nobody's hands: neither who held it nor the end of that lease has to do with it."""
    a, b = worker(), worker()
    job, other = many(db, 2)
    old = {j.id: j for j in a.take()}
    assert db.one("select deferred.cancel(%s)", job) and db.one("select deferred.retry(%s)", job)
    assert same(db, a, b) == {job}
    assert a.finish(old[job]) == a.retry(old[job]) == a.renew(old[job]) == set() and a.release(old[job]) == 0
    a.commit()
    (new,) = b.take()
    assert (new.id, new.attempt, new.attempt_base) == (job, 2, 1)
    lapse(db, old[job])
    assert b.lost() == 1  # the other one of the batch
    assert same(db, a, b) == {other}
    assert a.finish(*old.values()) == set() and b.finish(new) == {job}
    a.commit()
    b.commit()
    assert db.log(job) == [(1, "cancelled"), (2, "ok")]


def test_a_job_whose_cancel_is_not_committed_is_neither_handed_out_nor_lost(db, worker, writer):  # noqa: F811
    """Nor does anybody wait for it."""
    a, b, w = worker(), worker(), writer()
    jobs = many(db, 5)
    for n, end in ((1, w.commit), (5, w.rollback)):
        w("select deferred.cancel(%s)", jobs[1])
        others = set(jobs) - {jobs[1]}
        got = ids(a.take(n, window=n)) + ids(b.take())
        assert set(got) == others
        assert same(db, a, b, locked=[jobs[1]]) == set()
        churn(db, a, b)
        end()
        assert same(db, a, b) == ({jobs[1]} if end == w.rollback else set())
        assert draw(a, EVERYTHING) == ({jobs[1]} if end == w.rollback else set())
        jobs = many(db, 5)
    db.sql("select deferred.cancel(id) from deferred.__deferred_hot")


def test_more_jobs_are_locked_than_are_kept_for_later(db, worker, writer):  # noqa: F811
    """Those beyond are found by repair."""
    a, w = worker(), writer()
    jobs = many(db, 2500)
    w.lock(*jobs[:2400])
    assert set(ids(a.take(EVERYTHING))) == set(jobs[2400:])
    assert db.one("select cardinality(rest_id) from deferred.__deferred_cursor") == 1000
    w.rollback()
    assert db.one("select deferred.__repair()") == 1400
    assert same(db, a) == set(jobs[:2400])


# ---- lanes


def test_priorities_that_appear_later_are_seen_at_once(db, worker, writer):  # noqa: F811
    a, b, w = worker(), worker(), writer()
    churn(db, a, b)
    expected = set()
    for priority in (5, -5, 32767, -32768, 1, -1, 4, 6):
        expected |= set(many(db, 1, priority=priority))
        assert same(db, a, b) == expected
    expected -= draw(a, 3)
    assert same(db, a, b) == expected
    late = w.defer(1, priority=100) + w.defer(1, priority=5)
    churned = many(db, 2, priority=100)
    assert draw(a, 2) == set(churned)
    assert same(db, a, b) == expected
    w.commit()
    assert same(db, a, b) == expected | set(late)
    assert draw(a, 1) == set(late[:1])  # the highest goes first
    assert same(db, a, b) == expected | {late[1]}


def test_lanes_that_are_named_and_all_there_are(db, worker, writer):  # noqa: F811
    w, late = worker(), writer()
    places = [
        (queue, priority) for queue in ("a", "b", "b.c", "default", "Z", "z") for priority in (-32768, -1, 0, 7, 32767)
    ]
    jobs = {at: many(db, 2, queue=at[0], priority=at[1]) for at in places}
    assert same(db, w) == set(sum(jobs.values(), []))
    for at in random.Random(1).sample(places, len(places)):
        got = w.claim(EVERYTHING, lanes=[at])
        assert sorted(ids(got)) == jobs[at]
        w.rollback()
    for queue in ("a", "b", "default"):
        assert set(ids(w.claim(EVERYTHING, queues=[queue]))) == {j for at in places if at[0] == queue for j in jobs[at]}
        w.rollback()
    half = places[::2]
    assert set(ids(w.take(EVERYTHING, lanes=half))) == {j for at in half for j in jobs[at]}
    assert w.take(EVERYTHING, lanes=half) == []
    new = late.defer(1, queue="a", priority=3) + late.defer(1, queue="zz")
    expected = {j for at in places[1::2] for j in jobs[at]}
    assert same(db, w) == expected
    late.commit()
    assert same(db, w) == expected | set(new)


def test_queues_that_are_paused_and_resumed(db, worker, writer):  # noqa: F811
    a, b, w = worker(), worker(), writer()
    for queue in ("p", "q"):
        churn(db, a, b, queue=queue)
    db.sql("update deferred.__deferred_queue set paused = true where name = 'p'")
    p, q = many(db, 3, queue="p"), many(db, 3, queue="q")
    late = w.defer(2, queue="p")
    assert same(db, a, b) == set(q)
    draw(a, EVERYTHING)
    churn(db, a, b, queue="q")
    w.commit()
    assert a.take(lanes=[("p", 0)]) == b.take() == []
    db.sql("update deferred.__deferred_queue set paused = false")
    assert same(db, a, b) == set(p + late)


@pytest.mark.long
def test_a_hundred_transactions_and_lanes_at_a_time(own_server):
    db = own_server
    a, b = Worker(db, "a"), Worker(db, "b")
    churn(db, a, b)
    writers = [Writer(db) for _ in range(80)]
    jobs = [w.defer(1, priority=i % 40) for i, w in enumerate(writers)]
    churn(db, a, b)
    expected = set()
    for n, i in enumerate(random.Random(1).sample(range(80), 80)):
        writers[i].commit()
        expected |= set(jobs[i])
        if n % 8 == 0:
            assert same(db, a, b) == expected
            expected -= draw(a, 3, window=5)
    assert same(db, a, b) == expected
    for w in (*writers, a, b):
        w.connection.close()
    ledger(db)


def test_two_first_claims_of_a_lane_exclude_each_other(db, worker):  # noqa: F811
    """Also where the first one has made several steps before the other begins; and neither waits."""
    a, b = worker(), worker()
    gone = many(db, 5, expires="1ms")
    jobs = many(db, 10)
    time.sleep(0.01)
    first = set(ids(a.claim(3, window=3)))
    assert len(first) == 3 and first < set(jobs[:5])
    assert b.claim() == [] and b.busy
    a.commit()
    assert set(ids(b.claim(EVERYTHING))) == set(jobs) - first
    b.commit()
    assert db.one("select count(*) from deferred.__deferred_cursor") == 1
    assert [db.log(job) for job in gone] == [[(0, "expired")]] * 5


# ---- who may have begun


def flushed(w, act):
    """Has what act() committed reached the disk when it returned?"""
    before = w.ask_plain("select pg_current_wal_insert_lsn()")[0][0]
    w.rollback()
    act()
    reached = w.ask_plain("select pg_current_wal_flush_lsn() > %s", before)[0][0]
    w.rollback()
    return reached


def test_only_a_claim_of_a_job_that_is_leased_alone_is_made_durable(own_server):
    db = own_server
    db.sql("alter system set wal_writer_delay = '10s'")
    db.sql("select pg_reload_conf()")
    w = Worker(db, "host:/a")

    def claim(n):
        assert len(w.claim()) == n
        assert w.ask_plain("select current_setting('synchronous_commit')") == [("on" if alone else "off",)]
        w.commit()

    alone = False
    churn(db, w)
    for n, opts in ((3, {}), (1, {"max_attempts": 1}), (1, {"max_attempts": 2})):
        jobs = many(db, n, **opts)
        alone = opts == {"max_attempts": 1}
        assert flushed(w, lambda: claim(n)) is alone, opts
    lapse(db, *(type("Held", (), {"receipt": r})() for r, in db.sql("select receipt from deferred.__deferred_lease")))
    assert w.lost() == 5
    alone = True
    assert flushed(w, lambda: claim(4))  # of 5: the one with one attempt has had it
    assert db.sql("select alone, cardinality(ids) from deferred.__deferred_lease") == [(True, 1)] * 4 and jobs
    w.connection.close()
    ledger(db)


def test_suspects_are_leased_alone_among_others_that_are_not(db, worker):  # noqa: F811
    a, b = worker(), worker()
    bad = many(db, 3)
    lapse(db, *a.take())
    assert b.lost() == 3
    good = many(db, 4)
    got = {j.id: j.receipt for j in b.take()}
    assert set(got) == set(bad + good)
    assert (
        len({got[j] for j in bad}) == 3
        and len({got[j] for j in good}) == 1
        and not {got[j] for j in bad} & {got[j] for j in good}
    )
    # Of those the losing of one is nobody else's.
    lapse(db, type("Held", (), {"receipt": got[bad[0]]})())
    assert a.lost() == 1
    assert db.log() == [(bad[0], 1, "lost")]
    assert sorted(ids(a.take())) == bad[:1]


# ---- limits that come while jobs are held


@pytest.mark.parametrize("first", [True, False], ids=["first claim of the lane", "not the first"])
def test_marking_waits_for_a_claim_that_is_under_way(db, worker, first):  # noqa: F811
    """Or the jobs would be taken under the limit too."""
    if not first:
        churn(db, worker(), queue="q")
    jobs = many(db, 6, queue="q")
    a, b = worker(), worker()
    held = ids(a.claim(2, window=2))
    db.sql("""select deferred.__queue_set('q', '{"max_running": 3}', false)""")
    with pytest.raises(psycopg2.errors.LockNotAvailable):
        b.ask_plain("set local lock_timeout = '50ms'; select * from deferred.__mark(0, 100)")
    b.rollback()
    a.commit()
    assert db.sql("select marked from deferred.__mark(0, 100)") == [(6,)]
    taken = [
        r[0]
        for r in b.ask("job_claim_limited", None, 100, 100, b.id, MINUTE, 3, None, 1, 1 << 24, 1000, None, 1)
        if r[0]
    ]
    b.commit()
    assert len(taken) == 1 and not set(taken) & set(held) and b.take() == []
    assert set(held) == set(jobs[:2])


def test_limits_that_come_and_go_while_jobs_are_held_never_have_one_run_twice(db, worker, seed):  # noqa: F811
    rng = random.Random(seed)
    workers = [worker(), worker()]
    jobs = many(db, 60, queue="q", max_attempts=1000)
    held, finished = {}, []
    for step in range(400):
        w, what = rng.choice(workers), rng.random()
        mine = [j for j, owner in held.values() if owner is w]
        if what < 0.1:
            db.sql(
                "select deferred.__queue_set('q', %s::json, false)",
                json.dumps({"max_running": rng.choice((None, 2, 30))}),
            )
        elif what < 0.3:
            db.sql("select deferred.__mark(%s, %s)", rng.choice(jobs), rng.randint(1, 40))
        elif what < 0.75:
            if rng.random() < 0.5:
                got = w.claim(rng.randint(1, 8), window=rng.choice((1, 10)), seed=step)
            else:
                rows = w.ask(
                    "job_claim_limited",
                    None,
                    rng.randint(1, 8),
                    100,
                    w.id,
                    MINUTE,
                    3,
                    None,
                    step,
                    1 << 24,
                    1000,
                    None,
                    1,
                )
                got = [Claimed(r) for r in rows if r[0] is not None]
            if rng.random() < 0.2:
                w.rollback()
                continue
            w.commit()
            assert not {j.id for j in got} & set(held), f"seed {seed}, step {step}"
            held.update({j.id: (j, w) for j in got})
        elif mine:
            some = rng.sample(mine, rng.randint(1, len(mine)))
            way = rng.choice((w.finish, w.retry, w.release))
            assert way(*some) in (set(ids(some)), len(some)), f"seed {seed}, step {step}"
            w.commit()
            finished += ids(some) if way == w.finish else []
            for j in some:
                del held[j.id]
    assert len(set(finished)) == len(finished)
    db.sql("""select deferred.__queue_set('q', '{"max_running": null}', false)""")
    for j, w in held.values():
        w.finish(j)
        w.commit()
    db.sql("select deferred.__mark(0, 1000)")
    w = workers[0]
    while got := w.take(EVERYTHING):
        done(w, *got)
    assert db.hot() == 0, f"seed {seed}"


# ---- the draw


def test_one_start_with_cnt_1_draws_uniformly_from_the_first_hundred(db, worker, seed):  # noqa: F811
    rng = random.Random(seed)
    jobs, w = many(db, 130), worker()
    met, draws = dict.fromkeys(jobs[:100], 0), 2000
    for _ in range(draws):
        (job,) = w.claim(1, window=100, seed=rng.randrange(2**62))
        w.rollback()
        met[job.id] += 1  # KeyError: not of the first hundred
    chi_square = sum((m - draws / 100) ** 2 / (draws / 100) for m in met.values())
    assert (
        48 < chi_square < 181
    ), f"seed {seed}: {chi_square}"  # outside, with 99 degrees of freedom, once in a million times


@pytest.mark.long
def test_places_of_a_window_are_drawn_alike_by_workers_that_take_turns(db, worker, seed):  # noqa: F811
    """Each draw is among those left over and the next one: which place of the window it falls on is uniform."""
    rng = random.Random(seed)
    left = many(db, 2100)
    workers, met = [worker() for _ in range(3)], [0] * 100
    for i in range(2000):
        w = workers[i % 3]
        (job,) = w.take(1, window=100, seed=rng.randrange(2**62))
        met[left.index(job.id)] += 1
        left.remove(job.id)
    chi_square = sum((m - 20) ** 2 / 20 for m in met)
    assert 48 < chi_square < 181, f"seed {seed}: {chi_square}"
    db.sql("delete from deferred.__deferred_lease")
    db.sql("select deferred.__repair()")


# ---- repair


def strand(db, *jobs):
    """As if they had been handed out to somebody who is not there."""
    w = Worker(db, "host:/stranded")
    claimed = w.take(EVERYTHING)
    assert set(jobs) <= set(ids(claimed))
    w.release(*(j for j in claimed if j.id not in jobs))
    w.commit()
    w.connection.close()
    db.sql("delete from deferred.__deferred_lease where worker = %s", w.id)


def test_a_stranded_job_is_made_ready_again_and_no_other(db, worker, writer):  # noqa: F811
    a, w = worker(), writer()
    lost = many(db, 3)
    strand(db, *lost)
    assert same_as_claimed(db, a) == set()
    held = many(db, 3)
    mine = a.take()
    resting = many(db, 10)
    draw(a, 2, window=10)
    beyond, late = many(db, 2), w.defer(2)
    many(db, 1, delay="1h")
    before = dict(db.sql("select id, xid from deferred.__deferred_hot"))
    assert db.one("select deferred.__repair()") == 3
    after = dict(db.sql("select id, xid from deferred.__deferred_hot"))
    assert {j for j in before if before[j] != after[j]} == set(lost)
    assert db.one("select deferred.__repair()") == 0
    left = set(resting) & set(before)
    assert len(left) == 8 and same(db, a) == {*lost, *left, *beyond}
    w.commit()
    assert same(db, a) == {*lost, *left, *beyond, *late}
    assert a.finish(*mine) == set(held)
    a.commit()


def same_as_claimed(db, w):
    got = set(ids(w.claim(EVERYTHING)))
    w.rollback()
    return got


def test_a_lease_that_ended_is_not_repaired_but_lost(db, worker):  # noqa: F811
    a = worker()
    jobs = many(db, 3)
    lapse(db, *a.take())
    assert db.one("select deferred.__repair()") == 0
    assert a.lost() == 3 and same(db, a) == set(jobs)


def test_repair_leaves_alone_a_lane_that_is_being_claimed_and_rows_that_are_locked(db, worker, writer):  # noqa: F811
    a, w = worker(), writer()
    lost = many(db, 3)
    strand(db, *lost)
    many(db, 3)
    held = a.claim(1)
    assert db.one("select deferred.__repair()") == 0
    a.commit()
    w.lock(lost[0])
    assert db.one("select deferred.__repair()") == 2
    w.rollback()
    assert db.one("select deferred.__repair()") == 1
    assert len(same(db, a)) == 5 and len(held) == 1


def test_limited_rows_that_say_they_are_claimed_and_are_in_no_lease_are_repaired(db, worker):  # noqa: F811
    a = worker()
    jobs = many(db, 3, concurrency_key="k", concurrency=3)
    for n in 1, 100:
        a.ask("job_claim_limited", None, n, 1, a.id, MINUTE, 3, None, 1, 1 << 24, 1000, None, 1)
        a.commit()
    assert db.one("select deferred.__repair()") == 0
    assert db.one("select count(*) from deferred.__held") == 3
    db.sql("delete from deferred.__deferred_lease where ids = array[%s::bigint]", jobs[0])
    assert db.one("select deferred.__repair()") == 1
    got = a.ask("job_claim_limited", None, 100, 100, a.id, MINUTE, 3, None, 1, 1 << 24, 1000, None, 1)
    assert [r[0] for r in got if r[0]] == jobs[:1]
    a.commit()


def test_repair_comes_to_every_lane_some_at_a_time(db, worker):  # noqa: F811
    a = worker()
    lost = [db.defer("f", queue=f"q{i % 4}", priority=i // 4) for i in range(7)]
    for _ in range(3):
        strand(db, *lost)
        assert [db.one("select deferred.__repair(2, 1)") for _ in range(4)] == [2, 2, 2, 1]
        assert same(db, a) == set(lost)
    strand(db, *lost)
    db.sql("delete from deferred.__deferred_cursor")  # they are claimed as those of new lanes
    assert [db.one("select deferred.__repair(2, 1)") for _ in range(2)] == [0, 0]
    assert same(db, a) == set(lost)


def test_repair_comes_to_every_limited_row_some_at_a_time(db, worker):  # noqa: F811
    jobs = many(db, 500, concurrency_key="k")
    for _ in range(3):
        db.sql("update deferred.__deferred_hot set receipt = 1")
        pages = db.one("select pg_relation_size('deferred.__deferred_hot') / 8192")
        found = [db.one("select deferred.__repair(1, 2)") for _ in range(pages + 2)]  # two rounds, as pages are added
        assert sum(found) == len(jobs) and max(found) < len(jobs) / 2


def test_maintenance_repairs_every_five_minutes(db, worker):  # noqa: F811
    a = worker()
    db.sql("select deferred.maintain()")
    lost = many(db, 3)
    strand(db, *lost)
    db.sql("select deferred.maintain()")
    assert same_as_claimed(db, a) == set()
    db.sql("update deferred.__deferred_upkeep set repaired_at = now() - interval '301 s'")
    db.sql("select deferred.maintain()")
    assert same(db, a) == set(lost)


def test_a_place_of_a_lane_without_jobs_goes_where_there_are_many(db, worker):  # noqa: F811
    """A few are kept: they tell where the dead of a lane end, under a snapshot that is held."""
    a = worker()
    churn(db, a, queue="once")
    kept = many(db, 1, queue="kept")
    a.take()
    db.sql("select deferred.__repair()")
    assert db.sql("select distinct queue from deferred.__deferred_cursor order by queue") == [("kept",), ("once",)]
    db.sql("select deferred.defer('f', '{}', json_build_object('priority', i)) from generate_series(1, 64) i")
    while a.take(20):
        pass
    db.sql("select deferred.cancel(id) from deferred.__deferred_hot where priority > 0")
    db.sql("select deferred.__repair()")
    assert db.sql("select distinct queue from deferred.__deferred_cursor") == [("kept",)]
    churn(db, a, queue="once")
    db.sql("select deferred.cancel(%s)", kept[0])


def spend_xids(db, n):
    db.sql(f"do $$ begin for i in 1..{n} loop perform pg_current_xact_id(); commit; end loop; end $$")


def restore_as_the_overview_says(server, target):
    """Of a database "own" in its own cluster and in a new one; out of order in the new one, migrate
    says what is missing."""

    def shell(cluster, *lines, code=0):
        env = {
            **server.env,
            **cluster.env(),
            "DEFERRED_DB": "",
            "PATH": f"{os.path.join(pg.BUILD, 'bin')}:{pg.bindir()}:/usr/bin:/bin",
        }
        done = harness.run(["bash", "-c", "; ".join(lines)], cwd=server.dir, env=env)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def says(code, *words):
        said = shell(target, "deferred migrate --db dbname=restored", code=code)
        assert all(w in said for w in words), said

    (block,) = literal(section(read("lib", "deferred.7"), "BACKUP AND RESTORE"))
    dump, roles, restore, migrate = [command for command, _ in typed(block.replace("pg_dump app", "pg_dump own"))]
    shell(server.cluster, dump)
    assert "nothing to do" in shell(server.cluster, restore, migrate)

    shell(target, restore.replace("-1 -v ON_ERROR_STOP=1", "-q"))
    says(
        78,
        "roles: no role deferred_http, deferred_operator, deferred_owner, deferred_producer, deferred_purger, "
        "deferred_reader, deferred_viewer, deferred_worker; ",
        "tables, views and functions are not deferred_owner's",
        "hint: make the roles",
    )
    shell(target, roles)
    says(
        78,
        "roles: nothing is granted to deferred_http, deferred_operator, deferred_producer, deferred_purger, "
        "deferred_reader, deferred_viewer, deferred_worker; ",
        "are not deferred_owner's",
    )
    shell(
        target,
        "dropdb restored",
        restore.replace("psql", "sed -i '/FUNCTION deferred.maintain() FROM PUBLIC/d' app.sql; psql"),
    )
    says(78, "roles: 1 functions may be called by everybody\n")
    shell(
        target,
        "psql -qc 'revoke execute on function deferred.maintain() from public; revoke deferred_producer from "
        "deferred_worker' restored",
    )
    says(78, "roles: deferred_producer is not granted to deferred_worker\n")
    shell(
        target,
        "psql -qc 'grant deferred_producer to deferred_worker; drop function deferred.release; "
        "drop view deferred.my_job' restored",
    )
    says(0, "2 functions and views\n")
    assert "nothing to do" in shell(target, migrate)


@pytest.mark.skipif(not pg.can_dump(), reason="pg_dump is older than the server")
def test_a_dump_restored_into_a_fresh_cluster(own_server):
    """Its rows and places carry transaction ids that the new cluster has yet to reach."""
    server = own_server
    spend_xids(server, 20000)
    source = Worker(server, "host:/source")
    leased = many(server, 2)
    claimed = source.take()
    ready = many(server, 30) + many(server, 2, priority=7) + many(server, 2, queue="other")
    ready = sorted(set(ready) - draw(source, 5, window=20))
    spend_xids(server, 500)
    ready += many(server, 2)
    delayed = many(server, 2, delay="1h")
    source.connection.close()
    target = pg.Cluster(os.path.join(harness.root(), f"target{os.getpid()}")).start()
    try:
        restore_as_the_overview_says(server, target)
        restored = harness.Db(target, "restored")
        assert (
            restored.one(
                "select min(xid)::text::bigint - pg_current_xact_id()::text::bigint from deferred.__deferred_hot"
            )
            > 10000
        )
        old, w = Worker(restored, "host:/old"), Writer(restored)
        restored.sql("select deferred.__repair()")
        expected = same(restored, old)
        assert expected == set(ready + leased)  # who held those was not dumped
        expected -= set(ids(old.take(2)))
        for i in range(3):
            late = w.defer(1)
            expected |= set(many(restored, 2, priority=i, queue=("default", "other")[i % 2]))
            assert same(restored, old) == expected
            w.commit()
            expected |= set(late)
            assert same(restored, old) == expected
            expected -= set(ids(old.take(2)))
            assert same(restored, old) == expected
        restored.sql("update deferred.__deferred_hot set due_at = now() where due_at is not null")
        assert old.ask("job_promote", 100, ALL) == [(2,)]
        old.commit()
        expected |= set(delayed)
        assert same(restored, old) == expected
        # The new cluster's transaction ids come to those of the rows, and go past them.
        for _ in range(3):
            spend_xids(restored, 7000)
            late = w.defer(1)
            expected |= set(many(restored, 1))
            assert same(restored, old) == expected
            w.commit()
            expected |= set(late)
            assert same(restored, old) == expected
            expected -= set(ids(old.take(1)))
        lapse(restored, *claimed)
        old.lost()
        restored.sql("select deferred.__repair()")
        while got := old.take(EVERYTHING):
            done(old, *got)
        ended = {j for j, _, outcome in restored.log() if outcome == "ok"}
        held = {i for i, in restored.sql("select id from deferred.__deferred_hot")}
        assert set(ready + leased + delayed) <= ended | held
        assert held == {i for i, in restored.sql("select id from deferred.__held")}
        ledger(restored)
        for c in (old, w):
            c.connection.close()
        restored.close()
    finally:
        target.remove()


@pytest.mark.skipif(not pg.can_dump(), reason="pg_dump is older than the server")
@pytest.mark.parametrize("migrated", [True, False], ids=["migrated", "not migrated"])
def test_jobs_of_a_dump_with_high_transaction_ids_are_run_at_once(own_server, migrated):
    """In lanes that were claimed from and in new ones, limited and not. Housekeeping had been done
    just before the dump."""
    server = own_server
    server.stop()
    pg.call(pg.as_server([os.path.join(pg.bindir(), "pg_resetwal"), "-e", "1", "-D", server.cluster.data]))
    server.start()
    source = Worker(server, "host:/source")
    many(server, 2, fn="noop")
    source.take(1)
    jobs = (
        many(server, 3, fn="noop")
        + many(server, 2, fn="noop", queue="new", priority=3)
        + many(server, 2, fn="noop", concurrency_key="k")
    )
    server.sql("update deferred.__deferred_upkeep set repaired_at = '-infinity'")
    server.sql("select deferred.maintain()")
    source.connection.close()
    target = pg.Cluster(os.path.join(harness.root(), f"target{os.getpid()}")).start()
    try:
        target.create_db("restored")
        dump = harness.run(
            [
                "bash",
                "-c",
                f"pg_dumpall --roles-only -d '{server.conninfo}'; echo '\\connect restored'; pg_dump -d "
                f"'{server.conninfo}'",
            ],
            env={**os.environ, "PATH": f"{pg.bindir()}:/usr/bin:/bin"},
        ).stdout
        restored_by = harness.run(["psql", "-Xq", "-d", target.conninfo("postgres")], input=dump)
        assert restored_by.stderr.split("\n")[1:] == [""] and 'role "deferred" already exists' in restored_by.stderr
        restored = harness.Db(target, "restored")
        assert restored.one("select min(xid)::text::bigint from deferred.__deferred_hot") > 1 << 32
        if migrated:
            assert restored.run(["deferred", "migrate"]).returncode == 0
        else:
            assert restored.run(["check_deferred", "--cnt", "0"]).returncode == 0  # its housekeeping finds them
        assert restored.run(["check_deferred", "--cnt", "0"]).returncode == 0
        assert restored.one(
            "select count(*) from deferred.__deferred_log where outcome = 'ok' and job_id = any(%s)", jobs
        ) == len(jobs)
        assert restored.one("select count(*) from deferred.__deferred_hot") == 0
        ledger(restored)
        restored.close()
    finally:
        target.remove()
