"""What deferred_http tells Prometheus of the requests it served, at an address that has nothing else."""

import contextlib
import http.client
import os
import re
import shutil
import socket
import subprocess

import pytest

import front
from harness import wait_for


class Metrics:
    """A front that has such an address, and who asks there."""

    def __init__(self, db):
        self.front = front.Front(db, config='listen_metrics = "127.0.0.1:0"\n body_timeout = "1s"')
        at = re.search(r"listening on \S+:(\d+), HTTP, for metrics$", self.front.program.output(), re.M)
        self.connection = http.client.HTTPConnection("127.0.0.1", int(at[1]), timeout=30)

    def ask(self, path="/metrics", method="GET", **headers):
        self.connection.request(method, path, headers=headers)
        answer = self.connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()

    def told(self):
        """{name and labels: value}"""
        return {
            key: float(value)
            for key, value in (line.rsplit(" ", 1) for line in self.ask()[2].splitlines() if not line.startswith("#"))
        }

    def requests(self):
        """Those that there were, by operation and status."""
        found = {
            re.fullmatch(r'deferred_http_requests_total\{operation="(\w+)",status="(\w+)"\}', key): n
            for key, n in self.told().items()
        }
        return {match.groups(): n for match, n in found.items() if match and n > 0}


@pytest.fixture
def m(db):
    started = Metrics(db)
    yield started
    started.connection.close()
    assert started.front.stop() == 0, started.front.program.output()


def test_each_request_is_counted_once_by_operation_and_status(m):
    before = wait_for(
        lambda: (found := m.requests()).get(("other", "2xx")) and found,
        what="that it is ready, as the harness asked, is counted",
    )
    assert set(before) <= {("other", "2xx"), ("other", "5xx")}
    client = m.front.client()
    client.create("mail")
    for _ in range(3):
        client.put("mail")
    message = client.get("mail")[0]
    client.peek("mail")
    assert client.delete("mail", message).status == 204 and client.delete("mail", message).status == 404
    assert client.call("GET", "/none?comp=metadata").status == 404
    assert client.call("POST", "/mail/messages", "<x>", key="AAAA").status == 403
    assert client.call("GET", "/mail?comp=nothing").status == 400
    assert m.front.plain("GET", "/healthz").status == 200
    expected = {
        ("CreateQueue", "2xx"): 1,
        ("PutMessage", "2xx"): 3,
        ("PutMessage", "4xx"): 1,
        ("GetMessages", "2xx"): 1,
        ("PeekMessages", "2xx"): 1,
        ("DeleteMessage", "2xx"): 1,
        ("DeleteMessage", "4xx"): 1,
        ("GetQueueMetadata", "4xx"): 1,
        ("other", "4xx"): 1,
        ("other", "2xx"): before.get(("other", "2xx"), 0) + 1,
        **({("other", "5xx"): before[("other", "5xx")]} if ("other", "5xx") in before else {}),
    }
    wait_for(lambda: m.requests() == expected, what="the last one is counted when its answer is sent")
    told = m.told()
    for operation, of in (("PutMessage", 4), ("GetMessages", 1), ("ListQueues", 0)):
        buckets = [
            n
            for key, n in told.items()
            if key.startswith(f'deferred_http_request_seconds_bucket{{operation="{operation}"')
        ]
        assert (
            len(buckets) == 17
            and buckets == sorted(buckets)
            and buckets[-1] == told[f'deferred_http_request_seconds_count{{operation="{operation}"}}'] == of
        )
    # What the access log has of each is what the sum is made of.
    took = sum(line["us"] for line in m.front.log() if line.get("op") == "PutMessage") / 1e6
    assert told['deferred_http_request_seconds_sum{operation="PutMessage"}'] == pytest.approx(took, abs=0.01)
    client.close()


def test_one_that_is_cut_off_is_counted_too(m):
    with contextlib.closing(m.front.connect()) as c:
        c.send(m.front.client().bytes("POST", "/mail/messages", b"x" * 100, expect=True))
        assert c.answer().status == 100
        c.send(b"xxx")
    wait_for(lambda: m.requests().get(("PutMessage", "none")) == 1, what="the end of it")


def test_the_address_has_nothing_else_and_clients_have_no_metrics(m):
    for path in ("/", "/devstoreaccount1?comp=list", "/devstoreaccount1/mail/messages", "/metrics/", "/metrics.json"):
        assert m.ask(path)[0] == 404, path
    assert (
        m.ask(method="POST")[0] == 405
        and m.ask(method="HEAD")[0] == m.ask("/metrics?x=1")[0] == m.ask("/healthz")[0] == m.ask("/readyz")[0] == 200
    )
    client = m.front.client()
    assert client.call("PUT", "/mail").status == 201 and m.front.plain("GET", "/metrics").status in (400, 403)
    client.close()
    wait_for(lambda: m.requests().get(("other", "4xx")) == 1, what="the last one is counted")
    requests = m.requests()
    m.ask()
    assert m.requests() == requests  # it does not count who reads it


def test_both_forms_are_what_their_readers_take(m):
    status, kind, text = m.ask()
    assert status == 200 and kind.startswith("text/plain; version=0.0.4")
    status, kind, opened = m.ask(Accept="application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
    assert (
        status == 200
        and kind.startswith("application/openmetrics-text; version=1.0.0")
        and opened.endswith("\n# EOF\n")
    )
    for said in (text, opened):
        names = re.findall(r"(?m)^# TYPE (\S+)", said)
        assert len(names) == len(set(names)) == 3
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        assert done.stdout + done.stderr == ""


def test_it_is_for_this_machine(db):
    path = os.path.join(db.dir, "metrics.sock")
    f = front.Front(db, "--listen-metrics", path)
    with contextlib.closing(http.client.HTTPConnection("localhost")) as local:
        local.sock = socket.socket(socket.AF_UNIX)
        local.sock.connect(path)
        local.request("GET", "/metrics")
        assert b"deferred_http_build_info{" in local.getresponse().read()
    assert f.stop() == 0
    done = db.run(["deferred_http", "--listen", "127.0.0.1:0", "--listen-metrics", "0.0.0.0:0"])
    assert done.returncode == 78 and "metrics are for whoever asks there" in done.stderr, done
