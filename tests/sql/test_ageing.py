"""Ageing: jobs that wait in a queue with age_ms rise to the highest priority that waits there."""

import contextlib
import json
import random
import threading

import psycopg2
import pytest

from harness import wait_for
from test_claim import ids, many, worker  # noqa: F401

AGE_S = 600


def age(db, queue="default", **settings):
    db.sql("select deferred.__queue_set(%s, %s, true)", queue, json.dumps({"age_ms": AGE_S * 1000, **settings}))


def wait(db, spans, *jobs):
    """Make the jobs look as if they had been ready for this number of spans."""
    db.sql(
        "update deferred.__deferred_hot set visible_at = now() - %s * interval '1 s' where id = any (%s)",
        spans * AGE_S + 1,
        list(jobs),
    )


def raised(db, most=1000):
    """In a session as those of workers, which choose their isolation."""
    with contextlib.closing(db.connect()) as session:
        session.autocommit = True
        with session.cursor() as cursor:
            cursor.execute("select deferred.__age_jobs(%s)", (most,))
            return cursor.fetchone()[0]


def priorities(db):
    return [row[0] for row in db.sql("select priority from deferred.__deferred_hot order by id")]


def test_a_job_rises_by_one_for_each_span_up_to_the_highest_that_waits(db):
    jobs = [db.defer("f", priority=p) for p in (5, -3, 0, 4)]
    wait(db, 9, *jobs)
    assert raised(db) == 0 and priorities(db) == [5, -3, 0, 4]  # the queue does not ask for it
    age(db)
    wait(db, 0, *jobs)
    assert raised(db) == 0
    wait(db, 2, *jobs)
    assert raised(db) == 3 and priorities(db) == [5, -1, 2, 5]
    assert raised(db) == 0
    wait(db, 7, *jobs)
    assert raised(db) == 2 and priorities(db) == [5, 4, 5, 5]
    wait(db, 99, *jobs)
    assert raised(db) == 1 and priorities(db) == [5] * 4
    assert db.sql("select priority from deferred.__deferred order by id") == [(5,), (-3,), (0,), (4,)]


@pytest.mark.parametrize("high", [32767, -32768])
def test_ageing_stays_within_the_range_of_priorities(db, high):
    age(db, age_ms=1000)
    jobs = [db.defer("f", priority=p) for p in (-32768, high)]
    db.sql("update deferred.__deferred_hot set visible_at = '0001-01-01 00:00+00' where id = any (%s)", jobs)
    assert raised(db) == (high > 0) and priorities(db) == [high, high]


def test_a_raised_job_lies_beyond_the_cursors_of_both_lanes(db, worker):
    age(db)
    w = worker()
    high, low = many(db, 4, priority=1), many(db, 4)
    taken = ids(w.take(n=6, window=6))
    assert set(high) < set(taken) and len(taken) == 6  # the cursors of both lanes have moved
    db.defer("f", priority=1)
    left = set(low) - set(taken)
    wait(db, 1, *high, *low)
    assert raised(db) == 2
    assert dict(db.sql("select id, priority from deferred.__deferred_hot where id = any (%s)", low)) == {
        job: 1 if job in left else 0 for job in low
    }
    found = w.take(lanes=[("default", 1)])
    assert left < set(ids(found)) and len(found) == 3
    assert w.take() == []


def test_a_job_that_is_held_keeps_its_priority_and_its_lease(db, worker):
    age(db)
    w = worker()
    db.defer("f", priority=1)
    low = db.defer("f")
    jobs = w.take(lanes=[("default", 0)])
    wait(db, 1, low)
    assert raised(db) == 0 and w.held() == [low]
    assert w.finish(*jobs) == {low}
    w.commit()


def test_a_claim_under_way_keeps_its_lane_from_ageing(db, worker):
    age(db)
    w = worker()
    db.defer("f", priority=1)
    jobs = many(db, 3)
    wait(db, 1, *jobs)
    for first in (True, False):
        claimed = w.claim(n=1, lanes=[("default", 0)])
        assert len(claimed) == 1 and raised(db) == 0
        if first:
            w.rollback()
        else:
            w.commit()
    assert raised(db) == 2


def test_a_job_claimed_since_it_was_read_keeps_its_lease(db, worker):
    """While the job of the middle lane is moved, a worker claims the job of the lowest lane."""
    age(db)
    w = worker()
    high, middle, low = [db.defer("f", priority=p) for p in (2, 1, 0)]
    wait(db, 1, middle, low)
    db.sql("create function gate() returns trigger language plpgsql as 'begin lock table gate; return new; end'")
    db.sql(
        "create table gate (); create trigger gate before update of priority on deferred.__deferred_hot"
        " for each row execute function gate()"
    )
    gate = db.connect()
    gate.cursor().execute("lock table gate")
    ageing = threading.Thread(target=raised, args=(db,))
    other = db.connect()
    other.autocommit = True
    ageing.start()

    def waits():
        with other.cursor() as cursor:
            cursor.execute("select from pg_locks where relation = 'gate'::regclass and not granted")
            return cursor.rowcount == 1

    wait_for(waits)
    assert ids(w.take(lanes=[("default", 0)])) == [low]
    gate.close()
    ageing.join()
    other.close()
    assert w.held() == [low] and priorities(db) == [2, 2, 0] and high


def test_jobs_under_a_limit_are_raised_too(db):
    age(db, max_running=1)
    jobs = [db.defer("f", priority=p) for p in (1, 0, 0)]
    keyed = db.defer("f", concurrency_key="k")
    delayed = db.defer("f", delay="1h")
    wait(db, 1, *jobs, keyed)
    db.sql("update deferred.__deferred_hot set receipt = 7, worker = 1 where id = %s", jobs[2])
    assert raised(db) == 1 and priorities(db) == [1, 1, 0, 0, 0]
    assert delayed


def test_some_jobs_of_each_lane_are_raised_at_a_time(db):
    age(db)
    db.defer("f", priority=2)
    jobs = many(db, 5) + many(db, 5, priority=1)
    wait(db, 1, *jobs)
    assert [raised(db, 2) for _ in range(7)] == [4, 4, 2, 0, 0, 0, 0]
    assert sorted(priorities(db)) == [1] * 5 + [2] * 6


def test_housekeeping_raises_priorities(db):
    age(db)
    jobs = [db.defer("f", priority=p) for p in (1, 0)]
    wait(db, 1, *jobs)
    db.sql("select deferred.maintain()")
    assert priorities(db) == [1, 1]


def test_jobs_that_age_while_workers_claim_are_each_run_once(db, worker):
    age(db)
    rng = random.Random(4713)
    jobs = [db.defer("f", priority=rng.randrange(6)) for _ in range(600)]
    workers, run, errors, done = [worker(f"host:/{i}") for i in range(3)], [], [], threading.Event()

    def serve(w):
        try:
            while not done.is_set():
                taken = w.take(n=7, window=9, seed=len(run))
                if taken:
                    assert w.finish(*taken) == set(ids(taken))
                    w.commit()
                    run.extend(ids(taken))
        except (psycopg2.Error, AssertionError) as e:
            errors.append(e)

    threads = [threading.Thread(target=serve, args=(w,)) for w in workers]
    for t in threads:
        t.start()
    moved = 0
    while not errors and db.one("select count(*) from deferred.__deferred_hot") > 0:
        db.sql(
            "update deferred.__deferred_hot set visible_at = visible_at - interval '10 min' where id in (select id from"
            " deferred.__deferred_hot order by random() limit 50 for update skip locked)"
        )
        moved += raised(db, 20)
    done.set()
    for t in threads:
        t.join()
    assert errors == [] and sorted(run) == sorted(jobs) and moved > 0
