"""deferred_http behind a proxy as people have them: nginx with what it does by itself."""

import re

import pytest

import front
import harness
from front import XML
from nginx import Nginx


@pytest.fixture
def f(db):
    return front.Front(db)


@pytest.fixture
def proxy(db, f):
    return Nginx(db, f"server {{ listen PORT; location / {{ proxy_pass http://127.0.0.1:{f.port}; }} }}")


def test_a_queue_is_bound_to_a_function_through_nginx_by_a_name_without_underscore(db, f, proxy):
    """nginx drops headers with an underscore, so that the signature was no longer that of the request."""
    assert db.run(["deferred", "account", "allow", f.ACCOUNT, "echo"]).returncode == 0
    scripts = front.Node(db)
    scripts.worker(proxy, "create", "calls", '{"deferredfunction": "echo", "deferredMaxDequeue": "3"}')
    scripts.worker(proxy, "put", "calls", '{"through": "nginx"}')
    assert db.sql("select fn, max_dequeue from deferred.__deferred_queue where name = %s", f.ACCOUNT + ".calls") == [
        ("echo", 3)
    ]
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert db.sql("select outcome, result from deferred.__deferred_log") == [("ok", '{"through": "nginx"}')]
    # What was read may be set again, as it is.
    c = front.Client(proxy, f.ACCOUNT, f.KEY)
    read = [(n, v) for n, v in c.call("GET", "/calls?comp=metadata").headers if n.lower().startswith("x-ms-meta-")]
    assert dict(read) == {
        "x-ms-meta-deferredfunction": "echo",
        "x-ms-meta-deferredmaxdequeue": "3",
    }  # Node sends small letters
    assert c.call("PUT", "/calls?comp=metadata", headers=read).status == 204
    # One that an operator bound has such names too.
    assert db.run(["deferred", "queue", "set", f.ACCOUNT + ".theirs", "--create", "--function", "echo"]).returncode == 0
    assert c.call("GET", "/theirs?comp=metadata").header("x-ms-meta-deferredfunction") == "echo"


def test_what_nginx_drops_is_seen_in_the_refusal(db, f, proxy):
    c = front.Client(proxy, f.ACCOUNT, f.KEY)
    got = c.call("PUT", "/calls", headers=[("x-ms-meta-deferred_function", "echo"), ("x-ms-meta-other", "x")])
    assert (got.status, got.code) == (403, "AuthenticationFailed")
    said = got.xml.findtext("AuthenticationErrorDetail")
    assert "\nx-ms-meta-other:x\n" in said and "deferred_function" not in said
    harness.wait_for(lambda: "reason" in str(f.log()))
    assert f.log()[-1]["reason"] == "signature"


def test_messages_go_through_nginx_as_they_are(f, proxy):
    c = front.Client(proxy, f.ACCOUNT, f.KEY)
    c.create("mail")
    for text in ("hello", "&<>", "\u20ac" * 20000, ""):
        c.put("mail", text)
        m = c.get("mail")[0]
        assert m["MessageText"] == text and c.delete("mail", m).status == 204
    assert c.call("POST", "/mail/messages", XML.format("x" * 65537)).code == "RequestBodyTooLarge"
    assert [e.text for e in c.call("GET", "/?comp=list").xml.iter("Name")] == ["mail"]
    assert re.match(r"http://127\.0\.0\.1:\d+/", c.call("GET", "/?comp=list").xml.get("ServiceEndpoint"))
