"""What one role can do to others: locks that it leaves held, and rows that it forges."""

import contextlib

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
