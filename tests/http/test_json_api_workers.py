"""The workers of the how-to page, in curl and in Python, execute real jobs over the JSON API."""

import json
import os
import sys

import pytest

import harness
from api_client import Api, add_token
from documents import fenced, read

TOKEN, DEFER, WAIT, SHELL, PYTHON = fenced(read("docs", "how-to", "http-api.md"))

# Fails at its first call for a number, and always for that of an order that is not one.
MAKE_INVOICE = """#!/bin/sh
case $1 in R-null | R-None) echo "no such order" >&2; exit 1 ;; esac
if [ ! -e "$SEEN/$1" ]; then touch "$SEEN/$1"; echo "printer is busy" >&2; exit 1; fi
echo "invoice $1"
"""


@pytest.fixture(params=["sh", "python"])
def worker(request, f, db):
    """Runs a worker to its end."""
    bin_folder, seen = os.path.join(db.dir, "bin"), os.path.join(db.dir, "seen")
    os.mkdir(bin_folder)
    os.mkdir(seen)
    with open(os.path.join(bin_folder, "make-invoice"), "w") as file:
        file.write(MAKE_INVOICE)
    os.chmod(file.name, 0o755)
    env = {
        "URL": f"http://127.0.0.1:{f.port}",
        "TOKEN": add_token(db, "shop", *TOKEN.split()[4:]),
        "SEEN": seen,
        "PATH": bin_folder + ":/usr/bin:/bin",
    }
    command = ["sh", "-c", SHELL] if request.param == "sh" else [sys.executable, "-c", PYTHON]

    def run(command=command):
        done = db.run(command, env=env, timeout=120)
        assert done.returncode in (0, 1) and done.stderr == "", done
        return done.stdout

    run.env = env
    return run


def ended(worker, api, ids):
    """The jobs, once the worker has ended them all."""

    def look():
        worker()
        jobs = [api.call("GET", f"/v1/jobs/{i}").json for i in ids]
        return all(job["finished_at"] for job in jobs) and jobs

    return harness.wait_for(look, 60, "the end of the jobs")


def test_a_worker_executes_jobs_with_retries_steps_keys_and_flows(worker, f, db):
    api = Api(f, worker.env["TOKEN"])
    first = worker(["sh", "-c", DEFER])
    assert first == worker(["sh", "-c", DEFER]) == '{"id": 1}'
    how = {"fn": "invoice", "backoff_floor": "50ms", "backoff_ceiling": "100ms"}
    dead = api.defer(**how, params={"order": None}, max_attempts=2)
    held = api.defer(**how, params={"order": 18}, key="order-18")
    assert api.defer(**how, params={"order": 18}, key="order-18") == held
    child = api.defer(**how, params={"order": 19}, after=[{"job": 1, "as": "first"}])
    jobs = ended(worker, api, [1, dead, held, child])
    assert [(job["state"], job["attempt"], job["result"]) for job in jobs] == [
        ("done", 2, "invoice R-17"),
        ("dead", 2, None),
        ("done", 2, "invoice R-18"),
        ("done", 2, "invoice R-19"),
    ]
    assert api.defer(**how, params={"order": 18}, key="order-18") > child, "the key is free"
    log = "select outcome, error from deferred.__deferred_log where job_id = %s order by attempt"
    assert [outcome for outcome, _ in db.sql(log, 1)] == ["failed", "ok"]
    assert "printer is busy" in db.sql(log, 1)[0][1] and "no such order" in db.sql(log, dead)[1][1]
    # The child began after the end of its parent.
    began = "select min(started_at) from deferred.__deferred_log where job_id = %s"
    over = "select max(finished_at) from deferred.__deferred_log where job_id = %s"
    assert db.one(began, child) >= db.one(over, 1)
    assert json.loads(worker(["sh", "-c", WAIT]))["state"] == "done"
    api.close()


def test_a_limit_of_a_queue_holds_for_workers(worker, f, db):
    db.run(["deferred", "queue", "set", "invoices", "--create", "--max-running", "1"])
    api = Api(f, worker.env["TOKEN"])
    for _ in range(3):
        api.defer("invoice", queue="invoices")

    def claim():
        return api.call("POST", "/v1/claim", {"functions": ["invoice"], "max": 10}).json["jobs"]

    job = harness.wait_for(claim, what="a job")
    assert len(job) == 1 and claim() == []
    path, proof = f"/v1/jobs/{job[0]['id']}", {"receipt": job[0]["receipt"]}
    assert api.call("POST", path + "/snooze", {**proof, "delay": "1h"}).status == 200
    got = api.call("POST", path + "/finish", proof)
    assert got.status == 409 and "is not held by this receipt" in got.json["detail"]
    assert len(harness.wait_for(claim, what="the next job")) == 1
    api.close()


def test_a_worker_is_given_jobs_of_its_functions_and_queues_alone(f, db):
    boss = Api(f, add_token(db, "boss"))
    jobs = [boss.defer(fn, queue=queue) for fn in ("echo", "noop") for queue in ("a", "b")]
    worker = Api(f, add_token(db, "worker", "--may", "work", "--functions", "echo", "--queues", "a"))
    refused = [
        ({"functions": ["noop"], "queues": ["a"]}, 403, "may not use function 'noop'"),
        ({"functions": ["echo"], "queues": ["b"]}, 403, "may not use queue 'b'"),
        ({"functions": ["echo", "noop"], "queues": ["a"]}, 403, "function 'noop'"),
        ({"functions": ["echo"], "queues": ["a", "b"]}, 403, "queue 'b'"),
        ({"functions": ["echo"]}, 422, "the body names none"),
        ({"functions": "echo", "queues": ["a"]}, 422, "must be a JSON array"),
        ({"queues": ["a"]}, 422, "0 functions were given"),
        ({"functions": ["echo"], "queues": []}, 422, "0 queues were given"),
        ({"functions": ["echo"], "queues": ["a"], "max": 1001}, 422, "'max' is out of range"),
        ({"functions": ["echo"], "queues": ["a"], "lease": "8d"}, 422, "is out of range"),
    ]
    for body, status, detail in refused:
        got = worker.call("POST", "/v1/claim", body)
        assert got.status == status and detail in got.json["detail"], (body, got)
    claim = {"functions": ["echo"], "queues": ["a"], "max": 10}
    held = harness.wait_for(lambda: worker.call("POST", "/v1/claim", claim).json["jobs"], what="a job")
    assert [job["id"] for job in held] == [jobs[0]]
    # The receipt is good for its own job alone, and jobs of others do not exist for this worker.
    proof = {"receipt": held[0]["receipt"]}
    for job in jobs[1:]:
        assert worker.call("POST", f"/v1/jobs/{job}/finish", proof).status == 404
    for receipt in ("1", "x", None, 10**30, str(int(proof["receipt"]) ^ 1)):
        assert worker.call("POST", f"/v1/jobs/{jobs[0]}/finish", {"receipt": receipt}).status in (409, 422)
    assert boss.call("POST", f"/v1/jobs/{jobs[0]}/finish", proof).status == 403, "without the right work"
    assert worker.call("POST", f"/v1/jobs/{jobs[0]}/finish", {**proof, "result": [1]}).status == 200
    assert boss.call("GET", f"/v1/jobs/{jobs[0]}").json["result"] == "[1]" and db.hot() == 3
    worker.close()
    boss.close()
