"""How the statements of a worker go to work must not depend on what the server believes of the tables: its statistics are of
a moment at which there was nothing, or nothing claimed, or all that has gone since. `make bench-plans` tells what each costs."""

import glob
import os
import re

import pytest

import pg

QUERIES = os.path.join(pg.TOP, "sql", "queries")
# Sent while jobs are executed. Those that people ask for may be planned as the table is.
HOT = sorted(os.path.basename(path)[:-4] for kind in ("job", "run", "worker") for path in glob.glob(os.path.join(QUERIES, kind + "_*.sql"))
             if re.search(r"(?m)^[^-]*__deferred_hot", open(path).read()))


def fill(db, n):
    db.sql("""insert into deferred.__deferred_hot (id, queue, fn, visible_at)
              select nextval('deferred.__deferred_id_seq'), 'default', 'noop', now() from generate_series(1, %s)""", n)


def empty(db):
    db.sql("vacuum analyze deferred.__deferred_hot")


def filled(db):
    fill(db, 20000)


def few(db):
    fill(db, 100)
    db.sql("analyze deferred.__deferred_hot")


def claimed(db):
    db.sql("update deferred.__deferred_hot set receipt = 1, worker = 1, visible_at = now() + interval '1 hour'")
    db.sql("analyze deferred.__deferred_hot")


def deleted(db):
    """The pages stay, for the last job is still there, and the next ones go into them unseen."""
    db.sql("delete from deferred.__deferred_hot where id <> (select max(id) from deferred.__deferred_hot)")
    db.sql("vacuum analyze deferred.__deferred_hot")
    fill(db, 20000)


def plan(db, name):
    """As a worker has it planned: its settings, its types, whatever the arguments are."""
    with open(os.path.join(QUERIES, name + ".sql")) as f:
        text = f.read()
    with open(os.path.join(QUERIES, "session_setup.sql")) as f:
        setup = f.read()
    db.sql("begin")
    db.sql(setup.replace("$1::text", "'20s'"))
    db.sql(f"prepare statement as {text}")
    types = db.one("select coalesce(array_agg(format('null::%s', t)), '{}') from (select unnest(parameter_types)::text as t"
                   " from pg_prepared_statements where name = 'statement') p")
    rows = db.sql("explain (costs off) execute statement" + (f"({', '.join(types)})" if types else ""))
    db.sql("rollback")
    db.sql("deallocate statement")
    return [row[0] for row in rows]


@pytest.mark.parametrize("name", HOT)
def test_a_statement_has_the_same_plan_whatever_the_statistics_are(db, name):
    db.sql("alter table deferred.__deferred_hot set (autovacuum_enabled = false)")
    first = plan(db, name)
    for state in (empty, filled, few, claimed, deleted):
        state(db)
        assert plan(db, name) == first, state.__name__
