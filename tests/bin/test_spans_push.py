"""deferred spans --endpoint: a collector gets every span, however it behaves, and no span twice without need."""

import collections
import http.server
import json
import os
import signal
import socket
import struct
import threading

import pytest

from harness import wait_for
from test_spans import TRACE, ended, spans

OK, USAGE, LOST, CONFIG = 0, 64, 69, 78
BATCH = 64

Answer = collections.namedtuple("Answer", "status body headers", defaults=("", {}))
RESET, SILENT, TAKE_AND_RESET = "reset", "silent", "take and reset"


class Collector:
    """Answers each request as script says, in order, and then well. `taken` has the spans that it has accepted."""

    def __init__(self, script=(), judge=None):
        self.script, self.judge = list(script), judge
        self.requests, self.taken, self.lock, self.ends = [], [], threading.Lock(), threading.Event()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with collector.lock:
                    collector.requests.append((self.path, dict(self.headers), body))
                    answer = collector.script.pop(0) if collector.script else None
                    if answer is None:
                        answer = collector.judge(body) if collector.judge else Answer(200, "{}")
                    if answer == TAKE_AND_RESET or (isinstance(answer, Answer) and answer.status == 200):
                        collector.taken += [v for _, v in spans(body.decode())]
                if answer in (RESET, TAKE_AND_RESET):
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.connection.close()
                    self.close_connection = True
                elif answer == SILENT:
                    collector.ends.wait(60)
                    self.close_connection = True
                else:
                    text = answer.body.encode()
                    self.send_response(answer.status)
                    for name, value in answer.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.server.shutdown()
        self.server.server_close()

    def jobs(self):
        return sorted(int(v["messaging.message.id"]) for v in self.taken)


@pytest.fixture
def jobs(db):
    """Ended attempts of jobs with a trace: more than two batches."""
    ids = [db.defer("noop", traceparent=TRACE) for _ in range(2 * BATCH + 10)]
    for job in ids:
        ended(db, job)
    db.sql("delete from deferred.__deferred_hot")
    return ids


def push(db, collector, *args, settings="", **kw):
    if settings:
        db.config(settings)
    return db.run(["deferred", "spans", "--endpoint", collector.url, *args], **kw)


def test_a_collector_gets_each_span_once_in_bounded_batches(db, jobs):
    with Collector() as c:
        run = push(db, c)
    assert (run.returncode, run.stdout, run.stderr) == (OK, "", "")
    assert c.jobs() == jobs
    for path, headers, body in c.requests:
        assert path == "/v1/traces" and headers["Content-Type"] == "application/json"
        assert headers["User-Agent"].startswith("deferred/") and "Expect" not in headers
        assert 0 < len(spans(body.decode())) <= BATCH


@pytest.mark.parametrize("end", ["", "/", "/v1/traces", "/v1/traces/"])
def test_the_setting_names_the_collector_and_an_empty_option_prints(db, jobs, end):
    with Collector() as c:
        db.config(f'otlp {{ endpoint = "{c.url}{end}" }}\n')
        assert db.run(["deferred", "spans"]).returncode == OK
        assert {path for path, *_ in c.requests} == {"/v1/traces"} and c.jobs() == jobs
        sent = len(c.requests)
        assert len(spans(db.run(["deferred", "spans", "--endpoint", ""]).stdout)) == len(jobs)
        assert len(c.requests) == sent


def test_headers_come_from_the_settings_and_are_secret(db, jobs):
    secret = 'otlp { headers = "authorization=Bearer%20abc==, x-tenant=shop" }\n'
    with Collector() as c:
        assert push(db, c, settings=secret).returncode == OK
        for _, headers, _ in c.requests:
            assert headers["authorization"] == "Bearer abc==" and headers["x-tenant"] == "shop"
        os.chmod(db.config_file, 0o644)
        run = push(db, c)
        assert run.returncode == CONFIG and "has a password in it" in run.stderr
        for wrong, why in (
            ("a", "has no '='"),
            ("a b=c", "no valid name"),
            ("=c", "no valid name"),
            ("a=b%0d%0aX: y", "a line end"),
        ):
            run = push(db, c, settings=f'otlp {{ headers = "{wrong}" }}\n')
            assert run.returncode == CONFIG and why in run.stderr, run.stderr


def test_functions_do_not_learn_the_headers(db):
    db.config('otlp { headers = "api-key=topsecret" }\nfunction "show" { command = {"/bin/sh", "-c", "env; cat"} }\n')
    job = db.defer("show")
    run = db.run(["check_deferred"], env={"DEFERRED_OTLP_HEADERS": "api-key=topsecret"})
    assert run.returncode == OK and db.log(job) == [(1, "ok")]
    assert "topsecret" not in db.one("select result from deferred.__deferred_log where job_id = %s", job)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_collector_is_asked_again_when_it_says_so(db, jobs, status):
    busy = Answer(status, "busy", {"Retry-After": "1"})
    with Collector([busy, busy]) as c:
        run = push(db, c)
    assert run.returncode == OK and c.jobs() == jobs
    assert [body for *_, body in c.requests[:3]] == [c.requests[0][2]] * 3
    assert f"busy (HTTP {status})" in run.stderr


def test_a_long_retry_after_is_cut_short_and_a_signal_ends_the_wait(db, jobs):
    with Collector([Answer(503, "", {"Retry-After": "999999999"})] * 9) as c:
        run = db.spawn(["deferred", "spans", "--follow", "--endpoint", c.url])
        wait_for(lambda: "trying again in 60.0 s" in run.output(), 20, "it waits")
        run.signal(signal.SIGTERM)
        assert run.wait(20) == OK
    assert "sent the attempts that ended before" in run.output() and c.taken == []


def test_what_a_lost_connection_may_have_delivered_is_sent_again(db, jobs):
    with Collector([RESET, None, TAKE_AND_RESET]) as c:
        run = push(db, c)
    assert run.returncode == OK and set(c.jobs()) == set(jobs)
    twice = [job for job, n in collections.Counter(c.jobs()).items() if n > 1]
    assert len(twice) == BATCH  # one batch, whose answer was lost
    ids = collections.defaultdict(set)
    for *_, body in c.requests:
        for span, values in spans(body.decode()):
            ids[values["messaging.message.id"]].add(span["spanId"])
    assert all(len(of) == 1 for of in ids.values())


def test_a_silent_collector_is_given_up_after_the_timeout_and_asked_again(db, jobs):
    with Collector([SILENT]) as c:
        run = push(db, c, settings="otlp { timeout = 1s }\n")
        assert run.returncode == OK and c.jobs() == jobs
    assert "no answer" in run.stderr


def test_a_collector_that_is_not_there_is_waited_for(db, jobs):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    run = db.spawn(["deferred", "spans", "--endpoint", f"http://127.0.0.1:{port}"])
    wait_for(lambda: "no answer" in run.output(), 20, "it has tried")
    collector = Collector()
    collector.server.server_close()
    collector.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), collector.server.RequestHandlerClass)
    with collector as c:
        assert run.wait(60) == OK and c.jobs() == jobs


def test_rejected_spans_are_reported_and_not_sent_again(db, jobs):
    partial = {"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old\x1b[31m"}}
    number = {"partialSuccess": {"rejectedSpans": 2}}
    with Collector([Answer(200, json.dumps(partial)), Answer(200, json.dumps(number)), Answer(200, "{]")]) as c:
        run = push(db, c)
    assert run.returncode == OK and len(c.requests) == 3
    assert "3 spans rejected: too old" in run.stderr and "\x1b" not in run.stderr
    assert "2 spans rejected: no reason given" in run.stderr


@pytest.mark.parametrize("status", [400, 413])
def test_a_span_that_is_refused_does_not_keep_others_from_the_collector(db, jobs, status):
    def judge(body):
        bad = any(v["messaging.message.id"] == str(jobs[70]) for _, v in spans(body.decode()))
        return Answer(status, "bad span") if bad else Answer(200, "{}")

    with Collector(judge=judge) as c:
        run = push(db, c)
    assert run.returncode == OK and c.jobs() == sorted(set(jobs) - {jobs[70]})
    assert f"span of job {jobs[70]} attempt 1 refused (HTTP {status}): bad span" in run.stderr
    assert run.stderr.count("refused") == 1


@pytest.mark.parametrize("status", [301, 401, 403, 404, 500])
def test_what_an_administrator_has_to_correct_ends_the_command(db, jobs, status):
    with Collector([None, Answer(status, "no", {"Location": "http://127.0.0.1:1/"})]) as c:
        run = push(db, c)
    assert run.returncode == CONFIG and len(c.requests) == 2
    assert f"spans refused (HTTP {status}): no" in run.stderr and "hint: check otlp." in run.stderr
    assert "sent the attempts that ended before" in run.stderr


def test_an_endless_answer_is_not_kept(db, jobs):
    with Collector([Answer(200, "x" * (3 << 20))]) as c:
        run = push(db, c)
    assert run.returncode == OK and c.jobs() == jobs


def test_late_attempts_are_sent_and_none_is_sent_twice_while_it_follows(db, jobs):
    with Collector() as c:
        run = db.spawn(["deferred", "spans", "--follow", "--endpoint", c.url])
        wait_for(lambda: c.jobs() == jobs, 30, "it has sent all")
        late = db.defer("noop", traceparent=TRACE)
        ended(db, late, at="now() - interval '30 seconds'")
        wait_for(lambda: late in c.jobs(), 90, "it has sent the late one")
        run.signal(signal.SIGTERM)
        assert run.wait(20) == OK and c.jobs() == [*jobs, late]


@pytest.mark.parametrize("url", ["127.0.0.1:4318", "ftp://h", "http://", "http:///x", "x"])
def test_an_endpoint_that_is_no_url_is_refused(db, url):
    run = db.run(["deferred", "spans", "--endpoint", url])
    assert run.returncode == USAGE and "is not a URL with http or https" in run.stderr


def test_credentials_in_the_url_are_refused(db):
    run = db.run(["deferred", "spans", "--endpoint", "http://ann:secret@127.0.0.1:4318"])
    assert run.returncode == USAGE and "secret" not in run.stderr and "otlp.headers" in run.stderr
