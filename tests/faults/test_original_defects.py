"""The defects of the implementation this one replaces, each as a test that would have found it.

Its order is that of the list the project keeps of them. Where the same thing is tested more thoroughly
elsewhere, this file has the shortest form of it. Number 17, mail, is in test_mail.py.
"""

import json
import os
import signal

import psycopg2
import pytest

import pg
from harness import ledger, wait_for


def check(db, *args, code=0, **kw):
    done = db.run(["check_deferred", *args], **kw)
    assert done.returncode == code, done.stderr
    return done


def claimed(db):
    return db.sql("select 1 from deferred.__held")


def stop(run):
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0, run.output()


@pytest.mark.parametrize("text", ["{pid}", "-1", "{pid} 1", "$(touch {dir}/pwned)", "1; touch {dir}/pwned"])
def test_defect_01_text_of_the_pidfile_reaches_no_kill_and_no_shell(db, text):
    bystander = db.spawn(["sleep", "1000"])
    with open(db.pidfile, "w") as f:
        f.write(text.format(pid=bystander.pid, dir=db.dir))
    os.chmod(db.pidfile, 0o600)
    check(db)
    assert bystander.alive() and not os.path.exists(db.dir + "/pwned")
    ledger(db)


def test_defect_02_two_launches_at_once_do_not_both_pass_and_no_link_is_followed(db):
    db.sql("select deferred.defer('sleep', '{\"ms\": 60000}') from generate_series(1, 2)")
    runs = [db.spawn(["check_deferred", "--if-running=skip", "--grace", "100ms"]) for _ in range(6)]
    wait_for(lambda: sum(r.alive() for r in runs) == 1, 30)
    stop([r for r in runs if r.alive()][0])
    assert sorted(r.wait(1) for r in runs) == [0] + [75] * 5
    victim = db.dir + "/victim"
    with open(victim, "w") as f:
        f.write("precious")
    os.rename(db.pidfile, db.pidfile + ".old")
    os.symlink(victim, db.pidfile)
    check(db, code=77)
    with open(victim) as f:
        assert f.read() == "precious"
    ledger(db)


def test_defect_03_an_old_process_does_not_remove_its_successors_pidfile(recorded):
    db, runs = recorded.db, []
    jobs = recorded.defer(3, ms=60000)
    for n in range(3):
        runs.append(db.spawn(["check_deferred", "--grace", "100ms"]))
        wait_for(lambda: len(recorded.starts()) == n + 1, 20)
        with open(db.pidfile) as f:
            assert int(f.read()) == runs[n].pid
    assert [r.alive() for r in runs] == [False, False, True]
    stop(runs[2])
    assert db.hot() == len(jobs)
    ledger(db)


def test_defect_04_a_takeover_asks_first_and_leaves_no_child_behind(db):
    db.defer("sleep", '{"ms": 60000}')
    first = db.spawn(["check_deferred", "--grace", "100ms"])
    children = wait_for(lambda: claimed(db) and db.orphans())
    second = db.spawn(["check_deferred", "--grace", "100ms"])
    assert first.wait(20) == 0  # by SIGTERM and its own exit, not by SIGKILL
    assert not any(pg.running(p) for p in children)
    wait_for(lambda: claimed(db), 20)
    stop(second)
    ledger(db)


def test_defect_05_a_restart_frees_only_its_own_jobs(db):
    other_job = db.defer("sleep", '{"ms": 60000}', queue="other")
    other = db.spawn(["check_deferred", "--queue", "other", "--pidfile", db.dir + "/other", "--grace", "100ms"])
    claim = wait_for(lambda: db.held(other_job))
    db.defer("noop")
    check(db, "--queue", "default")
    check(db, "--queue", "default")
    assert db.held(other_job) == claim
    stop(other)
    assert len(db.log(other_job)) <= 1
    ledger(db)


def test_defect_06_recording_a_timeout_touches_no_other_log_row(db):
    done = [db.defer("noop") for _ in range(10)]
    check(db, "--cnt", "0")
    before = db.sql("select * from deferred.__deferred_log order by job_id")
    late = db.defer("sleep", '{"ms": 60000}', timeout="200ms", max_attempts=1)
    check(db)
    assert db.sql("select * from deferred.__deferred_log where job_id = any(%s) order by job_id", done) == before
    assert db.log(late) == [(1, "timeout")]
    ledger(db)


def test_defect_07_two_instances_do_not_pick_the_same_job(recorded):
    db = recorded.db
    jobs = recorded.defer(60, ms=5)
    runs = [
        db.spawn(["check_deferred", "--cnt", "0", "--batch", "3", "--pidfile", f"{db.dir}/pid{i}"]) for i in range(3)
    ]
    assert [r.wait(60) for r in runs] == [0, 0, 0]
    assert len(recorded.starts()) == 60
    recorded.assert_all_ok(jobs)


def test_defect_08_a_pick_counts_nothing_and_scans_nothing(db):
    """The plan is held by test_database.py; here: the buffers a claim touches do not grow with the
    queue. The second claim of a connection, for the first one reads the catalog; and not among so
    few jobs that the indexes have a level less."""

    def buffers():
        connection = db.connect()
        with connection.cursor() as cursor:
            cursor.execute("prepare s as " + pg.source("session_setup"))
            cursor.execute("execute s('60000')")
            cursor.execute("prepare c as " + pg.source("job_claim"))
            for _ in range(2):
                cursor.execute(
                    "explain (analyze, buffers, format json) execute c(null, 100, 100, 1, 60000, 3, null, 1, "
                    "16777216, '{}', '{}', 1, 1000, null)"
                )
                plan = cursor.fetchone()[0][0]["Plan"]
        connection.rollback()
        connection.close()
        return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]

    def fill(n):
        db.sql(
            f"select deferred.__enqueue_many(array_fill('noop'::text, array[{n}]), array_fill('{{}}'::json, "
            f"array[{n}])," + ",".join(["null"] * 14) + ")"
        )

    fill(3000)
    small = buffers()
    fill(60000)
    assert buffers() < small + 30


def test_defect_09_jobs_that_vanish_under_a_claim_leave_no_trace_of_no_job(db):
    db.sql("select deferred.defer('noop') from generate_series(1, 400)")
    run = db.spawn(["check_deferred", "--cnt", "0", "--batch", "5"])
    wait_for(lambda: db.log() or not run.alive())
    db.sql("select deferred.cancel(id) from deferred.__deferred_hot")
    assert run.wait(60) == 0, run.output()
    assert (
        db.sql(
            """select l.job_id from deferred.__deferred_log l left join deferred.__deferred d on d.id = l.job_id
                     where d.id is null"""
        )
        == []
    )
    assert {o for _, _, o in db.log()} <= {"ok", "cancelled"}
    ledger(db)


@pytest.mark.parametrize("fn", ["system", "execve", "dlopen", "exit", "deferred_plugin", "main"])
def test_defect_10_a_row_cannot_name_code_that_no_plugin_offers(db, fn):
    job = db.defer(fn, json.dumps("touch " + db.dir + "/pwned"))
    check(db)
    assert db.log(job) == [] and db.hot() == 1
    assert not os.path.exists(db.dir + "/pwned")
    ledger(db)


@pytest.mark.parametrize("fn", ["sys tem", "`id`", "a;b", "../x", "", "x" * 128, "naïve"])
def test_defect_10_a_name_that_is_no_name_is_refused(db, fn):
    with pytest.raises(psycopg2.DataError):
        db.defer(fn)


def test_defect_11_a_job_is_stored_whole_or_not_at_all(db):
    """The second insert fails: the first is gone too."""
    db.sql("alter table deferred.__deferred add constraint no_label check (label is distinct from 'half') not valid")
    with pytest.raises(psycopg2.IntegrityError):
        db.defer("noop", label="half")
    assert db.sql(
        "select (select count(*) from deferred.__deferred), (select count(*) from deferred.__deferred_hot)"
    ) == [(0, 0)]
    ledger(db)


@pytest.mark.parametrize("error", ["0", "", "some text", "\n"])
def test_defect_12_a_failed_job_stays_whatever_its_error_says(db, error):
    job = db.defer("fail", json.dumps({"error": error}))
    check(db)
    assert db.log(job) == [(1, "failed")]
    assert db.hot() == 1
    ledger(db)


def test_defect_13_success_and_removal_are_one_transaction(db):
    """The hot row cannot be removed: then there is no success in the log either, and the reverse."""
    job = db.defer("noop")
    db.sql(
        """create function public.no() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
              create trigger no before delete on deferred.__deferred_hot for each row execute function public.no()"""
    )
    db.run(["check_deferred"], env={"DEFERRED_RECONNECT": "1s"})
    assert "ok" not in [o for _, o in db.log(job)] and db.hot() == 1
    db.sql("drop trigger no on deferred.__deferred_hot")
    db.sql("update deferred.__deferred_hot set due_at = clock_timestamp() where due_at is not null")
    db.sql("update deferred.__deferred_lease set expires_at = clock_timestamp()")
    check(db, "--cnt", "0")
    assert [o for _, o in db.log(job)].count("ok") == 1
    ledger(db)


@pytest.mark.parametrize("fn, params", [("exit0", "{}"), ("segv", "{}"), ("hang", "{}")])
def test_defect_14_a_job_that_exits_crashes_or_hangs_does_not_take_the_others_along(db, fn, params):
    db.plugins("unruly")
    db.defer(fn, params, timeout="300ms", max_attempts=1, priority=1)
    good = [db.defer("noop") for _ in range(5)]
    check(db, "--cnt", "0")
    assert [db.log(j) for j in good] == [[(1, "ok")]] * 5
    ledger(db)


def test_defect_15_a_failing_job_does_not_use_up_the_run(db):
    bad = db.defer("fail", priority=1)
    good = [db.defer("noop") for _ in range(4)]
    check(db, "--cnt", "5")
    assert db.log(bad) == [(1, "failed")]  # and then it has to wait
    assert [db.log(j) for j in good] == [[(1, "ok")]] * 4
    ledger(db)


def test_defect_16_a_defer_does_no_ddl_ids_are_64_bit_and_long_names_are_refused(db):
    db.sql("select setval('deferred.__deferred_id_seq', 5000000000)")
    before = db.one("select count(*) from pg_class")
    job = db.defer("noop")
    assert job > 2**32 and db.one("select count(*) from pg_class") == before
    check(db)
    assert db.log(job) == [(1, "ok")]
    for option in {"queue": "q" * 89}, {"label": "l" * 1001}, {"key": "k" * 1001}:
        with pytest.raises(psycopg2.Error):
            db.defer("noop", **option)
    ledger(db)


def test_defect_16_params_are_not_printed(db):
    db.defer("fail", '{"password": "s3cret", "error": "no"}')
    db.defer("crash", '{"password": "s3cret", "signal": 11}')
    done = check(db, "--cnt", "0")
    assert "s3cret" not in done.stdout + done.stderr
    ledger(db)


def test_defect_16_there_is_retention(db):
    db.defer("noop")
    check(db)
    done = db.run(["deferred", "purge", "--older-than", "0s", "--dead-older-than", "0s"])
    assert done.returncode == 0, done.stderr
    assert db.log() == []
