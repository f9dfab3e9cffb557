"""The how-to page about HTTP: its statements reach a server, its settings are read, and its receiver verifies."""

import os
import re
import socket

import pytest

import node
import pg
from documents import fenced, read
from harness import SAN, wait_for
from hostile import Hostile

FIRST, PUT, RATE, SECRET, SETTINGS, SIGNED, RECEIVER, ALLOW = fenced(read("docs", "how-to", "call-http.md"))
PACKAGES = os.path.join(pg.TOP, "tests", "plugins", "node")


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.skipif(SAN, reason="what is typed is tested under the sanitizers elsewhere")
def test_the_page_is_followed(db):
    path = os.path.join(db.dir, "shop.secret")
    make = re.sub(r"chown .*", "", SECRET).replace("/etc/deferred/shop.secret", path)
    assert db.run(["sh", "-c", make]).returncode == 0
    settings = SETTINGS.replace("/etc/deferred/shop.secret", path)
    # Sections may be written twice. The address of the test is allowed next to those of the page.
    db.config(settings + ALLOW.replace('"10.1.2.0/24', '"127.0.0.1, 10.1.2.0/24'))

    folder = node.install("mail", PACKAGES)
    script = os.path.join(folder, os.path.basename(db.dir) + ".mjs")
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    try:
        with open(script, "w", encoding="utf-8") as f:
            f.write(RECEIVER)
        with open(path, encoding="utf-8") as f:
            receiver = db.spawn([node.NODE, script], env={"SECRET": f.read().strip(), "PORT": str(port)})
        with Hostile() as server:
            for text in (FIRST, PUT, RATE):
                db.sql(text.replace("https://example.org", server.url("")))
            signed = db.one(SIGNED.replace("https://example.org", f"http://127.0.0.1:{port}"))
            wait_for(lambda: listens(port), 30, "the receiver listens")
            assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
            requests = [(r["method"], r["target"], r["body"]) for r in server.requests]
        wait_for(lambda: f"job_{signed}_" in receiver.output(), 30, receiver.output())
        assert receiver.output().strip().endswith(" order.paid")
    finally:
        os.unlink(script)
    assert sorted(requests) == [
        ("GET", "/rates/EUR", b""),
        ("POST", "/orders", b'{"order": 4711}'),
        ("PUT", "/orders/4711/lines", b"1;2"),
    ]
    assert db.log(signed) == [(1, "ok")]
