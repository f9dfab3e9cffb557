"""Where a request ends: what two servers could read in two ways is refused, whole, before anything
behind it is read."""

import contextlib
import re
import ssl

import front
import harness
from front import XML
from test_wire import certificate


def length(text):
    """The Content-Length header as these bytes."""
    return lambda b: re.sub(rb"Content-Length: \d+\r\n", lambda m: text, b)


def before(text):
    """These bytes in front of the Content-Length header."""
    return lambda b: b.replace(b"Content-Length:", text + b"Content-Length:")


BAD_HEADERS = {
    "length on the next line": length(b"Content-Length:\r\n 36\r\n"),
    "length on the next line, tab": length(b"Content-Length:\r\n\t36\r\n"),
    "length in two lines": length(b"Content-Length: 3\r\n 6\r\n"),
    "coding on the next line": before(b"Transfer-Encoding:\r\n chunked\r\n"),
    "coding in two lines": length(b"Transfer-Encoding: chu\r\n nked\r\n"),
    "any header folded": before(b"X-A: b\r\n c\r\n"),
    "first header folded": lambda b: b.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\n X-A: b\r\n"),
    "bare LF after the request line": lambda b: b.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\n"),
    "bare LF after a header": lambda b: re.sub(rb"(Content-Length: \d+)\r\n", rb"\1\n", b),
    "bare LF hiding a header": before(b"X-A: b\nContent-Length: 0\r\n"),
    "bare LF at the end": lambda b: b.replace(b"\r\n\r\n", b"\r\n\n", 1),
    "bare LF twice": lambda b: b.replace(b"\r\n\r\n", b"\n\n", 1),
    "LF only": lambda b: b.replace(b"\r\n", b"\n"),
    "CR only": lambda b: b.replace(b"\r\n", b"\r"),
    "bare CR in a value": before(b"X-A: b\rContent-Length: 0\r\n"),
    "CR CR LF": before(b"X-A: b\r\r\n"),
    "empty name": before(b": b\r\n"),
    "empty name and value": before(b":\r\n"),
    "blank as name": before(b" : b\r\n"),
    "blank before the colon": length(b"Content-Length : 36\r\n"),
    "tab before the colon": length(b"Content-Length\t: 36\r\n"),
    "no colon": before(b"Content-Length\r\n"),
    "NUL in a name": before(b"X-\x00A: b\r\n"),
    "NUL in a value": before(b"X-A: b\x00c\r\n"),
    "NUL behind the length": length(b"Content-Length: 36\x00\r\n"),
    "quote in a name": before(b'"X": b\r\n'),
    "high byte in a name": before(b"X\xe9: b\r\n"),
    "vertical tab before the length": length(b"Content-Length: \x0b36\r\n"),
    "length twice": before(b"Content-Length: 5\r\n"),
    "length twice, the same": lambda b: re.sub(rb"(Content-Length: \d+\r\n)", rb"\1\1", b),
    "length twice, other case": before(b"content-LENGTH: 5\r\n"),
    "length and coding": before(b"Transfer-Encoding: chunked\r\n"),
    "coding and length": lambda b: re.sub(rb"(Content-Length: \d+\r\n)", rb"\1Transfer-Encoding: chunked\r\n", b),
    "coding twice": length(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
    "coding and another": length(b"Transfer-Encoding: gzip, chunked\r\n"),
    "another coding": length(b"Transfer-Encoding: identity\r\n"),
    "coding with a blank behind": length(b"Transfer-Encoding: chunked \r\n"),
    "coding that begins so": length(b"Transfer-Encoding: chunkedx\r\n"),
    "coding quoted": length(b'Transfer-Encoding: "chunked"\r\n'),
    "no coding": length(b"Transfer-Encoding:\r\n"),
    "no length": length(b"Content-Length:\r\n"),
    "blank length": length(b"Content-Length: \r\n"),
    "length with plus": length(b"Content-Length: +36\r\n"),
    "length with minus": length(b"Content-Length: -36\r\n"),
    "length with blanks in it": length(b"Content-Length: 3 6\r\n"),
    "length with a blank behind": length(b"Content-Length: 36 \r\n"),
    "length as list": length(b"Content-Length: 36, 36\r\n"),
    "length in hex": length(b"Content-Length: 0x24\r\n"),
    "length with fraction": length(b"Content-Length: 36.0\r\n"),
    "host twice": lambda b: b.replace(b"Host:", b"Host: other\r\nHost:"),
    "coding of an old client": lambda b: length(b"Transfer-Encoding: chunked\r\n")(b.replace(b"HTTP/1.1", b"HTTP/1.0")),
}

BAD_CHUNKS = {
    "size with blank": b"5 \r\nhello\r\n0\r\n\r\n",
    "size after blank": b" 5\r\nhello\r\n0\r\n\r\n",
    "size with 0x": b"0x5\r\nhello\r\n0\r\n\r\n",
    "size with plus": b"+5\r\nhello\r\n0\r\n\r\n",
    "size with minus": b"-5\r\nhello\r\n0\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "size too long": b"0" * 16 + b"5\r\nhello\r\n0\r\n\r\n",
    "size too large": b"ffffffffffffffff5\r\nhello\r\n0\r\n\r\n",
    "bare LF after the size": b"5\nhello\r\n0\r\n\r\n",
    "bare LF in an extension": b"5;a\nhello\r\n0\r\n\r\n",
    "bare CR in an extension": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "NUL in an extension": b"5;\x00\r\nhello\r\n0\r\n\r\n",
    "extensions without end": (b"1;" + b"a" * 2500 + b"\r\nx\r\n") * 2 + b"0\r\n\r\n",
    "long extension": b"5;" + b"a" * 5000 + b"\r\nhello\r\n0\r\n\r\n",
    "bare LF after the data": b"5\r\nhello\n0\r\n\r\n",
    "no line end after the data": b"5\r\nhello0\r\n\r\n",
    "more data than said": b"5\r\nhello!\r\n0\r\n\r\n",
    "bare LF at the end": b"5\r\nhello\r\n0\n\n",
    "bare LF after the last size": b"5\r\nhello\r\n0\n\r\n",
    "bare LF after the trailers": b"5\r\nhello\r\n0\r\n\n",
    "trailer without a name": b"5\r\nhello\r\n0\r\n: b\r\n\r\n",
    "trailer without a colon": b"5\r\nhello\r\n0\r\nabc\r\n\r\n",
    "trailer folded": b"5\r\nhello\r\n0\r\nA: b\r\n c\r\n\r\n",
    "trailers too long": b"5\r\nhello\r\n0\r\nA: " + b"x" * 5000 + b"\r\n\r\n",
}


def refused(raw, name, status=400):
    """One answer of ours, and then the end."""
    got = raw.answer()
    assert got is not None and got.status == status and got.header("connection") == "close", (name, got)
    assert (
        got.code
        and got.xml.findtext("Code") == got.code
        and got.header("x-ms-request-id") in got.xml.findtext("Message")
    ), (name, got)
    assert raw.closed(), (name, raw.buffer)
    return got


def in_pieces(f, pieces):
    """A connection that has sent them, as far as it was let."""
    raw = f.connect()
    with contextlib.suppress(OSError):
        for piece in pieces:
            raw.send(piece)
    return contextlib.closing(raw)


def single(data):
    return [data[i : i + 1] for i in range(len(data))]


def test_headers_that_can_be_read_in_two_ways_are_refused(f, c):
    good = c.bytes("POST", "/mail/messages", XML.format("x"))
    smuggled = c.bytes("POST", "/mail/messages", XML.format("smuggled"))
    for name, change in BAD_HEADERS.items():
        bad = change(good)
        assert bad != good, name
        for pieces in ([bad + smuggled], [bad, smuggled], single(bad[: bad.index(b"<")]) + [smuggled]):
            with in_pieces(f, pieces) as raw:
                refused(raw, name)
        assert c.count("mail") == 0, name
    # Each is a line of the access log, and what follows it is not.
    lines = harness.wait_for(
        lambda: [line for line in f.log() if line["status"] == 400] if len(f.log()) >= 4 * len(BAD_HEADERS) else None
    )
    assert len(lines) == 3 * len(BAD_HEADERS) and all(line["peer"] == "127.0.0.1" and line["code"] for line in lines)
    assert not [line for line in f.log() if line["status"] == 201 and line["op"] == "PutMessage"]


def test_chunks_that_can_be_read_in_two_ways_are_refused(f, c):
    good = c.bytes("POST", "/mail/messages", chunked=True)
    smuggled = c.bytes("POST", "/mail/messages", XML.format("smuggled"))
    for name, body in BAD_CHUNKS.items():
        for pieces in ([good + body + smuggled], [good] + single(body) + [smuggled]):
            with in_pieces(f, pieces) as raw:
                assert refused(raw, name).code == "InvalidInput"
        assert c.count("mail") == 0, name


LINES = {
    "no target": (b"GET\r\n\r\n", 400, "InvalidInput"),
    "blank target": (b"GET  HTTP/1.1\r\nHost: x\r\n\r\n", 400, "InvalidInput"),
    "two blanks": (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "InvalidInput"),
    "blank in the target": (b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400, "InvalidInput"),
    "tab for a blank": (b"GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n", 400, "InvalidInput"),
    "blank at the end": (b"GET / HTTP/1.1 \r\nHost: x\r\n\r\n", 400, "InvalidInput"),
    "no version": (b"GET /\r\n\r\n", 400, "InvalidInput"),
    "small letters": (b"GET / http/1.1\r\nHost: x\r\n\r\n", 400, "InvalidInput"),
    "version 9.9": (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 505, "InvalidInput"),
    "version 2.0": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "InvalidInput"),
    "version 0.9": (b"GET / HTTP/0.9\r\n\r\n", 505, "InvalidInput"),
    "long method": (b"G" * 100 + b" / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "InvalidInput"),
    "NUL": (b"\x00", 400, "InvalidInput"),
    "bytes of TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "InvalidInput"),
    "bare LF before it": (b"\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "InvalidInput"),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400, "MissingRequiredHeader"),
    "no host but in the target": (b"GET http://a.queue.x/ HTTP/1.1\r\n\r\n", 400, "MissingRequiredHeader"),
    "long target": (b"GET /" + b"x" * 70000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "InvalidUri"),
    "long value": (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 70000 + b"\r\n\r\n", 431, "InvalidHeaderValue"),
    "long name": (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"x" * 70000 + b": a\r\n\r\n", 431, "InvalidHeaderValue"),
    "many headers": (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 5000 + b"\r\n", 431, "InvalidHeaderValue"),
    "blanks without end before a length": (
        b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length:" + b" " * 70000,
        431,
        "InvalidHeaderValue",
    ),
    "blanks without end before a coding": (
        b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:" + b"\t" * 70000,
        431,
        "InvalidHeaderValue",
    ),
    "empty lines without end": (b"\r\n" * 1000, 400, "InvalidInput"),
    "many parameters": (b"GET /?" + b"a&" * 3000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "InvalidUri"),
    "length beyond 64 bits": (
        b"POST /a/b/messages HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n",
        413,
        "RequestBodyTooLarge",
    ),
    "length within 64 bits": (
        b"POST /a/b/messages HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 18 + b"\r\n\r\n",
        413,
        "RequestBodyTooLarge",
    ),
}


def test_what_the_library_would_refuse_is_an_answer_of_ours(f):
    for name, (sent, status, what) in LINES.items():
        with in_pieces(f, [sent]) as raw:
            assert refused(raw, name, status).code == what, name
    lines = harness.wait_for(
        lambda: [line for line in f.log() if line["peer"] and "code" in line] if len(f.log()) > len(LINES) else None
    )
    assert sorted((line["status"], line["code"]) for line in lines) == sorted(
        (status, what) for _, status, what in LINES.values()
    )


def test_cookies_are_nothing_to_us(c):
    """Some were too much for the library, which then answered twice."""
    first = c.connection
    for cookie in ('a="', 'a=b; c="', 'a="b', "=;;", "a=b;" * 3000):
        assert (
            c.call("GET", "/mail?comp=metadata", headers=[("Cookie", cookie), ("cookie", cookie[:9])]).status == 200
        ), cookie
    assert c.connection is first


def test_good_requests_behind_each_other_are_answered_up_to_the_bad_one(f, c):
    good = c.bytes("POST", "/mail/messages", XML.format("good"))
    bad = c.bytes("POST", "/mail/messages", XML.format("bad")).replace(b"Content-Length:", b"Content-Length:\r\n ")
    with contextlib.closing(f.connect()) as raw:
        raw.send(good + b"\r\n" + good + bad + good)
        assert [raw.answer().status for _ in range(2)] == [201, 201]
        refused(raw, "the third")
    assert c.count("mail") == 2


def test_400_pairs_of_metadata_fit(c):
    pairs = {f"k{i}": str(i) for i in range(400)}
    assert c.call("PUT", "/mail?comp=metadata", headers=[("x-ms-meta-" + n, v) for n, v in pairs.items()]).status == 204
    got = c.call("GET", "/mail?comp=metadata")
    assert {n[10:]: v for n, v in got.headers if n.startswith("x-ms-meta-")} == pairs
    # 8 KiB of them.
    pairs = {f"k{i}": "v" * (20 - len(f"k{i}")) for i in range(409)}
    assert c.call("PUT", "/mail?comp=metadata", headers=[("x-ms-meta-" + n, v) for n, v in pairs.items()]).status == 204
    assert len([n for n, _ in c.call("GET", "/mail?comp=metadata").headers if n.startswith("x-ms-meta-")]) == 409


def test_https_is_read_as_strictly(db):
    cert, key = certificate(db.dir, "one")
    f = front.Front(db, "--listen-tls", "127.0.0.1:0", config=f'tls_certificate = "{cert}"\n tls_key = "{key}"\n')
    c = f.client()
    c.create("mail")
    f.port = int(re.search(r"listening on \S+:(\d+), HTTPS", f.program.output()).group(1))
    context = ssl.create_default_context(cafile=cert)
    good = c.bytes("POST", "/mail/messages", XML.format("x" * 60000))
    with contextlib.closing(f.connect(tls=context)) as raw:
        for _ in range(3):
            raw.send(good)
            assert raw.answer().status == 201
        # A byte a record: what is held back is passed on when the rest is there.
        for b in c.bytes("POST", "/mail/messages", chunked=True) + b"4;x=y\r\n<a/>\r\n0\r\nA: b\r\n\r\n":
            raw.send(bytes([b]))
        got = raw.answer()
        assert (got.status, got.code) == (400, "InvalidXmlDocument")
    for name in ("length on the next line", "bare LF hiding a header", "empty name", "length with plus"):
        with contextlib.closing(f.connect(tls=context)) as raw:
            with contextlib.suppress(OSError):
                raw.send(BAD_HEADERS[name](c.bytes("POST", "/mail/messages", XML.format("x"))) + good)
            got = raw.answer()
            assert got.status == 400 and got.code, (name, got)
    with contextlib.closing(f.connect(tls=context)) as raw:
        raw.send(c.bytes("POST", "/mail/messages", chunked=True) + BAD_CHUNKS["bare LF in an extension"])
        assert raw.answer().code == "InvalidInput"
    assert f.stop() == 0
