"""Ticks of schedules become jobs: each once, whoever comes first, whatever clocks do.
lib/engine/step/tick.c asks for them."""

import datetime
import json
import random

import psycopg2
import pytest

import pg

from test_quota import role  # noqa: F401

T = datetime.datetime(2030, 1, 1, tzinfo=datetime.timezone.utc)
HOUR = datetime.timedelta(hours=1)


def schedule(db, name="s", rule="0 * * * *", at=T, **opts):
    """One whose next tick is at T + 1 h, as if it had been set at T."""
    db.sql("select deferred.schedule(%s, %s, 'f', '{\"a\": 1}', %s)", name, rule, json.dumps(opts))
    db.sql(
        "update deferred.__deferred_schedule set next_at = deferred.__cron_next(cron, zone, %s) where name = %s",
        at,
        name,
    )
    db.sql("update deferred.__deferred_state set next_tick = (select min(next_at) from deferred.__deferred_schedule)")


def tick(db, at, most=100):
    return db.one("select deferred.__tick_at(%s, %s)", most, at)


def ticks(db, name="s"):
    return [
        ((t - T) / HOUR, what)
        for t, what in db.sql(
            """
        select tick, what from deferred.__deferred_tick t join deferred.__deferred_schedule s
        on s.id = t.schedule where s.name = %s order by tick""",
            name,
        )
    ]


def next_tick(db):
    return db.one("select case when isfinite(min(next_tick)) then min(next_tick) end from deferred.__deferred_state")


def end(db, job):
    """As if a worker had run it."""
    db.sql("delete from deferred.__deferred_hot where id = %s", job)
    db.sql("insert into deferred.__deferred_log (job_id, attempt, outcome, final) values (%s, 1, 'ok', true)", job)


def last_job(db):
    return db.one("select last_job from deferred.__deferred_schedule where name = 's'")


@pytest.mark.parametrize(
    "missed, opts, after_3_h, after_6_h",
    [
        ("one", {}, [(3, "queued")], [(3, "queued"), (6, "overlap")]),
        ("one", {"overlap": "allow"}, [(3, "queued")], [(3, "queued"), (6, "queued")]),
        ("one", {"overlap": "queue"}, [(3, "queued")], [(3, "queued"), (6, "overlap")]),
        ("one", {"overlap": "replace"}, [(3, "queued")], [(3, "queued"), (6, "queued")]),
        ("all", {}, [(1, "queued"), (2, "queued"), (3, "queued")], [(n, "queued") for n in range(1, 7)]),
        ("skip", {}, [(3, "missed")], [(3, "missed"), (6, "missed")]),
        ("skip", {"late": "2h"}, [(3, "queued")], [(3, "queued"), (6, "overlap")]),
    ],
)
def test_after_hours_of_silence_ticks_come_as_missed_and_overlap_say(db, missed, opts, after_3_h, after_6_h):
    schedule(db, missed=missed, **opts)
    assert next_tick(db) == T + HOUR
    assert tick(db, T + 0.9 * HOUR) == 0 and ticks(db) == []
    tick(db, T + 3.5 * HOUR)
    assert ticks(db) == after_3_h and next_tick(db) == T + 4 * HOUR
    first = last_job(db)
    assert tick(db, T + 3.5 * HOUR) == 0
    tick(db, T + 6.5 * HOUR)
    assert ticks(db) == after_6_h
    jobs = db.sql("select t.job_id from deferred.__deferred_tick t where what = 'queued' order by tick")
    if opts.get("overlap") == "replace":
        assert db.sql("select job_id, outcome from deferred.__deferred_log") == [(first, "cancelled")]
        jobs.remove((first,))
    assert sorted(db.sql("select id from deferred.__deferred_hot")) == sorted(jobs)
    assert db.sql("select * from deferred.check_ledger()") == []


def test_a_job_runs_as_its_owner_with_the_options_of_the_schedule_and_knows_its_tick(db, role):  # noqa: F811
    app = role()
    with app.cursor() as cursor:
        cursor.execute(
            """select deferred.schedule('s', '0 * * * *', 'f', '{"b":  2}',
                '{"queue": "reports", "priority": 3, "label": "L", "expires": "1h",
            "max_attempts": 2, "timeout": "5s", "overlap": "queue", "jitter": "10min"}')"""
        )
    app.commit()
    db.sql("update deferred.__deferred_schedule set next_at = %s", T + HOUR)
    tick(db, T + HOUR)
    job = last_job(db)
    who = db.one("select session_user from pg_sleep(0)") and f"app_{db.name}"
    due = db.one("select due_at from deferred.__deferred_hot where id = %s", job)
    assert T + HOUR <= due < T + HOUR + datetime.timedelta(minutes=10)
    assert (
        db.sql(
            """select created_by, queue, params::text, priority, label, max_attempts, timeout_ms, concurrency_key,
            expires_at - run_at from deferred.__deferred where id = %s""",
            job,
        )
        == [(who, "reports", '{"b":  2}', 3, "L", 2, 5000, "schedule:s", HOUR)]
    )
    assert db.sql("select schedule, tick, previous from deferred.tick(%s)", job) == [("s", T + HOUR, None)]
    # The jitter is the same wherever and whenever it is asked.
    db.sql("delete from deferred.__deferred_tick")
    db.sql("update deferred.__deferred_schedule set next_at = %s, last_job = null", T + HOUR)
    tick(db, T + HOUR)
    assert db.one("select due_at from deferred.__deferred_hot where id = %s", last_job(db)) == due
    with app.cursor() as cursor:
        cursor.execute("select schedule, tick, previous from deferred.tick(%s)", (last_job(db),))
        assert cursor.fetchall() == [("s", T + HOUR, T + HOUR)]


def test_a_schedule_whose_zone_is_no_longer_known_fails_alone_and_comes_back(db):
    schedule(db, "bad", overlap="allow", missed="all")
    schedule(db, "good", overlap="allow", at=T + HOUR)
    db.sql("update deferred.__deferred_schedule set zone = 'Mars/Base' where name = 'bad'")
    assert tick(db, T + 2 * HOUR) == 2
    assert (ticks(db, "bad"), ticks(db, "good")) == ([], [(2, "queued")])
    what, error, at = db.sql(
        "select last_what, last_error, next_at from deferred.__deferred_schedule where name = 'bad'"
    )[0]
    assert (what, at) == ("failed", T + 3 * HOUR) and "Mars/Base" in error
    # Nor is it a hindrance to upkeep or to a list.
    db.sql("update deferred.__deferred_schedule set last_error = null, checked_at = now() - interval '2 hours'")
    db.sql("update deferred.__deferred_upkeep set schedules_at = '-infinity', repaired_at = '-infinity'")
    db.sql("select deferred.maintain()")
    checked, error = db.sql(
        "select checked_at > now() - interval '1 minute', last_error from deferred.__deferred_schedule "
        "where name = 'bad'"
    )[0]
    assert checked and "Mars/Base" in error
    rows = dict((row[0], row[6]) for row in db.sql(pg.source("schedule_ls").replace("$1", "null")))
    assert "Mars/Base" in rows["bad"] and rows["good"].endswith(":00:00")
    # The moment at which it was looked at again is no tick; those of the hours since it failed are.
    db.sql(
        "update deferred.__deferred_schedule set zone = 'UTC', rule = '30 * * * *', "
        "cron = deferred.__cron_parse('30 * * * *') where name = 'bad'"
    )
    db.sql(
        "update deferred.__deferred_schedule set next_at = %s, tried_at = %s where name = 'bad'",
        T + 3 * HOUR,
        T + 3 * HOUR,
    )
    tick(db, T + 4 * HOUR)
    assert ticks(db, "bad") == [(2.5, "queued"), (3.5, "queued")]


def test_a_producer_who_stays_open_holds_up_his_own_schedules_alone(db):
    for n in range(60):
        schedule(db, f"his{n}", queue="new")
    schedule(db, at=T + HOUR)
    db.sql("set lock_timeout to '50ms'")  # as workers have it
    with db.connect() as c, c.cursor() as cursor:
        cursor.execute("select deferred.defer('f', queue => 'new')")
        for _ in range(61):  # a call tries some of them, for as long as it may take: on a busy machine only one
            tick(db, T + 2.5 * HOUR)
            if ticks(db):
                break
        assert ticks(db) == [(2, "queued")]
        c.commit()
    tick(db, T + 2.5 * HOUR)
    assert ticks(db, "his0") == [(2, "queued")]


def test_a_role_has_as_many_schedules_as_its_quota_says(db, role):  # noqa: F811
    with role().cursor() as cursor:
        cursor.execute("select count(deferred.schedule('s' || i, '@daily', 'f')) from generate_series(1, 1000) i")
        cursor.connection.commit()
        with pytest.raises(psycopg2.errors.ConfigurationLimitExceeded) as refused:
            cursor.execute("select deferred.schedule('more', '@daily', 'f')")
        assert f"role 'app_{db.name}' may not add more than 1000 schedules" in str(refused.value)
        assert "__deferred_quota" in str(refused.value)
        cursor.connection.rollback()
        cursor.execute("select deferred.schedule('s7', '@hourly', 'f')")  # those that are there change as ever
        cursor.connection.commit()
        db.sql(
            "insert into deferred.__deferred_quota (creator, queues, schedules) values (%s, 0, 1001)", f"app_{db.name}"
        )
        cursor.execute("select deferred.schedule('more', '@daily', 'f')")
        cursor.connection.commit()
    assert db.one("select deferred.schedule('mine', '@daily', 'f')") == "added"


def test_who_may_not_defer_any_more_fails_alone_and_others_have_no_part_in_a_schedule(db, role):  # noqa: F811
    app, other = role(), role("other")
    with app.cursor() as cursor, other.cursor() as stranger:
        cursor.execute("select deferred.schedule('s', '0 * * * *', 'f')")
        cursor.execute("select deferred.schedule('t', '0 * * * *', 'g')")
        app.commit()
        for call in (
            "unschedule('s')",
            "schedule_pause('s')",
            "schedule_resume('s')",
            "schedule_run('s')",
            "schedule('s', '@daily', 'f')",
            "schedule_backfill('s', now(), now())",
        ):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                stranger.execute(f"select deferred.{call}")
            other.rollback()
        stranger.execute("select * from deferred.__schedules()")
        assert stranger.fetchall() == []
        for call in ("__tick(1)", "__tick_at(1, now())", "__schedule_job(null, now(), now())", "__schedule_check(1)"):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                stranger.execute(f"select deferred.{call}")
            other.rollback()
    db.sql("insert into deferred.__deferred_grant (role, fn) values (%s, 'g')", f"app_{db.name}")
    db.sql("update deferred.__deferred_schedule set next_at = %s", T + HOUR)
    schedule(db, "mine")
    tick(db, T + HOUR)
    assert (ticks(db), ticks(db, "t"), ticks(db, "mine")) == ([(1, "failed")], [(1, "queued")], [(1, "queued")])
    assert "may not defer 'f'" in db.one("select last_error from deferred.__deferred_schedule where name = 's'")
    # Nor is somebody else's schedule a way around it: that of a role one is a member of.
    db.sql(f"grant other_{db.name} to app_{db.name}")
    with app.cursor() as cursor, other.cursor() as stranger:
        stranger.execute("select deferred.schedule('theirs', '0 * * * *', 'f')")
        other.commit()
        for call in ("schedule_run('theirs')", "schedule_backfill('theirs', now() - interval '2h', now())"):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="may not defer 'f'"):
                cursor.execute(f"select deferred.{call}")
            app.rollback()
    db.sql("select deferred.unschedule('theirs')")
    db.sql(f"revoke other_{db.name} from app_{db.name}")
    db.sql("delete from deferred.__deferred_grant")
    db.sql("delete from deferred.__deferred_hot")
    db.sql("delete from deferred.__deferred")
    db.sql(f"revoke deferred_producer from app_{db.name}")
    tick(db, T + 2 * HOUR)
    assert (ticks(db), ticks(db, "mine")) == ([(1, "failed"), (2, "failed")], [(1, "queued"), (2, "queued")])
    assert "may not defer jobs" in db.one("select last_error from deferred.__deferred_schedule where name = 's'")


def test_many_at_once_with_rollbacks_deal_with_each_tick_exactly_once(db):
    """Sessions are stepped: each begins, ticks, and commits, rolls back or is killed, at random."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    r = random.Random(seed)
    for n in range(4):
        schedule(db, f"s{n}", r.choice(["*/10 * * * *", "*/7 * * * *", "every 13min"]), missed="all", overlap="allow")
    sessions, at, open_ones = [db.connect() for _ in range(3)], T, set()
    for step in range(60):
        n = r.randrange(len(sessions))
        at += datetime.timedelta(minutes=r.randint(0, 9))
        if n not in open_ones:
            with sessions[n].cursor() as cursor:
                cursor.execute("select deferred.__tick_at(5, %s)", (at,))
            open_ones.add(n)
            continue
        kind = r.random()
        if kind < 0.6:
            sessions[n].commit()
        elif kind < 0.95:
            sessions[n].rollback()
        else:
            db.sql("select pg_terminate_backend(%s)", sessions[n].get_backend_pid())
            sessions[n] = db.connect()
        open_ones.discard(n)
    for s in sessions:
        s.rollback()
        s.close()
    while tick(db, at):
        pass
    wanted = db.sql(
        """
        with recursive t as (
            select name, cron, zone, deferred.__cron_next(cron, zone, %s) as t from deferred.__deferred_schedule
            union all select name, cron, zone, deferred.__cron_next(cron, zone, t) from t where t < %s)
        select name, t from t where t <= %s order by 1, 2""",
        T,
        at,
        at,
    )
    assert (
        db.sql(
            """select s.name, t.tick from deferred.__deferred_tick t join deferred.__deferred_schedule s
                on s.id = t.schedule
                     join deferred.__deferred_hot h on h.id = t.job_id where t.what = 'queued' order by 1, 2"""
        )
        == wanted
    )
    assert db.one("select count(*) from deferred.__deferred_hot") == len(wanted)


def test_clocks_that_jump_lose_no_tick_and_make_none_twice(db):
    """Only the server's counts; this is its clock."""
    schedule(db, overlap="allow")
    tick(db, T + 1.1 * HOUR)
    tick(db, T + 0.2 * HOUR)  # an hour back: nothing until the next one is reached again
    assert ticks(db) == [(1, "queued")] and next_tick(db) == T + 2 * HOUR
    tick(db, T + 2.1 * HOUR)
    tick(db, T + 50.5 * HOUR)  # two days ahead, for a moment
    assert ticks(db) == [(1, "queued"), (2, "queued"), (50, "queued")]
    # And back: to now, which T is not. maintain() computes the next tick anew; the one that was dealt with stays so.
    db.sql("update deferred.__deferred_schedule set checked_at = now() + interval '1 day'")
    db.sql("update deferred.__deferred_upkeep set schedules_at = now() + interval '1 day'")
    db.sql("select deferred.maintain()")
    soon = db.one("select date_trunc('hour', now()) + interval '1 hour'")
    assert next_tick(db) == soon and db.one("select next_at from deferred.__deferred_schedule") == soon
    db.sql("update deferred.__deferred_schedule set next_at = %s", T + 49 * HOUR)
    tick(db, T + 50 * HOUR)
    assert ticks(db)[2:] == [(50, "queued")] and db.one("select count(*) from deferred.__deferred_hot") == 3


def test_one_who_sets_a_schedule_and_stays_open_holds_up_no_tick(db):
    schedule(db, "a", overlap="allow")
    schedule(db, "b", overlap="allow")
    db.sql("set lock_timeout to '1s'")
    with db.connect() as c, c.cursor() as cursor:
        cursor.execute("select deferred.schedule('new', '* * * * *', 'f')")
        assert tick(db, T + HOUR) == 2 and ticks(db, "b") == [(1, "queued")]
        assert next_tick(db) == T + 2 * HOUR  # that one's note comes with its commit
        c.commit()
        assert next_tick(db) < T
        cursor.execute("select deferred.schedule_pause('a')")
        assert tick(db, T + 2 * HOUR) == 2 and ticks(db, "b") == [(1, "queued"), (2, "queued")]
        c.commit()
    tick(db, T + 2 * HOUR)
    assert ticks(db, "a") == [(1, "queued")] and next_tick(db) > T + 2 * HOUR


def test_pause_resume_run_and_backfill(db):
    schedule(db)
    tick(db, T + HOUR)
    assert db.sql("select deferred.schedule_pause('s'), deferred.schedule_pause('s')") == [(True, False)]
    assert tick(db, T + 9 * HOUR) == 0
    # Changed while it is paused, it stays so.
    assert db.one("select deferred.schedule('s', '30 * * * *', 'f', '{}', '{\"missed\": \"all\"}')") == "changed"
    assert db.one("select next_at from deferred.__deferred_schedule") is None
    assert db.sql("select deferred.schedule_resume('s'), deferred.schedule_resume('s')") == [(True, False)]
    assert db.one("select next_at > now() from deferred.__deferred_schedule") and next_tick(db) < T
    job = db.one("select deferred.schedule_run('s')")
    assert db.one("select what from deferred.__deferred_tick where job_id = %s", job) == "by hand"
    span = (T - 25 * 365 * 24 * HOUR, T - 25 * 365 * 24 * HOUR + 10 * HOUR)
    assert [
        db.one("select deferred.schedule_backfill('s', %s, %s, %s)", *span, dry) for dry in (True, False, False)
    ] == [10, 10, 0]
    assert db.one("select count(*) from deferred.__deferred_hot") == 12
    with pytest.raises(psycopg2.errors.InvalidParameterValue):
        db.sql("select deferred.schedule_backfill('s', %s, %s)", T, T - HOUR)
    # What a full queue drops is no job: the tick stays without one.
    db.sql("update deferred.__deferred_queue set max_length = 1, on_full = 'drop' where name = 'default'")
    db.sql("select deferred.schedule_run('s')")
    for call in ("schedule_run('s')", "schedule_backfill('s', '2004-01-01', '2004-01-02')"):
        with pytest.raises(psycopg2.errors.ConfigurationLimitExceeded):
            db.sql(f"select deferred.{call}")
    db.sql("update deferred.__deferred_queue set max_length = null where name = 'default'")
    assert db.one("select deferred.schedule_backfill('s', '2004-01-01', '2004-01-02')") == 24
    # A span of 0 is none, as with deferred.defer().
    db.sql("select deferred.schedule('z', '@daily', 'f', '{}', '{\"expires\": 0}')")
    job = db.one("select deferred.schedule_run('z')")
    assert db.one("select expires_at from deferred.__deferred where id = %s", job) is None
    db.sql("select deferred.unschedule('z')")
    # Purged with the log, but for the last one.
    db.sql("update deferred.__deferred_tick set at = now() - interval '1 year'")
    db.sql("select deferred.__purge_workers('30 days')")
    assert db.one("select count(*) from deferred.__deferred_tick") == 1
    db.sql("select deferred.unschedule('s')")
    assert tick(db, T + 99 * HOUR) == 0 and next_tick(db) is None


def test_months_of_silence_and_a_minute_with_a_thousand_ticks_are_dealt_with_in_short_steps(db):
    schedule(db, rule="*/5 * * * *")
    begun = datetime.datetime.now()
    tick(db, T + 330 * 24 * HOUR)
    assert ticks(db) == [(330 * 24, "queued")] and datetime.datetime.now() - begun < datetime.timedelta(seconds=0.5)
    db.sql("select count(deferred.schedule('n' || i, '* * * * *', 'f')) from generate_series(1, 150) i")
    db.sql("update deferred.__deferred_schedule set next_at = %s where name <> 's'", T)
    assert 0 < tick(db, T) <= 100 and next_tick(db) == T
    for _ in range(20):
        tick(db, T)
    assert db.one("select count(*) from deferred.__deferred_hot") == 151 and next_tick(db) > T


def test_the_version_a_start_reads_is_that_of_the_migrations(db):
    def versions():
        return db.sql("select version, oldest from deferred.__deferred_state where version is not null")

    ((newest, oldest),) = db.sql(
        "select max(version), max(coalesce(oldest, version)) from deferred.__deferred_migration"
    )
    assert versions() == [(newest, oldest)]
    db.sql("insert into deferred.__deferred_migration (version, name, oldest) values (998, 'future', 1)")
    assert versions() == [(998, oldest)]
    db.sql("insert into deferred.__deferred_migration (version, name) values (999, 'more')")
    assert versions() == [(999, 999)]
    db.sql("delete from deferred.__deferred_migration")
    assert versions() == [(0, 0)]


def test_the_first_look_of_a_start_is_not_compiled(db):
    """What seems dear is, for a hundred times what the look takes. Ten thousand schedules beside it
    cost nothing, for none is read."""

    def text(name):
        return pg.source(name)

    with db.connect() as c, c.cursor() as cursor:
        cursor.execute(text("run_glance_setup"))
        cursor.execute("explain (analyze, format json) " + text("run_glance"))
        plan = cursor.fetchone()[0][0]
        assert (
            "JIT" not in plan
            and "__deferred_schedule" not in json.dumps(plan)
            and "__deferred_migration" not in json.dumps(plan)
        )
