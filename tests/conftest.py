"""Fixtures of all tests. One cluster a session, a fresh database a test: see harness/harness.py.

A session started by hand (`/usr/bin/python3 -m pytest tests/...`) makes its own cluster; check.py lends
one to several sessions. DEFERRED_BUILD names the build under test: build (default) or build/san.
"""

import contextlib
import os
import random
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "harness"))

import psycopg2  # noqa: E402
import pytest  # noqa: E402

import harness  # noqa: E402
import pg  # noqa: E402

# Valgrind cannot run what was built with the address sanitizer, and what asks the server alone, by
# SQL, or what measures would only be run twice. An upgrade builds trees of its own.
collect_ignore = (
    ["bin/test_valgrind.py", "bench", "model", "mutants", "programs/test_conformance.py", "upgrade"]
    + [
        f"sql/test_{subject}.py"
        for subject in (
            "actor",
            "alert",
            "claim",
            "cron",
            "defer",
            "finish",
            "lease",
            "limits",
            "many_queues",
            "place",
            "plans",
            "quota",
            "roles",
            "schema",
            "step_rows",
            "tags",
            "tick",
            "track_move",
            "waits",
        )
    ]
    if harness.SAN
    else []
)

TEMPLATE = "template_" + os.path.basename(harness.BUILD)


# The part of deferred.check_ledger() that is looked at after each test: to plan the whole takes 30 ms.
STRAY = "select * from deferred.__ledger_lanes()"


def session_cluster():
    return pg.Cluster(os.path.join(harness.root(), "pg"))


def pytest_configure(config):
    # Workers of xdist inherit the environment, and with it the session of the process that started them.
    if hasattr(config, "workerinput"):
        harness.make_reachable()
        return
    config.own_root = "DEFERRED_TEST_ROOT" not in os.environ
    if config.own_root:
        os.environ["DEFERRED_TEST_ROOT"] = pg.make_root("deferred-test.")
    if config.option.collectonly:
        return
    harness.make_reachable()
    if config.option.basetemp is None:
        config.option.basetemp = os.path.join(harness.root(), "tmp")
    cluster = session_cluster().start()
    if not cluster.has_db(TEMPLATE):
        cluster.create_db(TEMPLATE)
        harness.prepare(cluster, TEMPLATE)


def pytest_collection_modifyitems(config, items):
    """What check.py has shortened, the second build of `make check`, meets each test once: with its
    first parameters, and none that is slow."""
    if "DEFERRED_TEST_SHORTENED" not in os.environ:
        return
    met, kept, rest = set(), [], []
    for item in items:
        name = item.nodeid.partition("[")[0]
        (rest if name in met or item.get_closest_marker("slow") else kept).append(item)
        met.add(name)
    items[:] = kept
    config.hook.pytest_deselected(items=rest)


def pytest_runtest_logreport(report):
    """What failed is named at once: the whole run takes many minutes."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nfailed: {report.nodeid}", flush=True)


def pytest_unconfigure(config):
    if getattr(config, "own_root", False):
        pg.sweep(os.environ.pop("DEFERRED_TEST_ROOT"))


@pytest.fixture(scope="session")
def cluster():
    return session_cluster()


@pytest.fixture(scope="session")
def admin(cluster):
    """One connection that makes and drops the databases of all tests: programs and connections for
    each were a third of a usual test."""
    connection = psycopg2.connect(cluster.conninfo())
    connection.autocommit = True
    yield connection.cursor()
    connection.close()


@pytest.fixture
def db(cluster, admin, request):
    """A migrated database of the test's own: see harness.Db. Whatever a test does to programs and
    server, a ready job is beyond the place of its lane, left over, or held once; a test that
    changes these tables by hand is marked `by_hand`."""
    name = f"t{os.getpid()}_{harness.Db.count}"
    admin.execute(
        f"create database {name} template {TEMPLATE} strategy file_copy"
    )  # a third of what it takes through the log
    d = harness.Db(cluster, name)
    yield d
    astray = []
    if not request.node.get_closest_marker("by_hand") and d.connection is not None and not d.connection.closed:
        with contextlib.suppress(psycopg2.Error):  # the test ended its connection, or took tables or rights away
            astray = d.sql(STRAY)
    d.close()
    admin.execute(f"drop database {name} with (force)")
    assert astray == []


@pytest.fixture
def own_server():
    """The same on a server of its own, which the test may kill: see harness.OwnServer."""
    server = harness.OwnServer()
    yield server
    server.close()


@pytest.fixture
def run():
    return harness.run


@pytest.fixture
def wait_for():
    return harness.wait_for


@pytest.fixture
def ledger():
    return harness.ledger


@pytest.fixture
def seed():
    """Drawn for this test. A failing test is tried again with the seed that it printed: tests/harness/check.py."""
    drawn = int(os.environ.get("DEFERRED_TEST_SEED", random.SystemRandom().randrange(10**6)))
    print(f"DEFERRED_TEST_SEED={drawn} repeats this draw")
    return drawn


@pytest.fixture
def rng():
    """Random numbers that `make check-faults SEED=...` repeats."""
    return random.Random(int(os.environ.get("DEFERRED_TEST_SEED", "1")))
