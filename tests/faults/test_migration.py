"""A migration that dies: nothing of it stays, and the next one does all of it."""

import contextlib
import signal
import subprocess
import time

import pytest

from harness import ledger, wait_for

# Tags of statements at which a migration stops until it is let go on: the tables come first, views last.
POINTS = {"tables": "CREATE INDEX", "functions": "CREATE FUNCTION", "views": "CREATE VIEW"}
STATE = """
    select (select coalesce(max(version), 0) from deferred.__deferred_migration),
           (select count(*) from pg_proc where pronamespace = 'deferred'::regnamespace),
           (select count(*) from pg_class where relnamespace = 'deferred'::regnamespace),
           (select array_agg(checksum order by name) from deferred.__deferred_source)"""

SESSIONS = "select 1 from pg_stat_activity where application_name = 'deferred' and datname = current_database()"


@contextlib.contextmanager
def stopped(db, tag):
    """A `deferred migrate` that waits in the middle of its transaction, at a statement with that tag."""
    db.sql(
        f"""create function public.wait() returns event_trigger language plpgsql as
            $$ begin perform pg_advisory_xact_lock_shared(38); end $$;
            create event trigger wait on ddl_command_end when tag in ('{tag}') execute function public.wait();"""
    )
    with contextlib.closing(db.connect()) as holder:
        holder.cursor().execute("select pg_advisory_lock(38)")
        migrate = db.spawn(["deferred", "--lock-timeout", "0", "migrate"])
        waits = "select 1 from pg_locks where locktype = 'advisory' and not granted"
        wait_for(lambda: db.sql(waits) or not migrate.alive(), what="a migration that waits")
        assert migrate.alive(), migrate.output()
        yield migrate


def go_on(db):
    """The session of a program that died notices that it is alone."""
    db.sql("drop event trigger wait; drop function public.wait()")
    wait_for(lambda: not db.sql(SESSIONS), what="the end of the session")


def die(db, migrate, victim):
    if victim == "server":
        db.kill()
        assert migrate.wait(20) == 69, migrate.output()
        db.start()
    else:
        migrate.signal(signal.SIGKILL)
        migrate.wait(20)


def assert_whole(db):
    assert db.run(["deferred", "migrate"]).returncode == 0
    job = db.defer("noop")
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0 and db.log(job) == [(1, "ok")]
    ledger(db)


@pytest.mark.parametrize("victim", ["migrate", "server"])
@pytest.mark.parametrize("point", POINTS)
def test_of_a_first_migration_that_dies_nothing_stays(own_server, point, victim):
    db = own_server
    db.sql("drop schema deferred cascade")
    with stopped(db, POINTS[point]) as migrate:
        die(db, migrate, victim)
    go_on(db)
    assert db.one("select to_regnamespace('deferred')") is None
    assert_whole(db)


@pytest.mark.parametrize("victim", ["migrate", "server"])
@pytest.mark.parametrize("point", ["functions", "views"])
def test_of_a_later_migration_that_dies_nothing_stays(own_server, point, victim):
    db = own_server
    db.sql("create function deferred.gone() returns int language sql as 'select 1'")
    db.sql("update deferred.__deferred_source set checksum = 'older'")
    before = db.sql(STATE)
    with stopped(db, POINTS[point]) as migrate:
        die(db, migrate, victim)
    go_on(db)
    assert db.sql(STATE) == before
    assert_whole(db)
    assert db.one("select count(*) from deferred.__deferred_source where checksum = 'older'") == 0
    assert db.sql("select 1 from pg_proc where proname = 'gone'") == []


def test_a_migration_killed_at_any_time_is_done_or_not_begun(own_server, rng):
    """Also while the transaction is being committed, and before its first statement."""
    db, done, took = own_server, 0, None
    for _ in range(12):
        db.sql("update deferred.__deferred_source set checksum = 'older'")
        began = time.monotonic()
        migrate = db.spawn(["deferred", "migrate"])
        with contextlib.suppress(subprocess.TimeoutExpired):
            migrate.process.wait(took and 1.3 * took * rng.random())
        took = took or time.monotonic() - began
        migrate.kill()
        wait_for(lambda: not db.sql(SESSIONS), what="the end of the session")
        older, of = db.sql(
            "select count(*) filter (where checksum = 'older'), count(*) from deferred.__deferred_source"
        )[0]
        assert older in (0, of)
        done += older == 0
    print(f"{done} of 12 were done")
    assert done > 0  # the first is not killed
    assert_whole(db)
