"""deferred spans sends what OpenTelemetry's own protobuf messages can read, byte for byte."""

import json
import os
import re

import node
import pg
from harness import wait_for
from test_spans import HOSTILE, TRACE, ended

SOURCE = os.path.join(pg.TOP, "tests", "bin", "otlp")


def test_a_collector_reads_every_field_of_every_span(db):
    folder = node.install("otlp", SOURCE)
    node.scripts(folder, SOURCE)
    collector = db.spawn([node.NODE, os.path.join(folder, "collector.mjs")])
    wait_for(lambda: re.search(r"^\d+\n", collector.output()), 30, "it listens")
    port = collector.output().split("\n")[0]
    jobs = [db.defer("noop", traceparent=TRACE, queue=f"q{i % 3}") for i in range(150)]
    for i, job in enumerate(jobs):
        ended(
            db, job, outcome="ok" if i % 2 else "failed", error=None if i % 2 else f"no {i} {HOSTILE}", final=i % 3 == 0
        )
    run = db.run(["deferred", "spans", "--endpoint", f"http://127.0.0.1:{port}"])
    assert (run.returncode, run.stderr) == (0, "")
    requests = [json.loads(line) for line in collector.output().splitlines()[1:]]
    spans = [s for r in requests for s in r["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    assert len(requests) == 3 and len(spans) == len(jobs) == len({s["spanId"] for s in spans})
    errors = {s["status"]["message"] for s in spans if "status" in s}
    assert len(errors) == 75 and any(HOSTILE.replace("\x01", "") in e or HOSTILE in e for e in errors)
