"""What deferred_http makes of slow clients and of many: judged by time."""

import contextlib
import re
import socket
import time

import pytest

import front
import harness
import pg
from front import XML


@pytest.mark.slow
def test_slow_clients_are_cut_off(db):
    f = front.Front(db, config='header_timeout = "1s"\n body_timeout = "1s"\n idle_timeout = "2s"\n')
    c = f.client()
    c.create("mail")
    line = b"POST /devstoreaccount1/mail/messages HTTP/1.1\r\n"
    body = c.bytes("POST", "/mail/messages", XML.format("x"))

    def drip(start, rest):
        """Seconds until it is closed, sending a byte now and then."""
        began = time.monotonic()
        with contextlib.closing(f.connect()) as raw:
            raw.send(start)
            raw.socket.settimeout(0.1)
            while time.monotonic() < began + 15:
                try:
                    if raw.socket.recv(1000) == b"":
                        return time.monotonic() - began
                except socket.timeout:
                    pass
                except ConnectionResetError:
                    return time.monotonic() - began
                with contextlib.suppress(OSError):
                    raw.send(rest)
        raise AssertionError("still open")

    assert 0.9 < drip(line, b"A") < 5
    assert 0.9 < drip(body[:-50], b"x") < 5
    assert 1.5 < drip(b"", b"") < 6
    assert 1.5 < drip(b"P", b"") < 6
    with contextlib.closing(f.connect()) as raw:
        raw.send(c.bytes("GET", "/mail/messages"))
        assert raw.answer().header("keep-alive") == "timeout=2"
        began = time.monotonic()
        assert raw.closed() and 1.5 < time.monotonic() - began < 6
    assert f.client().count("mail") == 0


def rss(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) * 1024


def test_a_thousand_idle_connections_cost_little_and_slow_nobody_down(db):
    f = front.Front(db)
    c = f.client()
    c.create("mail")

    def cost_of_a_put():
        """In processor time, which does not depend on what else the machine does."""
        began = pg.cpu_ns(f.program.pid)
        for _ in range(50):
            c.put("mail")
        return (pg.cpu_ns(f.program.pid) - began) / 50 / 10**6

    cost_of_a_put()  # opens a session
    alone = cost_of_a_put()
    before = rss(f.program.pid)
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(contextlib.closing(f.connect())) for _ in range(1000)]
        # The worst that idle ones can be: each has had a request, the headers of which filled its memory.
        for raw in idle:
            raw.send(
                c.bytes("GET", "/mail/messages?peekonly=true&numofmessages=32", headers=[("x-filler", "f" * 12000)])
            )
        for raw in idle:
            assert raw.answer().status == 200
        if not harness.SAN:  # its allocator keeps what was freed
            harness.wait_for(
                lambda: rss(f.program.pid) - before < 64 * 2**20, 20, "what their requests took to be given back"
            )
        cost, beside = rss(f.program.pid) - before, cost_of_a_put()
        print(
            f"1,000 idle connections: {cost / 2**20:.1f} MiB; a put {alone:.3f} ms alone, {beside:.3f} ms beside them"
        )
        if not harness.SAN:
            assert cost < 64 * 2**20
        assert beside < alone * 3
