"""check_deferred --loop from outside: a service that polls, sleeps, reloads, drains."""

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

import psycopg2
import pytest

import harness
import pg
from harness import SAN, ledger, read_record, wait_for
from proxy import Proxy

QUICK = 'interval_floor = "50ms"\ninterval_ceiling = "100ms"\n'


def service(db, *args, env=None, settings=QUICK, **kw):
    """Start one, and wait until it has looked for work."""
    if settings is not None:
        db.config(settings)
    before = db.one("select coalesce(max(id), 0) from deferred.__deferred_worker")
    started = db.spawn(["check_deferred", "--loop", *args], env=env, **kw)
    looked = "select 1 from deferred.__deferred_worker where id > %s and seen_at > started_at + interval '100 us'"
    wait_for(lambda: not started.alive() or db.sql(looked, before), 20, "it looks for work")
    assert started.alive(), started.output()
    return started


def stop(started, code=0, timeout=30):
    started.signal(signal.SIGTERM)
    assert started.wait(timeout) == code, started.output()


def done(db, *jobs):
    """Waits until these jobs have ended well."""
    ended = "select count(*) from deferred.__deferred_log where outcome = 'ok' and job_id = any(%s)"
    wait_for(lambda: db.one(ended, list(jobs)) == len(jobs), 20, "the jobs are done")


def runners(db):
    return len(db.orphans())


def defer_recorded(db, ms=60000, **opts):
    if "unruly.so" not in os.listdir(db.env["DEFERRED_PLUGIN_DIR"]):
        db.plugins("unruly")
    return db.defer("record", json.dumps({"file": db.dir + "/record", "ms": ms}), **opts)


def begun(db, n=1):
    wait_for(
        lambda: sum(line[0] == "start" for line in read_record(db.dir + "/record")) >= n,
        20,
        f"{n} executions have begun",
    )


@contextlib.contextmanager
def dead_delayed_jobs(db, n):
    """A reader keeps n delayed jobs, which are gone, from being removed: they lie before those that live."""
    reader = db.connect()
    reader.set_session(isolation_level="REPEATABLE READ")
    reader.cursor().execute("select count(*) from deferred.__deferred_hot")
    db.sql("select count(*) from deferred.defer_many(%s::json)", json.dumps([{"fn": "noop", "delay": "1ms"}] * n))
    db.sql("delete from deferred.__deferred_hot")
    yield
    reader.close()


@pytest.mark.long
def test_delayed_jobs_are_not_looked_for_among_the_dead_each_time(db):
    def looks():
        db.sql("select pg_stat_clear_snapshot()")
        return db.sql(
            "select idx_scan, idx_tup_read from pg_stat_user_indexes where indexrelname = '__deferred_hot_delayed'"
        )[0]

    n = 120000
    with dead_delayed_jobs(db, n):
        run = service(db)
        time.sleep(10)  # see MARGIN_US
        job = db.defer("noop", delay="1s")
        done(db, job)
        before = looks()
        wait_for(lambda: looks()[0] > before[0] + 60, 60, "it has looked often")
        scans, reads = (b - a for a, b in zip(before, looks()))
        assert reads < scans * n / 4, (scans, reads)
        assert db.one("select wait_us < 2000000 from deferred.__deferred_log where job_id = %s", job)
        stop(run)


@pytest.mark.long
def test_what_a_long_transaction_has_delayed_for_a_short_time_is_found(db):
    with dead_delayed_jobs(db, 120000):
        run = service(db)
        late = db.connect()
        cursor = late.cursor()
        cursor.execute("select deferred.defer('noop', '{}', '{\"delay\": \"1s\"}')")
        job = cursor.fetchone()[0]
        time.sleep(15)
        late.commit()
        wait_for(lambda: db.log(job) == [(1, "ok")], 70, "it is found by a look at all")
        late.close()
        stop(run)


def waited(db, job):
    """Seconds from deferred to started."""
    return db.one(
        """select extract(epoch from l.started_at - d.created_at)::float8 from deferred.__deferred_log l
                     join deferred.__deferred d on d.id = l.job_id where d.id = %s""",
        job,
    )


def at_once(waits):
    """A busy machine holds up one or another; who is not woken is a minute late."""
    assert sorted(waits)[len(waits) // 2] < 0.5 and max(waits) < 20, waits


def cpu_s(pid):
    """Processor time of a process and of the children it reaped, seconds."""
    with open(f"/proc/{pid}/stat") as f:
        return sum(int(v) for v in f.read().rpartition(")")[2].split()[11:15]) / os.sysconf("SC_CLK_TCK")


# ---- polling


def test_it_runs_what_comes_until_it_is_told_to_stop(db):
    first = db.defer("noop")
    run = service(db)
    done(db, first)
    for _ in range(3):
        done(db, db.defer("noop"))
    stop(run)
    assert "asked to stop" in run.output() and "4 attempts, 4 ok" in run.output()
    assert db.sql("select count(*), count(ended_at) from deferred.__deferred_worker") == [(1, 1)]
    ledger(db)


def test_no_runner_is_started_before_there_is_work_and_one_stays_warm_after_it(db):
    run = service(db, "--runners", "3", settings=QUICK + 'runner_idle = "300ms"\n')
    time.sleep(0.3)
    assert runners(db) == 0
    db.plugins("unruly")
    jobs = [db.defer("sleep", '{"ms": 3000}') for _ in range(3)]
    wait_for(lambda: runners(db) == 3, 20, "three runners")
    done(db, *jobs)
    wait_for(lambda: runners(db) == 1, 20, "one is left")
    time.sleep(0.5)
    assert runners(db) == 1
    pid = db.orphans()
    done(db, db.defer("noop"))
    assert db.orphans() == pid
    stop(run)
    ledger(db)


@pytest.mark.slow
@pytest.mark.parametrize("number", ["30", "2..30"])
def test_one_runner_more_than_there_is_room_for_ends_nothing(db, number):
    """It used to end the run, and the jobs under way with it."""
    running = "select count(*) from deferred.__held"
    run = service(
        db,
        "--runners",
        number,
        "--grace",
        "200ms",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50)),
    )
    jobs = [db.defer("sleep", '{"ms": 4000}') for _ in range(30)]
    wait_for(lambda: "for now, not" in run.output() or not run.alive(), 60)
    assert run.alive(), run.output()
    wait_for(lambda: db.one("select count(*) from deferred.__deferred_log where outcome = 'ok'") >= 4, 60)
    assert run.alive() and "interrupted" not in run.output()
    assert run.output().count("for now, not") == 1, run.output()
    wait_for(lambda: db.one(running) == runners(db), 60, "no more are claimed than can be run")
    stop(run)
    assert len(jobs) > db.one("select count(*) from deferred.__deferred_log where outcome = 'ok'")
    ledger(db)


def count_calls(db):
    """Sessions that begin from now on count what functions they call."""
    db.sql(f"alter database {db.name} set track_functions = 'pl'")


def looks(db, seconds):
    """How often a service looked in that time, by the statistics of the server: each look asks for
    the lanes. See count_calls()."""

    def count():
        db.sql("select pg_stat_clear_snapshot()")
        return db.one("select coalesce(max(calls), 0) from pg_stat_user_functions where funcname = '__claim_lanes'")

    before = count()
    time.sleep(seconds)
    return lambda: count() - before


@pytest.mark.parametrize("exponent, at_least, at_most", [("1", 10, 24), ("2", 4, 9)])
def test_looks_that_find_nothing_come_less_and_less_often(db, exponent, at_least, at_most):
    # 100 ms each: some 20 in 2 s. Doubled: at 0.1, 0.3, 0.7, 1.5.
    count_calls(db)
    run = service(db, "--interval-floor", "100ms", "--interval-ceiling", "10s", "--exponent", exponent, settings="")
    seen = looks(db, 2)
    stop(run)
    n = wait_for(lambda: seen() >= at_least and seen(), 5, "the server has counted")  # it counts late
    assert at_least <= n <= at_most


@pytest.mark.long
def test_a_hit_takes_the_sleep_back_to_the_floor_and_gradual_decrease_only_a_step_down(db):
    for args, quick in [([], True), (["--gradual-decrease"], False)]:
        run = service(
            db, "--interval-floor", "20ms", "--interval-ceiling", "20s", "--exponent", "4", *args, settings=""
        )
        time.sleep(2)  # 0.02, 0.08, 0.32, 1.28, 5.12: it sleeps for long by now
        first = db.defer("noop")
        done(db, first)
        time.sleep(0.3)  # the look that comes with the end of an attempt is over
        second = db.defer("noop")
        done(db, second)
        assert 1 < waited(db, first) < 15
        assert (waited(db, second) < 2) == quick, waited(db, second)  # soon, or after 20 s / 4
        stop(run)
    ledger(db)


def test_cnt_counts_the_attempts_of_all_its_life(db):
    run = service(db, "--cnt", "3")
    jobs = [db.defer("noop") for _ in range(2)]
    done(db, *jobs)
    assert run.alive()
    more = [db.defer("noop") for _ in range(2)]
    assert run.wait(20) == 0
    assert db.hot() == 1 and len(db.log()) == 3
    assert set(j for j, _, _ in db.log()) <= set(jobs + more)
    ledger(db)


def test_a_delayed_job_wakes_it_when_it_is_due(db):
    run = service(db, settings='interval_floor = "300ms"\ninterval_ceiling = "1min"\nexponent = 100\n')
    done(db, db.defer("noop"))
    job = db.defer("noop", delay="1500ms")  # seen by the look in 300 ms; the next one would come 30 s later
    done(db, job)
    assert 1.5 <= waited(db, job) < 10
    failing = db.defer("fail", '{"retry_after_ms": 700}', max_attempts=2)
    wait_for(lambda: len(db.log(failing)) == 2, 20)
    times = [
        r[0]
        for r in db.sql("select started_at from deferred.__deferred_log where job_id = %s order by attempt", failing)
    ]
    assert 0.6 < (times[1] - times[0]).total_seconds() < 10
    stop(run)
    ledger(db)


@pytest.mark.slow
def test_with_a_long_job_in_one_runner_the_others_get_what_comes(db):
    run = service(db, "--runners", "2")
    defer_recorded(db)  # makes the plugin folder
    stop(run)
    run = service(db, "--runners", "2")
    begun(db)
    done(db, *[db.defer("noop") for _ in range(3)])
    run.signal(signal.SIGTERM)
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0
    assert "interrupted" in dict((o, 1) for _, _, o in db.log())
    ledger(db)


@pytest.mark.slow
def test_an_idle_service_costs_next_to_nothing(db):
    """Less than 0.2 % of a core, with a warm runner and the default settings."""
    run = service(db, settings="")
    done(db, db.defer("noop"))
    time.sleep(1)
    pids = [run.pid] + db.orphans()
    assert len(pids) == 2
    before = sum(map(pg.cpu_ns, pids))
    time.sleep(6)
    share = (sum(map(pg.cpu_ns, pids)) - before) / 6e9
    print(f"idle: {share * 100:.4f} % of a core")
    assert share < (0.02 if SAN else 0.002)
    stop(run)
    ledger(db)


def test_its_registration_stays_alive_and_partitions_are_added(db):
    run = service(db)
    db.sql("update deferred.__deferred_worker set seen_at = now() - interval '1 hour'")
    # It says that it lives every 30 s: looks that find nothing write nothing.
    wait_for(lambda: db.one("select seen_at > now() - interval '1 minute' from deferred.__deferred_worker"), 50)
    stop(run)
    parts = "select count(*) from pg_inherits where inhparent = 'deferred.__deferred'::regclass"
    db.sql("select setval('deferred.__deferred_id_seq', 16000000)")
    before = db.one(parts)
    run = service(db)
    wait_for(lambda: db.one(parts) > before, 20, "a partition was added")
    stop(run)


@pytest.mark.slow
def test_a_second_start_takes_over_and_the_job_in_hand_is_tried_again(db):
    old = service(db)
    job = defer_recorded(db, ms=8000)
    stop(old)
    old = service(db, "--grace", "100ms")
    begun(db)
    new = service(db, "--listen", "--runners", "1..4", settings=None)
    assert old.wait(20) == 0
    says = re.escape(f"serves all queues with 1 runner; looks for jobs every 0.05 to 0.1 s; pidfile {db.pidfile}")
    assert re.match(rf".* info: {says}\n", old.output()) and "a new start takes over" in old.output()
    assert re.match(
        ".* info: serves all queues with 1 to 4 runners; looks for jobs every 0.05 to 0.1 s, and is woken by each "
        ".listen.; ",
        new.output(),
    )
    done(db, job)
    assert db.log(job) == [(1, "superseded"), (2, "ok")]
    assert new.alive()
    stop(new)
    ledger(db)


# ---- SIGTERM, SIGHUP


def test_sigterm_lets_running_jobs_finish_and_gives_the_rest_back(db):
    jobs = [defer_recorded(db, ms=3000) for _ in range(4)]  # the second is begun before the first ends
    run = service(db, "--runners", "2", "--grace", "20s")
    begun(db, 2)
    stop(run)
    assert sorted(o for _, _, o in db.log()) == ["ok", "ok"]
    assert db.hot() == 2 and db.sql("select distinct attempt, receipt from deferred.__deferred_hot") == [(0, None)]
    assert len(jobs) == 4
    ledger(db)


def test_sighup_brings_new_settings_into_force(db):
    run = service(db, settings=QUICK + "runners = 1\nqueue = \"a\"\n")
    b = db.defer("noop", queue="b")
    done(db, db.defer("noop", queue="a"))
    assert db.hot() == 1
    db.config(QUICK + 'runners = 3\nqueue = "a,b"\nlog_level = debug\nlease = "7s"\n')
    run.signal(signal.SIGHUP)
    done(db, b)
    jobs = [db.defer("sleep", '{"ms": 1500}', queue="a") for _ in range(3)]
    wait_for(lambda: runners(db) == 3, 20, "three runners")
    done(db, *jobs)
    stop(run)
    said = run.output()
    assert "settings reloaded" in said and "setting 'lease' has changed; hint: restart to apply it" in said
    assert " debug: " in said and said.index("serves queue a with 1 runner; looks") < said.index(
        "serves queues a,b with 3 runners; looks"
    )
    ledger(db)


@pytest.mark.parametrize(
    "text, why",
    [
        ("runners = none\n", "setting 'runners': value 'none' is not a whole number or a range"),
        ('interval_floor = "2s"\ninterval_ceiling = "1s"\n', "interval_ceiling is 1000 ms"),
        ("runners = {", "setting 'runners' has no value before '{'"),
        ('plugin_dir = "/nonexistent/plugins"\n', None),
    ],
)
def test_a_broken_file_is_refused_and_the_old_settings_go_on(db, text, why):
    if why is None:
        del db.env["DEFERRED_PLUGIN_DIR"]
        why = "/nonexistent/plugins"
    run = service(db)
    db.config(text)
    run.signal(signal.SIGHUP)
    wait_for(lambda: "settings not reloaded" in run.output(), 20)
    assert why in run.output() or "deferred.conf:1" in run.output(), run.output()
    done(db, db.defer("noop"))
    db.config(QUICK)
    run.signal(signal.SIGHUP)
    wait_for(lambda: "settings reloaded" in run.output(), 20)
    done(db, db.defer("noop"))
    stop(run)
    ledger(db)


@pytest.mark.slow
def test_sighup_loads_plugins_anew_and_a_job_in_hand_finishes_in_the_old_runner(db):
    folder = db.plugins()
    run = service(db, "--runners", "2")
    unknown = db.defer("record", json.dumps({"file": db.dir + "/record", "ms": 0}))
    wait_for(lambda: "this worker does not offer function" in run.output(), 20)
    long = db.defer("sleep", '{"ms": 5000}')
    wait_for(lambda: db.sql("select 1 from deferred.__held where id = %s", long), 20)
    old = set(db.orphans())
    shutil.copy(os.path.join(harness.BUILD, "tests", "plugins", "unruly.so"), folder)
    os.chmod(os.path.join(folder, "unruly.so"), 0o755)
    run.signal(signal.SIGHUP)
    done(db, unknown)
    assert db.log(long) == []  # still at it
    done(db, long)
    wait_for(lambda: not old & set(db.orphans()), 20, "the old runners are gone")
    assert db.orphans()
    stop(run)
    assert db.log(long) == [(1, "ok")] and db.log(unknown) == [(1, "ok")]
    ledger(db)


def test_many_sighups_in_a_row_harm_nothing(db):
    run = service(db, "--runners", "2")
    jobs = []
    for n in range(20):
        jobs += [db.defer("sleep", '{"ms": 5}') for _ in range(5)]
        run.signal(signal.SIGHUP)
        time.sleep(0.03)
    done(db, *jobs)
    stop(run)
    assert db.sql("select distinct outcome, attempt from deferred.__deferred_log") == [("ok", 1)]
    ledger(db)


def test_a_signal_that_comes_early_does_not_kill_it(db):
    run = db.spawn(["check_deferred", "--loop"])
    wait_for(lambda: os.path.exists(db.pidfile), 20, "it has begun")
    for _ in range(20):
        run.signal(signal.SIGHUP)
        time.sleep(0.002)
    done(db, db.defer("noop"))
    stop(run)


@pytest.mark.parametrize(
    "args, code, message",
    [
        (["--loop", "--interval-floor", "0"], 64, "out of range (1ms to 1d)"),
        (["--loop", "--interval-floor", "-1s"], 64, "is not a time span"),
        (["--loop", "--exponent", "nan"], 64, "is not a number"),
        (["--loop", "--exponent", "0.5"], 64, "out of range (1 to 100)"),
        (["--loop", "--interval-floor", "10s", "--interval-ceiling", "5s"], 78, "interval_ceiling is 5000 ms"),
        (["--loop=1"], 64, None),
        (
            ["--listen"],
            64,
            "option '--listen' has no effect without --loop; hint: add --loop to run a service, or remove --listen",
        ),
        (
            ["--cnt", "0", "--interval-ceiling", "5s"],
            64,
            "option '--interval-ceiling' has no effect without --loop; hint: ",
        ),
        (["--gradual-decrease"], 64, "option '--gradual-decrease' has no effect without --loop; hint: "),
    ],
)
def test_settings_that_make_no_sense_are_refused(db, args, code, message):
    refused = db.run(["check_deferred", *args])
    assert refused.returncode == code and (message is None or message in refused.stderr), refused.stderr


def test_a_service_whose_server_is_not_there_says_so_and_ends(db):
    ended = db.run(["check_deferred", "--loop", "--db", "host=/nonexistent"])
    assert ended.returncode == 69 and "cannot connect" in ended.stderr


# ---- the service manager


class Manager:
    """Listens as systemd would."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address if address[0] == "/" else "\0" + address[1:])
        self.socket.settimeout(20)

    def next(self):
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())

    def until(self, name):
        while True:
            said = self.next()
            if name in said:
                return said


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_the_service_manager_hears_of_readiness_reload_and_stop(db, kind):
    address = db.dir + "/notify" if kind == "path" else f"@deferred-test-{os.getpid()}-{db.name}"
    manager = Manager(address)
    run = service(db, env={"NOTIFY_SOCKET": address})
    assert manager.next()["READY"] == "1"
    now = time.monotonic_ns() // 1000
    run.signal(signal.SIGHUP)
    said = manager.next()
    assert said["RELOADING"] == "1" and now <= int(said["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
    assert manager.next()["READY"] == "1"
    db.config("runners = none\n")
    run.signal(signal.SIGHUP)
    assert manager.next()["RELOADING"] == "1" and manager.next()["READY"] == "1"
    stop(run)
    assert manager.next()["STOPPING"] == "1"


@pytest.mark.slow
def test_the_watchdog_is_answered_while_idle_and_while_a_job_runs(db):
    db.defer("sleep", '{"ms": 3500}')
    manager = Manager(db.dir + "/notify")
    run = service(db, env={"NOTIFY_SOCKET": db.dir + "/notify", "WATCHDOG_USEC": "2000000"}, settings="")
    began, heard = time.monotonic(), []
    while time.monotonic() < began + 7:
        if "WATCHDOG" in manager.next():
            heard.append(time.monotonic())
    assert len(heard) >= 4
    assert max(b - a for a, b in zip(heard, heard[1:])) < 2
    stop(run)


def test_a_manager_that_is_gone_or_deaf_is_no_harm(db):
    run = service(db, env={"NOTIFY_SOCKET": db.dir + "/nobody", "WATCHDOG_USEC": "1000"})
    done(db, db.defer("noop"))
    stop(run)
    deaf = Manager(db.dir + "/deaf")  # never read: its queue fills up
    run = service(db, env={"NOTIFY_SOCKET": db.dir + "/deaf", "WATCHDOG_USEC": "1000"})
    time.sleep(0.3)
    done(db, db.defer("noop"))
    stop(run)
    deaf.socket.close()


def test_the_units_are_well_formed():
    if not os.path.exists("/usr/bin/systemd-analyze"):
        pytest.fail("systemd-analyze is missing")
    folder = os.path.join(harness.root(), "units")
    os.makedirs(folder, exist_ok=True)
    for name in ("check_deferred.service", "check_deferred-run.service", "check_deferred.timer"):
        with open(os.path.join(pg.TOP, "cron", name)) as f:
            text = f.read()
        with open(os.path.join(folder, name), "w") as f:
            text = text.replace("/usr/local/bin/check_deferred", harness.program("check_deferred"))
            f.write(text)
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *[os.path.join(folder, n) for n in os.listdir(folder)]],
        capture_output=True,
        text=True,
    )
    said = [line for line in checked.stderr.splitlines() if "/units/" in line and "Special user nobody" not in line]
    assert checked.returncode == 0 and said == [], checked.stderr


def unit_settings(name):
    with open(os.path.join(pg.TOP, "cron", name)) as f:
        return dict(line.strip().split("=", 1) for line in f if "=" in line and line[0] not in "#[")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives rights up")
@pytest.mark.parametrize("unit", ["check_deferred.service", "check_deferred-run.service"])
def test_what_the_unit_leaves_of_root_is_enough(db, unit):
    """To run functions as another user, to kill one at its timeout, and to sweep what a killed run left."""
    settings = unit_settings(unit)
    assert "User" not in settings and settings["NoNewPrivileges"] == "true"
    kept = ["+" + c.removeprefix("CAP_").lower() for c in settings["CapabilityBoundingSet"].split()]
    for folder in (harness.root(), db.dir):
        os.chmod(folder, 0o711)
    db.plugins()
    root = ["setpriv", "--no-new-privs", "--bounding-set", ",".join(["-all", *kept]), harness.program("check_deferred")]
    late = db.defer("sleep", '{"ms": 600000}', timeout="300ms", max_attempts=1)
    with Proxy(
        db.cluster
    ) as proxy:  # the socket of the tests' server is for its own user, and for who may pass over modes
        as_nobody = {"DEFERRED_USER": "nobody", "DEFERRED_ALLOW_ROOT": "", "DEFERRED_DB": proxy.conninfo(db.name)}
        done = db.run(root, env=as_nobody)
        assert done.returncode == 0, done.stderr
        assert db.log(late) == [(1, "timeout")]
        db.config('function "leave" { command = {"/bin/sh", "-c", "setsid sleep 1000 & sleep 1000"} }\n')
        db.defer("leave")
        run = db.spawn(root, env=as_nobody)
        wait_for(lambda: len([p for p in db.orphans() if command_of(p) == b"sleep"]) == 2, 20, "both sleep")
        left = [p for p in db.orphans() if command_of(p) == b"sleep"]
        run.kill()
        assert any(pg.running(pid) for pid in left)  # which death of their parent does not end
        run = db.spawn([*root, "--grace", "0"], env=as_nobody)
        wait_for(lambda: not any(pg.running(pid) for pid in left), 20, "what was left is gone")
        run.signal(signal.SIGTERM)
        assert run.wait() == 0, run.output()
    wait_for(lambda: not db.orphans(), 20, "what was left is gone")


def command_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
        return f.read().split(b"\0")[0]
    return b""


# ---- woken by NOTIFY

SLOW = 'interval_floor = "1min"\ninterval_ceiling = "1min"\n'  # who is not woken comes too late


def armed(db, n=1):
    """Waits until n workers wait to be woken."""
    held = """select count(distinct pid) from pg_locks where locktype = 'advisory' and classid = 1145390674
        and mode = 'ShareLock'
              and database = (select oid from pg_database where datname = current_database())"""
    wait_for(lambda: db.one(held) == n, 20, f"{n} armed")


def listener(db, *args, settings=SLOW, **kw):
    return service(db, "--listen", *args, settings=settings, **kw)


def test_a_sleeping_worker_is_woken_at_once(db):
    run = listener(db)
    waits = []
    for _ in range(20):
        armed(db)
        job = db.defer("noop")
        done(db, job)
        waits.append(waited(db, job))
    at_once(waits)
    stop(run)
    ledger(db)


WAYS = {
    "defer": "select deferred.defer('noop')",
    "defer_many": """select deferred.defer_many('[{"fn": "noop"}, {"fn": "noop"}]')""",
    "with a key": """select deferred.defer('noop', '{}', '{"key": "k", "on_duplicate": "replace"}')""",
    "many with keys": """select deferred.defer_many('[{"fn": "noop", "key": "a"}, {"fn": "noop", "key": "b"}]')""",
}


@pytest.mark.parametrize("way", [*WAYS, "retry", "add", "copy", "rule", "delayed"])
def test_every_way_to_make_a_job_ready_wakes(db, way):
    dead = db.defer("noop")
    assert db.one("select deferred.cancel(%s)", dead)
    assert db.run(["deferred", "rule", "add", "r", "noop", "select 1 as id", "--key", "id"]).returncode == 0
    run = listener(db)
    armed(db)
    before = len(db.log())
    if way in WAYS:
        db.sql(WAYS[way])
    elif way == "retry":
        assert db.one("select deferred.retry(%s)", dead)
    elif way == "add":
        assert db.run(["deferred", "add", "noop"]).returncode == 0
    elif way == "rule":
        assert db.run(["deferred", "rule", "run", "r"]).returncode == 0
    elif way == "copy":
        assert db.run(["deferred", "add", "--stdin"], input='{"fn": "noop"}\n' * 3000).returncode == 0
    else:
        job = db.defer("noop", delay="800ms")
        done(db, job)
        assert 0.8 <= waited(db, job) < 10
    wait_for(lambda: db.hot() == 0 and len(db.log()) > before, 20, "it was woken")
    stop(run)
    ledger(db)


@pytest.mark.parametrize(
    "change",
    [["queue", "resume", "default"], ["queue", "set", "default", "--unset", "rate"], ["function", "rm", "noop"]],
)
def test_jobs_that_a_setting_held_back_wake_when_it_is_taken_away(db, change):
    if change[1] == "resume":
        assert db.run(["deferred", "queue", "pause", "default"]).returncode == 0
    else:
        assert db.run(["deferred", change[0], "set", change[2], "--rate", "1/h"]).returncode == 0
        done_first = db.defer("noop")
        assert db.run(["check_deferred"]).returncode == 0
        done(db, done_first)
    job = db.defer("noop")
    run = listener(db)
    armed(db)
    assert db.hot() == 1
    assert db.run(["deferred", *change]).returncode == 0
    done(db, job)
    stop(run)
    ledger(db)


@pytest.mark.slow
@pytest.mark.parametrize("runners", ["1", "4"])
def test_a_wake_up_that_comes_while_it_looks_is_not_lost(db, runners):
    """What it was told of may be younger than the claim under way, or than the last one of the other kind."""
    run = listener(db, "--runners", runners)
    armed(db)
    done(db, db.defer("noop", concurrency_key="so that it claims both kinds"))
    for round in range(60):
        for rate in "0.001", None:
            # What "deferred function set" does.
            db.sql("select deferred.__function_set('noop', %s), deferred.__wake('default')", json.dumps({"rate": rate}))
            db.sql("select deferred.__mark(0, 1000)")
            if rate:
                held = [db.defer("noop") for _ in range(2)]  # the first of all has the only token
                time.sleep(round % 12 / 1000)
        done(db, *held)
    stop(run)
    ledger(db)


@pytest.mark.parametrize("runners", ["1", "4"])
def test_a_service_sleeps_until_a_rate_allows_the_next_job_and_is_woken_meanwhile(db, runners):
    assert db.run(["deferred", "queue", "set", "slow", "--create", "--rate", "1/s"]).returncode == 0
    jobs = [db.defer("noop", queue="slow") for _ in range(6)]
    run = listener(db, "--runners", runners)
    done(db, jobs[0])
    waits = []
    for _ in range(4):
        armed(db)
        other = db.defer("noop")
        done(db, other)
        waits.append(waited(db, other))
    assert sorted(waits)[2] < 0.5, waits  # who is not woken looks again when the rate allows the next job: after 0.9 s
    done(db, *jobs)  # in a third of the time until it would look by itself
    stop(run)
    ledger(db)


def test_jobs_given_back_by_a_worker_that_goes_wake_another(db):
    first = [defer_recorded(db, ms=1000), *[defer_recorded(db, ms=0) for _ in range(5)]]
    db.sql("update deferred.__deferred_hot set priority = 1 where id = %s", first[0])
    defer_recorded(db, ms=0, queue="warm")
    going = service(
        db, "--pidfile", db.dir + "/going", "--queue", "warm", "--queue", "default", "--window", "1", "--grace", "20s"
    )
    begun(db, 2)
    run = listener(db, "--queue", "default")
    armed(db)
    stop(going)
    wait_for(lambda: db.hot() == 0, 20, "the other one was woken")
    stop(run)
    ledger(db)


def test_a_job_committed_late_is_not_missed(db):
    """It was deferred while nobody slept, and committed when somebody did: no notification, and yet no wait."""
    late = db.connect()
    with late.cursor() as cursor:
        cursor.execute("select deferred.defer('noop')")
        job = cursor.fetchone()[0]
        run = listener(db, settings='interval_floor = "300ms"\ninterval_ceiling = "1min"\nexponent = 100\n')
        armed(db)
        time.sleep(1)
        committed = time.time()
        late.commit()
    late.close()
    done(db, job)
    started = db.one(
        "select extract(epoch from started_at)::float8 from deferred.__deferred_log where job_id = %s", job
    )
    assert started - committed < 10  # by itself it would have looked after 30 s
    stop(run)
    ledger(db)


def test_a_prepared_transaction_is_waited_for_like_any_other(db):
    connection = db.connect()
    with connection.cursor() as cursor:
        connection.tpc_begin("late")
        cursor.execute("select deferred.defer('noop')")
        job = cursor.fetchone()[0]
        connection.tpc_prepare()
    run = listener(db, settings='interval_floor = "300ms"\ninterval_ceiling = "1min"\nexponent = 100\n')
    armed(db)
    time.sleep(0.7)
    connection.tpc_commit()
    done(db, job)
    connection.close()
    stop(run)
    ledger(db)


def notified(db):
    """A session that hears what deferred.__wake() says."""
    connection = db.connect()
    connection.autocommit = True
    connection.cursor().execute("listen deferred")

    def count():
        connection.cursor().execute("select 1")  # notifications come with an answer
        connection.poll()
        n = len(connection.notifies)
        connection.notifies.clear()
        return n

    return count


def test_nobody_is_notified_while_nobody_waits_or_only_for_another_queue(db):
    count = notified(db)
    db.sql("select deferred.defer('noop') from generate_series(1, 50)")
    run = listener(db, "--queue", "other")
    armed(db)
    db.defer("noop")
    assert count() == 0
    db.defer("noop", queue="other")
    db.sql("select deferred.defer('noop', '{}', '{\"queue\": \"other\"}') from generate_series(1, 50)")
    assert count() > 0
    wait_for(lambda: db.hot() == 51, 20)
    stop(run)
    ledger(db)


def test_many_who_defer_at_once_do_not_take_each_other_for_sleepers(db):
    count = notified(db)
    script = os.path.join(db.dir, "defer.sql")
    with open(script, "w") as f:
        f.write("select deferred.defer('noop');\n")
    args = [
        os.path.join(pg.bindir(), "pgbench"),
        "-n",
        "-M",
        "prepared",
        "-f",
        script,
        "-c",
        "16",
        "-j",
        "2",
        "-t",
        "200",
        db.conninfo,
    ]
    subprocess.run(args, check=True, capture_output=True)
    assert db.hot() == 3200
    assert count() <= 320  # one that is suspended just then, lock in hand, is taken for a sleeper


def test_a_worker_that_has_enough_to_do_is_not_notified(db):
    db.plugins("unruly")
    run = listener(db)
    armed(db)
    count = notified(db)
    defer_recorded(db, ms=1500)
    begun(db)
    armed(db, 0)  # its one runner is at work
    count()
    for _ in range(20):
        db.defer("noop")
    assert count() == 0
    wait_for(lambda: db.hot() == 0, 20, "all are done, though nobody was notified")
    armed(db)
    stop(run)
    ledger(db)


def test_a_storm_of_notifications_costs_little_and_delays_no_job(db):
    run = listener(db)
    done(db, db.defer("noop"))
    armed(db)
    before, began, n = pg.cpu_ns(run.pid), time.monotonic(), 0
    while time.monotonic() < began + 2:
        db.sql("select pg_notify('deferred', 'default')")
        n += 1
    share = (pg.cpu_ns(run.pid) - before) / (time.monotonic() - began) / 1e9
    print(f"{n} notifications: {share * 100:.1f} % of a core")
    assert share < (0.6 if SAN else 0.25)
    job = db.defer("noop")
    done(db, job)
    assert waited(db, job) < 10
    stop(run)
    ledger(db)


@pytest.mark.slow
def test_several_sleepers_share_what_comes_and_one_job_is_claimed_once(db):
    db.plugins("unruly")
    runs = [listener(db, "--pidfile", f"{db.dir}/pid{i}") for i in range(4)]
    armed(db, 4)
    waits = []
    for _ in range(10):
        job = db.defer("noop")
        done(db, job)
        waits.append(waited(db, job))
        armed(db, 4)
    at_once(waits)
    # Four that take long are taken by four workers with one runner each, none by a worker that is busy.
    jobs = [db.defer("sleep", '{"ms": 3000}') for _ in range(4)]
    done(db, *jobs)
    assert db.one("select count(distinct worker) from deferred.__deferred_log where job_id = any(%s)", jobs) == 4
    for run in runs:
        stop(run)
    ledger(db)


def test_a_sleeper_that_is_killed_or_stopped_does_not_keep_jobs_from_the_others(db):
    runs = [listener(db, "--pidfile", f"{db.dir}/pid{i}") for i in range(3)]
    armed(db, 3)
    runs[0].signal(signal.SIGSTOP)
    runs[1].kill()
    armed(db, 2)  # the server noticed
    waits = []
    for _ in range(5):
        job = db.defer("noop")
        done(db, job)
        waits.append(waited(db, job))
    at_once(waits)
    runs[0].signal(signal.SIGCONT)
    stop(runs[0])
    stop(runs[2])
    ledger(db)


def test_listening_can_be_switched_on_and_off_by_sighup(db):
    run = service(db, settings=SLOW)
    db.config(SLOW + "listen = on\n")
    run.signal(signal.SIGHUP)
    armed(db)
    done(db, db.defer("noop"))
    db.config(QUICK)
    run.signal(signal.SIGHUP)
    armed(db, 0)
    done(db, db.defer("noop"))
    stop(run)
    ledger(db)


def test_an_idle_listener_costs_next_to_nothing(db):
    run = listener(db, settings="")
    done(db, db.defer("noop"))
    time.sleep(1)
    pids = [run.pid] + db.orphans()
    before = sum(map(pg.cpu_ns, pids))
    time.sleep(5)
    share = (sum(map(pg.cpu_ns, pids)) - before) / 5e9
    print(f"idle: {share * 100:.4f} % of a core")
    assert share < (0.02 if SAN else 0.002)
    stop(run)


def test_a_producer_may_wake_and_nobody_else(db):
    db.sql(f"create role p_{db.name} login; grant deferred_producer to p_{db.name}; create role q_{db.name} login")
    try:
        run = listener(db)
        armed(db)
        db.sql(f"set role p_{db.name}")
        job = db.defer("noop")
        db.sql("reset role")
        done(db, job)
        db.sql(f"set role q_{db.name}")
        with pytest.raises(psycopg2.Error):
            db.sql("select deferred.__wake('default')")
        db.sql("reset role")
        stop(run)
    finally:
        db.sql(f"drop role p_{db.name}, q_{db.name}")


# ---- --runners MIN..MAX


def changes(run):
    """Numbers of runners that the log tells of, in order."""
    return [(int(a), int(b)) for a, b in re.findall(r"runners (\d+) -> (\d+):", run.output())]


@pytest.mark.slow
def test_runners_grow_with_the_queue_and_go_when_it_is_drained(db):
    run = service(db, "--runners", "1..8", settings=QUICK + 'runner_idle = "1500ms"\n')
    done(db, db.defer("noop"))
    db.sql("select deferred.defer('sleep', '{\"ms\": 50}') from generate_series(1, 240)")
    wait_for(lambda: runners(db) == 8, 20, "eight runners")
    wait_for(lambda: db.hot() == 0, 40)
    wait_for(lambda: runners(db) == 1 and changes(run)[-1][1] == 1, 20, "one is left")
    stop(run)
    steps = changes(run)
    assert [a for a, _ in steps] == [1] + [b for _, b in steps[:-1]]  # each from where the one before ended
    assert max(b for _, b in steps) == 8 and steps[-1][1] == 1
    up = [b > a for a, b in steps]
    assert up == sorted(up, reverse=True), run.output()  # up, then down: no flapping
    assert re.search(r"runners 1 -> 2: \d+ jobs? to run", run.output()) and "no more than" in run.output()
    ledger(db)


def test_long_jobs_get_a_runner_each_up_to_the_limit(db):
    run = service(db, "--runners", "1..3", settings=QUICK + 'runner_idle = "1s"\n')
    jobs = [db.defer("sleep", '{"ms": 1500}') for _ in range(2)]
    wait_for(lambda: db.one("select count(*) from deferred.__held") == 2, 20)
    wait_for(lambda: runners(db) == 2, 20)
    time.sleep(0.3)
    assert runners(db) == 2  # no third without a third job
    jobs += [db.defer("sleep", '{"ms": 1500}') for _ in range(4)]
    wait_for(lambda: runners(db) == 3, 20)
    done(db, *jobs)
    assert max(b for _, b in changes(run)) == 3
    stop(run)
    ledger(db)


def test_a_trickle_of_jobs_needs_no_second_runner(db):
    run = service(db, "--runners", "1..8", "--listen", settings=QUICK + 'runner_idle = "500ms"\n')
    for _ in range(60):
        db.defer("sleep", '{"ms": 5}')
        time.sleep(0.02)
    wait_for(lambda: db.hot() == 0, 20)
    stop(run)
    assert len([s for s in changes(run) if s[1] > s[0]]) <= 1, run.output()  # on a slow machine they pile up
    ledger(db)


@pytest.mark.long
def test_jobs_that_need_the_processor_get_no_more_runners_than_it_has_room_for(db):
    db.plugins("stamp")
    run = service(db, "--runners", "1..32", settings=QUICK)
    db.sql("select deferred.defer('burn', '{\"ms\": 40}') from generate_series(1, 150)")
    wait_for(lambda: db.hot() == 0, 60)
    stop(run)
    assert max([b for _, b in changes(run)] or [1]) <= 2 * len(os.sched_getaffinity(0)), run.output()
    ledger(db)


def test_a_range_can_be_changed_by_sighup(db):
    run = service(db, settings=QUICK + "runners = 1\n")
    done(db, db.defer("noop"))
    db.config(QUICK + "runners = 2..4\n")
    run.signal(signal.SIGHUP)
    wait_for(lambda: "settings reloaded" in run.output(), 20)
    db.sql("select deferred.defer('sleep', '{\"ms\": 300}') from generate_series(1, 20)")
    wait_for(lambda: runners(db) >= 4, 20)
    wait_for(lambda: db.hot() == 0, 30)
    stop(run)
    assert max(b for _, b in changes(run)) == 4
    ledger(db)


@pytest.mark.parametrize("value", ["0..4", "4..1", "1..", "..4", "a..b", "1..257", "1...4", "-1..3", "1..2..3"])
def test_a_range_that_makes_no_sense_is_refused(db, value):
    refused = db.run(["check_deferred", "--runners", value])
    assert refused.returncode == 64 and "--runners" in refused.stderr and value in refused.stderr


# ---- memory


@pytest.mark.slow
@pytest.mark.parametrize(
    "way", ["limited"] + [pytest.param(way, marks=pytest.mark.long) for way in ("plain", "compressible")]
)
def test_large_params_do_not_make_the_parent_large(db, way):
    """150 jobs of 1 MB: 300 MB and more if they were claimed together."""
    text = (
        "repeat('a', 1000000)"
        if way == "compressible"
        else "(select string_agg(md5(random()::text || x || i), '') from generate_series(1, 31250) x)"
    )
    if way == "limited":
        db.sql("select deferred.__queue_set('large', '{\"max_running\": 1000}', true)")
    n = 150
    db.sql(
        f"""with made as materialized (select to_json({text}) as params from generate_series(1, 1) i)
               select count(deferred.defer('noop', params, queue => %s)) from made, generate_series(1, %s)""",
        "large" if way == "limited" else "default",
        n,
    )
    run = service(db, "--batch", "1500")
    wait_for(lambda: db.hot() == 0, 120, "all jobs are done")
    with open(f"/proc/{run.pid}/status") as f:
        peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM:"))
    stop(run)
    print(f"{way}: {peak / 1024:.0f} MiB at most")
    assert peak < (400 if SAN else 80) * 1024  # they keep for long what was freed
    assert db.one("select count(*) from deferred.__deferred_log where outcome = 'ok'") == n
    ledger(db)
