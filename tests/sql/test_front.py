"""Where many hold jobs, a claim begins behind them: deferred.__front() finds the place, and nothing before it is lost.

What a claim from the front does to the cursor is tested by the model in test_cursor.py, where some claims are made so.
"""

import concurrent.futures
import random

import pytest

from harness import ledger, wait_for
from test_cursor import caller, ids, index_reads, lapse, many, same  # noqa: F401

MAX_XID = 2**64 - 1


def fill(db, *sizes):
    """One transaction each; ids of their jobs, in order."""
    return [job for n in sizes for job in many(db, n)]


def claim(db, jobs):
    """As if somebody held them."""
    db.sql("""update deferred.__deferred_hot set receipt = 1, worker = 1, attempt = 1, visible_at = now() + interval '1 h'
              where id = any (%s)""", jobs)


def let_go(db):
    db.sql("update deferred.__deferred_hot set receipt = null, worker = null, attempt = 0, visible_at = now() where receipt is not null")


def rows(db):
    """Positions of the lane in their order, and who is claimed."""
    return db.sql("""select xid::text::bigint, id, visible_at > now() from deferred.__deferred_hot
                     where queue = 'default' and priority = 0 order by xid, id""")


def front(db, at=None, until=MAX_XID, half=-1):
    xid, job = at or (0, -2**63)
    return db.sql("select xid::text::bigint, id from deferred.__front('default', 0, %s::text::xid8, %s, %s::text::xid8, %s)",
                  str(xid), job, str(until), half)[0]


SIZES = [(1,), (40,), (1, 1, 1), (20, 1, 1, 20, 1), (1, 30, 1)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_front_is_the_last_of_the_claimed(db, sizes):
    many(db, 3, priority=1)
    many(db, 3, queue="other")
    jobs = fill(db, *sizes)
    many(db, 3, priority=-1)
    start = (0, -2**63)
    assert front(db) == start, "nothing is claimed"
    for n in range(1, len(jobs) + 1):
        claim(db, jobs[n - 1:n])
        assert front(db) == rows(db)[n - 1][:2], n
    let_go(db)
    ledger(db)


def test_the_front_with_gaps_and_bounds(db):
    jobs = fill(db, 30, 1, 30)
    positions = [r[:2] for r in rows(db)]
    claim(db, jobs[:45])
    db.sql("delete from deferred.__deferred_hot where id = any (%s)", jobs[5:25] + jobs[35:40])
    assert front(db) == positions[44]
    assert front(db, at=positions[50]) == positions[50], "begins behind the claimed"
    assert front(db, at=positions[5]) == positions[44], "begins at one that is gone"
    assert front(db, until=positions[30][0]) == positions[29], "ends before the second transaction"
    db.sql("delete from deferred.__deferred_hot")
    assert front(db) == (0, -2**63), "no job at all"


def test_the_front_of_anything_is_where_it_began_or_a_claimed_job(db):
    seed = random.SystemRandom().randrange(10**6)
    rng = random.Random(seed)
    jobs = fill(db, *[rng.choice((1, 2, 50)) for _ in range(30)])
    for _ in range(30):
        let_go(db)
        claim(db, rng.sample(jobs, rng.randrange(len(jobs))))
        lane = rows(db)
        at = rng.choice(lane)[:2]
        found = front(db, at=at)
        claimed = [r[:2] for r in lane if r[2] and r[:2] >= at]
        assert found == at or found in claimed, f"seed {seed}"
        assert (found == at) or dict((r[:2], r[2]) for r in lane)[at], f"seed {seed}: the first was ready"
    let_go(db)
    ledger(db)


def test_each_half_has_a_front_of_its_own(db):
    jobs = fill(db, 40, 1, 1, 40)
    half = dict(db.sql("select id, hashint8(id) & 1 from deferred.__deferred_hot"))
    first, second = ([r[:2] for r in rows(db) if half[r[1]] == h] for h in (0, 1))
    assert abs(len(first) - len(second)) < 40
    claim(db, [j for _, j in first[:12]])
    claim(db, [j for _, j in second[:5]])
    assert front(db, half=0) == first[11] and front(db, half=1) == second[4]
    claim(db, [j for _, j in first])
    assert front(db, half=0) == first[-1] and front(db, half=1) == second[4]
    let_go(db)
    assert front(db, half=0) == front(db, half=1) == (0, -2**63)
    assert len(jobs) == db.hot()


def test_two_who_claim_in_turn_do_not_meet(db, caller):  # noqa: F811
    jobs = fill(db, 400)
    half = dict(db.sql("select id, hashint8(id) & 1 from deferred.__deferred_hot"))
    one, two, whole = caller("-w", "50"), caller("-w", "50"), caller()
    jobs = sorted(set(jobs) - set(one.claim(1) + two.claim(1)))  # they learn of the lane
    got = [ids(c.cycle(f"{way} 50")) for c in (one, two) for way in ("first", "second")]
    assert [len(g) for g in got] == [50] * 4 and len(set(sum(got, []))) == 200
    for g, h in zip(got, (0, 1, 0, 1)):
        assert {half[i] for i in g} == {h}
    for h, taken in ((0, got[0] + got[2]), (1, got[1] + got[3])):
        assert sorted(taken) == [i for i in jobs if half[i] == h][:100], "the first of the half, nothing left between them"
    assert same(db, whole) == set(jobs) - set(sum(got, []))


def test_who_waits_for_its_turn_holds_no_snapshot_and_goes_without_after_a_while(db, caller):  # noqa: F811
    """What dies while others wait can be removed; and a turn that does not come is an error that the worker bears."""
    fill(db, 10)
    one = caller("-l", "4000")
    one.cycle("first 1")  # the first time its session reads the catalog, with a snapshot
    held = db.connect()
    with held.cursor() as c:
        c.execute("lock table deferred.__deferred_turn_0 in exclusive mode")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answer = pool.submit(one.say, "first 5")
        waiting = wait_for(lambda: db.sql("select backend_xmin, backend_xid from pg_stat_activity"
                                          " where datname = current_database() and wait_event_type = 'Lock' and query like '%turn_0%'"))
    assert waiting == [(None, None)]
    assert "lock timeout" in answer.result()["error"]
    assert len(ids(one.cycle("second 5"))) > 0, "its connection has left the transaction that failed"
    held.rollback()
    assert len(ids(one.cycle("first 5"))) > 0


def test_a_claim_from_the_front_reads_little(db, caller):  # noqa: F811
    db.sql("alter table deferred.__deferred_hot set (autovacuum_enabled = off)")
    jobs = fill(db, 6000, *[1] * 50)
    one, others, whole = caller("-w", "100"), caller("-w", "5000"), caller()
    mine = one.claim(1)  # learns of the lane
    taken = others.claim(5000)
    assert len(taken) == 5000 and len(mine) == 1
    mine += ids(one.cycle("ready 1"))  # its look walks over them, once
    before = index_reads(db, one)
    got = ids(one.cycle("front 50"))
    read = index_reads(db, one) - before
    assert len(got) == 50 and not set(got) & set(taken + mine)
    # The window, what the search met, and the cursor's look. A claim that reads everything meets 5,000 more.
    assert read < 1000, read
    assert same(db, whole) == set(jobs) - set(taken + mine + got)


def test_what_lies_before_the_front_is_claimed_by_one_that_reads_everything(db, caller):  # noqa: F811
    jobs = fill(db, 500)
    one, others = caller(), caller("-w", "400")
    mine = one.claim(1)
    taken = others.claim(400)
    early = jobs[10:20]
    lapse(db, early)
    passed = ids(one.cycle("front 1000000"))
    assert not set(passed) & set(taken)
    assert same(db, one) == set(jobs) - set(taken + mine + passed)
    left = set(ids(one.cycle("claim 1000000"))) | set(ids(one.cycle("claim 1000000")))  # put right by the second
    assert set(early) <= left | set(passed)


def test_six_instances_leave_nothing_behind(db):
    """Some jobs are held, all over the first ones, by a worker that is gone: they lie before the front of the others."""
    db.sql("select count(*) from deferred.defer_many((select json_agg(json_build_object('fn', 'noop')) from generate_series(1, 20000)))")
    gone = [i for i, in db.sql("select id from deferred.__deferred_hot order by id limit 3000")][::3]
    claim(db, gone)
    lapse(db, gone)
    runs = [db.spawn(["check_deferred", "--cnt", "0", "--pidfile", f"{db.dir}/pid{i}"]) for i in range(6)]
    assert [r.wait(120) for r in runs] == [0] * 6, [r.output() for r in runs]
    assert db.hot() == 0
    assert db.sql("select outcome, count(*) from deferred.__deferred_log group by 1 order by 2") == [("lost", 1000), ("ok", 20000)]
    ledger(db)
