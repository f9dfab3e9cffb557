"""Messages: what consumers put, take, hide and delete by receipt, through the functions the HTTP front calls."""

import json
import os
import random
import threading
import time

import psycopg2
import psycopg2.extras
import pytest

from harness import ledger, unforeseeable, wait_for
from test_waits import settle, states

(
    OK,
    NO_QUEUE,
    NO_MESSAGE,
    STALE,
    FULL,
    EXISTS,
    SAME,
    BEING_DELETED,
    BAD_METADATA,
    TOO_LARGE,
    FORBIDDEN,
    NOT_GIVEN,
) = range(12)
Q = "acct.q"


class Consumer:
    """A connection that sends what the front sends. Rows come back as dicts."""

    def __init__(self, db, **kw):
        self.connection = db.connect(**kw)
        self.connection.autocommit = True

    def ask(self, query, *args):
        with self.connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
            cursor.execute(query, args)
            return [dict(r) for r in cursor.fetchall()]

    def create(self, queue=Q, metadata=None, **named):
        return self.ask(
            "select deferred.__message_queue_create(%s, %s) as status", queue, json.dumps(metadata or named)
        )[0]["status"]

    def puts(self, *items):
        """Each item: (queue, text, visibility_s, ttl_s)."""
        return self.ask(
            "select * from deferred.__message_put(%s, %s, %s::bigint[], %s::bigint[]) order by item",
            *map(list, zip(*items)),
        )

    def put(self, text="text", queue=Q, visibility_s=0, ttl_s=0):
        return self.puts((queue, text, visibility_s, ttl_s))[0]

    def gets(self, *items):
        """Each item: (queue, max, visibility_s). A list of (status, messages) for them."""
        queues, counts, spans = map(list, zip(*items))
        rows = self.ask(
            "select *, deferred.__message_text(params) as text from deferred.__message_get(%s, %s, %s::bigint[])",
            queues,
            counts,
            [int(s * 1000) for s in spans],
        )
        status = {r["item"]: r["status"] for r in rows if r["id"] is None}
        return [
            (status[i + 1], [r for r in rows if r["item"] == i + 1 and r["id"] is not None]) for i in range(len(items))
        ]

    def get(self, n=1, visibility_s=30, queue=Q):
        ((status, messages),) = self.gets((queue, n, visibility_s))
        assert status == OK
        return messages

    def peek(self, n=32, queue=Q):
        rows = self.ask(
            "select *, deferred.__message_text(params) as text from deferred.__message_peek(%s, %s)", [queue], [n]
        )
        assert rows[0]["status"] == OK
        return [r for r in rows if r["id"] is not None]

    def texts(self, queue=Q):
        return [m["text"] for m in self.peek(queue=queue)]

    def updates(self, *items):
        """Each item: (queue, id, receipt, visibility_s, text or None)."""
        return self.ask(
            "select * from deferred.__message_update(%s, %s::bigint[], %s::bigint[], %s::bigint[], %s::text[]) "
            "order by item",
            *map(list, zip(*items)),
        )

    def update(self, m, visibility_s=30, text=None, queue=Q, receipt=None):
        return self.updates((queue, m["id"], m["receipt"] if receipt is None else receipt, visibility_s, text))[0]

    def deletes(self, *items):
        """Each item: (queue, id, receipt). Their statuses."""
        rows = self.ask(
            "select * from deferred.__message_delete(%s, %s::bigint[], %s::bigint[]) order by item",
            *map(list, zip(*items)),
        )
        return [r["status"] for r in rows]

    def delete(self, m, queue=Q):
        return self.deletes((queue, m["id"], m["receipt"]))[0]

    def count(self, queue=Q):
        row = self.ask("select * from deferred.__message_queue_get(%s)", queue)[0]
        return row["messages"] if row["status"] == OK else None

    def metadata(self, queue=Q):
        return self.ask("select * from deferred.__message_queue_get(%s)", queue)[0]["metadata"]

    def clear(self, queue=Q, batch=1000, upto=None):
        return self.ask("select * from deferred.__message_clear(%s, %s, %s)", queue, upto, batch)[0]

    def sweep(self, from_id=0, batch=20000):
        return self.ask("select * from deferred.__message_sweep(%s, %s)", from_id, batch)[0]


@pytest.fixture
def consumer(db):
    made = []

    def make(**kw):
        made.append(Consumer(db, **kw))
        return made[-1]

    yield make
    for c in made:
        c.connection.close()
    ledger(db)


@pytest.fixture
def c(consumer):
    c = consumer()
    assert c.create() == OK
    return c


def pass_time(db, seconds, where="true"):
    """Have all times of messages lie further back, which is what waiting would do."""
    db.sql(
        f"""update deferred.__deferred_hot set visible_at = visible_at - %s * interval '1 s',
            due_at = due_at - %s * interval '1 s',
               started_at = started_at - %s * interval '1 s', expires_at = expires_at - %s * interval '1 s'
               where {where}""",
        *[seconds] * 4,
    )


def state(db, id):
    return db.one("select state from deferred.job where id = %s", id)


# ---------------------------------------------------------------- put, get, peek, delete


def test_a_message_is_put_taken_and_deleted(db, c):
    put = c.put("hello <&> \u00e4\U0001f600\n\t", ttl_s=60)
    assert put["status"] == OK and put["visible_at"] == put["inserted_at"]
    assert (put["expires_at"] - put["inserted_at"]).total_seconds() == 60
    assert c.texts() == ["hello <&> \u00e4\U0001f600\n\t"] and c.peek()[0]["attempt"] == 0
    assert state(db, put["id"]) == "ready"
    (m,) = c.get(visibility_s=30)
    assert (m["id"], m["attempt"], m["text"]) == (put["id"], 1, "hello <&> \u00e4\U0001f600\n\t")
    assert (
        m["inserted_at"] == put["inserted_at"]
        and m["expires_at"] == put["expires_at"]
        and m["receipt"] != put["receipt"]
    )
    assert c.peek() == [] and c.get() == [] and c.count() == 1
    assert state(db, put["id"]) == "claimed"
    assert db.sql("select worker, receipt from deferred.__deferred_hot") == [(None, m["receipt"])]
    assert c.delete(m) == OK and c.delete(m) == NO_MESSAGE and c.count() == 0
    assert db.log(put["id"]) == [(1, "ok")] and state(db, put["id"]) == "done"
    assert db.sql("select receipt, worker, run_us >= 0 from deferred.__deferred_log") == [(m["receipt"], None, True)]


def test_the_default_ttl_is_the_queues_else_seven_days_and_minus_one_is_never(db, c):
    assert (c.put()["expires_at"] - c.put()["inserted_at"]).total_seconds() == pytest.approx(7 * 86400, abs=1)
    db.sql("select deferred.__queue_set(%s, '{\"ttl_ms\": 5000}')", Q)
    put = c.put()
    assert (put["expires_at"] - put["inserted_at"]).total_seconds() == 5
    put = c.put(ttl_s=9)
    assert (put["expires_at"] - put["inserted_at"]).total_seconds() == 9
    assert c.put(ttl_s=-1)["expires_at"] is None


def test_requests_of_one_statement_each_get_their_status(db, c):
    got = c.puts((Q, "a", 0, 60), ("acct.none", "b", 0, 60), (Q, "c", 0, 60), ("nobody", "d", 0, 60))
    assert [g["status"] for g in got] == [OK, NO_QUEUE, OK, NO_QUEUE] and [g["id"] is None for g in got] == [
        False,
        True,
        False,
        True,
    ]
    (s1, m1), (s2, m2), (s3, m3) = c.gets(("acct.none", 1, 30), (Q, 1, 30), (Q, 5, 30))
    assert (s1, s2, s3) == (NO_QUEUE, OK, OK) and [m["text"] for m in m1 + m2 + m3] == ["a", "c"]
    a, b = m2[0], m3[0]
    assert c.deletes(
        (Q, a["id"], a["receipt"]), ("acct.none", b["id"], b["receipt"]), (Q, b["id"], 1), (Q, 10**12, 1)
    ) == [OK, NO_QUEUE, STALE, NO_MESSAGE]
    assert c.delete(b) == OK


def test_messages_come_in_the_order_in_which_they_became_visible(db, c):
    for text in ("one", "two"):
        c.put(text, ttl_s=-1)
    late = c.put("late", visibility_s=20, ttl_s=-1)
    c.put("three", ttl_s=-1)
    assert c.texts() == ["one", "two", "three"] and state(db, late["id"]) == "delayed"
    pass_time(db, 21)  # what was put before the delayed one came out comes first, what was put since comes last
    assert c.texts() == ["one", "two", "three", "late"] and state(db, late["id"]) == "ready"
    c.put("four", ttl_s=-1)
    assert [m["text"] for m in c.get(4)] == ["one", "two", "three", "late"]
    assert [m["text"] for m in c.get(4)] == ["four"]


def test_messages_of_higher_priority_come_first(db, c):
    c.put("low")
    db.sql("""select deferred.defer(null, '"high"', '{"queue": "acct.q", "priority": 5}')""")
    assert c.texts() == ["high", "low"] and [m["text"] for m in c.get(2)] == ["high", "low"]


def test_a_get_folded_from_many_gives_each_message_to_one(db, c):
    c.puts(*[(Q, str(i), 0, 60) for i in range(50)])
    db.sql("insert into deferred.__deferred_queue (name) values ('acct.other')")
    c.put("x", queue="acct.other")
    got = c.gets((Q, 1, 30), ("acct.other", 3, 40), (Q, 32, 50), (Q, 1, 60), (Q, 32, 70))
    texts = [[m["text"] for m in messages] for _, messages in got]
    assert texts == [["0"], ["x"], [str(i) for i in range(1, 33)], ["33"], [str(i) for i in range(34, 50)]]
    everything = [m for _, messages in got for m in messages]
    assert len({m["id"] for m in everything}) == 51 == len({m["receipt"] for m in everything})
    spans = {
        (i, round((m["visible_at"] - got[0][1][0]["visible_at"]).total_seconds()))
        for i, (_, ms) in enumerate(got)
        for m in ms
    }
    assert spans == {(0, 0), (1, 10), (2, 20), (3, 30), (4, 40)}


def test_a_receipt_is_good_after_its_time_until_the_message_is_taken_again(db, c):
    c.put()
    (a,) = c.get(visibility_s=10)
    pass_time(db, 11)
    assert state(db, a["id"]) == "ready" and c.texts() == ["text"]
    (b,) = c.get(visibility_s=10)
    assert (b["id"], b["attempt"]) == (a["id"], 2) and b["receipt"] != a["receipt"]
    assert c.delete(a) == STALE and c.update(a)["status"] == STALE
    pass_time(db, 11)
    assert c.delete(b) == OK
    assert db.log(a["id"]) == [(1, "lost"), (2, "ok")]


def test_the_receipt_of_a_put_is_good_until_the_message_is_first_taken(db, c):
    first, second, third = c.put("1"), c.put("2"), c.put("3", visibility_s=60)
    assert c.delete(first) == OK and db.log(first["id"]) == [(0, "ok")]
    (m,) = c.get(visibility_s=10)
    assert m["id"] == second["id"] and c.delete(second) == STALE and c.update(second)["status"] == STALE
    pass_time(db, 11, f"id = {m['id']}")
    assert c.delete(second) == STALE  # visible again, but it was taken once
    new = c.update(third, visibility_s=0, text="new")
    assert new["status"] == OK and c.delete(third) == STALE and "new" in c.texts()
    assert c.delete({"id": third["id"], "receipt": new["receipt"]}) == OK
    assert c.delete(m) == OK


def test_no_made_up_receipt_is_taken(db, c):
    put = c.put()
    for receipt in (0, 1, -1, put["receipt"] + 1, 2**63 - 1, -(2**63)):
        assert c.deletes((Q, put["id"], receipt)) == [STALE]
    (m,) = c.get()
    for receipt in (0, put["receipt"], m["receipt"] ^ 1):
        assert c.deletes((Q, put["id"], receipt)) == [STALE]
    # one without a receipt: deferred from SQL
    job = db.one("""select deferred.defer(null, '"sql"', '{"queue": "acct.q"}')""")
    assert c.deletes((Q, job, 0)) == [STALE] and c.deletes(("acct.none", job, 0)) == [NO_QUEUE]


def test_no_receipt_can_be_foretold(c):
    """Neither that of a put nor of a get nor of an update."""
    puts = c.puts(*[(Q, "x", 0, 0)] * 60)
    gets = c.get(60)
    updates = c.updates(*[(Q, m["id"], m["receipt"], 30, None) for m in gets])
    for answers in (puts, gets, updates):
        assert unforeseeable([a["receipt"] for a in answers])


def test_a_message_is_reached_by_its_own_queue_only(db, c):
    c.create("acct.other")
    put = c.put()
    assert c.deletes(("acct.other", put["id"], put["receipt"])) == [NO_MESSAGE]
    assert c.update(put, queue="acct.other")["status"] == NO_MESSAGE
    assert c.peek(queue="acct.other") == [] and c.delete(put) == OK


def test_two_deletes_by_one_receipt_in_one_statement_delete_once(db, c):
    c.put()
    (m,) = c.get()
    item = (Q, m["id"], m["receipt"])
    assert sorted(c.deletes(item, item)) == [OK, NO_MESSAGE]


# ---------------------------------------------------------------- update


def test_an_update_hides_anew_replaces_the_receipt_and_keeps_the_rest(db, c):
    put = c.put("old", ttl_s=600)
    (m,) = c.get(visibility_s=10)
    up = c.update(m, visibility_s=100)
    assert up["status"] == OK and up["receipt"] != m["receipt"]
    assert 99 < (up["visible_at"] - m["visible_at"]).total_seconds() + 10 < 101
    assert c.update(m)["status"] == STALE and c.get() == []
    again = c.update({"id": m["id"], "receipt": up["receipt"]}, visibility_s=0, text="new")
    (got,) = c.get()
    assert (got["text"], got["attempt"], got["inserted_at"], got["expires_at"]) == (
        "new",
        2,
        put["inserted_at"],
        put["expires_at"],
    )
    assert c.delete({"id": m["id"], "receipt": again["receipt"]}) == STALE and c.delete(got) == OK


def test_an_update_with_an_empty_text_empties_it_and_without_leaves_it(c):
    put = c.put("text")
    new = c.update(put, visibility_s=0)
    assert c.texts() == ["text"]
    assert c.update({**put, "receipt": new["receipt"]}, visibility_s=0, text="")["status"] == OK and c.texts() == [""]


def test_a_delayed_message_can_be_brought_forward_by_its_put_receipt(c):
    put = c.put(visibility_s=600)
    assert c.get() == []
    assert c.update(put, visibility_s=0)["status"] == OK and len(c.get()) == 1


def test_two_updates_by_one_receipt_in_one_statement_are_one(c):
    put = c.put("a")
    item = [Q, put["id"], put["receipt"], 0]
    got = c.updates((*item, "b"), (*item, "c"))
    assert [g["status"] for g in got] == [OK, STALE] and c.texts() == ["b"]


def test_many_updates_and_deletes_in_any_order_from_two_sides_do_not_block_each_other_for_good(db, consumer, c):
    """Each side works on all messages with receipts that are good for half of them, in an order of its own."""
    c.puts(*[(Q, str(i), 0, 600) for i in range(40)])
    messages = c.get(40, visibility_s=600)
    rng, failed = random.Random(1), []

    def side(mine):
        other = consumer()
        held = {m["id"]: m["receipt"] if m["id"] % 2 == mine else 1 for m in messages}
        try:
            for _ in range(30):
                ids = list(held)
                rng.shuffle(ids)
                for r, i in zip(other.updates(*[(Q, i, held[i], 600, None) for i in ids]), ids):
                    if r["status"] == OK:
                        held[i] = r["receipt"]
            good = [(Q, i, r) for i, r in held.items() if i % 2 == mine]
            assert other.deletes(*good) == [OK] * len(good)
        except Exception as e:
            failed.append(e)

    threads = [threading.Thread(target=side, args=(n,)) for n in (0, 1)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert failed == [] and c.count() == 0


# ---------------------------------------------------------------- expiry


def test_an_expired_message_exists_for_nobody_and_ends_as_expired(db, c):
    gone, hidden, kept = c.put("gone", ttl_s=5), c.put("hidden", ttl_s=5), c.put("kept", ttl_s=500)
    held = c.get(2)[1]
    assert held["id"] == hidden["id"]
    c.update(
        {"id": gone["id"], "receipt": db.one("select receipt from deferred.__deferred_hot where id = %s", gone["id"])},
        visibility_s=0,
    )
    pass_time(db, 6)
    assert c.texts() == ["kept"] and c.count() == 1
    assert c.delete(held) == NO_MESSAGE and c.update(held)["status"] == NO_MESSAGE and c.delete(gone) == NO_MESSAGE
    assert [m["id"] for m in c.get(2)] == [kept["id"]]
    assert db.log(gone["id"]) == [(1, "expired")]  # met by that get
    assert c.sweep() == {"expired": 1, "next_id": 0} and db.log(hidden["id"]) == [(1, "expired")]
    assert state(db, gone["id"]) == state(db, hidden["id"]) == "expired" and db.hot() == 1


def test_a_get_passes_over_any_number_of_expired_messages(db, c):
    c.puts(*[(Q, "old", 0, 5)] * 20)
    c.puts(*[(Q, "delayed", 3, 5)] * 20)
    pass_time(db, 6)
    c.put("new")
    assert [m["text"] for m in c.get(2)] == ["new"]
    assert (
        db.one("select count(*) from deferred.__deferred_log where outcome = 'expired' and attempt = 0 and final") >= 20
    )
    c.puts(*[(Q, "old", 0, 5)] * 1500)
    pass_time(db, 6, "queue = 'acct.q' and expires_at < now() + interval '10 s'")
    c.put("newer")
    assert [m["text"] for m in c.get(1)] == ["newer"] and c.count() == 2


def test_the_sweep_goes_on_where_it_ended(db, c):
    ids = [p["id"] for p in c.puts(*[(Q, "old", 0, 5)] * 10)]
    pass_time(db, 6)
    one = c.sweep(0, 4)
    assert one["expired"] == 4 and one["next_id"] == ids[3] + 1
    two = c.sweep(one["next_id"], 4)
    assert (two["expired"], c.sweep(two["next_id"], 4)) == (4, {"expired": 2, "next_id": 0})


def test_the_sweep_leaves_calls_alone(db, c):
    job = db.defer("noop", expires="1s")
    pass_time(db, 2)
    assert c.sweep()["expired"] == 0 and state(db, job) == "ready"
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0 and state(db, job) == "expired"


# ---------------------------------------------------------------- poison


def test_a_message_taken_too_often_goes_to_the_poison_queue(db, c):
    assert c.create("acct.p", deferred_max_dequeue="2", other="x") == OK
    put = c.put("bad", queue="acct.p", ttl_s=600)
    for n in (1, 2):
        (m,) = c.get(visibility_s=10, queue="acct.p")
        assert m["attempt"] == n
        pass_time(db, 11)
    c.put("good", queue="acct.p", ttl_s=600)
    assert [m["text"] for m in c.get(1, queue="acct.p")] == ["good"]
    assert db.log(put["id"]) == [(1, "lost"), (2, "lost")] and state(db, put["id"]) == "dead"
    (moved,) = c.peek(queue="acct.p-poison")
    assert (moved["text"], moved["attempt"], moved["expires_at"]) == ("bad", 0, None)
    assert (
        db.one("select error from deferred.__deferred_log where job_id = %s and final", put["id"])
        == f"taken 2 times: moved to queue acct.p-poison as job {moved['id']}"
    )
    assert (
        db.one("select label from deferred.__deferred where id = %s", moved["id"]) == f"job {put['id']}, taken 2 times"
    )
    assert c.delete(m, queue="acct.p") == NO_MESSAGE
    (m,) = c.get(queue="acct.p-poison")
    assert c.delete(m, queue="acct.p-poison") == OK


def test_the_poison_queue_is_brought_back_and_many_go_there_at_once(db, c):
    c.create("acct.p", deferred_max_dequeue="1")
    c.create("acct.p-poison")
    c.ask("select * from deferred.__message_queue_rm('acct.p-poison', 100)")
    c.puts(*[("acct.p", str(i), 0, 600) for i in range(30)])
    c.get(30, 10, queue="acct.p")
    pass_time(db, 11)
    c.put("new", queue="acct.p")
    assert [m["text"] for m in c.get(3, queue="acct.p")] == ["new"]
    c.get(32, queue="acct.p")
    wait_for(lambda: c.get(32, queue="acct.p") == [] and c.count("acct.p-poison") == 30)


def test_a_limit_that_was_set_later_counts_released_attempts_too(db, c):
    c.put("m")
    (m,) = c.get()
    db.sql("select deferred.release(%s, %s)", m["id"], m["receipt"])
    assert c.peek()[0]["attempt"] == 0 and c.delete(m) == STALE
    db.sql("select deferred.__queue_set(%s, '{\"max_dequeue\": 1}')", Q)
    assert len(c.get()) == 1


def give(db, *functions):
    """The account that the queues here belong to, and what it may call."""
    db.sql(
        """insert into deferred.__deferred_account (name, key1, key2, functions) values ('acct', '', '', %s)
              on conflict (name) do update set functions = excluded.functions""",
        list(functions),
    )


# ---------------------------------------------------------------- jobs that wait for messages


def test_a_job_waits_for_a_message_however_that_ends(db, c):
    """deleted, cleared, expired, met by the sweep, taken too often; told once, and also to one who comes late."""
    queues = ("acct.deleted", "acct.cleared", "acct.expired", "acct.swept", "acct.poisoned")
    waits = {}
    for queue in queues:
        assert c.create(queue, deferred_max_dequeue="1") == OK
        message = c.put(queue=queue, ttl_s=5 if queue in ("acct.expired", "acct.swept") else 600)["id"]
        waits[queue] = message, [db.defer("noop", after={"job": message, "on": on}) for on in ("ok", "failed", "ended")]
    settle(db)
    assert {s for _, jobs in waits.values() for s in states(db, *jobs)} == {"waiting"}
    (taken,) = c.get(queue="acct.deleted")
    assert c.delete(taken, queue="acct.deleted") == OK and c.clear("acct.cleared")["cleared"] == 1
    assert len(c.get(queue="acct.poisoned", visibility_s=5)) == 1
    pass_time(db, 6, "fn is null")
    assert c.get(queue="acct.expired") == c.get(queue="acct.poisoned") == [] and c.sweep()["expired"] == 1
    settle(db)
    for queue, (message, jobs) in waits.items():
        well = queue == "acct.deleted"
        assert states(db, *jobs) == ["ready" if well else "cancelled", "cancelled" if well else "ready", "ready"], queue
        late = db.defer("noop", after={"job": message, "on": "ok" if well else "failed"})
        settle(db)
        assert states(db, late) == ["ready"]
    message, (job, _, _) = waits["acct.deleted"]
    assert db.sql("select parent, outcome from deferred.parents(%s)", job) == [(message, "ok")]


def test_a_job_waits_for_a_message_that_sql_finishes_cancels_or_has_been_done(db, c):
    done, cancelled, over = (c.put(queue=Q)["id"] for _ in range(3))
    jobs = [db.defer("noop", after=[m]) for m in (done, cancelled)]
    settle(db)
    m = {m["id"]: m for m in c.get(3)}
    db.sql("select deferred.finish(%s, %s)", done, m[done]["receipt"])
    assert db.sql("select deferred.cancel(%s)", cancelled) == [(True,)] and c.delete(m[over]) == OK
    jobs.append(db.defer("noop", after=[done, over]))
    settle(db)
    assert states(db, *jobs) == ["ready", "cancelled", "ready"]


def test_who_waits_for_a_call_is_told_when_its_producer_deletes_it(db, c):
    """By the receipt of its put, which is good until a worker takes it."""
    give(db, "noop")
    c.create("acct.calls", deferred_function="noop")
    call = c.put("{}", queue="acct.calls")
    job = db.defer("noop", after=call["id"])
    settle(db)
    assert c.delete(call, queue="acct.calls") == OK
    settle(db)
    assert states(db, job) == ["ready"]


# ---------------------------------------------------------------- queues with a function


def test_messages_of_a_queue_with_a_function_are_calls_that_check_deferred_runs(db, c):
    give(db, "echo")
    assert c.create("acct.calls", deferred_function="echo") == OK
    assert db.one("select fn from deferred.__deferred_queue where name = 'acct.calls'") == "echo"
    texts = ['{"a": [1, 2.50, 1]}', "[1]", "plain", '{"a": ', "5", "", ' {"b":1} ', '"quoted"', "[" * 600 + "]" * 600]
    puts = c.puts(*[("acct.calls", t, 0, 600) for t in texts])
    assert c.get(32, queue="acct.calls") == [] and c.peek(queue="acct.calls") == []  # a call is for workers
    assert c.count("acct.calls") == len(texts)
    stored = [
        r[0] for r in db.sql("select params::text from deferred.__deferred where queue = 'acct.calls' order by id")
    ]
    assert stored == [
        '{"a": [1, 2.50, 1]}',
        "[1]",
        '"plain"',
        '"{\\"a\\": "',
        '"5"',
        '""',
        ' {"b":1} ',
        '"\\"quoted\\""',
        json.dumps(texts[-1]),
    ]
    done = db.run(["check_deferred", "--cnt", "0"])
    assert done.returncode == 0, done
    assert {state(db, p["id"]) for p in puts} == {"done"} and c.count("acct.calls") == 0
    assert (
        db.one("select result from deferred.__deferred_log where job_id = %s", puts[0]["id"]) == '{"a": [1, 2.50, 1]}'
    )


def test_a_put_receipt_of_a_call_is_good_until_a_worker_takes_it(db, c):
    give(db, "noop")
    c.create("acct.calls", deferred_function="noop")
    a, b, d = (c.put("{}", queue="acct.calls", visibility_s=v) for v in (0, 60, 0))
    assert c.delete(a, queue="acct.calls") == OK
    new = c.update(b, visibility_s=0, text='{"x":1}', queue="acct.calls")
    assert new["status"] == OK
    assert db.sql(
        "select params::text, due_at from deferred.__deferred join deferred.__deferred_hot using (id) where id = %s",
        b["id"],
    ) == [('{"x":1}', None)]
    db.hold(d["id"], receipt=77)
    assert c.delete(d, queue="acct.calls") == STALE and c.deletes(("acct.calls", d["id"], 77)) == [STALE]
    assert state(db, d["id"]) == "claimed"
    db.sql("update deferred.__deferred_lease set expires_at = clock_timestamp() - interval '1 min'")
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert state(db, b["id"]) == state(db, d["id"]) == "done"


def test_a_put_of_a_call_wakes_a_sleeping_service_and_a_message_does_not(db, c):
    give(db, "noop")
    c.create("acct.calls", deferred_function="noop")
    service = db.spawn(["check_deferred", "--loop", "--listen", "--interval-floor", "1h", "--interval-ceiling", "1h"])
    asleep = """select count(*) from pg_locks where locktype = 'advisory'
        and objid = hashtext('*')::bigint & 4294967295 and granted
                and database = (select oid from pg_database where datname = current_database())"""
    wait_for(lambda: db.one(asleep) > 0, 20, "the service sleeps")
    time.sleep(0.3)
    c.put("message")
    put = c.put("{}", queue="acct.calls")
    wait_for(lambda: state(db, put["id"]) == "done", 10, "the call was run")
    assert c.texts() == ["message"]
    service.signal(15)
    assert service.wait() == 0


def test_workers_do_not_see_messages(db, c):
    c.puts(*[(Q, "m", v, 600) for v in (0, 0, 5)])
    c.get()
    pass_time(db, 6)
    done = db.run(["check_deferred", "--cnt", "0"])
    assert (done.returncode, done.stderr) == (0, "") and db.one("select count(*) from deferred.__deferred_worker") == 0
    job = db.defer("noop", queue=Q)
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0 and state(db, job) == "done"
    assert c.count() == 3


# ---------------------------------------------------------------- texts


@pytest.mark.parametrize(
    "params, text",
    [
        ('"plain"', "plain"),
        ('"\\u00e4\\n\\t\\"\\\\"', 'ä\n\t"\\'),
        ('{"a":1}', '{"a":1}'),
        ('[1, 2]', "[1, 2]"),
        ("5", "5"),
        ("null", "null"),
        ('""', ""),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ('"\\u0000"', '"\\u0000"'),
        ('"\\ud800"', '"\\ud800"'),
        ('"\\\\u0000"', "\\u0000"),
        (' "x" ', "x"),
    ],
    ids=range(12),
)
def test_what_sql_defers_is_read_as_text(db, c, params, text):
    db.sql("select deferred.defer(null, %s::json, '{\"queue\": \"acct.q\"}')", params)
    assert c.texts() == [text] and c.get()[0]["text"] == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n",
        '"',
        "\\",
        "\\u0041",
        '{"a":1}',
        "null",
        "\u2028\u2029\ufffd",
        "\x7f",
        "x" * 65536,
        "&" * 65536,
        "\U0001f600" * 16384,
    ],
    ids=range(13),
)
def test_a_text_comes_back_as_it_was_put(c, text):
    c.put(text)
    assert c.texts() == [text]
    (m,) = c.get()
    assert m["text"] == text
    c.update(m, 0, text + "!")
    assert c.texts() == [text + "!"]


# ---------------------------------------------------------------- settings of queues


def test_nothing_is_taken_from_a_paused_queue(db, c):
    c.put()
    db.sql("select deferred.__queue_set(%s, '{\"paused\": true}')", Q)
    assert c.gets((Q, 1, 30)) == [(OK, [])] and c.texts() == ["text"] and c.put()["status"] == OK
    db.sql("select deferred.__queue_set(%s, '{\"paused\": false}')", Q)
    assert len(c.get(2)) == 2


def test_a_full_queue_refuses_or_drops_and_has_room_again(db, c):
    db.sql("select deferred.__queue_set(%s, '{\"max_length\": 3}')", Q)
    assert [p["status"] for p in c.puts(*[(Q, str(i), 0, 60) for i in range(5)])] == [OK, OK, OK, FULL, FULL]
    assert c.put()["status"] == FULL
    (m,) = c.get()
    assert c.put()["status"] == FULL  # hidden ones count
    c.delete(m)
    assert c.put("again")["status"] == OK
    db.sql("select deferred.__queue_set(%s, '{\"on_full\": \"drop\"}')", Q)
    dropped = c.put("dropped")
    assert dropped["status"] == OK and dropped["id"] and c.delete(dropped) == NO_MESSAGE and c.count() == 3


def test_a_text_above_the_queues_limit_is_too_large(db, c):
    db.sql("select deferred.__queue_set(%s, '{\"params_max_bytes\": 100}')", Q)
    assert c.put("x" * 98)["status"] == OK
    (m,) = c.get()
    assert c.put("x" * 99)["status"] == TOO_LARGE and c.put('"' * 50)["status"] == TOO_LARGE
    assert c.update(m, text="x" * 99)["status"] == TOO_LARGE and c.update(m, text="x" * 98)["status"] == OK


def test_no_more_messages_are_hidden_than_max_running_says(db, c):
    db.sql("select deferred.__queue_set(%s, '{\"max_running\": 3}')", Q)
    c.puts(*[(Q, str(i), 0, 600) for i in range(10)])
    assert [len(ms) for _, ms in c.gets((Q, 2, 10), (Q, 5, 10))] == [2, 1]
    assert c.get(5) == [] and len(c.peek()) == 7
    pass_time(db, 11)
    again = c.get(5)
    assert [m["text"] for m in again] == ["3", "4", "5"]
    assert c.delete(again[0]) == OK and len(c.get(5)) == 1
    assert c.update(again[1], visibility_s=0)["status"] == OK and len(c.get(5)) == 1


def test_no_more_messages_are_taken_in_a_time_than_the_rate_says(db, c):
    db.sql("select deferred.__queue_set(%s, '{\"rate\": 0.1, \"burst\": 4}')", Q)
    c.puts(*[(Q, str(i), 0, 600) for i in range(20)])
    assert len(c.get(10)) == 4 and c.get(10) == []
    db.sql("update deferred.__deferred_limit set tokens_at = tokens_at - interval '21 s'")
    assert len(c.get(10)) == 2 and c.get(10) == []


def test_tokens_that_were_counted_in_the_future_do_not_close_a_queue_of_messages(db, c):
    db.sql("select deferred.__queue_set(%s, '{\"rate\": 0.1, \"burst\": 4}')", Q)
    c.puts(*[(Q, str(i), 0, 600) for i in range(20)])
    assert len(c.get(10)) == 4 and c.get(10) == []
    db.sql("update deferred.__deferred_limit set tokens_at = '9999-01-01'")
    assert len(c.get(10)) == 4 and c.get(10) == []


def test_a_get_of_several_rounds_counts_what_each_of_them_took(db, c):
    db.sql("select deferred.__queue_set(%s, '{\"max_running\": 4}')", Q)
    c.puts((Q, "1", 0, 0), *[(Q, "old", 0, 5)] * 3, *[(Q, str(n), 0, 500) for n in range(2, 12)])
    pass_time(db, 6, "expires_at < now() + interval '10 s'")
    assert [m["text"] for m in c.get(4)] == ["1", "2", "3", "4"]
    assert c.get(4) == []


def test_a_queue_whose_name_leaves_no_room_for_poison_has_no_max_dequeue(db, c):
    for length, fits in ((81, True), (82, False)):
        name = "q" * length
        db.sql("select deferred.__queue_set(%s, '{}', true)", name)
        if fits:
            db.sql("select deferred.__queue_set(%s, '{\"max_dequeue\": 1}')", name)
        else:
            with pytest.raises(psycopg2.Error, match="too long for max_dequeue"):
                db.sql("select deferred.__queue_set(%s, '{\"max_dequeue\": 1}')", name)


def test_a_text_with_escapes_is_read_where_a_backslash_escapes(db):
    c = Consumer(db, options="-c standard_conforming_strings=off")
    c.create()
    c.put('a "quoted" text \\u0041')
    assert [m["text"] for m in c.get()] == ['a "quoted" text \\u0041']


def test_max_running_counts_calls_and_messages_together(db, c):
    db.sql("select deferred.__queue_set(%s, '{\"max_running\": 1}')", Q)
    c.put()
    (m,) = c.get()
    job = db.defer("noop", queue=Q)
    db.run(["check_deferred", "--cnt", "0"])
    assert state(db, job) == "ready"
    c.delete(m)
    db.run(["check_deferred", "--cnt", "0"])
    assert state(db, job) == "done"


# ---------------------------------------------------------------- queues


def test_a_queue_is_created_once_and_compared_by_its_metadata(c):
    assert c.create("acct.new", {"Key1": "Value", "b": "2"}) == OK
    assert c.create("acct.new", {"b": "2", "KEY1": "Value"}) == SAME
    for other in ({"Key1": "value", "b": "2"}, {"Key1": "Value"}, {}, {"Key1": "Value", "b": "2", "c": ""}):
        assert c.create("acct.new", other) == EXISTS
    assert c.metadata("acct.new") == {"Key1": "Value", "b": "2"} and list(c.metadata("acct.new")) == ["Key1", "b"]
    assert c.create("acct.q") == SAME and c.create("acct.q", None) == SAME


def test_metadata_are_replaced_and_bind_a_function(db, c):
    set_ = lambda **m: c.ask("select deferred.__message_queue_metadata(%s, %s) as status", Q, json.dumps(m))[0][
        "status"
    ]
    settings = lambda: db.sql(
        "select fn, max_dequeue, metadata::text from deferred.__deferred_queue where name = %s", Q
    )[0]
    give(db, "send_mail", "noop")
    assert set_(A="1", Deferred_Function="send_mail", DEFERRED_MAX_DEQUEUE="5") == OK
    assert settings()[:2] == ("send_mail", 5)
    assert c.metadata() == {"A": "1", "Deferred_Function": "send_mail", "DEFERRED_MAX_DEQUEUE": "5"}
    assert c.create(Q, {"a": "1", "DEFERRED_FUNCTION": "send_mail", "deferred_max_dequeue": "5"}) == SAME
    assert c.create(Q, {"a": "1", "deferredfunction": "send_mail", "deferredMaxDequeue": "5"}) == SAME
    assert c.create(Q, {"a": "1", "deferredfunction": "noop", "deferredMaxDequeue": "5"}) == EXISTS
    assert c.create(Q, {"a": "1", "deferredfunction": "send_mail"}) == EXISTS
    assert set_(deferredfunction="noop", DeferredMaxDequeue="7") == OK and settings()[:2] == ("noop", 7)
    assert c.metadata() == {"deferredfunction": "noop", "DeferredMaxDequeue": "7"}
    assert set_(A="1", deferred_function="send_mail", deferred_max_dequeue="5") == OK
    for bad in (
        {"deferred_function": "1x"},
        {"deferred_function": "a b"},
        {"deferred_function": "x" * 128},
        {"deferred_max_dequeue": "0"},
        {"deferred_max_dequeue": "1001"},
        {"deferred_max_dequeue": "x"},
        {"deferred_max_dequeue": "-1"},
        {"deferred_max_dequeue": "99999999999"},
        {"deferred_function": "noop", "deferredfunction": "noop"},
        {"deferredmaxdequeue": "0"},
        {"deferredfunction": "a b"},
    ):
        assert set_(**bad) == BAD_METADATA and c.create("acct.bad", bad) == BAD_METADATA
    assert settings()[:2] == ("send_mail", 5)
    assert set_(deferred_function="") == OK and settings()[:2] == (None, None) and c.metadata() == {}
    db.run(
        [
            "deferred",
            "queue",
            "set",
            Q,
            "--function",
            "noop",
            "--max-dequeue",
            "3",
            "--metadata",
            '{"x": {"y": 1}, "z": null, "t": "u"}',
        ]
    )
    assert c.metadata() == {"x": '{"y": 1}', "t": "u", "deferredfunction": "noop", "deferredmaxdequeue": "3"}
    assert c.ask("select deferred.__message_queue_metadata('acct.none', '{}') as status")[0]["status"] == NO_QUEUE
    assert (
        c.create("acct." + "x" * 57, deferred_max_dequeue="3") == BAD_METADATA
        and c.create("acct." + "x" * 56, deferred_max_dequeue="3") == OK
    )


def test_a_name_may_have_an_account_of_24_and_63_more(db, c):
    name = "a" * 24 + "." + "q" * 63
    assert c.create(name) == OK and c.put(queue=name)["status"] == OK and len(c.get(queue=name)) == 1
    assert db.one("""select deferred.defer('noop', '{}', json_build_object('queue', %s::text))""", name)
    with pytest.raises(psycopg2.Error, match="queue name"):
        db.one("""select deferred.defer('noop', '{}', json_build_object('queue', %s::text))""", name + "q")
    assert db.run(["deferred", "queue", "set", name, "--weight", "2"]).returncode == 0


def test_policies_are_kept_as_they_were_set(c):
    acl = lambda: c.ask("select status, acl::text as acl from deferred.__message_queue_acl(%s)", Q)[0]
    assert acl() == {"status": OK, "acl": None}
    text = '[{"Id":"x",  "b":1.0, "b":1}]'
    assert c.ask("select deferred.__message_queue_acl(%s, %s::json) as status", Q, text) == [{"status": OK}]
    assert acl() == {"status": OK, "acl": text}
    assert c.ask(
        "select deferred.__message_queue_acl('acct.none', null) as status, "
        "(deferred.__message_queue_acl('acct.none')).status as s2"
    ) == [{"status": NO_QUEUE, "s2": NO_QUEUE}]


def test_queues_are_listed_by_pages_in_byte_order(db, c):
    names = sorted({"q"} | {f"{a}{b}" for a in ("aa", "b-b", "b0", "bb", "zz") for b in ("", "-1", "-2", "0", "x")})
    for n in random.Random(1).sample(names, len(names)):
        c.create("acct." + n, n=n)
    for other in (
        "acc.aa0",
        "acctx.aa0",
        "acct.Upper",
        "acct.a.b",
        "acct.a_b",
        "acct.-x-",
        "acct.ab",
        "acct.x--y",
        "default",
    ):
        db.sql("insert into deferred.__deferred_queue (name) values (%s) on conflict do nothing", other)
    names.remove("q")  # a name of the protocol has 3 characters

    def page(prefix=None, start=None, n=1000):
        return c.ask("select * from deferred.__message_queues('acct', %s, %s, %s)", prefix, start, n)

    assert [r["name"] for r in page()] == [n for n in names if len(n) > 2]
    assert page()[0]["metadata"] == {"n": page()[0]["name"]}
    assert [r["name"] for r in page("b")] == [n for n in names if n[0] == "b" and len(n) > 2]
    assert page("b", "zz") == [] and page("%") == [] and page("ä") == [] and page("b'") == []
    got, start = [], None
    while True:
        rows = page(start=start, n=4)
        got += [r["name"] for r in rows[:3]]
        if len(rows) < 4:
            break
        start = rows[3]["name"]
    assert got == [n for n in names if len(n) > 2]
    c.ask("select * from deferred.__message_queue_rm('acct.zzx', 1)")
    assert "zzx" not in [r["name"] for r in page()]


def test_a_removed_queue_is_gone_and_empty_when_it_is_made_again(db, c):
    give(db, "noop")
    db.sql("select deferred.__queue_set(%s, '{\"ttl_ms\": 5000, \"fn\": \"noop\", \"max_dequeue\": 3}')", Q)
    calls = [
        c.put("{}")["id"],
        db.defer("noop", queue=Q, delay="1h"),
        db.defer("noop", queue=Q, concurrency_key="k"),
        db.one("""select deferred.defer(null, '1', '{"queue": "acct.q"}')"""),
    ]
    c.ask("select deferred.__message_queue_metadata(%s, '{}')", Q)
    c.puts(*[(Q, "m", v, 600) for v in (0, 0, 60)])
    (m,) = c.get()
    assert c.count() == 7
    gone = c.ask("select * from deferred.__message_queue_rm(%s, 100)", Q)[0]
    assert (gone["status"], gone["more"]) == (OK, False) and db.hot() == 0
    assert (
        c.count() is None
        and c.put()["status"] == NO_QUEUE
        and c.gets((Q, 1, 30))[0][0] == NO_QUEUE
        and c.delete(m) == NO_QUEUE
    )
    assert c.ask("select * from deferred.__message_queue_rm(%s, 100)", Q)[0]["status"] == NO_QUEUE
    assert {state(db, i) for i in calls + [m["id"]]} == {"cancelled"} and db.log(m["id"]) == [(1, "cancelled")]
    assert c.create() == OK and c.count() == 0
    # What clients set is gone; what an administrator set is not for them to take away.
    assert db.sql("select ttl_ms, fn, max_dequeue from deferred.__deferred_queue where name = %s", Q) == [
        (5000, None, None)
    ]
    assert c.ask("select * from deferred.__message_queue_rm('default', 100)")[0]["status"] == NO_QUEUE


def test_a_large_queue_is_removed_at_once_and_cleared_by_whoever_comes(db, c):
    c.puts(*[(Q, "m", 0, 600)] * 5000)
    gone = c.ask("select * from deferred.__message_queue_rm(%s, 1000)", Q)[0]
    assert (gone["status"], gone["more"]) == (OK, True) and db.hot() == 4000 and c.count() is None
    assert c.create() == BEING_DELETED and db.hot() == 2000  # its creator clears some too
    assert c.sweep()["expired"] == 0 and db.hot() == 0
    assert c.create() == OK and c.count() == 0 and c.sweep()["expired"] == 0


def test_a_clear_leaves_what_was_put_since_it_began(db, c):
    c.puts(*[(Q, "old", v, 600) for v in (0, 0, 0, 60)])
    c.get()
    db.defer("noop")  # of another queue
    one = c.clear(batch=2)
    assert (one["status"], one["cleared"], one["more"]) == (OK, 2, True)
    c.put("new")
    two = c.clear(batch=5, upto=one["upto"])
    assert (two["cleared"], two["more"]) == (2, False) and c.texts() == ["new"] and db.hot() == 2
    assert c.clear()["cleared"] == 1 and c.clear()["cleared"] == 0 and c.clear("acct.none")["status"] == NO_QUEUE


def test_a_clear_passes_over_what_is_locked_and_says_that_there_is_more(db, consumer, c):
    c.puts(*[(Q, "m", 0, 600)] * 3)
    other = consumer()
    other.connection.autocommit = False
    other.get(1)
    got = c.clear()
    assert (got["cleared"], got["more"]) == (2, True)
    other.connection.commit()
    got = c.clear()
    assert (got["cleared"], got["more"]) == (1, False)


def test_counts_are_exact_for_some_and_an_estimate_for_many(db, c):
    c.puts(*[(Q, "m", 0, 600)] * 10000)
    assert c.count() == 10000
    c.puts(*[(Q, "m", 0, 600)] * 10000)
    db.sql("analyze deferred.__deferred_hot")
    assert 15000 < c.count() < 25000


# ---------------------------------------------------------------- what administrators do


def test_jobs_that_a_consumer_holds_are_shown_cancelled_and_retried_like_others(db, c):
    put = c.put("x", ttl_s=60)
    (m,) = c.get()
    shown = json.loads(db.run(["deferred", "show", str(m["id"]), "--json"]).stdout)
    assert (shown["state"], shown["worker"], shown["fn"], shown["attempt"]) == ("claimed", None, None, 1)
    assert "claimed" in db.run(["deferred", "show", str(m["id"])]).stdout
    for s, n in (("claimed", 1), ("ready", 0), ("delayed", 0)):
        assert len(json.loads(db.run(["deferred", "ls", "--state", s, "--json"]).stdout)) == n
    figures = lambda: next(
        {k: q[k] for k in ("ready", "claimed", "delayed")}
        for q in json.loads(db.run(["deferred", "status", "--json"]).stdout)["queues"]
        if q["queue"] == Q
    )
    assert figures() == {"ready": 0, "claimed": 1, "delayed": 0}
    c.put("y", visibility_s=60)
    c.put("z")
    assert figures() == {"ready": 1, "claimed": 1, "delayed": 1}
    again = db.run(["deferred", "retry", str(m["id"])])
    assert again.returncode == 1 and "is running" in again.stderr
    assert db.run(["deferred", "cancel", str(m["id"])]).returncode == 0 and c.delete(m) == NO_MESSAGE
    assert db.log(m["id"]) == [(1, "cancelled")]
    assert db.run(["deferred", "retry", str(m["id"])]).returncode == 0
    assert c.delete(m) == STALE and c.delete(put) == STALE and "x" in c.texts()
    m = next(x for x in c.get(5) if x["id"] == put["id"])
    assert m["attempt"] == 2 and c.delete(m) == OK
    done = db.run(["deferred", "queue", "clear", Q, "--yes", "--json"])
    assert json.loads(done.stdout)["cancelled"] == 2 and db.hot() == 0


def test_a_queue_with_messages_is_not_removed_without_force(db, c):
    c.put(visibility_s=60)
    assert db.run(["deferred", "queue", "rm", Q]).returncode == 1 and c.count() == 1
    assert db.run(["deferred", "queue", "rm", Q, "--force"]).returncode == 0 and c.count() is None


def test_messages_are_purged_like_other_jobs(db, c):
    c.put()
    (m,) = c.get()
    c.delete(m)
    db.sql(
        "update deferred.__deferred set created_at = created_at - interval '9 d'; update deferred.__deferred_log "
        "set finished_at = finished_at - interval '9 d'"
    )
    assert db.run(["deferred", "purge", "--older-than", "7d"]).returncode == 0
    assert db.sql(
        "select (select count(*) from deferred.__deferred), (select count(*) from deferred.__deferred_log)"
    ) == [(0, 0)]


# ---------------------------------------------------------------- SQL consumers


def test_a_consumer_in_sql_claims_and_gives_back(db, c):
    c.puts((Q, "a", 0, 60), (Q, '{"b": 1}', 0, 60))
    rows = db.sql("select id, receipt, attempt, params::text from deferred.claim(%s, 5, 60000)", Q)
    assert [r[2:] for r in rows] == [(1, '"a"'), (1, '"{\\"b\\": 1}"')] and db.sql(
        "select * from deferred.claim(%s)", Q
    ) == []
    db.sql("select deferred.release(%s, %s)", *rows[0][:2])
    with pytest.raises(psycopg2.errors.ObjectNotInPrerequisiteState, match="the receipt is not of its current claim"):
        db.sql("select deferred.release(%s, %s)", *rows[0][:2])
    assert db.sql("select attempt from deferred.claim(%s)", Q) == [(1,)]
    assert c.deletes((Q, *rows[1][:2])) == [OK]  # one receipt for both
    with pytest.raises(psycopg2.Error, match="queue 'acct.none' does not exist"):
        db.sql("select * from deferred.claim('acct.none')")
    for args in ((0, 1000), (1001, 1000), (1, 0), (1, 604800001), (None, 1)):
        with pytest.raises(psycopg2.errors.NumericValueOutOfRange):
            db.sql("select * from deferred.claim(%s, %s, %s)", Q, *args)


def test_a_consumer_in_sql_extends_and_finishes_what_it_claimed_or_took_over_http(db, c):
    c.puts((Q, "a", 0, 60), (Q, "b", 0, 60))
    ((a, receipt),) = db.sql("select id, receipt from deferred.claim(%s, 1, 1000)", Q)
    (b,) = c.get(visibility_s=2)
    for id, r in ((a, receipt), (b["id"], b["receipt"])):
        end = db.one("select deferred.extend(%s, %s, 30000)", id, r)
        assert db.sql("select due_at, visible_at from deferred.__deferred_hot where id = %s", id) == [(end, end)]
    pass_time(db, 10)
    assert c.peek() == []
    with pytest.raises(psycopg2.errors.ObjectNotInPrerequisiteState):
        db.sql("select deferred.finish(%s, %s)", b["id"], receipt)
    db.sql("select deferred.finish(%s, %s, 'done by hand')", a, receipt)
    db.sql("select deferred.finish(%s, %s)", b["id"], b["receipt"])
    assert db.log(a) == db.log(b["id"]) == [(1, "ok")] and c.count() == 0 and c.delete(b) == NO_MESSAGE


def test_a_worker_cannot_be_fooled_with_release(db, c):
    job = db.defer("noop")
    db.sql(
        "update deferred.__deferred_hot set receipt = 5, worker = 1, attempt = 1, started_at = now(), "
        "visible_at = now() + interval '1 h'"
    )
    with pytest.raises(psycopg2.Error, match=f"job {job}: the receipt is not of its current claim"):
        db.sql("select deferred.release(%s, 5)", job)
    db.sql(
        "update deferred.__deferred_hot set receipt = null, worker = null, attempt = 0, started_at = null, "
        "visible_at = now()"
    )


# ---------------------------------------------------------------- rights


def test_the_role_of_the_front_calls_functions_and_reaches_no_table(db, consumer, c):
    db.sql("create role front_login login in role deferred_http; create role plain_login login")
    try:
        front, plain = consumer(user="front_login"), consumer(user="plain_login")
        assert front.create("acct.fff") == OK and front.put(queue="acct.fff")["status"] == OK
        (m,) = front.get(queue="acct.fff")
        up = front.update(m, queue="acct.fff")
        assert front.delete({**m, "receipt": up["receipt"]}, queue="acct.fff") == OK
        assert (
            front.count("acct.fff") == 0 and front.sweep()["expired"] == 0 and front.clear("acct.fff")["status"] == OK
        )
        assert front.peek(queue="acct.fff") == [] and front.ask(
            "select * from deferred.__message_queues('acct', null, null, 9)"
        )
        for query in (
            "select * from deferred.__deferred_hot",
            "select * from deferred.__deferred",
            "select * from deferred.__deferred_queue",
            "select deferred.cancel(1)",
            "select deferred.__message_expire('{1}')",
            "select deferred.__message_poison('{1}')",
            "select deferred.__message_clear_some('acct.q', 9, 9)",
            "select deferred.__account_add('x12', '', '')",
            "select deferred.defer('noop')",
            "select deferred.__queue_set('acct.q', '{}')",
        ):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                front.ask(query)
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            plain.put()
        assert db.one("select created_by from deferred.__deferred where queue = 'acct.fff'") == "front_login"
    finally:
        for x in (front, plain):
            x.connection.close()
        db.sql("drop role front_login, plain_login")


def test_limits_of_the_role_of_the_front_hold(db, consumer, c):
    db.sql("create role narrow_login login in role deferred_http")
    try:
        give(db, "send_mail", "noop")
        c.create("acct.mail", deferred_function="send_mail")
        db.sql(
            """insert into deferred.__deferred_grant (role, queue, fn)
                values ('narrow_login', 'acct.q', null), ('narrow_login', null, 'send_mail')"""
        )
        narrow = consumer(user="narrow_login")
        assert narrow.put(queue="acct.q")["status"] == OK and narrow.put("{}", queue="acct.mail")["status"] == OK
        c.create("acct.other")
        c.create("acct.noop", deferred_function="noop")
        assert (
            narrow.put(queue="acct.other")["status"] == FORBIDDEN
            and narrow.put(queue="acct.noop")["status"] == FORBIDDEN
        )
        assert (
            narrow.create("acct.new", deferred_function="noop") == FORBIDDEN
            and narrow.create("acct.new", deferred_function="send_mail") == OK
        )
        assert narrow.ask(
            "select deferred.__message_queue_metadata('acct.other', '{\"deferred_function\": \"noop\"}') as s"
        ) == [{"s": FORBIDDEN}]
        narrow.connection.close()
    finally:
        db.sql("drop role narrow_login")


# ---------------------------------------------------------------- many at once, and deaths


def test_consumers_at_once_never_hold_the_same_valid_receipt(db, consumer, c):
    """Several processes put, take and delete; every message is deleted by exactly one, and nobody waits for good."""
    total, deleted, failed, lock = 600, [], [], threading.Lock()
    done = threading.Event()

    def put(n):
        me = consumer()
        for i in range(0, n, 10):
            assert all(p["status"] == OK for p in me.puts(*[(Q, f"{n}-{i + k}", 0, 600) for k in range(10)]))

    def consume(seed):
        me, rng = consumer(), random.Random(seed)
        try:
            while not done.is_set():
                got = [
                    m
                    for _, ms in me.gets(
                        *[(Q, rng.randint(1, 8), rng.choice((0.05, 30))) for _ in range(rng.randint(1, 4))]
                    )
                    for m in ms
                ]
                if rng.random() < 0.3:
                    time.sleep(0.06)  # the short ones may have gone to somebody else by now
                if not got:
                    continue
                statuses = me.deletes(*[(Q, m["id"], m["receipt"]) for m in got])
                assert set(statuses) <= {OK, STALE, NO_MESSAGE}
                with lock:
                    deleted.extend(m["id"] for m, s in zip(got, statuses) if s == OK)
        except Exception as e:
            failed.append(e)
            done.set()

    threads = [threading.Thread(target=put, args=(total // 2,)) for _ in range(2)] + [
        threading.Thread(target=consume, args=(s,)) for s in range(5)
    ]
    for t in threads:
        t.start()
    try:
        wait_for(lambda: failed or len(deleted) >= total, 60, "all were deleted")
    finally:
        done.set()
        for t in threads:
            t.join(30)
    assert failed == [] and len(deleted) == len(set(deleted)) == total and c.count() == 0
    assert db.one("select count(*) from deferred.__deferred_log where outcome = 'ok' and final") == total


def test_two_takers_stepped_by_hand_pass_each_other(consumer, c):
    c.puts(*[(Q, str(i), 0, 600) for i in range(4)])
    a, b = consumer(), consumer()
    a.connection.autocommit = b.connection.autocommit = False
    assert [m["text"] for m in a.get(2)] == ["0", "1"] and [m["text"] for m in b.get(5)] == ["2", "3"]
    a.connection.rollback()
    b.connection.commit()
    assert [m["text"] for m in a.get(5)] == ["0", "1"]
    a.connection.commit()


def test_a_put_and_a_take_of_a_backend_that_is_killed_leave_nothing(db, consumer, c):
    put = c.put("kept", ttl_s=-1)
    dying = consumer()
    dying.connection.autocommit = False
    dying.put("never committed")
    (m,) = dying.get()
    assert m["id"] == put["id"]
    db.sql("select pg_terminate_backend(%s)", dying.connection.get_backend_pid())
    wait_for(lambda: c.texts() == ["kept"], 10, "its locks are gone")
    assert c.peek()[0]["attempt"] == 0 and c.delete(m) == STALE
    assert c.delete(put) == OK


def test_what_was_answered_survives_the_death_of_the_server(own_server):
    db = own_server
    c = Consumer(db)
    c.create()
    puts = c.puts(*[(Q, str(i), 0, 600) for i in range(20)])
    held = c.get(5, 600)
    assert c.deletes(*[(Q, m["id"], m["receipt"]) for m in held[:2]]) == [OK, OK]
    db.kill()
    db.start()
    c = Consumer(db)
    assert c.count() == 18 and c.texts() == [str(i) for i in range(5, 20)]
    assert c.deletes(*[(Q, m["id"], m["receipt"]) for m in held]) == [NO_MESSAGE, NO_MESSAGE, OK, OK, OK]
    assert c.delete(puts[10]) == OK
    ledger(db)
    c.connection.close()


# ---------------------------------------------------------------- cost


def buffers(c, query, *args):
    """Blocks that a statement touches."""
    plan = c.ask("explain (analyze, buffers, format json) " + query, *args)[0]["QUERY PLAN"][0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def test_a_take_costs_the_same_however_many_are_hidden_at_the_head_or_lie_behind(db, c):
    c.ask(
        "set enable_seqscan = off; set enable_hashjoin = off; set enable_bitmapscan = off; "
        "set enable_mergejoin = off; select 1"
    )
    get = ("select * from deferred.__message_get(%s, %s, '{600000}')", [Q], [1])
    c.puts(*[(Q, "m", 0, 600)] * 100)
    few = min(buffers(c, *get) for _ in range(3))
    db.sql(
        """insert into deferred.__deferred_hot (id, queue, visible_at) select -g, 'acct.q', now()
            from generate_series(1, 100000) g;
              insert into deferred.__deferred (id, queue, params, created_at) select -g, 'acct.q', '1', now()
              from generate_series(1, 100000) g"""
    )
    db.sql(
        """update deferred.__deferred_hot set receipt = 1, attempt = 1, started_at = now(),
            visible_at = now() + interval '1 h', due_at = now() + interval '1 h'
              where id between -50000 and -1"""
    )
    db.sql("vacuum analyze deferred.__deferred_hot")
    many = min(buffers(c, *get) for _ in range(3))
    assert many < few * 2 + 20, (few, many)
    db.sql("delete from deferred.__deferred_hot where id < 0; delete from deferred.__deferred where id < 0")
