"""What one role can do to others: locks that it leaves held, and rows that it forges."""

import contextlib
import datetime

import psycopg2
import pytest


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

MAY_WRITE = "array(select p.proname from pg_proc p where p.pronamespace = 'deferred'::regnamespace and p.provolatile = 'v' and has_function_privilege(%s, p.oid, 'execute') order by 1)"


@pytest.mark.parametrize("role", ["deferred_viewer", "deferred_reader"])
def test_a_transaction_that_a_viewer_leaves_open_holds_no_lock_that_housekeeping_needs(db, role):
    # What cannot write cannot lock a row either. A function that is new here belongs into the calls below.
    assert db.one(f"select {MAY_WRITE}::text[]", role) == ["__advice_note", "__fold_kept", "schedule_next"]
    db.sql("insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at) values (1, 1, 'ok', true, now() - interval '3 seconds')")
    db.sql("update deferred.__deferred_folded set folded_to = now() - interval '1 minute', sampled_at = '-infinity'")
    db.sql("drop table deferred.__deferred_log_" + db.one("select to_char(date_trunc('week', now() at time zone 'UTC') + interval '3 weeks', 'YYYYMMDD')"))
    with acting(db, role) as viewer:
        viewer.execute("select deferred.__fold_kept(), (select count(*) from deferred.schedule_next('@daily')), "
                       "deferred.__advice_note('q', 1, 1, 1, array['l'], 1, 1, 1, 1, 1, 1, 1, 1, 1)")
        assert viewer.fetchone()[0] is False
        held = db.sql("select distinct l.relation::regclass::text from pg_locks l where l.pid = %s and l.mode <> 'AccessShareLock' and l.relation is not null", viewer.connection.info.backend_pid)
        assert {name for name, in held if not name.endswith(("_pkey", "_id_seq"))} == {"__deferred_advice"}
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


@pytest.mark.parametrize("held", ["select deferred.schedule('x', '@daily', 'f')", FIRST_LIMITED,
                                  "select deferred.defer_many('[{\"fn\": \"f\", \"queue\": \"q1\", \"concurrency_key\": \"k\"}]')",
                                  "select deferred.schedule_pause('own'), deferred.schedule_resume('own'), deferred.unschedule('own')",
                                  "select deferred.defer('f', '{}', null, 'new')", "select deferred.cancel(JOB)"])
def test_a_transaction_that_a_producer_leaves_open_holds_up_nobody_else(db, roles, held):
    db.sql("insert into deferred.__deferred_queue (name) values ('q1')")
    job = done(db, roles["one"], "select deferred.schedule('own', '@hourly', 'f')", "select deferred.defer('f', '{}', null, 'q1')")
    done(db, roles["two"], "select deferred.schedule('runaway', 'every 1s', 'f')")
    with acting(db, roles["one"]) as open_one:
        open_one.execute(held.replace("JOB", str(job)))
        done(db, roles["two"], FIRST_LIMITED, "select deferred.defer('f', '{}', null, 'q1')", "select deferred.schedule('y', '@daily', 'f')",
             "select deferred.schedule_pause('runaway')", "select deferred.schedule_resume('runaway')", "select deferred.unschedule('y')")
        assert done(db, roles["oper"], "select deferred.__act('pause', null, null, 'ann', null, null, 'runaway')") is None
        assert done(db, roles["oper"], "select deferred.__act('pause', null, 'q1', 'ann', null)") is None
        assert done(db, roles["oper"], "select deferred.__act('resume', null, 'q1', 'ann', null)") is None
        # And no worker: the claims of limited jobs, ticks, and what is deferred for an alert.
        assert done(db, "deferred_worker", "select deferred.__limited_jobs('{q1}')") is True
        done(db, "deferred_worker", "select deferred.__claim_aside('q1', array[0], null)", "select deferred.__tick(10)", "select deferred.maintain()")
    # What was rolled back with it does not hide what others did.
    assert db.one("select deferred.__limited_jobs('{q1}')") is True


def test_an_alert_is_deferred_while_a_producer_is_adding_its_queue(db, roles):
    with acting(db, roles["one"]) as open_one:
        open_one.execute("select deferred.defer('f', '{}', null, 'alert')")
        assert db.one("select deferred.__alert_job('alert', 'deferred-alert', '{}', 'l', null, 2)") > 0
        assert db.one("select count(*) from deferred.__deferred_hot where queue = 'alert'") == 1


@pytest.mark.parametrize("held, call, kind, waiting", [
    ("select deferred.defer('f', '{}', null, 'new')", "select deferred.defer('f', '{}', null, 'new')", "queue 'new'", "two"),
    ("select deferred.schedule('new', '@daily', 'f')", "select deferred.schedule('new', '@daily', 'f')", "schedule 'new'", "two"),
    ("select deferred.schedule_pause('own')", "select deferred.schedule_pause('own')", "schedule 'own'", "one")])
def test_who_waits_for_a_transaction_that_stays_open_is_told_whose_it_is(db, roles, held, call, kind, waiting):
    done(db, roles["one"], "select deferred.schedule('own', '@hourly', 'f')")
    with acting(db, roles["one"]) as open_one:
        open_one.execute(held)
        said = refused_at_once(db, roles[waiting], call)
        pid = open_one.connection.info.backend_pid
        assert said.startswith(f"{kind} is locked by process {pid} of role {pg_user(open_one)}, in a transaction open since 2")


def test_an_operator_who_waits_is_refused_with_the_holder_named(db, roles):
    job = done(db, roles["one"], "select deferred.schedule('own', '@hourly', 'f')", "select deferred.defer('f', '{}', null, 'q1')")
    with acting(db, roles["one"]) as open_one:
        open_one.execute(f"select deferred.schedule_pause('own'), deferred.cancel({job})")
        pid = open_one.connection.info.backend_pid
        for act, object_ in (("'pause', null, null, 'ann', null, null, 'own'", "schedule 'own'"), (f"'cancel', {job}, null, 'ann', null", f"job {job}")):
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
        return db.one("select min(next_tick) = (select min(next_at) from deferred.__deferred_schedule) from deferred.__deferred_state")

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
        assert db.one("select next_tick from deferred.__deferred_state") == datetime.datetime.max.replace(tzinfo=datetime.timezone.utc)
        later.connection.commit()
    assert least()
