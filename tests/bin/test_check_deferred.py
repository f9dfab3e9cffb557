"""check_deferred from outside: what it must hold, its options, its exit codes, its silence."""

import json
import os
import re
import signal
import stat
import subprocess
import time

import pytest

import harness
import pg
from harness import ledger, read_record, unforeseeable, wait_for

LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z check_deferred\[\d+\] (error|warning|info|debug): .+$")


def check(db, *args, code=0, **kw):
    """One run; it has to end with this code, and every line it logs has the documented form."""
    done = db.run(["check_deferred", *args], **kw)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    for line in done.stderr.splitlines():
        assert LOG_LINE.match(line), line
    return done


def defer_recorded(db, fn="record", ms=60000, **opts):
    """A job that says when it begins: read_record(db.dir + "/record")."""
    if "unruly.so" not in os.listdir(db.env["DEFERRED_PLUGIN_DIR"]):
        db.plugins("unruly")
    return db.defer(fn, json.dumps({"file": db.dir + "/record", "ms": ms}), **opts)


def begun(db, n=1):
    """Waits until n executions have begun."""
    wait_for(
        lambda: sum(line[0] == "start" for line in read_record(db.dir + "/record")) >= n,
        20,
        f"{n} executions have begun",
    )


def outcomes(db):
    return dict(db.sql("select outcome, count(*) from deferred.__deferred_log group by 1"))


# ---- what is run, and what is not


@pytest.mark.parametrize("batch", [1, 3])
def test_no_more_than_a_batch_is_claimed_at_once_and_no_runner_goes_without(db, batch):
    for _ in range(8):
        db.defer("sleep", '{"ms": 1500}')
    run = db.spawn(["check_deferred", "--cnt", "0", "--batch", str(batch), "--runners", "8"])
    assert run.wait(30) == 0, run.output()
    claims = [r[0] for r in db.sql("select count(*) from deferred.__deferred_log group by receipt")]
    assert sum(claims) == 8 and max(claims) <= batch, claims
    assert db.one("select max(started_at) < min(finished_at) from deferred.__deferred_log"), "all at the same time"


def test_a_batch_larger_than_the_usual_window_is_claimed_whole(db):
    db.sql("select count(deferred.defer('noop')) from generate_series(1, 12000)")
    run = db.spawn(["check_deferred", "--cnt", "0", "--batch", "1500", "--runners", "8"])
    assert run.wait(60) == 0, run.output()
    claims = [r[0] for r in db.sql("select count(*) from deferred.__deferred_log group by receipt")]
    assert sum(claims) == 12000 and max(claims) == 1500, claims


def test_a_rolled_back_job_never_runs_and_a_committed_one_does(db):
    connection = db.connect()
    with connection.cursor() as cursor:
        cursor.execute("select deferred.defer('noop')")
        connection.rollback()
        cursor.execute("select deferred.defer('echo', '{\"n\": 1}')")
        committed = cursor.fetchone()[0]
        check(db, "--cnt", "0")
        assert db.log() == []  # not committed yet
        connection.commit()
    connection.close()
    check(db, "--cnt", "0")
    assert db.log() == [(committed, 1, "ok")]
    check(db, "--cnt", "0")
    assert db.log() == [(committed, 1, "ok")]
    assert db.one("select result from deferred.__deferred_log") == '{"n": 1}'
    ledger(db)


@pytest.mark.slow
def test_a_start_does_not_walk_over_the_dead_behind_what_was_handed_out(db):
    """A long snapshot keeps them. The first start that claims something learns where they end, and
    leaves that to all others."""

    def dead():
        db.sql("select pg_stat_clear_snapshot()")
        return db.one("select pg_stat_get_dead_tuples('deferred.__deferred_hot'::regclass)")

    def read():
        wait_for(
            lambda: not db.sql(
                "select from pg_stat_activity where datname = current_database() and usename = %s", role
            ),
            20,
            "no start is left",
        )
        db.sql("select pg_stat_clear_snapshot()")
        return db.one("select idx_tup_read from pg_stat_user_indexes where indexrelname = '__deferred_hot_ready'")

    n = 120000
    reader = db.connect()
    reader.set_session(isolation_level="REPEATABLE READ")
    reader.cursor().execute("select count(*) from deferred.__deferred_hot")
    db.sql("select count(*) from deferred.defer_many(%s::json)", json.dumps([{"fn": "noop"}] * n))
    db.sql("delete from deferred.__deferred_hot")
    db.sql("select pg_stat_force_next_flush()")
    wait_for(lambda: dead() >= n, 20)
    role = "t_" + db.name  # it needs no more rights than those of a worker
    db.sql(f"create role {role} login in role deferred_worker")
    worker = {"DEFERRED_DB": db.conninfo + f" user={role}"}
    jobs = [db.defer("noop")]
    check(db, env=worker)
    wait_for(lambda: read() >= n, 20, "the start that has walked over the dead has told so")
    before = read()
    assert check(db, env=worker).stderr == ""
    jobs += [db.defer("noop"), db.defer("noop", queue="mail", priority=7)]
    check(db, "--cnt", "0", env=worker)
    assert db.log() == [(j, 1, "ok") for j in jobs]
    assert read() < before + n / 10
    reader.close()
    db.sql(f"drop role {role}")
    db.sql("delete from deferred.__deferred where id <> all (%s)", jobs)
    ledger(db)


def test_nothing_is_printed_when_nothing_is_due(db):
    db.defer("noop", delay="1h")
    for args in [], ["--cnt", "0"], ["--runners", "4"], ["--queue", "other"]:
        done = db.run(["check_deferred", *args])
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_run_makes_one_attempt_unless_told_otherwise(db):
    for _ in range(5):
        db.defer("noop")
    check(db)
    assert db.hot() == 4
    check(db, "--cnt", "3")
    assert db.hot() == 1
    check(db, "--cnt", "0")
    assert db.hot() == 0
    ledger(db)


@pytest.mark.slow
def test_four_instances_run_each_of_2000_jobs_exactly_once(db):
    db.sql("select deferred.defer('noop', '{}') from generate_series(1, 2000)")
    runs = [
        db.spawn(["check_deferred", "--cnt", "0", "--batch", "20", "--pidfile", f"{db.dir}/pid{i}"]) for i in range(4)
    ]
    assert [r.wait(120) for r in runs] == [0] * 4, [r.output() for r in runs]
    assert outcomes(db) == {"ok": 2000}
    assert db.one("select count(distinct job_id) from deferred.__deferred_log") == 2000
    assert db.hot() == 0
    ledger(db)


def test_a_poison_job_harms_no_other_and_is_dead_after_its_attempts(db):
    db.config('backoff_floor = "1ms"\nbackoff_ceiling = "1ms"\n')
    good = [db.defer("noop") for _ in range(40)]
    poison = db.defer("crash", '{"signal": 11}', max_attempts=3)
    good += [db.defer("noop") for _ in range(40)]
    check(db, "--cnt", "0")
    assert db.sql("select count(*) from deferred.__deferred_log where outcome = 'ok' and job_id = any(%s)", good) == [
        (80,)
    ]
    wait_for(lambda: check(db, "--cnt", "0") and db.hot() == 0, 60, "the poison job used up its attempts")
    assert db.log(poison) == [(1, "crashed"), (2, "crashed"), (3, "crashed")]
    assert db.sql("select distinct signal from deferred.__deferred_log where job_id = %s", poison) == [
        (signal.SIGSEGV,)
    ]
    assert db.one("select state from deferred.job where id = %s", poison) == "dead"
    assert db.run(["deferred", "retry", poison]).returncode == 0
    assert db.one("select state from deferred.job where id = %s", poison) == "ready"
    check(db)
    assert db.log(poison)[3:] == [(4, "crashed")]
    ledger(db)


def test_a_failed_job_is_tried_again_later_and_later(db):
    db.config('backoff_floor = "10s"\nbackoff_exponent = 3\nbackoff_ceiling = "1min"\n')
    job = db.defer("fail", '{"error": "no luck"}', max_attempts=4)
    spans = []
    for n in range(1, 4):
        check(db)
        assert db.log(job) == [(i, "failed") for i in range(1, n + 1)]
        spans.append(
            db.one(
                "select extract(epoch from due_at - clock_timestamp())::float8 from deferred.__deferred_hot "
                "where id = %s",
                job,
            )
        )
        check(db)  # not due
        assert len(db.log(job)) == n
        db.sql("update deferred.__deferred_hot set due_at = clock_timestamp(), visible_at = clock_timestamp()")
    # Of 10, 30 and 60 seconds, give or take the jitter.
    assert 4 < spans[0] <= 15 and 14 < spans[1] <= 45 and 28 < spans[2] <= 75, spans
    check(db)
    assert db.hot() == 0
    assert db.sql("select error, final from deferred.__deferred_log order by attempt") == [("no luck", False)] * 3 + [
        ("no luck", True)
    ]
    ledger(db)


def test_a_function_decides_its_outcome(db):
    dead = db.defer("fail", '{"error": "never", "dead": true}')
    later = db.defer("fail", '{"error": "soon", "retry_after_ms": 600000}')
    check(db, "--cnt", "2")
    assert db.sql("select job_id, outcome, final from deferred.__deferred_log order by 1") == [
        (dead, "failed", True),
        (later, "failed", False),
    ]
    left = db.one(
        "select extract(epoch from due_at - clock_timestamp())::int from deferred.__deferred_hot where id = %s", later
    )
    assert 590 <= left <= 600
    ledger(db)


@pytest.mark.parametrize("ms", [2**63 - 1, 2**62, 400 * 86_400_000])
def test_no_function_puts_its_job_off_for_more_than_a_year(db, ms):
    job = db.defer("fail", '{"retry_after_ms": %d}' % ms)
    check(db)
    assert db.log(job) == [(1, "failed")]
    assert (
        364
        < db.one(
            "select extract(epoch from due_at - clock_timestamp())::float8 / 86400 from deferred.__deferred_hot "
            "where id = %s",
            job,
        )
        <= 365
    )
    ledger(db)


def test_no_receipt_can_be_foretold(db):
    """Whoever knows it can end the job: nothing of it follows from the clock, the seed or the one before."""
    db.sql("select deferred.defer('noop') from generate_series(1, 64)")
    for _ in range(2):
        check(db, "--cnt", "32", "--batch", "1", "--seed", "7")
    assert unforeseeable([r[0] for r in db.sql("select receipt from deferred.__deferred_log")])
    ledger(db)


def test_higher_priorities_go_first_and_queues_are_kept_apart(db):
    low, high = db.defer("noop", priority=-5), db.defer("noop", priority=7)
    mail, other = db.defer("noop", queue="mail"), db.defer("noop", queue="other", priority=100)
    check(db, "--queue", "default")
    assert [r[0] for r in db.log()] == [high]
    check(db, "--queue", "mail", "--queue", "default", "--cnt", "0")
    assert sorted(r[0] for r in db.log()) == sorted([low, high, mail])
    check(db)
    assert [r[0] for r in db.log()][-1] == other
    ledger(db)


def test_a_paused_queue_is_left_alone(db):
    db.defer("noop", queue="mail")
    db.sql("update deferred.__deferred_queue set paused = true where name = 'mail'")
    assert check(db, "--cnt", "0").stderr == ""
    assert db.hot() == 1
    db.sql("update deferred.__deferred_queue set paused = false where name = 'mail'")
    check(db, "--cnt", "0")
    assert db.hot() == 0
    ledger(db)


@pytest.mark.slow
def test_the_choice_is_random_within_the_window_and_a_seed_repeats_it(db, own_server):
    def drawn(d, *args):
        """Positions in the queue of ten jobs of sixty."""
        ids = [d.defer("noop") for _ in range(60)]
        done = d.run(["check_deferred", "--cnt", "10", *args])
        assert done.returncode == 0, done.stderr
        rows = d.sql("select job_id from deferred.__deferred_log where job_id = any(%s)", ids)
        assert d.run(["check_deferred", "--cnt", "0"]).returncode == 0
        return sorted(ids.index(r[0]) for r in rows)

    first = drawn(db, "--seed", "7", "--window", "1000")
    assert max(first) > 15
    # The same ids in another database: the same draw.
    assert drawn(own_server, "--seed", "7", "--window", "1000") == first
    # However many claims it takes, each looks at the first five that are left.
    assert max(drawn(db, "--window", "5")) < 15
    ledger(db)


def test_a_job_that_expired_is_not_started(db):
    job = db.defer("noop", expires="1ms")
    wait_for(lambda: db.one("select expires_at < clock_timestamp() from deferred.__deferred_hot where id = %s", job))
    check(db, "--cnt", "0")
    assert db.log(job) == [(0, "expired")]
    ledger(db)


def test_a_delayed_job_runs_when_it_is_due_and_not_before(db):
    job = db.defer("noop", delay="1h")
    check(db, "--cnt", "0")
    assert db.log(job) == []
    db.sql("update deferred.__deferred_hot set due_at = clock_timestamp(), visible_at = clock_timestamp()")
    check(db, "--cnt", "0")
    assert db.log(job) == [(1, "ok")]
    ledger(db)


def test_params_arrive_byte_for_byte(db):
    texts = [
        '{"n": 9007199254740993, "b": 18446744073709551616, "r": 1.10, "e": 1e2, "z": 1, "a": 2, "a": 3}',
        "[]",
        '"ä€😀"',
        "null",
        ' {"space" :\t1 } ',
        '{"q": "\\u00e4\\"\\\\ \\n"}',
    ]
    jobs = {db.defer("echo", t): t for t in texts}
    check(db, "--cnt", "0")
    assert {i: r for i, r in db.sql("select job_id, result from deferred.__deferred_log")} == jobs
    ledger(db)


def test_an_attempt_leaves_its_figures_in_the_log(db):
    job = db.defer("sleep", '{"ms": 100}')
    check(db)
    run_us, wait_us, rss, plugin, started, finished, worker, receipt, final = db.sql(
        """
        select run_us, wait_us, max_rss_kb, plugin, started_at, finished_at, worker, receipt, final
        from deferred.__deferred_log where job_id = %s""",
        job,
    )[0]
    assert 90_000 <= run_us < 5_000_000 and wait_us >= 0 and rss > 500
    assert plugin.startswith("sample ") and final and receipt is not None
    assert 0.09 <= (finished - started).total_seconds() < 5
    with open("/proc/sys/kernel/random/boot_id") as f:
        boot = f.read().strip()
    st = os.stat(db.pidfile)
    assert db.one(
        "select instance ~ %s from deferred.__deferred_worker where id = %s",
        re.escape(f"{db.pidfile}#{st.st_dev}.{st.st_ino}@{boot}") + "$",
        worker,
    )
    ledger(db)


def test_a_command_of_the_config_file_is_a_function(db):
    db.config(
        '''
function "upper" { command = {"/usr/bin/tr", "a-z", "A-Z"} }
function "no" { command = {"/bin/sh", "-c", "echo it broke >&2; exit 3"} max_attempts = 1 }
function "script" { command = {"/usr/bin/python3", "-S", "-c",
    "import json\\ndef f(): return json.loads('x')\\nf()"} max_attempts = 1 }
'''
    )
    yes, no = db.defer("upper", '{"a": "b"}'), db.defer("no")
    script = db.defer("script")
    done = check(db, "--cnt", "0")
    # The log has the line that says why, the row has all.
    assert f"job {no} no attempt 1: failed: it broke; dead\n" in done.stderr
    assert (
        f"job {script} script attempt 1: failed: json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char "
        f"0); dead\n" in done.stderr
    )
    assert db.one("select error from deferred.__deferred_log where job_id = %s", script).startswith(
        "Traceback (most recent call last):\n"
    )
    assert db.sql("select outcome, result from deferred.__deferred_log where job_id = %s", yes) == [
        ("ok", '{"A": "B"}')
    ]
    outcome, code, error = db.sql(
        "select outcome, exit_code, error from deferred.__deferred_log where job_id = %s", no
    )[0]
    assert (outcome, code) == ("failed", 3) and "it broke" in error
    ledger(db)


def test_a_function_may_cancel_its_job_or_put_it_off_which_is_no_failure(db, ledger):
    """With one attempt each: none of them is dead of it."""
    script = 'function "%s" { command = {"/bin/sh", "-c", "%s"} max_attempts = 1 }'
    db.config(
        "\n".join(
            script % pair
            for pair in (
                ("gone", "echo so far; echo sold out >&2; exit 79"),
                ("later", "echo 90s; echo not yet >&2; exit 75"),
                ("interval", "echo 1 day 00:30:00; exit 75"),
                ("busy", "exit 75"),
                ("wordy", "echo 90s or so; exit 75"),
                ("bare", "echo 90; exit 75"),
                ("failing", "echo 90s; exit 1"),
                ("ever", "echo 400d; exit 75"),
            )
        )
    )
    fail = {
        name: db.defer("fail", json.dumps(params), max_attempts=1, **opts)
        for name, params, opts in (
            ("cancel", {"cancel": True, "error": "no such customer"}, {}),
            ("snooze", {"snooze": True, "retry_after_ms": 60000}, {}),
            ("at once", {"snooze": True, "retry_after_ms": 0}, {"priority": -1}),
            ("usual", {"snooze": True}, {"backoff_floor": "10min"}),
        )
    }
    jobs = {
        **fail,
        **{
            name: db.defer(name, max_attempts=1)
            for name in ("gone", "later", "interval", "busy", "wordy", "bare", "failing", "ever")
        },
    }
    done = check(db, "--cnt", str(len(jobs)))
    rows = {
        name: db.sql(
            "select l.outcome, l.final, l.error, l.exit_code, l.result, j.state, h.attempt, h.attempt_base, "
            "extract(epoch from h.due_at - l.finished_at)::float from deferred.job j join deferred.__deferred_log l "
            "on l.job_id = j.id "
            "left join deferred.__deferred_hot h using (id) where id = %s",
            job,
        )[0]
        for name, job in jobs.items()
    }
    assert rows["cancel"] == ("cancelled", True, "no such customer", None, None, "cancelled", None, None, None)
    assert rows["gone"] == ("cancelled", True, "sold out", 79, "so far", "cancelled", None, None, None)
    due = {
        "snooze": (60, "failed on request", None),
        "at once": (1, "failed on request", None),
        "usual": (600, "failed on request", None),
        "later": (90, "not yet", 75),
        "interval": (88200, "exit status 75", 75),
    }
    for name, (seconds, error, code) in due.items():
        assert rows[name][:5] == ("snoozed", False, error, code, None) and rows[name][6:-1] == (1, 1), name
        assert seconds * 0.79 < rows[name][-1] < seconds + 1, name
    assert {rows[name][5] for name in ("busy", "wordy", "bare", "failing", "ever")} == {"dead"}
    assert f"job {jobs['gone']} gone attempt 1: cancelled by its function: sold out\n" in done.stderr
    assert "12 attempts, 0 ok, 5 failed (0 to be tried again, 5 dead), 2 cancelled, 5 snoozed, " in done.stderr
    assert db.run(["deferred", "run", "fail", '{"cancel": true}']).returncode == 1
    ledger(db)


def test_a_label_cannot_forge_a_log_line(db):
    db.defer("fail", json.dumps({"error": "x\n2026-01-01T00:00:00.000Z check_deferred[1] error: forged"}), label="a\nb")
    check(db)


# ---- stopping


def test_sigterm_lets_a_short_function_finish_and_gives_the_rest_back(db):
    running = defer_recorded(db, ms=400, priority=1)
    rest = [db.defer("noop") for _ in range(20)]
    run = db.spawn(["check_deferred", "--cnt", "0", "--batch", "100", "--grace", "20s"])
    begun(db)
    run.signal(signal.SIGTERM)
    assert run.wait(30) == 0, run.output()
    assert db.log() == [(running, 1, "ok")]
    assert db.sql("select distinct attempt, receipt from deferred.__deferred_hot where id = any(%s)", rest) == [
        (0, None)
    ]
    check(db, "--cnt", "0")
    assert all(db.log(j) == [(1, "ok")] for j in rest)
    ledger(db)


def test_a_function_that_ends_because_it_was_asked_to_is_interrupted_not_failed(db):
    job = defer_recorded(db, "until_stopped")
    run = db.spawn(["check_deferred", "--grace", "20s"])
    begun(db)
    run.signal(signal.SIGTERM)
    assert run.wait(18) == 0, run.output()
    assert db.log(job) == [(1, "interrupted")]
    assert db.one("select state from deferred.job where id = %s", job) == "ready"
    ledger(db)


def test_sigterm_ends_a_function_that_hangs_after_the_grace_period(db):
    job = defer_recorded(db)
    run = db.spawn(["check_deferred", "--grace", "300ms"])
    begun(db)
    began = time.monotonic()
    run.signal(signal.SIGTERM)
    assert run.wait(30) == 0, run.output()
    assert time.monotonic() - began < 10  # of the minute that it would have taken
    assert db.log(job) == [(1, "interrupted")]
    assert db.one("select state from deferred.job where id = %s", job) == "ready"
    ledger(db)


def test_asked_twice_it_grants_no_more_grace(db):
    job = defer_recorded(db)
    run = db.spawn(["check_deferred", "--grace", "50s"])
    begun(db)
    for n in (1, 2):
        run.signal(signal.SIGTERM)
        wait_for(lambda: run.output().count("asked to stop") >= n)
    assert run.wait(10) == 0, run.output()
    assert db.log(job) == [(1, "interrupted")]
    ledger(db)


# ---- the pid file


def test_the_default_pidfile_is_named_after_the_application(db):
    """Not started in earnest: /run belongs to the machine. An unusable folder is named in the message."""
    del db.env["DEFERRED_PIDFILE"]
    db.config('application = "no/such"\n')
    done = db.run(["check_deferred"])
    assert done.returncode in (64, 73, 77, 78) and ("/run/defer_no/such" in done.stderr or "application" in done.stderr)


@pytest.mark.parametrize(
    "program",
    [
        "check_deferred",
        "deferred ls",
        "deferred doctor",
        "deferred schedule sync FILE",
        "deferred_http",
        "deferred_web",
        "mail_call",
    ],
)
def test_no_program_takes_a_variable_that_is_not_set_for_an_empty_setting(db, program):
    """A mail for customers would leave the staging host, as if the setting were not there."""
    db.config('mail {\n    to = "${STAGING_TO}"\n}\n')
    wrong = f"{db.config_file}:2: setting 'mail.to': environment variable STAGING_TO is not set"
    remedy = "set it, or give a default: ${STAGING_TO:-default}"
    if program == "mail_call":
        call = os.path.join(harness.BUILD, "tests", "harness", "mail_call")
        answer = json.loads(db.run([call, '{"to": [["a@x.org", null]], "text": "x"}']).stdout)
        assert (answer["message"], answer["hint"]) == (wrong, remedy)
        return
    env = {}
    if "FILE" in program:
        env["DEFERRED_CONFIG"] = os.path.join(db.dir, "other.conf")
        open(env["DEFERRED_CONFIG"], "w").close()
    done = db.run([w.replace("FILE", db.config_file) for w in program.split()], env=env)
    assert wrong in done.stdout + done.stderr and remedy in done.stdout + done.stderr
    assert done.returncode == (2 if "doctor" in program else 78), done


def test_a_second_start_replaces_the_first(db):
    """Which says once of each function that this may happen to it for ever, and what helps."""
    jobs = [defer_recorded(db) for _ in range(2)]
    first = db.spawn(["check_deferred", "--grace", "200ms", "--cnt", "2", "--runners", "2", "--queue", "default"])
    begun(db, 2)
    second = db.spawn(["check_deferred", "--grace", "200ms"])
    wait_for(lambda: not first.alive(), 20, "the first copy ended")
    assert first.wait(1) == 0
    begun(db, 3)
    assert [db.log(job) for job in jobs] == [[(1, "superseded")]] * 2
    assert second.alive()
    second.signal(signal.SIGTERM)
    second.wait(20)
    who = f" (pidfile {db.pidfile}, queue default)\n"
    (said,) = re.findall(r"warning: (function 'record' .*\n)", first.output())
    gap = float(
        re.match(r"function 'record' may take 600.0 s, but the next start came after (.*) s and ended it: ", said)[1]
    )
    assert gap < 60 and "--if-running=skip" in said and said.endswith(who)
    assert "a new start takes over" + who in first.output() and re.search(
        r"run ended: 2 attempts.* s" + re.escape(who), first.output()
    )
    assert "function 'record'" not in second.output() and second.output().endswith(f" (pidfile {db.pidfile})\n")
    ledger(db)


def test_a_second_start_with_skip_leaves_the_first_alone(db):
    db.defer("sleep", '{"ms": 60000}')
    first = db.spawn(["check_deferred"])
    wait_for(lambda: db.sql("select 1 from deferred.__held"))
    done = check(db, "--if-running=skip", code=75)
    assert done.stderr == ""  # as asked, and no news
    assert first.alive()
    first.signal(signal.SIGTERM)
    first.wait(20)
    ledger(db)


def test_ten_starts_at_once_leave_exactly_one(db):
    db.sql("select deferred.defer('sleep', '{\"ms\": 60000}') from generate_series(1, 3)")
    bystander = db.spawn(["sleep", "1000"])
    with open(db.pidfile, "w") as f:
        f.write(f"{bystander.pid}\n")
    os.chmod(db.pidfile, 0o600)
    runs = [db.spawn(["check_deferred", "--grace", "100ms"]) for _ in range(10)]
    wait_for(lambda: sum(r.alive() for r in runs) == 1, 60, "one of ten is left")
    left = [r for r in runs if r.alive()][0]
    wait_for(lambda: db.sql("select 1 from deferred.__held"), 20, "it works")
    assert sum(r.alive() for r in runs) == 1
    assert bystander.alive()
    with open(db.pidfile) as f:
        assert int(f.read()) == left.pid
    # One that is replaced before it has found work ends by the signal itself.
    assert {r.wait(1) for r in runs if r is not left} <= {0, 75, -signal.SIGTERM}
    left.signal(signal.SIGTERM)
    left.wait(20)
    ledger(db)


def test_a_pidfile_that_names_somebody_elses_process_harms_nobody(db):
    bystander = db.spawn(["sleep", "1000"])
    with open(db.pidfile, "w") as f:
        f.write(f"{bystander.pid}\n")
    os.chmod(db.pidfile, 0o600)
    db.defer("noop")
    check(db)
    assert db.log()[0][2] == "ok"
    assert bystander.alive()
    ledger(db)


def test_the_pidfile_stays_and_is_private(db):
    db.defer("noop")
    check(db)
    assert stat.S_IMODE(os.stat(db.pidfile).st_mode) & 0o077 in (0, 0o044)
    assert os.stat(db.pidfile).st_nlink == 1


@pytest.mark.parametrize(
    "make, code",
    [
        (lambda p: os.symlink(p + ".target", p), 77),
        (lambda p: (open(p, "w").close(), os.chmod(p, 0o660)), 77),
        (lambda p: (open(p, "w").close(), os.chmod(p, 0o602)), 77),
        (lambda p: (open(p + "2", "w").close(), os.link(p + "2", p)), 77),
        (lambda p: os.mkfifo(p, 0o600), 77),
        (lambda p: os.mkdir(p), 77),
        (lambda p: os.mkdir(p, 0o700), 77),
    ],
    ids=["symlink", "group-writable", "world-writable", "two links", "fifo", "folder", "private folder"],
)
def test_a_suspicious_pidfile_is_refused_before_anything_is_done(db, make, code):
    with open(db.pidfile + ".target", "w") as f:
        f.write("precious")
    make(db.pidfile)
    db.defer("noop")
    done = check(db, code=code, timeout=30)
    assert db.pidfile in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert db.hot() == 1 and db.log() == []
    with open(db.pidfile + ".target") as f:
        assert f.read() == "precious"
    ledger(db)


# ---- what is wrong is said, with the documented code


@pytest.mark.parametrize(
    "args, code, says",
    [
        (["--no-such-option"], 64, "no-such-option"),
        (["--cnt", "many"], 64, "many"),
        (["--cnt", "-1"], 64, "-1"),
        (["--cnt"], 64, "cnt"),
        (["--lease", "1 fortnight"], 64, "1 fortnight"),
        (["--if-running=perhaps"], 64, "perhaps"),
        (["--runners", "0"], 64, "0"),
        (["surplus"], 64, "surplus"),
        (["--config", "/nonexistent/deferred.conf"], 78, "/nonexistent/deferred.conf"),
        (["--pidfile", "/nonexistent/pid"], 73, "/nonexistent/pid"),
        (["--plugin-dir", "/nonexistent/plugins"], 78, "/nonexistent/plugins"),
        (["--db", "host=/nonexistent dbname=x"], 69, "/nonexistent"),
        (["--db", "host=127.0.0.1 port=1 dbname=x connect_timeout=2"], 69, "127.0.0.1"),
        (["--db", "nonsense"], 78, "nonsense"),
    ]
    + ([(["--user", "no-such-user"], 78, "no-such-user")] if os.geteuid() == 0 else []),
)
def test_bad_input_has_its_message_and_exit_code(db, args, code, says):
    db.defer("noop")
    done = db.run(["check_deferred", *args], timeout=30)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert says in done.stderr
    assert len(done.stderr.splitlines()) <= 2  # the line, and perhaps a hint
    assert db.hot() == 1 and db.log() == []
    ledger(db)


@pytest.mark.parametrize(
    "text, says",
    [
        ("cnt = 1\ncntt = 2\n", [":2", "cntt"]),
        ('cnt = "x"\n', [":1", "cnt", "x"]),
        ("mail {\n  port = 99999\n}\n", ["mail.port", "99999"]),
        ("mail {\n", [":1", "never closed"]),
    ],
)
def test_a_wrong_config_file_is_refused_with_its_line(db, text, says):
    db.config(text)
    done = check(db, code=78)
    assert all(s in done.stderr for s in [db.config_file, *says]), done.stderr


def test_help_and_version(db):
    version = r"check_deferred 0\.2\.0( \(commit [\w-]+\))?, schema 2\n$"
    for option, says in ("--help", "--pidfile"), ("--version", version):
        done = db.run(["check_deferred", option])
        assert done.returncode == 0 and re.search(says, done.stdout) and done.stderr == ""


def test_a_setting_comes_from_option_then_environment_then_file(db):
    db.config("cnt = 1\n")
    db.sql("select deferred.defer('noop') from generate_series(1, 9)")
    check(db)
    assert db.hot() == 8
    check(db, env={"DEFERRED_CNT": "2"})
    assert db.hot() == 6
    check(db, "--cnt", "3", env={"DEFERRED_CNT": "2"})
    assert db.hot() == 3
    ledger(db)


def test_a_function_unknown_here_is_no_attempt_and_is_reported(db):
    job = db.defer("function_of_elsewhere")
    known = db.defer("noop")
    done = check(db, "--cnt", "0")
    assert "function_of_elsewhere" in done.stderr
    assert db.log(job) == [] and db.log(known) == [(1, "ok")]
    assert db.sql("select attempt, receipt from deferred.__deferred_hot where id = %s", job) == [(0, None)]
    ledger(db)


def test_an_unknown_function_that_uses_up_cnt_is_given_back(db):
    job = db.defer("function_of_elsewhere")
    assert "function_of_elsewhere" in check(db).stderr
    assert db.log(job) == []
    assert db.sql("select attempt, receipt from deferred.__deferred_hot where id = %s", job) == [(0, None)]
    ledger(db)


def test_names_that_nobody_has_do_not_keep_a_worker_busy(db):
    """A producer may think of any number of them. Each claim taught one more, and walked over all."""
    db.sql("select count(deferred.defer('nosuch' || i)) from generate_series(1, 2000) i")
    db.sql(
        "select count(deferred.defer('nosuch', '{}', json_build_object('concurrency_key', i::text))) "
        "from generate_series(1, 50) i"
    )
    job, limited = db.defer("noop"), db.defer("noop", concurrency_key="k")
    done = check(db, "--cnt", "0")
    assert done.stderr.count("this worker does not offer function") < 100
    assert db.log(job) == db.log(limited) == [(1, "ok")]
    assert db.hot() == 2050
    ledger(db)


def test_plugins_that_others_could_have_written_are_refused(db):
    folder = db.plugins()
    db.defer("noop")
    os.chmod(os.path.join(folder, "sample.so"), 0o777)
    assert "sample.so" in check(db, code=77).stderr
    os.chmod(os.path.join(folder, "sample.so"), 0o755)
    os.chmod(folder, 0o777)
    assert folder in check(db, code=77).stderr
    os.chmod(folder, 0o755)
    assert db.log() == []
    check(db)
    assert db.hot() == 0
    ledger(db)


def test_it_works_in_the_bare_environment_of_cron_with_all_descriptors_closed(db):
    job = db.defer("noop")
    program = os.path.join(os.environ.get("DEFERRED_BUILD", "build"), "bin", "check_deferred")
    env = {k: v for k, v in db.env.items() if k.startswith(("DEFERRED_", "ASAN", "UBSAN", "LSAN"))}
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" 0<&- 1>&- 2>&-', os.path.join(pg.TOP, program)], env=env, cwd="/", timeout=60
    )
    assert done.returncode == 0
    assert db.log(job) == [(1, "ok")]
    ledger(db)


def test_it_does_not_matter_which_signals_its_parent_ignores(db):
    """With SIGCHLD ignored the kernel reaps: it never learned that its children had ended."""
    ignored = signal.SIGCHLD, signal.SIGUSR1
    ok, bad = db.defer("noop"), db.defer("crash", max_attempts=1)
    done = db.run(
        ["check_deferred", "--cnt", "0"],
        preexec_fn=lambda: [signal.signal(s, signal.SIG_IGN) for s in ignored],
        timeout=20,
    )
    assert done.returncode == 0, done.stderr
    assert [db.log(ok), db.log(bad)] == [[(1, "ok")], [(1, "crashed")]]
    ledger(db)


def test_signals_that_mean_nothing_to_it_do_not_end_it(db):
    job = db.defer("sleep", '{"ms": 500}')
    run = db.spawn(["check_deferred"])
    wait_for(lambda: db.sql("select 1 from deferred.__held"))
    run.signal(signal.SIGUSR1)
    run.signal(signal.SIGUSR2)
    assert run.wait(20) == 0, run.output()
    assert db.log(job) == [(1, "ok")]
    ledger(db)


def test_what_the_database_will_refuse_again_is_no_server_that_was_lost(db):
    db.defer("noop")
    done = db.run(["check_deferred"], env={"DEFERRED_DB": "nonsense"})
    assert done.returncode == 78 and "invalid connection string" in done.stderr
    role = "t_" + db.name
    db.sql(f"create role {role} login")
    try:
        done = db.run(["check_deferred"], env={"DEFERRED_DB": db.conninfo + f" user={role}"})
        assert (
            done.returncode == 77
            and "permission denied" in done.stderr
            and re.search(r'; hint: grant deferred_worker to "[a-z_0-9]+"\n', done.stderr)
        )
    finally:
        db.sql(f"drop role {role}")
    db.sql(f"alter database {db.name} set default_transaction_read_only = on")
    done = db.run(["check_deferred"])
    assert done.returncode == 69 and "read-only" in done.stderr and "target_session_attrs=read-write" in done.stderr
    assert db.log() == []


@pytest.mark.parametrize("name", ["a b", "-a", ".a", "a/b", "a" * 89, "\u00e4", "a,b c"])
def test_a_name_that_no_queue_can_have_is_refused(db, name):
    done = db.run(["check_deferred", "--queue", name])
    assert done.returncode == 64 and "is invalid" in done.stderr
    db.config(f'queue = "{name}"\n')
    done = db.run(["check_deferred"])
    assert done.returncode == 78 and "is invalid" in done.stderr


def test_a_queue_that_is_not_there_is_named_when_there_is_work(db):
    """At once with --loop. A start with nothing due asks for nothing, and says nothing."""
    args = ["check_deferred", "--queue", " mail , nosuch,a.B-9_"]
    says = r"warning: queue '(.*)' does not exist yet; the first job deferred to it creates it"
    assert db.run(args).stderr == ""
    db.defer("noop", queue="mail")
    db.defer("noop", queue="a.B-9_")
    done = db.run(args)
    assert done.returncode == 0 and re.findall(says, done.stderr) == ["nosuch"], done.stderr
    service = db.spawn([*args, "--loop"])
    wait_for(lambda: re.findall(says, service.output()) == ["nosuch"])
    service.signal(signal.SIGTERM)
    assert service.wait(20) == 0
    ledger(db)


@pytest.mark.slow
def test_the_server_stopped_in_the_middle_of_a_run(own_server):
    db = own_server
    db.config('reconnect = "1s"\n')
    db.sql("select deferred.defer('sleep', '{\"ms\": 20}') from generate_series(1, 200)")
    run = db.spawn(["check_deferred", "--cnt", "0", "--batch", "10"])
    wait_for(lambda: len(db.log()) >= 10, 60)
    db.stop("immediate")
    assert run.wait(60) == 69, run.output()
    assert len([line for line in run.output().splitlines() if " error: " in line]) == 1, run.output()
    db.start()
    db.sql("update deferred.__deferred_lease set expires_at = clock_timestamp()")
    check(db, "--cnt", "0", "--runners", "2")
    assert db.hot() == 0
    assert db.one("select count(*) from deferred.__deferred_log where outcome = 'ok'") == 200
    ledger(db)


def test_a_start_with_nothing_due_writes_nothing(db):
    written = """select sum(n_tup_ins + n_tup_upd + n_tup_del) from pg_stat_user_tables"""
    db.defer("noop", delay="1h")
    db.sql("select pg_stat_force_next_flush()")
    before = db.one(written)
    check(db)
    db.sql("select pg_stat_clear_snapshot()")
    assert db.one(written) == before
    assert db.sql("select 1 from deferred.__deferred_worker") == []
    ledger(db)


def test_a_start_that_finds_work_has_a_runner_load_plugins_while_it_claims(db):
    job = db.defer("noop")
    with db.connect() as other, other.cursor() as c:
        c.execute("lock table deferred.__deferred_worker in exclusive mode")
        run = db.spawn(["check_deferred"])
        wait_for(lambda: pg.children_of(run.pid), 20, "a runner is there")
        assert db.hot() == 1 and run.alive()
    assert run.wait(30) == 0, run.output()
    assert db.sql("select job_id, outcome from deferred.__deferred_log") == [(job, "ok")]
    ledger(db)


def test_the_outcome_texts_of_c_sql_and_the_manual_are_the_same(db):
    with open(os.path.join(pg.TOP, "lib", "base", "job.h")) as f:
        header = f.read()
    words = re.findall(
        r"X\(\w+, \"(\w+)\"\)", header[header.index("#define JOB_OUTCOMES") : header.index("enum job_outcome")]
    )
    constraint = db.one(
        """select pg_get_constraintdef(oid) from pg_constraint
                           where conrelid = 'deferred.__deferred_log'::regclass and contype = 'c'
                           and pg_get_constraintdef(oid) ~ 'outcome'"""
    )
    assert words == re.findall(r"'(\w+)'", constraint)


def test_jobs_taken_for_short_ones_do_not_queue_for_one_runner(db):
    """A runner was given many at once, since those before took no time: the others do not stand idle meanwhile."""
    db.sql("select deferred.defer('noop', '{}', '{\"priority\": 1}') from generate_series(1, 200)")
    db.sql("select deferred.defer('sleep', '{\"ms\": 200}') from generate_series(1, 60)")
    check(db, "--cnt", "0", "--runners", "6")
    # With one runner it would be 1, with six that are there from the first moment 6.
    at_work = """select sum(l.run_us) / 1e6 / extract(epoch from max(l.finished_at) - min(l.started_at))
                 from deferred.__deferred_log l join deferred.__deferred d on d.id = l.job_id where d.fn = 'sleep'"""
    assert db.one(at_work) > 2
    ledger(db)
