"""deferred_http and its server killed while stock clients work: what was answered is there
afterwards, and what was deleted stays so."""

import json
import signal
import socket

import pytest

from front import Front, Node
from harness import wait_for


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Producers:
    """Processes of the stock client that put and delete all the time, and the ledger of what they were told."""

    def __init__(self, db, count):
        self.port = free_port()
        self.db, self.front = db, Front(db, "--listen", f"127.0.0.1:{self.port}")
        self.front.client().create("mail")
        scripts = Node(db)
        self.running = [scripts.start(self, "produce", "mail") for _ in range(count)]

    def lines(self):
        """The last line of each may not be whole yet."""
        return [json.loads(line) for p in self.running for line in p.output().split("\n")[:-1]]

    def told(self, what):
        return [line[what] for line in self.lines() if what in line]

    def go_on(self, n=60):
        """Until so many more puts were answered."""
        before = len(self.told("put"))
        wait_for(lambda: len(self.told("put")) >= before + n, 40, "puts are answered")

    def check(self):
        for p in self.running:
            assert p.alive(), p.output()[-2000:]
            p.kill()
        assert [line for line in self.lines() if "error" in line] == []
        stored = [
            t
            for t, in self.db.sql(
                "select params #>> '{}' from deferred.__deferred_hot join deferred.__deferred using (id)"
            )
        ]
        put, perhaps, deleted = set(self.told("put")), set(self.told("delete")), set(self.told("deleted"))
        assert len(put) > 200 and len(deleted) > 50
        assert (put - perhaps) - set(stored) == set(), "a message that was answered is lost"
        assert deleted & set(stored) == set(), "a message that was deleted is there"
        assert len(stored) == len(set(stored)), "no client repeats here: one message for each put"
        assert self.db.sql("select invariant, job_id, detail from deferred.check_ledger()") == []


@pytest.mark.slow
def test_what_was_answered_survives_the_death_of_the_front(db):
    p = Producers(db, 2)
    for _ in range(4):
        p.go_on()
        p.front.program.signal(signal.SIGKILL)
        p.front.program.wait()
        p.front.start()
    p.go_on()
    p.check()
    assert p.front.stop() == 0


@pytest.mark.slow
def test_what_was_answered_survives_the_death_of_postgresql(own_server):
    p = Producers(own_server, 2)
    for _ in range(3):
        p.go_on()
        own_server.kill()
        own_server.start()
    p.go_on()
    p.check()
    assert p.front.stop() == 0, p.front.program.output()
