"""How the server reads and closes a connection, apart from what it answers."""

import contextlib
import re
import socket
import ssl

import front
from front import XML
from test_wire import certificate

BAD = b"GET / HTTP/1.1\r\nHost: x\r\nA: b\n"


def rest_of(raw):
    """The bytes up to the end of the connection. A reset is an error."""
    raw.socket.shutdown(socket.SHUT_WR)
    while raw.more():
        pass
    return bytes(raw.buffer)


def test_a_client_that_still_sends_reads_the_refusal_and_no_reset(f):
    for behind in (0, 100, 30000):
        with contextlib.closing(f.connect()) as raw:
            raw.send(BAD + b"x" * behind)
            got = raw.answer()
            assert (got.status, got.header("connection")) == (400, "close")
            raw.send(b"x" * 10000)
            assert rest_of(raw) == b""


def test_a_client_that_sends_without_end_is_cut_off(f):
    with contextlib.closing(f.connect()) as raw:
        raw.send(BAD)
        assert raw.answer().status == 400
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 2**26:
                raw.send(b"x" * 10000)
                sent += 10000
        assert sent < 2**26


def test_a_client_that_has_sent_its_last_request_gets_its_answers(f, c):
    with contextlib.closing(f.connect()) as raw:
        raw.send(c.bytes("POST", "/mail/messages", XML.format("x")) * 100)
        raw.socket.shutdown(socket.SHUT_WR)
        assert [raw.answer().status for _ in range(100)] == [201] * 100
        assert raw.closed()
    assert c.count("mail") == 100


def test_many_requests_in_one_packet_do_not_stop_other_clients(db):
    """One thread serves both. The answers to one client wait in its connection, since it does not read them."""
    f = front.Front(db, "--threads", "1")
    c = f.client()
    c.create("mail")
    one = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    many = one * 2000
    with contextlib.closing(f.connect()) as raw:
        raw.socket.setblocking(False)
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < 2**27:
                sent += raw.socket.send(many[sent % len(many) :])
        assert sent < 2**27
        c.put("mail")
        raw.socket.settimeout(30)
        for _ in range(min(1000, sent // len(one))):
            assert raw.answer().status == 200
    assert f.stop() == 0


def test_a_client_of_http_1_0_is_closed_whatever_it_asks(f, c):
    request = c.bytes("GET", "/mail/messages", headers=[("Connection", "keep-alive")])
    with contextlib.closing(f.connect()) as raw:
        raw.send(request.replace(b"HTTP/1.1", b"HTTP/1.0"))
        got = raw.answer()
        assert (got.status, got.header("connection"), got.header("keep-alive")) == (200, "close", None)
        assert raw.closed()


def test_https_is_closed_by_both_sides(db):
    """A client can tell a whole answer from one that somebody has cut off."""
    cert, key = certificate(db.dir, "one")
    f = front.Front(db, "--listen-tls", "127.0.0.1:0", config=f'tls_certificate = "{cert}"\n tls_key = "{key}"\n')
    f.port = int(re.search(r"listening on \S+:(\d+), HTTPS", f.program.output()).group(1))
    context = ssl.create_default_context(cafile=cert)
    with socket.create_connection(("127.0.0.1", f.port), 10) as plain:
        with context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False) as tls:
            tls.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            got = b""
            while piece := tls.recv(1000):
                got += piece
            assert got.startswith(b"HTTP/1.1 200 OK\r\n") and got.endswith(b"alive\n")
    # Neither bytes that are not TLS nor a client that goes away in the handshake stops the others.
    for sent in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01", b""):
        with socket.create_connection(("127.0.0.1", f.port), 10) as plain:
            plain.sendall(sent)
            if sent.startswith(b"GET"):
                with contextlib.suppress(ConnectionResetError):
                    while plain.recv(1000):
                        pass
    with contextlib.closing(f.connect(tls=context)) as raw:
        raw.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert raw.answer().status == 200
    assert f.stop() == 0
