"""Limits of queues, functions and keys: claims by sessions that the test steps one by one."""

import concurrent.futures
import json
import random

import psycopg2
import pytest

from harness import WAITING, ledger, wait_for
from test_claim import Claimed, Worker, ids, lapse, many, queues, row

MINUTE = 60000


class Limited(Worker):
    """A worker that claims jobs under limits too."""

    def limited(
        self,
        n=100,
        rated=100,
        queues=None,
        lease_ms=MINUTE,
        max_attempts=3,
        known=None,
        seed=1,
        size=1 << 24,
        alone=1000000,
        round=None,
        run=1,
    ):
        rows = self.ask(
            "job_claim_limited", queues, n, rated, self.id, lease_ms, max_attempts, known, seed, size, alone, round, run
        )
        self.seen, self.wait_ms = rows[0][31:33] if rows else (0, None)
        self.keys = [r[35] for r in rows if r[0] is not None]
        return [Claimed(r) for r in rows if r[0] is not None]

    def take(self, *args, **kw):
        """Claim and commit; the ids."""
        jobs = self.limited(*args, **kw)
        self.commit()
        return jobs

    def done(self, *jobs):
        assert self.finish(*jobs) == set(ids(jobs))
        self.commit()


@pytest.fixture
def worker(db):
    made = []

    def make(instance="host:/pid"):
        made.append(Limited(db, instance))
        return made[-1]

    yield make
    for w in made:
        w.connection.close()
    ledger(db)


def setq(db, name="q", add=True, **settings):
    db.sql("select deferred.__queue_set(%s, %s::json, %s)", name, json.dumps(settings), add)


def setf(db, name, **settings):
    db.sql("select deferred.__function_set(%s, %s::json)", name, json.dumps(settings))


def mark(db, batch=1000):
    at, n = 0, 0
    while at is not None:
        ((marked, at),) = db.sql("select * from deferred.__mark(%s, %s)", at, batch)
        n += marked
    return n


# ---- attempts at once


def test_a_queue_runs_no_more_at_once_than_it_may(db, worker):
    setq(db, max_running=3)
    jobs = many(db, 10, queue="q")
    a, b = worker("a"), worker("b")
    assert a.claim() == []  # the claim of the others sees nothing of them
    a.commit()
    first = a.take(2)
    assert ids(first) == jobs[:2]
    second = b.take(5)
    assert ids(second) == jobs[2:3]
    assert a.take() == [] and b.take() == []
    a.done(first[0])
    assert ids(b.take()) == jobs[3:4]
    assert a.take() == []


def test_a_claim_not_yet_committed_keeps_others_off_without_waiting(db, worker):
    setq(db, max_running=3)
    jobs = many(db, 10, queue="q")
    a, b = worker("a"), worker("b")
    assert len(a.limited(2)) == 2
    assert b.limited() == [] and b.seen == 1  # asking again makes sense
    b.rollback()
    a.rollback()
    assert ids(b.take()) == jobs[:3]


def test_a_place_is_free_when_the_attempt_ends_however_it_ends(db, worker):
    setq(db, max_running=1)
    jobs = many(db, 6, queue="q")
    w, other = worker(), worker("other")

    def next_is(job):
        (one,) = w.take()
        assert one.id == job
        return one

    w.done(next_is(jobs[0]))
    w.retry(next_is(jobs[1]), delay_ms=MINUTE)
    w.commit()
    w.release(next_is(jobs[2]))
    w.commit()
    again = next_is(jobs[2])
    assert db.one("select deferred.cancel(%s)", again.id)
    lapse(db, next_is(jobs[3]))
    assert other.take() == [] and other.lost() == 1
    again = next_is(jobs[3])
    assert again.attempt == 1 and db.log(jobs[3]) == []
    lapse(db, again)
    assert other.lost() == 1
    again = next_is(jobs[3])
    assert again.attempt == 2 and db.log(jobs[3]) == [(1, "lost")]
    assert other.take() == []
    w.renew(again)
    w.commit()
    assert other.take() == []
    w.done(again)
    assert ids(other.take()) == [jobs[4]]


def test_the_lease_is_that_of_the_queue(db, worker):
    setq(db, "short", visibility_timeout_ms=5000)
    setq(db, visibility_timeout_ms=7000, max_running=5)
    plain, short, limited = db.defer("f"), db.defer("f", queue="short"), db.defer("f", queue="q")
    w = worker()
    assert {j.id: j.lease_ms for j in w.claim()} == {plain: MINUTE, short: 5000}
    assert {j.id: j.lease_ms for j in w.limited()} == {limited: 7000}
    w.commit()
    assert db.sql("select id, extract(epoch from expires_at - claimed_at)::int from deferred.__held order by id") == [
        (plain, 60),
        (short, 5),
        (limited, 7),
    ]


def test_a_function_is_limited_in_all_queues_together(db, worker):
    setf(db, "slow", max_running=2)
    slow = many(db, 3, "slow", queue="a") + many(db, 3, "slow", queue="b")
    fast = many(db, 3, "fast", queue="a")
    w = worker()
    assert set(ids(w.claim())) == set(fast)
    w.commit()
    first = w.take()
    assert len(first) == 2 and set(ids(first)) < set(slow)
    assert w.take() == []
    w.done(first[0])
    assert len(w.take()) == 1


def test_queue_and_function_limits_hold_together(db, worker):
    setf(db, "slow", max_running=3)
    setq(db, "a", max_running=2)
    setq(db, "b", max_running=10)
    slow_a, other_a = many(db, 4, "slow", queue="a"), many(db, 4, "other", queue="a")
    slow_b = many(db, 4, "slow", queue="b")
    w = worker()
    taken = []
    for _ in range(6):
        taken += ids(w.take())
    assert len([j for j in taken if j in slow_a + slow_b]) <= 3
    assert len([j for j in taken if j in slow_a + other_a]) == 2
    assert len(taken) >= 3


def test_a_function_at_its_limit_holds_up_no_other_behind_it(db, worker):
    setf(db, "full", max_running=1)
    setf(db, "free", max_running=100)
    full = many(db, 3000, "full", queue="q")
    free = many(db, 3, "free", queue="q")
    w = worker()
    assert set(ids(w.take(10))) == {full[0], *free}


# ---- rate


def test_a_rate_is_a_bucket_that_fills_with_time(db, worker):
    setq(db, rate=0.5, burst=3)
    jobs = many(db, 20, queue="q")
    a, b = worker("a"), worker("b")
    assert ids(a.take(2)) == jobs[:2]
    assert ids(b.take()) == jobs[2:3]
    assert a.take() == [] and 0 < a.wait_ms <= 2000
    back = "update deferred.__deferred_limit set tokens_at = tokens_at - interval %s"
    db.sql(back, "2 seconds")
    assert ids(a.take()) == jobs[3:4]
    db.sql(back, "1 hour")  # never more than the burst
    assert ids(b.take()) == jobs[4:7]
    assert a.take() == []
    db.sql(back, "-1 hour")  # a clock that is set back gives nothing, and takes nothing
    assert a.take() == []


def test_of_a_rate_only_as_many_are_taken_as_can_start(db, worker):
    setq(db, rate=100, burst=50)
    setq(db, "r", max_running=50)
    rated, other = many(db, 20, queue="q"), many(db, 20, queue="r")
    got = ids(worker().take(100, rated=4))
    assert set(got) & set(rated) == set(rated[:4]) and set(other) < set(got)


def test_expired_jobs_use_no_tokens(db, worker):
    setq(db, rate=0.001)
    gone = db.defer("f", queue="q", expires="1ms")
    job = db.defer("f", queue="q")
    db.sql("select pg_sleep(0.01)")
    w = worker()
    assert w.take() == []  # the one it was allowed to take had expired
    assert db.log(gone) == [(0, "expired")]
    assert ids(w.take()) == [job]


# ---- keys


def test_a_key_runs_one_after_the_other_in_the_order_of_ids(db, worker):
    a = many(db, 3, concurrency_key="a")
    b = many(db, 3, concurrency_key="b", priority=5)
    plain = many(db, 2)
    w, v = worker("w"), worker("v")
    assert sorted(ids(w.claim())) == plain
    w.commit()
    first = w.take()
    assert sorted(ids(first)) == [a[0], b[0]]
    assert v.take() == []
    w.done(*first)
    second = {j.id: j for j in v.take()}
    assert sorted(second) == [a[1], b[1]]
    # One that waits for its next attempt keeps its place.
    v.retry(second[a[1]], delay_ms=MINUTE)
    v.done(second[b[1]])
    assert ids(w.take()) == [b[2]]
    db.sql("update deferred.__deferred_hot set due_at = null, visible_at = now() where id = %s", a[1])
    (again,) = w.take()
    assert again.id == a[1] and again.attempt == 2
    w.done(again)
    assert ids(w.take()) == [a[2]]


def test_a_job_deferred_with_a_delay_takes_its_place_when_it_is_due(db, worker):
    late = db.defer("f", concurrency_key="k", delay="1h")
    now = db.defer("f", concurrency_key="k")
    w = worker()
    (running,) = w.take()
    assert running.id == now
    db.sql("update deferred.__deferred_hot set due_at = null, visible_at = now() where id = %s", late)
    assert w.take() == []
    w.done(running)
    assert ids(w.take()) == [late]


def test_a_message_has_no_concurrency_key_and_is_never_a_workers(db, worker):
    with pytest.raises(psycopg2.Error, match="option 'concurrency_key' is not allowed for a message"):
        db.sql("""select deferred.defer(null, '{}', '{"queue": "q", "concurrency_key": "k"}')""")
    job, message = many(db, 2, concurrency_key="k")
    db.sql("update deferred.__deferred_hot set fn = null where id = %s", message)
    db.sql("update deferred.__deferred set fn = null where id = %s", message)
    w = worker()
    (first,) = w.take()
    assert first.id == job
    w.done(first)
    assert w.take() == []
    db.sql("update deferred.__deferred_hot set concurrency_key = null, limited = false where id = %s", message)
    db.sql("update deferred.__deferred set concurrency_key = null where id = %s", message)


def test_a_key_may_allow_more_than_one(db, worker):
    jobs = many(db, 6, concurrency_key="k", concurrency=3)
    w, v = worker("w"), worker("v")
    first = w.take(2)
    assert ids(first) == jobs[:2]
    assert ids(v.take()) == [jobs[2]]
    assert w.take() == []
    w.retry(first[0], delay_ms=MINUTE)  # waits, and holds nobody up
    w.commit()
    assert ids(v.take()) == [jobs[3]]


def test_keys_of_different_queues_have_nothing_to_do_with_each_other(db, worker):
    jobs = [db.defer("f", queue=q, concurrency_key="k") for q in ("a", "b")]
    assert sorted(ids(worker().take())) == jobs


def test_a_key_whose_jobs_are_many_holds_up_no_other(db, worker):
    bulk = many(db, 3000, concurrency_key="bulk")
    small = db.defer("f", concurrency_key="small")
    assert set(ids(worker().take())) == {bulk[0], small}


def test_each_of_many_keys_gets_its_turn(db, worker):
    blocked = db.sql(
        "select deferred.defer_many(json_agg(json_build_object('fn', 'unknown', 'concurrency_key', 'b' || i))) "
        "from generate_series(1, 1000) i"
    )
    free = {db.defer("f", concurrency_key=f"f{i}") for i in range(5)}
    w = worker()
    got = set()
    for seed in range(200):
        got |= set(ids(w.take(known=["f"], seed=seed)))
    assert len(blocked) == 1000 and got == free


def test_a_limit_that_an_open_claim_has_locked_gives_nothing_to_others(db, worker):
    db.sql("select deferred.__queue_set('q', '{\"max_running\": 2}', true)")
    first, *jobs = many(db, 4, queue="q")
    a, b = worker("a"), worker("b")
    a.done(*a.limited(1))
    a.commit()
    assert ids(a.limited(1)) == [jobs[0]]
    assert b.take() == [] and b.seen > 0
    a.commit()
    assert ids(b.take()) == [jobs[1]]


def limit_another_function(db):
    """A claim of keys goes the long way while any function has a limit."""
    db.sql("select deferred.__function_set('other', '{\"max_running\": 1}')")


@pytest.mark.parametrize("long", [False, True])
def test_a_key_that_an_open_claim_has_locked_gives_no_other_job(db, worker, long):
    if long:
        limit_another_function(db)
    late = db.connect()
    with late.cursor() as cursor:
        cursor.execute("select deferred.defer('f', '{}', '{\"concurrency_key\": \"k\"}')")
    jobs = many(db, 2, concurrency_key="k")
    a, b = worker("a"), worker("b")
    a.done(*a.limited(1))
    a.commit()
    assert ids(a.limited(1)) == [jobs[1]]
    late.commit()
    late.close()
    assert b.take() == [] and b.seen > 0
    a.commit()
    assert b.take() == []


def limits_read(w):
    with w.connection.cursor() as cursor:
        cursor.execute(
            "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = '__deferred_limit'"
        )
        return cursor.fetchone()[0]


@pytest.mark.parametrize("narrowed", [False, True])
def test_a_key_that_allowed_more_runs_none_until_all_of_its_jobs_have_ended(db, worker, narrowed):
    """The limit lists both. The job that waits is the first of its key, since it was committed late."""
    late = db.connect()
    with late.cursor() as cursor:
        cursor.execute("select deferred.defer('f', '{}', '{\"concurrency_key\": \"k\"}')")
        last = [cursor.fetchone()[0]]
    many(db, 2, concurrency_key="k", concurrency=2)
    w = worker()
    running = w.take()
    assert len(running) == 2
    db.sql("update deferred.__deferred_hot set concurrency = 1 where %s", narrowed)
    late.commit()
    late.close()
    assert w.take() == []
    w.done(running[0])
    w.commit()
    assert w.take() == []
    w.done(running[1])
    w.commit()
    assert ids(w.take()) == last


def test_a_short_and_a_long_claim_of_keys_hand_out_the_same(db, worker):
    jobs = [job for i in range(40) for job in many(db, 2, concurrency_key=f"k{i}", priority=i % 3)]
    w = worker()
    taken = [ids(w.limited(200, size=size)) for size in (1 << 24, 20 * 1024) if not w.rollback()]
    limit_another_function(db)
    again = [ids(w.limited(200, size=size)) for size in (1 << 24, 20 * 1024) if not w.rollback()]
    assert taken == again and [len(t) for t in taken] == [40, 20]
    assert set(taken[0]) == set(jobs[::2])


@pytest.mark.parametrize("odd", ["job", "worker", "queue", "suspect", "expired"])
def test_what_a_short_claim_of_keys_leaves_to_the_long_way(db, worker, odd):
    """The short way gives all jobs one lease."""
    jobs = [db.defer("f", queue="q", concurrency_key=str(i)) for i in range(3)]
    hot = "update deferred.__deferred_hot set %s where id = %s"
    if odd == "queue":
        setq(db, max_attempts=1)
    elif odd == "suspect":
        db.sql(hot % ("suspect = true", jobs[0]))
    elif odd == "expired":
        db.sql(hot % ("expires_at = now()", jobs[0]))
    elif odd == "job":
        jobs.append(db.defer("f", queue="q", concurrency_key="one", max_attempts=1))
    got = ids(worker().take(max_attempts=1 if odd == "worker" else 3))
    assert sorted(got) == sorted(jobs[1:] if odd == "expired" else jobs)
    alone = [i for (i,) in db.sql("select ids[1] from deferred.__deferred_lease where alone order by 1")]
    assert alone == {"job": jobs[3:], "suspect": jobs[:1], "expired": []}.get(odd, jobs)
    assert len(db.log(jobs[0])) == (odd == "expired")


def test_a_short_claim_of_keys_waits_for_nobody(db, worker):
    held, free = [db.defer("f", concurrency_key=key) for key in "ab"]
    w, other = worker(), db.connect()
    with other.cursor() as cursor:
        cursor.execute("select from deferred.__deferred_hot where id = %s for update", (held,))
    assert ids(w.take()) == [free]
    assert w.take() == [] and w.seen > 0
    other.commit()
    other.close()
    assert ids(w.take()) == [held]


def test_a_claim_takes_several_jobs_of_a_key_and_no_other_claim_does_meanwhile(db, worker):
    jobs = many(db, 5, concurrency_key="k")
    w, other = worker(), worker("other")
    run = w.take(run=3)
    assert ids(run) == jobs[:3] and len({j.receipt for j in run}) == 1 and len(set(w.keys)) == 1
    assert db.sql("select array(select unnest(running) order by 1) from deferred.__deferred_limit") == [(jobs[:3],)]
    for job in run[:2]:
        assert other.take(run=3) == []
        w.done(job)
    assert other.take(run=3) == []
    w.release(run[2])
    w.commit()
    assert ids(other.take(run=2)) == jobs[2:4]


def test_a_claim_of_several_jobs_of_keys_orders_and_counts_them(db, worker):
    a, b = [], []
    for _ in range(3):
        a.append(db.defer("f", concurrency_key="a"))
        b.append(db.defer("f", concurrency_key="b"))
    high = many(db, 2, concurrency_key="c", priority=1)
    w = worker()
    assert ids(w.limited(run=2)) == [*high, a[0], b[0], a[1], b[1]]
    assert w.keys[:2] == [w.keys[0]] * 2 and w.keys[2:4] == w.keys[4:] and len(set(w.keys)) == 3
    w.rollback()
    assert ids(w.limited(run=3, n=6, known=["f"])) and len(w.keys) == 6
    w.rollback()
    assert len(w.limited(run=9, n=1)) == 1
    w.rollback()
    limit_another_function(db)
    assert ids(w.limited(run=2)) == [high[0], a[0], b[0]] and w.keys == [None] * 3
    w.rollback()
    db.sql("delete from deferred.__deferred_function")
    setq(db, "default", key_rate=1, key_burst=9)
    assert ids(w.limited(run=2)) == [high[0], a[0], b[0]] and w.keys == [None] * 3


UNLIKE = {  # what is set of a job, as options and in its hot row
    "function": ({"fn": "g"}, None),
    "concurrency": ({"concurrency": 2}, None),
    "priority": ({"priority": 1}, None),
    "one attempt": ({"max_attempts": 1}, None),
    "retry": ({}, "attempt = 1, due_at = now() + interval '1 hour'"),
    "expired": ({}, "expires_at = now()"),
    "suspect": ({}, "suspect = true"),
    "waited for": ({}, "watched = true"),
    "has waited": ({}, "watched = false"),
    "claimed": ({}, "receipt = 7"),
}


@pytest.mark.parametrize("odd", UNLIKE)
def test_a_run_ends_before_a_job_that_is_not_like_those_before_it(db, worker, odd):
    opts, hot = UNLIKE[odd]
    first = many(db, 2, concurrency_key="k")
    unlike = many(db, 1, **{"fn": "f", "concurrency_key": "k", **opts})
    many(db, 2, concurrency_key="k")
    if hot:
        db.sql(f"update deferred.__deferred_hot set {hot} where id = %s", unlike[0])
    w = worker()
    assert ids(w.take(run=9, known=["f"])) == first and w.seen == 2
    db.sql("update deferred.__deferred_hot set receipt = null, attempt = 0, due_at = null where id = %s", unlike[0])


@pytest.mark.parametrize("watched", [False, True])
def test_a_job_that_asks_for_its_parents_is_claimed_alone_of_its_key(db, worker, watched):
    jobs = many(db, 3, concurrency_key="k")
    db.sql("update deferred.__deferred_hot set watched = %s where id = %s", watched, jobs[0])
    w = worker()
    for i in (0, 1):
        run = w.take(run=9)
        assert ids(run) == (jobs[:1] if i == 0 else jobs[1:])
        w.done(*run)


def test_a_run_ends_before_a_job_that_somebody_has_locked(db, worker):
    jobs = many(db, 4, concurrency_key="k")
    other = db.connect()
    with other.cursor() as cursor:
        cursor.execute("select from deferred.__deferred_hot where id = %s for update", (jobs[2],))
    assert ids(worker().take(run=9)) == jobs[:2]
    other.close()


def test_no_job_is_taken_instead_of_one_that_changes_during_the_claim(db, worker):
    """The trigger changes the first job of the key between the reading and the choice, as an update would."""
    jobs = many(db, 3, concurrency_key="k")
    db.sql(
        f"""
        create function public.change_first() returns trigger language plpgsql security definer as $$
        begin
            update deferred.__deferred_hot set visible_at = now() where id = {jobs[0]};
            return new;
        end $$;
        create trigger change_first after insert on deferred.__deferred_limit for each row
        execute function public.change_first()"""
    )
    w = worker()
    assert w.take(run=9) == []
    assert ids(w.take(run=9)) == jobs


def test_the_params_of_all_jobs_of_a_run_count(db, worker):
    jobs = many(db, 3, concurrency_key="k", params={"a": "x" * 5000})
    w = worker()
    assert ids(w.limited(run=3, size=14000)) == jobs[:1]
    w.rollback()
    assert ids(w.limited(run=3, size=16000)) == jobs


@pytest.mark.parametrize("n", [50, 500])
def test_a_claim_of_keys_reads_the_limits_of_these_keys_only(db, worker, n):
    """Though the statistics are of a time when there were none."""
    db.sql("alter table deferred.__deferred_limit set (autovacuum_enabled = off)")
    db.sql("vacuum analyze deferred.__deferred_limit")
    db.sql(
        "select count(*) from deferred.defer_many((select json_agg(json_build_object('fn', 'f', 'concurrency_key', "
        "'key ' || i % 2000)) from generate_series(1, 6000) i))"
    )
    w = worker()
    for seed in range(8):
        jobs = w.take(500, seed=seed)
        w.done(*jobs)
    assert w.limited(queues=["other"]) == [], "the transaction begins, and with it the settings of a worker"
    before = limits_read(w)
    taken = w.limited(n, seed=9)
    read = limits_read(w) - before
    assert len(taken) == n and read < 4 * n + 50, read


def test_two_sessions_at_one_key_never_have_both_a_job(db, worker):
    jobs = many(db, 200, concurrency_key="k")
    workers = [worker(str(i)) for i in range(3)]
    rng = random.Random(1)
    held = {w: [] for w in workers}
    done = []
    for _ in range(6000):  # what is asked for beside an open claim finds nothing: how many it takes is a matter of luck
        if len(done) >= 120:
            break
        w = rng.choice(workers)
        what = rng.random()
        if held[w] and what < 0.4:
            w.commit()  # what is made ready again in the transaction of its own claim may be held by it
            if rng.random() < 0.3:
                w.retry(*held[w])
            else:
                w.finish(*held[w])
                done += ids(held[w])
            w.commit()
            held[w] = []
        elif not held[w]:
            held[w] = w.limited(rng.randint(1, 5))
            if rng.random() < 0.2:
                w.rollback()
                held[w] = []
            elif rng.random() < 0.7:
                w.commit()
        assert sum(len(h) for h in held.values()) <= 1
    for w in workers:
        w.commit()
    assert done == jobs[: len(done)] and len(done) >= 120  # in order, whatever failed in between


def test_what_is_kept_of_keys_goes_when_they_are_not_used(db, worker):
    w = worker()
    job = db.defer("f", concurrency_key="gone")
    kept = many(db, 2, concurrency_key="kept")
    w.done(*w.take())
    keys = "select count(*) from deferred.__deferred_limit where kind = 'key'"
    assert db.one(keys) == 2
    db.sql("select deferred.maintain()")
    assert db.one(keys) == 2  # used a moment ago
    db.sql("update deferred.__deferred_limit set used_at = now() - interval '2 min'")
    db.sql("select deferred.maintain()")
    assert db.one(keys) == 1
    assert ids(w.take()) == kept[1:] and job < kept[0]


def test_a_key_rate_is_a_bucket_for_each_key(db, worker):
    setq(db, key_rate=0.5, key_burst=2)
    first, second = many(db, 5, queue="q", concurrency_key="a"), many(db, 5, queue="q", concurrency_key="b")
    other = many(db, 3, queue="other", concurrency_key="a")
    w = worker()
    for i in range(2):
        jobs = w.take()
        assert sorted(ids(jobs)) == [first[i], second[i], other[i]]
        w.done(*jobs)
    jobs = w.take()
    assert ids(jobs) == other[2:]
    w.done(*jobs)
    assert w.take() == [] and 0 < w.wait_ms <= 2000
    back = (
        "update deferred.__deferred_limit set tokens_at = tokens_at - interval '2 s' where kind = 'key' and name = %s"
    )
    db.sql(back, str(db.one("select hashtextextended(concurrency_key, 0) from deferred.__deferred_hot limit 1")))
    jobs = w.take()
    assert ids(jobs) in (first[2:3], second[2:3])  # the key of the row that was found first
    w.done(*jobs)
    assert w.take() == []
    setq(db, key_rate=None, key_burst=None)
    assert len(w.take()) == 2
    assert w.take() == [] and w.wait_ms is None


def test_a_key_that_allows_more_at_once_keeps_to_its_rate(db, worker):
    setq(db, key_rate=0.001, key_burst=3)
    jobs = many(db, 9, queue="q", concurrency_key="k", concurrency=5)
    w = worker()
    assert ids(w.take()) == jobs[:3]
    assert w.take() == [] and w.wait_ms > 900000


def test_of_a_key_rate_only_as_many_are_taken_as_can_start(db, worker):
    setq(db, key_rate=100)
    for i in range(20):
        db.defer("f", queue="q", concurrency_key=str(i))
    assert len(worker().take(100, rated=4)) == 4


def test_many_keys_at_their_rate_hide_no_other_key(db, worker):
    setq(db, key_rate=0.001)
    for n in (400, 401):  # the second job of each key waits for its rate
        db.sql(
            "select count(*) from deferred.defer_many((select json_agg(json_build_object('fn', 'f', 'queue', 'q', "
            "'concurrency_key', 'key ' || i)) from generate_series(1, %s) i))",
            n,
        )
        w = worker(str(n))
        got = []
        for seed in range(40):
            jobs = w.take(100, seed=seed)
            w.done(*jobs)
            got += ids(jobs)
        assert len(got) == (400 if n == 400 else 1)


def test_what_is_kept_of_a_key_stays_until_its_tokens_are_all_there(db, worker):
    setq(db, key_rate=0.001, key_burst=2)
    w = worker()
    db.defer("f", queue="q", concurrency_key="k")
    w.done(*w.take())
    keys = "select count(*) from deferred.__deferred_limit where kind = 'key'"
    for back, left in (("5 min", 1), ("20 min", 0)):
        db.sql(
            "update deferred.__deferred_limit set used_at = now() - interval '2 min', tokens_at = now() - %s::interval",
            back,
        )
        db.sql("select deferred.maintain()")
        assert db.one(keys) == left


# ---- limits that come and go


def test_a_limit_set_later_holds_from_the_next_claim_on(db, worker):
    jobs = many(db, 30, queue="q")
    w = worker()
    running = w.claim(5)
    w.commit()
    setq(db, max_running=2, add=False)
    assert w.claim(10) == []  # it meets those that do not run, and marks them
    w.commit()
    assert db.one("select count(*) from deferred.__deferred_hot where limited") == 25
    assert mark(db, 7) == 5
    assert w.take() == []  # those that run are counted
    w.done(*running[:3])
    assert w.take() == []
    w.done(running[3])
    more = w.take()
    assert len(more) == 1
    setq(db, max_running=None, add=False)
    assert len(w.take(3)) == 3  # marked still, but free
    assert mark(db) == len(jobs) - 4 - 1 - 1 - 3  # those that are claimed stay out of the lane
    assert len(w.claim()) == len(jobs) - 4 - 1 - 1 - 3
    w.commit()


def test_a_function_limited_later_fills_no_window(db, worker):
    many(db, 50, "slow")
    w = worker()
    setf(db, "slow", rate=0.001)
    assert w.claim(50) == []
    w.commit()
    assert len(w.take()) == 1 and w.take() == []
    setf(db, "slow", rate=None)
    assert db.sql("select * from deferred.__deferred_function") == []
    assert mark(db) == 49  # the one that is claimed stays out of the lane
    assert len(w.claim()) == 49
    w.commit()


def test_a_job_stored_while_a_limit_was_being_set_is_under_it(db, worker):
    late = db.connect()
    setq(db)
    with late.cursor() as cursor:
        cursor.execute("select deferred.defer('f', '{}', '{\"queue\": \"q\"}')")
        setq(db, max_running=1)
        assert mark(db) == 0
    late.commit()
    late.close()
    many(db, 1, queue="q")
    w = worker()
    assert w.claim() == []
    w.commit()
    assert len(w.take()) == 1 and w.take() == []


def test_a_paused_queue_hands_out_nothing(db, worker):
    setq(db, max_running=5)
    setq(db, "plain")
    job, key, plain = (
        db.defer("f", queue="q"),
        db.defer("f", queue="plain", concurrency_key="k"),
        db.defer("f", queue="plain"),
    )
    setq(db, paused=True)
    setq(db, "plain", paused=True)
    w = worker()
    assert w.claim() == [] and w.limited() == []
    w.commit()
    setq(db, paused=None)
    assert ids(w.take()) == [job]
    setq(db, "plain", paused=False)
    assert ids(w.claim()) == [plain] and ids(w.take()) == [key]


# ---- other settings


def test_defaults_of_a_queue_stand_between_the_job_and_the_worker(db, worker):
    setq(db, max_attempts=4, backoff_floor_ms=10, backoff_ceiling_ms=20, backoff_exponent=3)
    setq(db, "l", max_attempts=5, max_running=9)
    own = {"max_attempts": 1, "backoff_floor": "1s", "backoff_ceiling": "2s", "backoff_exponent": 2}
    jobs = [db.defer("f", queue="q"), db.defer("f", queue="q", **own), db.defer("f"), db.defer("f", queue="l")]
    w = worker()
    got = {j.id: (j.max_attempts, j.floor_ms, j.ceiling_ms, j.exponent) for j in w.claim() + w.limited()}
    assert [got[j] for j in jobs] == [(4, 10, 20, 3), (1, 1000, 2000, 2), (None,) * 4, (5, None, None, None)]
    w.rollback()
    # And so where an attempt is lost: this would be the fourth of each.
    db.sql("update deferred.__deferred_hot set attempt = 3, suspect = true")
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final) select h.id, i, 'failed', false "
        "from deferred.__deferred_hot h, generate_series(1, 3) i"
    )
    claimed = w.claim(max_attempts=99)
    w.commit()
    lapse(db, *claimed, *w.take(max_attempts=99))
    assert w.lost(max_attempts=99) == 4
    assert db.sql("select id from deferred.__deferred_hot order by id") == [(jobs[2],), (jobs[3],)]


def test_ttl_is_the_expiry_of_jobs_that_have_none(db):
    setq(db, ttl_ms=5000)
    one, own = db.defer("f", queue="q"), db.defer("f", queue="q", expires="1min")
    both = many(db, 1, queue="q") + many(db, 1, queue="q", expires="1min") + many(db, 1)
    seconds = (
        "select extract(epoch from d.expires_at - d.created_at)::int, d.expires_at is not distinct from h.expires_at "
        "from deferred.__deferred d join deferred.__deferred_hot h using (id) where id = %s"
    )
    assert [db.sql(seconds, j)[0] for j in [one, own, *both]] == [
        (5, True),
        (60, True),
        (5, True),
        (60, True),
        (None, True),
    ]


def test_a_full_queue_refuses_or_drops(db):
    setq(db, max_length=3)
    jobs = many(db, 2, queue="q") + [db.defer("f", queue="q", key="k", delay="1h")]
    for sql in (
        "select deferred.defer('f', '{}', '{\"queue\": \"q\"}')",
        "select deferred.defer_many('[{\"fn\": \"f\", \"queue\": \"q\"}]')",
    ):
        with pytest.raises(psycopg2.Error, match=r"queue 'q' is full \(max_length 3\)") as e:
            db.sql(sql)
        assert e.value.pgcode == "53400"
    assert db.defer("f", queue="q", key="k") == jobs[2]  # it is there already
    replaced = db.defer("f", queue="q", key="k", on_duplicate="replace")
    assert replaced > jobs[2]
    setq(db, on_full="drop")
    assert db.defer("f", queue="q") is None
    assert [
        r[0]
        for r in db.sql("select * from deferred.defer_many('[{\"fn\": \"f\", \"queue\": \"q\"}, {\"fn\": \"f\"}]')")
    ][0] is None
    db.sql("select deferred.cancel(%s)", jobs[0])
    assert db.defer("f", queue="q") > 0 and db.defer("f", queue="q") is None
    setq(db, max_length=None)
    assert db.defer("f", queue="q") > 0
    ledger(db)


def test_jobs_from_before_count_too_for_the_length(db):
    many(db, 5, queue="q")
    setq(db, max_length=6, add=False)
    assert mark(db, 2) == 5
    assert db.defer("f", queue="q") > 0
    with pytest.raises(psycopg2.Error, match="is full"):
        db.defer("f", queue="q")


def test_a_message_to_a_bound_queue_is_a_call(db, worker):
    setq(db, "bound", fn="handle")
    setq(db, "plain")
    call, message = db.defer(None, '{"a": 1}', queue="bound"), db.defer(None, '"text"', queue="plain")
    more = [
        r[0]
        for r in db.sql(
            """select deferred.defer_many('[{"queue": "bound"}, {"queue": "plain"},
            {"queue": "bound", "fn": "own"}]')"""
        )
    ]
    fns = dict(db.sql("select id, fn from deferred.__deferred"))
    assert [fns[i] for i in [call, message, *more]] == ["handle", None, "handle", None, "own"]
    assert [j.fn for j in sorted(worker().claim(), key=lambda j: j.id)] == ["handle", "handle", "own"]
    with pytest.raises(psycopg2.Error, match="the function is missing"):
        db.defer(None)  # for no queue in particular: that is a mistake


def test_a_bound_function_needs_the_right_to_it(db):
    setq(db, "bound", fn="handle")
    db.sql("drop role if exists messenger")
    db.sql("create role messenger; grant deferred_producer to messenger")
    db.sql("insert into deferred.__deferred_grant values ('messenger', null, 'other')")
    with pytest.raises(psycopg2.Error, match="may not defer 'handle' to queue 'bound'"):
        db.sql("set role messenger; select deferred.defer(null, '{}', '{\"queue\": \"bound\"}')")
    db.sql("reset role")
    # Nor is a message that calls nothing the call the role is granted.
    setq(db, "plain")
    for queue in "plain", "new":
        with pytest.raises(psycopg2.Error, match=f"may not defer messages to queue '{queue}'"):
            db.sql(f"set role messenger; select deferred.defer(null, '{{}}', '{{\"queue\": \"{queue}\"}}')")
        db.sql("reset role")
    db.sql("set role messenger; select deferred.defer('other', '{}', '{\"queue\": \"plain\"}'); reset role")


def test_weight_shares_claims_among_queues(db, worker):
    for name, weight in (("a", 1), ("b", 3)):
        setq(db, name, weight=weight)
    a, b = set(many(db, 400, queue="a")), set(many(db, 400, queue="b"))
    many(db, 1, queue="c", priority=-1)
    w = worker()
    ones = [w.claim(1, seed=s)[0].id for s in range(300) if w.rollback() is None]
    assert 0.65 < sum(j in b for j in ones) / 300 < 0.85
    w.rollback()
    batch = ids(w.claim(100))
    assert 70 <= sum(j in b for j in batch) <= 80 and len(set(batch) & a) >= 20
    w.rollback()


def test_weight_shares_claims_under_limits_too(db, worker):
    for name, weight in (("a", 1), ("b", 3)):
        setq(db, name, weight=weight, max_running=1000)
    a, b = set(many(db, 400, queue="a")), set(many(db, 400, queue="b"))
    w = worker()
    ones = [w.limited(1, seed=s)[0].id for s in range(300) if w.rollback() is None]
    assert 0.65 < sum(j in b for j in ones) / 300 < 0.85
    w.rollback()
    batch = ids(w.limited(100))
    assert 70 <= sum(j in b for j in batch) <= 80 and len(set(batch) & a) >= 20
    w.rollback()


# ---- clear and remove


def test_clear_cancels_in_batches_and_leaves_others_alone(db, worker):
    jobs = many(db, 10, queue="q") + [
        db.defer("f", queue="q", delay="1h"),
        db.defer("f", queue="q", concurrency_key="k"),
    ]
    other = db.defer("f")
    w = worker()
    (running,) = w.claim(1, queues=["q"])
    w.commit()
    at, n = 0, 0
    while at is not None:
        ((gone, at),) = db.sql("select * from deferred.__queue_clear('q', %s, 1000000, 4)", at)
        assert gone <= 4
        n += gone
    assert n == len(jobs) and db.sql("select id from deferred.__deferred_hot") == [(other,)]
    assert db.log(running.id) == [(1, "cancelled")] and db.log(jobs[-1]) == [(0, "cancelled")]
    assert w.finish(running) == set()
    w.commit()


def test_a_removed_queue_forgets_its_settings_and_comes_back_with_a_job(db, worker):
    setq(db, paused=True, max_running=1, weight=5)
    late = db.connect()
    with late.cursor() as cursor:
        cursor.execute("select deferred.defer('f', '{}', '{\"queue\": \"q\"}')")
        db.sql("select deferred.__queue_rm('q')")
    late.commit()
    late.close()
    w = worker()
    assert len(w.take()) == 1  # not lost
    for call in (
        "select deferred.__queue_rm('q')",
        "select deferred.__queue_rm('nosuch')",
        "select deferred.__queue_set('q', '{}')",
    ):
        with pytest.raises(psycopg2.Error, match="does not exist"):
            db.sql(call)
    db.defer("f", queue="q")
    assert db.sql("select paused, max_running, weight, removed_at from deferred.__deferred_queue where name = 'q'") == [
        (False, None, 1, None)
    ]
    with pytest.raises(psycopg2.Error, match="'default' cannot be removed"):
        db.sql("select deferred.__queue_rm('default')")


# ---- nonsense


@pytest.mark.parametrize(
    "settings,says",
    [
        ('{"max_running": 0}', "setting 'max_running' is out of range: 0"),
        ('{"max_running": -1}', "out of range"),
        ('{"rate": "NaN"}', "NaN"),
        ('{"rate": "Infinity"}', "Infinity"),
        ('{"rate": 0}', "setting 'rate' is out of range: 0"),
        ('{"rate": -1}', "-1"),
        ('{"weight": 0}', "out of range"),
        ('{"weight": "NaN"}', "NaN"),
        ('{"burst": 2}', "a burst of 2 but no rate"),
        ('{"rate": 1, "burst": 0}', "out of range"),
        ('{"on_full": "explode"}', "explode"),
        ('{"fn": "no such"}', "no such"),
        ('{"visibility_timeout_ms": 10}', "10"),
        ('{"ttl_ms": -5}', "-5"),
        ('{"max_length": 0}', "out of range"),
        ('{"max_running": "many"}', "many"),
        ('{"backoff_floor_ms": 10, "backoff_ceiling_ms": 5}', "is below backoff_floor"),
        ('{"colour": 1}', "setting 'colour' of queue"),
        ('[]', "JSON array"),
        ('{"backoff_exponent": "NaN"}', "NaN"),
        ('{"max_attempts": 1.5}', "1.5"),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(db, settings, says):
    setq(db)
    before = db.sql("select to_jsonb(q) from deferred.__deferred_queue q where name = 'q'")
    with pytest.raises(psycopg2.Error) as e:
        db.sql("select deferred.__queue_set('q', %s::json)", settings)
    assert says in str(e.value)
    assert db.sql("select to_jsonb(q) from deferred.__deferred_queue q where name = 'q'") == before


@pytest.mark.parametrize(
    "opts,says",
    [
        ({"concurrency": 2}, "option 'concurrency' is 2, but 'concurrency_key' is missing"),
        ({"concurrency_key": ""}, "option 'concurrency_key' is out of range: 0 characters"),
        ({"concurrency_key": "k", "concurrency": 0}, "option 'concurrency' is out of range: 0"),
        ({"concurrency_key": "k", "concurrency": 10001}, "option 'concurrency' is out of range: 10001"),
        ({"concurrency_key": "k", "concurrency": "two"}, "'two'"),
        ({"concurrency_key": "k", "concurrency": -1}, "option 'concurrency' is out of range: -1"),
        ({"concurrency_key": "k" * 1001}, "option 'concurrency_key' is out of range: 1001 characters"),
    ],
)
def test_nonsense_in_the_options_of_a_job_is_refused(db, opts, says):
    with pytest.raises(psycopg2.Error) as e:
        db.defer("f", **opts)
    assert says in str(e.value)
    with pytest.raises(psycopg2.Error):
        many(db, 2, **opts)
    assert db.hot() == 0


# ---- what it costs the server


def reads(db):
    """(sequential scans, rows fetched by index) of the hot table so far."""
    db.sql("select pg_stat_force_next_flush()")
    return db.sql(
        "select seq_scan, coalesce(idx_tup_fetch, 0) from pg_stat_user_tables "
        "where relid = 'deferred.__deferred_hot'::regclass"
    )[0]


@pytest.mark.parametrize("analysed", [False, True])
def test_a_claim_under_limits_goes_by_index_and_reads_what_it_takes(db, worker, analysed):
    db.sql("alter table deferred.__deferred_hot set (autovacuum_enabled = off)")
    if analysed:
        db.sql("vacuum analyze deferred.__deferred_hot")  # while it is empty
    for name, settings in (("m", {"max_running": 50}), ("r", {"rate": 10, "burst": 50})):
        setq(db, name, **settings)
    for options in (
        "'queue', 'm'",
        "'queue', 'r'",
        "'queue', 'k', 'concurrency_key', 'key ' || i % 500",
        "'queue', 'default'",
    ):
        db.sql(
            f"select count(*) from deferred.defer_many((select json_agg(json_build_object('fn', 'f', {options})) "
            f"from generate_series(1, 5000) i))"
        )
    w = worker()
    for one in ("m", "r", "k"):
        w.limited(1, queues=[one])  # the first plans
        w.rollback()
    for queue, most in (("m", 400), ("r", 400), ("k", 1500), ("default", 10)):
        w.connection.cursor().execute("select pg_stat_force_next_flush()")
        w.commit()
        scans, rows = reads(db)
        taken = w.limited(50, queues=[queue])
        assert len(taken) == (0 if queue == "default" else 50)
        w.rollback()
        w.connection.cursor().execute("select pg_stat_force_next_flush()")
        w.commit()
        now_scans, now_rows = reads(db)
        assert now_scans == scans and now_rows - rows < most, (queue, now_rows - rows)


def test_a_claim_of_unlimited_jobs_locks_and_reads_nothing_of_limited_ones(db, worker):
    setq(db, max_running=10)
    many(db, 2000, queue="q", concurrency_key="k")
    many(db, 2000, queue="q")
    many(db, 5)
    w, other = worker("w"), worker("other")
    other.limited(5)  # holds the rows of the limits
    w.claim(1)
    w.rollback()
    _, rows = reads(db)
    assert len(w.claim(5)) == 5
    w.commit()
    w.connection.cursor().execute("select pg_stat_force_next_flush()")
    w.commit()
    assert reads(db)[1] - rows < 100
    db.defer("f")  # nor does a deferral wait for anything
    db.defer("f", queue="q")
    other.rollback()


@pytest.mark.parametrize("compressible", [False, True])
def test_a_claim_takes_limited_jobs_up_to_the_bytes_of_their_params(db, worker, compressible):
    setq(db, "large", max_running=100)
    text = (
        "repeat('a', 200000)"
        if compressible
        else "(select string_agg(md5(random()::text || x || i), '') from generate_series(1, 6250) x)"
    )
    jobs = [
        r[0]
        for r in db.sql(f"select deferred.defer('f', to_json({text}), queue => 'large') from generate_series(1, 8) i")
    ]
    w, got = worker(), []
    while taken := w.take(size=700000):
        assert sum(len(json.dumps(j.params)) for j in taken) <= 700000
        got.append(ids(taken))
    assert sorted(sum(got, [])) == jobs and (compressible or [len(g) for g in got] == [3, 3, 2])
    # What was left is not counted as running.
    assert db.one("select cardinality(running) from deferred.__deferred_limit where queue = 'large'") == 8


def test_nobody_without_rights_keeps_limited_jobs_from_being_claimed(db):
    """By an advisory lock, that is, made of what a limit is about: anybody may take it."""
    stranger = db.connect()
    with stranger.cursor() as cursor:
        for what in ("queue default ", "function noop", "function  noop", "key default "):
            cursor.execute(
                "select pg_advisory_lock(hashtextextended('deferred.limit ' || %s || name, 0)) from ("
                "values (''), (hashtextextended(deferred.__own_key(session_user, 'k'), 0)::text)) v(name)",
                (what,),
            )
    job = db.defer("noop", concurrency_key="k")
    assert db.run(["check_deferred", "--cnt", "1"], timeout=60).returncode == 0
    assert db.log(job) == [(1, "ok")]
    stranger.close()


def test_a_worker_that_lost_its_session_keeps_its_jobs_until_its_leases_end_unless_it_is_proven_dead(db, worker):
    setf(db, "g", max_running=1)
    setq(db, "slow", rate=1)
    mark(db)
    cut, dead, other = worker(), worker(), worker()
    db.sql("update deferred.__deferred_worker set watch = id where id = any (%s)", [cut.id, dead.id])

    def held_by(w, *jobs):
        plain, *limited = jobs
        held = w.limited()
        w.commit()
        assert sorted(ids(held)) == limited
        assert ids(Worker.take(w)) == [plain]
        return held

    def buried():
        rows = other.ask("worker_bury", [dead.id, cut.id], 1, 3)
        other.commit()
        return [(r[0], r[2]) for r in rows]

    ended = "select ended_at is not null from deferred.__deferred_worker where id = %s"
    first = [db.defer("f"), db.defer("f", concurrency_key="k"), db.defer("g"), db.defer("f", queue="slow")]
    held = held_by(cut, *first)
    second = [db.defer("f"), db.defer("f", concurrency_key="l")]
    held_by(dead, *second)
    assert buried() == [(dead.id, job) for job in second], "at once, with a limit or without"
    assert db.one(ended, dead.id) and not db.one(ended, cut.id)
    db.defer("f", concurrency_key="k")
    assert buried() == [] and db.one("select count(*) from deferred.__held where worker = %s", cut.id) == 4
    assert cut.finish(*[j for j in held if j.id == first[1]]) == {first[1]}, "it is back in time"
    cut.commit()
    db.sql("update deferred.__deferred_lease set expires_at = now() - interval '1 s'")
    assert buried() == [(cut.id, None)] and db.one(ended, cut.id), "it holds nothing any more that is not over"
    assert other.lost() == 3
    # The next start with that pidfile knows that its predecessor has ended, and waits for nothing.
    cut = worker("host:/other")
    taken = ids(cut.limited(known=["g"]))
    cut.commit()
    assert (
        [r[0] for r in other.ask("worker_recover", "host:/other", other.id, "lost", 3, None, [])] == taken == [first[2]]
    )
    other.commit()


def test_a_worker_that_comes_back_while_it_is_taken_for_gone_is_not_ended(db, worker):
    cut, other = worker(), worker()
    db.sql("update deferred.__deferred_worker set watch = id where id = %s", cut.id)
    back = db.connect()
    back.autocommit = False
    with back.cursor() as cursor:
        cursor.execute("update deferred.__deferred_worker set watch = 77 where id = %s", (cut.id,))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        other.ask("worker_look", other.id)
        other.connection.cursor().execute("set local lock_timeout = '20s'")
        burying = pool.submit(other.ask, "worker_bury", [cut.id], 0, 3)
        wait_for(lambda: db.one(WAITING) > 0)
        back.commit()
        assert burying.result() == []
    other.commit()
    back.close()
    assert db.one("select ended_at from deferred.__deferred_worker where id = %s", cut.id) is None


def test_what_workers_say_of_their_functions_is_not_waited_for(db, worker):
    """Not for the disk, nor for a standby: a worker's loop would stand still."""
    w = worker()
    for catalog in (5, 6):
        w.ask("worker_offer", "host", "place", catalog, ["f"], ["p 1"], [0], [0])
        assert w.ask_plain("show synchronous_commit") == [("off",)]
        w.commit()
    assert db.sql("select catalog, fn from deferred.__deferred_offer") == [(6, ["f"])]


def test_a_job_under_limits_whose_call_is_gone_is_handed_out_too(db, worker):
    db.sql("select deferred.__queue_set('q', '{\"max_running\": 9}', true)")
    jobs = many(db, 3, queue="q")
    db.sql(
        "create table kept as select * from deferred.__deferred; delete from deferred.__deferred where id <> %s",
        jobs[1],
    )
    claimed = worker().limited()
    assert ids(claimed) == jobs and {j.fn for j in claimed} == {"f"}
    assert [j.created_at is None for j in claimed] == [True, False, True]
    db.sql("insert into deferred.__deferred select * from kept where id <> %s", jobs[1])


def test_the_trial_of_a_paused_function_is_of_a_random_role_whatever_the_priority(db, worker):
    for queue in ("q", "r"):
        many(db, 30, fn="shared", queue=queue, priority=32767)
    other = db.defer("shared", queue="q", priority=-5)
    db.sql("update deferred.__deferred set created_by = case when id = %s then 'prod2' else 'prod1' end", other)
    db.sql(
        "insert into deferred.__deferred_function (name, max_running, rate, broken_at) "
        "values ('shared', 1, 0.001, now())"
    )
    db.sql("select deferred.__mark(0, 1000)")
    w, tried = worker(), []
    for seed in range(40):
        rows = w.ask("job_claim_limited", None, 5, 5, w.id, MINUTE, 3, None, seed, 1 << 24, 5, None, 1)
        tried.append([r[0] for r in rows if r[0] is not None])
        w.connection.rollback()
    assert {len(jobs) for jobs in tried} == {1} and 5 <= tried.count([other]) <= 35
