"""The function http against a real server that misbehaves: what each answer makes of the job, which addresses are
connected to, what is sent, and how it is signed."""

import base64
import email.utils
import json
import os
import re
import subprocess
import time

import pytest

import node
import pg
from harness import wait_for
from hostile import Hostile
from nameserver import NameServer

ALLOW = {"http.allow": "127.0.0.1/32"}
# The secret of the published test vector, and another one.
SECRET, NEXT = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_" + base64.b64encode(bytes(range(32))).decode()
SHOP = {**ALLOW, "http.secrets": "shop:shop.secret"}


@pytest.fixture
def server():
    with Hostile() as server:
        yield server


@pytest.fixture
def secret_file(tmp_path):
    """secret_file(text): writes shop.secret, where functions are called."""

    def write(text, mode=0o600):
        path = tmp_path / "shop.secret"
        path.write_text(text)
        path.chmod(mode)
        return path

    write(SECRET + "\n")
    return write


# ---- verdicts: path, what the call returns, and what its result or error says

VERDICTS = [
    # A success, and its body.
    ("/ok", "ok", "hello"),
    ("/status/201?body=made", "ok", "made"),
    ("/status/204", "ok", ""),
    ("/chunked", "ok", "hello"),
    ("/until-the-end", "ok", "hello"),
    ("/two-heads-of-1xx", "ok", "hello"),
    ("/longer-than-it-says", "ok", "hello"),
    ("/long-text", "ok", "x" * 8192),
    ("/text-cut-in-a-character", "ok", "x" + "ü" * 4095),
    ("/text-with-a-broken-end", "ok", "base64:dGV4dMM="),
    ("/binary", "ok", "base64:" + base64.b64encode((bytes(range(256)) * 40)[:6000]).decode()),
    ("/nul-in-the-body", "ok", "base64:YQBi"),
    ("/gzip-bomb", "ok", "base64:H4sI"),
    # Dead at once.
    *[(f"/status/{code}?body=no", "dead", f"status {code}: no") for code in (400, 401, 403, 404, 407, 410, 422, 499)],
    ("/status/304", "dead", "status 304"),
    ("/status/302?Location=/ok", "dead", "status 302, a redirect; hint: write the new URL"),
    ("/terminal-escapes", "dead", r"status 404: \x1b]0;title\x07\nsecond line"),
    ("/slow-body-of-an-error", "dead", "status 404: z"),
    ("/huge-body", "dead", "the answer has more than 16 MiB"),
    ("/endless-body", "dead", "the answer has more than 16 MiB"),
    ("/endless-chunks", "dead", "the answer has more than 16 MiB"),
    # Retried.
    *[(f"/status/{code}?body=no", "failed", f"status {code}: no") for code in (408, 425, 429, 500, 502, 503, 504, 599)],
    ("/status/999", "failed", "status 999"),
    ("/endless-body-of-an-error", "failed", "status 500: xxx"),
    ("/never-answers", "failed", "timed out"),
    ("/slow-head", "failed", "timed out"),
    ("/slow-body", "failed", "timed out"),
    ("/switches-protocols", "failed", ""),
    ("/closes-at-once", "failed", "Empty reply"),
    ("/closes-in-the-head", "failed", ""),
    ("/half-closed", "failed", "Empty reply"),
    ("/resets", "failed", "reset"),
    ("/resets-in-the-body", "failed", "reset"),
    ("/shorter-than-it-says", "failed", ""),
    ("/two-lengths", "failed", ""),
    ("/length-below-zero", "failed", ""),
    ("/chunk-without-a-size", "failed", ""),
    ("/chunk-that-ends-early", "failed", ""),
    ("/chunk-of-a-huge-size", "failed", ""),
    ("/huge-header", "failed", ""),
    ("/huge-heads", "failed", "more than 64 KiB"),
    ("/endless-headers", "failed", ""),
    ("/endless-1xx", "failed", "more than 64 KiB"),
    ("/bad-status-line", "failed", ""),
    ("/bad-version", "failed", ""),
    ("/http-0-9", "failed", "HTTP/0.9"),
    ("/another-protocol", "failed", "HTTP/0.9"),
    ("/nul-in-a-header", "failed", ""),
    ("/status/1000", "failed", ""),
]


# Others have time enough on any machine. The head of an error has to come within it.
LIMITS = {"/slow-body-of-an-error": "6s", **dict.fromkeys(("/never-answers", "/slow-head", "/slow-body"), "1s")}
LIMITS["/switches-protocols"] = "1s"


@pytest.mark.parametrize(("path", "returned", "text"), VERDICTS, ids=[path for path, _, _ in VERDICTS])
def test_each_answer_has_its_verdict(call, server, path, returned, text):
    outcome = call("http", {"url": server.url(path), "timeout": LIMITS.get(path, "50s")}, settings=ALLOW)
    assert outcome.returned == returned, outcome.error
    if returned != "ok":
        assert outcome.error.startswith(f"http://127.0.0.1:{server.port}: ") and text in outcome.error
        assert outcome.result is None
    elif path == "/gzip-bomb":
        assert outcome.result.startswith(text) and len(outcome.result) <= 8192
    else:
        assert outcome.result == text
    assert outcome.retry_after_ms is None


def test_the_table_has_every_way_in_which_the_server_misbehaves():
    with open(os.path.join(pg.TOP, "tests", "harness", "hostile.py")) as f:
        ways = re.findall(r"(?m)^def on_(\w+)\(", f.read())
    tried = {path.split("?")[0].split("/")[1].replace("-", "_") for path, _, _ in VERDICTS}
    assert set(ways) - tried == {"redirect", "redirect_loop"} and len(ways) > 40


def in_an_hour():
    return email.utils.formatdate(time.time() + 3600, usegmt=True).replace(" ", "%20").replace("+", "%2B")


def test_retry_after_delays_the_next_attempt(call, server):
    for code in (408, 425, 429, 500, 503):
        outcome = call("http", {"url": server.url(f"/status/{code}?Retry-After=120")}, settings=ALLOW)
        assert (outcome.returned, outcome.retry_after_ms) == ("later", 120_000)
    outcome = call("http", {"url": server.url(f"/status/503?Retry-After={in_an_hour()}")}, settings=ALLOW)
    assert outcome.returned == "later" and 3_000_000 < outcome.retry_after_ms <= 3_600_000
    for most in ("86401", "99999999999999999999999", "Sun,%2006%20Nov%202094%2008:49:37%20GMT"):
        outcome = call("http", {"url": server.url(f"/status/503?Retry-After={most}")}, settings=ALLOW)
        assert (outcome.returned, outcome.retry_after_ms) == ("later", 86_400_000), most
    for none in ("0", "-5", "soon", "12x", "%2F", "Sun,%2006%20Nov%201994%2008:49:37%20GMT"):
        outcome = call("http", {"url": server.url(f"/status/503?Retry-After={none}")}, settings=ALLOW)
        assert (outcome.returned, outcome.retry_after_ms) == ("failed", None), none
    outcome = call("http", {"url": server.url("/status/404?Retry-After=120")}, settings=ALLOW)
    assert (outcome.returned, outcome.retry_after_ms) == ("dead", None)


def test_what_cannot_be_reached_is_retried(call, tmp_path):
    with Hostile() as server:
        url = server.url()
    outcome = call("http", {"url": url}, settings=ALLOW)
    assert outcome.returned == "failed" and "onnect" in outcome.error
    with NameServer({}, tmp_path) as names:
        outcome = call("http", {"url": "http://none.test/"}, settings=ALLOW, names=names)
    assert outcome.returned == "failed" and "resolve" in outcome.error


def test_a_name_server_that_does_not_answer_does_not_hold_up_the_call(call, tmp_path):
    with NameServer({}, tmp_path) as names:
        names.silent = True
        # A resolver that is waited for takes twice PATIENCE_S.
        outcome = call("http", {"url": "http://slow.test/", "timeout": "1s"}, settings=ALLOW, names=names, timeout=50)
    assert outcome.returned == "failed" and "timed out" in outcome.error


# ---- TLS


def test_certificates_are_verified(call, certificates):
    settings = {**ALLOW, "http.ca_file": certificates / "ca.pem"}
    verdicts = {}
    for name in ("good", "wrong", "expired"):
        with Hostile(certificate=certificates / f"{name}.pem") as server:
            verdicts[name] = call("http", {"url": server.url(host="localhost")}, settings=settings)
            if name == "good":
                unknown = call("http", {"url": server.url(host="localhost")}, settings=ALLOW)
                address = call("http", {"url": server.url()}, settings=settings)
                plain = call("http", {"url": server.url().replace("https", "http")}, settings=settings)
    assert verdicts["good"].result == "hello"
    assert verdicts["wrong"].returned == "failed" and "name" in verdicts["wrong"].error
    assert verdicts["expired"].returned == "failed" and "expired" in verdicts["expired"].error
    assert unknown.returned == "failed" and "certificate" in unknown.error
    assert address.returned == plain.returned == "failed"


def test_a_server_without_tls_gets_nothing(call, server):
    outcome = call("http", {"url": server.url().replace("http", "https"), "timeout": "2s"}, settings=ALLOW)
    assert outcome.returned == "failed" and server.requests == []


# ---- which addresses are connected to

REFUSED = [
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.0.1/",
    "http://100.64.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://127.0.0.2/",
    "http://0.0.0.0/",
    "http://0/",
    "http://127.2/",
    "http://2130706434/",
    "http://0x7f000002/",
    "http://0177.0.0.2/",
    "http://255.255.255.255/",
    "http://224.0.0.1/",
    "http://192.0.0.8/",
    "http://198.51.100.1/",
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[::ffff:a00:1]/",
    "http://[::ffff:127.0.0.2]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25lo]/",
    "http://[fd00::1]/",
    "http://[ff02::1]/",
    "http://[64:ff9b::10.0.0.1]/",
    "http://[2002:a00:1::]/",
    "http://[2001:0:a00:1::]/",
    "https://10.0.0.1/",
]


def test_addresses_that_are_not_public_are_refused(call):
    outcomes = call("http", *[{"url": url, "timeout": "50s"} for url in REFUSED], settings=ALLOW)
    for url, outcome in zip(REFUSED, outcomes, strict=True):
        # A host without IPv6 may refuse such a socket, but only after we have.
        assert outcome.returned == "dead" and "is not public; hint: set http { allow }" in outcome.error, url


def test_nothing_is_allowed_by_default(call, server):
    for host in ("127.0.0.1", "localhost"):
        outcome = call("http", {"url": server.url(host=host)})
        assert outcome.returned == "dead" and "is not public" in outcome.error
    assert server.connections == 0


def test_networks_can_be_allowed(call):
    for address, networks in (("127.0.0.1", "10.0.0.0/8, 127.0.0.0/8"), ("127.0.0.77", "127.0.0.64/26")):
        with Hostile(address) as server:
            assert call("http", {"url": server.url()}, settings={"http.allow": networks}).result == "hello"
            mapped = server.url(host=f"[::ffff:{address}]")
            assert call("http", {"url": mapped}, settings={"http.allow": networks}).result == "hello"
            outcome = call("http", {"url": server.url()}, settings={"http.allow": "127.0.0.128/25, fd00::/8"})
            assert outcome.returned == "dead"
    outcome = call("http", {"url": "http://127.0.0.1/"}, settings={"http.allow": "127.0.0.1, localhost"})
    assert outcome.returned == "unready" and "'http.allow': 'localhost' is not a network" in outcome.error


class Fickle(NameServer):
    """Answers with one address first, and with another from the second getaddrinfo() on, which asks twice."""

    def answer(self, question):
        if self.asked > 2:
            self.known = {"fickle.test": ["127.0.0.2"]}
        return super().answer(question)


def test_a_name_that_changes_its_address_gains_nothing(call, server, tmp_path):
    with Hostile("127.0.0.2", server.port) as inner:
        with Fickle({"fickle.test": "127.0.0.1"}, tmp_path) as names:
            params = {"url": server.url(host="fickle.test")}
            first, second = call("http", params, params, settings=ALLOW, names=names)
        assert first.result == "hello"
        assert second.returned == "dead" and "address 127.0.0.2 is not public" in second.error
        # Of several addresses only those are connected to that are allowed.
        with NameServer({"both.test": ["127.0.0.2", "127.0.0.1", "127.0.0.3"]}, tmp_path) as names:
            assert call("http", {"url": server.url(host="both.test")}, settings=ALLOW, names=names).result == "hello"
        assert inner.connections == 0 and server.connections == 2


def test_nothing_is_taken_from_the_environment(call, server, tmp_path):
    (tmp_path / ".netrc").write_text("default login ann password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    with Hostile("127.0.0.2") as proxy:
        names = ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY")
        env = {**dict.fromkeys(names, proxy.url()), "HOME": str(tmp_path)}
        assert call("http", {"url": server.url()}, settings=ALLOW, env={**os.environ, **env}).result == "hello"
        assert proxy.connections == 0
    assert "authorization" not in server.requests[0]["headers"]


# ---- redirects


def test_redirects_are_followed_on_demand(call, server):
    for n in (0, 4):
        assert call("http", {"url": server.url(f"/redirect/{n}"), "follow": True}, settings=ALLOW).result == "hello"
    assert all("cookie" not in r["headers"] for r in server.requests)
    for path in ("/redirect/5", "/redirect-loop"):
        del server.requests[:]
        outcome = call("http", {"url": server.url(path), "follow": True}, settings=ALLOW)
        assert outcome.returned == "dead" and "after 5 redirects" in outcome.error
        assert len(server.requests) == 6
    outcome = call("http", {"url": server.url("/redirect/0"), "follow": False}, settings=ALLOW)
    assert outcome.returned == "dead" and "a redirect" in outcome.error
    outcome = call("http", {"url": server.url("/status/302"), "follow": True}, settings=ALLOW)
    assert outcome.returned == "dead" and "status 302" in outcome.error
    assert (
        call("http", {"url": server.url("/status/304?Location=/ok"), "follow": True}, settings=ALLOW).returned == "dead"
    )


def test_redirects_lead_nowhere_else(call, server, certificates):
    places = {
        "file:///etc/passwd": "scheme 'file' is not supported",
        "ftp://127.0.0.1/": "scheme 'ftp' is not supported",
        "gopher://127.0.0.1:25/_x": "redirect: ",
        f"https://127.0.0.1:{server.port}/ok": "the scheme is another",
        f"http://ann:secret@127.0.0.1:{server.port}/ok": "has a user or password",
        "http://10.0.0.1/": "address 10.0.0.1 is not public",
        f"http://127.0.0.2:{server.port}/ok": "address 127.0.0.2 is not public",
        "http://[::ffff:169.254.169.254]/": "is not public",
        "//127.0.0.2/": "is not public",
    }
    with Hostile("127.0.0.2", server.port) as inner:
        for place, why in places.items():
            for code in (301, 302, 303, 307, 308):
                url = server.url(f"/status/{code}?Location={place}")
                outcome = call("http", {"url": url, "follow": True}, settings=ALLOW)
                assert outcome.returned == "dead" and why in outcome.error, (place, outcome.error)
                assert "secret" not in outcome.error
        assert inner.connections == 0
    assert all(r["target"].startswith("/status/") for r in server.requests)
    with Hostile(certificate=certificates / "good.pem") as tls:
        settings = {**ALLOW, "http.ca_file": certificates / "ca.pem"}
        url = tls.url(f"/status/302?Location={server.url()}", host="localhost")
        outcome = call("http", {"url": url, "follow": True}, settings=settings)
    assert outcome.returned == "dead" and "the scheme is another" in outcome.error


def test_a_redirect_to_another_host_gets_no_secrets(call, server):
    secrets = {"Authorization": "Bearer 1", "Cookie": "a=b", "X-Api-Key": "2"}
    headers = {**secrets, "Accept": "text/plain", "User-Agent": "shop", "Content-Type": "application/x-ours"}
    params = {"headers": headers, "body": "text", "follow": True}
    with Hostile() as other:
        place = other.url("/status/307?Location=" + server.url("/ok"))
        outcome = call("http", {**params, "url": server.url(f"/status/307?Location={place}")}, settings=ALLOW)
        assert outcome.result == "hello"
        there = other.requests[0]["headers"]
        assert call("http", {**params, "url": server.url("/redirect/0")}, settings=ALLOW).result == "hello"
    first, back, _, same = [r["headers"] for r in server.requests]
    for name, value in headers.items():
        assert first[name.lower()] == same[name.lower()] == value
        assert there.get(name.lower()) == back.get(name.lower()) == (None if name in secrets else value)
    assert there["host"] == f"127.0.0.1:{other.port}"


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_keep_the_method_as_browsers_do(call, server, code):
    url = server.url(f"/status/{code}?Location=/ok")
    for method in ("POST", "PUT", "DELETE", "HEAD", "GET"):
        body = {"json": [1]} if method in ("POST", "PUT") else {}
        del server.requests[:]
        assert call("http", {"url": url, "method": method, "follow": True, **body}, settings=ALLOW).returned == "ok"
        changed = method != "HEAD" and (code == 303 or (code < 303 and method == "POST"))
        assert [r["method"] for r in server.requests] == [method, "GET" if changed else method]
        assert server.requests[1]["body"] == (b"[1]" if body and not changed else b"")


# ---- what is sent


def sent(call, server, params, **settings):
    outcome = call("http", params, settings={**ALLOW, **settings})
    assert outcome.returned == "ok", outcome.error
    request = server.requests.pop()
    assert server.requests == []
    request["headers"] = {k: v for k, v in request["headers"].items() if k not in ("host", "user-agent", "accept")}
    return request


def test_a_request_is_sent_as_it_was_given(call, server):
    url = server.url("/ok?a=b%20c")
    get = {"method": "GET", "target": "/ok?a=b%20c", "headers": {}, "body": b""}
    assert sent(call, server, {"url": url}) == get
    assert sent(call, server, {"url": url + "#part", "headers": None, "body": None, "sign": None}) == get
    for method in ("HEAD", "DELETE", "OPTIONS"):
        assert sent(call, server, {"url": url, "method": method}) == {**get, "method": method}
    for method in ("POST", "PUT", "PATCH"):
        empty = {**get, "method": method, "headers": {"content-length": "0"}}
        assert sent(call, server, {"url": url, "method": method}) == empty
    text = {"content-length": "4", "content-type": "text/plain; charset=UTF-8"}
    assert sent(call, server, {"url": url, "body": "hü\0"}) == {
        **get,
        "method": "POST",
        "body": "hü\0".encode(),
        "headers": text,
    }
    headers = {"X-Empty": "", "X-Shop": "a: b; c", "content-TYPE": "text/csv"}
    assert sent(call, server, {"url": url, "method": "PUT", "body": "1;2", "headers": headers}) == {
        "method": "PUT",
        "target": "/ok?a=b%20c",
        "body": b"1;2",
        "headers": {"x-empty": "", "x-shop": "a: b; c", "content-type": "text/csv", "content-length": "3"},
    }
    # libcurl sends "Expect: 100-continue" with large bodies. The plugin turns that off.
    large = sent(call, server, {"url": url, "body": "x" * 100_000})
    assert len(large["body"]) == 100_000 and "expect" not in large["headers"]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1.10, "b": 18446744073709551616}',
        '{ "b" :[1 , {"json": 2}],"a":"}\\"," }',
        "null",
        "false",
        "[]",
        '"json"',
        '"\\u0000 ü"',
        "1e300",
        '{"url": "http://other"}',
    ],
)
def test_json_is_sent_byte_for_byte(call, server, text):
    url = json.dumps(server.url())
    for params in (
        f'{{"url": {url}, "json": {text}}}',
        f' {{ "json" : \t{text}\n , "url": {url} }} ',
        f'{{"headers": {{"json": "x"}}, "json":{text},"url": {url}}}',
    ):
        request = sent(call, server, params)
        assert request["body"] == text.encode() and request["headers"]["content-type"] == "application/json"


def test_the_user_agent_can_be_changed(call, server):
    call("http", {"url": server.url()}, {"url": server.url(), "headers": {"User-Agent": "shop"}}, settings=ALLOW)
    assert [r["headers"]["user-agent"][:9] for r in server.requests] == ["deferred/", "shop"]


# ---- params that are refused, at once and for good

WRONG = {
    "[]": "params are not a JSON object",
    '{"url": "http://a/", "url": "http://b/"}': "params are not a JSON object: duplicate object key",
    "{}": "url is missing",
    '{"url": 1}': "url: the value is not a JSON string",
    '{"url": "http://a/\\u0000"}': "url: the value has a NUL character",
    '{"url": "http://a/", "to": "x"}': "field 'to' is unknown",
    '{"url": "http://a/", "json": 1, "body": "x"}': "json and body are both set",
    '{"url": "http://a/", "js\\u006fn": 1}': "json: the name is written with escapes",
    '{"url": "http://a/", "body": {}}': "body: the value is not a JSON string",
    '{"url": "http://a/", "follow": 1}': "follow: the value is not true or false",
    '{"url": "http://a/", "sign": "shop"}': "sign: setting 'http.secrets' does not name a secret 'shop'",
    **{
        json.dumps({"url": "http://a/", "method": method}): f"method: '{method}' is not supported"
        for method in ("TRACE", "CONNECT", "get", "PRI", "GET /x", "")
    },
    '{"url": "http://a/", "method": "GET", "body": ""}': "method: GET takes no body",
    '{"url": "http://a/", "method": "HEAD", "json": null}': "method: HEAD takes no body",
    **{
        json.dumps({"url": "http://a/", "timeout": t}): "timeout: the value is not a time span from 1s to 1h"
        for t in (0, 0.5, 3601, -1, "2h", "soon", [], "999ms", 1e300, True)
    },
    **{
        json.dumps({"url": url}): f"url: scheme '{url.split(':')[0]}' is not supported"
        for url in ("ftp://a/", "file:///etc/passwd", "gopher://a/", "dict://a/", "ldap://a/", "smtp://a/")
    },
    **{
        json.dumps({"url": url}): "url: the URL is invalid"
        for url in (
            "",
            "a",
            "//a/",
            "http://",
            "javascript:alert(1)",
            "http://a:99999/",
            "http://a:b/",
            "http://[::1/",
            "x-y://a/",
        )
    },
    **{
        json.dumps({"url": url}): "url: the URL has a user or password"
        for url in ("http://ann@a/", "http://ann:secret@a/", "http://:@a/", "http://a@b@c/")
    },
    **{
        json.dumps({"url": url}): "url: the URL has a blank, a control character"
        for url in (
            "http://a/ b",
            "http://a/\r\nX: y",
            "http://a\n/",
            "http://ü/",
            "http://a/\x7f",
            " http://a/",
            "http://a/\t",
        )
    },
    '{"url": "http://a/", "headers": []}': "headers: the value is not an object of at most 50 headers",
    json.dumps({"url": "http://a/", "headers": {f"X-{n}": "" for n in range(51)}}): "at most 50 headers",
    **{
        json.dumps({"url": "http://a/", "headers": {name: "x"}}): f"headers: '{name}' cannot be set"
        for name in (
            *("Host", "host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Trailer"),
            *("Upgrade", "Expect", "Proxy-Authorization", "proxy-connection", "HTTP2-Settings"),
        )
    },
    **{
        json.dumps({"url": "http://a/", "headers": {name: "x"}}): "has a name with a blank, a colon"
        for name in ("X Y", "X:", "X\r\nY", "X\n", "Ü", "X;", "(X)", " X", "X\t")
    },
    '{"url": "http://a/", "headers": {"": "x"}}': "headers: '' has an empty name",
    '{"url": "http://a/", "headers": {"X": 1}}': "headers: 'X' has a value that is not a JSON string",
    '{"url": "http://a/", "headers": {"X": "a", "x": "b"}}': "headers: 'X' is there twice",
    **{
        json.dumps({"url": "http://a/", "headers": {"X": value}}): "headers: 'X' has a value with a control character"
        for value in ("a\r\nY: b", "a\nb", "\r", "a\0b", "ü", "\x7f", "a\tb")
    },
    json.dumps({"url": "http://a/", "headers": {"X": "x" * 4001}}): "headers: 'X' has a value of more than 4000 bytes",
}


def test_params_that_are_wrong_are_refused_with_the_reason(call, server):
    outcomes = call("http", *WRONG, settings=ALLOW)
    for (params, why), outcome in zip(WRONG.items(), outcomes, strict=True):
        assert outcome.returned == "dead" and why in outcome.error and "hint: " in outcome.error, (
            params,
            outcome.error,
        )
        assert "ann@" not in outcome.error and "ann:" not in outcome.error and "\n" not in outcome.error
    assert server.connections == 0


# ---- signatures


def test_the_library_of_standard_webhooks_verifies_a_delivery(call, server, secret_file):
    folder = node.install("mail", os.path.join(pg.TOP, "tests", "plugins", "node"))
    node.scripts(folder, os.path.join(pg.TOP, "tests", "plugins", "node"))

    def verified(request, *secrets, **changed):
        text = json.dumps({"headers": request["headers"], "body": request["body"].decode(), **changed})
        done = subprocess.run(
            [node.NODE, os.path.join(folder, "verify.mjs"), *secrets],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return [verdict.get("body", "refused") for verdict in json.loads(done.stdout)]

    body = '{"order": 4711, "total": 12.50, "name": "ü"}'
    params = f'{{"url": "{server.url()}", "sign": "shop", "json": {body}}}'
    assert call("http", params, settings=SHOP, id=7, created_at_us=1700000000123456).returned == "ok"
    request = server.requests.pop()
    assert request["headers"]["webhook-id"] == "job_7_1700000000123456"
    assert verified(request, SECRET, NEXT) == [json.loads(body), "refused"]
    assert verified(request, SECRET, body=body.replace("4711", "4712")) == ["refused"]
    assert verified(request, SECRET, headers={**request["headers"], "webhook-id": "job_8"}) == ["refused"]
    # While the secret is changed, receivers that know the new or the old one verify it.
    secret_file(f"{NEXT}\n\n{SECRET}\n")
    assert call("http", params, settings=SHOP, id=7, attempt=2).returned == "ok"
    request = server.requests.pop()
    assert re.fullmatch(r"v1,[\w+/]{43}= v1,[\w+/]{43}=", request["headers"]["webhook-signature"])
    assert verified(request, SECRET, NEXT) == [json.loads(body)] * 2


def test_the_id_stays_the_same_over_the_attempts_of_a_job(call, server, secret_file):
    params = {"url": server.url(), "sign": "shop"}
    for attempt in (1, 2):
        call("http", params, settings=SHOP, id=7, created_at_us=5, attempt=attempt)
    call("http", params, settings=SHOP, id=7, created_at_us=6)
    call("http", params, settings=SHOP, id=8, created_at_us=5)
    assert [r["headers"]["webhook-id"] for r in server.requests] == ["job_7_5", "job_7_5", "job_7_6", "job_8_5"]


def test_secrets_stay_in_files_that_few_can_read(call, server, secret_file, tmp_path):
    params = {"url": server.url(), "sign": "shop"}

    def refused(settings=SHOP, **changed):
        outcome = call("http", {**params, **changed}, settings=settings)
        assert server.requests == [] and "MfKQ" not in outcome.error and "hint: " in outcome.error
        return outcome.returned, outcome.error.split(";")[0]

    for text, why in (
        ("", "has no secret"),
        ("\n\n", "has no secret"),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", "has a line that is not a secret"),
        ("whsec_MfKQ\n", "has a line that is not a secret"),
        (SECRET + "\n" + "x" * 1000, "has a line that is not a secret"),
        (f"{SECRET}\n{NEXT}\n{SECRET}\n", "has more than 2 secrets"),
    ):
        secret_file(text)
        assert refused() == ("unready", f"http.secrets 'shop.secret' {why}")
    secret_file(SECRET, 0o604)
    assert refused() == ("unready", "http.secrets 'shop.secret' is open to others (mode 0604)")
    secret_file(SECRET)
    missing = {**ALLOW, "http.secrets": "shop:/nonexistent"}
    assert refused(missing) == ("unready", "cannot read http.secrets '/nonexistent': No such file or directory")
    for name in ("sho", "shopp", "", "shop:shop.secret", "crm,shop", "../shop"):
        verdict, why = refused(sign=name)
        assert verdict == "dead" and why.startswith("sign: setting 'http.secrets' does not name a secret")
    assert refused(headers={"Webhook-Id": "x"}) == ("dead", "headers: 'Webhook-Id' cannot be set")
    for listed in ("crm:x,shop:shop.secret", "crm: x , shop: shop.secret ", "shop:shop.secret,shop:x"):
        outcome = call("http", params, settings={**ALLOW, "http.secrets": listed})
        assert outcome.returned == "ok", outcome.error
    del server.requests[:]
    assert sent(call, server, {"url": server.url(), "headers": {"Webhook-Id": "x"}})["headers"] == {"webhook-id": "x"}


# ---- in a worker


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_a_worker_sends_signs_and_retries(db, server, isolate):
    path = os.path.join(db.dir, "shop.secret")
    with open(path, "w") as f:
        os.fchmod(f.fileno(), 0o600)
        f.write(SECRET)
    db.config(
        f'isolate = {isolate}\nbackoff_floor = "1ms"\nbackoff_ceiling = "1ms"\nmax_attempts = 3\n'
        f'http {{\n allow = "127.0.0.1"\n secrets = "shop:{path}"\n}}\n'
    )
    webhook = {"sign": "shop", "json": {"order": 1}}
    jobs = {
        path: db.defer("http", json.dumps({"url": server.url(path), **webhook}))
        for path in ("/ok", "/status/404", "/status/503", "/status/503?Retry-After=3600", "/resets")
    }
    private = db.defer("http", '{"url": "http://169.254.169.254/"}')
    # The whole time that it has is shorter than its own limit.
    slow = db.defer(
        "http", json.dumps({"url": server.url("/never-answers"), "timeout": "1h"}), timeout="8s", max_attempts=1
    )

    def ended():
        assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
        return db.hot() == 1

    wait_for(ended, 120, "all jobs have ended, except the one that waits for an hour")
    assert db.log(jobs["/ok"]) == [(1, "ok")]
    assert [n for n, _ in db.log(jobs["/status/404"])] == [1] and [n for n, _ in db.log(private)] == [1]
    assert [n for n, _ in db.log(jobs["/status/503"])] == [1, 2, 3] == [n for n, _ in db.log(jobs["/resets"])]
    later = jobs["/status/503?Retry-After=3600"]
    assert [n for n, _ in db.log(later)] == [1]
    due = "select extract(epoch from due_at - clock_timestamp()) from deferred.__deferred_hot where id = %s"
    assert 3000 < db.one(due, later) <= 3600
    assert db.one("select result from deferred.__deferred_log where job_id = %s", jobs["/ok"]) == "hello"
    error = "select error from deferred.__deferred_log where job_id = %s and attempt = 1"
    assert "timed out" in db.one(error, slow) and "is not public" in db.one(error, private)
    ids = [r["headers"]["webhook-id"] for r in server.requests if r["target"] == "/status/503"]
    assert len(ids) == 3 and len(set(ids)) == 1 and ids[0].startswith(f"job_{jobs['/status/503']}_")


def test_a_job_can_be_run_without_a_queue(db, server):
    db.config('http {\n allow = "127.0.0.1"\n}\n')
    done = db.run(["deferred", "run", "http", json.dumps({"url": server.url()})])
    assert (done.returncode, done.stdout.strip()) == (0, "hello"), done.stderr
