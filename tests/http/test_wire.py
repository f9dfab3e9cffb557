"""deferred_http as it looks from the wire: raw sockets, the real program, the real server."""

import base64
import concurrent.futures
import contextlib
import hashlib
import json
import os
import random
import re
import select
import signal
import socket
import threading
import time
import urllib.parse

import pytest

import front
import harness
from front import XML, now

WEEK = 604800


def code(got, status, name):
    assert got is not None and (got.status, got.code) == (status, name), got
    return got


# ---- what every answer has


def test_every_answer_says_who_when_and_which_request(c):
    for got in (
        c.call("GET", "/mail/messages", headers=[("x-ms-client-request-id", "mine-1")]),
        c.call("GET", "/none/messages", headers=[("x-ms-client-request-id", "mine-1")]),
    ):
        assert re.fullmatch(
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", got.header("x-ms-request-id")
        )
        assert got.header("x-ms-version") == front.VERSION
        assert got.header("x-ms-client-request-id") == "mine-1"
        assert got.header("server").startswith("deferred_http/")
        assert got.header("keep-alive") == "timeout=75"
        assert (
            time.time() - time.mktime(time.strptime(got.header("date"), "%a, %d %b %Y %H:%M:%S GMT")) + time.timezone
            < 5
        )
        assert got.header("content-type") == "application/xml"
    assert c.call("GET", "/mail/messages", version="2099-12-31").header("x-ms-version") == "2099-12-31"
    code(c.call("GET", "/mail/messages", version="soon"), 400, "InvalidHeaderValue")
    code(c.call("GET", "/mail/messages", headers=[("x-ms-client-request-id", "x" * 1025)]), 400, "InvalidHeaderValue")


def test_an_error_has_its_code_in_the_header_and_its_text_in_the_body(c):
    got = code(c.call("GET", "/mail/messages?numofmessages=33"), 400, "OutOfRangeQueryParameterValue")
    x = got.xml
    assert x.tag == "Error" and x.findtext("Code") == "OutOfRangeQueryParameterValue"
    message = x.findtext("Message").split("\n")
    assert message[0] == "One of the query parameters specified in the request URI is outside the permissible range."
    assert message[1] == "RequestId:" + got.header("x-ms-request-id") and re.fullmatch(
        r"Time:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", message[2]
    )
    assert [(e.tag, e.text) for e in x][2:] == [
        ("QueryParameterName", "numofmessages"),
        ("QueryParameterValue", "33"),
        ("MinimumAllowed", "1"),
        ("MaximumAllowed", "32"),
    ]
    head = c.call("HEAD", "/none?comp=metadata")
    assert (head.status, head.code, head.body) == (404, "QueueNotFound", b"")
    got = code(c.call("GET", "/mail/messages?numofmessages=%3Cb%3E%26"), 400, "InvalidQueryParameterValue")
    assert got.xml.findtext("QueryParameterValue") == "<b>&"


# ---- queues


def test_a_queue_is_made_once_and_deleted_once(c):
    assert c.call("PUT", "/fresh", headers=[("x-ms-meta-Key1", "one"), ("x-ms-meta-b_2", "two")]).status == 201
    assert c.call("PUT", "/fresh", headers=[("x-ms-meta-KEY1", "one"), ("x-ms-meta-b_2", "two")]).status == 204
    code(
        c.call("PUT", "/fresh", headers=[("x-ms-meta-Key1", "One"), ("x-ms-meta-b_2", "two")]),
        409,
        "QueueAlreadyExists",
    )
    code(c.call("PUT", "/fresh"), 409, "QueueAlreadyExists")
    c.put("fresh")
    assert c.call("DELETE", "/fresh").status == 204
    code(c.call("DELETE", "/fresh"), 404, "QueueNotFound")
    code(c.call("GET", "/fresh/messages"), 404, "QueueNotFound")
    harness.wait_for(lambda: c.call("PUT", "/fresh").status == 201, 20, "a queue that can be made anew")
    assert c.count("fresh") == 0


def test_metadata_keep_their_case_and_have_their_limits(c):
    set_ = lambda *headers: c.call("PUT", "/mail?comp=metadata", headers=headers)  # noqa: E731
    assert set_(("x-ms-meta-MixedCase", "Value 1"), ("x-ms-meta-_x9", "")).status == 204
    got = c.call("HEAD", "/mail?comp=metadata")
    assert got.status == 200 and {n: v for n, v in got.headers if n.startswith("x-ms-meta-")} == {
        "x-ms-meta-_x9": "",
        "x-ms-meta-MixedCase": "Value 1",
    }
    assert set_().status == 204
    assert not [n for n, v in c.call("GET", "/mail?comp=metadata").headers if n.startswith("x-ms-meta-")]
    code(set_(("x-ms-meta-9x", "v")), 400, "InvalidMetadata")
    code(set_(("x-ms-meta-a.b", "v")), 400, "InvalidMetadata")
    code(set_(("x-ms-meta-a", "\xff\xfe")), 400, "InvalidMetadata")
    code(set_(("x-ms-meta-", "v")), 400, "EmptyMetadataKey")
    code(set_(("x-ms-meta-a", "v" * 8192)), 400, "MetadataTooLarge")
    assert set_(("x-ms-meta-a", "v" * 8191)).status == 204
    assert c.call("GET", "/mail?comp=metadata").header("x-ms-meta-a") == "v" * 8191
    code(c.call("PUT", "/none?comp=metadata"), 404, "QueueNotFound")


def test_a_header_block_of_16_kib_is_taken(c):
    long = [(f"x-ms-meta-k{i}", "v" * 90) for i in range(80)] + [("x-filler", "f" * 8000)]
    assert len(c.bytes("PUT", "/mail?comp=metadata", headers=long)) > 16384
    assert c.call("PUT", "/mail?comp=metadata", headers=long).status == 204
    assert c.call("GET", "/mail?comp=metadata").header("x-ms-meta-k79") == "v" * 90


def test_names_are_checked_before_anybody_is_asked_for_a_signature(c):
    for name, status, what in (
        ("ab", 400, "OutOfRangeInput"),
        ("x" * 64, 400, "OutOfRangeInput"),
        ("a--b", 400, "InvalidResourceName"),
        ("Mail", 400, "InvalidResourceName"),
        ("a%7Cb", 400, "InvalidResourceName"),
    ):
        code(c.call("PUT", "/" + name, key=base64.b64encode(b"wrong").decode()), status, what)
    code(
        c.call("GET", "/mail/messages?numofmessages=33", key=base64.b64encode(b"wrong").decode()),
        403,
        "AuthenticationFailed",
    )
    code(c.call("GET", "/none/messages?numofmessages=33"), 400, "OutOfRangeQueryParameterValue")


def test_queues_are_listed_page_by_page_each_once(f):
    f.add_account("lister")
    key1, _ = f.add_account("pages")
    c = f.client("pages", key1)
    names = sorted(["zz-last", "aa-first", "m-1", "m-10", "m-2", "m-b"])
    for name in reversed(names):
        c.create(name, for_=name)
    assert [e.text for e in c.call("GET", "/?comp=list").xml.iter("Name")] == names
    assert [e.text for e in c.call("GET", "?comp=list").xml.iter("Name")] == names
    for size in range(1, 8):
        seen, marker, pages = [], "", 0
        while True:
            x = c.call("GET", f"/?comp=list&maxresults={size}&marker={marker}").xml
            seen += [e.text for e in x.iter("Name")]
            pages += 1
            assert x.findtext("MaxResults") == str(size)
            marker = x.findtext("NextMarker")
            if not marker:
                break
        assert seen == names and pages == -(-len(names) // size)
    x = c.call("GET", "/?comp=list&prefix=m-&include=metadata").xml
    assert [(q.findtext("Name"), [(e.tag, e.text) for e in q.find("Metadata")]) for q in x.iter("Queue")] == [
        (n, [("for_", n)]) for n in names if n[:2] == "m-"
    ]
    assert x.findtext("Prefix") == "m-" and x.get("ServiceEndpoint") == f"http://127.0.0.1:{f.port}/pages"
    assert c.call("GET", "/?comp=list&prefix=%25").xml.findall("Queues/Queue") == []
    for query, what in (
        ("maxresults=0", "OutOfRangeQueryParameterValue"),
        ("maxresults=x", "InvalidQueryParameterValue"),
        ("marker=NO!", "InvalidMarker"),
        ("include=all", "InvalidQueryParameterValue"),
        ("timeout=abc", "InvalidQueryParameterValue"),
    ):
        code(c.call("GET", "/?comp=list&" + query), 400, what)


def test_an_account_sees_its_own_queues_only(f, c):
    key, _ = f.add_account("other")
    other = f.client("other", key)
    assert list(other.call("GET", "/?comp=list").xml.iter("Name")) == []
    code(other.call("GET", "/mail/messages"), 404, "QueueNotFound")
    # Signed by one account, addressed to another.
    code(other.call("GET", "/mail/messages", account=c.account), 403, "AuthenticationFailed")
    other.create("mail")
    c.put("mail", "for the first")
    assert other.get("mail") == []
    m = c.get("mail")[0]
    code(other.delete("mail", m), 404, "MessageNotFound")
    assert c.delete("mail", m).status == 204


# ---- messages


TEXTS = [
    "hello",
    "",
    " leading and trailing ",
    "a & b <c> \"d\" 'e'",
    "]]>",
    "tab\tline\nend",
    "\u00e4\u20ac\U0001f600",
    "{\"a\": 1}",
    "[1]",
    "&amp;",
    "null",
    "\"quoted\"",
]


def test_a_text_comes_back_as_it_was_put(c):
    for text in TEXTS:
        sent = c.put("mail", text)
        assert "MessageText" not in sent and "DequeueCount" not in sent
        peeked = c.peek("mail")[0]
        assert (
            peeked["MessageText"] == text
            and peeked["DequeueCount"] == "0"
            and "PopReceipt" not in peeked
            and "TimeNextVisible" not in peeked
        )
        got = c.get("mail")[0]
        assert (got["MessageText"], got["MessageId"], got["DequeueCount"]) == (text, sent["MessageId"], "1")
        assert got["PopReceipt"] != sent["PopReceipt"] and re.fullmatch(r"[A-Za-z0-9_-]+", got["PopReceipt"])
        assert list(got) == [
            "MessageId",
            "InsertionTime",
            "ExpirationTime",
            "PopReceipt",
            "TimeNextVisible",
            "DequeueCount",
            "MessageText",
        ]
        assert c.get("mail") == []
        assert c.delete("mail", got).status == 204
        code(c.delete("mail", got), 404, "MessageNotFound")


def test_line_ends_are_those_of_xml(c):
    c.call("POST", "/mail/messages", XML.format("a\r\nb\rc&#13;d&#x41;&#66;"))
    assert c.call("GET", "/mail/messages").body.count(b"<MessageText>a\nb\nc&#xD;dAB</MessageText>") == 1


GOOD_XML = [
    "<QueueMessage><MessageText>x</MessageText></QueueMessage>",
    "\ufeff<?xml version='1.0' encoding='utf-8'?>\n<QueueMessage>\n  <MessageText>x</MessageText>\n</QueueMessage>\n",
    '<?xml version="1.0" encoding="utf-16"?><QueueMessage><MessageText>x</MessageText></QueueMessage>',
    '<QueueMessage xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><!-- c --><MessageText '
    'i:nil="false">x</MessageText></QueueMessage>',
    "<QueueMessage><MessageText><![CDATA[x]]></MessageText></QueueMessage>",
    "<QueueMessage><MessageText>&#120;</MessageText></QueueMessage>",
    "<QueueMessage><Other>1</Other><MessageText>x</MessageText></QueueMessage>",
]


def test_a_message_keeps_the_trace_context_it_is_put_in(c, db):
    good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for sent in (
        [("traceparent", good)],
        [],
        [("traceparent", good.upper())],
        [("traceparent", good), ("traceparent", good)],
        [("traceparent", "x' --")],
    ):
        assert c.call("POST", "/mail/messages", XML.format("a"), headers=sent).status == 201
    assert db.sql("select traceparent from deferred.__deferred order by id desc limit 5")[::-1] == [
        (good,),
        (None,),
        (None,),
        (None,),
        (None,),
    ]


def test_xml_is_read_in_the_ways_it_can_be_written(c):
    for body in GOOD_XML:
        got = c.call("POST", "/mail/messages", body)
        assert got.status == 201, got
        assert c.get("mail")[0]["MessageText"] == "x"


BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY a{i} "{"&a" + str(i - 1 or "") + ";"}{"&a" + str(i - 1 or "") + ";"}">' for i in range(1, 20))
    + "]>"
)


BAD_XML = [
    b"",
    b"x",
    b"<QueueMessage/>",
    b"<QueueMessage></QueueMessage>",
    b"<QueueMessage><MessageText>x</QueueMessage>",
    b"<MessageText>x</MessageText>",
    b"<QueueMessage><MessageText>x</MessageText></QueueMessage><more/>",
    b"<QueueMessage><MessageText><b/></MessageText></QueueMessage>",
    b"<QueueMessage><MessageText>\x01</MessageText></QueueMessage>",
    b"<QueueMessage><MessageText>&#1;</MessageText></QueueMessage>",
    b"<QueueMessage><MessageText>&#0;</MessageText></QueueMessage>",
    b"<QueueMessage><MessageText>&#xD800;</MessageText></QueueMessage>",
    b"<QueueMessage><MessageText>\xff\xfe</MessageText></QueueMessage>",
    b"<QueueMessage><MessageText>\xc0\x80</MessageText></QueueMessage>",
    b"<QueueMessage><MessageText>&nope;</MessageText></QueueMessage>",
    b"<QueueMessage><MessageText>x\x00y</MessageText></QueueMessage>",
    b"<QueueMessage><MessageText>\xef\xbf\xbf</MessageText></QueueMessage>",
    b"<" * 1000,
    b"<a>" * 100000,
    BOMB.encode() + b"<QueueMessage><MessageText>&a19;</MessageText></QueueMessage>",
    b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><QueueMessage><MessageText>x</MessageText></QueueMessage>',
]


def test_a_body_that_is_no_message_is_a_mistake_of_the_client(c):
    for body in BAD_XML:
        code(c.call("POST", "/mail/messages", body), 400, "InvalidXmlDocument")
        assert c.count("mail") == 0


def test_a_text_has_64_kib_and_no_more_whatever_its_body_needs(c):
    for text in ("x" * 65536, "&" * 65536, "\u00e9" * 32768):
        c.put("mail", text)
        got = c.get("mail")[0]
        assert got["MessageText"] == text and c.delete("mail", got).status == 204
    for text in ("x" * 65537, "\u00e9" * 32768 + "x"):
        got = code(c.call("POST", "/mail/messages", XML.format(text)), 413, "RequestBodyTooLarge")
        assert got.xml.findtext("MaxLimit") == "65536"
    assert c.count("mail") == 0


@pytest.mark.parametrize("size", [512 * 1024 + 1, 4 * 1024 * 1024])
def test_a_body_that_is_too_large_is_read_to_its_end_and_then_refused(c, size):
    """So that the client sees the answer, and the connection goes on."""
    got = code(c.call("POST", "/mail/messages", b"x" * size), 413, "RequestBodyTooLarge")
    assert got.header("connection") is None
    connection = c.connection
    c.put("mail", "after it")
    assert c.connection is connection and c.count("mail") == 1


def test_a_body_without_end_is_cut_off(f, c):
    with contextlib.closing(f.connect()) as raw:
        raw.send(
            c.bytes("POST", "/mail/messages", b"", headers=[]).replace(
                b"Content-Length: 0", b"Content-Length: 900000000"
            )
        )
        code(raw.answer(), 413, "RequestBodyTooLarge")
    with contextlib.closing(f.connect()) as raw:
        raw.send(c.bytes("POST", "/mail/messages", chunked=True))
        with pytest.raises(OSError):
            for _ in range(64):
                raw.send(b"40000\r\n" + b"x" * 0x40000 + b"\r\n")
                time.sleep(0.01)
    assert c.count("mail") == 0


BAD_PUTS = [
    ("messagettl=0", "InvalidQueryParameterValue"),
    ("messagettl=-2", "InvalidQueryParameterValue"),
    ("messagettl=x", "InvalidQueryParameterValue"),
    ("messagettl=", "InvalidQueryParameterValue"),
    ("messagettl=1.5", "InvalidQueryParameterValue"),
    ("messagettl=5&messagettl=6", "InvalidQueryParameterValue"),
    ("visibilitytimeout=-1", "OutOfRangeQueryParameterValue"),
    (f"visibilitytimeout={WEEK + 1}", "OutOfRangeQueryParameterValue"),
    ("visibilitytimeout=99999999999999999999", "OutOfRangeQueryParameterValue"),
    ("visibilitytimeout=x", "InvalidQueryParameterValue"),
    ("visibilitytimeout=60&messagettl=60", "InvalidQueryParameterValue"),
    (f"visibilitytimeout={WEEK}", "InvalidQueryParameterValue"),
    ("timeout=x", "InvalidQueryParameterValue"),
]


def test_a_put_with_a_number_that_cannot_be_is_refused(c):
    for query, what in BAD_PUTS:
        code(c.call("POST", f"/mail/messages?{query}", XML.format("x")), 400, what)
        assert c.count("mail") == 0


BAD_GETS = [
    ("numofmessages=0", "OutOfRangeQueryParameterValue"),
    ("numofmessages=33", "OutOfRangeQueryParameterValue"),
    ("numofmessages=x", "InvalidQueryParameterValue"),
    ("visibilitytimeout=0", "OutOfRangeQueryParameterValue"),
    (f"visibilitytimeout={WEEK + 1}", "OutOfRangeQueryParameterValue"),
    ("numofmessages=1&numofmessages=2", "InvalidQueryParameterValue"),
]


def test_a_get_with_a_number_that_cannot_be_is_refused(c):
    for query, what in BAD_GETS:
        code(c.call("GET", f"/mail/messages?{query}"), 400, what)


def seconds(text):
    return time.mktime(time.strptime(text, "%a, %d %b %Y %H:%M:%S GMT"))


def test_times_are_whole_seconds_of_one_clock(c):
    m = c.put("mail", query="?messagettl=100")
    assert (
        seconds(m["ExpirationTime"]) - seconds(m["InsertionTime"]) == 100 and m["TimeNextVisible"] == m["InsertionTime"]
    )
    m = c.put("mail")
    assert seconds(m["ExpirationTime"]) - seconds(m["InsertionTime"]) == WEEK
    for ttl in ("-1", "9007199254740991", "9223372036854775807", "99999999999999999999999"):
        assert c.put("mail", query="?messagettl=" + ttl)["ExpirationTime"] == "Fri, 31 Dec 9999 23:59:59 GMT"
    m = c.put("mail", query="?visibilitytimeout=60")
    assert seconds(m["TimeNextVisible"]) - seconds(m["InsertionTime"]) == 60
    assert len(c.get("mail", 32)) == 6


def test_hidden_messages_come_back_and_expired_ones_do_not(c):
    c.put("mail", "hidden")
    first = c.get("mail", query="&visibilitytimeout=4")[0]
    assert c.get("mail") == [] and c.peek("mail") == [] and c.count("mail") == 1
    again = harness.wait_for(lambda: c.get("mail", query="&visibilitytimeout=60"), 20)[0]
    assert again["DequeueCount"] == "2" and again["MessageId"] == first["MessageId"]
    code(c.delete("mail", first), 400, "PopReceiptMismatch")
    assert c.delete("mail", again).status == 204
    c.put("mail", "short", query="?messagettl=1")
    harness.wait_for(lambda: c.count("mail") == 0, 20, "a message that is gone")
    assert c.get("mail") == []


def test_an_update_renews_the_lease_or_replaces_the_text(c):
    put = c.put("mail", "first")
    path = lambda m, rest: f"/mail/messages/{m['MessageId']}?popreceipt={m['PopReceipt']}{rest}"  # noqa: E731
    # The receipt of the put is good until the message is taken.
    got = c.call("PUT", path(put, "&visibilitytimeout=0"), XML.format("second"))
    assert got.status == 204 and got.body == b"", got
    code(c.delete("mail", put), 400, "PopReceiptMismatch")
    m = c.get("mail")[0]
    assert m["MessageText"] == "second" and m["DequeueCount"] == "1"
    code(c.delete("mail", dict(m, PopReceipt=got.header("x-ms-popreceipt"))), 400, "PopReceiptMismatch")
    got = c.call("PUT", path(m, "&visibilitytimeout=100"), b"")
    assert got.status == 204 and got.header("x-ms-popreceipt") not in (None, m["PopReceipt"])
    assert 98 <= seconds(got.header("x-ms-time-next-visible")) - seconds(got.header("date")) <= 101
    m["PopReceipt"] = got.header("x-ms-popreceipt")
    got = c.call("PUT", path(m, "&visibilitytimeout=0"), "<QueueMessage><MessageText/></QueueMessage>")
    assert got.status == 204 and c.peek("mail")[0]["MessageText"] == "" and c.peek("mail")[0]["DequeueCount"] == "1"
    m["PopReceipt"] = got.header("x-ms-popreceipt")
    code(c.call("PUT", path(m, ""), b""), 400, "MissingRequiredQueryParameter")
    code(
        c.call("PUT", f"/mail/messages/{m['MessageId']}?visibilitytimeout=1", b""), 400, "MissingRequiredQueryParameter"
    )
    code(c.call("PUT", path(m, f"&visibilitytimeout={WEEK + 1}"), b""), 400, "OutOfRangeQueryParameterValue")
    code(c.call("PUT", path(m, "&visibilitytimeout=1"), XML.format("x" * 65537)), 413, "RequestBodyTooLarge")
    code(c.call("PUT", path(m, "&visibilitytimeout=1"), b"<x/>"), 400, "InvalidXmlDocument")
    assert c.delete("mail", m).status == 204


def test_ids_and_receipts_that_are_none_are_those_of_no_message(c):
    m = c.put("mail")
    for id_ in (
        "no-guid",
        "00000000-0000-0000-0000-000000000000",
        "..",
        "%2F%2F",
        "x" * 500,
        "6012a834-f3cf-410f-bddd-dc29ee36de2a",
    ):
        code(c.call("DELETE", f"/mail/messages/{id_}?popreceipt={m['PopReceipt']}"), 404, "MessageNotFound")
        code(c.call("DELETE", f"/none/messages/{id_}?popreceipt={m['PopReceipt']}"), 404, "QueueNotFound")
    for receipt in ("", "x", "AgAAAAMAAAA%2B%2Fw%3D%3D", "x" * 500, "AAAAAAAAAAA"):
        code(c.call("DELETE", f"/mail/messages/{m['MessageId']}?popreceipt={receipt}"), 400, "PopReceiptMismatch")
    code(c.call("DELETE", f"/mail/messages/{m['MessageId']}"), 400, "MissingRequiredQueryParameter")
    code(
        c.call("DELETE", f"/mail/messages/{m['MessageId']}?popreceipt=a&popreceipt=b"),
        400,
        "InvalidQueryParameterValue",
    )
    assert c.delete("mail", dict(m, MessageId=m["MessageId"].upper())).status == 204


def test_clearing_takes_all_hidden_ones_too(c):
    for i in range(5):
        c.put("mail", str(i))
    c.get("mail", 2)
    assert c.call("DELETE", "/mail/messages").status == 204
    assert c.count("mail") == 0 and c.call("DELETE", "/mail/messages").status == 204
    code(c.call("DELETE", "/none/messages"), 404, "QueueNotFound")


def test_peekonly_is_a_peek_only_when_it_says_true(c):
    c.put("mail")
    c.get("mail", query="&peekonly=false")
    assert c.peek("mail") == []


def test_no_message_goes_to_two_consumers(f, c):
    n = 300
    for i in range(n):
        c.put("mail", str(i))

    def consume(_):
        mine, client = [], f.client()
        while True:
            got = client.get("mail", 7)
            if not got:
                return mine
            for m in got:
                assert client.delete("mail", m).status == 204
            mine += [m["MessageText"] for m in got]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        got = [t for mine in pool.map(consume, range(8)) for t in mine]
    assert sorted(got, key=int) == [str(i) for i in range(n)]


def test_what_c_and_sql_deferred_is_read_and_what_is_put_here_is_a_job(f, c, db):
    job = db.one(
        "select deferred.defer(null, %s::json, '{\"queue\": \"devstoreaccount1.mail\"}')", '{"to": "a@b",  "n": 1e400}'
    )
    m = c.get("mail")[0]
    assert m["MessageText"] == '{"to": "a@b",  "n": 1e400}'
    assert c.delete("mail", m).status == 204
    assert db.log(job) == [(1, "ok")]
    # XML cannot carry these: neither may spoil the others.
    db.sql("select deferred.defer(null, %s::json, '{\"queue\": \"devstoreaccount1.mail\"}')", '"\\u0000"')
    db.sql("select deferred.defer(null, %s::json, '{\"queue\": \"devstoreaccount1.mail\"}')", '"a\\u0001b\\uffff"')
    db.sql("select deferred.defer(null, %s::json, '{\"queue\": \"devstoreaccount1.mail\"}')", '"plain"')
    assert [m["MessageText"] for m in c.get("mail", 32)][1:] == ["a\ufffdb\ufffd", "plain"]
    # A carriage return that stands in XML as it is would be read as a line feed.
    text = "a\r\nb\rc\r"
    db.sql("select deferred.defer(null, %s::json, '{\"queue\": \"devstoreaccount1.mail\"}')", json.dumps(text))
    assert c.peek("mail")[-1]["MessageText"] == text
    # The client for JavaScript would show the entity.
    for agent in (
        ("User-Agent", "azsdk-js-storagequeue/12.32.0 Node/v20"),
        ("x-ms-useragent", "azsdk-js-storagequeue/12.32.0"),
    ):
        assert b"<MessageText>a\r\nb\rc\r</" in c.call("GET", "/mail/messages?peekonly=true", headers=[agent]).body
    assert c.get("mail")[0]["MessageText"] == text
    assert c.call("GET", "/?comp=list&prefix=a%0D%0Ab").xml.find("Prefix").text == "a\r\nb"
    c.put("mail", 'say "hi"')
    assert db.sql("select fn, params::text from deferred.__deferred order by id desc limit 1") == [
        (None, '"say \\"hi\\""')
    ]


def test_messages_of_a_queue_with_a_function_are_calls_of_it(c, db):
    """Deferred in any language, run by a plugin written in C."""
    assert db.run(["deferred", "account", "allow", c.account, "echo"]).returncode == 0
    c.create("calls", deferred_function="echo")
    assert c.call("GET", "/calls?comp=metadata").header("x-ms-meta-deferred_function") == "echo"
    c.put("calls", '{"to": "a@example.org"}')
    c.put("calls", "plain words")
    done = db.run(["check_deferred", "--cnt", "0"])
    assert done.returncode == 0, done.stderr
    assert db.sql(
        "select fn, params::text, outcome, result::text from deferred.__deferred join deferred.__deferred_log "
        "on job_id = id order by id"
    ) == [
        ("echo", '{"to": "a@example.org"}', "ok", '{"to": "a@example.org"}'),
        ("echo", '"plain words"', "ok", '"plain words"'),
    ]
    assert c.count("calls") == 0
    code(
        c.call("PUT", "/calls?comp=metadata", headers=[("x-ms-meta-deferred_function", "no name!")]),
        400,
        "InvalidMetadata",
    )


def test_a_message_that_was_taken_too_often_goes_to_the_poison_queue(c):
    c.create("work", deferred_max_dequeue="2")
    c.put("work", "bad")
    for _ in range(2):
        m = harness.wait_for(lambda: c.get("work", query="&visibilitytimeout=1"), 20)[0]
    harness.wait_for(lambda: c.get("work") == [] and c.count("work") == 0, 20, "the third get to move it")
    m = c.get("work-poison")[0]
    assert m["MessageText"] == "bad" and c.delete("work-poison", m).status == 204


def test_a_role_that_is_a_member_of_deferred_http_is_enough(db):
    db.sql(f"drop role if exists front_{os.getpid()}")
    db.sql(f"create role front_{os.getpid()} login in role deferred_http")
    try:
        f = front.Front(db, "--db", f"{db.conninfo} user=front_{os.getpid()}")
        c = f.client()
        c.create("mail")
        c.put("mail")
        assert c.call("PUT", "/?restype=service&comp=properties", PROPERTIES).status == 202
        assert c.delete("mail", c.get("mail")[0]).status == 204
        c.put("mail", query="?messagettl=1")
        harness.wait_for(
            lambda: db.one("select count(*) from deferred.__deferred_log where outcome = 'expired'") == 1,
            20,
            "the sweep",
        )
        assert f.stop() == 0 and "error" not in f.program.output(), f.program.output()
    finally:
        db.sql("select pg_terminate_backend(pid) from pg_stat_activity where usename = %s", f"front_{os.getpid()}")
        db.sql(f"drop owned by front_{os.getpid()}")
        db.sql(f"drop role front_{os.getpid()}")


# ---- who may


@pytest.mark.slow
def test_without_a_right_signature_nothing_is_learnt_and_nothing_changed(f, c, db):
    m = c.put("mail", "secret")
    wrong = base64.b64encode(b"w" * 64).decode()
    stranger = f.client("stranger", wrong)
    paths = [
        ("GET", "/mail/messages", None),
        ("GET", "/mail/messages?peekonly=true", None),
        ("DELETE", "/mail/messages", None),
        ("DELETE", "/mail", None),
        ("PUT", "/fresh", None),
        ("POST", "/mail/messages", XML.format("x")),
        ("GET", "/?comp=list", None),
        ("GET", "/mail?comp=metadata", None),
        ("HEAD", "/none?comp=metadata", None),
        ("GET", "/none/messages", None),
        ("PUT", "/mail?comp=metadata", None),
        ("GET", "/mail?comp=acl", None),
        ("DELETE", f"/mail/messages/{m['MessageId']}?popreceipt={m['PopReceipt']}", None),
        ("POST", "/mail/messages", b"x" * 600000),
        ("PUT", "/?restype=service&comp=properties", "<StorageServiceProperties><Cors/></StorageServiceProperties>"),
        ("PUT", f"/mail/messages/{m['MessageId']}?popreceipt={m['PopReceipt']}&visibilitytimeout=60", XML.format("x")),
    ]
    before = db.sql("select * from deferred.__deferred_hot"), db.sql("select * from deferred.__deferred_queue")
    bodies = set()
    for method, path, body in paths:
        for client, how in (
            (c, {"key": wrong}),
            (stranger, {}),
            (c, {"signed": False}),
            (c, {"date": now(-16 * 60)}),
            (c, {"date": now(16 * 60)}),
            (c, {"date": False}),
            (c, {"signed": False, "headers": [("Authorization", "Bearer abc")]}),
            (c, {"signed": False, "headers": [("Authorization", "SharedKey")]}),
            (c, {"headers": [("Authorization", "SharedKey x:y")]}),
        ):
            got = code(client.call(method, path, body, **how), 403, "AuthenticationFailed")
            # But for the text that had to be signed, which is made of the request alone: test_refusals.py.
            bodies.add(
                re.sub(
                    rb"(RequestId|Time):\S+?(?=[<\n])|<AuthenticationErrorDetail>[^<]+</AuthenticationErrorDetail>",
                    b"",
                    got.body,
                )
            )
    assert len(bodies - {b""}) == 1, "each of them gets the same answer"
    assert (
        db.sql("select * from deferred.__deferred_hot"),
        db.sql("select * from deferred.__deferred_queue"),
    ) == before
    assert all("account" not in line or line["auth"] for line in f.log() if line["status"] == 200 and "op" in line)


def test_a_changed_request_is_no_longer_the_signed_one(c, f):
    c.put("mail")
    good = c.bytes("GET", "/mail/messages?numofmessages=1")
    for old, new in (
        (b"numofmessages=1", b"numofmessages=2"),
        (b"x-ms-version: 2021-12-02", b"x-ms-version: 2021-12-03"),
        (b"GET", b"DELETE"),
        (b"\r\nx-ms-date", b"\r\nx-ms-meta-a: b\r\nx-ms-date"),
        (b"/mail/", b"/mai%6C/"),
        (b"Host", b"If-Match: x\r\nHost"),
    ):
        assert old in good
        with contextlib.closing(f.connect()) as raw:
            raw.send(good.replace(old, new, 1))
            code(raw.answer(), 403, "AuthenticationFailed")
    assert c.count("mail") == 1 and len(c.peek("mail")) == 1


def test_each_form_of_signature_is_taken_in_both_forms_of_address(c, f):
    host = f"{c.account}.queue.example.test"
    second = f"{c.account}-secondary.queue.example.test"
    for how in (
        {},
        {"lite": True},
        {"host": host},
        {"host": host, "lite": True},
        {"version": None},
        {"version": None, "host": host},
        {"host": second},
        {"account": c.account + "-secondary"},
    ):
        assert c.call("GET", "/mail/messages", **how).status == 200, how
    absolute = (
        c.bytes("GET", "/mail/messages", host=host)
        .replace(b"GET /mail", b"GET http://" + host.encode() + b"/mail")
        .replace(b"Host: " + host.encode(), b"Host: x")
    )
    with contextlib.closing(f.connect()) as raw:
        raw.send(absolute)
        assert raw.answer().status == 200


@pytest.mark.slow
def test_keys_are_rotated_and_accounts_disabled_while_it_runs(f, c, db):
    key1, key2 = f.add_account("turner")
    one, two = f.client("turner", key1), f.client("turner", key2)
    one.create("mail")
    two.put("mail")
    assert db.run(["deferred", "account", "rotate", "turner", "--key", "1"]).returncode == 0
    harness.wait_for(lambda: one.call("GET", "/mail/messages").status == 403, 5, "the old key to be refused within 5 s")
    assert two.call("GET", "/mail/messages").status == 200
    assert db.run(["deferred", "account", "disable", "turner"]).returncode == 0
    harness.wait_for(lambda: two.call("GET", "/mail/messages").status == 403, 5, "the account to be refused within 5 s")
    assert db.run(["deferred", "account", "enable", "turner"]).returncode == 0
    # What may be right is looked at again at once.
    assert two.call("GET", "/mail/messages").status == 200
    assert db.run(["deferred", "account", "rm", "turner"]).returncode == 0
    harness.wait_for(lambda: two.call("GET", "/mail/messages").status == 403, 5, "the account to be gone within 5 s")


def test_without_the_key_of_the_keys_nobody_is_let_in_and_the_log_says_why(db):
    f = front.Front(db)
    f.client().create("mail")
    assert f.stop() == 0
    os.rename(f.key_file, f.key_file + ".away")
    f.start(wait=False)
    code(f.client().call("GET", "/mail/messages"), 503, "ServerBusy")
    harness.wait_for(lambda: f.key_file in f.program.output())
    assert f.plain("GET", "/readyz").status == 503
    with open(f.key_file, "w") as other:
        os.fchmod(other.fileno(), 0o600)
        other.write(base64.b64encode(os.urandom(32)).decode() + "\n")
    # Another key: what it makes of the keys is none.
    code(
        harness.wait_for(lambda: [g for g in [f.client().call("GET", "/mail/messages")] if g.status != 503])[0],
        403,
        "AuthenticationFailed",
    )
    harness.wait_for(
        lambda: "another key file" in f.program.output() or "decrypt" in f.program.output(),
        what="a reason in the log: " + f.program.output(),
    )
    os.rename(f.key_file + ".away", f.key_file)
    harness.wait_for(
        lambda: f.client().call("GET", "/mail/messages").status == 200,
        20,
        "the right key to be taken without a restart",
    )
    assert f.program.output().count("accounts: ") <= 3, "each reason is said once"
    assert f.stop() == 0


def sas(client, **fields):
    """The query of an account SAS."""
    q = {"sv": "2021-12-02", "ss": "q", "srt": "sco", "sp": "rwdlacup", "se": "2099-01-01T00:00:00Z", **fields}
    q = {k: v for k, v in q.items() if v is not None}
    text = "".join(q.get(k, "") + "\n" for k in ("sp", "ss", "srt", "st", "se", "sip", "spr", "sv", "ses"))
    return urllib.parse.urlencode({**q, "sig": client.sign(client.account + "\n" + text)})


def queue_sas(client, queue, **fields):
    q = {"sv": "2021-12-02", **fields}
    text = "\n".join(
        [
            q.get("sp", ""),
            q.get("st", ""),
            q.get("se", ""),
            f"/queue/{client.account}/{queue}",
            q.get("si", ""),
            q.get("sip", ""),
            q.get("spr", ""),
            q["sv"],
        ]
    )
    return urllib.parse.urlencode({**q, "sig": client.sign(text)})


def test_a_token_of_the_account_gives_what_it_says(c):
    bare = {"signed": False, "date": False}
    assert c.call("GET", "/?comp=list&" + sas(c), **bare).status == 200
    assert c.call("GET", "/?comp=list&" + sas(c), version=None, **bare).status == 200
    assert c.call("PUT", "/made-by-token?" + sas(c, sp="c"), **bare).status == 201
    assert c.call("POST", "/mail/messages?" + sas(c, srt="o", sp="a"), XML.format("x"), **bare).status == 201
    assert c.call("GET", "/mail/messages?peekonly=true&" + sas(c, srt="o", sp="r"), **bare).status == 200
    for query, what in (
        (sas(c, sp="rw"), "AuthorizationPermissionMismatch"),
        (sas(c, srt="co"), "AuthorizationResourceTypeMismatch"),
        (sas(c, ss="bf"), "AuthorizationServiceMismatch"),
        (sas(c, spr="https"), "AuthorizationProtocolMismatch"),
        (sas(c, sip="10.1.2.3"), "AuthorizationSourceIPMismatch"),
        (sas(c, se="2020-01-01"), "AuthenticationFailed"),
        (sas(c, st="2098-01-01"), "AuthenticationFailed"),
        (sas(c) + "x", "AuthenticationFailed"),
        (sas(c) + "&sig=x", "AuthenticationFailed"),
        (sas(c).replace("rwdlacup", "rwdlacupx"), "AuthenticationFailed"),
    ):
        code(c.call("GET", "/?comp=list&" + query, **bare), 403, what)
    assert c.call("GET", "/?comp=list&" + sas(c, sip="127.0.0.1", spr="https,http"), **bare).status == 200
    code(c.call("GET", "/mail?comp=acl&" + sas(c), **bare), 403, "AuthorizationResourceTypeMismatch")


def acl(*policies):
    return (
        "<SignedIdentifiers>"
        + "".join(
            f"<SignedIdentifier><Id>{p['id']}</Id><AccessPolicy>"
            + "".join(
                f"<{n}>{p[k]}</{n}>" for n, k in (("Start", "st"), ("Expiry", "se"), ("Permission", "sp")) if k in p
            )
            + "</AccessPolicy></SignedIdentifier>"
            for p in policies
        )
        + "</SignedIdentifiers>"
    )


def test_a_token_of_a_queue_takes_the_rest_from_a_stored_policy(c):
    bare = {"signed": False, "date": False}
    c.put("mail")
    assert (
        c.call("GET", "/mail/messages?peekonly=true&" + queue_sas(c, "mail", sp="r", se="2099-01-01"), **bare).status
        == 200
    )
    code(
        c.call("GET", "/mail/messages?" + queue_sas(c, "mail", sp="r", se="2099-01-01"), **bare),
        403,
        "AuthorizationPermissionMismatch",
    )
    code(
        c.call("GET", "/other/messages?peekonly=true&" + queue_sas(c, "mail", sp="r", se="2099-01-01"), **bare),
        403,
        "AuthenticationFailed",
    )
    by_policy = queue_sas(c, "mail", si="readers")
    code(c.call("GET", "/mail/messages?peekonly=true&" + by_policy, **bare), 403, "AuthenticationFailed")
    assert (
        c.call(
            "PUT",
            "/mail?comp=acl",
            acl({"id": "readers", "sp": "r", "se": "2099-01-01T00:00:00.0000000Z"}, {"id": "empty"}),
        ).status
        == 204
    )
    assert c.call("GET", "/mail/messages?peekonly=true&" + by_policy, **bare).status == 200
    code(c.call("GET", "/mail/messages?" + by_policy, **bare), 403, "AuthorizationPermissionMismatch")
    code(
        c.call("GET", "/mail/messages?peekonly=true&" + queue_sas(c, "mail", si="readers", sp="r"), **bare),
        403,
        "AuthenticationFailed",
    )
    assert (
        c.call("GET", "/mail/messages?" + queue_sas(c, "mail", si="empty", sp="p", se="2099-01-01"), **bare).status
        == 200
    )
    got = c.call("GET", "/mail?comp=acl")
    assert (
        b"<Expiry>2099-01-01T00:00:00.0000000Z</Expiry><Permission>r</Permission>" in got.body
        and b"<Start>" not in got.body
    )
    assert c.call("HEAD", "/mail?comp=acl").body == b""
    # Taking it away counts at once.
    assert c.call("PUT", "/mail?comp=acl").status == 204
    code(c.call("GET", "/mail/messages?peekonly=true&" + by_policy, **bare), 403, "AuthenticationFailed")
    assert b"<SignedIdentifiers/>" in c.call("GET", "/mail?comp=acl").body
    for body in (
        acl(*[{"id": str(i)} for i in range(6)]),
        acl({"id": "a"}, {"id": "a"}),
        acl({"id": "x" * 65}),
        acl({"id": "a", "sp": "x"}),
        acl({"id": ""}),
        acl({"id": "a", "se": "soon"}),
        "<x/>",
    ):
        code(c.call("PUT", "/mail?comp=acl", body), 400, "InvalidXmlDocument")


# ---- service


PROPERTIES = (
    "<StorageServiceProperties><Logging><Version>1.0</Version><Delete>true</Delete><Read>true</Read>"
    "<Write>false</Write><RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy>"
    "</Logging><HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>"
    "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics><MinuteMetrics>"
    "<Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled>"
    "</RetentionPolicy></MinuteMetrics><Cors><CorsRule>"
    "<AllowedOrigins>http://a.example,http://b.example</AllowedOrigins>"
    "<AllowedMethods>GET,PUT</AllowedMethods><AllowedHeaders>x-ms-*</AllowedHeaders>"
    "<ExposedHeaders>x-ms-*,x-own</ExposedHeaders><MaxAgeInSeconds>200</MaxAgeInSeconds></CorsRule></Cors>"
    "</StorageServiceProperties>"
)


def test_service_properties_are_kept_as_they_were_set(c):
    set_ = lambda body: c.call("PUT", "/?restype=service&comp=properties", body)  # noqa: E731
    get = lambda: c.call("GET", "/?restype=service&comp=properties").body.decode().split("?>", 1)[1]  # noqa: E731
    assert set_(PROPERTIES).status == 202
    assert get() == PROPERTIES
    # What is not named stays as it was.
    assert set_("<StorageServiceProperties><Cors/></StorageServiceProperties>").status == 202
    assert get() == re.sub("<Cors>.*</Cors>", "<Cors/>", PROPERTIES)
    for old, new, what in (
        ("<Days>5", "<Days>366", "InvalidXmlNodeValue"),
        (">true<", ">yes<", "InvalidXmlNodeValue"),
        ("<Version>1.0</Version>", "", "MissingRequiredXmlNode"),
        ("GET,PUT", "GET,FLY", "InvalidXmlNodeValue"),
        (">200<", ">-1<", "InvalidXmlNodeValue"),
        ("<AllowedMethods>GET,PUT</AllowedMethods>", "", "MissingRequiredXmlNode"),
        ("StorageServiceProperties", "Other", "InvalidXmlDocument"),
        ("</Cors>", "", "InvalidXmlDocument"),
        ("x-ms-*,x-own", "x" * 2048, "InvalidXmlDocument"),
    ):
        code(set_(PROPERTIES.replace(old, new)), 400, what)
    rule = re.search("<CorsRule>.*</CorsRule>", PROPERTIES).group()
    code(set_(PROPERTIES.replace(rule, rule * 6)), 400, "InvalidXmlDocument")
    assert set_(PROPERTIES.replace(rule, rule.replace("x-ms-*,x-own", "").replace("x-ms-*", "") * 5)).status == 202
    assert get().count("<AllowedHeaders/><ExposedHeaders/>") == 5


def test_statistics_are_those_of_the_secondary(c):
    code(c.call("GET", "/?restype=service&comp=stats"), 400, "InvalidQueryParameterValue")
    got = c.call("GET", "/?restype=service&comp=stats", account=c.account + "-secondary")
    assert got.status == 200 and got.xml.findtext("GeoReplication/Status") == "live"
    code(c.call("POST", "/?restype=service&comp=userdelegationkey", "<x/>"), 403, "AuthenticationFailed")


def test_browsers_are_told_what_pages_may(f, c):
    origin, other = [("Origin", "http://A.example")], [("Origin", "http://c.example")]
    ask = [("Access-Control-Request-Method", "PUT"), ("Access-Control-Request-Headers", "X-Ms-Date,x-ms-version")]
    pre = lambda headers: c.call("OPTIONS", "/mail", headers=headers, signed=False, date=False)  # noqa: E731
    code(pre(origin + ask), 403, "CorsPreflightFailure")
    assert c.call("GET", "/mail/messages", headers=origin).header("vary") is None
    c.call("PUT", "/?restype=service&comp=properties", PROPERTIES)
    got = pre(origin + ask)
    assert got.status == 200 and got.body == b""
    assert {n: v for n, v in got.headers if n.startswith("Access-")} == {
        "Access-Control-Allow-Origin": "http://A.example",
        "Access-Control-Allow-Methods": "PUT",
        "Access-Control-Allow-Headers": "X-Ms-Date,x-ms-version",
        "Access-Control-Max-Age": "200",
        "Access-Control-Allow-Credentials": "true",
    }
    code(pre(other + ask), 403, "CorsPreflightFailure")
    code(pre(origin + [("Access-Control-Request-Method", "DELETE")]), 403, "CorsPreflightFailure")
    code(pre(origin + ask[:1] + [("Access-Control-Request-Headers", "x-other")]), 403, "CorsPreflightFailure")
    got = code(pre(origin), 400, "InvalidHeaderValue")
    assert got.xml.findtext("Message").startswith("A required CORS header is not present.\n")
    got = c.call("GET", "/mail/messages", headers=origin)
    assert got.header("access-control-allow-origin") == "http://A.example" and got.header("vary") == "Origin"
    assert "x-ms-request-id" in got.header("access-control-expose-headers").split(",") and "x-own" in got.header(
        "access-control-expose-headers"
    ).split(",")
    got = code(c.call("GET", "/none/messages", headers=origin), 404, "QueueNotFound")
    assert got.header("access-control-allow-origin") == "http://A.example" and "x-ms-error-code" in got.header(
        "access-control-expose-headers"
    )
    got = c.call("GET", "/mail/messages", headers=other)
    assert got.header("access-control-allow-origin") is None and got.header("vary") == "Origin"
    code(
        f.client("stranger", c.key).call("OPTIONS", "/mail", headers=origin + ask, signed=False),
        403,
        "CorsPreflightFailure",
    )


# ---- the form of 2008


def test_a_client_of_2008_puts_raw_bytes_and_reads_base64(c):
    old = {"version": None, "scheme": "SharedKey"}
    raw = bytes(range(256))
    md5 = ("Content-MD5", base64.b64encode(hashlib.md5(raw).digest()).decode())
    assert c.call("PUT", "/mail/messages?messagettl=3600", raw, headers=[md5], **old).status == 201
    got = c.get("mail", **old)[0]
    assert base64.b64decode(got["MessageText"]) == raw and "DequeueCount" not in got
    # Both forms find the same.
    c.put("mail", base64.b64encode(b"from today").decode())
    assert base64.b64decode(c.get("mail", **old)[0]["MessageText"]) == b"from today"
    assert c.call("PUT", "/mail/messages", b"x" * 8192, **old).status == 201
    assert c.get("mail")[0]["MessageText"] == base64.b64encode(b"x" * 8192).decode()
    assert c.call("PUT", "/mail/messages", b"", **old).status == 201
    code(c.call("PUT", "/mail/messages", b"x" * 8193, **old), 413, "RequestBodyTooLarge")
    code(c.call("PUT", "/mail/messages", b"x"), 405, "UnsupportedHttpVerb")
    code(c.call("PUT", "/mail/messages", b"x", headers=[("Content-MD5", "AAAA")], **old), 400, "InvalidMd5")
    code(c.call("PUT", "/mail/messages", b"x", headers=[("Content-MD5", "A" * 22 + "==")], **old), 400, "Md5Mismatch")
    code(c.call("PUT", f"/mail/messages?messagettl={WEEK + 1}", b"x", **old), 400, "OutOfRangeQueryParameterValue")
    code(c.call("PUT", "/mail/messages?messagettl=-1", b"x", **old), 400, "OutOfRangeQueryParameterValue")
    code(c.call("GET", "/mail/messages?visibilitytimeout=7201", **old), 400, "OutOfRangeQueryParameterValue")
    assert c.count("mail") == 4


# ---- HTTP


def test_requests_in_pieces_and_several_in_one_packet_are_answered_in_order(f, c):
    many = [c.bytes("POST", "/mail/messages", XML.format(i)) for i in range(20)] + [
        c.bytes("GET", "/mail/messages?numofmessages=32")
    ]
    with contextlib.closing(f.connect()) as raw:
        raw.send(b"".join(many))
        assert [raw.answer().status for _ in range(20)] == [201] * 20
        assert [m["MessageText"] for m in raw.answer().messages()] == [str(i) for i in range(20)]
    request = c.bytes("POST", "/mail/messages", XML.format("\u20ac in pieces"))
    with contextlib.closing(f.connect()) as raw:
        for i in range(0, len(request), 7):
            raw.send(request[i : i + 7])
            time.sleep(0.002)
        assert raw.answer().status == 201
    assert c.get("mail")[0]["MessageText"] == "\u20ac in pieces"


def test_a_body_may_come_in_chunks_or_after_100_continue(f, c):
    body = XML.format("chunked").encode()
    with contextlib.closing(f.connect()) as raw:
        raw.send(c.bytes("POST", "/mail/messages", chunked=True))
        for i in range(0, len(body), 10):
            piece = body[i : i + 10]
            raw.send(b"%x;ext=1\r\n" % len(piece) + piece + b"\r\n")
        raw.send(b"0\r\n\r\n")
        assert raw.answer().status == 201
        raw.send(c.bytes("POST", "/mail/messages", body, expect=True))
        assert raw.answer().status == 100
        raw.send(body)
        assert raw.answer().status == 201
    assert [m["MessageText"] for m in c.get("mail", 2)] == ["chunked"] * 2


DOUBTFUL = [
    lambda b: b.replace(b"Content-Length", b"Content-Length: 5\r\nContent-Length"),
    lambda b: b.replace(b"Content-Length", b"Transfer-Encoding: chunked\r\nContent-Length"),
    lambda b: b.replace(b"Content-Length", b"Transfer-Encoding: chunked, identity\r\nContent-Length"),
    lambda b: b.replace(b"Content-Length:", b"Content-Length :"),
    lambda b: re.sub(rb"Content-Length: \d+", b"Content-Length: +5", b),
    lambda b: re.sub(rb"Content-Length: \d+", b"Content-Length: -5", b),
    lambda b: re.sub(rb"Content-Length: \d+", b"Content-Length: 5x", b),
    lambda b: re.sub(rb"Content-Length: \d+", b"Content-Length: 99999999999999999999999", b),
    lambda b: re.sub(rb"Content-Length: \d+", b"Transfer-Encoding: xchunked", b),
    lambda b: re.sub(rb"Content-Length: \d+", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", b),
    lambda b: b.replace(b"Host:", b"Host: other\r\nHost:"),
]


def test_a_request_whose_end_is_in_doubt_is_refused_and_the_connection_closed(f, c):
    """What follows could be read as another request by one server, and as a body by the next."""
    for change in DOUBTFUL:
        smuggled = c.bytes("POST", "/mail/messages", XML.format("smuggled"))
        with contextlib.closing(f.connect()) as raw:
            raw.send(change(c.bytes("POST", "/mail/messages", XML.format("x"))) + smuggled)
            got = raw.answer()
            assert (
                got is not None and got.status in (400, 413) and got.header("connection") == "close" and got.code
            ), got
            assert raw.closed()
        assert c.count("mail") == 0


NONSENSE = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET\r\n\r\n",
    b"\x00\x01\x02\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /" + b"x" * 70000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 70000 + b"\r\n\r\n",
    b"GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /acct/q%zz HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nA: b\rc: d\r\n\r\n",
    b"* * *\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    b"TRACE / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PATCH /acct/mail HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000 + b"\r\n",
    b"GET /?" + b"a=%41&" * 3000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
]


def test_nonsense_is_a_client_error_or_no_answer(f, c):
    for nonsense in NONSENSE:
        with contextlib.closing(f.connect(timeout=0.5)) as raw:
            try:
                raw.send(nonsense)
                got = raw.answer()
            except OSError:  # closed while we sent, or it waits for more
                got = None
        assert got is None or 400 <= got.status < 500 or got.status == 505, (nonsense[:100], got)
    assert f.program.alive() and c.call("GET", "/mail/messages").status == 200


NO_OPERATIONS = [
    ("PATCH", "/mail", 405, "UnsupportedHttpVerb"),
    ("POST", "/mail", 405, "UnsupportedHttpVerb"),
    ("GET", "/mail/foo", 400, "InvalidUri"),
    ("PUT", "/mail?comp=foo", 400, "InvalidQueryParameterValue"),
    ("GET", "/mail", 400, "InvalidQueryParameterValue"),
    ("GET", "/mail/messages/a/b", 400, "InvalidUri"),
    ("GET", "/mail/messages/a", 405, "UnsupportedHttpVerb"),
    ("GET", "//messages", 400, "InvalidUri"),
    ("DELETE", "/?comp=list", 405, "UnsupportedHttpVerb"),
]


def test_what_is_no_operation_is_a_client_error_with_a_code(c):
    for method, path, status, what in NO_OPERATIONS:
        code(c.call(method, path), status, what)


def test_http_1_0_and_connection_close_are_answered_then_closed(f, c):
    for request in (
        c.bytes("GET", "/mail/messages").replace(b"HTTP/1.1", b"HTTP/1.0"),
        c.bytes("GET", "/mail/messages", headers=[("Connection", "close")]),
    ):
        with contextlib.closing(f.connect()) as raw:
            raw.send(request)
            assert raw.answer().status == 200
            assert raw.closed()


def test_the_body_of_a_get_is_passed_over(c):
    c.put("mail")
    assert c.call("GET", "/mail/messages?peekonly=true", b"x" * 1000).status == 200
    assert c.call("DELETE", "/mail/messages", b"").status == 204


def test_a_body_cut_short_stores_nothing(f, c):
    request = c.bytes("POST", "/mail/messages", XML.format("whole"))
    for cut in (1, 30, len(request) - 200):
        with contextlib.closing(f.connect()) as raw:
            raw.send(request[:-cut])
    time.sleep(0.1)
    assert c.count("mail") == 0


def test_a_client_that_goes_away_while_it_waits_harms_nobody(f, c):
    for _ in range(50):
        with contextlib.closing(f.connect()) as raw:
            raw.send(c.bytes("GET", "/mail/messages"))
    assert c.call("GET", "/mail/messages").status == 200


def test_connections_are_limited_for_each_address(db):
    f = front.Front(db, config="connections_per_address = 20\n")
    with contextlib.ExitStack() as stack:
        open_ = [stack.enter_context(contextlib.closing(f.connect())) for _ in range(40)]
        answered = 0
        for raw in open_:
            with contextlib.suppress(OSError):
                raw.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                got = raw.answer()
                answered += got is not None and got.status == 200
        assert 15 <= answered <= 20, answered
    harness.wait_for(f.ready, 20)


# ---- health, log, start and stop


def test_health_needs_no_authorization(f, c):
    for path, text in (("/healthz", b"alive\n"), ("/readyz", b"ready\n")):
        got = f.plain("GET", path)
        assert (got.status, got.body) == (200, text) and got.header("content-type") == "text/plain"
        assert f.plain("HEAD", path).status == 200
    code(f.plain("GET", "/healthz?comp=list"), 403, "AuthenticationFailed")


def test_each_request_is_a_line_of_the_access_log_without_secrets(f, c):
    m = c.put("mail", "private words")
    c.call("GET", "/mail/messages?" + queue_sas(c, "mail", sp="r", se="2099-01-01"), signed=False, date=False)
    c.call("GET", '/mail/messages', headers=[("User-Agent", 'evil"\\ \xe4'), ("x-ms-client-request-id", "id 7")])
    c.call("DELETE", f"/mail/messages/{m['MessageId']}?popreceipt={m['PopReceipt']}")
    lines = harness.wait_for(
        lambda: [line for line in f.log() if "op" in line][-4:] if "DeleteMessage" in str(f.log()) else None
    )
    assert [(line["op"], line["status"]) for line in lines] == [
        ("PutMessage", 201),
        ("GetMessages", 403),
        ("GetMessages", 200),
        ("DeleteMessage", 400),
    ]
    assert (
        lines[1]["code"] == "AuthorizationPermissionMismatch"
        and "auth" not in lines[1]
        and lines[3]["auth"] == "SharedKey"
    )
    assert lines[2]["agent"] == 'evil"\\ \xe4' and lines[2]["client_id"] == "id 7" and lines[2]["peer"] == "127.0.0.1"
    assert all(line["us"] > 0 and line["path"].startswith("/devstoreaccount1/mail/messages") for line in lines)
    with open(f.access_log) as log:
        text = log.read()
    assert "private" not in text and m["PopReceipt"] not in text and "sig" not in text


def test_sighup_opens_the_log_anew_and_tells_what_needs_a_restart(f, c):
    os.rename(f.access_log, f.access_log + ".1")
    f.write_config("threads = 2")
    f.program.signal(signal.SIGHUP)
    harness.wait_for(lambda: "settings reloaded" in f.program.output())
    c.put("mail")
    harness.wait_for(lambda: os.path.exists(f.access_log) and f.log())
    assert "setting 'http.threads' has changed; hint: restart to apply it" in f.program.output()
    f.write_config("threads = many")
    f.program.signal(signal.SIGHUP)
    harness.wait_for(lambda: "the old ones stay" in f.program.output())
    assert c.call("GET", "/mail/messages").status == 200


def test_a_pipe_that_nobody_reads_holds_nobody_up(f, c):
    """At SIGHUP, which leaves the log as it was; at the start, which is refused; and with a reader there is a log."""
    os.rename(f.access_log, f.access_log + ".1")
    os.mkfifo(f.access_log)
    f.program.signal(signal.SIGHUP)
    harness.wait_for(lambda: "nobody reads this pipe" in f.program.output())
    assert c.call("GET", "/mail/messages").status == 200
    assert f.stop() == 0
    refused = f.db.run(["deferred_http", "--listen", "127.0.0.1:0"], timeout=20)
    assert (
        refused.returncode == 73
        and "cannot open access log" in refused.stderr
        and "nobody reads this pipe" in refused.stderr
    ), refused
    reader = os.open(f.access_log, os.O_RDONLY | os.O_NONBLOCK)
    f.start()
    assert f.client().create("piped").status == 201
    harness.wait_for(lambda: select.select([reader], [], [], 1)[0] and b"CreateQueue" in os.read(reader, 65536))
    os.close(reader)


def test_sigterm_finishes_what_is_in_hand(f, c, db):
    """A put that waits for a lock in the database is answered, and new connections are refused meanwhile."""
    blocker = db.connect()
    with blocker.cursor() as cursor:
        cursor.execute("lock table deferred.__deferred_hot in access exclusive mode")
    got = []
    waiting = threading.Thread(target=lambda: got.append(c.put("mail", "in hand")))
    waiting.start()
    waits = (
        "select 1 from pg_stat_activity where application_name = 'deferred_http' and wait_event_type = 'Lock' "
        "and datname = current_database()"
    )
    harness.wait_for(lambda: db.sql(waits), what="the put waits")
    idle = f.connect()
    f.program.signal(signal.SIGTERM)
    time.sleep(0.3)
    assert f.program.alive()
    blocker.rollback()
    waiting.join()
    assert got and f.program.wait(20) == 0
    assert idle.closed()
    assert db.one("select count(*) from deferred.__deferred_hot") == 1


def test_a_start_that_cannot_be_says_why(db):
    def start(*options, config=""):
        db.config(config)
        done = db.run(["deferred_http", *options], timeout=20)
        return done.returncode, done.stderr

    rc, said = start("--listen", "256.1.1.1:x")
    assert rc == 78 and "cannot listen on '256.1.1.1:x'" in said
    rc, said = start("--listen", "")
    assert rc == 78 and "no address to listen on is set" in said and "set http.listen or http.listen_tls" in said
    rc, said = start("--listen-tls", "127.0.0.1:0")
    assert rc == 78 and "setting 'http.tls_certificate' is missing" in said
    rc, said = start("--tls-certificate", "/nowhere", "--tls-key", "/nowhere", "--listen-tls", "127.0.0.1:0")
    assert rc == 78 and "cannot use certificate '/nowhere'" in said
    rc, said = start("--access-log", "/nowhere/x")
    assert rc == 73 and "/nowhere/x" in said
    rc, said = start("--threads", "0")
    assert rc == 64 and "--threads" in said
    rc, said = start("--nonsense")
    assert rc == 64
    rc, said = start(config="http { idle_timeout = forever }")
    assert rc == 78 and "idle_timeout" in said
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        rc, said = start("--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        assert rc == 71 and "Address already in use" in said  # a service manager is to try again
    assert db.run(["deferred_http", "--version"]).stdout.startswith("deferred_http ")


def test_the_service_manager_may_hand_over_the_socket_and_is_told_when_it_is_served(db):
    f = front.Front(db, start=False)
    listening = socket.create_server(("127.0.0.1", 0))
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(os.path.join(db.dir, "notify"))
    manager.settimeout(20)

    def become():
        os.dup2(listening.fileno(), 3)
        os.set_inheritable(3, True)
        os.environ["LISTEN_PID"] = str(os.getpid())

    # The shell's exec keeps the pid, which LISTEN_PID has to name.
    f.program = db.spawn(
        ["sh", "-c", 'LISTEN_PID=$$ exec "$0" "$@"', harness.program("deferred_http")],
        preexec_fn=become,
        close_fds=False,
        env={"LISTEN_FDS": "1", "NOTIFY_SOCKET": os.path.join(db.dir, "notify")},
    )
    f.port = listening.getsockname()[1]
    assert manager.recv(1000).startswith(b"READY=1")
    harness.wait_for(f.ready)
    c = f.client()
    c.create("mail")
    f.program.signal(signal.SIGHUP)
    assert manager.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
    assert manager.recv(1000).startswith(b"READY=1")
    f.program.signal(signal.SIGTERM)
    assert manager.recv(1000).startswith(b"STOPPING=1")
    assert f.program.wait(20) == 0
    manager.close()
    listening.close()


# ---- TLS


def certificate(folder, name):
    key, cert = os.path.join(folder, name + ".key"), os.path.join(folder, name + ".pem")
    done = harness.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=" + name,
            "-addext",
            "subjectAltName=DNS:localhost",
            "-keyout",
            key,
            "-out",
            cert,
        ]
    )
    assert done.returncode == 0, done.stderr
    return cert, key


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused(db, mode):
    cert, key = certificate(db.dir, "one")
    db.config(
        f'http {{ listen = "127.0.0.1:0" listen_tls = "127.0.0.1:0" tls_certificate = "{cert}" tls_key = "{key}" }}\n'
    )
    os.chmod(key, mode)
    done = db.run(["deferred_http"])
    wrong = f"key '{key}' is open to others (mode {mode:04o}); hint: chmod 600 it"
    assert done.returncode == 78 and wrong in done.stderr


def test_https_shows_its_certificate_and_exchanges_it_under_way(db):
    import ssl

    one, two = certificate(db.dir, "one"), certificate(db.dir, "two")
    f = front.Front(db, "--listen-tls", "127.0.0.1:0", config=f'tls_certificate = "{one[0]}"\n tls_key = "{one[1]}"\n')
    plain = f.client()
    plain.create("mail")
    plain.put("mail", "over both")
    port = int(re.search(r"listening on \S+:(\d+), HTTPS", f.program.output()).group(1))

    def shown(trusted, least=ssl.TLSVersion.TLSv1_2, most=ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cafile=trusted[0])
        context.minimum_version, context.maximum_version = least, most
        raw = front.Connection.__new__(front.Connection)
        raw.socket, raw.buffer = (
            context.wrap_socket(socket.create_connection(("127.0.0.1", port), 10), server_hostname="localhost"),
            b"",
        )
        return raw

    kept = shown(one)
    kept.send(plain.bytes("GET", "/mail/messages?peekonly=true&" + sas(plain, spr="https"), signed=False, date=False))
    assert kept.answer().messages()[0]["MessageText"] == "over both"
    with pytest.raises((ssl.SSLError, OSError)):
        shown(one, ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1)
    with pytest.raises(ssl.SSLError):
        shown(two)
    # A key that is not the certificate's changes nothing.
    f.config = f'tls_certificate = "{two[0]}"\n tls_key = "{one[1]}"\n'
    f.write_config()
    f.program.signal(signal.SIGHUP)
    harness.wait_for(lambda: "is not that of certificate" in f.program.output())
    shown(one).close()
    f.config = f'tls_certificate = "{two[0]}"\n tls_key = "{two[1]}"\n'
    f.write_config()
    f.program.signal(signal.SIGHUP)
    harness.wait_for(lambda: "settings reloaded" in f.program.output())
    with contextlib.closing(shown(two)) as raw:
        raw.send(plain.bytes("GET", "/mail/messages?peekonly=true"))
        assert raw.answer().status == 200
    kept.send(plain.bytes("GET", "/mail/messages?peekonly=true"))
    assert kept.answer().status == 200
    kept.close()
    assert f.stop() == 0


# ---- what dies


def put_until_it_dies(f, done, stop):
    """Texts that were answered 201, by several connections at once."""

    def one(k):
        client = f.client()
        for i in range(100000):
            if stop.is_set():
                return
            text = f"{k}-{i}"
            try:
                got = client.call("POST", "/mail/messages", XML.format(text))
            except (OSError, AssertionError):
                got = None
            if got is None:
                client.close()
                time.sleep(0.05)
            elif got.status == 201:
                done.add(text)
            else:
                assert got.status == 503, got
                time.sleep(0.02)

    threads = [threading.Thread(target=one, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    return threads


def all_texts(f):
    client, seen = f.client(), set()
    while True:
        got = client.get("mail", 32, "&visibilitytimeout=600")
        if not got:
            return seen
        seen |= {m["MessageText"] for m in got}


def test_no_answered_put_is_lost_when_the_front_is_killed(f, c):
    done, stop = set(), threading.Event()
    threads = put_until_it_dies(f, done, stop)
    for _ in range(3):
        harness.wait_for(lambda: len(done) > 200, 30)
        time.sleep(0.2)
        f.program.kill()
        f.start()
    stop.set()
    for t in threads:
        t.join()
    assert len(done) > 200 and done <= all_texts(f)


@pytest.mark.slow
def test_no_answered_put_is_lost_when_postgresql_is_killed(own_server):
    f = front.Front(own_server)
    f.client().create("mail")
    done, stop = set(), threading.Event()
    threads = put_until_it_dies(f, done, stop)
    for _ in range(2):
        before = len(done)
        harness.wait_for(lambda: len(done) > before + 200, 60)
        own_server.kill()
        harness.wait_for(lambda: f.plain("GET", "/readyz").status == 503, 20)
        assert f.plain("GET", "/healthz").status == 200
        code(f.client().call("GET", "/mail/messages"), 503, "ServerBusy")
        # Who is not known learns no more than before.
        code(
            f.client(key=base64.b64encode(b"w" * 64).decode()).call("GET", "/mail/messages"),
            403,
            "AuthenticationFailed",
        )
        own_server.start()
        harness.wait_for(f.ready, 30)
    stop.set()
    for t in threads:
        t.join()
    assert len(done) > 400 and done <= all_texts(f)
    assert f.stop() == 0


def test_an_answered_put_is_stored_even_where_others_need_not_wait_for_it(own_server):
    """Without our setting the server would have written it ten seconds later."""
    own_server.sql("alter system set synchronous_commit = off")
    own_server.sql("alter system set wal_writer_delay = '10s'")
    own_server.sql("select pg_reload_conf()")
    f = front.Front(own_server)
    f.client().create("mail")
    f.client().put("mail", "stored")
    own_server.kill()
    own_server.start()
    got = harness.wait_for(lambda: [g for g in [f.client().call("GET", "/mail/messages")] if g.status == 200], 30)[0]
    assert [m["MessageText"] for m in got.messages()] == ["stored"]


def test_a_database_without_the_schema_is_not_ready_and_becomes_so(cluster, db):
    f = front.Front(db)
    c = f.client()
    c.create("mail")
    db.sql("alter schema deferred rename to away")
    harness.wait_for(lambda: f.plain("GET", "/readyz").status == 503, 20)
    code(c.call("GET", "/mail/messages"), 503, "ServerBusy")
    db.sql("alter schema away rename to deferred")
    harness.wait_for(f.ready, 20)
    assert c.call("GET", "/mail/messages").status == 200


# ---- many


@pytest.mark.slow
def test_everything_at_once_for_a_while(db):
    """Each kind of request by several clients, while settings are read anew, keys exchanged and
    connections to the database cut."""
    f = front.Front(db, "--threads", "2", "--db-connections", "3")
    f.add_account("turner")
    f.client().create("mail")
    f.client().create("other")
    end, seen = time.monotonic() + 6, []

    def one(seed):
        draw, client = random.Random(seed), f.client()
        while time.monotonic() < end:
            kind = draw.choice(
                [
                    "put",
                    "put",
                    "put",
                    "get",
                    "get",
                    "peek",
                    "list",
                    "properties",
                    "wrong",
                    "clear",
                    "large",
                    "close",
                    "leave",
                    "ready",
                    "metadata",
                ]
            )
            if kind == "put":
                seen.append(client.call("POST", "/mail/messages", XML.format("x" * draw.randrange(3000))).status)
            elif kind == "get":
                got = client.call("GET", f"/mail/messages?numofmessages={draw.randint(1, 32)}")
                seen.append(got.status)
                for m in got.messages() if got.status == 200 else []:
                    rest = f"/mail/messages/{m['MessageId']}?popreceipt={m['PopReceipt']}"
                    seen.append(
                        client.call("DELETE", rest).status
                        if draw.random() < 0.8
                        else client.call("PUT", rest + "&visibilitytimeout=0", XML.format("y")).status
                    )
            elif kind == "peek":
                seen.append(client.call("GET", "/mail/messages?peekonly=true&numofmessages=32").status)
            elif kind == "list":
                seen.append(client.call("GET", "/?comp=list&include=metadata").status)
            elif kind == "properties":
                seen.append(client.call("PUT", "/?restype=service&comp=properties", PROPERTIES).status)
            elif kind == "wrong":
                assert client.call("GET", "/mail/messages", key="d3Jvbmc=").status == 403
            elif kind == "clear":
                seen.append(client.call("DELETE", "/other/messages").status)
            elif kind == "large":
                seen.append(client.call("POST", "/mail/messages", b"x" * 600000).status)
            elif kind == "close":
                client.close()
            elif kind == "leave":
                with contextlib.closing(f.connect()) as raw:
                    raw.send(client.bytes("GET", "/mail/messages"))
            elif kind == "ready":
                f.plain("GET", "/readyz")
            else:
                seen.append(
                    client.call("PUT", "/mail?comp=metadata", headers=[("x-ms-meta-a", str(draw.random()))]).status
                )

    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        running = [pool.submit(one, seed) for seed in range(10)]
        for i in range(4):
            time.sleep(1)
            f.program.signal(signal.SIGHUP)
            assert db.run(["deferred", "account", "rotate", "turner", "--key", "1"]).returncode == 0
        before = set(seen)
        db.sql(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'deferred_http' "
            "and datname = current_database()"
        )
        for r in running:
            r.result()
    assert before <= {200, 201, 202, 204, 413, 400, 404}, before
    assert set(seen) <= before | {503, 404, 400} and len(seen) > 200
    assert f.stop() == 0, f.program.output()
