"""Workers kept level: deferred.__track_move() by sessions that the test steps one by one."""

import re

import psycopg2
import pytest

import pg
from harness import wait_for

STATEMENT = re.sub(r"\$(\d)", r"%(p\1)s", re.sub(r"(?m)^--.*\n", "", pg.source("track_move")))


class Walker:
    """A registered worker of a group. report() is a transaction unless `keep` leaves it open; then commit()."""

    def __init__(self, db, range_, group="g", lease_ms=60000):
        self.db, self.group, self.range, self.lease_ms = db, group, range_, lease_ms
        self.connection = db.connect(application_name="worker")
        self.id = db.one(
            "insert into deferred.__deferred_worker (instance, host, pid, version) values (%s, 'h', 1, '0') "
            "returning id",
            f"w{id(self)}",
        )
        self.round, self.steps, self.made, self.live = -1, 0, 0, False

    def report(self, made=None, leave=False, keep=False):
        """Returns (live, round, steps left)."""
        if made is not None:
            self.made = made
        with self.connection.cursor() as cursor:
            cursor.execute("set local lock_timeout = '100ms'")
            cursor.execute(
                STATEMENT,
                {
                    "p1": self.id,
                    "p2": self.group,
                    "p3": self.range,
                    "p4": 0 if leave else self.lease_ms,
                    "p5": self.round,
                    "p6": self.made,
                },
            )
            live, round_, steps, made = cursor.fetchone()
        if not keep:
            self.connection.commit()
        self.live = live
        if live:
            self.round, self.steps, self.made = round_, steps, made
        return (live, self.round, self.steps - self.made)

    def commit(self):
        self.connection.commit()

    def end(self):
        self.db.sql("update deferred.__deferred_worker set ended_at = now() where id = %s", self.id)

    def lapse(self):
        self.db.sql(
            "update deferred.__deferred_track set lease_until = now() - interval '1 s' where worker = %s", self.id
        )


@pytest.fixture
def walker(db):
    made = []

    def make(*args, **kw):
        made.append(Walker(db, *args, **kw))
        return made[-1]

    yield make
    for w in made:
        w.connection.close()


def tracks(db):
    return {r[0]: r[1:] for r in db.sql("select worker, round, made from deferred.__deferred_track")}


def test_a_round_ends_when_every_live_track_made_its_steps(walker):
    a, b, c = walker(10), walker(10), walker(10)
    assert [w.report() for w in (a, b, c)] == [(True, 0, 10)] * 3
    assert a.report(10) == (True, 0, 0)
    assert b.report(7) == (True, 0, 3)
    assert c.report(10) == (True, 0, 0)
    assert a.report() == (True, 0, 0)
    assert b.report(10) == (True, 1, 10)  # the last one ends it, and goes on at once
    assert a.report() == (True, 1, 10)
    # c has not heard yet that round 1 began, and so has all its steps to make: it is waited for.
    assert a.report(10) == b.report(10) == (True, 1, 0)
    assert c.report() == (True, 1, 10)
    assert a.report() == (True, 1, 0)
    assert c.report(10) == (True, 2, 10)


def test_a_report_may_come_twice(walker, db):
    a, b = walker(10), walker(10)
    a.report(), b.report()
    assert a.report(4) == a.report(4) == (True, 0, 6)
    assert b.report(10) == (True, 0, 0)
    assert a.report(10) == (True, 1, 10)
    # The answer got lost: reported again for the round that is over, which makes no step of the new one.
    a.round, a.made = 0, 10
    assert a.report() == (True, 1, 10)
    assert tracks(db)[a.id] == (1, 0)


def test_one_that_is_alone_never_waits(walker):
    a = walker(3)
    a.report()
    assert [a.report(3) for _ in range(5)] == [(True, r, 3) for r in range(1, 6)]


def test_asking_again_within_a_round_writes_nothing(walker, db):
    a, b = walker(10), walker(10)
    a.report(), b.report(), a.report(10)
    before = db.sql("select xmin::text, ctid from deferred.__deferred_track order by worker")
    for _ in range(3):
        assert a.report() == (True, 0, 0)
    assert db.sql("select xmin::text, ctid from deferred.__deferred_track order by worker") == before


def test_one_that_comes_late_starts_at_the_beginning_of_the_round_under_way(walker):
    a, b = walker(10), walker(10)
    a.report(), a.report(10), a.report(10)
    assert a.report(9) == (True, 2, 1)
    assert b.report() == (True, 2, 10)
    assert a.report(10) == (True, 2, 0)
    assert b.report(10) == (True, 3, 10)


def test_one_that_leaves_is_not_waited_for_and_comes_back_where_it_was(walker, db):
    a, b = walker(10), walker(10)
    a.report(), b.report()
    b.report(6)
    assert b.report(leave=True)[0] is False
    assert b.id not in tracks(db)
    a.report(8)
    assert b.report() == (True, 0, 4)  # the same round: those 6 count
    assert b.report(leave=True)[0] is False
    assert a.report(10) == (True, 1, 10)
    assert a.report(10) == (True, 2, 10)
    assert b.report() == (True, 2, 10)


@pytest.mark.parametrize("how", ["its lease passed", "it ended", "its row is gone"])
def test_a_dead_worker_is_taken_out(walker, db, how):
    a, b, c = walker(10), walker(10), walker(10)
    a.report(), b.report(), c.report(), a.report(10), c.report(10)
    assert a.report() == (True, 0, 0)
    if how == "it ended":
        b.end()
    elif how == "its lease passed":
        b.lapse()
    else:
        db.sql("delete from deferred.__deferred_worker where id = %s", b.id)
    assert a.report() == (True, 1, 10)
    assert b.id not in tracks(db)
    assert c.report() == (True, 1, 10)


def test_one_taken_for_dead_joins_again(walker):
    a, b = walker(10), walker(10)
    a.report(), b.report(), b.report(2)
    b.lapse()
    assert a.report(10) == (True, 1, 10)
    # b knew nothing of it, and made the rest of round 0 meanwhile: behind, never ahead.
    assert b.report(10) == (True, 1, 10)
    assert a.report(10) == (True, 1, 0)


def test_one_whose_lease_passed_but_whom_nobody_missed_goes_on_where_it_was(walker):
    a, b = walker(10), walker(10)
    a.report(), b.report(), b.report(2)
    b.lapse()
    assert b.report(3) == (True, 0, 7)
    assert a.report(10) == (True, 0, 0)


def test_a_round_does_not_end_past_one_who_is_just_joining(walker):
    a, b = walker(10), walker(10)
    a.report()
    assert b.report(keep=True) == (True, 0, 10)  # not committed
    assert a.report(10) == (True, 0, 0)  # told to wait, though it sees nobody else
    b.commit()
    assert a.report() == (True, 0, 0)
    assert b.report(10) == (True, 1, 10)


def test_nobody_joins_a_round_that_is_just_ending(walker):
    a, b = walker(10), walker(10)
    a.report()
    assert a.report(10, keep=True) == (True, 1, 10)
    assert b.report()[0] is False  # ask again
    a.commit()
    assert b.report() == (True, 1, 10)


def test_one_who_is_just_renewing_its_lease_is_not_taken_for_dead(walker):
    a, b = walker(10), walker(10, lease_ms=300)
    a.report(), b.report()
    a.report(10)
    b.lease_ms = 60000
    assert b.report(1, keep=True) == (True, 0, 9)  # in time, but not committed when the old lease ends
    wait_for(
        lambda: a.db.one(
            "select lease_until < clock_timestamp() from deferred.__deferred_track where worker = %s", b.id
        )
    )
    assert a.report() == (True, 0, 0)
    b.commit()
    assert a.report() == (True, 0, 0)
    assert b.report(10) == (True, 1, 10)


def test_two_that_end_a_round_together_end_it_once(walker):
    a, b = walker(10), walker(10)
    a.report(), b.report()
    # Neither sees the other's last step: both are told to wait, and the next question ends the round.
    assert a.report(10, keep=True) == (True, 0, 0)
    assert b.report(10, keep=True) == (True, 0, 0)
    a.commit(), b.commit()
    assert a.report(keep=True) == (True, 1, 10)
    assert b.report() == (True, 0, 0)
    a.commit()
    assert b.report() == (True, 1, 10)


def test_the_smallest_range_counts_from_the_next_round_on(walker):
    a, b = walker(10), walker(4)
    assert a.report() == (True, 0, 10)
    assert b.report() == (True, 0, 10)
    assert a.report(10) == (True, 0, 0)
    assert b.report(10) == (True, 1, 4)
    assert a.report() == (True, 1, 4)
    b.end()
    assert a.report(4) == (True, 2, 10)


def test_groups_do_not_know_of_each_other(walker):
    a, b = walker(10, "mail"), walker(10, "images")
    a.report(), b.report()
    assert a.report(10) == (True, 1, 10)
    assert b.report(2) == (True, 0, 8)


def test_a_worker_that_ends_in_order_leaves_no_track(walker, db):
    a = walker(10)
    a.report()
    db.sql(pg.source("worker_end").replace("$1", str(a.id)))
    assert tracks(db) == {}


def test_only_workers_may_move_tracks(walker, db):
    a = walker(10)
    for role in "deferred_producer", "deferred_viewer":
        db.sql(f"set role {role}")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            db.sql("select deferred.__track_move(%s, 'g', 10, 1000, -1, 0)", a.id)
        db.sql("reset role")
    db.sql("set role deferred_worker")
    assert db.sql("select live, round, steps from deferred.__track_move(%s, 'g', 10, 1000, -1, 0)", a.id) == [
        (True, 0, 10)
    ]
    db.sql("reset role")


def test_a_group_has_a_name_as_queues_have(walker):
    for name in "", "a b", "x" * 64, "ü":
        with pytest.raises(psycopg2.errors.CheckViolation):
            walker(10, name).report()


def test_random_steps_deaths_and_returns_keep_live_tracks_within_the_range(walker, db, rng):
    """A model beside it: what each worker really began. Reports lag behind, get lost and are repeated, leases pass."""
    range_ = 5
    workers = [walker(range_) for _ in range(5)]
    begun = {w.id: 0 for w in workers}  # in the round it believes to be in
    for step in range(1000):
        w = rng.choice(workers)
        do = rng.random()
        if do < 0.5:
            if w.steps > begun[w.id] and w.round >= 0:
                begun[w.id] += rng.randint(1, w.steps - begun[w.id])
        elif do < 0.93:
            round_, made = w.round, rng.randint(w.made, begun[w.id]) if w.made <= begun[w.id] else w.made
            if rng.random() < 0.7:
                made = begun[w.id]
            before = (w.round, w.made)
            live, new, _ = w.report(made)
            if rng.random() < 0.1 and new == round_:
                w.round, w.made = before  # the answer was lost; it changed nothing it has to know
            elif live and new != round_:
                begun[w.id] = w.made
        elif do < 0.96:
            w.report(begun[w.id], leave=True)
        else:
            w.lapse()
        rows = db.sql(
            """select t.worker, t.round, g.round, g.steps from deferred.__deferred_track t
                         join deferred.__deferred_group g on g.name = t.group_name
                         where t.lease_until > clock_timestamp()"""
        )
        at = [
            round_ * range_ + (begun[worker] if {x.id: x for x in workers}[worker].round == round_ else 0)
            for worker, round_, _, _ in rows
        ]
        assert not at or max(at) - min(at) <= range_, (step, rows, begun)
    assert db.one("select round from deferred.__deferred_group") > 8
