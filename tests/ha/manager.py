"""A cluster of pg_auto_failover on loopback, made by the commands that deferred(7) tells an
administrator: there `$` stands before each."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time

import pg

PAGE = os.path.join(pg.TOP, "lib", "deferred.7")
# So that what takes half a minute between hosts takes seconds here.
SETTINGS = {
    "health_check_period": 1000,
    "health_check_timeout": 1000,
    "health_check_max_retries": 1,
    "health_check_retry_delay": 300,
    "node_considered_unhealthy_timeout": 4000,
    "primary_demote_timeout": 4000,
}


def page_commands():
    """All of the section, in order; a line that ends with a backslash goes on with the next."""
    with open(PAGE) as f:
        section = re.search(r"(?ms)^\.Sh HIGH AVAILABILITY$(.*?)^\.Sh ", f.read())[1]
    section = section.replace("\\e\n", "").replace("\\-", "-")
    return [re.sub(r"\s+", " ", line) for line in re.findall(r"(?m)^\$ (.*)$", section)]


def typed(beginning, **places):
    """The command of the page that begins so, with its words that name places of an installation put in their stead."""
    (line,) = [line for line in page_commands() if line.startswith(beginning)]
    for name, place in places.items():
        assert name.replace("_", "/") in line or name in line, (name, line)
    words = shlex.split(line)
    for old, new in ((k, v) for k, v in places.items()):
        words = [w.replace(old, str(new)) for w in words]
    return words


def send(pids, what):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)


class Node:
    """`data` stands in place of the folder of the page, and a port of its own beside it: there each
    is on a host of its own."""

    def __init__(self, cluster, name, port):
        self.cluster, self.name, self.port = cluster, name, port
        self.data = os.path.join(cluster.folder, name)
        self.process = None

    def autoctl(self, beginning, *more, **places):
        words = [
            self.data if w == "/srv/pg" else "127.0.0.1" if w in ("db0", "db1") else w
            for w in typed(beginning, **places)
        ]
        return pg.call(pg.as_server([*words, *more]), self.cluster.env)

    def run(self):
        """pg_autoctl keeps the server running, and does what the monitor says."""
        words = [self.data if w == "/srv/pg" else w for w in typed("pg_autoctl run")]
        with open(os.path.join(self.cluster.folder, self.name + ".log"), "a") as log:
            self.process = subprocess.Popen(
                pg.as_server(words),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.cluster.env},
                cwd="/",
            )

    def server_pid(self):
        try:
            with open(os.path.join(self.data, "postmaster.pid")) as f:
                return int(f.readline())
        except OSError:
            return None

    def family(self):
        found, more = [], [self.process.pid]
        while more:
            found += more
            more = [child for pid in more for child in pg.children_of(pid)]
        return found

    def servers(self):
        server = self.server_pid()
        return [server, *pg.children_of(server)] if server else []

    def managers(self):
        return [pid for pid in self.family() if pid not in self.servers()]

    def processes(self):
        """Its server is no child of a manager where that was started anew."""
        return [*self.managers(), *self.servers()]

    def kill(self):
        """As when the host is lost."""
        server = self.server_pid()
        send(self.processes(), signal.SIGKILL)
        self.process.wait()
        self.cluster.wait(lambda: server is None or not pg.running(server))

    def start_unmanaged(self):
        """The server alone, as on a host that was cut off and has its manager no more."""
        pg.call(
            pg.as_server(
                [
                    os.path.join(pg.bindir(), "pg_ctl"),
                    "-D",
                    self.data,
                    "-w",
                    "-l",
                    os.path.join(self.cluster.folder, self.name + ".alone.log"),
                    "start",
                ]
            )
        )

    def stop_unmanaged(self):
        pg.call(pg.as_server([os.path.join(pg.bindir(), "pg_ctl"), "-D", self.data, "-w", "-m", "immediate", "stop"]))

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()
        server = self.server_pid()
        if server and pg.running(server):
            self.stop_unmanaged()


class Managed:
    """A monitor and so many nodes, the first of them the primary."""

    def __init__(self, folder, nodes, ports):
        self.folder = folder
        self.env = {
            "HOME": folder,
            "XDG_CONFIG_HOME": folder + "/config",
            "XDG_DATA_HOME": folder + "/share",
            "XDG_RUNTIME_DIR": folder,
            "PATH": pg.bindir() + ":" + os.environ["PATH"],
        }
        self.monitor = Node(self, "monitor", ports[0])
        self.nodes = [Node(self, f"node{i + 1}", ports[i + 1]) for i in range(nodes)]
        self.ports = [n.port for n in self.nodes]  # that programs connect to

    def create(self):
        pg.give_to_server(self.folder)
        self.monitor.autoctl("pg_autoctl create monitor", "--pgport", str(self.monitor.port))
        self.monitor.run()
        self.wait(lambda: self.ask("select 1"))
        for name, ms in SETTINGS.items():
            self.ask(f"alter system set pgautofailover.{name} = {ms}")
        self.ask("select pg_reload_conf()")
        for node in self.nodes:
            node.autoctl(
                "pg_autoctl create postgres",
                "--pgport",
                str(node.port),
                "--name",
                node.name,
                **{"@db0": f"@127.0.0.1:{self.monitor.port}"},
            )
            node.run()
            self.wait(lambda: self.state(node) in ("single", "wait_primary", "primary", "secondary"))
        self.wait(self.settled)

    def ask(self, query):
        return pg.call(
            [
                os.path.join(pg.bindir(), "psql"),
                "-XAtq",
                "-h",
                "127.0.0.1",
                "-p",
                str(self.monitor.port),
                "-U",
                "postgres",
                "-d",
                "pg_auto_failover",
                "-c",
                query,
            ]
        ).strip()

    def state(self, node):
        return self.ask(f"select reportedstate from pgautofailover.node where nodename = '{node.name}'")

    def goal(self, node):
        return self.ask(f"select goalstate from pgautofailover.node where nodename = '{node.name}'")

    def events(self):
        return self.ask(
            "select to_char(eventtime, 'HH24:MI:SS.MS ') || nodename || ' ' || reportedstate || ' -> ' || goalstate "
            "|| ': ' || description "
            "from pgautofailover.event order by eventid"
        ).splitlines()

    def settled(self):
        return sorted(self.state(n) for n in self.nodes) == ["primary"] + ["secondary"] * (len(self.nodes) - 1)

    def primary(self):
        return next((n for n in self.nodes if self.state(n) in ("primary", "wait_primary", "single")), None)

    def conninfo(self, dbname):
        """That of the page, with the ports of these nodes."""
        line = re.search(r'conninfo = "(host=db1,db2 [^"]*)"', open(PAGE).read())[1]
        line = line.replace(
            "host=db1,db2",
            "host=" + ",".join(["127.0.0.1"] * len(self.ports)) + " port=" + ",".join(map(str, self.ports)),
        )
        return line.replace("dbname=app", f"dbname={dbname}").replace("user=worker", "user=postgres")

    @staticmethod
    def wait(condition, limit_s=90):
        end = time.monotonic() + limit_s
        while True:
            try:
                if condition():
                    return
            except pg.PgError:
                pass
            if time.monotonic() > end:
                raise pg.PgError("the cluster is not what it should be")
            time.sleep(0.1)

    def stop(self):
        for node in [*self.nodes, self.monitor]:
            node.stop()
