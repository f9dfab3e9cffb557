"""check_deferred --loop --health: probes are answered, whatever the worker, the server or the clients do."""

import contextlib
import http.client
import os
import pathlib
import re
import resource
import signal
import socket

import pytest

import harness
from harness import wait_for
from proxy import Proxy
from test_service import QUICK, done, service, stop

LEASE = "4s"


def address(started):
    """Where it answers; port 0 has become a real one."""
    said = "answers probes at (.+)"
    wait_for(lambda: re.search(said, started.output()), 20, "it listens")
    return re.search(said, started.output())[1]


def connect(at):
    if at.startswith("/"):
        client = socket.socket(socket.AF_UNIX)
        client.connect(at)
    else:
        host, _, port = at.rpartition(":")
        client = socket.create_connection((host.strip("[]"), int(port)))
    client.settimeout(20)
    return client


def ask(at, path, method="GET", headers={}):
    """Status and body, and the answer."""
    connection = http.client.HTTPConnection("probe")
    connection.sock = connect(at)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, answer


def status(at, path):
    return ask(at, path)[:2]


def becomes(at, path, code, text, timeout=30):
    wait_for(lambda: status(at, path)[0] == code and re.search(text, status(at, path)[1]), timeout, f"{path}: {text}")


@pytest.fixture
def probed(db):
    """A service and its address."""
    started = service(db, "--health", "127.0.0.1:0", "--lease", LEASE)
    return started, address(started)


@pytest.mark.parametrize("kind", ["127.0.0.1:0", "[::1]:0", "0", "path", "unix:path"])
def test_a_service_answers_at_each_kind_of_address(db, kind):
    path = os.path.join(db.dir, "probe")
    started = service(db, "--health", kind.replace("path", path))
    at = address(started)
    assert at == path if "path" in kind else at.startswith("[::1]:" if "::1" in kind else "127.0.0.1:")
    assert status(at, "/live") == (200, "live\n")
    becomes(at, "/ready", 200, "^ready\n$")
    if "path" in kind:
        assert os.stat(path).st_mode & 0o777 == 0o660
    stop(started)


def test_the_setting_says_where_and_a_run_without_loop_does_not_listen(db):
    db.config(QUICK + 'health { listen = "127.0.0.1:0" }\n')
    started = service(db, settings=None)
    becomes(address(started), "/ready", 200, "ready")
    stop(started)
    run = db.run(["check_deferred"])
    assert (run.returncode, run.stderr) == (0, "")


def test_other_requests_are_refused(probed):
    started, at = probed
    head, text, answer = ask(at, "/live", "HEAD")
    assert (head, text) == (200, "") and answer.getheader("Content-Length") == "5"
    assert answer.getheader("Content-Type") == "text/plain; charset=utf-8"
    assert answer.getheader("Cache-Control") == "no-store"
    for path in "/", "/live/", "/metrics", "/healthz":
        assert ask(at, path)[0] == 404
    for method in "POST", "PUT", "DELETE", "OPTIONS", "LIVE":
        code, text, answer = ask(at, "/ready", method)
        assert (code, answer.getheader("Allow")) == (405, "GET, HEAD")
        assert text == "only GET and HEAD are allowed\n"
    stop(started)


def test_a_start_that_cannot_listen_says_why(db):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        run = db.run(["check_deferred", "--loop", "--health", taken])
    assert run.returncode == 71
    assert f"cannot listen on '{taken}': Address already in use" in run.stderr and "set health.listen" in run.stderr
    run = db.run(["check_deferred", "--loop", "--health", "nowhere:x"])
    assert run.returncode == 78 and "cannot listen on 'nowhere:x'" in run.stderr
    run = db.run(["check_deferred", "--health", "127.0.0.1:0"])
    assert run.returncode == 64 and "option '--health' has no effect without --loop" in run.stderr


def test_a_lost_server_makes_it_unready_until_the_server_is_back(own_server):
    db = own_server
    started = service(db, "--health", "127.0.0.1:0", "--lease", LEASE)
    at = address(started)
    becomes(at, "/ready", 200, "ready")
    db.stop()
    becomes(at, "/ready", 503, r"^no connection to the database for \d+ s\n$")
    assert status(at, "/live") == (200, "live\n")
    db.start()
    becomes(at, "/ready", 200, "ready")
    done(db, db.defer("noop"))
    stop(started)


def test_a_server_that_does_not_answer_makes_it_unready(db):
    """A quarter of the lease is enough. The worker itself takes the connection for lost only when the lease ends."""
    with Proxy(db.cluster) as proxy:
        db.env["DEFERRED_DB"] = proxy.conninfo(db.name)
        started = service(db, "--health", "127.0.0.1:0", "--lease", "20s")
        at = address(started)
        becomes(at, "/ready", 200, "ready")
        proxy.swallow = True
        becomes(at, "/ready", 503, r"^no (answer of|connection to) the database for \d+ s\n$", timeout=15)
        assert status(at, "/live") == (200, "live\n")
        proxy.swallow = False
        proxy.cut()
        becomes(at, "/ready", 200, "ready", timeout=60)
        stop(started)


def test_a_loop_that_is_stuck_is_neither_live_nor_ready(db, probed):
    """A config file without an end holds up the reload."""
    started, at = probed
    becomes(at, "/ready", 200, "ready")
    os.rename(db.config_file, db.config_file + ".good")
    os.mkfifo(db.config_file)
    started.signal(signal.SIGHUP)
    becomes(at, "/live", 503, r"^the main loop has not turned for \d+ s\n$")
    becomes(at, "/ready", 503, r"^the main loop has not turned for \d+ s\n$")
    with open(db.config_file, "w") as f:
        f.write(QUICK)
    becomes(at, "/live", 200, "live")
    os.rename(db.config_file + ".good", db.config_file)
    becomes(at, "/ready", 200, "ready")
    stop(started)


def threads_in_state(pid):
    return {stat.read_text().rpartition(") ")[2][0] for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")}


def test_a_stopped_process_does_not_answer_and_answers_when_it_goes_on(probed):
    started, at = probed
    started.signal(signal.SIGSTOP)
    wait_for(lambda: threads_in_state(started.pid) == {"T"}, 20, "all threads stop")
    with connect(at) as client:
        client.sendall(b"GET /live HTTP/1.1\r\nHost: probe\r\n\r\n")
        client.settimeout(1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        started.signal(signal.SIGCONT)
        client.settimeout(20)
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
    becomes(at, "/ready", 200, "ready")
    stop(started)


def test_a_service_that_stops_is_not_ready(db):
    db.plugins("unruly")
    started = service(db, "--health", "127.0.0.1:0", "--grace", "30s")
    at = address(started)
    job = db.defer("record", f'{{"file": "{db.dir}/record", "ms": 3000}}')
    wait_for(lambda: db.held(job), 20, "it runs")
    wait_for(lambda: os.path.exists(db.dir + "/record"), 20, "it has begun")
    started.signal(signal.SIGTERM)
    becomes(at, "/ready", 503, "^the worker is stopping\n$", timeout=3)
    assert started.wait() == 0
    done(db, job)


def test_a_start_waits_for_the_address_of_a_copy_that_ends(db):
    """The pidfile of a process is free a moment before its sockets."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        at = f"127.0.0.1:{other.getsockname()[1]}"
        started = db.spawn(["check_deferred", "--loop", "--health", at])
        wait_for(lambda: os.path.exists(db.pidfile) and os.path.getsize(db.pidfile) > 0, 20, "it has its pidfile")
    assert address(started) == at
    becomes(at, "/ready", 200, "ready")
    stop(started)


@pytest.mark.parametrize("kind", ["port", "path"])
def test_a_new_start_takes_over_the_address(db, kind):
    at = os.path.join(db.dir, "probe") if kind == "path" else "127.0.0.1:0"
    first = service(db, "--health", at)
    at = address(first)
    idle = connect(at)  # keeps a connection to the first
    for _ in range(3):
        second = service(db, "--health", at)
        assert first.wait() == 0, first.output()
        assert address(second) == at and status(at, "/live") == (200, "live\n")
        becomes(at, "/ready", 200, "ready")
        first = second
    idle.close()
    stop(first)


def rss_kb(started):
    with open(f"/proc/{started.pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])


def files(started):
    return len(os.listdir(f"/proc/{started.pid}/fd"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees the files of a worker")
def test_wrong_slow_and_many_clients_disturb_nothing(db, probed):
    started, at = probed
    becomes(at, "/ready", 200, "ready")
    for _ in range(50):
        ask(at, "/ready")
    before, open_before = rss_kb(started), files(started)
    wrong = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(400),
        b"GET /live HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /live HTTP/1.1\r\n" + b"X: " + b"y" * 200000 + b"\r\n\r\n",
        b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\n\r\n",
        b"POST /live HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999\r\n\r\n",
        b"POST /live HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\r\n" * 1000,
        b"\0" * 1000,
    ]
    for _ in range(10):
        for request in wrong:
            with connect(at) as client, contextlib.suppress(ConnectionError):
                client.sendall(request)
                client.recv(1000)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert limits[0] >= 400
    slow = []
    for i in range(300):  # each has sent a part, or nothing, and waits
        slow.append(connect(at))
        with contextlib.suppress(ConnectionError):
            slow[-1].sendall(b"GET /live HTTP/1.1\r\nHost:"[: i % 20])
    assert status(at, "/live") == (200, "live\n")
    assert files(started) < open_before + 100
    done(db, db.defer("noop"))
    with connect(at) as client, contextlib.suppress(ConnectionError):
        client.sendall(b"POST /ready HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(3000):  # 12 MB
            client.sendall(b"1000\r\n" + b"b" * 4096 + b"\r\n")
    assert status(at, "/ready") == (200, "ready\n")
    assert rss_kb(started) < before + (64000 if harness.SAN else 8000)  # the sanitizer keeps freed memory
    wait_for(lambda: files(started) <= open_before + 16, 60, "slow clients are cut off")
    for client in slow:
        client.close()
    done(db, db.defer("noop"))
    stop(started)


def test_a_client_that_is_too_slow_is_cut_off_while_nobody_else_comes(probed):
    _, at = probed
    with connect(at) as client:
        client.sendall(b"GET /live HTTP/1.1\r\n")
        client.settimeout(60)
        assert client.recv(1) == b""
