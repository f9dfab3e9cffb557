"""deferred.backlog() counts what another worker could start now, and reads little however much lies there."""

import psycopg2
import pytest

from test_plans import fill

pytestmark = pytest.mark.by_hand

MOST = 10000


def backlog(db, queue="default"):
    return db.one("select deferred.backlog(%s)", queue)


def due(db, n, queue="default", fn="noop", since="1 minute"):
    db.sql(
        """insert into deferred.__deferred_hot (id, queue, fn, visible_at, due_at)
           select nextval('deferred.__deferred_id_seq'), %s, %s, t, t
           from generate_series(1, %s) i
           cross join lateral (select now() - %s::interval + i * interval '1 us' as t) x""",
        queue,
        fn,
        n,
        since,
    )


def limited(db, n, queue="default", key=None, retried=False):
    """Jobs of an unknown function, or those of a key, which wait for a retry or are ready."""
    db.sql(
        """insert into deferred.__deferred_hot
               (id, queue, fn, visible_at, limited, unknown, concurrency_key, attempt, due_at)
           select nextval('deferred.__deferred_id_seq'), %s, 'noop', now(), true, %s is null, %s, %s::int,
                  case when %s then now() + interval '1 hour' end
           from generate_series(1, %s)""",
        queue,
        key,
        key,
        retried,
        retried,
        n,
    )
    db.sql("select deferred.__limited_add(%s)", queue)


def test_ready_jobs_count_and_no_others(db):
    first, second = db.defer("noop"), db.defer("noop", priority=7)
    db.defer("noop", delay="1h")
    db.defer("noop", after=[first])
    assert backlog(db) == 2
    db.hold(second)
    assert backlog(db) == 1
    db.hold(first)
    assert backlog(db) == 0 == backlog(db, None)


def test_a_job_that_is_due_counts_before_a_worker_promotes_it(db):
    job = db.defer("noop", delay="1h")
    assert backlog(db) == 0
    db.sql("update deferred.__deferred_hot set due_at = now() where id = %s", job)
    assert backlog(db) == 1 == backlog(db, None)
    assert backlog(db, "other") == 0


@pytest.mark.parametrize("options", [{}, {"concurrency_key": "k"}], ids=["free", "limited"])
def test_the_jobs_of_a_worker_that_died_count_when_its_lease_has_ended(db, options):
    job = db.defer("noop", **options)
    assert backlog(db) == 1
    db.hold(job)
    assert backlog(db) == 0
    db.sql("update deferred.__deferred_lease set expires_at = now() - interval '1 second'")
    assert backlog(db) == 1 == backlog(db, None)
    assert backlog(db, "other") == 0


def test_jobs_with_a_limit_or_an_unknown_function_count(db):
    limited(db, 3)
    limited(db, 4, key="k")
    limited(db, 5, key="k", retried=True)
    assert backlog(db) == 7 == backlog(db, None)


def test_messages_count_if_their_queue_is_named(db):
    for _ in range(3):
        db.defer(None, queue="orders")
    assert (backlog(db, "orders"), backlog(db, None)) == (3, 0)
    assert db.one("select count(*) from deferred.claim('orders', 1, 60000)") == 1
    assert backlog(db, "orders") == 2
    db.sql("update deferred.__deferred_hot set due_at = now(), visible_at = now() where receipt is not null")
    assert backlog(db, "orders") == 3


def test_a_paused_queue_has_no_backlog_and_hides_no_other(db):
    fill(db, MOST + 5)
    due(db, MOST + 5, since="1 hour")
    db.defer("noop", queue="other")
    db.sql("update deferred.__deferred_queue set paused = true where name = 'default'")
    assert (backlog(db), backlog(db, "other"), backlog(db, None)) == (0, 1, 1)
    db.sql("update deferred.__deferred_queue set paused_until = now() + interval '1 hour' where name = 'default'")
    assert backlog(db) == 0
    db.sql("update deferred.__deferred_queue set paused_until = now() - interval '1 second' where name = 'default'")
    assert backlog(db) == MOST == backlog(db, None)


def test_a_queue_that_does_not_exist_has_no_backlog(db):
    assert backlog(db, "nosuch") == 0
    assert backlog(db, "") == 0


def test_a_job_behind_many_that_do_not_count_makes_a_worker_start(db):
    """Without a worker nothing would promote what lies in front."""
    due(db, MOST, since="1 hour")
    due(db, 1, queue="other")
    assert backlog(db, "other") == 1
    limited(db, MOST, queue="third", key="a", retried=True)
    limited(db, 1, queue="third", key="b")
    assert backlog(db, "third") == 1


def test_viewers_and_workers_may_ask_and_producers_may_not(db):
    db.defer("noop")
    for role in "deferred_viewer", "deferred_worker", "deferred_operator":
        db.sql(f"set role {role}")
        assert backlog(db) == 1 == backlog(db, None)
    db.sql("set role deferred_producer")
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        backlog(db)
    db.sql("reset role")


def cost(db, queue):
    """Rows of jobs and leases that an answer reads, and pages that it touches."""
    with db.connect() as c, c.cursor() as cursor:
        cursor.execute("explain (analyze, buffers, format json) select deferred.backlog(%s)", (queue,))
        plan = cursor.fetchone()[0][0]["Plan"]
        cursor.execute(
            "select sum(seq_tup_read + idx_tup_fetch)::int8 from pg_stat_xact_user_tables where schemaname = 'deferred'"
        )
        rows = cursor.fetchone()[0]
    c.close()
    return rows, plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


@pytest.mark.parametrize("queue", ["default", "last", None])
def test_a_long_backlog_is_not_read(db, queue):
    """Of each kind there are several times as many rows as are counted. The queue `last` has none of them."""
    db.sql("alter table deferred.__deferred_hot set (autovacuum_enabled = false)")
    db.sql("insert into deferred.__deferred_queue (name) values ('last')")
    fill(db, 5 * MOST)
    db.sql("update deferred.__deferred_hot set priority = id % 50")
    due(db, 5 * MOST)
    limited(db, 5 * MOST)
    limited(db, 5 * MOST, key="k", retried=True)
    db.sql(
        """insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone, expires_at)
           select 'default', 1, n, array_agg(i), int8range(min(i), max(i), '[]'), pg_current_snapshot(), false,
                  now() - interval '1 hour'
           from (select i, i / 100 as n from generate_series(1, %s) i) x group by n""",
        5 * MOST,
    )
    db.sql("analyze deferred.__deferred_hot, deferred.__deferred_lease")
    assert backlog(db, queue) == (1 if queue == "last" else MOST)
    rows, pages = cost(db, queue)
    assert rows < 4.5 * MOST and pages < 8 * MOST
