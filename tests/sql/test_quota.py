"""Queues that a role or an account may add. Each is looked at by somebody, so nobody may add them without end."""

import threading

import psycopg2
import pytest


@pytest.fixture
def role(db):
    """Makes producers; returns connections of theirs."""
    names, connections = [], []

    def make(name="app"):
        name = f"{name}_{db.name}"
        if name not in names:
            db.sql(f"create role {name} login")
            db.sql(f"grant deferred_producer to {name}")
            names.append(name)
        connections.append(db.connect(user=name))
        return connections[-1]

    yield make
    for c in connections:
        c.close()
    for name in names:
        db.sql(f"drop owned by {name}")
        db.sql(f"drop role {name}")


def ask(connection, query, *args):
    with connection.cursor() as cursor:
        cursor.execute(query, args or None)
        return cursor.fetchall()


def defer(connection, queue):
    return ask(connection, "select deferred.defer('f', queue => %s)", queue)[0][0]


def quota(db, creator, n):
    db.sql(
        "insert into deferred.__deferred_quota values (%s, %s) on conflict (creator) do update "
        "set queues = excluded.queues",
        creator,
        n,
    )


def test_a_producer_adds_a_thousand_queues_and_no_more(db, role):
    app = role()
    ask(app, "select count(deferred.defer('f', queue => 'q' || i)) from generate_series(1, 1000) i")
    app.commit()
    with pytest.raises(psycopg2.errors.ConfigurationLimitExceeded) as refused:
        defer(app, "one-more")
    text = str(refused.value)
    assert (
        "'one-more'" in text
        and f"role 'app_{db.name}' may not add more than 1000 queues" in text
        and "queue set NAME --create" in text
        and "__deferred_quota" in text
    )
    app.rollback()
    # The same by whatever way jobs come.
    for query in (
        "select deferred.defer_many('[{\"fn\": \"f\", \"queue\": \"one-more\"}]')",
        "select deferred.defer('f', opts => '{\"queue\": \"one-more\"}')",
        "select deferred.defer('f', opts => '{\"queue\": \"one-more\", \"priority\": 3}')",
    ):
        with pytest.raises(psycopg2.errors.ConfigurationLimitExceeded):
            ask(app, query)
        app.rollback()
    assert defer(app, "q7") and defer(app, "default")  # those that are there take jobs as ever
    app.commit()
    # Others are not concerned, and what others have added is for all.
    assert defer(role("other"), "one-more")
    db.sql("select deferred.__queue_set('by-admin', '{}', true)")
    assert defer(app, "by-admin")
    app.commit()
    quota(db, f"app_{db.name}", 1001)
    assert defer(app, "two-more")
    app.commit()


def test_an_administrator_is_not_bound(db):
    quota(db, "*", 0)
    assert db.defer("f", queue="new")
    assert db.one("select created_by is null from deferred.__deferred_queue where name = 'new'")


def test_transactions_at_the_same_time_do_not_add_much_more_than_the_quota(db, role):
    quota(db, "*", 50)
    connections, added = [role() for _ in range(6)], []

    def add(no, connection):
        n = 0
        try:
            for i in range(60):
                defer(connection, f"q{no}-{i}")
                n += 1
                if i % 3 == 0:
                    connection.commit()
        except psycopg2.errors.ConfigurationLimitExceeded:
            pass
        connection.rollback()
        added.append(n)

    threads = [threading.Thread(target=add, args=(no, c)) for no, c in enumerate(connections)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    n = db.one("select count(*) from deferred.__deferred_queue where created_by is not null")
    assert len(added) == 6 and 30 <= n <= 50 + 6 * 5


def test_near_its_quota_a_role_waits_for_its_other_transactions(db, role):
    quota(db, "*", 20)
    a, b = role(), role()
    for i in range(4):
        defer(a, f"q{i}")
    a.commit()
    defer(a, "first")
    with b.cursor() as cursor:
        cursor.execute("set local lock_timeout = '200ms'")
        with pytest.raises(psycopg2.errors.LockNotAvailable):
            defer(b, "second")
    b.rollback()
    a.commit()
    defer(b, "second")
    b.commit()


def test_nobody_without_rights_holds_up_who_adds_a_queue(db, role):
    """By an advisory lock, that is: anybody may take any of these."""
    quota(db, f"app_{db.name}", 5)
    app, stranger = role(), db.connect()
    defer(app, "first")
    locks = ask(
        app,
        "select classid, objid, objsubid from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() "
        "and granted",
    )
    app.commit()
    for classid, objid, objsubid in locks:
        number = (classid, objid) if objsubid == 2 else (classid << 32 | objid,)
        signed = [n - (1 << 32) if len(number) == 2 and n >= 1 << 31 else n for n in number]
        ask(
            stranger,
            f"select pg_advisory_lock({', '.join(map(str, signed))})",
        )
    ask(app, "select set_config('lock_timeout', '10s', false)")
    assert defer(app, "second")
    app.commit()
    stranger.close()


def test_queues_that_were_removed_make_room(db, role):
    quota(db, "*", 5)
    app = role()
    for n in range(20):
        job = defer(app, f"q{n}")
        app.commit()
        db.sql("select deferred.cancel(%s)", job)
        db.sql("select deferred.__queue_rm(%s)", f"q{n}")
    assert db.one("select count(*) from deferred.__deferred_queue where created_by is not null") <= 5
    # One that is brought back counts for who does it.
    other = role("other")
    defer(other, "q19")
    other.commit()
    assert db.one("select created_by from deferred.__deferred_queue where name = 'q19'") == f"other_{db.name}"


@pytest.mark.parametrize("served", [[], ["--queue", "gone"]], ids=["all queues", "this queue"])
def test_a_job_in_a_queue_whose_row_is_gone_is_run(db, served):
    """As one may be that was deferred in the moment the queue was removed."""
    jobs = [db.defer("noop", queue="gone"), db.defer("noop", queue="gone", concurrency_key="k")]
    db.sql("delete from deferred.__deferred_queue where name = 'gone'")
    assert db.run(["check_deferred", "--cnt", "0", *served]).returncode == 0
    assert db.log(jobs[0]) == db.log(jobs[1]) == [(1, "ok")]


def test_an_account_makes_queues_up_to_its_quota(db):
    quota(db, "account:shop", 3)

    def create(queue):
        return db.one("select deferred.__message_queue_create(%s, '{}')", queue)

    assert [create(f"shop.queue{n}") for n in range(5)] == [0, 0, 0, 12, 12]
    assert create("shop.queue1") == 6 and create("bank.queue1") == 0
    assert db.one("select (deferred.__message_queue_rm('shop.queue1', 100)).status") == 0
    assert create("shop.queue4") == 0 and create("shop.queue1") == 12


def test_an_account_does_not_get_rid_of_limits_by_making_its_queue_anew(db):
    """Nor by having the row of the removed one go, as it would where the quota is reached."""

    def ask(query, *args):
        return db.one(f"select {query}", *args)

    quota(db, "account:shop", 2)
    assert ask("deferred.__message_queue_create('shop.mail', '{}')") == 0
    db.sql("select deferred.__queue_set('shop.mail', '{\"max_running\": 1, \"rate\": 0.5, \"max_length\": 3}')")
    for other in ("one", "two", "three"):
        assert ask("(deferred.__message_queue_rm('shop.mail', 100)).status") == 0
        assert ask("deferred.__message_queue_create(%s, '{}')", f"shop.{other}") == 0
        assert ask("(deferred.__message_queue_rm(%s, 100)).status", f"shop.{other}") == 0
        assert ask("deferred.__message_queue_create('shop.mail', '{}')") == 0
        assert db.sql(
            "select max_running, rate, max_length from deferred.__deferred_queue where name = 'shop.mail'"
        ) == [(1, 0.5, 3)]
