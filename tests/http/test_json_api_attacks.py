"""Attacks on the JSON API: each is answered with 4xx, changes nothing, and takes nothing from others."""

import json
import re

import pytest

import front
from api_client import Api, add_token


@pytest.fixture
def api(f, db):
    client = Api(f, add_token(db, "ci", "--may", "defer,read,control,work"))
    yield client
    client.close()


@pytest.fixture
def victim(f, db):
    client = Api(f, add_token(db, "victim"))
    yield client
    client.close()


def state(db):
    """All that a request could change."""
    return db.sql(
        "select (select json_agg(d order by d.id)::text from deferred.__deferred d), "
        "(select json_agg(h order by h.id)::text from deferred.__deferred_hot h), "
        "(select json_agg(q order by q.name)::text from deferred.__deferred_queue q), "
        "(select count(*) from deferred.__deferred_log), (select count(*) from deferred.__deferred_event), "
        "(select count(*) from deferred.__deferred_idempotency)"
    )


def refused(got, *statuses):
    assert got is not None and got.status in (statuses or range(400, 500)), got
    return got


def test_tokens_of_others_and_forged_ones_are_of_no_use(f, db, api, victim):
    job = victim.defer()
    before = state(db)
    forms = [
        f"Bearer {victim.token[:-1]}",
        f"Bearer  {victim.token}",
        f"Bearer {victim.token} ",
        f"Bearer {victim.token},{victim.token}",
        f"Basic {victim.token}",
        f"bearer{victim.token}",
        "Bearer victim",
        "Bearer ' or true --",
        "Bearer %00",
        "Bearer \xff\xfe",
        "Bearer " + "a" * 4000,
        f"Bearer {db.one('select encode(sha256, %s) from deferred.__deferred_token where name = %s', 'hex', 'victim')}",
    ]
    for form in forms:
        with_trailing_blank = form.endswith(" ")
        got = api.call("DELETE", f"/v1/jobs/{job}", token="", headers=[("Authorization", form)])
        if with_trailing_blank:  # blanks around the value of a header do not belong to it
            assert got.status == 200
            before = state(db)
        else:
            assert refused(got, 401).header("www-authenticate") == "Bearer", form
    twice = [("Authorization", f"Bearer {api.token}"), ("Authorization", f"Bearer {victim.token}")]
    refused(api.call("DELETE", f"/v1/jobs/{job}", token="", headers=twice), 401)
    assert state(db) == before


def test_scanning_ids_tells_nothing(f, db, victim):
    theirs = [victim.defer() for _ in range(3)]
    db.run(["check_deferred", "--cnt", "0"])
    theirs += [victim.defer(key="k")]
    scanner = Api(f, add_token(db, "scanner", "--functions", "noop", "--may", "defer,read,control,work"))
    before, answers = state(db), set()
    ids = [*range(0, max(theirs) + 3), 2**31, 2**63 - 1, 2**63, 10**30, -1]
    for i in [*ids, "1e3", "0x1", "01", "1%00", "%31", "1'--", "1;", "x" * 3000, "..", "%2e%2e", "1%2F..", "ä"]:
        for method, tail, body in [
            ("GET", "", None),
            ("GET", "?wait=1ms", None),
            ("PATCH", "", {"priority": 1}),
            ("DELETE", "", None),
            ("POST", "/retry", {}),
            ("POST", "/finish", {"receipt": "1"}),
            ("POST", "/step", {"receipt": "1", "name": "a", "value": 1}),
        ]:
            got = refused(scanner.call(method, f"/v1/jobs/{i}{tail}".encode().decode("latin-1"), body), 400, 404, 414)
            if i in ids:
                answers.add(re.sub(rf"job {i} ", "job ID ", got.body.decode()))
    assert len(answers) == 1, answers
    assert state(db) == before
    scanner.close()


def test_jobs_of_others_are_not_reached_by_jobs_that_refer_to_them(f, db, victim):
    job = victim.defer(key="k", delay="1h")
    flow = db.one("select deferred.flow_open('{}')")
    attacker = Api(f, add_token(db, "attacker"))
    before = db.sql("select * from deferred.__deferred where id = %s", job)
    refused(attacker.call("POST", "/v1/jobs", {"fn": "echo", "after": [job]}))
    refused(attacker.call("POST", "/v1/jobs", {"fn": "echo", "flow": flow}))
    refused(attacker.call("POST", "/v1/events/x", {"role": "token:victim"}), 403)
    for on_duplicate in ("replace", "update", "skip"):
        attacker.call("POST", "/v1/jobs", {"fn": "echo", "key": "k", "on_duplicate": on_duplicate})
    assert db.sql("select * from deferred.__deferred where id = %s", job) == before
    assert victim.call("GET", f"/v1/jobs/{job}").json["state"] == "delayed"
    attacker.close()


JSON_BOMBS = {
    "deep arrays": b'{"fn": "echo", "params": ' + b"[" * 1000000 + b"]" * 1000000 + b"}",
    "deep objects": b'{"fn": "echo", "params": ' + b'{"a":' * 300000 + b"1" + b"}" * 300000 + b"}",
    "unclosed": b"[" * 2000000,
    "a number without end": b'{"fn": "echo", "priority": ' + b"9" * 1000000 + b"}",
    "a large exponent": b'{"fn": "echo", "priority": 1e999999999}',
    "many members": b"{" + b",".join(b'"%d": 1' % n for n in range(200000)) + b"}",
    "a name without end": b'{"' + b"a" * 2000000 + b'": 1}',
    "escapes": b'{"fn": "' + b"\\u0041" * 300000 + b'"}',
    "half of a pair": b'{"fn": "echo", "label": "\\ud800"}',
    "zero": b'{"fn": "echo", "label": "\\u0000"}',
    "two values": b'{"fn": "echo"} {"fn": "echo"}',
    "joined values": b'{"fn": "echo"},{"fn": "echo"}',
    "closed early": b'{"fn": "echo"}],"x":[{"fn": "echo"}',
    "a comment": b'{"fn": "echo"} -- ',
    "byte order mark": b'\xef\xbb\xbf{"fn": "echo"}',
    "UTF-16": '{"fn": "echo"}'.encode("utf-16"),
    "nothing": b" ",
    "a label without end": b'{"fn": "echo", "label": "' + b"x" * 3000000 + b'"}',
    "many tags": json.dumps({"fn": "echo", "tags": [str(n) for n in range(300000)]}).encode(),
    "many parents": json.dumps({"fn": "echo", "after": list(range(1, 300000))}).encode(),
    "a span without end": b'{"fn": "echo", "delay": "' + b"9" * 100000 + b'd"}',
}


@pytest.mark.parametrize("bomb", JSON_BOMBS)
def test_json_bombs_are_refused(api, db, bomb):
    before = state(db)
    for path in ("/v1/jobs", "/v1/jobs/batch"):
        body = JSON_BOMBS[bomb]
        if path.endswith("batch"):
            body = b"[" + body + b"]"
            if bomb == "joined values":
                continue  # are two jobs there
        refused(api.call("POST", path, body), 400, 413, 422)
    assert state(db) == before and api.call("GET", "/v1/jobs").status == 200


def test_a_request_gets_the_same_answer_alone_and_next_to_one_that_fails(f, api, db):
    """A number that no type of PostgreSQL holds is text in params."""
    body = b'{"fn": "echo", "params": {"a": 1e999999999}, "priority": 1}'
    assert api.call("POST", "/v1/jobs", body).status == 201
    clients = [Api(f, api.token) for _ in range(6)]
    for _ in range(10):
        for n, client in enumerate(clients):
            client.send("POST", "/v1/jobs", body if n % 2 else "{")
        assert [client.answer().status for client in clients] == [400, 201] * 3
    for client in clients:
        client.close()


def test_a_job_does_not_smuggle_another_one_into_a_joined_statement(f, api, db):
    """Bodies of several clients become one array. None can close its own element."""
    clients = [Api(f, api.token) for _ in range(8)]
    bodies = ['{"fn": "echo"},{"fn": "append"}', '{"fn": "echo"}', '{"fn": "echo"}]', '{"fn": "echo", "x": [']
    for _ in range(10):
        for n, client in enumerate(clients):
            client.send("POST", "/v1/jobs", bodies[n % 4])
        assert [client.answer().status for client in clients] == [400, 201, 400, 400] * 2
    for client in clients:
        client.close()
    assert db.sql("select fn, count(*) from deferred.__deferred group by fn") == [("echo", 20)]


def test_requests_that_can_be_read_in_two_ways_are_refused(f, api, db):
    inner = api.bytes("POST", "/v1/jobs", {"fn": "echo"})
    head = (
        f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\nContent-Type: application/json\r\n"
    )
    for framing in (
        f"Content-Length: 0\r\nContent-Length: {len(inner)}\r\n",
        f"Content-Length: {len(inner)}\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Content-Length: +5\r\n",
        "Content-Length : 5\r\n",
        "Content-Length: 5 \r\n",
    ):
        connection = front.Connection(f)
        connection.send(head.encode() + framing.encode() + b"\r\n" + inner)
        got = connection.answer()
        assert got.status in (400, 501) and connection.closed(), (framing, got)
        connection.close()
    # A body that looks like a request is a body.
    refused(api.call("POST", "/v1/jobs", inner), 400)
    refused(api.call("GET", "/v1/queues", inner), 404, 200)
    assert db.hot() == 0


def test_paths_that_only_look_like_one_of_the_api(f, api, victim, db):
    job = victim.defer()
    before = state(db)
    for path in (
        "/v1//jobs",
        "/v1/jobs/",
        "/v1/./jobs",
        "/v1/x/../jobs",
        "/v1/%6aobs",
        "/v1/jobs%2f1",
        f"/v1/jobs/{job}/",
        f"/v1/jobs/{job}/../{job}",
        f"/v1/jobs/{job}/finish/x",
        f"/v1/jobs/{job}%2ffinish",
        "/v1/events/",
        "/v1/events/%00",
        "/v1/events/%ff",
        "/v1/",
    ):
        for method in ("GET", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            refused(api.call(method, path, {} if method in ("POST", "PATCH") else None))
    assert state(db) == before


def test_bodies_without_a_token_take_no_room(f, api, db):
    """Large bodies are not kept before the token is known to be good, however many come."""
    clients = [front.Connection(f) for _ in range(40)]
    for client in clients:
        client.send(
            b"POST /v1/jobs/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer dfr_x\r\n"
            b"Content-Type: application/json\r\nContent-Length: 4000000\r\nExpect: 100-continue\r\n\r\n"
        )
    assert {client.answer().status for client in clients} == {401}
    for client in clients:
        client.close()
    assert api.call("POST", "/v1/jobs/batch", [{"fn": "echo"}] * 10000).status == 201


def test_slow_bodies_and_floods_leave_others_alone(f, api, victim, db):
    slow = [front.Connection(f) for _ in range(60)]
    for connection in slow:
        connection.send(api.bytes("POST", "/v1/jobs", {"fn": "echo", "params": "x" * 5000})[:-1])
    flood = [Api(f, api.token) for _ in range(30)]
    for client in flood:
        for _ in range(20):  # without reading the answers
            client.send("GET", "/v1/queues")
            client.send("POST", "/v1/jobs", "{")
    for n in range(20):
        assert victim.call("GET", f"/v1/jobs/{victim.defer()}").json["state"] == "ready", n
    for client in flood:
        assert {client.answer().status for _ in range(40)} == {200, 400}
        client.close()
    for connection in slow:
        connection.close()
    assert db.hot() == 20


def test_many_that_wait_leave_the_connections_to_others(f, api, victim):
    job = victim.defer(delay="1h")
    waiting = [Api(f, victim.token) for _ in range(100)]
    for client in waiting:
        client.send("GET", f"/v1/jobs/{job}?wait=60s")
    for _ in range(20):
        assert victim.defer()
    assert victim.call("DELETE", f"/v1/jobs/{job}").status == 200
    assert {client.answer().json["state"] for client in waiting} == {"cancelled"}
    for client in waiting:
        client.close()


def test_random_bytes_are_refused(api, db, rng):
    good = [{"fn": "echo"}, {"receipt": "1"}, {"functions": ["echo"]}, [], 7, "x", None, {"fn": 1}, {"queues": {}}]
    paths = ["jobs", "jobs/batch", "claim", "events/x", "jobs/1/finish", "jobs/1/fail", "jobs/1/step", "jobs/1/retry"]
    for _ in range(150):
        data = bytearray(json.dumps(rng.choice(good)).encode())
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        got = api.call("POST", "/v1/" + rng.choice(paths), bytes(data))
        assert got.status < 500, (data, got)
        if got.status >= 400:
            assert got.header("content-type") == "application/problem+json" and got.json["status"] == got.status
