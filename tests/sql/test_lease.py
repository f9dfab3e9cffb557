"""What the rules of sql/functions/claim/__claim.sql keep from happening, one by one: where each is
broken, a test here fails."""

import concurrent.futures

import pytest

from harness import wait_for
from test_claim import MINUTE, ids, lapse, many, queues, worker  # noqa: F401


def ends(db):
    return dict(db.sql("select receipt, expires_at from deferred.__deferred_lease"))


def ready_again(db, *jobs):
    db.sql("update deferred.__deferred_hot set xid = pg_current_xact_id() where id = any (%s)", list(jobs))


# ---- places


def test_a_job_that_was_passed_over_and_made_ready_again_is_handed_out_once(db, worker):  # noqa: F811
    """Its entry among those passed over is of another transaction by then."""
    jobs, w = many(db, 5), worker()
    (first,) = w.take(1, window=5)
    again = [job for job in jobs if job != first.id][:2]
    ready_again(db, *again)
    rest = w.take(100)
    assert sorted(ids(rest)) == sorted(set(jobs) - {first.id})
    assert sorted(w.held()) == jobs


def test_what_commits_behind_a_claim_is_claimed_by_the_next_one_however_late(db, worker):  # noqa: F811
    late, w = db.connect(), worker()
    late.cursor().execute("select deferred.defer('late')")
    for _ in range(3):
        early = many(db, 2)
        assert sorted(ids(w.take())) == early
    late.commit()
    late.close()
    assert [j.fn for j in w.take()] == ["late"]


def test_a_snapshot_taken_before_the_lock_of_a_lane_is_not_used(db, worker):  # noqa: F811
    """Between the two another claim may have taken a later one: what that has handed out would be so once more."""
    a, b, c = worker(), worker(), worker()
    db.defer("f")
    a.take()
    jobs = many(db, 1)
    c.ask_plain("select from deferred.__deferred_cursor for update")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = []
        for w, n in ((a, 1), (b, 100)):  # a waits for the lane, and b behind a
            w.ask("job_patience", "20s")
            waiting.append(pool.submit(w.claim, n, window=5, lanes=[("default", 0)]))
            wait_for(
                lambda: db.one(
                    "select count(*) from pg_stat_activity "
                    "where datname = current_database() and wait_event_type = 'Lock'"
                )
                == len(waiting)
            )
        jobs += many(db, 2)
        c.rollback()
        first = waiting[0].result()
        a.commit()
        second = waiting[1].result()
    b.commit()
    assert sorted(ids(first) + ids(second)) == jobs and len(first) == 1
    assert a.take() == []
    assert b.finish(*second) == set(ids(second))
    b.commit()


def test_a_place_of_another_cluster_begins_anew(db, worker):  # noqa: F811
    """Whose dump was restored here: its numbers have not come yet."""
    jobs, w = many(db, 3), worker()
    w.take(1, window=2)
    db.sql(
        "update deferred.__deferred_cursor set done = '900000000:900000000:', cur = '900000000:900000000:', "
        "xid = null, rest_id = '{}', rest_xid = '{}'"
    )
    db.sql("delete from deferred.__deferred_lease")
    assert sorted(ids(w.take())) == jobs
    assert w.take() == []


# ---- leases


def test_a_renewal_is_of_leases_with_that_receipt_only(db, worker):  # noqa: F811
    many(db, 4)
    a, b = worker(), worker()
    mine, others = a.take(2, window=2), b.take(2, window=2, lease_ms=1000)
    before = ends(db)
    assert a.renew(*mine, lease_ms=60 * MINUTE) == set(ids(mine))
    a.commit()
    after = ends(db)
    assert after[mine[0].receipt] > before[mine[0].receipt] and after[others[0].receipt] == before[others[0].receipt]


def test_a_lease_lasts_until_the_last_of_its_jobs_has_ended(db):
    """Results are recorded as they come, 20 ms after the first at the latest."""
    db.sql("""select deferred.defer('sleep', '{"ms": 8}') from generate_series(1, 100)""")
    run = db.run(["check_deferred", "--cnt", "0", "--runners", "2"])
    assert run.returncode == 0 and "refused" not in run.stderr, run.stderr
    assert [outcome for _, _, outcome in db.log()] == ["ok"] * 100 and db.hot() == 0
    assert (
        db.one(
            "select count(*) from (select from deferred.__deferred_log "
            "group by receipt having count(distinct xmin::text) > 1) l"
        )
        > 0
    )
    assert db.sql("select * from deferred.__deferred_lease") == []


@pytest.mark.parametrize("alone", ["one attempt", "suspect", "limited"])
def test_a_claim_is_flushed_where_its_loss_would_be_an_attempt_and_only_there(db, worker, alone):  # noqa: F811
    w = worker()
    many(db, 3)
    w.claim()
    assert w.ask_plain("show synchronous_commit") == [("off",)]
    w.rollback()
    if alone == "suspect":
        lapse(db, *w.take())
        w.lost()
        w.claim()
    elif alone == "limited":
        queues(db, "max_running = 5")
        db.sql("select * from deferred.__mark(0, 100)")
        db.sql("update deferred.__deferred_hot set suspect = true")
        assert w.ask("job_claim_limited", None, 3, 3, w.id, MINUTE, 3, None, 1, 1 << 24, 3, None, 1)[0][0] is not None
    else:
        db.defer("f", max_attempts=1)
        w.claim()
    assert w.ask_plain("show synchronous_commit") == [("on",)]
    w.commit()
    assert db.one("select bool_and(cardinality(ids) = 1) from deferred.__deferred_lease where alone")


def test_a_job_with_one_attempt_or_suspect_shares_no_lease(db, worker):  # noqa: F811
    """Who dies with it in hand has begun it; with a batch in hand that is unknown of each."""
    plain, one, suspects = many(db, 3), many(db, 2, max_attempts=1), many(db, 2)
    db.sql("update deferred.__deferred_hot set suspect = true where id = any (%s)", suspects)
    w = worker()
    w.take()
    assert sorted(
        (sorted(ids), alone) for ids, alone in db.sql("select ids, alone from deferred.__deferred_lease")
    ) == sorted([(plain, False)] + [([job], True) for job in one + suspects])


def test_a_mark_set_or_taken_leaves_a_job_to_who_holds_it(db, worker):  # noqa: F811
    jobs, w = many(db, 2), worker()
    first, second = w.take()
    queues(db, "max_running = 5")
    db.sql("select * from deferred.__mark(0, 100)")
    assert sorted(w.held()) == jobs and w.finish(first) == {first.id}
    w.commit()
    queues(db, "max_running = null")
    db.sql("select * from deferred.__mark(0, 100)")
    assert w.take() == []
    assert w.finish(second) == {second.id}
    w.commit()


def test_a_claim_under_limits_leaves_what_a_lease_holds_though_its_row_does_not_say_so(db, worker):  # noqa: F811
    """A job put under a limit, for its function is unknown to another worker say, while it was
    being claimed from its lane."""
    many(db, 1)
    a, b = worker(), worker()
    held = a.take()
    queues(db, "max_running = 5")
    db.sql("select deferred.__limited_add('default')")
    db.sql("update deferred.__deferred_hot set limited = true")
    rows = b.ask("job_claim_limited", None, 5, 5, b.id, MINUTE, 3, None, 1, 1 << 24, 5, None, 1)
    b.commit()
    assert [r for r in rows if r[0] is not None] == []
    assert a.finish(*held) == set(ids(held))
    a.commit()


# ---- repair


def test_repair_leaves_alone_what_was_passed_over_and_what_is_held(db, worker):  # noqa: F811
    jobs, w = many(db, 6), worker()
    first = w.take(2, window=6)
    assert db.one("select deferred.__repair()") == 0
    assert sorted(w.held()) == sorted(ids(first))
    rest = w.take()
    assert sorted(ids(first + rest)) == jobs and w.finish(*first, *rest) == set(jobs)
    w.commit()


def test_repair_leaves_a_lease_that_has_ended_to_those_who_tell_what_was_lost(db, worker):  # noqa: F811
    """Or an attempt that may have begun would not be counted."""
    job, w = db.defer("f", max_attempts=1), worker()
    lapse(db, *w.take())
    assert db.one("select deferred.__repair()") == 0
    assert w.lost() == 1 and db.log(job) == [(1, "lost")]


def test_repair_finds_what_is_in_no_lease_and_not_beyond_its_place(db, worker):  # noqa: F811
    jobs, w = many(db, 3), worker()
    w.take()
    many(db, 1)
    db.sql("delete from deferred.__deferred_lease")
    w.take()
    assert db.one("select deferred.__repair()") == 3
    assert sorted(ids(w.take())) == jobs


def test_repair_finds_what_has_a_number_that_has_not_come_yet(db, worker):  # noqa: F811
    jobs, w = many(db, 2), worker()
    w.take()
    late = many(db, 2)
    db.sql("update deferred.__deferred_hot set xid = '900000000' where id = any (%s)", late)
    assert w.take() == []
    assert db.one("select deferred.__repair()") == 2
    assert sorted(ids(w.take())) == late and sorted(w.held()) == jobs + late


def test_what_was_given_back_while_its_worker_was_taken_for_dead_is_not_taken_from_who_has_it_now(
    db, worker
):  # noqa: F811
    """Between the look at what it holds and the locks of these jobs."""
    source = db.one("select pg_get_functiondef('deferred.__lost'::regproc)")
    assert source.count("p_spare and ") == 1
    db.sql(source.replace("p_spare and ", "p_spare and pg_advisory_xact_lock(1) is null and "))
    job = db.defer("f")
    a, b, c = worker(), worker(), worker()
    held = a.take()
    c.ask_plain("select pg_advisory_xact_lock(1)")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        burying = pool.submit(db.sql, "select id from deferred.__lost(array[%s]::bigint[], 'lost', 3, true)", a.id)
        wait_for(
            lambda: c.ask_plain(
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'advisory'"
            )
            == [(1,)]
        )
        assert a.release(*held) == 1
        a.commit()
        now = b.take()
        assert ids(now) == [job]
        c.rollback()
        assert burying.result() == []
    assert b.finish(*now) == {job}
    b.commit()
