"""What strangers and bad neighbours can take of deferred_http: memory for bodies and answers, and
the room of the others."""

import contextlib
import re
import resource
import socket
import urllib.parse

import pytest

import front
import harness
from front import XML

KIB, MIB = 2**10, 2**20


def rss(f):
    with open(f"/proc/{f.program.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) * KIB


def unread(f):
    """Bytes under way between the server and its clients."""
    with open("/proc/net/tcp") as tcp:
        lines = [line.split() for line in tcp]
    return sum(
        int(n, 16)
        for _, local, remote, _, queues, *_ in lines[1:]
        if f"{f.port:04X}" in (local[-4:], remote[-4:])
        for n in queues.split(":")
    )


def token(client, queue, rights):
    """The query of a token of the queue."""
    q = {"sv": front.VERSION, "sp": rights, "se": "2099-01-01T00:00:00Z"}
    text = "\n".join([rights, "", q["se"], f"/queue/{client.account}/{queue}", "", "", "", q["sv"]])
    return urllib.parse.urlencode({**q, "sig": client.sign(text)})


@contextlib.contextmanager
def connections(f, n, **kw):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(f.connect(**kw))) for _ in range(n)]


# ---- bodies


def head(client, length, **how):
    """A put of so long a body, without the body."""
    return client.bytes("POST", "/mail/messages", b"x" * length, **how)[:-length]


def test_bodies_of_nobody_take_no_room(db):
    """300 connections of one address stopped every put by a body that they never ended, whoever had sent them."""
    f = front.Front(db, config='body_timeout = "4s"\n')
    c = f.client()
    c.create("mail")
    unsigned, wrong = head(c, 300 * KIB, signed=False), head(c, 300 * KIB, key="d3Jvbmc=")
    before = rss(f)
    with connections(f, 300) as open_:
        for i, raw in enumerate(open_):
            raw.send((wrong if i % 2 else unsigned) + b"x" * 258 * KIB)
        c.put("mail", "&" * 60000)  # 300 KiB of body
        if not harness.SAN:
            assert rss(f) - before < 40 * MIB
        # They are cut off, however often they send something, and are in the log.
        harness.wait_for(
            lambda: len([1 for line in f.log() if line.get("cut")]) == 300, what="a line for each in the access log"
        )
        assert all(raw.closed() for raw in open_)
    cut = [(line["status"], line.get("code"), line.get("op")) for line in f.log() if line.get("cut")]
    assert cut == [(403, "AuthenticationFailed", "PutMessage")] * 300
    assert f.stop() == 0


def test_a_wrong_signature_is_refused_before_the_client_is_told_to_go_on(f, c):
    for how in ({"signed": False}, {"key": "d3Jvbmc="}, {"headers": [("Authorization", "Bearer x")], "signed": False}):
        with contextlib.closing(f.connect()) as raw:
            raw.send(c.bytes("POST", "/mail/messages", XML.format("x"), expect=True, **how))
            got = raw.answer()
            assert (got.status, got.code, got.header("connection")) == (403, "AuthenticationFailed", "close"), got
            assert raw.closed()
    with contextlib.closing(f.connect()) as raw:
        raw.send(c.bytes("POST", "/none/messages?numofmessages=x", XML.format("x"), expect=True))
        assert raw.answer().status == 100
    # A token gives what it says, and that is known as early.
    with contextlib.closing(f.connect()) as raw:
        raw.send(
            c.bytes(
                "POST",
                "/mail/messages?" + token(c, "mail", "r"),
                XML.format("x"),
                expect=True,
                signed=False,
                date=False,
            )
        )
        assert (raw.answer().status, raw.closed()) == (403, True)
    with contextlib.closing(f.connect()) as raw:
        raw.send(
            c.bytes(
                "POST",
                "/mail/messages?" + token(c, "mail", "a"),
                XML.format("x"),
                expect=True,
                signed=False,
                date=False,
            )
        )
        assert raw.answer().status == 100
        raw.send(XML.format("x").encode())
        assert raw.answer().status == 201


def test_a_refused_body_is_passed_over_and_the_connection_goes_on(f, c):
    """What a client has begun to send it sends to its end, and then sees why."""
    for length in (10, 600 * KIB):
        got = c.call("POST", "/mail/messages", b"x" * length, signed=False)
        assert (got.status, got.code, got.header("connection")) == (403, "AuthenticationFailed", None)
    connection = c.connection
    c.put("mail", "after them")
    assert c.connection is connection and c.count("mail") == 1


def test_an_account_and_an_address_have_their_share_of_bodies_and_small_ones_always_go_through(f, c):
    """Who is let in can hold up to a share, for up to the time for a body; the rest hears that the server is busy."""
    key, _ = f.add_account("hoarder")
    hoarder = f.client("hoarder", key)
    hoarder.create("mail")
    before = rss(f)
    with connections(f, 200) as open_:
        for raw in open_:
            raw.send(head(hoarder, 400 * KIB) + b"x" * 390 * KIB)
        c.put("mail", "small")
        if not harness.SAN:
            assert rss(f) - before < 64 * MIB
        harness.wait_for(lambda: unread(f) == 0, what="the server to read what was sent")
        busy = 0
        for raw in open_:
            raw.send(b"x" * 10 * KIB)
        for raw in open_:
            busy += raw.answer().status == 503
        assert 80 < busy < 200, busy
    # All of it is given back.
    assert hoarder.put("mail", "x" * 60000)
    assert [line["status"] for line in f.log() if line.get("code") == "ServerBusy"] == [503] * busy


def test_large_heads_have_a_share(f, c):
    """Unsigned, 36 KiB of "&" each, and a body that never ends."""
    one = c.bytes("POST", "/mail/messages", b"x" * 10, headers=[("x-ms-meta-a", "&" * 36 * KIB)], key="d3Jvbmc=")
    before = rss(f)
    with connections(f, 900) as open_:
        for raw in open_:
            raw.send(one[:-5])
        harness.wait_for(
            lambda: len([line for line in f.log() if line["status"] == 503]) > 50,
            what="those beyond the share to be refused",
        )
        c.put("mail")
        if not harness.SAN:
            harness.wait_for(lambda: rss(f) - before < 120 * MIB, 20, "memory within the share")
        # A 403 has the text that had to be signed, so it is large again.
        for raw in open_:
            with contextlib.suppress(OSError):
                raw.send(one[-5:])
        harness.wait_for(lambda: len(f.log()) >= 902, what="all to be answered")
        c.put("mail")
        if not harness.SAN:
            harness.wait_for(lambda: rss(f) - before < 120 * MIB, 20, "memory within the shares")
    c.put("mail")


# ---- answers


def fill(client, queue):
    """32 messages, an answer of 10 MiB: each "&" is five bytes of it."""
    for _ in range(32):
        client.put(queue, "&" * 64 * KIB)


def ask_and_do_not_read(f, client, n, stack):
    """By a token that lets one read."""
    request = client.bytes(
        "GET", "/mail/messages?peekonly=true&numofmessages=32&" + token(client, "mail", "r"), signed=False, date=False
    )
    open_ = []
    for _ in range(n):
        raw = stack.enter_context(contextlib.closing(f.connect()))
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.send(request)
        open_.append(raw)
    return open_


def peeks(f):
    return [line for line in f.log() if line.get("op") == "PeekMessages"]


@pytest.mark.slow
def test_answers_that_nobody_reads_have_a_share_and_are_given_back(db):
    """40 clients with a token to read took 580 MiB, and it stayed."""
    f = front.Front(db, config='send_timeout = "12s"\n')
    c = f.client()
    c.create("mail")
    fill(c, "mail")
    assert len(c.peek("mail")) == 32
    before = rss(f)
    with contextlib.ExitStack() as stack:
        open_ = ask_and_do_not_read(f, c, 40, stack)
        busy = harness.wait_for(
            lambda: [line for line in peeks(f) if line["status"] == 503] if len(peeks(f)) >= 36 else None,
            what="refusals",
        )
        assert len(busy) >= 35 and {line["code"] for line in busy} == {"ServerBusy"}
        if not harness.SAN:
            assert rss(f) - before < 100 * MIB
        # Neither those who put nor those who get little are held up.
        c.create("other")
        c.put("other")
        assert len(c.get("other")) == 1
        # Who does not read is cut off.
        harness.wait_for(lambda: len(peeks(f)) == 41, what="all to be answered or cut off")
        assert {line["status"] for line in peeks(f) if line.get("cut")} == {200}
        if not harness.SAN:
            harness.wait_for(lambda: rss(f) - before < 16 * MIB, what="memory given back")
        del open_
    assert len(c.peek("mail")) == 32
    assert f.stop() == 0


def test_a_get_that_finds_no_room_takes_no_message(f, c):
    fill(c, "mail")
    c.create("work")
    c.put("work", "for later")
    with contextlib.ExitStack() as stack:
        began = [
            ask_and_do_not_read(f, c, 1, stack)[0].socket.recv(12, socket.MSG_PEEK | socket.MSG_WAITALL)
            for _ in range(4)
        ]
        assert began == [b"HTTP/1.1 200"] * 3 + [b"HTTP/1.1 503"]
        got = c.call("GET", "/work/messages?numofmessages=32")
        assert (got.status, got.code) == (503, "ServerBusy")
    harness.wait_for(lambda: len(peeks(f)) == 4)
    m = c.get("work", 32)[0]
    assert m["MessageText"] == "for later" and m["DequeueCount"] == "1"


@pytest.mark.slow
@pytest.mark.parametrize("room", [48 * MIB, 24 * MIB, 8 * MIB])
def test_out_of_memory_is_an_answer_and_not_the_end(f, c, room):
    """It was the end of the whole front, which all its clients had to wait for."""
    fill(c, "mail")
    with open(f"/proc/{f.program.pid}/statm") as statm:
        size = int(statm.read().split()[0]) * resource.getpagesize()
    pid = f.program.pid
    if not harness.SAN:  # which has its shadow in address space
        resource.prlimit(pid, resource.RLIMIT_AS, (size + room, resource.RLIM_INFINITY))
    statuses = set()
    with contextlib.ExitStack() as stack:
        for raw in ask_and_do_not_read(f, c, 40, stack):
            raw.socket.setblocking(False)
        for i in range(20):
            with contextlib.suppress(OSError, AssertionError):
                statuses.add(f.plain("GET", "/healthz").status)
                client = f.client()
                statuses.add(client.call("POST", "/mail/messages", XML.format("x" * 60000)).status)
                client.close()
        assert f.program.alive(), f.program.output()
    resource.prlimit(pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert statuses <= {200, 201, 503} and statuses, statuses
    harness.wait_for(lambda: f.plain("GET", "/healthz").status == 200)
    harness.wait_for(lambda: f.client().call("POST", "/mail/messages", XML.format("x")).status == 201)
    assert f.program.pid == pid and f.program.alive()
