"""The claim with its cursor finds what a full scan finds, whatever transactions did before.

tests/harness/claim_call is a worker that does one cycle a line: the statements, the segments and the learning are the
real ones. Between its cycles the test steps sessions of its own. After each step same() has every worker claim all
there is, in a transaction that is then refused, and compares that with a sequential scan.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time

import psycopg2
import pytest

import harness
import pg
from harness import BUILD, ledger

ALL = 1000000


class Caller:
    """A worker: see tests/harness/claim_call.c."""

    def __init__(self, db, *args, look_every=1):
        self.process = subprocess.Popen([os.path.join(BUILD, "tests", "harness", "claim_call"), "-k", str(look_every), *args, db.conninfo],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=db.env)
        self.id = self.answer()["worker"]
        self.queues = [args[i + 1] for i, a in enumerate(args) if a == "-q"] or None
        self.known = [args[i + 1] for i, a in enumerate(args) if a == "-f"] or None
        self.lanes = self.holes = 0

    def answer(self):
        line = self.process.stdout.readline()
        assert line, f"claim_call ended with status {self.process.wait(20)}"
        return json.loads(line)

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def cycle(self, *parts):
        answer = self.say("; ".join(parts))
        assert answer["error"] is None or "rollback" in parts, answer["error"]
        self.lanes, self.holes = answer["lanes"], answer["holes"]
        return answer

    def claim(self, n=ALL):
        return ids(self.cycle(f"claim {n}"))

    def finish(self, jobs):
        assert sorted(self.cycle(part("finish", jobs))["recorded"]) == sorted(jobs)

    def could_claim(self, way="claim"):
        """Ids it would get and ids it would have put right first; all is left as it was."""
        answer = self.cycle(f"{way} {ALL}", "rollback")
        assert answer["error"]
        claimed = ids(answer)
        assert len(set(claimed)) == len(claimed)
        return set(claimed), set(answer["lapsed"])

    def close(self):
        """Its exit status tells what the sanitizers found."""
        self.process.stdin.close()
        status = self.process.wait(20)
        self.process.stdout.close()
        return status


def part(verb, jobs, *before):
    return " ".join([verb, *map(str, before), *map(str, jobs)])


def ids(answer):
    return [c[0] for c in answer["claimed"]]


def full_scan(db, caller):
    """Ids of ready jobs that nobody has locked, and of those met that must be put right first."""
    connection = db.connect()
    cursor = connection.cursor()
    cursor.execute("set local enable_indexscan = off; set local enable_bitmapscan = off; set local enable_indexonlyscan = off")
    seen = """from deferred.__deferred_hot h join deferred.__deferred_queue q on q.name = h.queue and not q.paused
              where h.due_at is null and h.visible_at <= now() and h.fn is not null
                and (%(known)s::text[] is null or h.fn = any (%(known)s::text[])) and (%(queues)s::text[] is null or h.queue = any (%(queues)s))
                and (h.receipt is null and coalesce(h.expires_at > now(), true)) = %(plain)s"""
    names = {"known": caller.known, "queues": caller.queues}
    cursor.execute("select h.id " + seen, {**names, "plain": False})
    odd = {r[0] for r in cursor}
    cursor.execute("select h.id " + seen + " for update of h skip locked", {**names, "plain": True})
    plain = {r[0] for r in cursor}
    connection.rollback()  # and wait for it: the locks must be gone
    connection.close()
    return plain, odd


def differ(expected, claimed):
    return f"unseen: {sorted(expected - claimed)[:20]}, seen in error: {sorted(claimed - expected)[:20]}"


def same(db, *callers, let_go=()):
    """What all of these can claim is what a full scan finds; returns it. What others had locked and let go as it was may be
    left to claims that read everything."""
    plain = set()
    for caller in callers:
        plain, odd = full_scan(db, caller)
        claimed, lapsed = caller.could_claim()
        assert claimed == plain, differ(plain, claimed)
        assert lapsed == odd
        claimed, lapsed = caller.could_claim("ready")
        assert plain - set(let_go) <= claimed <= plain, differ(plain, claimed)
        assert lapsed <= odd
    return plain


@pytest.fixture
def caller(db):
    """Makes workers; at the end they leave in order, and the tables agree with each other."""
    made = []

    def make(*args, of=db, **kw):
        made.append(Caller(of, *args, **kw))
        return made[-1]
    yield make
    assert [c.close() for c in made] == [0] * len(made)
    for name, in db.sql("select gid from pg_prepared_xacts where database = current_database()"):
        db.sql(f"rollback prepared '{name}'")
    ledger(db)


class Writer:
    """A session of an application. It begins with its first statement."""

    def __init__(self, db):
        self.connection = db.connect(application_name="writer")

    def __call__(self, query, *args):
        cursor = self.connection.cursor()
        cursor.execute(query, args or None)
        return cursor.fetchall() if cursor.description else []

    def defer(self, n=1, **opts):
        return [r[0] for r in self("select deferred.defer_many(%s::json)", json.dumps([{"fn": "f", **opts}] * n))]

    def prepare(self, name):
        """Leaves the session without a transaction."""
        self(f"prepare transaction '{name}'")
        self.connection.rollback()

    def commit(self):
        self.connection.commit()

    def rollback(self):
        self.connection.rollback()


@pytest.fixture
def writer(db):
    made = []

    def make(of=db):
        made.append(Writer(of))
        return made[-1]
    yield make
    for w in made:
        w.connection.close()


def many(db, n, **opts):
    return [r[0] for r in db.sql("select deferred.defer_many(%s::json)", json.dumps([{"fn": "f", **opts}] * n))]


def churn(db, *callers, rounds=3, n=10, **opts):
    """Jobs come and go, so that the cursors move on."""
    for _ in range(rounds):
        for c in callers:
            jobs = many(db, n, **opts)
            mine = set(c.claim()) & set(jobs)
            assert mine == set(jobs)
            c.finish(jobs)


# ---- transactions

def test_a_late_commit_is_found_behind_jobs_that_are_long_done(db, caller, writer):
    a, b, late = caller(), caller(look_every=3), writer()
    churn(db, a, b)
    jobs = late.defer(5)
    churn(db, a, b)
    assert same(db, a, b) == set()
    assert a.holes >= 1  # those of other databases count too
    late.commit()
    assert same(db, a, b) == set(jobs)
    first = a.claim(2)
    assert set(first) < set(jobs)
    a.finish(first)
    later = many(db, 3)
    assert same(db, a, b) == set(jobs + later) - set(first)
    assert set(b.claim()) == set(jobs + later) - set(first)
    assert same(db, a, b) == set()


def test_a_long_writer_goes_on_deferring_while_others_come_and_go(db, caller, writer):
    a, b = caller(), caller(look_every=2)
    long, other = writer(), writer()
    jobs = []
    for i in range(5):
        jobs += long.defer(2, priority=i % 2)
        churn(db, a, b, rounds=1, priority=i % 2)
        between = other.defer(2)
        churn(db, a, b, rounds=1)
        assert same(db, a, b) == set()
        other.commit()
        assert same(db, a, b) == set(between)
        churn_with = a.claim()
        a.finish(churn_with)
    assert same(db, a, b) == set()
    long.commit()
    assert same(db, a, b) == set(jobs)


def test_transactions_that_end_in_any_order(db, caller, writer):
    a, b = caller(), caller(look_every=2)
    churn(db, a, b)
    writers = [writer() for _ in range(8)]
    jobs = [w.defer(2) for w in writers]
    churn(db, a, b)
    expected = set()
    for i in (5, 0, 7, 3, 1, 6, 2, 4):
        writers[i].commit()
        expected |= set(jobs[i])
        assert same(db, a, b) == expected
        gone = a.claim(1)
        a.finish(gone)
        expected -= set(gone)
        assert same(db, a, b) == expected


def test_subtransactions_count_with_the_transaction_they_are_part_of(db, caller, writer):
    a, b, w = caller(), caller(look_every=3), writer()
    churn(db, a, b)
    kept = w.defer(1)
    w("savepoint s1")
    kept += w.defer(2)
    w("savepoint s2")
    w.defer(3)
    churn(db, a, b)
    w("rollback to s2")
    kept += w.defer(1)
    w("release s1")
    churn(db, a, b)
    w("savepoint s3")
    w.defer(2)
    w("rollback to s3")
    for i in range(100):  # more than a snapshot holds: it says of the rest only that there were more
        w(f"savepoint many{i}")
        kept += w.defer(1)
    churn(db, a, b)
    assert same(db, a, b) == set()
    w.commit()
    assert same(db, a, b) == set(kept)
    only = w("savepoint s") or w.defer(1)  # the transaction writes in a subtransaction alone
    w("release s")
    churn(db, a)
    w.commit()
    assert same(db, a, b) >= set(only)


def test_prepared_transactions_are_in_progress_until_they_are_resolved(db, caller, writer):
    a, b, w = caller(), caller(look_every=2), writer()
    churn(db, a, b)
    jobs = w.defer(3)
    w.prepare(f"{db.name}.one")
    gone = w.defer(3, priority=2)
    w.prepare(f"{db.name}.two")
    churn(db, a, b, rounds=5)
    assert same(db, a, b) == set()
    a.say("reconnect")
    churn(db, a, b)
    assert same(db, a, b) == set()
    db.sql(f"rollback prepared '{db.name}.two'")
    assert same(db, a, b) == set()
    churn(db, a, b)
    db.sql(f"commit prepared '{db.name}.one'")
    assert same(db, a, b) == set(jobs)
    churned = many(db, 2, priority=2)
    assert same(db, a, b) == set(jobs + churned)
    assert not set(gone) & set(a.claim())


def test_a_prepared_transaction_outlives_the_server(own_server):
    db = own_server
    a, w = Caller(db), Writer(db)
    churn(db, a)
    jobs = w.defer(3)
    w.prepare("late")
    churn(db, a)
    w.connection.close()
    assert a.close() == 0
    db.kill()
    db.start()
    a, b = Caller(db), Caller(db, look_every=2)
    churn(db, a, b)
    assert same(db, a, b) == set()
    db.sql("commit prepared 'late'")
    assert same(db, a, b) == set(jobs)
    assert [a.close(), b.close()] == [0, 0]
    ledger(db)


def test_what_is_rolled_back_leaves_everything_as_it_was(db, caller, writer):
    a, b, w = caller(), caller(look_every=2), writer()
    jobs = many(db, 4)
    assert same(db, a, b) == set(jobs)
    w.defer(3)
    w("select deferred.cancel(%s)", jobs[0])
    assert same(db, a, b) == set(jobs[1:])  # it is locked
    rest = a.claim()
    a.finish(rest)
    churn(db, b)
    assert same(db, a, b) == set()
    w.rollback()
    assert same(db, a, b, let_go=jobs[:1]) == {jobs[0]}


def test_a_cycle_that_failed_taught_nothing(db, caller):
    a, b = caller(), caller()
    jobs = many(db, 10)
    claimed = a.claim(5)
    for _ in range(3):
        assert a.cycle(part("finish", claimed), f"claim {ALL}", "rollback")["error"]
        assert same(db, a, b) == set(jobs) - set(claimed)
    answer = a.cycle(part("release", claimed), f"claim {ALL}", "rollback")
    assert set(ids(answer)) == set(jobs)
    assert same(db, a, b) == set(jobs) - set(claimed)
    a.finish(claimed)
    rest = a.claim()
    assert set(rest) == set(jobs) - set(claimed)
    for _ in range(2):  # where they are done there is nothing before the position; but they are not
        assert a.cycle(part("finish", rest), f"claim {ALL}", "rollback")["error"]
    lapse(db, rest)
    assert same(db, a, b) == set()
    assert b.claim() == a.claim() == []
    assert set(a.claim()) == set(rest)


# ---- ways to become ready again

def test_jobs_given_back_are_found_by_everybody(db, caller):
    a, b, c = caller(), caller(), caller(look_every=3)
    churn(db, a, b, c)
    jobs = many(db, 12)
    assert set(a.claim()) == set(jobs)
    churn(db, b, c)
    a.cycle(part("retry", jobs[:3], 0))
    assert same(db, a, b, c) == set(jobs[:3])
    churned = a.claim()
    b.claim()
    a.cycle(part("release", churned + jobs[3:6]))
    assert same(db, a, b, c) == set(jobs[:6])
    a.cycle(part("renew", jobs[6:]))
    assert same(db, a, b, c) == set(jobs[:6])
    answer = a.cycle(part("release", jobs[6:8]), part("retry", jobs[8:10], 0), f"claim {ALL}")  # in the transaction that claims
    assert set(ids(answer)) == set(jobs[:10])
    assert same(db, a, b, c) == set()
    a.cycle(part("release", jobs))
    assert same(db, a, b, c) == set(jobs)


def test_delayed_jobs_are_found_when_they_were_promoted(db, caller, writer):
    a, b, w = caller(), caller(look_every=2), writer()
    first = many(db, 2, delay="1h")
    churn(db, a, b)
    jobs = first + many(db, 2, delay="1h")
    late = w.defer(2, delay="1h")
    retried = many(db, 2)
    assert set(a.claim()) == set(retried)
    a.cycle(part("retry", retried, 3600000))
    churn(db, a, b)
    assert same(db, a, b) == set()
    db.sql("update deferred.__deferred_hot set due_at = now() - interval '1 s' where due_at is not null")
    assert same(db, a, b) == set()
    assert b.cycle("promote")["promoted"] == 6
    w.commit()
    assert same(db, a, b) == set(jobs + retried)
    churn(db, a, n=3, priority=1)
    db.sql("update deferred.__deferred_hot set due_at = now() - interval '1 s' where due_at is not null")
    answer = a.cycle("promote", f"claim {ALL}")  # and at once in the same transaction
    assert answer["promoted"] == 2 and set(late) <= set(ids(answer))
    assert same(db, a, b) == set()


def lapse(db, jobs):
    db.sql("update deferred.__deferred_hot set visible_at = now() - interval '1 ms' where id = any (%s) and receipt is not null",
           list(jobs))


def test_leases_that_ended_are_found_wherever_the_cursor_stands(db, caller, writer):
    a, b, c = caller(), caller(), caller(look_every=3)
    dead, renewed = many(db, 3), many(db, 2)
    assert set(a.claim()) == set(dead + renewed)
    a.cycle(part("renew", renewed))
    churn(db, b, c, rounds=5)
    lapse(db, dead)
    assert same(db, b, c) == set()  # they are met, and have to be put right
    assert b.claim() == []
    w = writer()
    w("select from deferred.__deferred_hot where id = %s for update", dead[0])
    assert set(b.claim()) == set(dead[1:])  # what another has locked is left to him
    w.rollback()
    lapse(db, renewed)
    assert same(db, b, c) == set()
    assert c.claim() == []
    assert set(c.claim()) == {dead[0], *renewed}
    assert a.cycle(part("finish", dead + renewed))["recorded"] == []  # whose lease it was
    b.finish(dead[1:])
    c.finish([dead[0], *renewed])
    assert same(db, a, b, c) == set()


def test_expired_jobs_are_put_right_wherever_the_cursor_stands(db, caller):
    a, b = caller(), caller(look_every=2)
    jobs = many(db, 3, expires="1h")
    churn_first = many(db, 3)
    claimed = a.claim(4)
    a.cycle(part("release", claimed))
    assert same(db, a, b) == set(jobs + churn_first)
    db.sql("update deferred.__deferred_hot set expires_at = now() - interval '1 s' where id = any (%s)", jobs)
    assert same(db, a, b) == set(churn_first)
    assert set(b.claim()) == set(churn_first)
    assert b.claim() == []
    assert same(db, a, b) == set()
    assert db.sql("select distinct outcome from deferred.__deferred_log where job_id = any (%s)", jobs) == [("expired",)]


def test_retry_and_cancel_by_hand(db, caller, writer):
    a, b, w = caller(), caller(look_every=2), writer()
    jobs = many(db, 4)
    delayed = many(db, 2, delay="1h")
    assert db.one("select count(*) filter (where deferred.cancel(id)) from unnest(%s::bigint[]) id", jobs) == 4
    churn(db, a, b)
    assert w("select deferred.retry(%s)", jobs[0]) == [(True,)]
    assert w("select deferred.retry(%s)", delayed[0]) == [(True,)]
    churn(db, a, b)
    assert db.one("select deferred.retry(%s)", jobs[1]) is True
    assert db.one("select deferred.retry(%s)", delayed[1]) is True
    assert same(db, a, b) == {jobs[1], delayed[1]}
    w.commit()
    assert same(db, a, b) == {*jobs[:2], *delayed}
    assert db.one("select deferred.cancel(%s)", jobs[0]) is True
    assert same(db, a, b) == {jobs[1], *delayed}
    claimed = a.claim()
    assert db.one("select deferred.cancel(%s)", claimed[0]) is True  # while it is being run
    assert db.one("select deferred.retry(%s)", claimed[0]) is True
    assert same(db, a, b) == {claimed[0]}


def test_a_row_that_another_has_locked_is_found_when_he_lets_go(db, caller, writer):
    a, b, w = caller(), caller(look_every=2), writer()
    jobs = many(db, 5)
    w("select from deferred.__deferred_hot where id = %s for update", jobs[1])
    assert same(db, a, b) == set(jobs) - {jobs[1]}
    rest = a.claim()
    a.finish(rest)
    churn(db, a, b, rounds=5)
    assert same(db, a, b) == set()
    w.commit()
    assert same(db, a, b, let_go=jobs[1:2]) == {jobs[1]}


# ---- lanes

def test_priorities_that_appear_later_are_seen_at_once(db, caller, writer):
    a, b, w = caller(), caller(look_every=3), writer()
    churn(db, a, b)
    expected = set()
    for priority in (5, -5, 32767, -32768, 1, -1, 4, 6):
        expected |= set(many(db, 1, priority=priority))
        assert same(db, a, b) == expected
    expected -= set(a.claim(3))
    assert same(db, a, b) == expected
    late = w.defer(1, priority=100) + w.defer(1, priority=5)
    churn_jobs = many(db, 2, priority=100)
    assert set(a.claim(2)) == set(churn_jobs)
    assert same(db, a, b) == expected
    w.commit()
    assert same(db, a, b) == expected | set(late)
    assert a.claim(1) == late[:1]  # the highest goes first
    assert same(db, a, b) == expected | {late[1]}


def test_several_queues_and_workers_that_serve_some(db, caller, writer):
    everything, one, two, w = caller(), caller("-q", "a"), caller("-q", "b", "-q", "c", look_every=2), writer()
    for queue in ("a", "b"):
        many(db, 1, queue=queue)
    first = everything.claim()
    everything.finish(first)
    same(db, everything, one, two)
    expected = set()
    for i, queue in enumerate(("a", "b", "c", "a", "d", "b", "e", "c")):
        late = w.defer(1, queue=queue, priority=i % 3)
        now = many(db, 2, queue="a" if i % 2 else "b", priority=-i % 3)
        expected |= set(now)
        same(db, one, two)
        assert same(db, everything) == expected
        w.commit()
        expected |= set(late)
        same(db, one, two)
        assert same(db, everything) == expected
        if i % 3 == 2:
            expected -= set(one.claim(1)) | set(two.claim(2))
    gone = everything.claim()
    assert set(gone) == expected and everything.lanes >= 5
    late = w.defer(1, queue="f") + w.defer(1, queue="a", priority=2)
    everything.cycle(part("release", gone))
    same(db, one, two)
    w.commit()
    assert same(db, everything) == expected | set(late)


def test_queues_that_are_paused_and_resumed(db, caller, writer):
    a, b, w = caller(), caller(look_every=2), writer()
    for queue in ("p", "q"):
        churn(db, a, b, queue=queue)
    db.sql("update deferred.__deferred_queue set paused = true where name = 'p'")
    p, q = many(db, 3, queue="p"), many(db, 3, queue="q")
    late = w.defer(2, queue="p")
    assert same(db, a, b) == set(q)
    churn(db, a, b, queue="q")
    w.commit()
    many_claims = [a.claim() + b.claim() for _ in range(3)]
    assert many_claims == [[], [], []]
    db.sql("update deferred.__deferred_queue set paused = false")
    assert same(db, a, b) == set(p + late)


def test_functions_unknown_to_one_worker_are_not_lost_to_another(db, caller):
    a, b = caller("-f", "here"), caller(look_every=2)
    same(db, a, b)
    elsewhere = many(db, 3, fn="elsewhere")
    many(db, 2, fn="here")
    for _ in range(4):
        a.finish(a.claim())
        many(db, 2, fn="here")
    same(db, a)
    assert same(db, b) > set(elsewhere)
    a.finish(a.claim())
    assert same(db, b) == set(elsewhere)


def test_more_transactions_in_progress_than_can_be_kept(own_server):
    db = own_server
    a, b = Caller(db), Caller(db, look_every=2)
    churn(db, a, b)
    writers = [Writer(db) for _ in range(80)]
    jobs = [w.defer(1, priority=i % 2) for i, w in enumerate(writers)]
    churn(db, a, b)
    expected = set()
    for n, i in enumerate(random.Random(1).sample(range(80), 80)):
        writers[i].commit()
        expected |= set(jobs[i])
        if n % 8 == 0:
            assert same(db, a, b) == expected
            gone = a.claim(3)
            a.finish(gone)
            expected -= set(gone)
        if n == 16:
            assert a.holes > 64
            churn(db, b, rounds=1)
            expected = same(db, a, b)
    assert same(db, a, b) == full_scan(db, a)[0]
    for w in writers:
        w.connection.close()
    assert [a.close(), b.close()] == [0, 0]
    ledger(db)


def test_more_lanes_than_can_be_kept(db, caller, writer):
    a, b, w = caller(), caller(look_every=2), writer()
    for priority in range(40):
        db.defer("f", priority=priority)
    for queue in range(40):
        db.defer("f", queue=f"q{queue}", priority=queue % 3)
    expected = same(db, a, b)
    assert len(expected) == 80
    late = [w.defer(1, queue=f"q{i}", priority=i)[0] for i in range(0, 40, 7)]
    for n in (30, 50):
        gone = a.claim(n)
        a.finish(gone)
        expected -= set(gone)
        assert same(db, a, b) == expected
    assert expected == set() and a.lanes == 64
    w.commit()
    expected = set(late) | {db.defer("f", priority=i) for i in (3, 39, 77)} | {db.defer("f", queue=q) for q in ("q39", "q41")}
    assert same(db, a, b) == expected
    churn(db, b, queue="q41")
    assert same(db, a, b) == full_scan(db, a)[0]


# ---- a dump restored into another cluster

def spend_xids(db, n):
    db.sql(f"do $$ begin for i in 1..{n} loop perform pg_current_xact_id(); commit; end loop; end $$")


def test_a_dump_restored_into_a_fresh_cluster(db, own_server, caller):
    """Its rows carry transaction ids that the new cluster has yet to reach."""
    server = own_server
    spend_xids(server, 20000)
    source = Caller(server)
    leased = many(server, 2)
    assert set(source.claim()) == set(leased)
    ready = many(server, 3) + many(server, 2, priority=7) + many(server, 2, queue="other")
    spend_xids(server, 500)
    ready += many(server, 2)
    delayed = many(server, 2, delay="1h")
    assert source.close() == 0

    dump = pg.call([os.path.join(pg.bindir(), "pg_dump"), "-d", server.conninfo])
    target = harness.OwnServer()
    try:
        conninfo = target.cluster.create_db("restored")
        path = os.path.join(target.dir, "dump.sql")
        with open(path, "w") as f:
            f.write(dump)
        pg.call([os.path.join(pg.bindir(), "psql"), "-Xq", "-v", "ON_ERROR_STOP=1", "-d", conninfo, "-f", path])
        restored = harness.Db(target.cluster, "restored")
        assert restored.one("select min(xid)::text::bigint - pg_current_xact_id()::text::bigint from deferred.__deferred_hot") > 10000
        old, w = caller(of=restored), Writer(restored)
        assert same(restored, old) == set(ready)
        expected = set(ready) - set(old.claim(2))
        for _ in range(4):  # the cursor learns with nothing but such rows there
            expected -= set(old.claim(1))
            job, = many(restored, 1)
            assert same(restored, old) == expected | {job}
            assert restored.one("select deferred.cancel(%s)", job) is True
        for i in range(3):
            late = w.defer(1)
            expected |= set(many(restored, 2, priority=i, queue=("default", "other")[i % 2]))
            new = caller(of=restored, look_every=2)
            assert same(restored, old, new) == expected
            w.commit()
            expected |= set(late)
            assert same(restored, old, new) == expected
            expected -= set(new.claim(2))
            assert same(restored, old, new) == expected
        restored.sql("update deferred.__deferred_hot set due_at = now() where due_at is not null")
        assert old.cycle("promote")["promoted"] == 2
        expected |= set(delayed)
        assert same(restored, old, new) == expected
        lapse(restored, leased)
        assert same(restored, old, new) == expected
        expected |= set(leased)
        for _ in range(2):  # met, and then put right
            expected -= set(old.claim(1))
        assert same(restored, old, new) == expected
        # The new cluster's transaction ids come to those of the rows, and go past them.
        for _ in range(3):
            spend_xids(restored, 7000)
            late = w.defer(1)
            expected |= set(many(restored, 1))
            assert same(restored, old, new) == expected
            w.commit()
            expected |= set(late)
            assert same(restored, old, new) == expected
            expected -= set(old.claim(1))
            expected -= set(new.claim(1))
        assert restored.one("select max(xid)::text::bigint - pg_current_xact_id()::text::bigint from deferred.__deferred_hot") < 0
        ledger(restored)
        w.connection.close()
        restored.close()
    finally:
        target.close()


def test_a_server_that_recovered_from_a_crash_is_another_one(own_server):
    """Transaction ids repeat there, and who is connected through a pooler may not have noticed."""
    db = own_server

    def server():
        with open(os.path.join(pg.TOP, "sql", "queries", "job_look.sql")) as f:
            look = f.read()
        cursor = db.connection.cursor()
        cursor.execute("prepare look as " + look)
        cursor.execute("execute look('{default}', '{0}', '{0}', '{0}', '{0}', '{9}', '{null}', '{0}', '{0}', 1)")
        answer = cursor.fetchall()
        cursor.execute("deallocate look")
        return answer[0][-1]

    postmaster = db.one("select pg_postmaster_start_time()")
    before = server()
    assert before >= postmaster and server() == before
    os.kill(db.one("select pg_backend_pid()"), signal.SIGKILL)

    def back():
        try:
            return db.sql("select 1") and server() > before
        except psycopg2.Error:  # a connection made before the postmaster has noticed is closed again
            db.connection.close()
    harness.wait_for(back, 30, "the server has recovered and is another one")
    assert db.one("select pg_postmaster_start_time()") == postmaster


# ---- all at once

def test_workers_and_writers_at_the_same_time(db, caller):
    """Each job is claimed by one worker, whose result is accepted, however the claims overlap."""
    callers = [caller(look_every=i + 1) for i in range(4)]
    deferred, done, failures = [db.defer("f", queue=q) for q in "ab"], [], []
    writing = threading.Event()

    def write(rng):
        with contextlib.closing(db.connect()) as connection:
            cursor = connection.cursor()
            for _ in range(60):
                jobs = [{"fn": "f", "priority": rng.randint(0, 2), "queue": rng.choice("ab")} for _ in range(rng.randint(1, 30))]
                cursor.execute("select deferred.defer_many(%s::json)", (json.dumps(jobs),))
                jobs = [r[0] for r in cursor]
                time.sleep(rng.random() / 50)
                if rng.random() < 0.8:
                    connection.commit()
                    deferred.extend(jobs)
                else:
                    connection.rollback()

    def work(c, rng):
        held, empty = [], False
        while held or not empty:
            back = [j for j in held if rng.random() < 0.3]
            again = [j for j in back if rng.random() < 0.5]
            finish = sorted(set(held) - set(back))
            empty = not writing.is_set()
            parts = [part("finish", finish)] * bool(finish) + [part("retry", again, 0)] * bool(again)
            released = [j for j in back if j not in again]
            answer = c.cycle(*parts, *[part("release", released)] * bool(released), f"claim {rng.choice((1, 5, 50))}")
            assert sorted(answer["recorded"]) == sorted(finish + again)
            done.extend(finish)
            held = ids(answer) + answer["locked"]  # another claim may have looked at one just then
            empty &= not held and answer["seen"] == 0

    def run(f, *args):
        try:
            f(*args)
        except BaseException as e:
            failures.append(e)

    writing.set()
    writers = [threading.Thread(target=run, args=(write, random.Random(i))) for i in range(3)]
    workers = [threading.Thread(target=run, args=(work, c, random.Random(100 + i))) for i, c in enumerate(callers)]
    for thread in writers + workers:
        thread.start()
    for thread in writers:
        thread.join()
    writing.clear()
    for thread in workers:
        thread.join()
    assert failures == []
    assert sorted(done) == sorted(deferred) and db.hot() == 0


# ---- the work a claim has

def index_reads(db, caller):
    """Entries of the index of ready jobs read so far by the caller's session, which tells at most once a second."""
    time.sleep(1.1)
    caller.cycle("promote")
    db.sql("select pg_stat_clear_snapshot()")
    return db.one("select idx_tup_read from pg_stat_user_indexes where indexrelname = '__deferred_hot_ready'")


def walked(db, caller, forget, batches, n=100, way="claim", locked=0):
    """Claim and finish in batches; entries read a claim in the first and in the second half. So many jobs are locked by others."""
    reads, held = [index_reads(db, caller)], []
    for _ in range(2):
        for _ in range(batches):
            if forget:
                caller.say("forget")
            held = ids(caller.cycle(*([part("finish", held)] if held else []), f"{way} {n}"))
            assert n - locked <= len(held) <= n
        reads.append(index_reads(db, caller))
    caller.finish(held)
    return (reads[1] - reads[0]) / batches, (reads[2] - reads[1]) / batches


@pytest.mark.parametrize("beside", ["a reader", "a writer"])
@pytest.mark.parametrize("priorities", [1, 3])
def test_a_claim_does_not_walk_over_the_dead(db, caller, writer, beside, priorities):
    db.sql("alter table deferred.__deferred_hot set (autovacuum_enabled = off)")
    w = writer()
    if beside == "a reader":
        w("set transaction isolation level repeatable read")
        w("select count(*) from deferred.__deferred_hot")
    else:
        theirs = w.defer(2000)
    fill = "select count(*) from deferred.defer_many(%s::json)"
    jobs = json.dumps([{"fn": "f", "priority": i * priorities // 5200} for i in range(5200)])
    for _ in range(2):
        db.sql(fill, jobs)
    with_cursor, without = caller("-w", "200", look_every=3), caller("-w", "200", look_every=3)
    first, second = walked(db, with_cursor, forget=False, batches=25)
    plain_first, plain_second = walked(db, without, forget=True, batches=8)
    print(f"beside {beside}, {priorities} priorities: {first:.0f}, then {second:.0f} entries a claim; without a cursor "
          f"{plain_first:.0f}, then {plain_second:.0f}")
    # From a window of 200 a claim takes 100 at random: some rows stay for several claims, and the dead behind them.
    assert max(first, second) < plain_first / 2 and plain_second > plain_first + 500
    w.commit()
    left = set()
    while batch := with_cursor.claim(200):
        left |= set(batch)
    assert len(left) == 2 * 5200 - 50 * 100 - 16 * 100 + (2000 if beside == "a writer" else 0)
    if beside == "a writer":
        assert set(theirs) <= left


@pytest.mark.parametrize("late", [False, True], ids=["in order", "of a late transaction"])
@pytest.mark.parametrize("locked", [False, True], ids=["claimed", "locked"])
def test_a_claim_does_not_walk_over_what_died_behind_a_job_that_is_held(db, caller, writer, late, locked):
    """A worker that stalls, or a transaction that stays open, beside a held snapshot."""
    db.sql("alter table deferred.__deferred_hot set (autovacuum_enabled = off)")
    reader, w = writer(), writer()
    reader("set transaction isolation level repeatable read")
    reader("select count(*) from deferred.__deferred_hot")
    stalled, one, whole = caller("-w", "200"), caller("-w", "200"), caller("-w", "200")
    for c in (stalled, one, whole):
        churn(db, c)
    jobs = w.defer(9000)
    if late:
        churn(db, one, whole)
    w.commit()
    held = jobs[:20] if locked else stalled.claim(20)
    if locked:
        w("select from deferred.__deferred_hot where id = any (%s) for update", held)
    first, second = walked(db, one, forget=False, batches=20, way="ready", locked=20 * locked)
    whole_first, whole_second = walked(db, whole, forget=False, batches=20, locked=20 * locked)
    print(f"{first:.0f}, then {second:.0f} entries a claim; of everything {whole_first:.0f}, then {whole_second:.0f}")
    # From a window of 200 a claim takes 100 at random: some rows stay for several claims, and the dead behind them.
    assert max(first, second) < 1500 and whole_first > 2 * max(first, second) and whole_second > whole_first + 500
    # That they are free again is noticed by who reads everything.
    w.rollback()
    lapse(db, held)
    claimed, lapsed = one.could_claim("ready")
    assert not (claimed | lapsed) & set(held)
    assert set(held) <= set.union(*one.could_claim())
    rest, left = {i for i, in db.sql("select id from deferred.__deferred_hot")}, set()
    while batch := ids(one.cycle("claim 300")):
        left |= set(batch)
    assert set(held) < left == rest


def test_one_worker_begins_where_another_came_to(db, caller, writer):
    reader = writer()
    reader("set transaction isolation level repeatable read")
    reader("select count(*) from deferred.__deferred_hot")
    for priority in (0, 4):
        many(db, 1500, queue="mail", priority=priority)
    late = writer()
    found_late = late.defer(3, queue="mail", priority=4)
    first, stranger = caller(), caller()
    first.finish(first.claim())
    assert same(db, first) == set() and first.claim() == []
    first.say("save")
    rows = db.sql("select queue, priority, cardinality(holes) >= 1 from deferred.__deferred_cursor order by 1, 2")
    assert rows == [("mail", 0, True), ("mail", 4, True)]  # the late writer, and whoever is busy in other databases

    before = index_reads(db, stranger)
    assert stranger.say("peek") == {"work": False}
    walked_all = index_reads(db, stranger) - before
    assert stranger.say("load") == {"lanes": 3}
    before = index_reads(db, stranger)
    assert stranger.say("peek") == {"work": False} and stranger.claim() == []
    walked_some = index_reads(db, stranger) - before
    assert walked_all > 3000 and walked_some < 100, (walked_all, walked_some)

    late.commit()
    new = many(db, 2, queue="mail") + many(db, 2, queue="other", priority=9)
    assert stranger.say("peek") == {"work": True}
    assert set(stranger.claim()) == set(found_late + new)
    # What was learnt of a server that has been started again since, or long ago, is not used; nor is what is not of this world.
    for change in ("server = server - interval '1 s'", "learnt_at = now() - interval '6 min'", "xid = '9999999999'"):
        first.say("save")
        db.sql("update deferred.__deferred_cursor set " + change)
        before = index_reads(db, stranger)
        stranger.say("load")
        assert index_reads(db, stranger) - before > 3000, change


def test_a_worker_does_not_walk_over_its_own_dead(db, writer):
    reader = writer()
    reader("set transaction isolation level repeatable read")
    reader("select count(*) from deferred.__deferred_hot")
    db.sql("select count(deferred.defer('noop')) from generate_series(1, 6000)")
    assert db.run(["check_deferred", "--cnt", "0", "--batch", "50", "--window", "100"]).returncode == 0
    assert db.hot() == 0
    reader.commit()

    def read():
        return db.one("select idx_tup_read from pg_stat_user_indexes where indexrelname = '__deferred_hot_ready'")
    harness.wait_for(lambda: read() >= 6000, 20, "the worker's session has told what it did")
    # Without a cursor each of the 120 claims reads all that is dead: 60 for each job.
    assert read() < 20 * 6000
    # The versions of the worker's own row are dead too: it is found by its place, not through the index that leads to all of them.
    assert db.one("select idx_scan from pg_stat_user_indexes where indexrelname = '__deferred_worker_pkey'") < 60


# ---- everything at random

STEPS = int(os.environ.get("DEFERRED_TEST_STEPS", "400"))


def anything(db):
    """What the probe should say, by a scan of the whole table."""
    return db.one("""select exists (select from deferred.__deferred_hot h join deferred.__deferred_queue q on q.name = h.queue
                                    where (not q.paused and h.due_at is null and h.visible_at <= now()) or h.due_at <= now())""")


class Model:
    """Jobs and who may claim them, as they should be. Each step does something to the database and to this, and
    says in history what it was."""

    QUEUES = ("default", "mail", "bulk")

    def __init__(self, db, rng, make_caller, make_writer):
        self.db, self.rng = db, rng
        self.state = {}       # id -> ready, delayed, claimed, lapsed, cancelled, done; jobs of committed transactions
        self.queue = {}       # id -> queue, of all jobs
        self.holder = {}      # id -> caller
        self.locked = set()   # touched by open transactions
        self.let_go = set()   # those that were, and are as they were
        self.paused = set()
        self.callers = [make_caller(), make_caller(look_every=2), make_caller(look_every=5)]
        self.lapsed = {c: set() for c in self.callers}  # what each has met and will put right
        self.held = {c: set() for c in self.callers}    # what each believes to hold
        self.writers = [make_writer() for _ in range(4)]
        self.work = {w: [] for w in self.writers}       # effects and savepoints of open transactions
        self.prepared = {}                              # name -> effects
        self.history = []
        for queue in self.QUEUES:
            self.note_new(db.defer("f", queue=queue, max_attempts=1000), queue, "ready")

    def note_new(self, job, queue, state):
        self.state[job], self.queue[job] = state, queue

    def in_state(self, *states, free=True):
        return sorted(j for j, s in self.state.items() if s in states and not (free and j in self.locked))

    def claimable(self):
        return {j for j in self.in_state("ready") if self.queue[j] not in self.paused}

    def some(self, jobs, most=5):
        jobs = sorted(jobs)
        return self.rng.sample(jobs, self.rng.randint(1, min(most, len(jobs)))) if jobs else []

    # -- applications

    def options(self):
        priority = self.rng.choice((0, 0, 0, 1, -1, 5, self.rng.randint(-99, 99)))
        opts = {"queue": self.rng.choice(self.QUEUES), "priority": priority, "max_attempts": 1000}
        return {**opts, "delay": "1h"} if self.rng.random() < 0.15 else opts

    def write(self, w):
        what, work = self.rng.random(), self.work[w]
        if what < 0.45:
            opts, n = self.options(), self.rng.randint(1, 4)
            work += [("new", j, opts["queue"], "delayed" if "delay" in opts else "ready") for j in w.defer(n, **opts)]
        elif what < 0.55:
            for job in self.some(self.in_state("ready", "delayed"), 2):
                assert w("select deferred.cancel(%s)", job) == [(True,)]
                work.append(("becomes", job, None, "cancelled"))
                self.locked.add(job)
        elif what < 0.65:
            for job in self.some(self.in_state("cancelled", "delayed"), 2):
                assert w("select deferred.retry(%s)", job) == [(True,)]
                work.append(("becomes", job, None, "ready"))
                self.locked.add(job)
        elif what < 0.73:
            w(f"savepoint s{len(work)}")
            work.append(("savepoint", len(work)))
        elif what < 0.80:
            marks = [e[1] for e in work if e[0] == "savepoint"]
            if marks:
                mark = self.rng.choice(marks)
                w(f"rollback to s{mark}")
                self.unlock(work[mark + 1:])
                del work[mark + 1:]
        elif not work:
            return
        elif what < 0.92:
            w.commit()
            self.apply(work)
            work.clear()
        elif what < 0.96 or len(self.prepared) == 2 or all(e[0] == "savepoint" for e in work):
            w.rollback()
            self.unlock(work)
            work.clear()
        else:
            name = f"{self.db.name}.{len(self.history)}"
            w.prepare(name)
            self.prepared[name] = list(work)
            work.clear()

    def unlock(self, work):
        jobs = {e[1] for e in work if e[0] == "becomes"}
        self.locked -= jobs
        self.let_go |= jobs

    def apply(self, work):
        for effect in work:
            if effect[0] == "new":
                self.note_new(*effect[1:])
            elif effect[0] == "becomes":
                self.state[effect[1]] = effect[3]
        self.unlock(work)

    def resolve(self):
        name = self.rng.choice(sorted(self.prepared))
        work = self.prepared.pop(name)
        if self.rng.random() < 0.7:
            self.db.sql(f"commit prepared '{name}'")
            self.apply(work)
        else:
            self.db.sql(f"rollback prepared '{name}'")
            self.unlock(work)

    # -- administrators, and time

    def pause(self):
        queue = self.rng.choice(self.QUEUES)
        self.paused ^= {queue}
        self.db.sql("update deferred.__deferred_queue set paused = %s where name = %s", queue in self.paused, queue)

    def lapse(self):
        jobs = self.some(self.in_state("claimed"), 3)
        lapse(self.db, jobs)
        for job in jobs:
            self.state[job] = "lapsed"

    def cancel_running(self):
        for job in self.some(self.in_state("claimed"), 1):
            assert self.db.one("select deferred.cancel(%s)", job) is True
            self.state[job] = "cancelled"

    def become_due(self):
        # One that is to be retried in an open transaction is locked.
        self.db.sql("update deferred.__deferred_hot set due_at = now() - interval '1 s' where id = any (%s)",
                    self.some(self.in_state("delayed"), 5))

    # -- workers

    def mine(self, caller):
        return {j for j in self.held[caller] if self.state[j] == "claimed" and self.holder[j] is caller}

    def cycle(self, caller):
        parts, left, changes, promotes = [], sorted(self.held[caller]), {}, self.rng.random() < 0.2
        self.rng.shuffle(left)
        mine, recorded = self.mine(caller), set()
        gone = set()
        for verb, before, state in (("finish", (), "done"), ("retry", (0,), "ready"), ("retry", (3600000,), "delayed"),
                                    ("release", (), "ready"), ("renew", (), "claimed")):
            # A line takes one delay.
            if self.rng.random() < 0.5 or (verb == "retry" and any(p.startswith("retry") for p in parts)):
                continue
            n = self.rng.randint(0, len(left))
            jobs, left = left[:n], left[n:]
            if verb == "release":  # a lease that has ended does not matter there
                back, jobs = jobs, [j for j in jobs if self.state[j] != "lapsed"]
                left += [j for j in back if j not in jobs]
            if not jobs:
                continue
            parts.append(part(verb, jobs, *before))
            changes.update((j, state) for j in jobs if j in mine)
            if verb in ("finish", "retry"):
                recorded |= set(jobs) & mine
            if verb != "renew":
                gone |= set(jobs)
        self.rng.shuffle(parts)
        due = {i for i, in self.db.sql("select id from deferred.__deferred_hot where due_at <= now()")} - self.locked if promotes else set()
        claims = self.rng.random() < 0.8
        n, way = self.rng.choice((1, 3, 10, 50, ALL)), self.rng.choices(("claim", "ready", "front", "first", "second", "turn"), (30, 30, 10, 10, 10, 10))[0]
        parts += ["promote"] * promotes + [f"{way} {n}"] * claims
        fails = self.rng.random() < 0.1
        if not parts:
            return
        answer = caller.cycle(*parts, *["rollback"] * fails)
        before = dict(self.state)
        self.state.update(changes)
        self.state.update((j, "ready") for j in due)
        if claims and not fails:
            self.state.update((j, "ready") for j in self.lapsed[caller] if self.state[j] == "lapsed")
        claimable, claimed = self.claimable(), ids(answer)
        assert len(set(claimed)) == len(claimed), "claimed twice"
        assert set(claimed) <= claimable, f"{sorted(set(claimed) - claimable)} are not to be had"
        if claims:  # a draw may fall on jobs that others have locked
            most, locked = min(n, len(claimable)), 0 if n == ALL else len(self.locked)
            if way == "ready":
                locked += len(self.let_go & claimable)
            assert (most - locked if way in ("claim", "ready", "turn") else 0) <= len(claimed) <= most, f"of {sorted(claimable)}, {n} at most: {claimed}"
        if fails:
            self.state = before
            return
        assert set(answer["recorded"]) == recorded
        self.held[caller] = (self.held[caller] - gone) | set(claimed)
        for job in claimed:
            self.state[job], self.holder[job] = "claimed", caller
        if claims:
            self.lapsed[caller] = set(answer["lapsed"])

    # -- all of it

    def step(self):
        what = self.rng.random()
        if what < 0.5:
            i = self.rng.randrange(len(self.writers))
            self.history.append(f"writer {i}")
            self.write(self.writers[i])
        elif what < 0.84:
            i = self.rng.randrange(len(self.callers))
            self.history.append(f"worker {i}")
            self.cycle(self.callers[i])
        elif what < 0.87 and self.prepared:
            self.history.append("resolve")
            self.resolve()
        elif what < 0.88:
            i = self.rng.randrange(len(self.callers))
            self.history.append(f"worker {i} reconnects")
            self.callers[i].say("reconnect")
        elif what < 0.90:
            i = self.rng.randrange(len(self.callers))
            self.history.append(f"worker {i} saves")
            self.callers[i].say("save")
        elif what < 0.92:
            i = self.rng.randrange(len(self.callers))
            self.history.append(f"worker {i} starts anew")
            self.callers[i].say("reconnect")
            self.callers[i].say("load")
            assert self.callers[i].say("peek") == {"work": anything(self.db)}
        else:
            do = self.rng.choice((self.pause, self.lapse, self.cancel_running, self.become_due))
            self.history.append(do.__name__)
            do()

    def check(self, *callers):
        expected = self.claimable()
        for caller in callers:
            claimed, lapsed = caller.could_claim()
            assert claimed == expected, differ(expected, claimed)
            assert lapsed == {j for j in self.in_state("lapsed", free=False) if self.queue[j] not in self.paused}
            claimed, _ = caller.could_claim("ready")
            assert expected - self.let_go <= claimed <= expected, differ(expected, claimed)

    def end(self):
        """Everything that is left is done."""
        for w in self.writers:
            w.commit()
            self.apply(self.work[w])
        while self.prepared:
            self.resolve()
        self.db.sql("update deferred.__deferred_queue set paused = false")
        self.db.sql("update deferred.__deferred_hot set due_at = now() where due_at is not null")
        self.paused.clear()
        for caller in self.callers:
            mine = self.mine(caller)
            if mine:
                caller.finish(mine)
            self.state.update((j, "done") for j in mine)
        for job in self.in_state("delayed", "lapsed"):
            self.state[job] = "ready"
        expected = self.claimable()
        first, *others = self.callers
        for _ in range(3):
            claimed = ids(first.cycle("promote", f"claim {ALL}"))
            if claimed:
                first.finish(claimed)
            assert set(claimed) <= expected
            expected -= set(claimed)
        assert expected == set()
        self.state.update((j, "done") for j in self.in_state("ready"))
        assert same(self.db, *self.callers, let_go=self.let_go) == set() and self.db.hot() == 0
        done = self.db.sql("select job_id, count(*) from deferred.__deferred_log where outcome = 'ok' group by 1")
        assert sorted(done) == [(j, 1) for j in self.in_state("done")]


def run_model(db, caller, writer, seed, steps):
    model = Model(db, random.Random(seed), caller, writer)
    try:
        for i in range(steps):
            model.step()
            if i % 10 == 0:
                assert same(db, *model.callers, let_go=model.let_go) == model.claimable()
            model.check(model.callers[i % 3])
        model.end()
    except BaseException:
        print(f"seed {seed}, step {len(model.history)}: repeat with DEFERRED_TEST_SEED={seed} DEFERRED_TEST_STEPS={len(model.history)}")
        print("the last steps:", ", ".join(model.history[-20:]))
        raise


def test_whatever_happens_no_job_stays_unseen_and_none_is_claimed_twice(db, caller, writer):
    """The seed is a new one each time, unless DEFERRED_TEST_SEED gives it."""
    run_model(db, caller, writer, int(os.environ.get("DEFERRED_TEST_SEED", random.SystemRandom().randrange(10**6))), STEPS)


@pytest.mark.long
@pytest.mark.parametrize("n", range(10))
def test_whatever_happens_for_a_long_time(db, caller, writer, n):
    run_model(db, caller, writer, int(os.environ.get("DEFERRED_TEST_SEED", "1")) * 100 + n, 10 * STEPS)
