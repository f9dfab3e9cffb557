"""The spool: calls that a host keeps while the server is away are stored exactly once, whatever dies meanwhile."""

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import threading

import psycopg2
import pytest

import harness
import pg
from job_options import VALUES
from harness import BUILD, SAN, ledger, wait_for

OK, NOT_DONE, SPOOLED, UNAVAILABLE, CANTCREAT = 0, 1, 9, 69, 73
SPOOL_CALL = os.path.join(BUILD, "tests", "harness", "spool_call")
AWAY = {"DEFERRED_DB": "host=/nowhere dbname=away user=nobody"}
UUID = re.compile(r"spooled ([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})\n")


def kill_at(call, number=1):
    env = {"LD_PRELOAD": os.path.join(BUILD, "tests", "harness", "kill_at.so"), "KILL_AT": f"{call} {number}"}
    if SAN:
        env["ASAN_OPTIONS"] = harness.base_env()["ASAN_OPTIONS"] + ":verify_asan_link_order=0"
    return env


class Spool:
    def __init__(self, db):
        self.db, self.path = db, os.path.join(db.dir, "spool")
        os.mkdir(self.path, 0o700)
        db.env["DEFERRED_SPOOL"] = self.path

    def add(self, *args, fn="noop", env=None, **kw):
        """Defers while the server is away; the UUID."""
        done = self.db.run(["deferred", "add", fn, *args], env={**AWAY, **(env or {})}, **kw)
        assert done.returncode == SPOOLED, done.stderr
        return UUID.fullmatch(done.stdout)[1]

    def drain(self, *args, env=None):
        return self.db.run(["deferred", "spool", "drain", "--elsewhere", *args], env=env)

    def write(self, text, uuid):
        """An entry as this test writes it."""
        path = os.path.join(self.path, uuid + ".job")
        with open(path, "wb") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(text if isinstance(text, bytes) else text.encode())
        return path

    def copy(self, job, n=1):
        """n entries with this job, made from one of the command's."""
        one = self.add()
        with open(os.path.join(self.path, one + ".job")) as f:
            head = f.readline()
        os.unlink(os.path.join(self.path, one + ".job"))
        for i in range(n):
            self.write(head + (job if isinstance(job, str) else job(i)) + "\n", f"{one[:24]}{i:012x}")

    def entries(self):
        return sorted(name for name in os.listdir(self.path) if name.endswith(".job"))

    def refused(self):
        """{UUID: reason} of what was refused, each of which has both files."""
        folder = os.path.join(self.path, "refused")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        assert {n[:-4] for n in names if n.endswith(".job")} == {n[:-7] for n in names if n.endswith(".reason")}
        reasons = {}
        for name in names:
            if name.endswith(".reason"):
                with open(os.path.join(folder, name)) as f:
                    reasons[name[:-7]] = f.read()
        return reasons


@pytest.fixture
def spool(db):
    return Spool(db)


@pytest.fixture
def own_spool(own_server):
    """On a server that is stopped and killed, and that keeps what it has committed."""
    return Spool(own_server)


def params(db):
    """Those of all jobs, as numbers."""
    return [int(r[0]) for r in db.sql("select params::text from deferred.__deferred order by id")]


# ---- what is kept


def test_a_call_is_kept_and_stored_later(own_server):
    """By the next add, by the next start of check_deferred, and by drain."""
    db = own_server
    spool = Spool(db)
    db.stop()
    for number, later in enumerate((["deferred", "add", "noop"], ["check_deferred"], ["deferred", "spool", "drain"])):
        db.cluster.stop()
        done = db.run(["deferred", "add", "echo", json.dumps(number), "--label", "kept"])
        assert done.returncode == SPOOLED and "; the job is in the spool\nhint: " in done.stderr, done.stderr
        uuid = UUID.fullmatch(done.stdout)[1]
        assert db.run(["deferred", "add", "echo", "{"]).returncode == 65, "what is wrong is not kept"
        assert len(spool.entries()) == 1
        db.start()
        said = db.run(later)
        assert said.returncode == OK and spool.entries() == [], said.stderr
        job = db.one("select deferred.spooled(%s)", uuid)
        assert db.sql("select params::text, label from deferred.__deferred where id = %s", job) == [
            (str(number), "kept")
        ]
        db.connection.close()
    assert spool.refused() == {}
    ledger(db)


TIMES, IN_C, REFUSED = (
    {"delay", "run_at", "expires", "expires_at"},
    {"backoff_floor", "backoff_ceiling", "backoff_exponent"},
    {"after", "wait_for", "flow"},
)
VALUES_HERE = {**VALUES, "label": "l\n\t\"\u00e4", "priority": -7, "on_duplicate": "update", "timeout": "1500ms"}
WITHOUT_TIMES = [
    text
    for option, value in VALUES_HERE.items()
    if option not in TIMES | IN_C | REFUSED
    for text in (("--tag", value[0]) if option == "tags" else ("--" + option.replace("_", "-"), str(value)))
] + ["--tag", "b"]


def test_all_options_are_kept_and_times_count_from_the_call(db, spool):
    options = WITHOUT_TIMES + ["--delay", "1h", "--expires", "2h"]
    before = db.one("select clock_timestamp()")
    text = '{"b":1,  "a":1e400, "b":"\\u00e4"}'
    spool.add(text, *options)
    spool.add("--run-at", "2031-01-31 14:30+00", "--expires", "1ms")
    after = db.one("select clock_timestamp()")
    assert db.run(["deferred", "add", "noop", text, *options, "--key", "other"]).returncode == OK, "the same, not kept"
    assert spool.drain().returncode == OK
    columns = (
        "queue, fn, params::text, label, priority, key_until_ms, max_attempts, timeout_ms, "
        "concurrency_key, concurrency, tags, traceparent, backoff_floor_ms, created_by"
    )
    direct, kept, other = db.sql(f"select {columns} from deferred.__deferred order by id")
    assert kept == direct and kept[2] == text
    for column, hours in (("run_at", 1), ("expires_at", 2)):
        assert db.one(
            f"select {column} - interval '{hours} hours' between %s and %s from deferred.__deferred order by id "
            "limit 1 offset 1",
            before,
            after + (after - before),
        ), column
    assert db.one("select max(run_at) = '2031-01-31 14:30+00' from deferred.__deferred")
    assert db.one("select expires_at < created_at from deferred.__deferred order by id limit 1 offset 2")
    assert db.sql("select key from deferred.__deferred order by id") == [("other",), ("k",), (None,)]


def test_each_option_is_kept_or_refused(db, spool):
    """The options that only C takes have values of their own in spool_call."""
    spool.add("--run-at", "2031-01-31", "--expires", "1d", *WITHOUT_TIMES)
    done = db.run([SPOOL_CALL, spool.path, "1", "t"], env=AWAY)
    assert done.returncode == 0 and len(spool.entries()) == 2, done
    kept = set()
    for name in spool.entries():
        with open(os.path.join(spool.path, name)) as f:
            kept |= set(json.loads(f.read().partition("\n")[2]))
    assert kept | {"delay", "expires"} | REFUSED == {"fn", "params", *db.one("select deferred.__job_options()")}
    assert spool.drain().returncode == OK
    assert db.sql(
        "select backoff_floor_ms, backoff_ceiling_ms, backoff_exponent from deferred.__deferred where tags = '{t}'"
    ) == [(250, 5000, 1.5)]


@pytest.mark.parametrize("args", [["--after", "1"], ["--wait-for", "e"], ["--flow", "1"], ["--run-at", "tomorrow"]])
def test_what_needs_the_database_is_not_kept(db, spool, args):
    done = db.run(["deferred", "add", "noop", *args], env=AWAY)
    assert done.returncode == UNAVAILABLE and "cannot be kept in the spool: cannot connect" in done.stderr
    assert spool.entries() == []


def test_a_refused_login_is_not_kept(db, spool):
    """Nothing would ever store such calls."""
    for conninfo in (f"host={db.cluster.folder} port={pg.PORT} user=postgres dbname=nosuch", "host=h port=x nonsense"):
        done = db.run(["deferred", "add", "noop"], env={"DEFERRED_DB": conninfo})
        assert done.returncode in (UNAVAILABLE, 78) and "spool" not in done.stderr, done.stderr
    assert spool.entries() == []


def test_a_call_whose_outcome_is_unknown_is_not_kept(db, spool):
    """The server ends the session while it stores the job."""
    db.sql(
        """
        create function public.leave() returns trigger language plpgsql security definer as $$
        begin perform pg_terminate_backend(pg_backend_pid()), pg_sleep(60); return new; end $$;
        create trigger leave before insert on deferred.__deferred for each row execute function public.leave()"""
    )
    done = db.run(["deferred", "add", "noop"])
    assert done.returncode == UNAVAILABLE and spool.entries() == [], done
    assert "terminating connection" in done.stderr


def test_without_the_setting_nothing_is_kept(db):
    done = db.run(["deferred", "add", "noop"], env=AWAY)
    assert done.returncode == UNAVAILABLE and "spool" not in done.stderr


# ---- what dies


@pytest.mark.parametrize(
    "call, number, left",
    [("writev", 1, ".new"), ("fsync", 1, ".new"), ("renameat", 1, ".new"), ("fsync", 2, ".job")],
)
def test_a_writer_that_is_killed_leaves_all_or_nothing(db, spool, call, number, left):
    """It was killed before it answered. A complete entry is stored. An incomplete one is removed."""
    done = db.run(["deferred", "add", "noop", "7"], env={**AWAY, **kill_at(call, number)})
    assert done.returncode == -signal.SIGKILL and done.stdout == ""
    (name,) = os.listdir(spool.path)
    assert name.endswith(left)
    kept = spool.add("8")
    assert spool.drain().returncode == OK
    assert params(db) == ([7, 8] if left == ".job" else [8])
    assert db.one("select deferred.spooled(%s)", kept)
    assert os.listdir(spool.path) == ([name] if left == ".new" else [])
    for path in os.listdir(spool.path):
        os.utime(os.path.join(spool.path, path), (0, 0))
    assert spool.drain().returncode == OK and os.listdir(spool.path) == []


@pytest.mark.parametrize("call, number", [("unlinkat", 1), ("unlinkat", 1500), ("fsync", 1), ("fsync", 2)])
def test_a_drain_that_is_killed_after_it_stored_entries_stores_none_twice(db, spool, call, number):
    """Between the commit of a batch and the removal of its first entry, and of others."""
    spool.copy('{"fn": "noop", "params": 1}', 2000)
    assert spool.drain(env=kill_at(call, number)).returncode == -signal.SIGKILL
    stored = db.one("select count(*) from deferred.__deferred")
    assert stored in (1000, 2000) and stored + len(spool.entries()) >= 2000
    done = spool.drain()
    assert done.returncode == OK and spool.entries() == [], done.stderr
    assert db.one("select count(*) from deferred.__deferred") == 2000
    ledger(db)


@pytest.mark.parametrize("step", ["unlinkat 2", "renameat 1", "fsync 2"])
def test_a_drain_that_is_killed_while_it_refuses_an_entry_refuses_it_again(db, spool, step):
    spool.copy('{"fn": "no function", "params": 1}')
    name = spool.entries()[0]
    call, number = step.split()
    killed = spool.drain(env=kill_at(call, int(number) - (call == "unlinkat")))
    assert killed.returncode == -signal.SIGKILL
    spool.drain()
    assert list(spool.refused()) == [name[:-4]] and spool.entries() == []


def test_a_torn_entry_is_refused_and_the_others_are_stored(db, spool):
    """A file system that broke its promise may have lost the end."""
    whole = [spool.add(str(i)) for i in range(3)]
    path = os.path.join(spool.path, whole[2] + ".job")
    os.truncate(path, os.path.getsize(path) - 3)
    done = spool.drain()
    assert done.returncode == NOT_DONE and done.stdout == "stored 2\n"
    assert params(db) == [0, 1] and "not written to its end" in spool.refused()[whole[2]]


def test_two_drains_at_once_store_each_entry_once(db, spool):
    spool.copy(lambda i: f'{{"fn": "noop", "params": {i}}}', 5000)
    runs = [db.spawn(["deferred", "spool", "drain", "--elsewhere"]) for _ in range(4)]
    assert [r.wait(60) for r in runs] == [OK] * 4, [r.output() for r in runs]
    assert params(db) == list(range(5000)) and spool.entries() == []
    assert sum(int(r.output().split()[1]) for r in runs) >= 5000
    ledger(db)


def test_a_drain_waits_for_another_one_and_stores_what_that_rolls_back(db, spool):
    uuid = spool.add("1")
    with contextlib.closing(db.connect()) as other, other.cursor() as cursor:
        cursor.execute("select * from deferred.__spool_store(%s::uuid[], %s)", ([uuid], ['{"fn": "noop"}']))
        run = db.spawn(["deferred", "spool", "drain", "--elsewhere"])
        wait_for(
            lambda: db.one(
                "select count(*) from pg_stat_activity where wait_event_type = 'Lock' "
                "and datname = current_database() and application_name = 'deferred spool'"
            )
        )
        other.rollback()
    assert run.wait(60) == OK and params(db) == [1] and spool.entries() == []


def test_a_restored_database_gets_what_the_spool_still_has(db, spool):
    """The backup is older than the jobs of the spool, and their UUIDs went with them. Entries that were not removed
    are stored again, once; those that were removed are lost like all jobs since the backup."""
    spool.add("0")
    assert spool.drain().returncode == OK
    spool.add("1"), spool.add("2")
    assert spool.drain(env=kill_at("unlinkat", 2)).returncode == -signal.SIGKILL
    assert params(db) == [0, 1, 2] and len(spool.entries()) == 1
    db.sql(
        "begin; delete from deferred.__deferred_hot where id > 1; delete from deferred.__deferred where id > 1;"
        "delete from deferred.__deferred_spooled where job_id > 1; commit"
    )
    assert spool.drain().returncode == OK
    assert params(db) == [0, 2] and spool.entries() == []


# ---- what is refused, and what stays


def test_entries_that_the_database_refuses_are_moved_with_the_reason(db, spool):
    db.sql("select deferred.defer('noop', '{}', '{\"key\": \"k\"}')")
    bad = {
        '{"fn": "no function", "params": {}}': "function",
        '{"fn": "noop", "params": {}, "priority": "high"}': "priority",
        '{"fn": "noop", "params": {}, "key": "k", "on_duplicate": "error"}': "23505",
        '{"fn": "noop", "params": {}, "run_at": "2031-99-99"}': "run_at",
        '{"fn": "noop", "queue": "ä", "params": {}}': "queue",
        '[1]': "SQLSTATE",
        '{"params": {}}': "function is missing",
    }
    texts = list(bad) + [f'{{"fn": "noop", "params": {i}}}' for i in range(20)]
    spool.copy(lambda i: texts[i], len(texts))
    names = dict(zip(spool.entries(), texts))
    done = spool.drain()
    assert done.returncode == NOT_DONE and done.stdout == "stored 20\n", done.stderr
    assert f"moved to the folder refused: {len(bad)}\n" in done.stderr
    reasons = spool.refused()
    assert {names[u + ".job"]: bad[names[u + ".job"]] in why for u, why in reasons.items()} == {b: True for b in bad}
    assert spool.entries() == [] and len(params_of_numbers(db)) == 20
    assert json.loads(db.run(["deferred", "spool", "ls", "--json"]).stdout)["refused"] == len(bad)
    assert db.run(["deferred", "spool", "retry"]).stdout == f"moved back {len(bad)}\n"
    assert len(spool.entries()) == len(bad) and spool.refused() == {}


def params_of_numbers(db):
    return db.sql("select 1 from deferred.__deferred where params::text ~ '^[0-9]+$'")


def test_a_full_queue_keeps_its_entries(db, spool):
    assert db.run(["deferred", "queue", "set", "full", "--create", "--max-length", "2"]).returncode == OK
    spool.copy(lambda i: f'{{"fn": "noop", "params": {i}, "queue": "{"full" if i % 2 else "free"}"}}', 10)
    done = spool.drain()
    assert done.returncode == NOT_DONE and done.stdout == "stored 7\n"
    assert "not stored yet: 3: entry " in done.stderr and len(spool.entries()) == 3 and spool.refused() == {}
    assert db.run(["deferred", "queue", "set", "full", "--max-length", "9"]).returncode == OK
    assert spool.drain().stdout == "stored 3\n" and sorted(params(db)) == list(range(10))


def test_what_a_restricted_role_may_not_defer_is_refused(db, spool):
    spool.copy(lambda i: f'{{"fn": "{"noop" if i else "echo"}", "params": {i}}}', 3)
    db.sql("insert into deferred.__deferred_grant (role, fn) values (session_user, 'noop')")
    assert spool.drain().stdout == "stored 2\n" and params(db) == [1, 2]
    assert "SQLSTATE 42501" in list(spool.refused().values())[0]


def test_a_role_without_rights_moves_nothing(db, spool):
    """A wrong role is not the fault of the entries."""
    db.sql(f"create role stranger_{os.getpid()} login")
    try:
        spool.add("1")
        done = spool.drain(env={"DEFERRED_DB": db.conninfo + f" user=stranger_{os.getpid()}"})
        assert done.returncode == 77 and len(spool.entries()) == 1 and spool.refused() == {}, done.stderr
    finally:
        db.sql(f"drop role stranger_{os.getpid()}")


def test_an_entry_that_the_database_may_have_forgotten_is_refused(db, spool):
    """Its UUID was deleted after 31 days, so nobody knows whether it is stored. With a new UUID it can be."""
    uuid = spool.add("1")
    os.rename(
        os.path.join(spool.path, uuid + ".job"),
        os.path.join(spool.path, "01800000-0000-7" + uuid[15:] + ".job"),
    )
    assert spool.drain().returncode == NOT_DONE and "older than 30 days" in list(spool.refused().values())[0]
    assert params(db) == []
    assert db.run(["deferred", "spool", "retry"]).returncode == OK
    assert spool.drain().returncode == OK and params(db) == [1]
    db.sql("update deferred.__deferred_spooled set stored_at = now() - interval '30 days'")
    assert db.one("select deferred.__forget_spooled(10)") == 0
    db.sql("update deferred.__deferred_spooled set stored_at = now() - interval '32 days'")
    assert db.one("select deferred.__forget_spooled(10)") == 1


def test_entries_for_another_database_or_role_stay(db, spool):
    spool.add("1")
    done = db.run(["deferred", "spool", "drain"])
    assert done.returncode == NOT_DONE and "user='nobody'" in done.stderr and "host='/nowhere'" in done.stderr
    assert len(spool.entries()) == 1 and db.one("select count(*) from deferred.__deferred") == 0
    assert db.run(["deferred", "add", "noop", "2"]).stderr == "", "an add does not mind"
    assert spool.drain().stdout == "stored 1\n" and params(db) == [2, 1]


def test_no_role_uses_up_the_uuids_of_another(db, spool):
    uuid = spool.add("1")
    db.sql(f"create role thief_{os.getpid()} login in role deferred_producer")
    try:
        with contextlib.closing(psycopg2.connect(db.conninfo + f" user=thief_{os.getpid()}")) as thief:
            with thief.cursor() as cursor:
                cursor.execute("select * from deferred.__spool_store(%s::uuid[], %s)", ([uuid], ['{"fn": "noop"}']))
            thief.commit()
            with thief.cursor() as cursor, pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute("select * from deferred.__deferred_spooled")
        assert spool.drain().returncode == OK
        assert db.one("select count(*) from deferred.__deferred where created_by = session_user") == 1
    finally:
        db.sql(f"drop role thief_{os.getpid()}")


# ---- the folder


def test_other_files_are_not_followed_read_or_removed(db, spool):
    secret = os.path.join(db.dir, "secret")
    with open(secret, "w") as f:
        f.write("secret")
    names = [f"0{i}800000-0000-7000-8000-00000000000{i}.job" for i in range(1, 6)]
    paths = [os.path.join(spool.path, n) for n in names]
    os.symlink(secret, paths[0])
    os.mkfifo(paths[1])
    os.mkdir(paths[2])
    os.symlink("/dev/zero", paths[3])
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as s:
        s.bind(paths[4])
    for name in ("x.job", ".job", "../x.job".replace("/", ""), "01800000-0000-4000-8000-000000000001.job"):
        with open(os.path.join(spool.path, name), "w") as f:
            f.write("{}")
    before = sorted(os.listdir(spool.path))
    kept = spool.add("1")
    done = spool.drain()
    assert done.returncode == NOT_DONE and done.stdout == "stored 1\n"
    assert "not regular files, but named as entries: 5" in done.stderr
    assert sorted(os.listdir(spool.path)) == before and kept
    with open(secret) as f:
        assert f.read() == "secret"


@pytest.mark.parametrize(
    "text, why",
    [
        (b"", "not written to its end"),
        (b"{}\n", "not an entry of this version"),
        (b"deferred spool 2 x\n{}\n", "not an entry of this version"),
        (b"deferred spool 1 x\n{\"fn\": \n", "invalid JSON"),
        (b"deferred spool 1 x\n{\"fn\": \"noop\"},{\"fn\": \"noop\"}\n", "invalid JSON"),
        (b"deferred spool 1 x\n{\"fn\": \"no\xffop\"}\n", "invalid JSON"),
        (b"deferred spool 1 x\n{\"fn\": \"no\0op\"}\n", "not an entry of this version"),
        (b"deferred spool 1 x\n" + b"[" * 600 + b"]" * 600 + b"\n", "nested deeper"),
        (b"deferred spool 1 x\n{\"fn\": \"noop\", \"label\": \"\\u0000\"}\n", "SQLSTATE"),
    ],
)
def test_an_entry_that_is_none_is_refused(db, spool, text, why):
    uuid = spool.add("1")
    path = spool.write(text, uuid[:24] + "0" * 12)
    assert spool.drain().stdout == "stored 1\n" and not os.path.exists(path)
    assert why in spool.refused()[uuid[:24] + "0" * 12]


def test_a_huge_entry_and_one_with_a_second_name_are_refused(db, spool):
    uuid = spool.add("1")
    huge, twice = uuid[:24] + "0" * 12, uuid[:24] + "1" * 12
    os.truncate(spool.write(b"deferred spool 1 x\n", huge), 1 << 34)
    os.link(spool.write(b"deferred spool 1 x\n{}\n", twice), os.path.join(db.dir, "elsewhere"))
    assert spool.drain().stdout == "stored 1\n"
    assert "64 MiB" in spool.refused()[huge] and "hard link" in spool.refused()[twice]


def no_room(megabytes=1):
    """A limit for what the command may write, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (megabytes << 10, megabytes << 10))


def test_a_full_spool_is_an_error_that_names_it(db, spool):
    done = db.run(["deferred", "add", "noop", json.dumps("x" * 5000)], env=AWAY, preexec_fn=no_room)
    assert done.returncode == CANTCREAT and done.stdout == ""
    assert f"not stored: the server cannot be reached: spool '{spool.path}': cannot keep the job: " in done.stderr
    assert "\nhint: free space on its file system, or raise the limit\n" in done.stderr
    assert os.listdir(spool.path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_full_or_read_only_file_system(db, spool):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "deferred-test", spool.path], check=True)
    try:
        kept = 0
        while (done := db.run(["deferred", "add", "noop", json.dumps("x" * 9000)], env=AWAY)).returncode == SPOOLED:
            kept += 1
        assert done.returncode == CANTCREAT and "No space left on device" in done.stderr and kept > 1
        assert len(os.listdir(spool.path)) == kept == len(spool.entries())
        subprocess.run(["mount", "-o", "remount,ro", spool.path], check=True)
        done = db.run(["deferred", "add", "noop"], env=AWAY)
        assert done.returncode == CANTCREAT and "Read-only file system" in done.stderr
        done = spool.drain()
        assert done.returncode == NOT_DONE and "cannot remove an entry that is stored" in done.stderr
        subprocess.run(["mount", "-o", "remount,rw", spool.path], check=True)
        assert spool.drain().returncode == OK and spool.entries() == []
        assert db.one("select count(*) from deferred.__deferred") == kept
    finally:
        subprocess.run(["umount", "-l", spool.path], check=True)


def test_a_folder_that_others_can_change_is_refused(db, spool):
    for mode in (0o770, 0o707, 0o772):
        os.chmod(spool.path, mode)
        for args in (["add", "noop"], ["spool", "drain"], ["spool", "ls"]):
            done = db.run(["deferred", *args], env=AWAY)
            assert done.returncode != OK and "others can write in the folder, and it is not sticky" in done.stderr
    os.chmod(spool.path, 0o1777)
    spool.add()
    os.rename(spool.path, spool.path + ".real")
    os.symlink(spool.path + ".real", spool.path)
    assert "cannot use the folder" in db.run(["deferred", "add", "noop"], env=AWAY).stderr
    done = db.run(["deferred", "add", "noop"], env={**AWAY, "DEFERRED_SPOOL": "spool"})
    assert done.returncode == CANTCREAT and "is not an absolute path" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes two other users")
def test_users_share_a_sticky_folder_and_each_drains_only_its_own(db):
    """What another user wrote is neither read nor removed, even with the name of an entry of this database."""
    nobody, daemon = 65534, 1
    spool = Spool(db)
    os.chmod(db.dir, 0o711)
    os.chmod(spool.path, 0o1777)
    for name in ("", "refused"):
        os.makedirs(os.path.join(spool.path, name), exist_ok=True)
        os.chmod(os.path.join(spool.path, name), 0o1777)
    db.env["DEFERRED_CONFIG"] = ""
    one = spool.add("1", user=nobody)
    two = spool.add("2", user=daemon)
    forged = os.path.join(spool.path, two + ".job")
    assert os.stat(forged).st_uid == daemon and os.stat(forged).st_mode & 0o077 == 0
    # A drain of root is one of its own entries, too.
    done = spool.drain()
    assert done.stdout == "stored 0\n" and done.returncode == OK and len(spool.entries()) == 2
    figures = json.loads(db.run(["deferred", "spool", "ls", "--json"]).stdout)
    assert (figures["entries"], figures["own"]) == (2, 0)
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run(["rm", "-f", forged], user=nobody, check=True, stderr=subprocess.DEVNULL)
    # The server of the tests lets in who reaches its folder, so its owner drains.
    os.chown(os.path.join(spool.path, one + ".job"), 0, 0)
    assert spool.drain().stdout == "stored 1\n" and params(db) == [1] and spool.entries() == [two + ".job"]


def test_status_and_doctor_count_the_spool(db, spool):
    spool.add(), spool.add()
    os.rename(
        os.path.join(spool.path, spool.entries()[0]),
        os.path.join(spool.path, "01900000-0000-7000-8000-000000000000.job"),
    )
    assert re.search(
        r"^spool: 2, the oldest for \d+d, 2 of this user; refused: 0$", db.run(["deferred", "status"]).stdout, re.M
    )
    figures = json.loads(db.run(["deferred", "status", "--json"]).stdout)["spool"]
    assert figures["entries"] == 2 and figures["oldest_s"] > 86400 and figures["refused"] == 0
    said = db.run(["deferred", "doctor"]).stdout
    assert re.search(rf"warn +spool: spool '{spool.path}': 2 entries, the oldest for \d+d", said), said
    os.chmod(spool.path, 0o777)
    said = db.run(["deferred", "doctor"]).stdout
    assert re.search(r"FAIL +spool: .*not sticky", said, re.I), said


# ---- all of it


def producers(db, spool, n, each):
    return [db.spawn([SPOOL_CALL, spool.path, str(each), f"p{i}"]) for i in range(n)]


def answered(runs):
    """{(tag, number)} of calls that were answered, and of those whose outcome is unknown."""
    done, lost = set(), set()
    for i, run in enumerate(runs):
        for line in run.output().splitlines():
            m = re.fullmatch(r"(lost|\d+|[0-9a-f-]{36}) (\d+)", line)
            if m:
                (lost if m[1] == "lost" else done).add((f"p{i}", int(m[2])))
    return done, lost


def stored(db):
    rows = db.sql("select tags[1], params::text from deferred.__deferred")
    return [(tag, int(number)) for tag, number in rows]


@pytest.mark.slow
def test_a_server_that_comes_and_goes_under_producers_gets_each_answered_call_once(own_spool):
    """Stopped, killed and started while four programs defer and a drain runs now and then."""
    db, spool = own_spool.db, own_spool
    runs = producers(db, spool, 4, 1500)
    for mode in ("fast", "kill", "fast", "immediate"):
        before = len(spool.entries())
        wait_for(lambda: any(len(r.output()) > 500 for r in runs))
        db.kill() if mode == "kill" else db.stop(mode)
        wait_for(lambda: len(spool.entries()) > before + 20 or not any(r.alive() for r in runs), 60)
        db.start()
        wait_for(lambda: db.run(["deferred", "spool", "drain"]).returncode == OK, 60, "the server answers")
    assert [r.wait(300) for r in runs] == [0] * 4, [r.output()[-500:] for r in runs]
    assert db.run(["deferred", "spool", "drain"]).returncode == OK
    done, lost = answered(runs)
    rows = stored(db)
    assert len(rows) == len(set(rows)), "none twice"
    assert done <= set(rows) <= done | lost, "each that was answered, and no other"
    assert len(done) + len(lost) == 6000 and spool.entries() == [] and spool.refused() == {}
    assert db.one("select count(*) from deferred.__deferred_spooled") > 20
    ledger(db)


@pytest.mark.slow
def test_100_000_entries_are_drained_once_under_kills_of_drains_and_server(own_spool, rng):
    db, spool = own_spool.db, own_spool
    spool.copy(lambda i: f'{{"fn": "noop", "params": {i}}}', 100_000)
    wait_for(lambda: len(spool.entries()) == 100_000)
    killed = 0
    for round in range(40):
        run = db.spawn(["deferred", "spool", "drain", "--elsewhere"])
        left = len(spool.entries())
        if left == 0:
            break
        few = rng.randrange(0, 4000)
        wait_for(lambda: len(spool.entries()) < left - few or not run.alive(), 60)
        if round % 5 == 4:
            db.kill()
        run.kill()
        killed += run.process.returncode == -signal.SIGKILL
        if round % 5 == 4:
            db.start()
    done = spool.drain()
    assert done.returncode == OK, done.stderr
    assert params(db) and sorted(params(db)) == list(range(100_000)) and spool.entries() == []
    assert killed >= 10 and spool.refused() == {}
    print(f"{killed} drains were killed")
    ledger(db)
