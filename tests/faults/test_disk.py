"""A disk that is full, under the data and under the write-ahead log: row D12 of the fault matrix.
The disk is a small one in memory."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess

import psycopg2
import pytest

import harness
import pg
from harness import ledger, wait_for

ROOT = os.geteuid() == 0
SETTINGS = 'interval_floor = "50ms"\ninterval_ceiling = "200ms"\nbackoff_floor = "1ms"\nbackoff_ceiling = "1ms"\n'


class SmallDisk:
    """A file system of a few megabytes that the test fills and empties."""

    def __init__(self, megabytes):
        self.path = os.path.join(harness.root(), f"disk{os.getpid()}-{megabytes}")
        self.ballast = os.path.join(self.path, "ballast")
        os.mkdir(self.path, 0o711)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0711", "deferred-test", self.path], check=True
        )
        pg.give_to_server(self.path)

    def folder(self, name):
        path = os.path.join(self.path, name)
        os.mkdir(path, 0o700)
        pg.give_to_server(path)
        return path

    def fill(self):
        with open(self.ballast, "wb", buffering=0) as f, contextlib.suppress(OSError):
            while True:
                f.write(b"\0" * 4096)
        room = os.statvfs(self.path)
        assert room.f_bavail == 0

    def free(self):
        os.unlink(self.ballast)

    def close(self):
        subprocess.run(["umount", "-l", self.path], check=True)
        os.rmdir(self.path)


def server_log(db):
    with open(db.cluster.log) as f:
        return f.read()


def refusals(db):
    """Of what check_deferred sent."""
    return len(re.findall(r" check_deferred ERROR:  could not extend file", server_log(db)))


def defer_until_refused(recorded):
    """One job a transaction; the ids that were acknowledged, and the sqlstate of the refusal."""
    ids = []
    try:
        while len(ids) < 100_000:
            ids += recorded.defer(1)
    except psycopg2.Error as e:
        return ids, e.pgcode
    raise AssertionError("the disk does not fill")


def stop(run):
    run.signal(signal.SIGTERM)
    assert run.wait(30) == 0, run.output()


def drained(db, timeout=60):
    wait_for(lambda: db.hot() == 0, timeout, "nothing is hot")


@contextlib.contextmanager
def data_on(own_server, megabytes):
    """The tables of the test's database on a small disk, and nothing else of its server."""
    disk = SmallDisk(megabytes)
    try:
        with contextlib.closing(psycopg2.connect(own_server.cluster.conninfo())) as admin:
            admin.autocommit = True
            with admin.cursor() as cursor:
                cursor.execute(f"create tablespace small location '{disk.folder('data')}'")
                if own_server.connection is not None:
                    own_server.connection.close()
                cursor.execute("alter database own set tablespace small")
        yield disk
    finally:
        own_server.stop("immediate")
        disk.close()


@contextlib.contextmanager
def wal_on(own_server, megabytes):
    """The write-ahead log on one; segments of 1 MB, so that the next one is needed soon. Those of a server without a
    program to change them have 16 MB, on a disk that is as many times larger."""
    segment = 1 if pg.can_dump() else 16
    disk, data = SmallDisk(megabytes * segment), own_server.cluster.data
    try:
        own_server.stop()
        if segment == 1:
            pg.call(pg.as_server([os.path.join(pg.bindir(), "pg_resetwal"), "--wal-segsize=1", "-D", data]))
        with open(os.path.join(data, "postgresql.conf"), "a") as f:
            f.write(f"min_wal_size = {2 * segment}MB\nmax_wal_size = {4 * segment}MB\nrestart_after_crash = off\n")
        place = disk.folder("wal")
        pg.copy(os.path.join(data, "pg_wal") + "/.", place)
        shutil.rmtree(os.path.join(data, "pg_wal"))
        os.symlink(place, os.path.join(data, "pg_wal"))
        own_server.start()
        yield disk
    finally:
        own_server.stop("immediate")
        disk.close()


if ROOT:

    @pytest.fixture
    def data_on_small_disk(own_server):
        with data_on(own_server, 64) as disk:
            yield own_server, disk

    @pytest.fixture
    def wal_on_small_disk(own_server):
        with wal_on(own_server, 16) as disk:
            yield own_server, disk

    @pytest.mark.slow
    def test_d12_results_wait_while_the_disk_of_the_data_is_full(data_on_small_disk, recorded_on):
        db, disk = data_on_small_disk
        recorded = recorded_on(db)
        db.config(SETTINGS)
        ids = recorded.defer(400, ms=10)
        run = db.spawn(["check_deferred", "--loop", "--runners", "2"])
        wait_for(lambda: len(recorded.lines()) > 50)
        disk.fill()
        more, sqlstate = defer_until_refused(recorded)
        assert sqlstate == "53100"
        wait_for(lambda: refusals(db) >= 3, what="results or claims are refused")
        assert run.alive() and db.hot() > 0
        disk.free()
        drained(db)
        stop(run)
        recorded.assert_all_ok(ids + more)
        assert len(recorded.starts()) == len(ids + more), "a full disk is no reason to run a job again"

    @pytest.mark.slow
    def test_d12_a_full_disk_is_named_with_what_to_do(data_on_small_disk, recorded_on):
        db, disk = data_on_small_disk
        recorded = recorded_on(db)
        disk.fill()
        defer_until_refused(recorded)
        done = db.run(["deferred", "add", "noop", json.dumps("x" * 100_000)])
        assert done.returncode != 0
        assert done.stderr.startswith("deferred: the disk of the server is full (could not extend file "), done.stderr
        assert done.stderr.endswith("\nhint: free space on the server, then run the command again\n"), done.stderr
        disk.free()

    @pytest.mark.long
    def test_d12_leases_lapse_while_the_disk_of_the_data_stays_full(data_on_small_disk, recorded_on):
        db, disk = data_on_small_disk
        recorded = recorded_on(db)
        db.config(SETTINGS)
        ids = recorded.defer(400, ms=10)
        run = db.spawn(["check_deferred", "--loop", "--runners", "2", "--lease", "3s"])
        wait_for(lambda: len(recorded.lines()) > 50)
        disk.fill()
        more, sqlstate = defer_until_refused(recorded)
        assert sqlstate == "53100"
        # What was at work lapses; or there was room for all its results on pages that were there
        # already, and then for no claim.
        wait_for(
            lambda: "refused: the lease had ended" in run.output() or refusals(db) >= 10,
            60,
            "it is plain that the disk is full",
        )
        began = refusals(db)
        wait_for(lambda: refusals(db) > began + 30, 90, "and it is still trying")
        disk.free()
        drained(db)
        stop(run)
        recorded.assert_all_ok(ids + more, lost=True)
        print(f"{len(recorded.starts()) - len(ids + more)} extra runs of {len(ids + more)} jobs")

    @pytest.mark.slow
    def test_d12_a_server_without_room_for_its_log_loses_nothing(wal_on_small_disk, recorded_on):
        db, disk = wal_on_small_disk
        recorded = recorded_on(db)
        db.config(SETTINGS)
        ids = recorded.defer(100, ms=20)
        run = db.spawn(["check_deferred", "--loop", "--runners", "2"])
        wait_for(lambda: len(recorded.lines()) > 20)
        disk.fill()
        more, _ = defer_until_refused(recorded)
        wait_for(lambda: not db.cluster.pid(), 30, "the server has stopped")
        assert "PANIC" in server_log(db)
        assert run.alive()
        disk.free()
        db.start()
        # What was in the midst of its answer may be stored, too.
        stored = [r[0] for r in db.sql("select id from deferred.__deferred")]
        assert set(stored) >= set(ids + more) and len(stored) <= len(ids + more) + 1
        drained(db)
        stop(run)
        assert "connected again" in run.output()
        recorded.assert_all_ok(stored, lost=True)  # a claim that was not on disk yet is forgotten


@pytest.mark.slow
def test_d12_a_service_whose_claims_are_refused_goes_on_trying(db):
    """For longer than a run does: there may be no room for a claim, and nothing else in hand."""
    db.config(SETTINGS)
    db.sql(
        """
        create function public.inject() returns trigger language plpgsql as $$
        begin raise exception using errcode = '53100', message = 'no space left on device'; end $$;
        create trigger inject before insert on deferred.__deferred_lease
        for each row execute function public.inject()"""
    )
    run = db.spawn(["check_deferred", "--loop"])
    job = db.defer("noop")
    wait_for(
        lambda: "the server refuses a statement: no space left on device; trying again" in run.output()
        or not run.alive(),
        20,
    )
    assert run.alive(), run.output()
    db.sql("drop trigger inject on deferred.__deferred_lease")
    wait_for(lambda: db.log(job) == [(1, "ok")], 20)
    stop(run)
    ledger(db)
