"""deferred_http behind a proxy as people have them: nginx with what it does by itself."""

import grp
import os
import pwd
import re
import shutil
import socket

import pytest

import front
import harness
from front import XML

CONF = """
daemon off;
user {user} {group};
pid {dir}/nginx.pid;
error_log {dir}/error.log;
events {{ }}
http {{
	access_log off;
	client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
	uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
	server {{
		listen 127.0.0.1:{port};
		location / {{ proxy_pass http://127.0.0.1:{behind}; }}
	}}
}}
"""


class Nginx:
    """In a folder of its own, and run as a child; has a port as a Front has."""

    def __init__(self, db, behind):
        self.dir = os.path.join(db.dir, "nginx")
        os.mkdir(self.dir)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        path = os.path.join(self.dir, "nginx.conf")
        with open(path, "w") as conf:
            conf.write(
                CONF.format(
                    user=pwd.getpwuid(os.getuid()).pw_name,
                    group=grp.getgrgid(os.getgid()).gr_name,
                    dir=self.dir,
                    port=self.port,
                    behind=behind,
                )
            )
        self.program = db.spawn(
            [
                shutil.which("nginx") or "/usr/sbin/nginx",
                "-e",
                os.path.join(self.dir, "error.log"),
                "-p",
                self.dir,
                "-c",
                path,
            ]
        )
        harness.wait_for(self.listens, what="nginx: " + self.program.output())

    def listens(self):
        assert self.program.alive(), self.program.output() + open(os.path.join(self.dir, "error.log")).read()
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def f(db):
    return front.Front(db)


@pytest.fixture
def proxy(db, f):
    return Nginx(db, f.port)


def test_a_queue_is_bound_to_a_function_through_nginx_by_a_name_without_underscore(db, f, proxy):
    """What the README shows: nginx drops headers with an underscore, so that the signature was no
    longer that of the request."""
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
