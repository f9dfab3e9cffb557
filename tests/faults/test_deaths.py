"""Workers that die where nobody starts them again: others notice, take their jobs, and say so."""

import datetime
import fcntl
import json
import os
import re
import signal
import subprocess
import threading
import time

import pytest

from harness import BUILD, ledger, read_record, wait_for
from proxy import Proxy

CHECK = os.path.join(BUILD, "bin", "check_deferred")
QUICK = 'interval_floor = "50ms"\ninterval_ceiling = "1min"\n'  # who did not notice would sleep for long


def service(db, name, *args, **kw):
    run = db.spawn(["check_deferred", "--loop", "--pidfile", f"{db.pidfile}.{name}", *args], **kw)
    wait_for(
        lambda: db.sql("select 1 from deferred.__deferred_worker where pid = %s", run.pid), 20, "it has registered"
    )
    return run


def held_by(db, run):
    return db.sql(
        "select 1 from deferred.__held h join deferred.__deferred_worker w on w.id = h.worker and w.pid = %s", run.pid
    )


@pytest.mark.slow
def test_a_killed_worker_is_noticed_within_two_seconds_and_one_that_lost_its_session_is_not_dead(db):
    db.config(QUICK)
    jobs = [
        db.defer("sleep", '{"ms": 12000}', max_attempts=n) for n in (1, 5)
    ]  # the victim's next start knows of the first that it had begun
    other = db.defer("noop")
    db.hold(other, worker=999, receipt=7, lease="7 s")  # by one behind a pooler: nobody sees whether it lives
    ends = db.one("select expires_at from deferred.__deferred_lease")
    victim = service(db, "victim", "--runners", "2", "--listen")
    wait_for(lambda: len(held_by(db, victim)) == 2, 20, "it has both")
    heir = service(db, "heir", "--runners", "2", "--listen")
    # The session of one that lives is cut: it comes back, and keeps what it is at.
    cut = db.one(
        "select pg_terminate_backend(l.pid) from pg_locks l "
        "join deferred.__deferred_worker w on w.watch = l.objid::int4 and l.classid = 1145390673 "
        "and w.pid = %s where l.database = (select d.oid from pg_database d where d.datname = current_database())",
        victim.pid,
    )
    assert cut
    wait_for(lambda: "connected again" in victim.output(), 20, "it is back")
    time.sleep(2.2)
    assert len(held_by(db, victim)) == 2 and "gone" not in heir.output()
    assert "live workers: 2\n" in db.run(["deferred", "status"]).stdout
    alive_at, before = db.one("select clock_timestamp()"), time.monotonic()
    victim.kill()
    shown = db.run(["deferred", "status"]).stdout
    assert (
        "live workers: 1\n" in shown
        and f"pid {victim.pid}, {db.pidfile}.victim) has no session, and holds 2 jobs for up to " in shown
    ), shown
    wait_for(lambda: "1 job came back" in heir.output(), 20, "the other one has noticed")
    assert time.monotonic() - before < 2.3
    dead = db.one("select id from deferred.__deferred_worker where pid = %s", victim.pid)
    assert re.search(
        rf"worker {dead} \(\S+ pid {victim.pid}, {db.pidfile}.victim\) is gone: 1 job came back", heir.output()
    )
    wait_for(lambda: held_by(db, heir), 5, "it has it")
    claimed = """select l.claimed_at - %s from deferred.__deferred_lease l
                 join deferred.__deferred_worker w on w.id = l.worker and w.pid = %s"""
    assert db.one(claimed, alive_at, heir.pid) > datetime.timedelta(seconds=1.1), "what its runners do is over by then"
    assert len(held_by(db, victim)) == 1 and db.log(jobs[0]) == []
    again = service(db, "victim", "--queue", "other")
    wait_for(
        lambda: db.log(jobs[0]) == [(1, "lost")] and f"job {jobs[0]} sleep attempt 1: lost; dead" in again.output(), 10
    )
    again.signal(signal.SIGTERM)
    assert again.wait(20) == 0
    wait_for(lambda: db.log(other) == [(1, "ok")], 10, "it is taken at the end of its lease")
    assert (
        db.one(
            "select extract(epoch from started_at - %s)::float8 from deferred.__deferred_log where job_id = %s",
            ends,
            other,
        )
        < 1
    )
    assert "worker 999 (not known) did not renew its lease: 1 job came back" in heir.output()
    heir.signal(signal.SIGTERM)
    assert heir.wait(20) == 0
    ledger(db)


@pytest.mark.parametrize("how", ["refused", "swallowed"])
def test_a_worker_that_is_cut_off_keeps_its_jobs_until_its_lease_ends(recorded, how):
    """Six seconds of a lease of a minute. The other service sees that the session is gone, but no proof of death."""
    db = recorded.db
    db.config(QUICK)
    db.sql("select deferred.__queue_set('few', '{\"max_running\": 5}', true)")
    jobs = [
        recorded.defer(1, ms=6000, **opts)[0]
        for opts in ({}, {"max_attempts": 1}, {"concurrency_key": "k"}, {"queue": "few"})
    ]
    with Proxy(db.cluster) as proxy:
        victim = service(
            db, "victim", "--runners", "4", env={"DEFERRED_DB": proxy.conninfo(db.name, tcp_user_timeout=1000)}
        )
        wait_for(lambda: len(recorded.starts()) == 4, 20, "it has all")
        heir = service(db, "heir", "--runners", "4")
        proxy.refuse = proxy.swallow = True
        if how == "refused":
            proxy.cut()
        else:
            db.sql(
                """select pg_terminate_backend(l.pid) from pg_locks l join deferred.__deferred_worker w
                      on w.watch = l.objid::int4 and l.classid = 1145390673 and w.pid = %s""",
                victim.pid,
            )
        wait_for(
            lambda: f"pid {victim.pid}, {db.pidfile}.victim) has no session, and holds 4 jobs"
            in db.run(["deferred", "status"]).stdout
        )
        wait_for(lambda: len(recorded.lines()) >= 8, 30, "its jobs have come to their end, or others are at them")
        assert [line[0] for line in recorded.lines()] == ["start"] * 4 + ["end"] * 4, "each is run once"
        proxy.refuse = proxy.swallow = False
        proxy.cut()
        wait_for(lambda: db.hot() == 0, 20, "it is back, and its results are accepted")
        assert (
            "gone" not in heir.output()
            and "connected again" in victim.output()
            and "registered again" not in victim.output()
        )
        for run in victim, heir:
            run.signal(signal.SIGTERM)
            assert run.wait(20) == 0
    recorded.assert_all_ok(jobs)


IN_NAMESPACE = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["another host", "another mount namespace", "a folder that was removed"])
def test_the_jobs_of_a_worker_whose_end_cannot_be_seen_are_taken_when_its_lease_ends(recorded, where):
    db = recorded.db
    db.config(QUICK)
    folder = os.path.join(db.dir, "run")
    os.mkdir(folder, 0o755)
    with open(os.path.join(db.dir, "boot_id"), "w") as f:
        f.write("00000000-0000-4000-8000-000000000000\n")
    before = {
        "another host": f"mount --bind {db.dir}/boot_id /proc/sys/kernel/random/boot_id",
        "another mount namespace": f"mount -t tmpfs none {folder}",
        "a folder that was removed": "true",
    }[where]
    (job,) = recorded.defer(1, ms=60000)
    victim = db.spawn(IN_NAMESPACE + [f"{before} && exec {CHECK} --loop --lease 4s --pidfile {folder}/pid"])
    wait_for(lambda: recorded.starts(job), 20, "it is at it")
    heir = service(db, "heir")
    if where == "a folder that was removed":
        subprocess.run(["rm", "-r", folder], check=True)
    victim.kill()
    ends = db.one(
        """select l.expires_at from deferred.__deferred_lease l
           join deferred.__deferred_worker w on w.id = l.worker and w.pid = %s""",
        victim.pid,
    )
    wait_for(lambda: len(recorded.starts(job)) == 2, 30, "the other one is at it")
    assert db.one("select max(claimed_at) >= %s from deferred.__deferred_lease", ends)
    wait_for(
        lambda: db.sql("select 1 from deferred.__deferred_worker where pid = %s and ended_at is not null", victim.pid),
        10,
        "it counts as gone",
    )
    db.sql("select deferred.cancel(%s)", job)
    heir.signal(signal.SIGTERM)
    assert heir.wait(20) == 0
    ledger(db)


def test_no_instance_that_a_login_makes_up_ends_a_lease_or_harms_who_looks(db):
    """A worker's login may register anything. Only the file that it names, free, proves anything."""
    db.config(QUICK)
    names = (
        "fifo, folder, link, link on the way, own, own by another name, held, removed, terminal, device, descriptor, "
        "other inode, other device, other boot, no boot, no mark, no path, mark first, nothing, longer, long path, "
        "long, free"
    ).split(", ")
    jobs = {name: db.defer("noop") for name in names}
    for number, name in enumerate(names, 1000):
        db.hold(jobs[name], worker=number, receipt=number, lease="1 hour")
    with open("/proc/sys/kernel/random/boot_id") as f:
        boot = f.read().strip()
    heir = service(db, "heir")
    own = f"{db.pidfile}.heir"

    def path(name):
        return os.path.join(db.dir, name)

    def mark(at, **other):
        st = os.stat(at)
        numbers = {"device": st.st_dev, "inode": st.st_ino, "boot": boot, **other}
        return "#{device}.{inode}@{boot}".format(**numbers)

    for name in "free", "held", "removed":
        open(path(name), "w").close()
    os.mkfifo(path("fifo"))
    os.mkdir(path("folder"))
    os.symlink(path("free"), path("link"))
    os.symlink(db.dir, path("way"))
    os.link(own, path("other_name_of_own"))
    removed = path("removed") + mark(path("removed"))
    os.rename(path("removed"), path("kept"))  # so that its inode is not given to another file
    held = open(path("held"), "w")
    fcntl.lockf(held, fcntl.LOCK_EX)
    free = path("free")
    texts = {
        "fifo": path("fifo") + mark(path("fifo")),
        "folder": path("folder") + mark(path("folder")),
        "link": path("link") + mark(path("link")),
        "link on the way": path("way/free") + mark(path("way/free")),
        "own": own + mark(own),
        "own by another name": path("other_name_of_own") + mark(own),
        "held": path("held") + mark(path("held")),
        "removed": removed,
        "terminal": "/dev/tty" + mark("/dev/tty"),
        "device": "/dev/zero" + mark("/dev/zero"),
        "other inode": free + mark(free, inode=1),
        "other device": free + mark(free, device=1),
        "other boot": free + mark(free, boot="0" * 36),
        "no boot": free + mark(free).split("@")[0],
        "no mark": free,
        "no path": mark(free),
        "mark first": mark(free) + free,
        "nothing": "",
        "longer": free + mark(free) + "0",
        "long path": "/" * 5000 + free[1:] + mark(free),
        "long": "/" + "x" * 200000,
        "descriptor": "/proc/self/fd/0" + mark(free),
        "free": free + mark(free),
    }
    for number, name in enumerate(names, 1000):
        db.sql(
            """insert into deferred.__deferred_worker (id, instance, host, pid, version, watch)
               overriding system value values (%s, %s, 'host', 1, '0', %s)""",
            number,
            "host:" + texts[name],
            number,
        )
    wait_for(lambda: db.log(jobs["free"]) == [(1, "ok")], 20, "that one is taken")
    looks = "select count(*) from pg_stat_activity where query like %s and query_start > %s and state = 'idle'"
    for _ in range(4):
        now = db.one("select clock_timestamp()")
        wait_for(lambda: db.one(looks, "%pg_try_advisory_xact_lock_shared%", now), 20, "it looks again")
    assert db.log() == [(jobs["free"], 1, "ok")], heir.output()
    assert heir.alive()
    os.unlink(path("other_name_of_own"))
    again = db.run(["check_deferred", "--pidfile", own, "--if-running=skip"])
    assert again.returncode == 75, "it still holds its own lock"
    heir.signal(signal.SIGTERM)
    assert heir.wait(20) == 0


def test_a_lock_that_could_not_be_taken_again_is_tried_for_again(db):
    """Who waits for it has it the moment the service gives all of its session back; then its row
    must say so, or others would take it for dead."""
    db.config(QUICK)
    run = service(db, "a", "--listen")
    waits = "select exists (select from pg_locks where classid = 1145390674)"
    wait_for(lambda: db.one(waits), 20, "it waits to be woken")
    number = db.one("select watch from deferred.__deferred_worker")
    db.sql("create function public.no() returns trigger language plpgsql as $$ begin raise 'not now'; end $$")
    db.sql(
        "create trigger no before update of watch on deferred.__deferred_worker "
        "for each row execute function public.no()"
    )
    with db.connect() as thief:
        cursor = thief.cursor()
        taken = threading.Thread(target=cursor.execute, args=("select pg_advisory_lock(1145390673, %s)", (number,)))
        taken.start()
        wait_for(
            lambda: not taken.is_alive()
            or db.one("select exists (select from pg_locks where not granted and classid = 1145390673)"),
            10,
            "he waits, or has it already",
        )
        job = db.defer("noop")
        taken.join(20)
        wait_for(
            lambda: "not now" in run.output() and db.log(job) == [(1, "ok")] and db.one(waits),
            20,
            "it has tried, and has nothing to do any more",
        )
        tried = run.output().count("not now")
        wait_for(lambda: run.output().count("not now") > tried, 5, "it tries again")
        assert run.output().count("not now") < 6
        db.sql("drop trigger no on deferred.__deferred_worker")
        wait_for(lambda: db.one("select watch is null from deferred.__deferred_worker"), 5, "it has tried again")
    run.signal(signal.SIGTERM)
    assert run.wait(20) == 0


def test_a_job_with_one_attempt_that_had_not_begun_survives_the_death_of_its_worker(db):
    """Killed at any time while another service runs: only jobs that the runner had are dead, none begins twice."""
    db.plugins("unruly")
    db.config(QUICK)
    file = db.dir + "/record"
    jobs = [db.defer("record", json.dumps({"file": file, "ms": 2}), max_attempts=1) for _ in range(1500)]
    other = service(db, "other", "--queue", "elsewhere")
    for kill in range(12):
        victim = service(db, "victim", "--runners", "1")
        count = len(read_record(file))
        wait_for(lambda: len(read_record(file)) > count + 20 + kill, 30, "it works")
        victim.kill()
    last = service(db, "victim")
    wait_for(lambda: db.hot() == 0, 120, "all have ended")
    begun = [line[1] for line in read_record(file) if line[0] == "start"]
    lost = {job for job in jobs if db.log(job) == [(1, "lost")]}
    print(f"{len(lost)} of {len(jobs)} lost in 12 kills, {len(lost - set(begun))} of which had not begun")
    assert len(begun) == len(set(begun))
    assert len(lost - set(begun)) <= 12  # each time the one job that the runner was given and had not read
    assert {job for job, _, outcome in db.log() if outcome == "ok"} == set(jobs) - lost
    for run in last, other:
        run.signal(signal.SIGTERM)
        assert run.wait(20) == 0
    assert not os.path.exists(db.pidfile + ".victim.begun")
    ledger(db)
