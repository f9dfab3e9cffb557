"""Requests with an Idempotency-Key: what they do is done once, however often they are repeated, and whatever dies."""

import contextlib
import hashlib
import json
import uuid

import pytest

import front
import harness
from api_client import Api, add_token
from proxy import Proxy


def post(api, body, key, path="/v1/jobs", method="POST"):
    return api.call(method, path, body, headers=[("Idempotency-Key", key)])


@pytest.fixture
def api(f, db):
    client = Api(f, add_token(db, "ci", "--may", "defer,control"))
    yield client
    client.close()


def same(first, again):
    """The second one is the first answer."""
    assert (again.status, again.body) == (first.status, first.body), (first, again)
    assert again.header("location") == first.header("location")
    assert (first.header("idempotent-replayed"), again.header("idempotent-replayed")) == (None, "true")


def test_a_repeated_request_gets_the_first_answer(f, api, db):
    first = post(api, {"fn": "echo"}, "k1")
    same(first, post(api, {"fn": "echo"}, "k1"))
    assert post(api, {"fn": "echo"}, "k2").json != first.json
    got = post(api, {"fn": "echo", "priority": 1}, "k1")
    assert got.status == 422 and "another request had the Idempotency-Key 'k1'" in got.json["detail"]
    other = Api(f, add_token(db, "other"))
    assert post(other, {"fn": "echo"}, "k1").json != first.json, "keys are those of a token"
    other.close()
    same(post(api, [{"fn": "echo"}] * 5, "b", "/v1/jobs/batch"), post(api, [{"fn": "echo"}] * 5, "b", "/v1/jobs/batch"))
    assert db.hot() == 8
    job = f"/v1/jobs/{first.json['id']}"
    same(post(api, None, "d", job, "DELETE"), post(api, None, "d", job, "DELETE"))
    for key in ("", "a b", "ä", "x" * 256):
        assert post(api, {"fn": "echo"}, key).status == 400, key


def test_a_refused_request_is_tried_again(api, db):
    assert post(api, {"fn": "echo", "queue": "q q"}, "k").status == 422
    db.run(["deferred", "queue", "set", "q", "--create", "--max-length", "1"])
    api.defer(queue="q")
    assert post(api, {"fn": "echo", "queue": "q"}, "k").status == 429
    db.run(["deferred", "queue", "set", "q", "--max-length", "2"])
    assert post(api, {"fn": "echo", "queue": "q"}, "k").status == 201


def test_answers_are_kept_for_a_day(f, api, db):
    first = post(api, {"fn": "echo"}, "k")
    kept = "select extract(epoch from kept_until - now()) / 3600 from deferred.__deferred_idempotency"
    assert 23.9 < float(db.one(kept)) <= 24
    db.sql("update deferred.__deferred_idempotency set kept_until = now()")
    assert post(api, {"fn": "echo"}, "k").json != first.json
    post(api, {"fn": "echo"}, "k2")
    db.sql("update deferred.__deferred_idempotency set kept_until = now() + interval '1 hour' * (key = 'k2')::int")
    db.sql("update deferred.__deferred_upkeep set repaired_at = now() - interval '6 minutes'")
    db.sql("select deferred.maintain()")
    assert db.sql("select key from deferred.__deferred_idempotency") == [("k2",)]


def test_requests_that_are_stored_together_are_repeated_each_by_its_key(api, db):
    token, body = hashlib.sha256(api.token.encode()).hexdigest(), json.dumps({"fn": "echo"})
    ask = "select answer, replayed from deferred.__api_many(%s, %s, %s::text[]) order by item"
    first = db.sql(ask, [token] * 3, [body] * 3, ["k1", None, "k2"])
    assert [replayed for _, replayed in first] == [False] * 3
    assert db.one("select count(distinct xmin::text) from deferred.__deferred") == 1, "by one statement"
    for (answer, _), key in zip(first[::2], ("k1", "k2")):
        again = post(api, {"fn": "echo"}, key)
        assert (again.status, again.json, again.header("idempotent-replayed")) == (201, json.loads(answer), "true")
    assert db.hot() == 3


class Second(front.Front):
    """Another front of the same database, which has the account already."""

    def add_account(self, *_):
        pass


def test_a_request_that_is_repeated_at_once_is_done_once(f, api, db):
    second = Second(db)
    clients = [Api(server, api.token) for server in (f, second) for _ in range(8)]
    for n in range(20):
        kind = ("/v1/jobs", {"fn": "echo", "params": {"n": n}}) if n % 4 else ("/v1/jobs/batch", [{"fn": "echo"}])
        for client in clients:
            client.send("POST", *kind, headers=[("Idempotency-Key", f"k{n}")])
        answers = [client.answer() for client in clients]
        assert {a.status for a in answers} == {201}, answers
        assert len({a.body for a in answers}) == 1, answers
        assert sum(a.header("idempotent-replayed") is None for a in answers) == 1
    for client in clients:
        client.close()
    assert second.stop() == 0 and db.hot() == 20


def sent_and_committed(api, proxy, sql, key):
    """A request whose job is committed while the answer of the server has not arrived."""
    proxy.mute = True
    api.send("POST", "/v1/jobs", {"fn": "echo"}, headers=[("Idempotency-Key", key)])
    harness.wait_for(lambda: sql("select from deferred.__deferred_hot"), what="the commit")


def test_a_front_that_is_killed_after_the_commit_leaves_one_job(db, cluster):
    with Proxy(cluster) as proxy:
        db.env["DEFERRED_DB"] = proxy.conninfo(db.name)
        server = front.Front(db)
        api = Api(server, add_token(db, "ci"))
        key = str(uuid.uuid4())
        sent_and_committed(api, proxy, db.sql, key)
        server.program.kill()
        api.close()
        proxy.mute = False
        server.start()
        again = post(api, {"fn": "echo"}, key)
        assert (again.status, again.header("idempotent-replayed")) == (201, "true")
        assert db.sql("select id from deferred.__deferred_hot") == [(again.json["id"],)]
        api.close()
        assert server.stop() == 0


def test_a_postgresql_that_is_killed_after_the_commit_leaves_one_job(own_server):
    with Proxy(own_server.cluster) as proxy:
        own_server.env["DEFERRED_DB"] = proxy.conninfo(own_server.name)
        server = front.Front(own_server)
        api = Api(server, add_token(own_server, "ci"))
        key = str(uuid.uuid4())
        sent_and_committed(api, proxy, own_server.sql, key)
        own_server.kill()
        proxy.mute = False
        got = api.answer()
        assert (got.status, got.header("retry-after")) == (503, "1")
        own_server.start()
        again = harness.wait_for(
            lambda: next((a for a in [post(api, {"fn": "echo"}, key)] if a.status != 503), None), what="an answer"
        )
        assert (again.status, again.header("idempotent-replayed")) == (201, "true")
        with contextlib.suppress(Exception):
            own_server.connection.close()
        own_server.connection = None
        assert own_server.sql("select id from deferred.__deferred_hot") == [(again.json["id"],)]
        api.close()
        assert server.stop() == 0
