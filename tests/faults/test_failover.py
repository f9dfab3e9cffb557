"""Two servers: a standby that lags behind and is promoted, an old primary that comes back, a wait
for a synchronous standby that is cancelled. Rows D8 to D10 of the fault matrix; D7 is in test_restarts.py."""

import contextlib
import json
import os
import signal
import threading
import time

import psycopg2
import pytest

import pg
from front import XML, Front
from harness import ledger, wait_for
from proxy import Proxy

SETTINGS = 'interval_floor = "50ms"\ninterval_ceiling = "200ms"\nbackoff_floor = "1ms"\nbackoff_ceiling = "1ms"\n'


class Pair:
    """The test's server, first, and a standby of it, second. sql() goes to the one that db.cluster is."""

    def __init__(self, db, way):
        self.db, self.first, self.way = db, db.cluster, way
        self.second = self.first.standby(self.first.folder + "-second", way.conninfo("postgres"))
        self.both = (
            f"host={self.first.folder},{self.second.folder} port={pg.PORT},{pg.PORT} user={pg.USER} dbname={db.name} "
            "target_session_attrs=read-write"
        )

    def at(self, cluster, query, *args):
        with contextlib.closing(psycopg2.connect(cluster.conninfo(self.db.name))) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(query, args or None)
                return cursor.fetchall() if cursor.description else []

    def use(self, cluster):
        if self.db.connection is not None:
            self.db.connection.close()
        self.db.cluster, self.db.conninfo = cluster, cluster.conninfo(self.db.name)

    def caught_up(self, column):
        """The standby has written, flushed or replayed all there is."""
        wait_for(
            lambda: self.at(
                self.first, f"select 1 from pg_stat_replication where {column}_lsn >= pg_current_wal_lsn()"
            ),
            20,
        )

    def cut(self):
        """Nothing comes over any more."""
        self.way.refuse = True
        self.way.cut()
        wait_for(
            lambda: not self.at(self.first, "select 1 from pg_stat_replication"), 20, "the standby receives no more"
        )


@pytest.fixture
def pair(own_server):
    with Proxy(own_server.cluster) as way:
        servers = Pair(own_server, way)
        yield servers
        servers.use(servers.first)
        servers.second.remove()


def service(db, name, conninfo, *args):
    return db.spawn(["check_deferred", "--loop", "--pidfile", f"{db.dir}/{name}", *args], env={"DEFERRED_DB": conninfo})


def stop(run):
    run.signal(signal.SIGTERM)
    assert run.wait(30) == 0, run.output()


def worker_id(db, run):
    return wait_for(
        lambda: db.sql("select id from deferred.__deferred_worker where pid = %s and ended_at is null", run.pid),
        20,
        "it has registered",
    )[0][0]


def use_up(db, sequence, before):
    """Has numbers handed out, as by so many starts, or jobs that were rolled back, until `before` is the next."""
    assert db.one(f"select nextval({sequence})") < before, "the number has been given out already"
    while db.one(f"select nextval({sequence})") < before - 1:
        pass


def labelled(db):
    return {r[0] for r in db.sql("select label from deferred.__deferred where label is not null")}


def failover_that_loses(pair, recorded, old_ms):
    """A worker `old` of the first server has a job in hand of which the second one knows nothing;
    that one gives its number, and the worker's, to others. Returns the workers, the two jobs of the
    new one, the first with the number of the old, and its own number.
    """
    db = pair.db
    db.config(SETTINGS)
    kept = [f"kept {i}" for i in range(20)]
    for label in kept[:10]:
        db.defer("noop", queue="later", label=label)
    pair.caught_up("replay")
    pair.at(pair.second, "select pg_wal_replay_pause()")
    for label in kept[10:]:
        db.defer("noop", queue="later", label=label)
    pair.caught_up("flush")
    pair.cut()
    lost = [f"lost {i}" for i in range(100)]
    for label in lost:
        db.defer("noop", queue="later", label=label)
    db.sql("select nextval(pg_get_serial_sequence('deferred.__deferred_worker', 'id')) from generate_series(1, 100)")
    (job,) = recorded.defer(1, ms=old_ms, label="lost as well")
    old = service(db, "old", pair.both, "--queue", "default")
    wait_for(lambda: recorded.starts(job))
    number = worker_id(db, old)
    old.signal(signal.SIGSTOP)
    known = {r[0] for r in pair.at(pair.second, "select label from deferred.__deferred where label is not null")}
    assert known == set(kept[:10])
    db.kill()
    pair.second.promote()
    pair.use(pair.second)

    # What had been received was replayed, all the rest is lost: neither less nor more.
    assert labelled(db) == set(kept)
    assert {*kept, *lost, "lost as well"} - labelled(db) == {*lost, "lost as well"}
    use_up(db, "pg_get_serial_sequence('deferred.__deferred_worker', 'id')", number)
    use_up(db, "'deferred.__deferred_id_seq'", job)
    assert recorded.defer(1, ms=4000, label="another") == [job]
    (beside,) = recorded.defer(1, ms=4000)
    new = service(db, "new", pair.second.conninfo(db.name), "--queue", "default", "--runners", "2")
    assert worker_id(db, new) == number
    wait_for(lambda: len(recorded.starts(job)) == 2 and recorded.starts(beside))
    return old, new, job, beside, number


@pytest.mark.slow
@pytest.mark.parametrize("old_ms", [500, 60000], ids=["result in hand", "still running"])
def test_d8_a_worker_of_a_lost_timeline_touches_nothing_of_who_has_its_numbers_now(pair, recorded_on, old_ms):
    db = pair.db
    recorded = recorded_on(db)
    old, new, job, beside, number = failover_that_loses(pair, recorded, old_ms)
    claim = db.sql(
        """select h.attempt, h.worker, l.receipt from deferred.__held h join deferred.__deferred_lease l
            on h.id = any(l.ids)
                      where h.id = %s""",
        job,
    )
    assert claim[0][:2] == (1, number), "job, attempt and worker are named as the old ones were"
    old.signal(signal.SIGCONT)
    wait_for(lambda: "connected again" in old.output(), 20)
    assert worker_id(db, old) != number
    late = db.defer("noop")
    wait_for(lambda: db.log(late) == [(1, "ok")], 20)
    wait_for(lambda: db.log(job), 20)
    assert db.log(job) == [(1, "ok")]
    assert db.one("select receipt from deferred.__deferred_log where job_id = %s", job) == claim[0][2]
    said = "result (ok) refused: the lease had ended" if old_ms < 1000 else "taken by another worker; stopped here"
    wait_for(lambda: f"job {job} record attempt 1: {said}" in old.output(), 30)
    stop(old)
    stop(new)
    assert len(recorded.starts(job)) == 2, "once for each of the two jobs"
    assert len(recorded.starts(beside)) == 1 and db.log(beside) == [(1, "ok")]
    assert db.run(["check_deferred", "--cnt", "0"], env={"DEFERRED_DB": db.conninfo}).returncode == 0
    assert db.sql("select count(*), count(distinct job_id) from deferred.__deferred_log where outcome = 'ok'") == [
        (23, 23)
    ]
    assert db.hot() == 0
    ledger(db)


def came_back(pair, recorded, fenced):
    """The old primary is killed, the standby promoted, and the old one started again, as one that
    takes writes unless it is fenced."""
    db = pair.db
    db.config(SETTINGS)
    jobs = recorded.defer(10)
    pair.caught_up("replay")
    db.kill()
    pair.second.promote()
    if fenced:
        with open(os.path.join(pair.first.data, "postgresql.conf"), "a") as f:
            f.write("default_transaction_read_only = on\n")
    pair.first.start()
    pair.use(pair.second)
    return jobs


def check_both(pair):
    """What a start does that is told of both, in this order."""
    done = pair.db.run(["check_deferred", "--cnt", "0"], env={"DEFERRED_DB": pair.both})
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_d9_a_fenced_primary_that_comes_back_is_passed_by(pair, recorded_on):
    db = pair.db
    recorded = recorded_on(db)
    jobs = came_back(pair, recorded, True)
    check_both(pair)
    recorded.assert_all_ok(jobs)
    added = db.run(["deferred", "add", "noop"], env={"DEFERRED_DB": pair.both})
    assert (
        added.returncode == 0
        and db.one("select fn from deferred.__deferred where id = %s", int(added.stdout)) == "noop"
    )
    check_both(pair)
    assert len(recorded.starts()) == len(jobs)
    assert pair.at(pair.first, "select count(*) from deferred.__deferred_log") == [(0,)], "nothing happens there"
    ledger(db)


@pytest.mark.slow
def test_d9_of_two_primaries_each_is_consistent_and_runs_its_jobs(pair, recorded_on):
    """As README says: of two servers that take writes neither can know of the other. A service stays where it is."""
    db = pair.db
    recorded = recorded_on(db)
    jobs = came_back(pair, recorded, False)
    stays = service(db, "stays", pair.second.conninfo(db.name) + " target_session_attrs=read-write")
    wait_for(lambda: db.hot() == 0, 20)
    check_both(pair)  # the first that takes writes is the old one
    late = db.defer("noop")
    wait_for(lambda: db.log(late) == [(1, "ok")], 20)
    stop(stays)
    assert len(recorded.starts()) == 2 * len(jobs)
    for server, done in (pair.second, len(jobs) + 1), (pair.first, len(jobs)):
        pair.use(server)
        assert db.sql("select count(*), count(distinct job_id) from deferred.__deferred_log where outcome = 'ok'") == [
            (done, done)
        ]
        ledger(db)


@pytest.mark.slow
def test_d9_a_new_start_refuses_an_old_primary_once_it_has_worked_for_the_new_one(pair, recorded_on):
    """What an old primary cannot know the worker's host does: the highest timeline it has worked for."""
    db = pair.db
    recorded = recorded_on(db)
    jobs = recorded.defer(1)
    pidfile = f"{db.dir}/lineage"
    args = ["check_deferred", "--cnt", "0", "--pidfile", pidfile]
    system = db.one("select system_identifier::text from pg_control_system()")
    assert db.run(args, env={"DEFERRED_DB": pair.both}).returncode == 0  # timeline 1 is remembered
    late = recorded.defer(1)
    pair.caught_up("replay")
    db.kill()
    pair.second.promote()
    pair.use(pair.second)
    assert db.run(args, env={"DEFERRED_DB": pair.both}).returncode == 0, "a promotion is taken as it comes"
    recorded.assert_all_ok([*jobs, *late])
    pair.first.start()  # takes writes, and has the second job as one that is ready
    refused = db.run(args, env={"DEFERRED_DB": pair.first.conninfo(db.name)})
    assert refused.returncode == 69, refused.stderr
    assert (
        f"the server is on timeline 1 of system {system}, and '{pidfile}.server' knows of timeline 2" in refused.stderr
    )
    assert "make it a standby of the new primary" in refused.stderr
    assert len(recorded.starts()) == 2, "nothing ran there again"
    assert pair.at(pair.first, "select count(*) from deferred.__deferred_log where job_id = %s", late[0]) == [(0,)]
    assert db.run(args, env={"DEFERRED_DB": pair.second.conninfo(db.name)}).returncode == 0
    os.unlink(pidfile + ".server")
    assert db.run(args, env={"DEFERRED_DB": pair.first.conninfo(db.name)}).returncode == 0, "the remedy is one"


@pytest.mark.slow
def test_d9_a_service_leaves_a_primary_that_is_fenced_under_it(pair, recorded_on):
    db = pair.db
    recorded = recorded_on(db)
    jobs = came_back(pair, recorded, False)
    run = service(db, "moves", pair.both)
    wait_for(
        lambda: pair.at(pair.first, "select count(*) from deferred.__deferred_log") == [(len(jobs),)],
        20,
        "it works for the old one",
    )
    pair.at(pair.first, "alter system set default_transaction_read_only = on")
    pair.at(pair.first, "select pg_reload_conf()")
    late = db.defer("noop")
    wait_for(lambda: db.log(late) == [(1, "ok")] and db.hot() == 0, 40)
    stop(run)
    assert "connected again" in run.output() and "registered again" in run.output()
    assert len(recorded.starts()) == 2 * len(jobs)
    ledger(db)


@pytest.fixture
def synchronous(pair):
    db = pair.db
    db.sql("alter system set synchronous_standby_names = 'second'")
    db.sql("select pg_reload_conf()")
    wait_for(
        lambda: db.sql("select 1 from pg_stat_replication where sync_state = 'sync'"), 20, "the standby is synchronous"
    )
    return pair


@pytest.fixture
def alone(synchronous):
    """A server that waits for a synchronous standby which has stopped."""
    synchronous.second.stop()
    return synchronous


@pytest.mark.slow
def test_what_a_commit_survives_is_told(alone):
    db = alone.db

    def status():
        told = db.run(["deferred", "status"]).stdout.splitlines()[1]
        said = json.loads(db.run(["deferred", "--json", "status"]).stdout)
        (found,) = [
            f for f in json.loads(db.run(["deferred", "--json", "doctor"]).stdout) if f["check"] == "durability"
        ]
        assert told.startswith(f"durability: {said['durability']}: ")
        return said["durability"], [s["name"] for s in said["standbys"]], found["status"], told

    wait_for(lambda: not db.one("select exists (select from pg_stat_replication)"), 20, "the standby has gone")
    assert status()[:3] == ("waiting", [], "fail")
    db.sql("alter system set fsync = on")
    db.sql("select pg_reload_conf()")
    alone.second.start()
    wait_for(
        lambda: db.one("select exists (select from pg_stat_replication where sync_state = 'sync')"),
        20,
        "the standby is there again",
    )
    assert status()[:3] == ("synchronous", ["second"], "ok")
    # Without the right to see it, it is said that one is there.
    db.sql("create role looker login in role deferred_viewer")
    shown = db.run(
        ["deferred", "status"], env={"DEFERRED_DB": db.conninfo.replace("user=" + pg.USER, "user=looker")}
    ).stdout
    assert (
        "durability: synchronous: " in shown and "1 standby of which no more is seen without pg_read_all_stats" in shown
    )
    db.sql("alter system set synchronous_standby_names = ''")
    db.sql("alter system set synchronous_commit = off")
    db.sql("select pg_reload_conf()")
    wait_for(lambda: status()[0] == "delayed", 10, "it is as the settings say")
    assert "second (async, " in status()[3] and status()[2] == "warn"
    db.sql("alter system reset fsync")  # which is off in these tests
    db.sql("select pg_reload_conf()")
    wait_for(lambda: status()[0] == "none", 10, "it is as the settings say")
    assert status()[2] == "warn"


def cancel_wait(db, name):
    """Cancels the wait of that program for the standby, as an administrator may who cannot wait."""
    waits = "select pid from pg_stat_activity where wait_event = 'SyncRep' and application_name = %s"
    (pid,) = wait_for(lambda: db.sql(waits, name), 20, f"{name} waits for the standby")[0]
    db.sql("select pg_cancel_backend(%s)", pid)


LINES = "".join('{"fn": "noop"}\n' for _ in range(20))


@pytest.mark.slow
@pytest.mark.parametrize("args, input, jobs", [(["noop"], None, 1), (["--stdin"], LINES, 20)], ids=["one", "many"])
def test_d10_who_defers_learns_that_the_wait_for_the_standby_was_cancelled(alone, args, input, jobs):
    db = alone.db
    with open(os.path.join(db.dir, "lines"), "w+") as lines:
        lines.write(input or "")
        lines.seek(0)
        run = db.spawn(["deferred", "add", *args], stdin=lines)
        cancel_wait(db, "deferred" if input else "libdeferred")
        assert run.wait(20) == 69, run.output()
    assert (
        "stored on one server only, outcome unknown: the wait for a synchronous standby was cancelled" in run.output()
    )
    assert db.hot() == jobs, "it is stored, as long as this server lasts"


@pytest.mark.slow
def test_d10_a_worker_asks_what_became_of_a_record_whose_wait_was_cancelled(synchronous, recorded_on):
    db = synchronous.db
    recorded = recorded_on(db)
    db.config(SETTINGS)
    run = service(db, "waits", db.conninfo)
    (job,) = recorded.defer(1, ms=1500)
    wait_for(lambda: recorded.starts(job))
    synchronous.second.stop()
    wait_for(lambda: [line for line in recorded.lines() if line[0] == "end"], 20)
    cancelled = 0
    while not db.log(job):
        cancel_wait(db, "check_deferred")
        cancelled += 1
    synchronous.second.start()
    (later,) = recorded.defer(1)
    wait_for(lambda: db.log(later), 20)
    stop(run)
    assert (
        cancelled >= 1
        and "the wait for a synchronous standby was cancelled" in run.output()
        and "connected again" in run.output()
    )
    recorded.assert_all_ok([job, later])
    assert len(recorded.starts()) == 2


@pytest.mark.slow
def test_d10_plain_sql_is_warned_by_the_server(alone):
    db = alone.db
    connection = psycopg2.connect(db.conninfo, application_name="plain")
    connection.autocommit = True
    thread = threading.Thread(target=lambda: connection.cursor().execute("select deferred.defer('noop')"))
    thread.start()
    cancel_wait(db, "plain")
    thread.join(20)
    assert any("might not have been replicated" in n for n in connection.notices)
    connection.close()
    assert db.hot() == 1


@pytest.mark.slow
def test_d10_a_message_whose_wait_was_cancelled_is_not_acknowledged(synchronous):
    db = synchronous.db
    with contextlib.closing(Front(db, config="").client()) as client:
        client.create("mail")
        synchronous.second.stop()
        answers = []
        thread = threading.Thread(
            target=lambda: answers.append(client.call("POST", "/mail/messages", XML.format("once")))
        )
        thread.start()
        cancel_wait(db, "deferred_http")
        thread.join(20)
    assert answers[0].status == 503, answers
    assert db.hot() == 1, "it is stored, as long as this server lasts"


@pytest.mark.slow
def test_d10_who_waits_for_the_standby_when_the_server_is_stopped_learns_that_nobody_knows(alone):
    db = alone.db
    run = db.spawn(["deferred", "add", "noop"])
    wait_for(
        lambda: db.sql("select 1 from pg_stat_activity where wait_event = 'SyncRep'"), 20, "it waits for the standby"
    )
    alone.first.stop()  # fast, as a manager demotes a primary
    assert run.wait(20) == 69, run.output()
    assert "connection lost: " in run.output()
    alone.first.start()
    alone.use(alone.first)
    assert db.hot() == 1, "it was committed there, and there only"


@pytest.mark.slow
def test_d10_a_statement_timeout_does_not_end_the_wait_for_the_standby(alone):
    db = alone.db
    run = db.spawn(
        ["deferred", "add", "noop"], env={"DEFERRED_DB": db.conninfo + " options='-c statement_timeout=300ms'"}
    )
    time.sleep(1)
    assert run.alive(), run.output()
    alone.second.start()
    assert run.wait(20) == 0, run.output()


@pytest.mark.slow
def test_a_step_that_was_saved_survives_the_failover_to_a_synchronous_standby(synchronous):
    db, folder = synchronous.db, synchronous.db.dir
    db.plugins("running")
    db.config(SETTINGS + 'lease = "3s"\n')

    def said():
        with contextlib.suppress(FileNotFoundError), open(f"{folder}/said") as f:
            return f.read().split("\n")[:-1]
        return []

    job = db.defer("saved", json.dumps({"file": f"{folder}/said", "n": 8, "wait": 6}))
    old = service(db, "old", db.conninfo)
    wait_for(lambda: len(said()) == 6, 20, "the call of the fifth step has returned")
    db.kill()
    synchronous.second.promote()
    synchronous.use(synchronous.second)
    steps = [f"s{i}" for i in range(1, 9)]
    assert [r[0] for r in db.sql("select name from deferred.__deferred_step order by number")] == steps[:5]
    old.kill()
    open(f"{folder}/said.go", "w").close()
    new = service(db, "new", synchronous.second.conninfo(db.name))
    wait_for(lambda: db.log(job)[-1:] and db.log(job)[-1][1] == "ok", 30)
    assert said() == [*steps[:6], *steps[5:]]
    stop(new)
    ledger(db)
