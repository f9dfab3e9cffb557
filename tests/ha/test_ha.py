"""`make check-ha`: a cluster that a failover manager keeps, jobs and messages deferred and run all
the while, the primary switched, killed, and come back.

What is lost, how long it took, and what was said: printed."""

import bisect
import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time

import psycopg2
import psycopg2.extras
import pytest

import harness
import manager
import pg
from front import Front

pytestmark = [
    pytest.mark.by_hand,
    pytest.mark.skipif("DEFERRED_HA" not in os.environ, reason="for make check-ha, which installs the manager"),
]
SETTINGS = 'interval_floor = "50ms"\ninterval_ceiling = "200ms"\nbackoff_floor = "1ms"\nbackoff_ceiling = "1ms"\n'
QUEUE = "work"


def free_ports(n):
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in taken]
    for s in taken:
        s.close()
    return ports


@contextlib.contextmanager
def cluster_of(nodes):
    root = pg.make_root("deferred-ha.")
    cluster = manager.Managed(root, nodes, free_ports(nodes + 1))
    try:
        cluster.create()
        yield cluster
    finally:
        cluster.stop()
        pg.sweep(root)


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def poolers(cluster):
    """One PgBouncer beside each server, in transaction mode, and programs connect to those: yields
    them by port of the server."""
    ports, started = free_ports(len(cluster.nodes)), []
    try:
        for node, port in zip(cluster.nodes, ports):
            path = os.path.join(cluster.folder, f"bouncer.{node.name}.ini")
            with open(path, "w") as f:
                f.write(
                    f"[pgbouncer]\nadmin_users = postgres\nlisten_addr = 127.0.0.1\nlisten_port = "
                    f"{port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n"
                    "ignore_startup_parameters = extra_float_digits,options\nserver_login_retry = "
                    "1\nquery_wait_timeout = 5\nserver_connect_timeout = 2\n"
                    f"[databases]\napp = host=127.0.0.1 port={node.port} dbname=app user=postgres\n"
                )
            pg.give_to_server(path)
            started.append(
                subprocess.Popen(
                    pg.as_server(["/usr/sbin/pgbouncer", "-q", path]),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        for port, process in zip(ports, started):
            harness.wait_for(lambda: answers(port) or process.poll() is not None, 20, "a pooler that answers")
            assert process.poll() is None
        cluster.ports = ports
        yield dict(zip(cluster.nodes, started))
    finally:
        cluster.ports = [n.port for n in cluster.nodes]
        for process in started:
            process.kill()
            process.wait()


class Site(harness.Db):
    """A host with workers, the HTTP front, and applications. `direct` asks the primary without a pooler."""

    def __init__(self, cluster):
        self.conninfo_direct = cluster.conninfo("app")
        super().__init__(cluster, "app")
        self.config(SETTINGS)

    def ask(self, query, *args):
        """A server that is just being started again hangs up, and libpq then does not go on to the
        next one: what reads is asked again."""
        end = time.monotonic() + 30
        while True:
            try:
                with contextlib.closing(
                    psycopg2.connect(self.conninfo_direct)
                ) as connection, connection, connection.cursor() as cursor:
                    cursor.execute(query, args or None)
                    return cursor.fetchall() if cursor.description else []
            except psycopg2.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)


class Worker(threading.Thread):
    """Does something again and again until it is told to end; what fails is tried again with a new connection."""

    def __init__(self, step, name):
        super().__init__(daemon=True)
        self.step, self.label, self.over, self.acknowledged, self.unknown, self.last = step, name, False, {}, 0, None
        self.alone = []  # when it was acknowledged what no standby was waited for
        self.by = {}  # the port of the server that did

    def run(self):
        i, state = 0, {}
        while not self.over:
            i += 1
            try:
                self.step(self, f"{self.label} {i}", state)
            except (psycopg2.Error, OSError, AssertionError, AttributeError) as e:
                self.unknown += 1
                self.last = f"{time.time():.1f} {e!r}"
                state.clear()
                time.sleep(0.05)


def defer_job(worker, label, state, site):
    if "connection" not in state:
        connection = psycopg2.connect(site.conninfo)
        connection.autocommit = True
        state["connection"] = connection
    with state["connection"].cursor() as cursor:
        cursor.execute(
            "select current_setting('synchronous_standby_names') = '', current_setting('port') "
            "from deferred.defer('noop', '{}'::json, %s::json)",
            (psycopg2.extras.Json({"label": label}),),
        )
        alone, worker.by[label] = cursor.fetchone()
    worker.acknowledged[label] = time.time()
    if alone:
        worker.alone.append(worker.acknowledged[label])
    time.sleep(0.002)


def put_message(worker, label, state, front):
    client = state.setdefault("client", front.client())
    client.put(QUEUE, label)
    worker.acknowledged[label] = time.time()


def take_message(worker, label, state, front):
    client = state.setdefault("client", front.client())
    for message in client.get(QUEUE, 8):
        worker.acknowledged[message["MessageText"]] = time.time()  # seen
        client.delete(QUEUE, message)


class Load:
    """Producers in SQL and over HTTP, one who takes messages, a line of cron, and services, at a site."""

    def __init__(self, site):
        self.site = site
        self.front = Front(site, config="")
        site.config(SETTINGS + open(site.config_file).read())
        self.front.client().create(QUEUE)
        self.producers = [
            Worker(lambda w, label, state: defer_job(w, label, state, site), f"producer {i}") for i in range(3)
        ]
        self.puts = Worker(lambda w, label, state: put_message(w, label, state, self.front), "message")
        self.takes = Worker(lambda w, label, state: take_message(w, label, state, self.front), "take")
        self.codes = []
        self.cron = Worker(self.start_of_cron, "cron")
        self.threads = [*self.producers, self.puts, self.takes, self.cron]
        self.services = [self.service(f"service{i}") for i in range(2)]
        for thread in self.threads:
            thread.start()

    def service(self, name):
        return self.site.spawn(["check_deferred", "--loop", "--pidfile", f"{self.site.dir}/{name}"])

    def start_of_cron(self, worker, label, state):
        self.codes.append(
            self.site.run(["check_deferred", "--cnt", "50", "--pidfile", f"{self.site.dir}/cron"]).returncode
        )
        time.sleep(0.2)

    def acknowledged(self):
        return {label: at for p in self.producers for label, at in list(p.acknowledged.items())}

    def waited(self, labels):
        """Those of them that were acknowledged by a server that waited for a standby: a session may
        see half a second late that it does no more."""
        alone = sorted(at for p in self.producers for at in p.alone)
        acknowledged = {**self.acknowledged(), **self.puts.acknowledged}

        def near(at):
            i = bisect.bisect(alone, at)
            return any(abs(at - t) < 0.5 for t in alone[max(i - 1, 0) : i + 1])

        return {label for label in labels if not near(acknowledged[label])}

    def go_on_after(self, moment):
        try:
            harness.wait_for(lambda: self.all_go_on_after(moment), 90)
        except AssertionError:
            raise AssertionError(
                f"who defers does not go on after {moment}: {[(w.label, w.last) for w in self.threads]}"
            ) from None

    def all_go_on_after(self, moment):
        return all(any(at > moment for at in list(w.acknowledged.values())) for w in [*self.producers, self.puts])

    def end(self):
        """Lets all that is ready be run, and all messages be taken."""
        for thread in [*self.producers, self.puts]:
            thread.over = True
        for thread in [*self.producers, self.puts]:
            thread.join(60)
        harness.wait_for(
            lambda: self.site.ask("select count(*) from deferred.__deferred_hot where fn is not null")[0][0] == 0,
            120,
            "all jobs run",
        )
        harness.wait_for(
            lambda: set(self.puts.acknowledged) <= set(self.takes.acknowledged)
            or self.front.client().count(QUEUE) == 0,
            120,
            "all messages taken",
        )
        for thread in self.threads:
            thread.over = True
            thread.join(60)
        for service in self.services:
            service.signal(signal.SIGTERM)
            assert service.wait(60) == 0, service.output()


def promoted(cluster, site, fault):
    """Has it happen. The old primary, and when the new one began to take writes, by its own clock."""
    old = cluster.primary()
    others = [n for n in cluster.nodes if n is not old]
    fault(cluster, old)
    return old, *taking_writes(others)


def taking_writes(nodes, limit_s=120):
    """The first of them that does, and since when."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        for node in nodes:
            with contextlib.suppress(psycopg2.Error), contextlib.closing(
                psycopg2.connect(f"host=127.0.0.1 port={node.port} user=postgres dbname=app connect_timeout=1")
            ) as connection, connection.cursor() as cursor:
                # Between its promotion and the word of the monitor the manager has it read only.
                cursor.execute(
                    "select clock_timestamp(), pg_is_in_recovery() "
                    "or current_setting('default_transaction_read_only')::bool"
                )
                at, waits = cursor.fetchone()
                if not waits:
                    return node, at
        time.sleep(0.01)
    raise AssertionError(f"nobody takes writes within {limit_s} s")


def switched(cluster, old):
    """It comes back when all have changed places; the promotion is before that."""
    threading.Thread(target=lambda: cluster.monitor.autoctl("pg_autoctl perform failover"), daemon=True).start()


def killed(cluster, old):
    old.kill()


def told(cluster, what, load, lost, site, at, began):
    after = site.ask(
        "select min(extract(epoch from started_at - %s)) from deferred.__deferred_log where started_at > %s", at, at
    )[0][0]
    commit = min(when for when in load.acknowledged().values() if when > at.timestamp()) - at.timestamp()
    print(
        f"\n{what}, {len(cluster.nodes)} nodes: {len(load.acknowledged())} jobs and {len(load.puts.acknowledged)} "
        f"messages acknowledged, {len(lost)} lost, "
        f"{sum(w.unknown for w in load.threads)} calls without an answer; promoted {began:.1f} s after, first commit "
        f"acknowledged {commit:.2f} s and first job {after:.2f} s after the promotion"
    )


def loss_told(cluster, load, lost):
    """Whose they were and when: beside the manager's events that explains a loss."""
    print(f"  {len(lost - load.waited(lost))} of them while the manager had commits wait for nobody")
    acknowledged, by = load.acknowledged(), {label: port for p in load.producers for label, port in p.by.items()}
    for node in cluster.nodes:
        when = sorted(acknowledged[label] for label in lost & set(acknowledged) if by[label] == str(node.port))
        if when:
            first, last = (time.strftime("%H:%M:%S", time.localtime(at)) for at in (when[0], when[-1]))
            print(f"  {len(when)} jobs by {node.name}, {first} to {last}")
    print("  what the manager did:\n  " + "\n  ".join(cluster.events()))


def nothing_is_wrong(site, load):
    ran = {
        row[0]
        for row in site.ask(
            """select d.label from deferred.__deferred d
                                         where exists (select from deferred.__deferred_log l
                                         where l.job_id = d.id and l.outcome = 'ok')"""
        )
    }
    assert (
        site.ask(
            "select count(*) - count(distinct job_id) from deferred.__deferred_log where outcome = 'ok' and final"
        )[0][0]
        == 0
    ), "recorded twice"
    assert site.ask("select * from deferred.check_ledger()") == []
    return (set(load.acknowledged()) - ran) | (set(load.puts.acknowledged) - set(load.takes.acknowledged))


def nothing(load, lost):
    return lost == set()


def through(cluster, fault, direct=None, after_promotion=lambda new: None, allowed=nothing):
    site = Site(cluster)
    if direct:
        site.conninfo_direct = direct
    load = None
    try:
        load = Load(site)
        time.sleep(3)
        start = time.monotonic()
        old, new, at = promoted(cluster, site, fault)
        began, goes_on = time.monotonic() - start, time.time()
        after_promotion(new)
        load.go_on_after(goes_on)
        time.sleep(2)
        load.end()
        lost = nothing_is_wrong(site, load)
        told(cluster, fault.__name__, load, lost, site, at, began)
        if lost:
            loss_told(cluster, load, lost)
        assert allowed(load, lost)
        assert set(load.codes) <= {0, 69}, "a start works, or says that there is no server"
    finally:
        for thread in load.threads if load else []:
            thread.over = True
        site.close()


@pytest.mark.parametrize("nodes", [2, 3])
def test_nothing_acknowledged_is_lost_when_the_manager_promotes(nodes):
    for fault in (switched, killed):
        with cluster_of(nodes) as cluster:
            pg.migrate(cluster.conninfo("app"))
            commits_wait(cluster)
            through(cluster, fault)


def commits_wait(cluster):
    ask = [
        os.path.join(pg.bindir(), "psql"),
        "-XAt",
        "-d",
        cluster.conninfo("app"),
        "-c",
        manager.typed("psql -d app -c")[-1],
    ]
    harness.wait_for(lambda: re.search(r"\|(sync|quorum)$", pg.call(ask), re.M), 60, "commits wait for a standby")


def given_up_while_alone(cluster, old):
    """
    The standby is away for a while, so the manager has commits wait for nobody. It is there again,
    but before they wait for it the primary's host is too busy for new connections and for the
    manager, while sessions go on: the standby is promoted as it is, and they are acknowledged yet.
    """
    (standby,) = [n for n in cluster.nodes if n is not old]
    away = standby.processes()
    manager.send(away, signal.SIGSTOP)
    cluster.wait(lambda: cluster.state(old) == "wait_primary")
    manager.send(away, signal.SIGCONT)
    cluster.wait(lambda: cluster.goal(standby) == "secondary")
    busy = old.managers()
    manager.send(busy, signal.SIGSTOP)
    cluster.wait(lambda: cluster.state(standby) == "secondary")
    assert cluster.goal(old) == "wait_primary", "commits wait for nobody"
    manager.send([old.server_pid()], signal.SIGSTOP)
    busy.append(old.server_pid())
    threading.Timer(10, manager.send, (busy, signal.SIGCONT)).start()


def test_two_nodes_lose_what_was_acknowledged_while_commits_waited_for_nobody_and_nothing_else():
    with cluster_of(2) as cluster:
        pg.migrate(cluster.conninfo("app"))
        commits_wait(cluster)
        through(cluster, given_up_while_alone, allowed=lambda load, lost: lost and load.waited(lost) == set())


def killed_while_both_standbys_were_away(cluster, old):
    away = [pid for n in cluster.nodes if n is not old for pid in n.processes()]
    manager.send(away, signal.SIGSTOP)
    time.sleep(3 * manager.SETTINGS["node_considered_unhealthy_timeout"] / 1000)
    assert cluster.state(old) == "primary", "it waits, and the manager lets it"
    old.kill()
    manager.send(away, signal.SIGCONT)


def test_three_nodes_have_commits_wait_when_both_standbys_are_away():
    with cluster_of(3) as cluster:
        pg.migrate(cluster.conninfo("app"))
        commits_wait(cluster)
        assert re.search(r"number_sync_standbys +\| +1\b", cluster.monitor.autoctl("pg_autoctl show settings"))
        through(cluster, killed_while_both_standbys_were_away)


def test_through_a_pooler_in_transaction_mode_beside_each_server():
    with cluster_of(2) as cluster:
        pg.migrate(cluster.conninfo("app"))
        direct = cluster.conninfo("app")
        with poolers(cluster) as bouncers:

            def lost(cluster, old):
                bouncers[old].kill()
                old.kill()

            lost.__name__ = "killed, behind PgBouncer"

            def reconnect(new):
                words = manager.typed(
                    "psql -h db2 -p 6432", db2="127.0.0.1", **{"6432": cluster.ports[cluster.nodes.index(new)]}
                )
                pg.call([os.path.join(pg.bindir(), words[0]), "-U", "postgres", *words[1:]])

            through(cluster, lost, direct, reconnect)


def test_without_a_synchronous_standby_what_the_server_lost_is_lost_and_nothing_else():
    with cluster_of(2) as cluster:
        pg.migrate(cluster.conninfo("app"))
        for node in cluster.nodes:
            # What it prints besides is not always text.
            subprocess.run(
                pg.as_server(["pg_autoctl", "set", "node", "replication-quorum", "false", "--pgdata", node.data]),
                env={**os.environ, **cluster.env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                check=True,
            )
        site = Site(cluster)
        harness.wait_for(lambda: site.ask("show synchronous_standby_names")[0][0] == "", 60, "commits wait for nobody")
        try:
            load = Load(site)
            time.sleep(3)
            old = cluster.primary()
            (standby,) = [n for n in cluster.nodes if n is not old]
            # What is acknowledged while the standby receives nothing is what it will lack.
            (receiver,) = [
                p for p in pg.children_of(standby.server_pid()) if "walreceiver" in open(f"/proc/{p}/cmdline").read()
            ]
            os.kill(receiver, signal.SIGSTOP)
            time.sleep(0.5)
            start = time.monotonic()
            old.kill()
            os.kill(receiver, signal.SIGTERM)  # or it would read what has arrived at its socket
            os.kill(receiver, signal.SIGCONT)
            at = taking_writes([standby])[1]
            began, goes_on = time.monotonic() - start, time.time()
            load.go_on_after(goes_on)
            load.end()
            lost = nothing_is_wrong(site, load)
            told(cluster, "killed, asynchronous", load, lost, site, at, began)
            assert lost, "the standby lacked something"
            # Each of them is named by the server that had it: PostgreSQL lost them, nobody else did.
            here = {row[0] for row in site.ask("select label from deferred.__deferred where label is not null")}
            jobs = {label for label in lost if label.startswith("producer")}
            assert not jobs & here, "what came over was run"
            old.start_unmanaged()
            try:
                with contextlib.closing(
                    psycopg2.connect(f"host=127.0.0.1 port={old.port} user=postgres dbname=app")
                ) as connection, connection.cursor() as cursor:
                    cursor.execute(
                        "select id, label from deferred.__deferred where label = any (%s) order by id", (list(jobs),)
                    )
                    named = cursor.fetchall()
            finally:
                old.stop_unmanaged()
            print(
                "  lost jobs, as the old primary has them: "
                + ", ".join(f"{i} ({label})" for i, label in named[:10])
                + (" ..." if len(named) > 10 else "")
            )
            assert {label for _, label in named} == jobs
        finally:
            site.close()


def test_an_old_primary_that_takes_writes_again_is_refused_by_who_runs_and_by_who_starts():
    with cluster_of(2) as cluster:
        pg.migrate(cluster.conninfo("app"))
        assert cluster.primary() is cluster.nodes[0], "it comes first in the connection string"
        site = Site(cluster)
        try:
            service = site.spawn(["check_deferred", "--loop", "--queue", "default", "--pidfile", f"{site.dir}/service"])
            cron = ["check_deferred", "--cnt", "0", "--queue", "cron", "--pidfile", f"{site.dir}/cron"]
            for_cron = "select deferred.defer('noop', '{}'::json, '{\"queue\": \"cron\"}'::json)"
            site.ask(for_cron)
            assert site.run(cron).returncode == 0
            old, new, _ = promoted(cluster, site, killed)
            harness.wait_for(lambda: ask_quietly(site, for_cron), 60, "somebody takes writes")
            harness.wait_for(lambda: site.run(cron).returncode == 0, 60, "the new primary is worked for")
            served = site.ask("select deferred.defer('noop')")[0][0]
            harness.wait_for(
                lambda: site.ask("select outcome from deferred.__deferred_log where job_id = %s", served) == [("ok",)],
                60,
                "by the service too",
            )
            first = f"host=127.0.0.1 port={old.port} user=postgres dbname=app"
            old.start_unmanaged()
            try:
                with contextlib.closing(psycopg2.connect(first)) as connection, connection.cursor() as cursor:
                    cursor.execute("select pg_is_in_recovery()")
                    assert cursor.fetchone() == (False,), "it takes writes, and comes first"
                    cursor.execute("set synchronous_commit = local")
                    for queue in ("cron", "default"):
                        cursor.execute(
                            "select deferred.defer('noop', '{}'::json, %s::json)",
                            (psycopg2.extras.Json({"queue": queue, "label": "nobody"}),),
                        )
                    connection.commit()
                done = site.run(cron)
                print("\na start says: " + done.stderr.strip().splitlines()[-1])
                assert done.returncode == 69 and "old primary refused" in done.stderr
                with contextlib.closing(
                    psycopg2.connect(f"host=127.0.0.1 port={new.port} user=postgres dbname=app")
                ) as connection, connection.cursor() as cursor:
                    cursor.execute(
                        "select pg_terminate_backend(pid) from pg_stat_activity "
                        "where application_name like 'check_deferred%' or application_name like 'deferred%'"
                    )
                    connection.commit()
                harness.wait_for(lambda: "old primary refused" in service.output(), 30, "the service says it")
                with contextlib.closing(psycopg2.connect(first)) as connection, connection.cursor() as cursor:
                    cursor.execute(
                        "select count(*) from deferred.__deferred_lease l join deferred.__deferred d "
                        "on d.id = any (l.ids) where d.label = 'nobody'"
                    )
                    assert cursor.fetchone() == (0,)
            finally:
                old.stop_unmanaged()
            job = site.ask("select deferred.defer('noop')")[0][0]
            harness.wait_for(
                lambda: site.ask("select outcome from deferred.__deferred_log where job_id = %s", job) == [("ok",)],
                60,
                "the service works for the new one",
            )
        finally:
            site.close()


def ask_quietly(site, query):
    with contextlib.suppress(psycopg2.Error):
        return site.ask(query)
    return None


def test_every_command_of_the_page_is_typed_here():
    typed = {
        "pg_autoctl create monitor",
        "pg_autoctl create postgres",
        "pg_autoctl run",
        "pg_autoctl show state",
        "pg_autoctl show settings",
        "pg_autoctl perform failover",
        "psql -d app -c",
        "psql -h db2 -p 6432",
    }
    assert {next(t for t in typed if line.startswith(t)) for line in manager.page_commands()} == typed
    with cluster_of(2) as cluster:
        shown = cluster.monitor.autoctl("pg_autoctl show state")
        assert "primary" in shown and "secondary" in shown
