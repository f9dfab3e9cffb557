"""deferred_http driven by the stock client for Node.js, and what such a client shares with C and SQL.

AZURITE=1 points operations.mjs at the emulator (npm installs it below build/bench/azurite) instead of at deferred_http, to see
where the two differ; this is not part of `make check`. At azurite 3.37.0 these fail, for the reasons given:

    service properties          takes six rules for cross-origin requests; the protocol allows five
    queues are listed           names queues in byte order but pages by creation: names are repeated, without end where they were not
                                made in that order
    names that no queue can     takes "b|ar"
    metadata is replaced        takes names that are no identifiers and values beyond 8 KiB
    stored access policies      refuses a policy without times and permissions; each of them is optional
    signature for an account    never looks at sip: a token for other addresses opens the account
    messages are taken          numofmessages=0 is a 400 without a code
    any text                    takes U+0001, and then fails each get and peek that meets it with 500
    a text of 64 KiB            counts characters that straddle two network buffers wrongly and refuses texts that are short enough
    a time to live              answers a time below -1 with a 400 without a code
"""

import os
import re
import signal
import subprocess

import pytest

import front
import harness
import node
import pg

HERE = os.path.dirname(os.path.abspath(__file__))


class Azurite:
    """The emulator in the place of a Front."""

    def __init__(self, db):
        folder = node.install("bench/azurite", os.path.join(pg.TOP, "tests", "bench", "azurite"))
        self.program = db.spawn([node.NODE, os.path.join(folder, "node_modules/azurite/dist/src/queue/main.js"), "--queuePort", "0", "--location",
                                 db.dir, "--skipApiVersionCheck", "--disableTelemetry", "--silent"])
        self.port = int(harness.wait_for(lambda: re.search(r"successfully listens on http://127.0.0.1:(\d+)", self.program.output()))[1])


@pytest.fixture
def server(db):
    return Azurite(db) if os.environ.get("AZURITE") else front.Front(db)


class Scripts:
    """Runs the scripts beside this file against a server."""

    def __init__(self, db):
        self.db = db
        self.folder = node.install("node", os.path.join(HERE, "node"))
        node.scripts(self.folder, HERE)

    def env(self, server, **more):
        return {"ENDPOINT": f"http://127.0.0.1:{server.port}/{front.Front.ACCOUNT}", "ACCOUNT": front.Front.ACCOUNT, "KEY": front.Front.KEY, **more}

    def command(self, name, *args):
        return [node.NODE, *(["--test-reporter=tap"] if name == "operations.mjs" else []), os.path.join(self.folder, name), *args]

    def run(self, server, name, *args, timeout=150, **more):
        return self.db.run(self.command(name, *args), env=self.env(server, **more), timeout=timeout)

    def say(self, server, name, *args):
        """What a script printed that has to succeed."""
        done = self.run(server, name, *args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, server, name, *args):
        return self.db.spawn(self.command(name, *args), env=self.env(server))


@pytest.fixture
def scripts(db):
    return Scripts(db)


# Section 1.3 of the protocol, as the access log calls the operations, without the key for bearer tokens, which are refused.
OPERATIONS = {"ListQueues", "GetServiceProperties", "SetServiceProperties", "GetServiceStatistics", "CreateQueue", "DeleteQueue",
              "GetQueueMetadata", "SetQueueMetadata", "GetQueueACL", "SetQueueACL", "PutMessage", "GetMessages", "PeekMessages", "ClearMessages",
              "UpdateMessage", "DeleteMessage"}


@pytest.mark.parametrize("release", ["@azure/storage-queue", "storage-queue-before"])
def test_the_stock_client_does_every_operation(db, server, scripts, release):
    done = scripts.run(server, "operations.mjs", SDK=release)
    assert done.returncode == 0, "\n".join(re.findall(r"(?m)^not ok .*(?:\n +.*)*", done.stdout)) + done.stderr
    count = {k: int(v) for k, v in re.findall(r"(?m)^# (tests|pass|fail|cancelled|skipped|todo) (\d+)$", done.stdout)}
    assert count["pass"] == count["tests"] >= 28 and count["fail"] == count["cancelled"] == count["skipped"] == count["todo"] == 0
    if isinstance(server, front.Front):
        lines = server.log()
        assert {line.get("op") for line in lines if line["status"] < 300} >= OPERATIONS
        assert [line for line in lines if line["status"] >= 500] == []
        assert server.stop() == 0
        assert db.sql("select invariant, job_id, detail from deferred.check_ledger()") == []
