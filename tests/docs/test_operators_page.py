"""The how-to page about nginx: its server block in a real nginx, in front of deferred_web with the page's settings."""

import http.client
import os
import re

import psycopg2
import pytest

import harness
from documents import fenced, read
from nginx import Nginx

ROLES, SETTINGS, SERVER = fenced(read("docs", "how-to", "operators-page.md"))


@pytest.fixture
def pages(db):
    """What the page sets up, with a login of the test's own. A server that believes a header is its oauth2-proxy."""
    login, web, sign_in = db.name + "_pages", os.path.join(db.dir, "web.sock"), os.path.join(db.dir, "sign_in.sock")
    db.sql(ROLES.replace("role pages", "role " + login))
    db.config(
        SETTINGS.replace("dbname=app user=pages", db.cluster.conninfo(db.name, user=login)).replace(
            "/run/deferred_web/web.sock", web
        )
    )
    db.env.pop("DEFERRED_DB")
    program = db.spawn(["deferred_web"])
    harness.wait_for(lambda: "listening on" in program.output() or not program.alive(), what="a listening deferred_web")
    assert program.alive(), program.output()
    server = re.sub(r"listen 443 ssl;|ssl_certificate\w* .*;", "", SERVER)
    for old, new in (("/run/deferred_web/web.sock", web), ("http://127.0.0.1:4180", f"http://unix:{sign_in}")):
        assert old in server
        server = server.replace(old, new)
    yield Nginx(
        db,
        server.replace("server {", "server { listen PORT;", 1)
        + f"""
        server {{
            listen unix:{sign_in};
            location /oauth2/auth {{
                add_header X-Auth-Request-User $http_x_test_user always;
                if ($http_x_test_user = "") {{ return 401; }}
                return 202;
            }}
            location /oauth2/sign_in {{ return 200 "sign in"; }}
        }}""",
    )
    program.signal(15)
    assert program.wait(30) == 0, program.output()
    db.sql(f"drop role {login}")


def ask(nginx, path, user, method="GET", body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", nginx.port, timeout=30)
    said = {"Host": "jobs.example.org", **({"X-Test-User": user} if user else {})}
    connection.request(method, path, body, said | {k.replace("_", "-"): v for k, v in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_nginx_names_the_visitors(pages, db):
    job = db.defer("noop")
    status, text = ask(pages, "/queues/default", "ann")
    assert status == 200 and ">Pause<" in text and "<bdi>ann</bdi>" in text
    status, text = ask(pages, "/queues/default", "bob")
    assert status == 200 and ">Pause<" not in text
    # Neither a stranger nor a visitor who sends a name of his choice.
    assert ask(pages, "/", "eve")[0] == 403
    assert ask(pages, "/queues/default", "bob", X_Forwarded_User="ann")[1].count(">Pause<") == 0
    status, text = ask(pages, "/", None, X_Forwarded_User="ann")
    assert (status, text) == (200, "sign in")
    # A button works through the proxy.
    token = re.search(r'name="token" value="(\w+)"', ask(pages, f"/jobs/{job}", "ann")[1])[1]
    status, _ = ask(
        pages,
        f"/jobs/{job}/cancel",
        "ann",
        "POST",
        f"token={token}",
        Origin="http://jobs.example.org",
        Content_Type="application/x-www-form-urlencoded",
    )
    assert status == 303
    assert db.sql("select who, role from deferred.__deferred_action") == [("ann", "deferred_operator")]


def test_the_page_says_what_the_roles_may(db):
    with pytest.raises(psycopg2.errors.InsufficientPrivilege), db.connect(options="-c role=deferred_viewer") as c:
        c.cursor().execute("select params from deferred.__deferred")
