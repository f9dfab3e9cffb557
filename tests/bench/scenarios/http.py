"""Messages over HTTP: put, and get with delete, by the stock Node client and by a loop in C, every
request signed; against azurite driven by the same clients, and against plain SQL that does the same
to tables of our columns."""

import contextlib
import json
import os
import re
import resource
import socket
import statistics
import subprocess

import node
import svg
from plain import Plain
from stage import HERE, PROGRAMS, Failed, base_env, pg

TITLE = "Messages over HTTP"
CONNECTIONS = (1, 16, 64)
IDLE = 1000
BACKLOG = 3000  # taken from
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
TICKS = os.sysconf("SC_CLK_TCK")
ENV = {**base_env(), "ACCOUNT": ACCOUNT, "KEY": KEY}

# What a put and a get with its delete are in SQL: rows of 100 bytes, one transaction for each request.
PUT = (
    "with i as (select nextval('plain.id') as id), h as (insert into plain.hot (id, queue, visible_at) select id, "
    "'q', now() from i)"
    " insert into plain.job (id, queue, params) select id, 'q', to_json(repeat('x', 100)) from i;"
)
TURN = r"""\set receipt random(1, 9000000000000000000)
with pick as (select h.id from plain.hot h where h.queue = 'q' and h.visible_at <= now() order by h.id limit 1
for update skip locked),
taken as (update plain.hot h set attempt = h.attempt + 1, receipt = :receipt, started_at = now(),
visible_at = now() + interval '5 min'
    from pick where h.id = pick.id returning h.id)
select j.id as job, j.params from taken t join plain.job j using (id) \gset
with gone as (delete from plain.hot where id = :job and receipt = :receipt returning id, attempt, receipt, started_at)
insert into plain.log (job_id, attempt, outcome, final, started_at, finished_at, receipt)
select id, attempt, 'ok', true, started_at, now(), receipt from gone;
"""


def cpu_s(pid, with_children=False):
    """Processor time of a process, and of the children it has waited for."""
    with open(f"/proc/{pid}/stat") as f:
        words = f.read().rpartition(")")[2].split()
    return sum(int(w) for w in words[11 : 15 if with_children else 13]) / TICKS


def postgresql_cpu_s(db):
    """The server, all it started and those that live."""
    master, total = db.stage.cluster.pid(), 0
    for pid in pg.children_of(master):
        with contextlib.suppress(OSError):
            total += cpu_s(pid)
    return total + cpu_s(master, True)


class Server:
    """A server that is driven by the clients. Each load has a queue of its own."""

    def __init__(self, command, port_pattern, env=None):
        self.queues, self.queue = 0, None
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=env or base_env(),
        )
        said = ""
        for line in self.process.stdout:
            said += line
            found = re.search(port_pattern, line)
            if found:
                self.port = found[1]
                return
        raise Failed(f"{' '.join(command)} did not start: {said}")

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()

    def cpu_s(self):
        return cpu_s(self.process.pid)

    def fresh(self):
        """An empty queue, and no other: some servers are slower with what is left over."""
        if self.queue:
            self.load("c", "remove")
        self.queues += 1
        self.queue = f"bench-{self.queues}"
        self.load("c", "create")

    def load(self, client, verb, *args):
        if client == "c":
            command = [os.path.join(PROGRAMS, "http_load"), verb, self.port, self.queue, *map(str, args)]
        else:
            command = [node.NODE, os.path.join(client, "http_load.mjs"), verb, self.port, self.queue, *map(str, args)]
        done = subprocess.run(command, env=ENV, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)}: {done.stderr}")
        return json.loads(done.stdout) if done.stdout else None


class Null(Server):
    """Answers at once and keeps nothing: shows the limit of a client."""

    def __init__(self):
        super().__init__([os.path.join(PROGRAMS, "http_null")], r"^(\d+)$")

    def fresh(self):
        self.queue = "none"


class Azurite(Server):
    def __init__(self, b):
        folder = node.install("bench/azurite", os.path.join(HERE, "azurite"))
        data = os.path.join(b.stage.folder, "azurite")
        os.mkdir(data)
        super().__init__(
            [
                node.NODE,
                os.path.join(folder, "node_modules/azurite/dist/src/queue/main.js"),
                "--queuePort",
                "0",
                "--location",
                data,
                "--skipApiVersionCheck",
                "--disableTelemetry",
                "--silent",
            ],
            r"listens on http://127.0.0.1:(\d+)",
        )


class Front(Server):
    def __init__(self, b, db):
        self.db = db
        conf = os.path.join(b.stage.folder, "http.conf")
        with open(conf, "w") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(f'http {{ key_file = "{os.path.join(b.stage.folder, "http.key")}" }}\n')
        env = {**base_env(), "DEFERRED_DB": db.conninfo, "DEFERRED_CONFIG": conf}
        done = subprocess.run(
            [os.path.join(pg.BUILD, "bin", "deferred"), "account", "add", ACCOUNT, "--keys", "-"],
            input=KEY + "\n",
            env=env,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise Failed(f"deferred account add: {done.stderr}")
        done = subprocess.run(
            [os.path.join(pg.BUILD, "bin", "deferred"), "token", "add", "bench", "--json"],
            env=env,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise Failed(f"deferred token add: {done.stderr}")
        ENV["TOKEN"] = json.loads(done.stdout)["secret"]
        super().__init__(
            [os.path.join(pg.BUILD, "bin", "deferred_http"), "--listen", "127.0.0.1:0"],
            r"listening on \S+:(\d+), HTTP$",
            env,
        )

    def fresh(self):
        super().fresh()
        self.db.sql("truncate deferred.__deferred, deferred.__deferred_hot, deferred.__deferred_log")
        self.db.settle()

    def cpu_s(self):
        return cpu_s(self.process.pid) + postgresql_cpu_s(self.db)

    def check(self, put, taken):
        """The database holds what was answered, no more and no less."""
        queue = f"{ACCOUNT}.{self.queue}"
        hot = self.db.one("select count(*) from deferred.__deferred_hot where queue = %s and receipt is null", queue)
        done = self.db.one("select count(*) from deferred.__deferred_log where outcome = 'ok' and final")
        if (hot, done) != (put - taken, taken):
            raise Failed(f"{put} messages were put and {taken} deleted; {hot} are in the queue, {done} in the log")

    def resident_mib(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) / 1024


class Sql:
    """Plain SQL by pgbench."""

    def __init__(self, db):
        self.db, self.plain = db, Plain(db)

    def fresh(self):
        self.plain.clear()
        self.db.settle()

    def cpu_s(self):
        return postgresql_cpu_s(self.db)

    def load(self, _client, verb, connections, seconds, most):
        if verb == "put":
            rate, done = self.db.pgbench(
                PUT,
                connections,
                *(["-T", max(1, round(seconds))] if most == 10**9 else ["-t", -(-most // connections)]),
            )
        else:
            # As many as there are but for those that others hold in the end: a client that finds none would fail.
            rate, done = self.db.pgbench(TURN, connections, "-t", max(1, most // connections - 2))
        return {"done": done, "seconds": done / rate, "p50_us": connections / rate * 1e6, "p99_us": None}

    def check(self, put, taken):
        found = self.db.sql("select (select count(*) from plain.hot), (select count(*) from plain.log)")[0]
        if found != (put - taken, taken):
            raise Failed(f"plain SQL: {put} rows were put and {taken} taken; the tables hold {found}")


class Measured:
    """All figures of one kind of load, by what was loaded."""

    def __init__(self):
        self.rounds = {}

    def add(self, key, got):
        self.rounds.setdefault(key, []).append({"rate": got["done"] / got["seconds"] if got["seconds"] else 0, **got})

    def __getitem__(self, key):
        """The round whose rate is the median."""
        ordered = sorted(self.rounds[key], key=lambda r: r["rate"])
        return ordered[len(ordered) // 2]


def with_cpu(server, client, verb, connections, seconds, most):
    before = server.cpu_s()
    got = server.load(client, verb, connections, seconds, most)
    return {**got, "cpu_us": (server.cpu_s() - before) / max(got["done"], 1) * 1e6}


def turns(b, servers, client, connections, seconds, measured):
    """Each server once a round: put for a while; then take and delete, for a while at most, the same number on each."""
    names, backlog = list(servers), BACKLOG // (6 if b.quick else 1)
    for i in range(b.rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            server = servers[name]
            server.fresh()
            put = with_cpu(server, client, "put", connections, seconds, 10**9)
            if hasattr(server, "check"):
                server.check(put["done"], 0)
            server.fresh()
            filled = server.load("c", "put", 16, 60, backlog)["done"]
            turn = with_cpu(server, client, "turn", connections, seconds, filled)
            if hasattr(server, "check"):
                server.check(filled, turn["done"])
            kind = "C" if client == "c" else "Node"
            measured.add((kind, connections, "put", name), put)
            measured.add((kind, connections, "get+delete", name), turn)
            b.say(
                f"{kind}, {connections} connection(s), {name}: {put['done'] / put['seconds']:,.0f} put/s, "
                f"{turn['done'] / turn['seconds']:,.0f} get+delete/s"
            )


def beside_idle(b, front, seconds):
    """The same load alone and beside many connections that do nothing, and what those cost."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * IDLE)), hard))
    alone, beside, cost = [], [], 0
    for _ in range(b.rounds):
        front.fresh()
        got = front.load("c", "put", 16, seconds, 10**9)
        alone.append(got["done"] / got["seconds"])
        with contextlib.ExitStack() as stack:
            before = front.resident_mib()
            for _ in range(IDLE):
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", int(front.port))))
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                connection.recv(4096)
            cost = max(cost, front.resident_mib() - before)
            got = front.load("c", "put", 16, seconds, 10**9)
            beside.append(got["done"] / got["seconds"])
    base = statistics.median(alone)
    b.report.row("C put, 16 connections: alone", base, "/s")
    b.report.row(f"C put, 16 connections: beside {IDLE:,} idle ones", statistics.median(beside), "/s", base, least=0.9)
    b.report.row(f"resident memory that {IDLE:,} idle connections cost", cost, "MiB", value_most=64)


def jobs_by_json(b, front, connections, seconds):
    """Jobs over the JSON API, in turns with messages over the queue protocol."""
    rates = {"put": [], "defer": []}
    for i in range(b.rounds):
        for verb in ("put", "defer") if i % 2 else ("defer", "put"):
            front.fresh()
            got = with_cpu(front, "c", verb, connections, seconds, 10**9)
            rates[verb].append(got["done"] / got["seconds"])
            if front.db.one("select count(*) from deferred.__deferred_hot") != got["done"]:
                raise Failed(f"{got['done']} of {verb} were answered, and the database holds another number")
    put, defer = (statistics.median(rates[verb]) for verb in ("put", "defer"))
    b.report.row(f"C, {connections}: message by the queue protocol", put, "/s")
    b.report.row(f"C, {connections}: job by JSON", defer, "/s", put, least=1)


def run(b):
    seconds = 1 if b.quick else 3
    packages = node.install("node", os.path.join(pg.TOP, "tests", "http", "node"))
    node.scripts(packages, HERE)
    measured = Measured()
    with b.database() as db, contextlib.ExitStack() as stack:
        servers = {"no server": Null(), "azurite": Azurite(b), "deferred_http": Front(b, db)}
        for server in servers.values():
            stack.callback(server.close)
        for connections in CONNECTIONS:
            turns(b, servers, packages, connections, seconds, measured)
        servers["plain SQL"] = Sql(db)
        for connections in CONNECTIONS:
            turns(b, servers, "c", connections, seconds, measured)
        for kind in ("Node", "C"):
            for connections in CONNECTIONS:
                for verb in ("put", "get+delete"):
                    for name in servers:
                        if (kind, connections, verb, name) in measured.rounds:
                            row(b.report, measured, kind, connections, verb, name)
        for connections in CONNECTIONS:
            for verb in ("put", "get+delete"):
                for name in ("azurite", "deferred_http", "plain SQL"):
                    b.report.row(
                        f"processor time of the server, C, {connections}, {verb}: {name}",
                        measured["C", connections, verb, name]["cpu_us"],
                        "us",
                        measured["C", connections, verb, "azurite"]["cpu_us"] if name == "deferred_http" else None,
                    )
        for connections in CONNECTIONS:
            jobs_by_json(b, servers["deferred_http"], connections, seconds)
        beside_idle(b, servers["deferred_http"], seconds)
    b.report.fact("rounds_of", {", ".join(map(str, key)): rounds for key, rounds in measured.rounds.items()})
    for verb in ("put", "get+delete"):
        b.report.chart(
            svg.bars,
            verb.replace("+", "-"),
            f"{verb} over HTTP, C client",
            "connections",
            "a second",
            [str(c) for c in CONNECTIONS],
            [
                (name, [measured["C", c, verb, name]["rate"] for c in CONNECTIONS])
                for name in servers
                if name != "no server"
            ],
        )


def row(report, measured, kind, connections, verb, name):
    """One line. The Node client is held against its own limit, the C client against azurite; both against plain SQL."""
    got = measured[kind, connections, verb, name]
    text = f"{kind}, {connections}, {verb}: {name}, p50 {got['p50_us'] / 1000:.2f}"
    text += f" p99 {got['p99_us'] / 1000:.2f} ms" if got["p99_us"] is not None else " ms"
    base = aim = None
    if name == "deferred_http":
        base = measured[kind, connections, verb, "no server" if kind == "Node" else "azurite"]["rate"]
        aim = 0.9 if kind == "Node" else 15 if connections == 16 else None
    report.row(text, got["rate"], "/s", base, least=aim)
    if name == "plain SQL":
        report.row(
            f"{kind}, {connections}, {verb}: deferred_http to plain SQL",
            measured[kind, connections, verb, "deferred_http"]["rate"],
            "/s",
            got["rate"],
        )
