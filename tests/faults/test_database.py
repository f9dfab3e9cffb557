"""The server and the way to it: rows D1 to D6, D11, D13, D14, D17 and D22 of the fault matrix."""

import concurrent.futures
import contextlib
import os
import re
import signal
import threading
import time

import psycopg2
import pytest

import harness
import pg
from harness import ledger, wait_for
from proxy import Proxy

QUICK = 'interval_floor = "50ms"\ninterval_ceiling = "100ms"\n'


def check(db, *args, code=0, **kw):
    done = db.run(["check_deferred", *args], **kw)
    assert done.returncode == code, done.stderr
    return done


def forget_leases(db):
    """What is claimed still is free at once, as if the leases had ended. Only after all workers are gone."""
    db.sql("update deferred.__deferred_lease set expires_at = clock_timestamp()")


def stops_at_seeded_moments(recorded, rng, stops, jobs):
    db = recorded.db
    db.config('reconnect = "20s"\n')
    ids = recorded.defer(jobs, ms=2)
    run = None
    for _ in range(stops):
        if db.hot() < 20:
            ids += recorded.defer(40, ms=2)
        if run is None or not run.alive():
            run = db.spawn(["check_deferred", "--cnt", "0", "--batch", "10"])
        seen = len(recorded.lines())
        wait_for(lambda: len(recorded.lines()) >= seen + rng.randrange(1, 30) or not run.alive(), 30)
        if rng.random() < 0.5:
            db.stop("immediate")
        else:
            db.kill()
        db.start()
    assert run.wait(90) in (0, 69), run.output()
    wait_for(lambda: not db.orphans(), 20)
    forget_leases(db)
    recorded.drain()
    recorded.assert_all_ok(ids, lost=True)


@pytest.mark.slow
def test_d1_a_server_stopped_and_killed_again_and_again_loses_nothing(own_server, recorded_on, rng):
    stops_at_seeded_moments(recorded_on(own_server), rng, 3, 120)


@pytest.mark.long
def test_d1_thirty_stops(own_server, recorded_on, rng):
    stops_at_seeded_moments(recorded_on(own_server), rng, 30, 600)


@pytest.mark.parametrize("turn", range(2, 9))
def test_d2_an_answer_that_is_lost_on_the_way_loses_no_job_and_repeats_none_that_was_recorded(recorded, cluster, turn):
    db = recorded.db
    db.config('reconnect = "5s"\n')
    ids = recorded.defer(30)
    with Proxy(cluster) as proxy:
        proxy.drop_reply = turn
        done = db.run(
            ["check_deferred", "--cnt", "0", "--batch", "8"], env={"DEFERRED_DB": proxy.conninfo(db.name)}, timeout=60
        )
        assert done.returncode in (0, 69), done.stderr
        assert proxy.turns >= turn, "the run made fewer turns than that"
    # A run that found its server again has recorded what it had in hand, and given back what it could not know of.
    assert done.returncode == 69 or (db.hot() == 0 and {outcome for _, _, outcome in db.log()} == {"ok"})
    forget_leases(db)
    recorded.drain()
    recorded.assert_all_ok(ids)
    # A job whose success was stored is not run again because nobody heard of it.
    assert len(recorded.starts()) <= 30 + 8


@pytest.mark.parametrize("turn", range(1, 5))
def test_d2_a_defer_with_a_key_can_be_repeated_when_its_answer_was_lost(db, cluster, turn):
    with Proxy(cluster) as proxy:
        proxy.drop_reply = turn
        first = db.run(
            ["deferred", "add", "noop", "{}", "--key", "once"], env={"DEFERRED_DB": proxy.conninfo(db.name)}, timeout=60
        )
        assert first.returncode in (0, 69), first.stderr
        proxy.drop_reply = None
        again = db.run(
            ["deferred", "add", "noop", "{}", "--key", "once"], env={"DEFERRED_DB": proxy.conninfo(db.name)}, timeout=60
        )
        assert again.returncode == 0, again.stderr
    assert db.one("select count(*) from deferred.__deferred") == 1
    check(db, "--cnt", "0")
    assert db.log(int(again.stdout)) == [(1, "ok")]
    ledger(db)


@pytest.mark.slow
def test_d1_results_that_are_lost_with_the_server_are_named(own_server, recorded_on):
    db, recorded = own_server, recorded_on(own_server)
    db.config('reconnect = "2s"\n')
    (ends,) = recorded.defer(1, ms=1000)
    (goes_on,) = recorded.defer(1, ms=60000)
    run = db.spawn(["check_deferred", "--cnt", "0", "--runners", "2"])
    wait_for(lambda: len(recorded.starts()) == 2)
    db.stop("immediate")
    assert run.wait(60) == 69, run.output()
    assert f"warning: job {ends} record attempt 1: its result (ok) could not be recorded" in run.output(), run.output()
    assert f"warning: job {goes_on} record attempt 1: stopped" in run.output(), run.output()
    assert run.output().count("because the connection is lost") == 2, run.output()


def terminated_sessions(recorded, jobs, times):
    db = recorded.db
    db.config('reconnect = "20s"\n')
    ids = recorded.defer(jobs, ms=5)
    run = db.spawn(["check_deferred", "--cnt", "0", "--batch", "10"])
    for _ in range(times):
        seen = len(recorded.lines())
        wait_for(lambda: len(recorded.lines()) > seen + 10 or not run.alive(), 30)
        db.sql(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
            "and pid <> pg_backend_pid()"
        )
    assert run.wait(120) == 0, run.output()
    forget_leases(db)
    recorded.drain()
    recorded.assert_all_ok(ids)
    return len(recorded.starts()) - jobs


def test_d3_terminated_sessions_are_opened_again(recorded):
    terminated_sessions(recorded, 150, 5)


@pytest.mark.long
def test_d3_forty_terminated_sessions(recorded):
    assert terminated_sessions(recorded, 1500, 40) <= 75  # 95 % of the executions were not in vain


def test_d4_a_worker_cut_off_kills_its_runners_before_its_lease_ends(recorded, cluster):
    db = recorded.db
    db.config('reconnect = "2s"\n')
    (job,) = recorded.defer(1, ms=15000)
    with Proxy(cluster) as proxy:
        lonely = db.spawn(
            ["check_deferred", "--lease", "3s"], env={"DEFERRED_DB": proxy.conninfo(db.name, tcp_user_timeout=1000)}
        )
        wait_for(lambda: recorded.starts(job))
        runners = db.orphans()
        assert runners
        proxy.swallow = True
        wait_for(lambda: not any(pg.running(p) for p in runners), 20, "the runner was killed")
        assert db.held(job), "too late: the lease had ended"
        wait_for(lambda: not db.held(job), 20)
        other = db.spawn(["check_deferred", "--pidfile", db.dir + "/other", "--timeout", "300ms"])
        wait_for(lambda: len(recorded.starts(job)) == 2, 20)
        assert other.wait(30) == 0
        proxy.swallow = False
        proxy.cut()
        assert lonely.wait(30) in (0, 69), lonely.output()
    assert db.log(job) == [(1, "timeout")]
    assert recorded.overlaps() == []
    ledger(db)


def test_d5_a_connection_cut_while_idle_costs_nothing(recorded, cluster):
    db = recorded.db
    jobs = recorded.defer(3, ms=700)
    with Proxy(cluster) as proxy:
        proxy.idle_s = 0.2
        check(db, "--cnt", "0", env={"DEFERRED_DB": proxy.conninfo(db.name)})
        assert proxy.cuts >= 1
    assert [db.log(j) for j in jobs] == [[(1, "ok")]] * 3
    recorded.assert_all_ok(jobs)


@pytest.fixture
def pooler(db):
    return harness.start_pooler(db)[1]


def test_d6_behind_a_transaction_pooler_all_is_the_same(recorded, pooler):
    db = recorded.db
    direct, db.env["DEFERRED_DB"] = db.env["DEFERRED_DB"], pooler
    db.config('backoff_floor = "1ms"\nbackoff_ceiling = "1ms"\n')
    jobs = recorded.defer(200)
    bad = db.defer("fail", '{"error": "no"}', max_attempts=2)
    added = db.run(["deferred", "add", "noop", "{}", "--key", "k"])
    assert added.returncode == 0, added.stderr
    runs = [
        db.spawn(["check_deferred", "--cnt", "0", "--batch", "10", "--pidfile", f"{db.dir}/pid{i}"]) for i in range(4)
    ]
    assert [r.wait(60) for r in runs] == [0] * 4, [r.output() for r in runs]
    recorded.drain()
    assert db.log(bad) == [(1, "failed"), (2, "failed")]
    assert db.log(int(added.stdout)) == [(1, "ok")]
    assert len(recorded.starts()) == 200
    db.env["DEFERRED_DB"] = direct
    recorded.assert_all_ok(jobs)


def test_d6_a_statement_that_is_missing_in_housekeeping_is_sent_anew(db):
    """As behind a pooler: what was prepared is not there, for the session is another one."""
    db.config(QUICK)
    run = db.spawn(["check_deferred", "--loop"])
    first = db.defer("noop")
    wait_for(lambda: db.log(first), 20)
    run.kill()
    # The successor closes the row of the one before; what it sends next is housekeeping.
    db.sql(
        """
        create function public.lose() returns trigger language plpgsql as $$
        begin
            execute 'deallocate session_setup';
            return new;
        end $$;
        create trigger lose before update of ended_at on deferred.__deferred_worker
        for each row execute function public.lose()"""
    )
    run = db.spawn(["check_deferred", "--loop"])
    second = db.defer("noop")
    wait_for(lambda: db.log(second) or not run.alive(), 20)
    db.sql("drop trigger lose on deferred.__deferred_worker")
    assert run.alive(), run.output()
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0
    assert "housekeeping failed" not in run.output()
    ledger(db)


def test_d6_a_statement_that_is_missing_beside_the_cycle_is_sent_anew(db):
    """As behind a pooler, each time something was recorded."""
    db.config(QUICK)
    db.sql(
        """
        create function public.lose() returns trigger language plpgsql as $$
        begin
            if exists (select from pg_prepared_statements where name = 'job_patience') then
                execute 'deallocate job_patience';
            end if;
            return new;
        end $$;
        create trigger lose before insert on deferred.__deferred_log for each row execute function public.lose();
        select deferred.schedule('s', 'every 1s', 'noop')"""
    )
    run = db.spawn(["check_deferred", "--loop"])
    wait_for(lambda: len(db.log()) >= 4 or not run.alive(), 30)
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0
    assert "does not exist" not in run.output()
    ledger(db)


def test_d6_a_service_behind_a_transaction_pooler_polls_and_says_so(recorded, pooler):
    db = recorded.db
    db.config('interval_floor = "50ms"\ninterval_ceiling = "100ms"\n')
    run = db.spawn(["check_deferred", "--loop", "--listen"], env={"DEFERRED_DB": pooler})
    wait_for(lambda: "a pooler is between this worker and the server" in run.output() or not run.alive(), 20)
    jobs = recorded.defer(20)
    wait_for(lambda: db.hot() == 0, 20)
    # Nothing of a session is left behind in the pooler's connections.
    held = """select count(*) from pg_locks where locktype = 'advisory'
              and database = (select oid from pg_database where datname = current_database())"""
    assert db.one(held) == 0
    # One who defers behind a pooler wakes one who listens without.
    direct = db.spawn(
        [
            "check_deferred",
            "--loop",
            "--listen",
            "--queue",
            "other",
            "--interval-floor",
            "1min",
            "--interval-ceiling",
            "1min",
            "--pidfile",
            db.dir + "/direct",
        ]
    )
    wait_for(lambda: db.one(held) > 0, 20)
    assert db.run(["deferred", "add", "noop", "--queue", "other"], env={"DEFERRED_DB": pooler}).returncode == 0
    wait_for(lambda: db.hot() == 0, 20)
    for r in run, direct:
        r.signal(signal.SIGTERM)
        assert r.wait(20) == 0, r.output()
    assert run.output().count("a pooler is between this worker") == 1
    recorded.assert_all_ok(jobs)


def test_a_rule_behind_a_transaction_pooler_leaves_nothing_in_the_sessions_of_others(db, pooler):
    db.sql("create table doc as select i as id from generate_series(1, 1000) i")
    query = "select id, set_config('search_path', 'nowhere', false) as p from doc"
    assert db.run(["deferred", "--db", pooler, "rule", "add", "r", "noop", query, "--key", "id"]).returncode == 0
    for _ in range(3):
        assert db.run(["deferred", "--db", pooler, "rule", "run", "r"]).returncode == 0
        for _ in range(4):
            shown = harness.run(
                [
                    "psql",
                    "-XAtc",
                    "show search_path",
                    "-c",
                    "select count(*) from pg_proc where pronamespace = pg_my_temp_schema()",
                    "-d",
                    pooler,
                ]
            )
            assert shown.stdout == '"$user", public\n0\n'
    assert db.hot() == 1000


@pytest.mark.parametrize("sqlstate", ["57014", "55P03", "40P01", "40001"])
@pytest.mark.parametrize(
    "table, event", [("__deferred_log", "insert"), ("__deferred_lease", "insert")], ids=["finish", "claim"]
)
def test_d11_a_statement_refused_for_the_moment_is_sent_again_and_costs_no_attempt(recorded, sqlstate, table, event):
    db = recorded.db
    jobs = recorded.defer(10)
    db.sql(
        f"""
        create sequence public.injected;
        create function public.inject() returns trigger language plpgsql security definer as $$
        begin
            if nextval('public.injected') <= 3 then raise exception using errcode = '{sqlstate}',
            message = 'injected'; end if;
            return new;
        end $$;
        create trigger inject before {event} on deferred.{table} for each row execute function public.inject()"""
    )
    check(db, "--cnt", "0")
    assert db.one("select last_value from public.injected") > 3
    assert [db.log(j) for j in jobs] == [[(1, "ok")]] * 10
    assert len(recorded.starts()) == 10
    recorded.assert_all_ok(jobs)


@pytest.mark.slow
def test_d11_results_are_kept_until_their_lease_ends(db):
    """Longer than a cycle is repeated: a full disk is not the fault of a job."""
    db.plugins("unruly")
    follows = db.defer("defer_more", '{"n": 1}', max_attempts=1)
    echo = db.defer("echo", '{"x": 1}', max_attempts=1)
    db.sql(
        """
        create table public.until as select clock_timestamp() + interval '9 s' as t;
        grant select on public.until to public;
        create function public.inject() returns trigger language plpgsql as $$
        begin
            if clock_timestamp() < (select t from public.until) then raise exception using errcode = '53100',
            message = 'disk full'; end if;
            return new;
        end $$;
        create trigger inject before insert on deferred.__deferred_log for each row execute function public.inject()"""
    )
    done = check(db, "--cnt", "0", "--runners", "2")
    assert [r[1:] for r in db.log()] == [(1, "ok")] * 3 and db.log(follows), done.stderr
    assert db.one("select result::json ->> 'x' from deferred.__deferred_log where job_id = %s", echo) == "1"
    assert (
        done.stderr.count("attempt 1: its result (ok) waits to be recorded: disk full") == 2
        and "lost" not in done.stderr
    )
    ledger(db)


def test_a_call_into_a_full_queue_fails_the_attempt_and_holds_up_no_other(db):
    db.plugins("unruly")
    db.config(QUICK)
    for queue in (["default", "--max-length", "5", "--on-full", "error"], ["other"]):
        assert db.run(["deferred", "queue", "set", *queue, "--create"]).returncode == 0
    run = db.spawn(["check_deferred", "--loop"])
    bad = db.defer("defer_more", '{"n": 10}', queue="other", max_attempts=1)
    wait_for(lambda: db.log(bad), 20)
    good = db.defer("noop", queue="other")
    wait_for(lambda: db.log(good), 20)
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0
    assert db.log(bad) == [(1, "failed")] and db.log(good) == [(1, "ok")]
    assert "is full" in db.one("select error from deferred.__deferred_log where job_id = %s", bad)
    ledger(db)


@pytest.mark.slow
def test_rows_that_an_open_transaction_has_locked_do_not_hide_those_behind_them(db):
    db.sql("select count(deferred.defer('noop')) from generate_series(1, 4000)")
    holder = db.connect()
    with holder.cursor() as cursor:  # all that a claim looks at, and more
        cursor.execute("select id from deferred.__deferred_hot order by id limit 1500 for update")
        locked = {r[0] for r in cursor}
    check(db, "--cnt", "0")
    assert {r[0] for r in db.sql("select id from deferred.__deferred_hot")} == locked
    holder.rollback()
    holder.close()
    db.sql("select deferred.__repair()")  # more than a thousand are not kept in mind until the next maintenance
    check(db, "--cnt", "0")
    assert db.hot() == 0
    ledger(db)


@contextlib.contextmanager
def cancelled_not_committed(db, *jobs):
    """The rows of these jobs are locked, as by somebody who cancels them and thinks it over."""
    holder = db.connect()
    with holder.cursor() as cursor:
        for job in jobs:
            cursor.execute("select deferred.cancel(%s)", (job,))
            assert cursor.fetchall() == [(True,)]
        yield
    holder.rollback()
    holder.close()


def claimed(db, *jobs):
    return [r[0] for r in db.sql("select id from deferred.__held where id = any(%s) order by id", list(jobs))]


def test_a_locked_job_that_is_to_be_given_back_costs_nobody_a_lease(db):
    db.config(QUICK)
    run = db.spawn(["check_deferred", "--loop", "--lease", "3s"])
    db.sql("select count(deferred.defer('noop')) from generate_series(1, 500)")
    wait_for(lambda: db.hot() == 0)  # jobs are short: more than one is claimed ahead
    long, *others = [
        r[0]
        for r in db.sql(
            """
        select deferred.defer(case i when 0 then 'sleep' else 'noop' end, '{"ms": 5000}',
        json_build_object('priority', 10 - i))
        from generate_series(0, 5) i"""
        )
    ]
    kept = wait_for(lambda: claimed(db, *others))[-1]
    with cancelled_not_committed(db, kept):
        wait_for(lambda: claimed(db, *others) == [kept], 5, "the others are given back")
        wait_for(lambda: db.log(long) == [(1, "ok")], 20)
        wait_for(lambda: db.hot() == 1, 20, "the others are done")
    wait_for(lambda: db.hot() == 0, 20)
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0
    assert "leases could not be renewed" not in run.output()
    assert [db.log(j) for j in others if j != kept] == [[(1, "ok")]] * 4
    ledger(db)


@pytest.mark.slow
def test_a_lease_that_cannot_be_renewed_costs_its_own_job_only(db):
    db.config(QUICK)
    run = db.spawn(["check_deferred", "--loop", "--runners", "3", "--lease", "3s"])
    jobs = [db.defer("sleep", '{"ms": 5000}', max_attempts=1) for _ in range(3)]
    wait_for(lambda: claimed(db, *jobs) == jobs)
    with contextlib.closing(db.connect()) as holder, holder.cursor() as cursor:
        cursor.execute("select from deferred.__deferred_lease where ids = array[%s]::bigint[] for update", (jobs[0],))
        assert cursor.rowcount == 1
        wait_for(lambda: "interrupted" in run.output(), 20, "one is killed")
        assert db.hot() == 3
        wait_for(lambda: db.log(jobs[1]) == db.log(jobs[2]) == [(1, "ok")], 20)
        holder.rollback()
    wait_for(lambda: db.log(jobs[0])[:1] in ([(1, "lost")], [(1, "interrupted")]), 20)
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0
    assert run.output().count("leases could not be renewed") == 1, run.output()
    ledger(db)


def test_a_job_whose_row_is_locked_keeps_its_lease(db):
    """Somebody cancels it, and thinks better of it."""
    db.config(QUICK)
    job = db.defer("sleep", '{"ms": 5000}', max_attempts=1)
    run = db.spawn(["check_deferred", "--cnt", "1", "--lease", "3s"])
    wait_for(lambda: claimed(db, job))
    with cancelled_not_committed(db, job):
        time.sleep(4)
        assert claimed(db, job)
    assert run.wait(20) == 0
    assert db.log(job) == [(1, "ok")]
    ledger(db)


@pytest.mark.slow
def test_results_that_meet_a_lock_hold_up_no_others(db):
    db.config(QUICK)
    run = db.spawn(["check_deferred", "--loop", "--runners", "4"])
    held = [db.defer("sleep", '{"ms": 600}') for _ in range(3)]
    wait_for(lambda: claimed(db, *held) == held)
    with cancelled_not_committed(db, *held):
        others = [
            r[0] for r in db.sql("""select deferred.defer('sleep', '{"ms": 50}') from generate_series(1, 200) i""")
        ]
        # 4 at a time, 2.5 s without the lock; and a batch that meets it costs one try of a second.
        wait_for(lambda: db.hot() == len(held), 30, "the others are done")
    wait_for(lambda: db.hot() == 0, 20)
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0
    assert {(j, 1, "ok") for j in held + others} == set(db.log()), run.output()
    assert "cannot be recorded" not in run.output()
    ledger(db)


def test_a_result_that_meets_a_lock_is_refused_when_its_lease_ends(db):
    db.config(QUICK)
    job = db.defer("sleep", '{"ms": 300}')
    run = db.spawn(["check_deferred", "--cnt", "1", "--lease", "2s"])
    with cancelled_not_committed(db, *wait_for(lambda: claimed(db, job))):
        assert run.wait(20) == 0
        assert "result (ok) refused: the lease had ended" in run.output()
    check(db, "--cnt", "0")
    assert db.log(job) == [(1, "ok")]
    assert (
        db.one(
            "select count(*) from deferred.__deferred_worker w join deferred.__deferred_log l on l.worker = w.id "
            "where w.pid = %s",
            run.pid,
        )
        == 0
    )


def hand_out(db, *queues):
    """These lanes have a place, and no maintenance is due, which would take that of an empty lane away."""
    db.sql("select deferred.maintain()")
    for queue in queues:
        db.defer("noop", queue=queue)
    check(db, "--cnt", "0")


@contextlib.contextmanager
def lane_locked(db, queue):
    """As by a claim that does not come to its end."""
    with contextlib.closing(db.connect()) as holder, holder.cursor() as cursor:
        cursor.execute("select from deferred.__deferred_cursor where queue = %s for update", (queue,))
        assert cursor.rowcount == 1
        yield
        holder.rollback()


def test_a_lane_that_somebody_does_not_let_go_holds_up_no_other(db):
    db.config(QUICK)
    for queue in "stuck", "free":
        assert db.run(["deferred", "queue", "set", queue, "--create"]).returncode == 0
    hand_out(db, "stuck", "free")
    with lane_locked(db, "stuck"):
        ids = [
            r[0]
            for r in db.sql(
                """select deferred.defer('noop', '{}', json_build_object('queue', q))
                                       from generate_series(1, 500), unnest('{stuck,free}'::text[]) q"""
            )
        ]
        runs = [db.spawn(["check_deferred", "--loop", "--pidfile", f"{db.dir}/p{i}"]) for i in range(3)]
        wait_for(lambda: db.one("select count(*) from deferred.__deferred_hot where queue = 'free'") == 0)
        assert db.hot() == 500
    wait_for(lambda: db.hot() == 0)
    for run in runs:
        run.signal(signal.SIGTERM)
        assert run.wait(20) == 0
    assert db.one(
        "select count(*) from deferred.__deferred_log where outcome = 'ok' and attempt = 1 and job_id = any(%s)", ids
    ) == len(ids)
    ledger(db)


@pytest.mark.slow
def test_a_lane_is_not_waited_for_longer_than_the_shortest_lease_allows(db):
    db.config(QUICK)
    assert db.run(["deferred", "queue", "set", "brief", "--create", "--visibility-timeout", "3s"]).returncode == 0
    hand_out(db, "default")
    run = db.spawn(["check_deferred", "--loop", "--runners", "40"])
    brief = db.defer("sleep", '{"ms": 6000}', queue="brief", max_attempts=1)
    wait_for(lambda: claimed(db, brief))
    with lane_locked(db, "default"):
        db.sql("""select count(deferred.defer('sleep', '{"ms": 100}')) from generate_series(1, 100)""")
        wait_for(lambda: db.log(brief), 20)
    wait_for(lambda: db.hot() == 0, 20)
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0
    assert db.log(brief) == [(1, "ok")], run.output()
    ledger(db)


@pytest.mark.slow
def test_d13_a_server_without_a_free_connection_is_not_hammered(own_server, recorded_on):
    db = own_server
    db.cluster.stop()
    with open(os.path.join(db.cluster.data, "postgresql.conf"), "a") as f:
        f.write("max_connections = 12\nautovacuum = off\n")
    db.start()
    recorded = recorded_on(db)
    db.config('reconnect = "4s"\n')
    ids = recorded.defer(200, ms=10)
    with Proxy(db.cluster) as proxy:
        run = db.spawn(["check_deferred", "--cnt", "0", "--batch", "5"], env={"DEFERRED_DB": proxy.conninfo(db.name)})
        wait_for(lambda: recorded.lines())
        idle = []
        with pytest.raises(psycopg2.OperationalError):
            for _ in range(20):
                idle.append(db.connect())
        before = proxy.connections
        proxy.cut()
        with pytest.raises(psycopg2.OperationalError):
            for _ in range(20):
                idle.append(db.connect())
        began = time.monotonic()
        assert run.wait(60) in (0, 69), run.output()
        tries = proxy.connections - before
        assert tries <= 5 * (time.monotonic() - began) + 3, tries
        for c in idle:
            c.close()
    wait_for(lambda: not db.orphans(), 20)
    forget_leases(db)
    recorded.drain()
    recorded.assert_all_ok(ids, lost=True)


def drain_noops(db, jobs):
    """Seconds that a run takes for so many."""
    ids = [r[0] for r in db.sql("select deferred.defer('noop') from generate_series(1, %s)", jobs)]
    began = time.monotonic()
    check(db, "--cnt", "0", timeout=300)
    took = time.monotonic() - began
    assert db.hot() == 0
    assert db.sql(
        "select count(*), count(distinct job_id) from deferred.__deferred_log where outcome = 'ok' "
        "and job_id = any(%s)",
        ids,
    ) == [(jobs, jobs)]
    return took


def scan_until(db, enough, over, scans):
    """Reads all hot jobs twice in each of its snapshots, and gives none back before so many jobs
    are done under it, each of which takes 100 bytes of the log and more."""
    size = (
        "select sum(pg_relation_size(inhrelid))::int8 from pg_inherits "
        "where inhparent = 'deferred.__deferred_log'::regclass"
    )
    reader, other = db.connect(), db.connect()
    reader.set_session(isolation_level="REPEATABLE READ")
    other.autocommit = True
    with contextlib.closing(reader), contextlib.closing(other), reader.cursor() as cursor, other.cursor() as watcher:

        def one(c, query):
            c.execute(query)
            return c.fetchone()[0]

        while not over.is_set():
            before, seen = one(watcher, size), one(cursor, "select count(*) from deferred.__deferred_hot")
            wait_for(lambda: over.is_set() or one(watcher, size) >= before + 100 * enough, 120, "jobs are done")
            scans.append(seen == one(cursor, "select count(*) from deferred.__deferred_hot"))
            reader.commit()


def beside_scanners(db, jobs, enough):
    alone, scans, over = drain_noops(db, jobs), [], threading.Event()
    with concurrent.futures.ThreadPoolExecutor(4) as four:
        scanners = [four.submit(scan_until, db, enough, over, scans) for _ in range(4)]
        try:
            wait_for(
                lambda: db.one(
                    "select count(*) from pg_stat_activity where state = 'idle in transaction' "
                    "and datname = current_database()"
                )
                == 4
            )
            beside = drain_noops(db, jobs)
        finally:
            over.set()
        for s in scanners:
            s.result()
    assert all(scans) and len(scans) >= 4 * jobs // enough // 3
    ledger(db)
    print(
        f"{jobs} jobs: {alone:.1f} s alone, {beside:.1f} s beside 4 scanners (ratio {alone / beside:.2f}), "
        f"{len(scans)} snapshots"
    )


@pytest.mark.slow
def test_d17_claims_go_on_beside_four_snapshots_that_are_always_held(db):
    beside_scanners(db, 10000, 1000)


@pytest.mark.long
def test_d17_claims_go_on_beside_four_scanners_for_long(db):
    beside_scanners(db, 60000, 3000)


SCHEMAS = {
    "newer": "insert into deferred.__deferred_migration (version, name) values (9999, 'of the future')",
    "none at all": "drop schema deferred cascade",
    "older": "delete from deferred.__deferred_migration",
    "missing column": "alter table deferred.__deferred_hot drop column attempt_base cascade",
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_d14_a_schema_that_does_not_fit_is_refused_before_anything_is_claimed(db, kind):
    db.defer("noop")
    db.sql(SCHEMAS[kind])
    done = check(db, code=78)
    if kind == "newer":
        assert "9999" in done.stderr and re.search(r"works with \d+( to \d+)?\b", done.stderr)
    else:
        assert "migrate" in done.stderr or kind == "missing column"
    if kind != "none at all":
        assert db.hot() == 1 and db.sql("select from deferred.__deferred_lease") == []


def test_d14_the_search_path_of_a_role_or_database_changes_nothing(db):
    db.sql(f"alter database {db.name} set search_path = 'evil', 'public'")
    db.sql(
        """create schema evil; create table evil.__deferred_hot (id int);
              create function evil.now() returns timestamptz language sql as $$ select 'infinity'::timestamptz $$"""
    )
    job = db.run(["deferred", "add", "noop"]).stdout
    check(db, "--cnt", "0")
    assert db.log(int(job)) == [(1, "ok")]
    ledger(db)


@pytest.mark.parametrize("state", ["empty", "freshly truncated", "analysed when empty, then filled"])
def test_d22_claims_and_outcomes_use_their_indexes_whatever_the_statistics_say(db, state):
    if state == "freshly truncated":
        db.sql("select deferred.defer('noop') from generate_series(1, 2000)")
        db.sql("analyze deferred.__deferred_hot")
        db.sql("truncate deferred.__deferred_hot, deferred.__deferred")
    elif state != "empty":
        db.sql("analyze deferred.__deferred_hot")
        db.sql("select deferred.defer('noop') from generate_series(1, 5000)")
    with contextlib.closing(db.connect()) as connection, connection.cursor() as cursor:

        def prepare(name):
            cursor.execute(f"prepare pg_catalog_{name} as " + pg.source(name))

        prepare("session_setup")
        cursor.execute("execute pg_catalog_session_setup('60000')")
        for name, arguments in {
            "job_finish": ["'{1,2,3}'", "'{1,2,3}'"] + ["'{}'"] * 12 + ["'{1,2}'"],
            "job_retry": ["'{1,2,3}'", "'{1,2,3}'"] + ["'{}'"] * 14 + ["'{1,2}'"],
            "job_done": ["'{1,2,3}'", "'{1,2,3}'"] + ["'{}'"] * 7 + ["'x'", "'{1,2}'", "'{}'"],
        }.items():
            prepare(name)
            cursor.execute(f"explain execute pg_catalog_{name}({', '.join(arguments)})")
            plan = "\n".join(r[0] for r in cursor.fetchall())
            assert not re.search(r"Seq Scan on __deferred(_hot|_\d+|_default|_lease)?\b", plan), plan
            assert "__deferred_hot_pkey" in plan and "JIT" not in plan, plan
        # What a function does shows in no plan of its call.
        scans = (
            "select sum(seq_scan), sum(idx_scan) from pg_stat_xact_user_tables "
            "where relname in ('__deferred_hot', '__deferred', '__deferred_cursor', '__deferred_lease')"
        )
        prepare("job_claim")
        cursor.execute(scans)
        before = cursor.fetchone()
        cursor.execute(
            "execute pg_catalog_job_claim(null, 100, 100, 1, 60000, 3, null, 1, 16777216, '{}', '{}', 1, 1000, null)"
        )
        claims = len([row for row in cursor if row[0]])
        cursor.execute(scans)
        sequential, by_index = (after - was for after, was in zip(cursor.fetchone(), before))
        assert claims == (100 if state.startswith("analysed") else 0)
        assert sequential == 0 and by_index > 0, (sequential, by_index)


def test_a_claim_leaves_no_multixact_and_no_subtransaction(own_server):
    """D21 in small: what the hot path does not make, wraparound cannot press. The number is that of
    the whole server, so nobody else may use it."""
    db = own_server
    db.sql("select deferred.defer('noop') from generate_series(1, 500)")
    before = db.one("select next_multixact_id from pg_control_checkpoint()")
    check(db, "--cnt", "0", "--batch", "50")
    db.sql("checkpoint")
    assert db.one("select next_multixact_id from pg_control_checkpoint()") == before
    ledger(db)
