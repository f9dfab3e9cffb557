"""Jobs of functions that no worker has, and queues under limits that give nothing: what a claim
costs does not grow with either, and none of them is forgotten."""

import concurrent.futures
import json
import random

import pytest

from harness import wait_for
from test_claim import MINUTE, Claimed, ids, many, worker  # noqa: F401
from test_many_queues import pages


def offer(db, *fns, host="host", refused=()):
    names = [*fns, *refused]
    db.sql(
        "select deferred.__offer(%s, 'place', %s, %s, %s, %s, %s)",
        host,
        random.getrandbits(40),
        names,
        ["p"] * len(names),
        [0] * len(names),
        [0] * len(fns) + [-1] * len(refused),
    )


def limited(w, n=100, known=None, seed=1, queues=None, at=None):
    """Claim and commit; the jobs, and where the round is."""
    rows = w.ask("job_claim_limited", queues, n, n, w.id, MINUTE, 3, known, seed, 1 << 24, 1000, at, 1)
    w.commit()
    return [Claimed(r) for r in rows if r[0]], rows[0][-1] if rows else None


def set_aside(db):
    return [r[0] for r in db.sql("select id from deferred.__deferred_hot where unknown order by id")]


def names(db, n, queue="default"):
    """Jobs of as many functions."""
    return [
        r[0] for r in db.sql("select deferred.defer('no_' || i, queue => %s) from generate_series(1, %s) i", queue, n)
    ]


def put_all_aside(db, w):
    w.round = None
    while True:
        jobs = w.take(known=["f"], at=w.round)
        assert jobs == []
        if not w.more and not w.round:
            return


def test_what_no_worker_has_is_set_aside_until_one_has_it(db, worker):  # noqa: F811
    w = worker()
    offer(db, "f", "elsewhere")
    unknown, elsewhere, mine = db.defer("g"), db.defer("elsewhere"), db.defer("f")
    assert ids(w.take(known=["f"])) == [mine]
    assert set_aside(db) == [unknown]
    assert limited(w, known=["f"]) == ([], None)
    assert ids(limited(w, known=["elsewhere"])[0]) == [elsewhere]
    offer(db, "h", host="other", refused=["g"])
    assert set_aside(db) == [unknown]
    assert db.one("select state from deferred.job where id = %s", unknown) == "ready"
    offer(db, "g", host="other")
    assert set_aside(db) == [] and ids(w.take(known=["g"])) == [unknown]


def test_what_was_set_aside_comes_under_its_limits_again(db, worker):  # noqa: F811
    w = worker()
    offer(db, "f")
    db.sql("insert into deferred.__deferred_function (name, max_running) values ('g', 1)")
    jobs = many(db, 3, "g")
    assert limited(w, known=["f"]) == ([], None) and set_aside(db) == jobs
    offer(db, "f", "g")
    assert w.take(known=["f", "g"]) == []
    assert [j.id for j in limited(w, known=["f", "g"])[0]] == jobs[:1]


def test_before_any_worker_has_spoken_nothing_is_set_aside(db, worker):  # noqa: F811
    w, job = worker(), db.defer("g")
    assert w.take(known=["f"]) == [] and set_aside(db) == []
    assert ids(limited(w, known=["g"])[0]) == [job]


def test_a_job_given_back_for_its_function_is_set_aside(db, worker):  # noqa: F811
    w = worker()
    offer(db, "f")
    plain, keyed = db.defer("g"), db.defer("g", concurrency_key="k")
    jobs = w.take() + limited(w)[0]
    w.ask(
        "job_release",
        [j.id for j in jobs],
        [j.receipt for j in jobs],
        sorted({j.receipt for j in jobs}),
        [1] * len(jobs),
    )
    w.commit()
    assert sorted(ids(jobs)) == [plain, keyed]
    assert set_aside(db) == [plain], "the other one keeps its place among those of its key"


def test_a_worker_that_met_no_unknown_function_tries_one_of_those_set_aside(db, worker):  # noqa: F811
    w = worker()
    offer(db, "f")
    jobs = names(db, 5, "a") + names(db, 5, "b")
    put_all_aside(db, w)
    assert set_aside(db) == jobs
    for queues in (None, ["b"]):
        (tried,) = limited(w, queues=queues)[0]
        assert len(set_aside(db)) == 9 and (queues is None or tried.queue == "b")
        w.ask("job_release", [tried.id], [tried.receipt], [tried.receipt], [1])
        w.commit()
        assert set_aside(db) == jobs
    db.sql("update deferred.__deferred_queue set paused = true where name in ('a', 'b')")
    assert limited(w)[0] == []
    assert limited(w, queues=["c"])[0] == []


def test_an_offer_waits_for_a_claim_that_sets_its_functions_aside(db, worker):  # noqa: F811
    """Else nobody would look at the job again for five minutes."""
    w, c = worker(), db.connect()
    offer(db, "f")
    job = db.defer("g")
    assert w.claim(known=["f"]) == []
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(
            c.cursor().execute, "select deferred.__offer('other', 'place', 1, '{g}', '{p}', '{0}', '{0}')"
        )
        wait_for(
            lambda: waiting.done()
            or db.one(
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            )
            == 1
        )
        w.commit()
        waiting.result()
    c.commit()
    c.close()
    assert set_aside(db) == [] and ids(w.take(known=["g"])) == [job]


def test_maintenance_finds_what_an_offer_could_not_reach(db, worker):  # noqa: F811
    w, c = worker(), db.connect()
    offer(db, "f")
    job = db.defer("g")
    put_all_aside(db, w)
    c.cursor().execute("select from deferred.__deferred_hot for update")
    offer(db, "f", "g")
    assert set_aside(db) == [job]
    c.rollback()
    c.close()
    db.sql("update deferred.__deferred_upkeep set repaired_at = '-infinity'")
    db.sql("select deferred.maintain()")
    assert set_aside(db) == []


def test_a_queue_that_gets_limits_or_loses_them_leaves_alone_what_is_set_aside(db, worker):  # noqa: F811
    w = worker()
    offer(db, "f")
    jobs = many(db, 3, "g")
    put_all_aside(db, w)
    for change in ("max_running = 1", "max_running = null"):
        db.sql("update deferred.__deferred_queue set " + change)
        db.sql("select deferred.__mark(0, 1000)")
        assert set_aside(db) == jobs


@pytest.mark.parametrize("where", ["one queue", "a queue each"])
def test_a_claim_reads_no_more_beside_unknown_functions(db, worker, where):  # noqa: F811
    w = worker()
    offer(db, "f")
    db.defer("f", concurrency_key="k")
    statements = {
        "job_claim": """null, 20, 1000, 1, 60000, 3, '{f}', 3, 16777216, '{default}', '{0}', 0, 20, null""",
        "job_claim_limited": "null, 20, 20, 1, 60000, 3, '{f}', 3, 16777216, 20, 'default', 1",
        "run_probe": "null, 'host:/pid', null",
    }

    def read():
        put_all_aside(db, w)
        db.sql("vacuum (analyze) deferred.__deferred_hot")
        db.sql(
            "delete from deferred.__deferred_cursor where queue <> 'default'"
        )  # as __repair() does, of lanes without jobs
        return {name: pages(db, name, arguments) for name, arguments in statements.items()}

    def add(first, last):
        if where == "one queue":
            db.sql("select deferred.defer('no_' || i) from generate_series(%s, %s) i", first, last)
        else:
            db.sql("select deferred.defer('no_' || i, queue => 'q' || i) from generate_series(%s, %s) i", first, last)

    db.sql("update deferred.__deferred_quota set queues = 100000")
    add(1, 10)
    few = read()
    add(11, 900)
    many_names = {}

    def as_few():
        many_names.update(read())
        assert len(set_aside(db)) == 900
        # The indexes are a level or two deeper.
        return all(many_names[name] <= few[name] + 60 for name in statements)

    # The rows of the lanes that are gone are walked over while some transaction may still see them.
    wait_for(as_few, 20, (few, many_names))


def test_one_claim_sets_so_many_aside_and_says_that_there_are_more(db, worker):  # noqa: F811
    w = worker()
    offer(db, "f")
    many(db, 12000, "g")
    many(db, 1000, "g", queue="other")
    mine = db.defer("f")
    claims, before = 0, 0
    while True:
        claims += 1
        got = w.take(20, window=100, known=["f"])
        assert len(set_aside(db)) - before <= 8000
        before = len(set_aside(db))
        if not w.more:
            break
    assert 2 <= claims <= 6 and before == 13000
    assert ids(got) == [mine] or db.one("select count(*) from deferred.__held") == 1


def spread(db, n, fn="f"):
    """A job in each of as many queues, and of every tenth in a second lane; the ids."""
    db.sql("update deferred.__deferred_quota set queues = 100000")
    return [
        r[0]
        for r in db.sql(
            """select deferred.defer(%s, '{}', json_build_object('queue', 'q' || i, 'priority', p))
                                    from generate_series(1, %s) i, generate_series(0, 9, 9) p where p = 0
                                    or i %% 10 = 0""",
            fn,
            n,
        )
    ]


@pytest.mark.parametrize("queues", [None, ["a"] + [f"q{i}" for i in range(1, 451)]], ids=["all queues", "some queues"])
def test_a_round_comes_to_every_lane_once(db, worker, queues):  # noqa: F811
    """It begins anywhere."""
    w, jobs, begun = worker(), spread(db, 450), set()
    for seed in range(3):
        w.claim(n=1000, seed=seed, queues=queues)
        w.rollback()
        begun.add(w.round)
    assert len(begun) == 3
    at, got, claims = None, [], 0
    while claims == 0 or at:
        got += ids(w.take(n=1000, seed=claims, queues=queues, at=at))
        claims += 1
        at = w.round
    assert sorted(got) == sorted(jobs) and claims == 5


def test_a_round_that_begins_anew_where_the_last_one_was_left_comes_to_every_lane(db, worker):  # noqa: F811
    w = worker()
    for at in ("q77 0", "q77 -5", "zz 32768", "a 3", " 32768"):
        jobs, got = spread(db, 200), []
        while at:
            got += ids(w.take(n=1000, at=at))
            at = w.round
        assert sorted(got) == sorted(jobs)


def test_a_round_of_as_many_lanes_as_its_claims_ask_ends(db, worker):  # noqa: F811
    w = worker()
    jobs = [db.defer("f", queue=f"q{i}") for i in range(200)]
    at, got, claims = "q7 0", [], 0
    while at:
        got += ids(w.take(n=1000, at=at))
        at = w.round
        claims += 1
    assert sorted(got) == sorted(jobs) and claims == 2


def test_lanes_that_are_known_are_asked_beside_those_of_the_round(db, worker):  # noqa: F811
    w = worker()
    spread(db, 300)
    job = db.defer("f", queue="zzz")
    at, names_, priorities = "q99 0/q99 0", ["zzz"], [0]
    rows = w.ask("job_claim", None, 1000, 1000, w.id, MINUTE, 3, None, 1, 1 << 24, names_, priorities, 1, 1000, at)
    w.rollback()
    claimed = [r[0] for r in rows if r[0]]
    assert job in claimed and len(claimed) == 101


def test_a_claim_and_a_start_look_at_some_of_many_lanes(db, worker):  # noqa: F811
    db.sql("alter table deferred.__deferred_hot set (autovacuum_enabled = off)")
    w = worker()
    offer(db, "f")
    statements = {
        "job_claim": "null, 20, 1000, 1, 60000, 3, null, 3, 16777216, '{}', '{}', 1, 20, 'q5 0'",
        "run_probe": "null, 'host:/pid', null",
    }

    def read():
        # Places, but no jobs that could be claimed: what takes the longest to look at.
        at = None
        while True:
            w.take(n=10000, at=at)
            at = w.round
            if not at:
                break
        return {name: pages(db, name, arguments) for name, arguments in statements.items()}

    spread(db, 200)
    few = read()
    spread(db, 1600)
    more = read()
    # Nine times as many lanes. Entries that others' open transactions keep alive cost some pages.
    assert all(more[name] <= 3 * few[name] for name in statements), (few, more)


def test_few_jobs_in_each_of_many_lanes_are_set_aside_at_once(db, worker):  # noqa: F811
    w = worker()
    spread(db, 300, "g")
    assert w.take(known=["f"]) == [] and set_aside(db) == [], "no worker has spoken"
    db.sql(
        "delete from deferred.__deferred_hot; delete from deferred.__deferred; delete from deferred.__deferred_cursor"
    )
    jobs = spread(db, 300, "g")
    offer(db, "f", "elsewhere")
    elsewhere = db.defer("elsewhere", queue="q7")
    mine, many_of_them = db.defer("f", queue="q8"), many(db, 30, "g", queue="a")
    at, got = None, []
    while True:
        got += w.take(known=["f"], at=at)
        at = w.round
        if not at:
            break
    assert ids(got) == [mine]
    assert set_aside(db) == sorted(jobs + many_of_them) and elsewhere not in set_aside(db)
    places = [r[0] for r in db.sql("select distinct queue from deferred.__deferred_cursor order by 1")]
    assert places == ["a", "q7", "q8"], "of all others nothing was handed out"
    offer(db, "f", "g", host="other")
    assert set_aside(db) == []


def test_what_a_transaction_has_locked_is_not_set_aside_and_not_waited_for(db, worker):  # noqa: F811
    w, other = worker(), db.connect()
    jobs = spread(db, 300, "g")
    offer(db, "f")
    other.cursor().execute("select from deferred.__deferred_hot where id = %s for update", (jobs[0],))
    put_all_aside(db, w)
    assert set_aside(db) == jobs[1:]
    other.rollback()
    other.close()
    put_all_aside(db, w)
    assert set_aside(db) == jobs


def test_a_run_finds_the_last_job_beside_many_lanes_that_have_none(db):
    db.config('function "quick" { command = {"/bin/true"} }\n')
    spread(db, 300, "quick")
    db.sql("update deferred.__deferred_upkeep set repaired_at = now()")  # else the run may remove empty lanes
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0 and db.hot() == 0
    assert db.one("select count(*) from deferred.__deferred_cursor") >= 330
    for queue in ("a", "q1", "q999", "zz"):
        job = db.defer("quick", queue=queue)
        assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
        assert db.log(job) == [(1, "ok")]


def keys_that_wait(db, n):
    """In as many queues the first job of a key, which waits for its next attempt."""
    db.sql(
        "select deferred.defer('f', '{}', json_build_object('queue', 'q' || i, 'concurrency_key', 'k', 'key', 'k')) "
        "from generate_series(1, %s) i",
        n,
    )
    db.sql("update deferred.__deferred_hot set due_at = 'infinity', visible_at = now(), attempt = 1")


def forget_attempts(db):
    """Which the log has not."""
    db.sql("update deferred.__deferred_hot set attempt = 0")


def test_a_round_comes_to_every_queue_in_a_bounded_number_of_claims(db, worker):  # noqa: F811
    """Queues under limits whose first jobs cannot be had; one of them has a job that can."""
    w, rng = worker(), random.Random(1)
    claim = "null, 1, 1, 1, 60000, 3, null, 3, 16777216, 20, 'q5', 1"
    keys_that_wait(db, 600)
    assert pages(db, "job_claim_limited", claim) < 1000, "a tenth of what all of them take"
    for queue in rng.sample([f"q{i}" for i in range(1, 601)], 10) + ["a", "zz"]:
        job = db.defer("f", queue=queue, concurrency_key="mine")
        at, claims = rng.choice([None, "q300", "zzz", ""]), 0
        while True:
            claims += 1
            got, at = limited(w, n=1, seed=claims, at=at)
            if got:
                break
            assert at and "/" in at and claims < 60, (queue, at, claims)
        assert ids(got) == [job]
        assert w.finish(*got) == {job}
        w.commit()
    at, claims = None, 0
    while True:
        claims += 1
        got, at = limited(w, n=1, seed=claims, at=at)
        assert got == [] and claims < 60
        if at is None or "/" not in at:
            break
    assert 10 < claims
    forget_attempts(db)


def test_starts_without_a_round_begin_anywhere(db, worker):  # noqa: F811
    w = worker()
    keys_that_wait(db, 200)
    assert len({limited(w, n=1, seed=seed)[1] for seed in range(20)}) > 5
    forget_attempts(db)


def test_a_claim_and_a_start_do_not_walk_over_delayed_jobs_with_keys(db, worker):  # noqa: F811
    worker()
    statements = {
        "job_claim_limited": "null, 20, 20, 1, 60000, 3, null, 3, 16777216, 20, null, 1",
        "run_probe": "null, 'host:/pid', null",
    }

    def read(n):
        db.sql(
            """select deferred.defer('f', '{}', json_build_object('concurrency_key', 'k' || i %% 2000, 'delay', '1d'))
               from generate_series(1, %s) i""",
            n,
        )
        db.sql("vacuum (analyze) deferred.__deferred_hot")
        return {name: pages(db, name, arguments) for name, arguments in statements.items()}

    few = read(10)
    more = read(4000)
    assert all(more[name] <= few[name] + 20 for name in statements), (few, more)


def test_a_start_looks_at_some_of_many_functions_of_a_queue_under_limits(db, worker):  # noqa: F811
    w = worker()
    db.sql("update deferred.__deferred_queue set max_running = 20")
    claim = "null, 20, 20, 1, 60000, 3, null, 3, 16777216, 20, null, 1"

    def read():
        db.sql("vacuum (analyze) deferred.__deferred_hot")
        return pages(db, "job_claim_limited", claim)

    names(db, 600)
    few = read()
    names(db, 4000)
    assert read() <= few + 600
    # Once one of them was met that it has not, it comes to its own, however many others there are.
    offer(db, "zz")
    mine = db.defer("zz")
    claims = 0
    while mine not in ids(limited(w, known=["zz"])[0]):
        claims += 1
        assert claims < 20


def test_a_start_finds_its_functions_among_those_that_nobody_had(db):
    """Of which there are many, and nothing else is to be done."""
    config = 'function "quick" { command = {"/bin/true"} }\n'
    db.config(config)
    names(db, 300)
    later, good = db.defer("later"), db.defer("quick")
    db.run(["check_deferred", "--cnt", "0"])
    assert db.log(good) == [(1, "ok")] and len(set_aside(db)) == 301
    db.config(config + 'function "later" { command = {"/bin/true"} }\n')
    db.run(["check_deferred", "--cnt", "0"])
    assert db.log(later) == [(1, "ok")] and len(set_aside(db)) == 300
    assert json.loads(db.run(["deferred", "--json", "status"]).stdout)["unknown_functions"]
