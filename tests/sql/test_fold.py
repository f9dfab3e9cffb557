"""Sums of the log: whatever happens, they are what one gets by counting."""

import psycopg2
import pytest

import pg
from harness import wait_for

pytestmark = pytest.mark.by_hand

OUTCOMES = [
    "ok",
    "failed",
    "crashed",
    "timeout",
    "interrupted",
    "superseded",
    "lost",
    "cancelled",
    "expired",
    "snoozed",
]
QUEUES, FUNCTIONS, PLUGINS = ["mail", "images", "default"], ["a", "b", None], ["p 1", "p 2", None]

# By span and series, as the log and the jobs themselves say it. Bucket is an answer of another
# kind: the bounds, one by one.
COUNTED = (
    """
    with kinds as (
        select l.finished_at as at, d.queue, coalesce(d.fn, '') as fn, coalesce(l.plugin, '') as plugin,
        l.outcome, l.final, 0 as arrived,
               coalesce(l.wait_us::bigint, 0) as wait_us, coalesce(l.run_us::bigint, 0) as run_us,
               coalesce(l.user_us::bigint, 0) + coalesce(l.sys_us::bigint, 0) as cpu_us, l.max_rss_kb::bigint,
               l.wait_us is not null as waited, l.run_us is not null as ran
        from deferred.__deferred_log l join deferred.__deferred d on d.id = l.job_id
        union all
        select d.created_at, d.queue, coalesce(d.fn, ''), '', null, false, 1, 0, 0, 0, 0, false, false
        from deferred.__deferred d where %(arrivals)s)
    select v.span, v.at, s.queue, s.fn, s.plugin, """
    + ", ".join(f"count(*) filter (where k.outcome = '{o}')" for o in OUTCOMES)
    + """,
           count(*) filter (where k.final and k.outcome not in ('ok', 'cancelled', 'expired')), sum(k.arrived),
           sum(k.wait_us), sum(k.run_us), sum(k.cpu_us), coalesce(max(k.max_rss_kb), 0),
           count(*) filter (where k.waited), count(*) filter (where k.ran)
    from kinds k
    cross join lateral (values (1, date_trunc('minute', k.at)), (60, date_trunc('hour', k.at)),
                        (0, '-infinity')) v (span, at)
    cross join lateral (values (k.queue, k.fn, k.plugin), (k.queue, '*', '*'), ('*', k.fn, '*'),
                        ('*', '*', '*')) s (queue, fn, plugin)
    group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5"""
)
SUMMED = (
    """
    select x.span, x.at, s.queue, s.fn, s.plugin, """
    + ", ".join("x." + o for o in OUTCOMES)
    + """, x.dead, x.arrived, x.wait_us, x.run_us, x.cpu_us, x.max_rss_kb,
           (select coalesce(sum(x.wait[i][2]), 0) from generate_subscripts(x.wait, 1) i),
           (select coalesce(sum(x.run[i][2]), 0) from generate_subscripts(x.run, 1) i)
    from deferred.__deferred_sum x join deferred.__deferred_series s on s.id = x.series
    order by 1, 2, 3, 4, 5"""
)


def jobs(db, n):
    """Deferred some time in the last two hours; by id in the order of time."""
    db.sql(
        """insert into deferred.__deferred (id, queue, fn, params, created_at)
              select nextval('deferred.__deferred_id_seq'), (%s::text[])[1 + trunc(random() * 3)],
              (%s::text[])[1 + trunc(random() * 3)], '{}',
                     now() - interval '2 hours' + n * interval '2 hours' / %s
              from generate_series(0, %s - 1) n""",
        QUEUES,
        FUNCTIONS,
        n,
        n,
    )


def attempts(db, n, first="2 hours", last="3 seconds"):
    """Ended at random in between."""
    db.sql(
        """insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at, plugin, wait_us,
            run_us, user_us, sys_us, max_rss_kb)
              select (select max(id) from deferred.__deferred) - n %% 100, n,
              (%s::text[])[1 + trunc(random() * 10)], random() < 0.5,
                     now() - %s::interval + random() * (%s::interval - %s::interval),
                     (%s::text[])[1 + trunc(random() * 3)], case when random() < 0.9 then 10 ^ (random() * 12)
                     end, case when random() < 0.9 then 10 ^ (random() * 9) end,
                     random() * 1000, random() * 1000, random() * 100000
              from generate_series(1, %s) n""",
        OUTCOMES,
        first,
        first,
        last,
        PLUGINS,
        n,
    )


def fold(db):
    """To the end; attempts added."""
    added = 0
    while True:
        ((n, _, _, done, busy),) = db.sql("select * from deferred.__fold()")
        assert not busy
        added += n
        if done:
            return added


def back(db, what="folded_to", to="now() - interval '2 hours'"):
    db.sql(f"update deferred.__deferred_folded set {what} = {to}")


def equal(db, arrivals="true"):
    summed = db.sql(SUMMED)
    assert summed == db.sql(COUNTED % {"arrivals": arrivals})
    return summed


def test_sums_are_what_one_gets_by_counting(db):
    jobs(db, 200)
    attempts(db, 300)
    back(db)
    db.sql(
        "update deferred.__deferred_folded set slice = '31 minutes', exact_to = date_bin('1 minute', "
        "now() - interval '70 minutes', '2000-01-01')"
    )
    # The first session to fold is cut off before its transaction ends; another one meanwhile leaves it to that one.
    first = db.connect()
    with first.cursor() as cursor:
        cursor.execute("select attempts > 0, busy from deferred.__fold()")
        assert cursor.fetchone() == (True, False)
    assert db.sql("select attempts, done, busy from deferred.__fold()") == [(0, True, True)]
    first.close()
    wait_for(
        lambda: db.sql("select 1 from deferred.__deferred_folded for update skip locked"), what="the end of the session"
    )
    assert db.one("select count(*) from deferred.__deferred_sum") == 0
    assert fold(db) == 300
    assert len(equal(db)) > 500
    assert fold(db) == 0
    equal(db)

    # Recorded late, an hour and more ago: counted when that is looked at again, and once.
    attempts(db, 50, "100 minutes", "80 minutes")
    assert fold(db) == 0
    back(db, "exact_to", "date_bin('1 minute', now() - interval '110 minutes', '2000-01-01')")
    fold(db)
    summed = equal(db)
    back(db, "exact_to", "date_bin('1 minute', now() - interval '110 minutes', '2000-01-01')")
    fold(db)
    assert db.sql(SUMMED) == summed

    # Purged: counters only grow.
    db.sql("delete from deferred.__deferred_log where random() < 0.3")
    back(db, "exact_to", "date_bin('1 minute', now() - interval '110 minutes', '2000-01-01')")
    fold(db)
    assert db.sql(SUMMED) == summed
    db.sql("select deferred.__fold_rebuild()")
    fold(db)
    equal(db)

    # A clock that was set back: what is recorded in the minutes that come again is found in the end.
    back(db, "folded_to", "now() + interval '40 minutes'")
    back(db, "exact_to", "date_bin('1 minute', now() + interval '20 minutes', '2000-01-01')")
    attempts(db, 20, "1 minute", "3 seconds")
    assert fold(db) == 0
    assert db.one("select exact_to <= now() from deferred.__deferred_folded")
    back(db, "folded_to", "now() - interval '2 seconds'")


def test_a_histogram_has_each_time_in_the_bucket_of_its_bounds(db):
    """And C has the same bounds: tests/lib/histogram_test.c looks for these."""
    assert db.sql(
        "select us, deferred.__bucket(us) from unnest(array[-5, 0, 10, 11, 12, 13, 25, 26, 1000, 1001, 1000000000000, "
        "1000000000001, null]::bigint[]) us"
    ) == [
        (-5, 0),
        (0, 0),
        (10, 0),
        (11, 1),
        (12, 1),
        (13, 2),
        (25, 4),
        (26, 5),
        (1000, 20),
        (1001, 21),
        (1000000000000, 110),
        (1000000000001, 111),
        (None, None),
    ]
    assert db.one("select deferred.__histogram_add('{{1,2},{5,1}}', '{{1,3},{2,1},{5,-1}}')") == [[1, 5], [2, 1]]
    assert db.one(
        "select deferred.__histogram_sum(h) from (values ('{}'::bigint[]), ('{{3,1}}'), ('{{3,1}}')) v (h)"
    ) == [[3, 2]]


def test_series_are_bounded_and_old_sums_go(db):
    jobs(db, 10)
    db.sql(
        "insert into deferred.__deferred_series (queue, fn, plugin) select 'q', 'f' || n, '' "
        "from generate_series(1, 20000) n"
    )
    attempts(db, 100)
    back(db)
    db.sql(
        """insert into deferred.__deferred_sum select span, now() - '9 days'::interval * case span when 60
            then 50 else 1 end, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '{}', '{}'
              from unnest(array[1, 60]) span"""
    )
    db.sql(
        "insert into deferred.__deferred_depth values (now() - interval '9 days', 'default', 0, 0, 0, false, null, "
        "false)"
    )
    fold(db)
    assert {r[0] for r in db.sql("select fn from deferred.__deferred_series where id > 20000")} == {"+", "*"}
    assert (
        db.one(
            "select x.arrived from deferred.__deferred_sum x join deferred.__deferred_series s on s.id = x.series "
            "where span = 0 and (queue, fn) = ('*', '+')"
        )
        == 10
    )
    assert (
        db.one(
            "select count(*) from deferred.__deferred_sum where at between '-1000000 days'::interval + now() "
            "and now() - interval '8 days' and at > '2000-01-01'"
        )
        == 0
    )
    assert db.sql("select queue, ready, more, paused from deferred.__deferred_depth") == [("default", 0, False, False)]


def test_a_viewer_changes_no_sums(db):
    with db.connect() as connection, connection.cursor() as cursor:
        cursor.execute("set role deferred_viewer")
        for refused in (
            "select deferred.__fold_rebuild()",
            "select deferred.__fold_slice(now(), now(), false, 0, 0)",
            "delete from deferred.__deferred_sum",
            "update deferred.__deferred_folded set id_to = 0",
            "select deferred.__fold_check(now(), now(), 1, 1)",
        ):
            cursor.execute("savepoint s")
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(refused)
            cursor.execute("rollback to s")


def test_attempts_of_the_last_hour_are_found_by_time_and_counted_so_far(db):
    jobs(db, 100)
    attempts(db, 40, "3 hours", "2 hours")
    assert db.sql("select * from deferred.__recent_outcomes(10)") == []
    db.sql("vacuum deferred.__deferred_log")
    db.sql("delete from deferred.__deferred_log where attempt <= 20")  # there is room on the first pages now
    db.sql("vacuum deferred.__deferred_log")
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final) select 1, n, 'failed', n = 3 "
        "from generate_series(1, 3) n"
    )
    assert db.sql("select * from deferred.__recent_outcomes(3)") == [("failed", 3, 1, False)]
    assert [r[3] for r in db.sql("select * from deferred.__recent_outcomes(2)")] == [True]
    assert db.sql(
        "select queue in ('mail', 'images', 'default'), fn, outcome from deferred.attempt where final "
        "and finished_at > now() - interval '1 minute'"
    ) == [(True, db.one("select fn from deferred.__deferred where id = 1"), "failed")]


def test_who_has_a_second_is_not_stopped_in_the_same_slice_each_time(db):
    """However many ended in a moment after a time in which few did, a transaction adds some
    thousands; and a minute of very many is counted again by who has no limit."""
    jobs(db, 200)
    attempts(db, 90000, "110 minutes 30 seconds", "110 minutes 29 seconds")
    db.sql(
        "update deferred.__deferred_folded set slice = '1 day', exact_to = date_bin('1 minute', "
        "now() - interval '111 minutes', '2000-01-01')"
    )
    back(db)
    added = []
    while sum(added) < 90000:
        ((n, _, _, _, _),) = db.sql("select * from deferred.__fold()")
        added.append(n)
    assert 1000 < max(added) <= 40000, added
    equal(db)
    attempts(db, 1, "110 minutes 30 seconds", "110 minutes 29 seconds")
    minute = "select f.exact_to < now() - interval '109 minutes' from deferred.__deferred_folded f"
    hasty = "set local statement_timeout = '1min'; select done from deferred.__fold()"
    assert any(db.sql(hasty) == [(True,)] for _ in range(30)) and db.one(minute)
    fold(db)
    assert not db.one(minute)
    equal(db)
