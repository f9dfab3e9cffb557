"""`make bench-plans`: whether statements of workers have the same kind of plan in each PostgreSQL version.

    compare_plans.py FOLDER...    folders of servers: see use_server() in pg.py

Exit status 1, and a line for each difference from the first server: a statement that reads a table in another way or
by another index, or does so within the functions that it calls.
"""

import collections
import os
import re
import sys

sys.dont_write_bytecode = True
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TESTS, "sql"), os.path.join(TESTS, "harness")]

import harness  # noqa: E402
import pg  # noqa: E402
import test_plans  # noqa: E402


def kinds(plan):
    """The lines of a plan without conditions, whose text depends on the version."""
    return sorted(re.sub(r"(Index Cond):.*", r"\1", line) for line in plan)


def plans_of(folder):
    """(version, {statement: its plan}) of a server. A cycle of a worker counts as a statement."""
    root = os.environ["DEFERRED_TEST_ROOT"] = pg.make_root("deferred-plans.")
    try:
        pg.use_server(folder, root)
        db = harness.OwnServer()
        try:
            found = {name: kinds(test_plans.plan(db, name)) for name in test_plans.HOT}
            test_plans.prepare_state(db, "filled")
            worker = test_plans.Explained(db)
            worker.tables = [t for t, in db.sql("select relname from pg_class where relkind in ('r', 'p')")]
            scans, _ = test_plans.cost(db, worker)
            found["a cycle of a worker"] = sorted(map(str, scans))
            return db.one("show server_version"), found
        finally:
            db.close()
    finally:
        pg.sweep(root)


def differences(servers):
    """Lines about plans that are not those of the first server."""
    (first, expected), *others = servers
    for version, found in others:
        for name, plan in found.items():
            here, there = map(collections.Counter, (plan, expected[name]))
            if here != there:
                yield f"{name}: {version} has {[*(here - there)]}, {first} has {[*(there - here)]}"


def main():
    servers = [plans_of(folder) for folder in sys.argv[1:]]
    found = list(differences(servers))
    print("\n".join(found))
    print(f"PostgreSQL {', '.join(version for version, _ in servers)}: {len(servers[0][1])} plans, {len(found)} differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
