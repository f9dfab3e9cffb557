"""What one role can do to others: locks that it leaves held, and rows that it forges."""

import contextlib
import datetime
import re

import psycopg2
import pytest

pytestmark = pytest.mark.by_hand


@contextlib.contextmanager
def acting(db, role):
    """A cursor in a transaction of a role, which is rolled back."""
    connection = db.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"set role {role}")
            yield cursor
    finally:
        connection.close()


# ---- viewers -----------------------------------------------------------------------------------------

MAY_WRITE = (
    "array(select p.proname from pg_proc p where p.pronamespace = 'deferred'::regnamespace "
    "and p.provolatile = 'v' and has_function_privilege(%s, p.oid, 'execute') order by 1)"
)


@pytest.mark.parametrize("role", ["deferred_viewer", "deferred_reader"])
def test_a_transaction_that_a_viewer_leaves_open_holds_no_lock_that_housekeeping_needs(db, role):
    # What cannot write cannot lock a row either. A function that is new here belongs into the calls below.
    assert db.one(f"select {MAY_WRITE}::text[]", role) == ["__age_s", "__fold_kept", "schedule_next"]
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at) "
        "values (1, 1, 'ok', true, now() - interval '3 seconds')"
    )
    db.sql("update deferred.__deferred_folded set folded_to = now() - interval '1 minute', sampled_at = '-infinity'")
    db.sql(
        "drop table deferred.__deferred_log_"
        + db.one("select to_char(date_trunc('week', now() at time zone 'UTC') + interval '3 weeks', 'YYYYMMDD')")
    )
    with acting(db, role) as viewer:
        viewer.execute(
            "select deferred.__fold_kept(), deferred.__age_s(now()), (select count(*) "
            "from deferred.schedule_next('@daily'))"
        )
        assert viewer.fetchone()[0] is False
        held = (
            "select count(*) from pg_locks l where l.pid = %s and l.mode <> 'AccessShareLock' "
            "and l.relation is not null"
        )
        assert db.one(held, viewer.connection.info.backend_pid) == 0
        viewer.execute("select pg_advisory_lock(hashtextextended('deferred.maintain', 0))")  # as anybody may
        assert db.sql("select attempts, busy from deferred.__fold()") == [(1, False)]
        assert db.one("select count(*) from deferred.__deferred_depth") > 0
        assert db.one("select deferred.maintain()") == 1
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            viewer.execute("select * from deferred.__fold()")


# ---- producers ---------------------------------------------------------------------------------------

FIRST_LIMITED = "select deferred.defer('f', '{}', '{\"concurrency_key\": \"k\"}', 'q1')"


@pytest.fixture
def roles(db):
    """Two producers and an operator, each its own role: functions ask who acts."""
    names = {}
    for name, group in (("one", "deferred_producer"), ("two", "deferred_producer"), ("oper", "deferred_operator")):
        names[name] = f"{name}_{db.name}"
        db.sql(f"create role {names[name]} in role {group}")
    yield names
    db.sql("".join(f"drop owned by {role}; drop role {role};" for role in names.values()))


def refused_at_once(db, role, call):
    """The message of a call that gives up soon, for a lock that somebody holds; it names the holder."""
    with acting(db, role) as cursor:
        cursor.execute("set lock_timeout = '100ms'")  # the shorter of this and the function's own limit holds
        with pytest.raises(psycopg2.errors.LockNotAvailable) as refused:
            cursor.execute(call)
        return refused.value.diag.message_primary


def done(db, role, *calls):
    """Calls that wait for no lock at all, if only for a moment."""
    with acting(db, role) as cursor:
        cursor.execute("set lock_timeout = '1ms'")
        for call in calls:
            cursor.execute(call)
        cursor.connection.commit()
        return cursor.fetchone()[0]


@pytest.mark.parametrize(
    "held",
    [
        "select deferred.schedule('x', '@daily', 'f')",
        FIRST_LIMITED,
        "select deferred.defer_many('[{\"fn\": \"f\", \"queue\": \"q1\", \"concurrency_key\": \"k\"}]')",
        "select deferred.schedule_pause('own'), deferred.schedule_resume('own'), deferred.unschedule('own')",
        "select deferred.defer('f', '{}', null, 'new')",
        "select deferred.cancel(JOB)",
    ],
)
def test_a_transaction_that_a_producer_leaves_open_holds_up_nobody_else(db, roles, held):
    db.sql("insert into deferred.__deferred_queue (name) values ('q1')")
    job = done(
        db,
        roles["one"],
        "select deferred.schedule('own', '@hourly', 'f')",
        "select deferred.defer('f', '{}', null, 'q1')",
    )
    done(db, roles["two"], "select deferred.schedule('runaway', 'every 1s', 'f')")
    with acting(db, roles["one"]) as open_one:
        open_one.execute(held.replace("JOB", str(job)))
        done(
            db,
            roles["two"],
            FIRST_LIMITED,
            "select deferred.defer('f', '{}', null, 'q1')",
            "select deferred.schedule('y', '@daily', 'f')",
            "select deferred.schedule_pause('runaway')",
            "select deferred.schedule_resume('runaway')",
            "select deferred.unschedule('y')",
        )
        assert (
            done(db, roles["oper"], "select deferred.__act('pause', null, null, 'ann', null, null, 'runaway')") is None
        )
        assert done(db, roles["oper"], "select deferred.__act('pause', null, 'q1', 'ann', null)") is None
        assert done(db, roles["oper"], "select deferred.__act('resume', null, 'q1', 'ann', null)") is None
        # And no worker: the claims of limited jobs, ticks, and what is deferred for an alert.
        assert done(db, "deferred_worker", "select deferred.__limited_jobs('{q1}')") is True
        done(
            db,
            "deferred_worker",
            "select deferred.__claim_aside('q1', array[0], null)",
            "select deferred.__tick(10)",
            "select deferred.maintain()",
        )
    # What was rolled back with it does not hide what others did.
    assert db.one("select deferred.__limited_jobs('{q1}')") is True


def test_an_alert_is_deferred_while_a_producer_is_adding_its_queue(db, roles):
    with acting(db, roles["one"]) as open_one:
        open_one.execute("select deferred.defer('f', '{}', null, 'alert')")
        assert db.one("select deferred.__alert_job('alert', 'deferred-alert', '{}', 'l', null, 2)") > 0
        assert db.one("select count(*) from deferred.__deferred_hot where queue = 'alert'") == 1


@pytest.mark.parametrize(
    "held, call, kind, waiting",
    [
        (
            "select deferred.defer('f', '{}', null, 'new')",
            "select deferred.defer('f', '{}', null, 'new')",
            "queue 'new'",
            "two",
        ),
        (
            "select deferred.schedule('new', '@daily', 'f')",
            "select deferred.schedule('new', '@daily', 'f')",
            "schedule 'new'",
            "two",
        ),
        ("select deferred.schedule_pause('own')", "select deferred.schedule_pause('own')", "schedule 'own'", "one"),
    ],
)
def test_who_waits_for_a_transaction_that_stays_open_is_told_whose_it_is(db, roles, held, call, kind, waiting):
    done(db, roles["one"], "select deferred.schedule('own', '@hourly', 'f')")
    with acting(db, roles["one"]) as open_one:
        open_one.execute(held)
        said = refused_at_once(db, roles[waiting], call)
        pid = open_one.connection.info.backend_pid
        assert said.startswith(
            f"{kind} is locked by process {pid} of role '{pg_user(open_one)}', in a transaction open since 2"
        )


def test_an_operator_who_waits_is_refused_with_the_holder_named(db, roles):
    job = done(
        db,
        roles["one"],
        "select deferred.schedule('own', '@hourly', 'f')",
        "select deferred.defer('f', '{}', null, 'q1')",
    )
    with acting(db, roles["one"]) as open_one:
        open_one.execute(f"select deferred.schedule_pause('own'), deferred.cancel({job})")
        pid = open_one.connection.info.backend_pid
        for act, object_ in (
            ("'pause', null, null, 'ann', null, null, 'own'", "schedule 'own'"),
            (f"'cancel', {job}, null, 'ann', null", f"job {job}"),
        ):
            with acting(db, roles["oper"]) as oper:
                oper.execute("set lock_timeout = '100ms'")
                oper.execute(f"select deferred.__act({act})")
                assert oper.fetchone()[0].startswith(f"{object_} is locked by process {pid} of role ")
                oper.execute("show lock_timeout")
                assert oper.fetchone() == ("100ms",)
    with acting(db, roles["one"]) as limits:
        limits.execute("select deferred.schedule_pause('own'), current_setting('lock_timeout')")
        assert limits.fetchone()[1] == "0", "the rest of the transaction waits as long as it did"


def pg_user(cursor):
    cursor.execute("select session_user")
    return cursor.fetchone()[0]


def test_the_least_tick_of_schedules_is_known_whoever_commits_first(db, roles):
    def least():
        return db.one(
            "select min(next_tick) = (select min(next_at) from deferred.__deferred_schedule) "
            "from deferred.__deferred_state"
        )

    with acting(db, roles["one"]) as late:
        late.execute("select deferred.schedule('late', '@hourly', 'f')")
        done(db, roles["two"], "select deferred.schedule('first', '@daily', 'f')")
        assert least()
        db.sql("select deferred.__tick(10)")  # deletes the note of the one, and does not see the other
        assert db.one("select count(*) from deferred.__deferred_state") == 1
        late.connection.commit()
    assert least() and db.one("select count(*) from deferred.__deferred_state") == 2
    db.sql("select deferred.__tick(10)")
    assert least() and db.one("select count(*) from deferred.__deferred_state") == 1
    # An earlier tick that others see goes before the later one is committed.
    with acting(db, roles["one"]) as later:
        later.execute("select deferred.schedule('later', '@monthly', 'f')")
        db.sql("select deferred.unschedule('late'), deferred.unschedule('first')")
        db.sql("select deferred.__tick(10)")
        assert db.one("select next_tick from deferred.__deferred_state") == datetime.datetime.max.replace(
            tzinfo=datetime.timezone.utc
        )
        later.connection.commit()
    assert least()


# ---- workers -----------------------------------------------------------------------------------------

WORKER = (
    "insert into deferred.__deferred_worker (instance, host, pid, version, {columns}cnt, runners, mode) "
    "values ('h:/z#1.1@b', 'z', 1, 'v', {values}0, 0, 'loop')"
)
LEASE = (
    "insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone, claimed_at, expires_at) "
    "values ('default', 1, 1, '{{1}}', '[1,1]', '1:1:', true, {claimed}, {expires})"
)
PLACE = (
    "insert into deferred.__deferred_cursor values ('default', 0, {seq}, {snap}, {snap}, {xid}, {id}, '{{}}', '{{}}')"
)
LIMIT = (
    "insert into deferred.__deferred_limit (kind, queue, name, running, tokens, tokens_at) "
    "values ('queue', 'limited', '', {running}, {tokens}, {at})"
)
FORGED = [
    *(
        WORKER.format(columns="started_at, seen_at, ", values=f"'{at}', '{at}', ")
        for at in ("infinity", "-infinity", "9000-01-01")
    ),
    WORKER.format(columns="queues, ", values="array[null, repeat('q', 100000)], "),
    *(
        f"update deferred.__deferred_worker set seen_at = '{at}', ended_at = null"
        for at in ("infinity", "-infinity", "9000-01-01")
    ),
    LEASE.format(claimed="'-infinity'", expires="'infinity'"),
    LEASE.format(claimed="now()", expires="'infinity'"),
    LEASE.format(claimed="'0001-01-01'", expires="'9999-01-01'"),
    PLACE.format(seq=2**63 - 1, snap="'1:1:'", xid="'1'", id=1),
    PLACE.format(seq=2**63 - 1, snap="'1:1:'", xid="'1'", id=1)
    + ", ('default', 0, 1, '1:1:', '1:1:', '1', 1, '{}', '{}') on conflict do nothing",
    PLACE.format(seq=2**63 - 2, snap="'1:1:'", xid="null", id=2**63 - 1),
    PLACE.format(
        seq=2**63 - 1, snap="'18446744073709551615:18446744073709551615:'", xid="'18446744073709551615'", id=1
    ),
    *(
        LIMIT.format(running=running, tokens=tokens, at=at)
        for running, tokens, at in (
            ("'{}'", "0", "'infinity'"),
            ("'{}'", "0", "'9000-01-01'"),
            ("'{}'", "'-infinity'", "now()"),
            ("'{}'", "'NaN'", "now()"),
            ("'{null, 1}'", "-1e308", "'0001-01-01'"),
        )
    ),
    "insert into deferred.__deferred_offer (host, origin, catalog, seen_at, fn, plugin, timeout_ms, max_attempts) "
    "values ('z', 'z', 1, 'infinity', '{null}', '{}', '{1, 2}', '{}')",
    "select deferred.__offer('z', 'z', 1, '{null, f}', '{}', '{-1, 9223372036854775807}', '{2147483647}')",
    "insert into deferred.__deferred_ended (id, what, not_before) values (1, 'o', 'infinity')",
    "insert into deferred.__deferred_ended (id, what, xid) values (1, 'o', '18446744073709551615')",
    "insert into deferred.__deferred_ended (id, what, upto) values (9223372036854775807, 'l', -9223372036854775808)",
    "insert into deferred.__deferred_progress values (1, 1, 9223372036854775807, -1, 't', 'infinity')",
    "insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at, started_at, wait_us, run_us, "
    "max_rss_kb) "
    "values (1, 2147483647, 'failed', true, 'infinity', '-infinity', 'NaN', 'infinity', '-infinity')",
    "update deferred.__deferred_hot set attempt = 2147483647, attempt_base = -2147483648, max_attempts = 1 "
    "where fn = 'echo'",
    "update deferred.__deferred_hot set attempt = 2147483647, attempt_base = 2147483647, suspect = true "
    "where fn = 'echo'",
    "update deferred.__deferred_hot set visible_at = '-infinity', max_attempts = -2147483648, "
    "params_bytes = 2147483647 where fn = 'echo'",
    "update deferred.__deferred_hot set visible_at = 'infinity', due_at = '-infinity', params_bytes = -2147483648 "
    "where fn = 'echo'",
    "insert into deferred.__deferred_limited values (null), ('nowhere')",
]


@pytest.mark.parametrize("forged", FORGED)
def test_one_row_that_a_worker_forges_stops_no_other_worker_and_blinds_nobody(db, forged):
    """It is refused, or does no harm: jobs are run, also those of a limited queue, and all that looks goes on."""
    db.sql("select deferred.__queue_set('limited', '{\"rate\": 1000, \"burst\": 9}', true)")
    db.sql("update deferred.__deferred_upkeep set alerts_at = '2000-01-01'")
    assert db.run(["check_deferred", "--cnt", "1"]).returncode == 0
    db.defer("echo")  # one that the forger may harm
    jobs = [db.defer("noop"), db.defer("noop", queue="limited")]
    with acting(db, "deferred_worker") as worker:
        try:
            worker.execute(forged)
            worker.connection.commit()
        except (
            psycopg2.errors.CheckViolation,
            psycopg2.errors.NotNullViolation,
            psycopg2.errors.InsufficientPrivilege,
            psycopg2.errors.NumericValueOutOfRange,
        ):
            worker.connection.rollback()
    done = db.run(["check_deferred", "--cnt", "0"])
    assert done.returncode == 0 and not re.search(r"error: (?!job 1: )", done.stderr), done.stderr
    db.sql("update deferred.__deferred_lease set expires_at = now() where receipt <> 1")  # that of LEASE
    assert db.one("select count(*) from deferred.__lost(null, 'lost', 3)") <= 1
    for job in jobs:
        assert [outcome for _, outcome in db.log(job) if outcome == "ok"] == ["ok"], done.stderr
    for words in (
        ["status"],
        ["--json", "status"],
        ["metrics"],
        ["alert", "--print"],
        ["functions"],
        ["ls"],
        ["ls", "--running"],
        ["why", "--all"],
        ["fold"],
    ):
        looked = db.run(["deferred", *words])
        assert looked.returncode in (0, 1) and "ERROR" not in looked.stderr and "deferred: " not in looked.stderr, (
            words,
            looked.stderr,
        )
    # Nor does it hide that nobody serves a queue.
    db.sql("update deferred.__deferred_worker set ended_at = seen_at where ended_at is null and host <> 'z'")
    db.defer("noop")
    db.sql(
        "delete from deferred.__deferred_depth; insert into deferred.__deferred_depth "
        "values (now(), 'default', 1, 0, 0, false, 100000, false)"
    )
    db.sql("update deferred.__deferred_folded set sampled_at = (select max(at) from deferred.__deferred_depth)")
    db.sql("update deferred.__deferred_upkeep set alerts_at = '2000-01-01'")
    db.run(["deferred", "alert", "--print"])
    assert (
        db.one(
            "select count(*) from deferred.__deferred_alert where cause in ('late', 'unserved') and name = 'default'"
        )
        == 1
    )
