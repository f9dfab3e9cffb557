"""What is opened to hand out a job must not grow with the calls that are kept: each partition more
would be opened, and closed, by every claim."""

import pytest

from test_claim import ids, many
from test_limits import Limited
from test_messages import Q, Consumer


@pytest.fixture
def partitions(db):
    """Twenty partitions of calls; jobs come to lie in one of them."""
    past = db.one("select max(past::bigint) from deferred.__partitions('deferred.__deferred')")
    for lo in range(past, past + 20000, 1000):
        assert db.one(
            "select deferred.__add_partition('__deferred', %s, 'id', %s, %s)",
            f"__deferred_{lo}",
            str(lo),
            str(lo + 1000),
        )
    db.sql("select setval('deferred.__deferred_id_seq', %s)", past + 500)


def opened(connection):
    """Partitions of calls whose indexes the transaction has opened."""
    with connection.cursor() as cursor:
        cursor.execute(
            """select distinct c.relname from pg_locks l join pg_index i on i.indexrelid = l.relation
                join pg_class c on c.oid = i.indrelid
                          where l.pid = pg_backend_pid() and c.relname like '\\_\\_deferred\\_%' and c.oid in (
                              select inhrelid from pg_inherits where inhparent = 'deferred.__deferred'::regclass)"""
        )
        return {name for name, in cursor.fetchall()}


@pytest.mark.parametrize("how", ["claim", "limited"])
def test_a_claim_opens_only_the_partitions_that_its_calls_lie_in(db, partitions, how):
    w = Limited(db, "host:/pid")
    many(db, 20, **({"concurrency_key": "k", "concurrency": 20} if how == "limited" else {}))
    take = w.claim if how == "claim" else w.limited
    for n in (1, 5):
        take(n)
        w.commit()
    assert len(take(5)) == 5
    assert len(opened(w.connection)) == 1


def test_calls_of_one_claim_lie_in_two_partitions(db, partitions):
    w = Limited(db, "host:/pid")
    many(db, 31)
    for n in 1, 30:  # plans both ways to read calls
        w.claim(n)
        w.commit()
    last = db.one("select last_value from deferred.__deferred_id_seq")
    db.sql("select setval('deferred.__deferred_id_seq', %s)", last // 1000 * 1000 + 985)
    jobs = many(db, 30)
    assert min(jobs) // 1000 < max(jobs) // 1000
    taken = w.claim(30)
    assert sorted(ids(taken)) == jobs and all(j.params == {} for j in taken)
    assert len(opened(w.connection)) == 2


def test_many_calls_that_are_read_in_one_walk(db, partitions):
    w = Limited(db, "host:/pid")
    many(db, 120)
    w.claim(40, window=1)  # plans
    w.commit()
    for _ in range(2):
        assert len(w.claim(40, window=1)) == 40
        assert len(opened(w.connection)) == 1
        w.commit()


def test_calls_of_one_claim_lie_in_a_partition_and_on_both_sides_of_it_in_the_net(db):
    """Where a partition could not be added in time: then the first that is read is not the one with the lowest id."""
    past = db.one("select max(past::bigint) from deferred.__partitions('deferred.__deferred')")
    assert db.one(
        "select deferred.__add_partition('__deferred', '__deferred_between', 'id', %s, %s)",
        str(past + 10),
        str(past + 20),
    )
    for first, n in ((past, 40), (past + 10, 60), (past - 20, 40)):
        db.sql(
            "delete from deferred.__deferred; delete from deferred.__deferred_hot; delete "
            "from deferred.__deferred_lease"
        )
        db.sql("select setval('deferred.__deferred_id_seq', %s, false)", first)
        jobs = many(db, n)
        w = Limited(db, "host:/pid")
        taken = w.claim(n, window=1)
        assert sorted(ids(taken)) == jobs and all(j.params == {} and j.receipt for j in taken)
        w.commit()


def test_messages_are_taken_and_changed_in_the_partitions_that_they_lie_in(db, partitions):
    c = Consumer(db)
    c.create()
    c.ask("select set_config('plan_cache_mode', 'force_generic_plan', false)")
    for text in "abcdef":
        c.put(text)
    c.get(2)
    c.connection.autocommit = False
    first, second = c.get(2)
    assert len(opened(c.connection)) == 1
    assert (
        c.updates((Q, first["id"], first["receipt"], 0, "new"), (Q, second["id"], second["receipt"], 0, None))[0][
            "status"
        ]
        == 0
    )
    c.connection.commit()
    assert "new" in c.texts()
