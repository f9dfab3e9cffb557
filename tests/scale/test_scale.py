"""`make check-scale`: jobs spread over several servers, under kills; a shard that is down, one that
is added, one that is drained; what is lost, over all of them. And one entry point in SQL, by
PL/Proxy. Figures are printed; throughput and processor time are those of `make bench-shards`."""

import os
import random
import subprocess
import threading
import time

import psycopg2
import pytest

import harness
import pg
from verdict import Journal, Verdict

pytestmark = [
    pytest.mark.by_hand,
    pytest.mark.skipif("DEFERRED_SCALE" not in os.environ, reason="for make check-scale"),
]
SETTINGS = 'interval_floor = "50ms"\ninterval_ceiling = "200ms"\nbackoff_floor = "1ms"\nbackoff_ceiling = "20ms"\n'
IDS = 10**13
MASK = 2**64 - 1


def shard_for(names, route):
    """As deferred(3) tells a programmer in another language to compute it."""

    def weight(name):
        h = 0xCBF29CE484222325
        for byte in route.encode() + b"\0" + name.encode():
            h = (h ^ byte) * 0x100000001B3 & MASK
        h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & MASK
        h = (h ^ h >> 27) * 0x94D049BB133111EB & MASK
        return h ^ h >> 31

    return max(names, key=weight)


class Shards:
    """Servers of their own, by name; a config file that names them; a service for each."""

    def __init__(self, names):
        self.servers, self.accepting, self.services = {}, set(), {}
        self.home = None
        for name in names:
            self.add(name)

    def add(self, name):
        """As an operator does: a server, a section, migrate, a worker."""
        server = harness.OwnServer(settings={"shared_buffers": "64MB"})
        server.plugins("unruly")
        self.home = self.home or server
        self.servers[name] = server
        self.write()
        done = server.run(["deferred", "migrate", "--shard", name], env=self.env)
        assert done.returncode == 0 and f"number {self.number(name)}" in done.stdout, done
        self.serve(name)
        self.accepting.add(name)
        self.write()

    @property
    def env(self):
        return {"DEFERRED_DB": "", "DEFERRED_CONFIG": self.home.config_file}

    def number(self, name):
        return list(self.servers).index(name) + 1

    def write(self):
        self.home.config(
            SETTINGS
            + "".join(
                f'shard "{n}" {{ number = {self.number(n)} conninfo = "{s.conninfo}" accepting = '
                f'{int(n in self.accepting)} }}\n'
                for n, s in self.servers.items()
            )
        )

    def serve(self, name):
        server = self.servers[name]
        self.services[name] = server.spawn(
            [
                "check_deferred",
                "--shard",
                name,
                "--pidfile",
                f"{server.dir}/service",
                "--loop",
                "--listen",
                "--runners",
                "2",
                "--batch",
                "20",
            ],
            env={**self.env, "DEFERRED_PLUGIN_DIR": self.home.env["DEFERRED_PLUGIN_DIR"]},
        )

    def run(self, *args):
        return self.home.run(list(args), env=self.env)

    def close(self):
        for server in self.servers.values():
            server.close()


class Producer(threading.Thread):
    """Defers over SQL: what has a key where its key belongs, the rest anywhere. Only what was answered counts."""

    def __init__(self, shards, journals, seed, record):
        super().__init__()
        self.shards, self.journals, self.rng, self.record = shards, journals, random.Random(seed), record
        self.stop, self.answered, self.refused = threading.Event(), {}, {}
        self.longest, self.last = 0, time.monotonic()
        self.rounds = 0

    def run(self):
        connections = {}
        while not self.stop.is_set():
            self.rounds += 1
            names = sorted(self.shards.accepting)
            key = f"key {self.rng.randrange(12)}" if self.rng.random() < 0.3 else None
            name = shard_for(names, key) if key else self.rng.choice(names)
            if key is None:
                self.rng.shuffle(names)
            for name in [name] if key else names:
                try:
                    if name not in connections or connections[name].closed:
                        connections[name] = psycopg2.connect(self.shards.servers[name].conninfo, connect_timeout=2)
                    with connections[name] as connection, connection.cursor() as cursor:
                        cursor.execute(
                            "select deferred.defer('record', %s::json, %s::json)",
                            (
                                psycopg2.extras.Json({"file": self.record, "ms": self.rng.randrange(8)}),
                                psycopg2.extras.Json({"concurrency_key": key} if key else {}),
                            ),
                        )
                        job = cursor.fetchone()[0]
                except psycopg2.Error:
                    self.refused[name] = self.refused.get(name, 0) + 1
                    if name in connections:
                        self.journals[name].doubt()
                        connections.pop(name).close()
                    continue
                assert job // IDS == self.shards.number(name)
                self.journals[name].add([job], "key" if key else "short", key)
                self.answered[name] = self.answered.get(name, 0) + 1
                if key is None:
                    now = time.monotonic()
                    self.longest, self.last = max(self.longest, now - self.last), now
                break
            time.sleep(0.002)
        for connection in connections.values():
            connection.close()


def test_a_campaign_over_three_servers_and_one_more(capsys):
    """Twenty seconds of producers; one server is killed and stays away for five, a service is
    killed, a shard is added, another one is drained."""
    seed = int(os.environ.get("SEED") or random.randrange(10**9))
    rng = random.Random(seed)
    shards = Shards("abc")
    record = os.path.join(shards.home.dir, "record")
    journals = {n: Journal() for n in "abcd"}
    producers = [Producer(shards, journals, f"{seed} {i}", record) for i in range(3)]
    try:
        routes = [f"customer-{i}" for i in range(40)]
        assert [shards.run("deferred", "shard", "for", r).stdout.strip() for r in routes] == [
            shard_for("abc", r) for r in routes
        ]
        for p in producers:
            p.start()
        time.sleep(3)
        victim = rng.choice("bc")
        shards.servers[victim].kill()
        before = {n: len(j) for n, j in journals.items()}
        time.sleep(5)
        while_away = {n: len(j) - before[n] for n, j in journals.items()}
        shards.servers[victim].start()
        time.sleep(2)
        shards.services["a"].signal(9)
        shards.services["a"].wait()
        shards.serve("a")
        moved = [r for r in routes if shard_for("abcd", r) != shard_for("abc", r)]
        shards.add("d")
        assert {shards.run("deferred", "shard", "for", r).stdout.strip() for r in moved} == {"d"}
        time.sleep(4)
        drained = rng.choice("bc")
        shards.accepting.discard(drained)
        shards.write()
        rounds = [p.rounds for p in producers]
        harness.wait_for(
            lambda: all(p.rounds > n for p, n in zip(producers, rounds)), 30, "whoever looked before has deferred"
        )
        harness.wait_for(
            lambda: not shards.servers[drained].sql("select from deferred.__deferred_hot limit 1"), 30, "it is empty"
        )
        at = len(journals[drained])
        time.sleep(4)
        assert len(journals[drained]) == at and not shards.servers[drained].sql(
            "select from deferred.__deferred_hot limit 1"
        ), "nothing comes there"
        for p in producers:
            p.stop.set()
        for p in producers:
            p.join(30)
        for server in shards.servers.values():
            harness.wait_for(lambda s=server: s.hot() == 0, 60, "all jobs have ended")
        for run in shards.services.values():
            run.signal(15)
            run.wait()
        counts = {}
        for name, server in shards.servers.items():
            verdict = Verdict(server, journals[name], record)
            counts[name] = {kind: dict(c) for kind, c in verdict.counts.items()}
            assert server.sql("select * from deferred.check_ledger()") == []
            for count in verdict.counts.values():
                assert [count[what] for what in ("lost", "never run", "accepted twice", "overlapping", "stuck")] == [
                    0
                ] * 5, (seed, counts)
        keyed = {n: sum(k is not None for _, k in j.jobs.values()) for n, j in journals.items()}
        longest = max(p.longest for p in producers)
        with capsys.disabled():
            print(
                f"\nseed {seed}: {sum(len(j) for j in journals.values()):,} jobs answered: "
                + ", ".join(f"{n} {len(j):,}" for n, j in journals.items())
            )
            print(
                f"{victim} killed and away for 5 s: jobs taken meanwhile "
                + ", ".join(f"{n} {v}" for n, v in while_away.items() if n != "d")
                + f"; longest without a job that has no key: {longest:.2f} s; calls without an answer "
                f"{sum(j.unknown for j in journals.values())}"
            )
            print(f"d added: {len(moved)} of {len(routes)} routes moved to it, none between others; {drained} drained")
            print(f"lost 0, never run 0, accepted twice 0, overlapping 0, stuck 0 in each; with a key: {keyed}")
        assert while_away[victim] <= 3 and all(while_away[n] > 100 for n in "abc" if n != victim) and longest < 4
        assert all(keyed.values()) and all(len(j) for j in journals.values())
    finally:
        for p in producers:
            p.stop.set()
        shards.close()


def test_one_entry_point_by_plproxy(tmp_path):
    """The example of deferred-shard(1), as it stands there, with these connections."""
    with open(os.path.join(pg.TOP, "docs", "man", "deferred-shard.1")) as f:
        page = f.read()
    example = page[page.index("create extension plproxy;") :]
    example = example[: example.index(".Ed")].replace("\\e", "\\")
    shards = Shards("ab")
    try:
        home = shards.home.cluster.create_db("app")
        for name, where in ("pg1", "a"), ("pg2", "b"):
            assert f"host={name} dbname=queue" in example
            server = shards.servers[where]
            example = example.replace(
                f"host={name} dbname=queue", f"host={server.cluster.folder} port={pg.PORT} dbname={server.name}"
            )
        example = example.replace("user 'app', password 'secret'", f"user '{pg.USER}'")
        done = subprocess.run(
            ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", home], input=example, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        with psycopg2.connect(home) as connection, connection.cursor() as cursor:
            cursor.execute(
                "select defer('noop', json_build_object('n', n), '{}', 'customer-' || n) from generate_series(1, 40) n"
            )
            ids = [r for r, in cursor.fetchall()]
            cursor.execute(
                "select defer('noop', '{}', '{\"key\": \"k\", \"delay\": \"1h\"}', 'customer-1') "
                "from generate_series(1, 5)"
            )
            same = {r for r, in cursor.fetchall()}
            connection.rollback()
        assert {i // IDS for i in ids} == {1, 2} and len(same) == 1
        for name, server in shards.servers.items():
            mine = [i for i in [*ids, *same] if i // IDS == shards.number(name)]
            assert {r for r, in server.sql("select id from deferred.__deferred")} == set(
                mine
            ), "rolled back here, stored there: as the page says"
    finally:
        shards.close()
