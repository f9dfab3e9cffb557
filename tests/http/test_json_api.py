"""The JSON API of deferred_http: what its requests do, and what they answer."""

import hashlib
import json
import signal

import pytest

import harness
from api_client import Api, add_token


@pytest.fixture
def api(f, db):
    client = Api(f, add_token(db, "ci"))
    yield client
    client.close()


@pytest.fixture
def other(f, db):
    client = Api(f, add_token(db, "other"))
    yield client
    client.close()


@pytest.fixture
def boss(f, db):
    client = Api(f, add_token(db, "boss", "--may", "read,control"))
    yield client
    client.close()


def problem(got, status, detail=None):
    """A refusal in the form of RFC 9457, with this in its text."""
    assert got.status == status, got
    assert got.header("content-type") == "application/problem+json", got
    assert (got.json["type"], got.json["status"]) == ("about:blank", status) and got.json["title"], got
    if detail is not None:
        assert detail in got.json["detail"], got
    return got.json


def run(db):
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0


def test_a_job_is_stored_runs_and_is_read(api, db):
    got = api.call("POST", "/v1/jobs", {"fn": "echo", "params": {"a": "ä"}, "queue": "mail", "priority": 5})
    assert (got.status, got.header("content-type")) == (201, "application/json")
    assert got.header("location") == f"/v1/jobs/{got.json['id']}"
    job = api.call("GET", got.header("location"))
    assert (job.status, job.json["state"], job.json["queue"], job.json["priority"]) == (200, "ready", "mail", 5)
    assert job.json["created_by"] == "token:ci" and job.json["result"] is None
    run(db)
    job = api.call("GET", got.header("location")).json
    assert (job["state"], job["attempt"], job["result"]) == ("done", 1, '{"a": "ä"}')


def test_jobs_of_several_clients_are_stored_by_one_statement_and_a_wrong_one_affects_no_other(f, api, other, db):
    clients = [Api(f, token) for token in [api.token, other.token, api.token, "wrong", api.token]]
    jobs = [{"fn": "echo"}, {"fn": "echo", "queue": "q"}, {"fn": "e c"}, {"fn": "echo"}, {"fn": "echo", "bad": 1}]
    for _ in range(20):
        for client, job in zip(clients, jobs):
            client.send("POST", "/v1/jobs", job)
        assert [client.answer().status for client in clients] == [201, 201, 422, 401, 422]
    for client in clients:
        client.close()
    made = db.sql("select created_by, queue, count(*) from deferred.__deferred group by 1, 2 order by 1, 2")
    assert made == [("token:ci", "default", 20), ("token:other", "q", 20)]


def test_a_refusal_has_the_texts_of_the_command(api, db):
    said = db.run(["deferred", "add", "echo", "{}", "--queue", "no queue"])
    got = problem(api.call("POST", "/v1/jobs", {"fn": "echo", "queue": "no queue"}), 422)
    assert got["detail"] in said.stderr and got["hint"] in said.stderr and got["code"] == "22023"
    for body, status, detail in [
        ("{", 400, "body: invalid JSON"),
        ("[]", 422, "body must be a JSON object, but a JSON array was given"),
        ({}, 422, "function"),
        ({"fn": "echo", "dealy": 3}, 422, "member 'dealy' of the body is unknown"),
        ({"fn": "echo", "delay": "soon"}, 422, "option 'delay': 'soon' is not a time span"),
        ({"fn": "echo", "params": "x" * 1100000}, 413, "params of function 'echo' have"),
        ('{"fn": "echo", "params": ' + "[" * 5000 + "]" * 5000 + "}", 413, "nest"),
        ('{"fn": "echo", "params": "\\u0000"}', 422, "cannot be stored as text"),
    ]:
        problem(api.call("POST", "/v1/jobs", body), status, detail)
    assert db.hot() == 0


def test_requests_that_are_not_of_the_api(api):
    problem(api.call("GET", "/v1/nothing"), 404)
    problem(api.call("GET", "/v1/jobs/1/2"), 404)
    got = api.call("PUT", "/v1/jobs/1")
    problem(got, 405)
    assert got.header("allow") == "GET, HEAD, PATCH, DELETE"
    problem(api.call("POST", "/v1/jobs", "fn=echo", kind="application/x-www-form-urlencoded"), 415)
    problem(api.call("POST", "/v1/jobs", b'{"fn": "\xff"}'), 400, "not UTF-8")
    problem(api.call("POST", "/v1/jobs?x=1", {"fn": "echo"}), 422, "parameter 'x' of the query is unknown")
    problem(api.call("GET", "/v1/jobs?state=done&state=dead"), 400, "given twice")
    problem(api.call("POST", "/v1/jobs", b"[" + b"1," * (2 << 20) + b"1]"), 413)


def test_only_a_valid_token_is_let_in(f, api, db):
    for token in ("", "x", api.token[:-1], api.token + "x", "x" * 1000):
        got = api.call("GET", "/v1/jobs", token=token)
        assert (got.status, got.header("www-authenticate")) == (401, "Bearer")
        assert "detail" not in got.json
    old = api.token
    done = db.run(["deferred", "token", "rotate", "ci", "--grace", "1h", "--json"])
    new = json.loads(done.stdout)["secret"]
    assert [api.call("GET", "/v1/jobs", token=t).status for t in (old, new)] == [200, 200]
    db.sql("update deferred.__deferred_token set old_until = now()")
    assert [api.call("GET", "/v1/jobs", token=t).status for t in (old, new)] == [401, 200]
    db.sql("update deferred.__deferred_token set expires_at = now()")
    assert api.call("GET", "/v1/jobs", token=new).status == 401


def test_rights_say_what_a_token_may_do(f, db):
    requests = {
        "defer": ("POST", "/v1/jobs", {"fn": "echo"}),
        "batch": ("POST", "/v1/jobs/batch", [{"fn": "echo"}]),
        "retry": ("POST", "/v1/jobs/1/retry", {}),
        "queues": ("GET", "/v1/queues"),
        "jobs": ("GET", "/v1/jobs"),
        "event": ("POST", "/v1/events/x", {}),
    }
    may = {
        "defer": {"defer", "batch", "jobs", "event"},
        "read": {"queues", "jobs"},
        "control": {"retry", "queues", "jobs", "event"},
        "work": {"jobs"},
    }
    for right, allowed in may.items():
        client = Api(f, add_token(db, right, "--may", right))
        refused = {name for name, request in requests.items() if client.call(*request).status == 403}
        assert refused == set(requests) - allowed, right
        client.close()


def test_a_token_is_for_its_functions_and_queues(f, db):
    client = Api(f, add_token(db, "narrow", "--functions", "echo,mail.*", "--queues", "q"))
    assert client.call("POST", "/v1/jobs", {"fn": "echo", "queue": "q"}).status == 201
    assert client.call("POST", "/v1/jobs", {"fn": "mail.send", "queue": "q"}).status == 201
    for job in ({"fn": "append", "queue": "q"}, {"fn": "echo"}, {"fn": "echo", "queue": "r"}):
        problem(client.call("POST", "/v1/jobs", job), 403, "token 'narrow' may not use")
        problem(client.call("POST", "/v1/jobs/batch", [{"fn": "echo", "queue": "q"}, job]), 403)
    # The last of two members with a name counts, for the check as for the job.
    twice = '{"fn": "append", "fn": "echo", "queue": "r", "queue": "q"}'
    assert client.call("POST", "/v1/jobs", twice).status == 201
    for twice in ('{"fn": "echo", "fn": "append", "queue": "q"}', '{"fn": "echo", "queue": "q", "qu\\u0065ue": "r"}'):
        assert client.call("POST", "/v1/jobs", twice).status == 403
        assert client.call("POST", "/v1/jobs/batch", f"[{twice}]").status == 403
    client.close()
    assert sorted(set(db.sql("select fn, queue from deferred.__deferred"))) == [("echo", "q"), ("mail.send", "q")]


def test_jobs_of_others_do_not_exist_for_a_token(api, other, boss, db):
    job = api.defer()
    for method, path in [
        ("GET", "/v1/jobs/{}"),
        ("GET", "/v1/jobs/{}?wait=1s"),
        ("DELETE", "/v1/jobs/{}"),
        ("PATCH", "/v1/jobs/{}"),
    ]:
        body = {"priority": 1} if method == "PATCH" else None
        there, absent = (other.call(method, path.format(n), body) for n in (job, job + 1))
        problem(there, 404, f"job {job} does not exist")
        problem(absent, 404, f"job {job + 1} does not exist")
        assert there.json["hint"] == absent.json["hint"]
    assert other.call("GET", "/v1/jobs").json == {"jobs": [], "next": None}
    assert boss.call("GET", f"/v1/jobs/{job}").json["id"] == job
    assert db.hot() == 1


def test_a_batch_is_stored_whole_or_not_at_all(api, db):
    jobs = [{"fn": "echo", "params": {"n": n}} for n in range(1000)]
    array = api.call("POST", "/v1/jobs/batch", jobs)
    assert array.status == 201 and len(array.json["ids"]) == 1000, array
    lines = "\r\n".join(json.dumps(job) for job in jobs) + "\n\n"
    ndjson = api.call("POST", "/v1/jobs/batch", lines, kind="application/x-ndjson")
    stored = [json.loads(row[0])["n"] for row in db.sql("select params::text from deferred.__deferred order by id")]
    assert stored == [*range(1000), *range(1000)]
    assert ndjson.json["ids"] == [
        row[0] for row in db.sql("select id from deferred.__deferred order by id offset 1000")
    ]
    for body, status, detail in [
        ([*jobs, {"fn": "e c"}], 422, "function"),
        ([*jobs, 7], 422, "job 1001 must be a JSON object"),
        (lines + "{", 400, "line 1002: invalid JSON"),
        ([], 422, "the batch has 0 jobs"),
        (" ", 422, "the batch has 0 jobs"),
        ("{}", 422, "function"),
        ([{"fn": "echo"}] * 10001, 413, "the batch has 10001 jobs"),
    ]:
        problem(api.call("POST", "/v1/jobs/batch", body), status, detail)
    assert db.hot() == 2000


def test_a_client_waits_for_the_end_of_a_job(f, api, db):
    job = api.defer()
    assert api.call("GET", f"/v1/jobs/{job}?wait=0.2s").json["state"] == "ready"
    waiting = [Api(f, api.token) for _ in range(20)]
    for client in waiting:
        client.send("GET", f"/v1/jobs/{job}?wait=60s")
    assert api.call("GET", f"/v1/jobs/{job}").json["state"] == "ready"
    run(db)
    assert {client.answer().json["state"] for client in waiting} == {"done"}
    for client in waiting:
        client.close()
    assert api.call("GET", f"/v1/jobs/{job}?wait=60s").json["state"] == "done"
    problem(api.call("GET", f"/v1/jobs/{job}?wait=61s"), 422, "is too long")
    problem(api.call("GET", f"/v1/jobs/{job}?wait=x"), 422, "is not a time span")


def test_a_front_that_ends_answers_clients_that_wait(f, api, db):
    job = api.defer()
    api.send("GET", f"/v1/jobs/{job}?wait=60s")
    looked = "select from pg_stat_activity where datname = current_database() and query like '%from deferred.__api_e%'"
    harness.wait_for(lambda: len(db.sql(looked)) == 2, what="a look for the end of the job, next to this one")
    f.program.signal(signal.SIGTERM)
    assert api.answer().json["state"] == "ready"
    assert f.program.wait(30) == 0


def test_a_job_is_changed_cancelled_and_retried(api, boss, db):
    job = api.defer(priority=1)
    got = api.call("PATCH", f"/v1/jobs/{job}", {"priority": 7, "queue": "mail", "label": "x"})
    assert (got.status, got.json["priority"], got.json["queue"], got.json["label"]) == (200, 7, "mail", "x")
    problem(api.call("PATCH", f"/v1/jobs/{job}", {"fn": "append"}), 422, "change 'fn' is unknown")
    problem(api.call("PATCH", f"/v1/jobs/{job}", []), 422, "changes must be a JSON object")
    problem(api.call("POST", f"/v1/jobs/{job}/retry"), 403, "lacks the right 'control'")
    assert api.call("DELETE", f"/v1/jobs/{job}").json["state"] == "cancelled"
    problem(api.call("DELETE", f"/v1/jobs/{job}"), 409, f"job {job} cannot be cancelled: it is cancelled")
    problem(api.call("PATCH", f"/v1/jobs/{job}", {"priority": 1}), 409, f"job {job} has ended")
    assert boss.call("POST", f"/v1/jobs/{job}/retry").json["state"] == "ready"
    assert boss.call("PATCH", f"/v1/jobs/{job}", {"priority": 2}).json["priority"] == 2
    run(db)
    problem(boss.call("POST", f"/v1/jobs/{job}/retry"), 409, f"job {job} is done")


def test_a_token_that_only_reads_changes_nothing(f, api, db):
    reader = Api(f, add_token(db, "reader", "--may", "read"))
    job = api.defer()
    problem(reader.call("PATCH", f"/v1/jobs/{job}", {"priority": 1}), 403, "lacks the right")
    problem(reader.call("DELETE", f"/v1/jobs/{job}"), 403, "lacks the right")
    both = Api(f, add_token(db, "both", "--may", "read,defer"))
    problem(both.call("DELETE", f"/v1/jobs/{job}"), 403, f"token 'both' may not act on job {job}")
    assert both.call("DELETE", f"/v1/jobs/{both.defer()}").status == 200
    reader.close()
    both.close()


def test_a_changed_job_stays_in_the_queues_of_its_token(f, db):
    client = Api(f, add_token(db, "narrow", "--queues", "q", "--may", "defer,control"))
    job = client.defer(queue="q")
    problem(client.call("PATCH", f"/v1/jobs/{job}", {"queue": "r"}), 403, "may not use queue 'r'")
    problem(client.call("PATCH", f"/v1/jobs/{job}", '{"queue": "q", "queue": "r"}'), 403, "may not use queue 'r'")
    assert db.sql("select distinct queue from deferred.__deferred") == [("q",)]
    client.close()


def test_lists_have_pages_and_filters(api, other, boss, db):
    ids = api.call("POST", "/v1/jobs/batch", [{"fn": "echo", "label": str(n % 2)} for n in range(250)]).json["ids"]
    theirs = other.defer("noop", queue="q")
    seen, path = [], "/v1/jobs?"
    while path:
        page = api.call("GET", path).json
        seen.append([job["id"] for job in page["jobs"]])
        path = page["next"] and f"/v1/jobs?after={page['next']}"
    assert [len(page) for page in seen] == [100, 100, 50] and sum(seen, []) == sorted(ids, reverse=True)
    assert boss.call("GET", "/v1/jobs").json["jobs"][0]["id"] == theirs
    for query, found in [("fn=noop", 1), ("queue=q", 1), ("state=ready&queue=q", 1), ("state=done", 0), ("label=7", 0)]:
        assert len(boss.call("GET", f"/v1/jobs?{query}").json["jobs"]) == found, query
    assert len(boss.call("GET", "/v1/jobs?label=1&queue=default").json["jobs"]) == 100
    problem(boss.call("GET", "/v1/jobs?state=x"), 422, "state 'x' is unknown")
    problem(boss.call("GET", "/v1/jobs?after=x"), 422, "parameter 'after' is not the id of a job")


def test_queues_say_how_long_they_are(f, api, boss, db):
    db.run(["deferred", "queue", "set", "mail", "--create", "--max-length", "2"])
    jobs = [api.defer(queue="mail") for _ in range(2)]
    got = api.call("POST", "/v1/jobs", {"fn": "echo", "queue": "mail"})
    assert problem(got, 429, "queue 'mail' is full (max_length 2)") and got.header("retry-after") == "5"
    queue = boss.call("GET", "/v1/queues/mail").json
    assert (queue["ready"], queue["max_length"], queue["paused"]) == (len(jobs), 2, False)
    assert [q["queue"] for q in boss.call("GET", "/v1/queues").json["queues"]] == ["default", "mail"]
    problem(boss.call("GET", "/v1/queues/none"), 404, "queue 'none' does not exist")
    narrow = Api(f, add_token(db, "narrow", "--may", "read", "--queues", "other"))
    assert narrow.call("GET", "/v1/queues").json["queues"] == []
    problem(narrow.call("GET", "/v1/queues/mail"), 404)
    narrow.close()
    db.run(["deferred", "queue", "set", "mail", "--on-full", "drop"])
    got = api.call("POST", "/v1/jobs", {"fn": "echo", "queue": "mail"})
    assert (got.status, got.json, got.header("location")) == (200, {"id": None}, None)


def test_an_event_reaches_the_jobs_of_its_token(api, other, boss, db):
    jobs = [client.defer(wait_for=[{"event": "paid"}]) for client in (api, other)]
    assert other.call("POST", "/v1/events/paid", {"payload": {"x": 1}}).json == {"name": "paid"}
    problem(other.call("POST", "/v1/events/paid", {"role": "token:ci"}), 403, "lacks the right 'control'")
    run(db)
    assert [
        api.call("GET", f"/v1/jobs/{jobs[0]}").json["state"],
        other.call("GET", f"/v1/jobs/{jobs[1]}").json["state"],
    ] == [
        "waiting",
        "done",
    ]
    assert boss.call("POST", "/v1/events/paid", {"role": "token:ci", "keep": "1h"}).status == 202
    run(db)
    assert api.call("GET", f"/v1/jobs/{jobs[0]}").json["state"] == "done"
    problem(api.call("POST", "/v1/events/" + "x" * 201), 422, "is invalid")


def test_keys_of_jobs_are_those_of_a_token(api, other):
    first = api.defer(key="k")
    assert api.defer(key="k") == first and other.defer(key="k") != first
    got = api.call("POST", "/v1/jobs", {"fn": "echo", "key": "k", "on_duplicate": "error"})
    problem(got, 409)


BODIES = [
    '{"fn": "g", "params": {"a":  1}}',
    '{"fn": "f", "params": "x\\ty"}',
    '{"fn": "f", "params": null}',
    '{"fn": "f", "fn": "g", "params": 1, "params": [2]}',
    '{"fn": "\\u0066", "params": {"n": 1e999999}}',
    '{"fn": "f", "params": "\\u0000"}',
    '{"fn": "f", "params": "\\ud800"}',
    '{"fn": "f", "priority": 3}',
    '{"fn": "f", "queue": "q"}',
    '{"fn": "f", "x": 1}',
    '{"fn": "1f"}',
    '{"fn": null}',
    '{"fn": {"f": 1}}',
    '["fn"]',
    '"fn"',
    "{}",
    "",
    "{",
    '{"fn": "send_mail", "params": {"to": "a@example.org", "subject": "s", "text": "t"}}',
    json.dumps({"fn": "f" * 128}),
    json.dumps({"fn": "f", "params": "x" * 2000}),
]


@pytest.mark.parametrize("change", ["", "function", "queue", "scope", "right"])
def test_a_job_is_stored_alike_alone_next_to_others_and_with_a_key(db, change):
    """Three ways, of which the first two begin with deferred.__api_simple()."""
    options = {"scope": ["--functions", "f"], "right": ["--may", "read"]}.get(change, [])
    ci, other = (hashlib.sha256(add_token(db, n, *options).encode()).hexdigest() for n in ("ci", "other"))
    if change == "function":
        db.run(["deferred", "function", "set", "g", "--max-running", "1"], check=True)
    elif change == "queue":
        db.run(["deferred", "queue", "set", "default", "--max-running", "1"], check=True)

    def store(tokens, bodies, keys):
        """The last answer, and the rows of its job."""
        ask = "select status, answer, location, who from deferred.__api_many(%s, %s, %s::text[]) order by item"
        status, answer, location, who = db.sql(ask, tokens, bodies, keys)[-1]
        if status != 201:
            return status, answer, location, who
        job = json.loads(answer)["id"]
        assert location == f"/v1/jobs/{job}"
        hot = "select to_jsonb(h) - array['id', 'visible_at', 'xid'] from deferred.__deferred_hot h where id = %s"
        row = "select fn, queue, label, priority, created_by, params::text from deferred.__deferred where id = %s"
        return who, db.sql(hot, job), db.sql(row, job)

    for n, body in enumerate(BODIES):
        alone = store([ci], [body], [None])
        assert alone == store([ci], [body], [f"k{n}"]), body
        assert alone == store([ci, ci], ['{"fn": "f"}', body], [None, None]), body
        assert alone == store([other, ci], ['{"fn": "f"}', body], [None, None]), body
    assert db.one("select count(*) from deferred.__deferred where queue = 'default'") == 0 or change != "right"
