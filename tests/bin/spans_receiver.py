"""`deferred spans` with a server of another project that receives OTLP/HTTP, stores traces and shows them.

`make check-metrics` runs this. The server is 370 packages of npm, so it is not part of `make check`.
"""

import json
import os
import socket
import urllib.error
import urllib.request

import node
import pg
from harness import wait_for
from test_spans import HOSTILE, TRACE

SOURCE = os.path.join(pg.TOP, "tests", "bin", "receiver")
TRACE_ID, CALLER = TRACE.split("-")[1:3]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return None


def test_a_receiver_stores_and_shows_the_attempts_of_a_trace(db, tmp_path):
    folder = node.install("receiver", SOURCE)
    node.scripts(folder, SOURCE)
    url = f"http://127.0.0.1:{free_port()}"
    db.spawn([node.NODE, os.path.join(folder, "receiver.mjs"), url.rpartition(":")[2], str(tmp_path)])
    wait_for(lambda: get(f"{url}/api/__health") == "OK", 60, "the receiver answers")
    good = [db.defer("noop", traceparent=TRACE, queue=f"q{i}") for i in range(100)]
    bad = [
        db.defer("fail", json.dumps({"error": f"no {i} {HOSTILE}"}), traceparent=TRACE, max_attempts=1)
        for i in range(3)
    ]
    db.config(f'otlp {{ endpoint = "{url}/api/otlp" }}\n')
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    for _ in range(2):  # nothing is left for the second one
        run = db.run(["deferred", "spans"])
        assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    shown = list(json.loads(get(f"{url}/api/traces/{TRACE_ID}"))["spans"].values())
    log = db.sql(
        """select job_id, outcome, error, extract(epoch from started_at), extract(epoch from finished_at)
             from deferred.__deferred_log order by job_id"""
    )
    assert [row[0] for row in log] == sorted(good + bad)
    shown.sort(key=lambda span: int(span["attributes"]["messaging.message.id"]))
    assert len(shown) == len(log) == len({span["spanId"] for span in shown})
    for span, (job, outcome, error, started, finished) in zip(shown, log):
        assert span["traceId"] == TRACE_ID and span["parentSpanId"] == CALLER and span["spanKind"] == "CONSUMER"
        assert int(span["attributes"]["messaging.message.id"]) == job
        assert span["instrumentationLibrary"]["name"] == "deferred"
        assert (
            abs(span["startTime"] - float(started) * 1000) <= 1 and abs(span["endTime"] - float(finished) * 1000) <= 1
        )
        if outcome == "ok":
            assert "status" not in span
        else:
            assert span["status"] == {"code": 2, "message": error}
