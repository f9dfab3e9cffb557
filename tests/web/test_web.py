"""deferred_web over HTTP: who gets in, who sees and does what, what is refused, and that nothing of
what others wrote becomes markup."""

import base64
import concurrent.futures
import contextlib
import hashlib
import html
import html.parser
import http.client
import json
import os
import pwd
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

import harness
import pg
from api_client import add_token

HOSTILE = "<script>alert(1)</script>\"'&\u202egnp.exe\u2066\u200b" + "x" * 900
PAGES = [
    "/",
    "/queues",
    "/queues/default",
    "/jobs",
    "/jobs?state=dead",
    "/jobs?state=ready",
    "/jobs?outcome=failed",
    "/jobs/{job}",
    "/running",
    "/dead",
    "/functions",
    "/functions/fail",
    "/recurring",
    "/flows",
    "/workers",
    "/rules",
    "/accounts",
    "/tokens",
    "/audit",
    "/doctor",
    "/advice",
]


class Tags(html.parser.HTMLParser):
    """Elements, and the attributes that could run something."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.wrong = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.wrong += [
            (tag, name)
            for name, value in attributes
            if name.startswith("on") or name == "style" or (value or "").startswith("javascript:")
        ]


@pytest.fixture
def job(db):
    """A dead job that everything about is hostile, as far as it can be."""
    job = db.defer(
        "fail",
        json.dumps({"html": "</pre><script>alert(2)</script>", "number": 12345678901234567890123}),
        label=HOSTILE[:1000],
        max_attempts=1,
    )
    assert db.run(["check_deferred"]).returncode == 0
    db.sql(
        "update deferred.__deferred_log set error = %s where job_id = %s",
        "</pre><script>alert(3)</script>\x07" + HOSTILE,
        job,
    )
    return job


def test_tokens_are_shown_without_their_secrets(web, db):
    secret = add_token(db, "shop", "--may", "defer,work", "--functions", "order.*", "--expires", "1h")
    hashed = db.one("select encode(sha256, 'hex') from deferred.__deferred_token")
    assert hashed == hashlib.sha256(secret.encode()).hexdigest()
    add_token(db, "ci", "--queues", "builds")
    for who in ("vic", "rea", "opal"):
        shown, told = web.page("/tokens", who), web.json("/tokens.json", who)["tokens"]
        assert not any(part in shown + json.dumps(told) for part in (secret, secret.split("_")[-1], hashed))
        assert told[0] == {"token": "ci", "may": "defer", "functions": "any", "queues": "builds", "expires": "never"}
        expires = told[1].pop("expires")
        assert told[1] == {"token": "shop", "may": "defer,work", "functions": "order.*", "queues": "any"}
        assert expires[:16].replace(" ", "T") in shown.replace(" ", "T") and "order.*" in shown
    assert web.ask("/tokens", "nob")[0] == 403
    assert "<form" not in re.search("<main.*</main>", web.page("/tokens"), re.S)[0]
    db.sql("update deferred.__deferred_token set expires_at = now()")
    assert {t["expires"] for t in web.json("/tokens.json")["tokens"]} == {"expired"}


def test_each_page_is_there_for_who_may_see_it_and_nothing_in_it_runs(web, job):
    for path in [p.format(job=job) for p in PAGES]:
        for who in ("vic", "rea", "opal"):
            text = web.page(path, who)
            tags = Tags(text)
            assert tags.wrong == [] and tags.tags.count("script") == 1 and tags.tags.count("h1") == 1, (path, who)
            assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x07]", text)
            assert ("<form class=\"act\"" in text) == (who == "opal" and path in (f"/jobs/{job}", "/queues/default"))
        path, _, query = path.partition("?")
        assert isinstance(web.json(f"{path}.json?{query}"), dict)
    status, headers, text = web.ask("/")
    assert (
        headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        and "unsafe" not in headers["Content-Security-Policy"]
    )
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"], headers["Set-Cookie"]) == (
        "nosniff",
        "private, no-store",
        None,
    )

    def is_known():  # what it tells ages
        return web.ask("/", If_None_Match=web.ask("/")[1]["ETag"])[::2] == (304, "")

    harness.wait_for(is_known, 20, "a page is not sent twice")
    for asset in re.findall(r'(?:href|src)="(/[\w-]+-[0-9a-f]{12}\.\w+)"', text):
        status, headers, _ = web.connection.request("GET", asset) or (lambda a: (a.status, a.headers, a.read()))(
            web.connection.getresponse()
        )
        assert status == 200 and "immutable" in headers["Cache-Control"] and headers["Content-Encoding"] == "gzip"
    # What ended in the last 2 s is not in the figures yet, and a worker folds them.
    harness.wait_for(
        lambda: web.db.run(["deferred", "fold"]).returncode == 0
        and sum(f["failed"] for f in web.json("/.json")["figures"]) == 1,
        20,
        "the attempt is in the figures",
    )
    told = web.json("/.json")
    assert len(told["figures"]) == 60 and told["why"][0]["cause"] == "nothing_waits"
    assert "deferred_attempts_total{" in web.page("/metrics", "vic") and web.ask("/metrics", "nob")[0] == 403
    assert [
        web.ask(path)[0]
        for path in ("/nothing", "/jobs/x", f"/jobs/{job + 999}", "/queues/none", "/jobs/1/retry", "/jobs/%00")
    ] == [404, 404, 404, 404, 405, 404]
    assert web.ask("/", method="POST", form={})[0] == 405


def test_a_viewer_sees_no_params_errors_and_results_and_a_reader_none_of_functions_that_are_hidden(web, db, job):
    mail = db.one("select deferred.send_mail('ann@example.org', 'Thank you', 'the secret body')")
    done = db.defer("echo", '{"a": 1}')
    assert db.run(["check_deferred", "--cnt", "1", "--queue", "default"]).returncode == 0
    shown = {
        (who, what): word in web.page(f"/jobs/{id}{form}", who)
        for who in ("vic", "rea", "opal")
        for form in ("", ".json")
        for what, id, word in (
            ("params", job, "12345678901234567890123"),
            ("error", job, "alert(3)"),
            ("mail", mail, "secret body"),
        )
    }
    assert shown == {
        ("vic", "params"): False,
        ("vic", "error"): False,
        ("vic", "mail"): False,
        ("rea", "params"): True,
        ("rea", "error"): True,
        ("rea", "mail"): False,
        ("opal", "params"): True,
        ("opal", "error"): True,
        ("opal", "mail"): True,
    }
    told = web.json(f"/jobs/{job}.json", "opal")
    assert (
        told["params"]["number"] == 12345678901234567890123
        and told["job"]["label"] == HOSTILE[:1000]
        and told["job"]["state"] == "dead"
    )
    assert [a["outcome"] for a in told["attempts"]] == ["failed"] and told["said"][0]["error"].startswith("</pre>")
    assert done


def test_jobs_are_found_and_retried_by_the_time_they_ended(web, db):
    jobs = [db.defer("noop") for _ in range(4)]
    for job, day in zip(jobs, (1, 2, 2)):
        db.sql("delete from deferred.__deferred_hot where id = %s", job)
        db.sql(
            "insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at) "
            "values (%s, 1, 'failed', true, %s)",
            job,
            f"2026-03-0{day} 12:00",
        )
    day = "ended_since=2026-03-02&ended_until=2026-03-03"
    assert [j["id"] for j in web.json(f"/jobs.json?state=dead&{day}")["jobs"]] == jobs[2:0:-1]
    for state in ("", "&state=ready"):
        status, _, text = web.ask(f"/jobs?{day}{state}")
        assert status == 400 and "need a state: done, dead, cancelled or expired" in text
    link = html.unescape(re.search(r'href="(/jobs/all\?[^"]*)">retry<', web.page(f"/jobs?state=dead&{day}"))[1])
    assert "ended_since=2026-03-02+00" in link or "ended_since=2026-03-02%2000" in link
    assert "<dt>Ended since</dt>" in web.page(link) and web.json(link.replace("/all?", "/all.json?"))["jobs"] == 2


def test_jobs_are_found_and_paged_by_all_that_is_offered(web, db):
    with db.connect() as c, c.cursor() as cursor:
        cursor.execute(
            "select deferred.defer('noop', '{}', json_build_object('label', 'order ' || i, 'key', 'k' || i, 'queue', "
            "case when i <= 20 then 'few' else 'many' end)) from generate_series(1, 120) i"
        )
        ids = [row[0] for row in cursor]

    def found(query):
        return [j["id"] for j in web.json("/jobs.json?" + query)["jobs"]]

    assert found("q=order+1")[:3] == [ids[119], ids[118], ids[117]] and len(found("q=order+1")) == 32
    assert found("q=label:%22order+7%22") == [ids[6]] == found("q=key:k7") and found("q=key:k7+queue:many") == []
    assert found("queue=few&state=ready") == ids[:20] and found("fn=none") == [] and len(found("q=by:deferred")) == 50
    assert (
        found("outcome=ok") == []
        and found("since=1h&queue=few") == ids[19::-1]
        and found("since=2099-01-01") == []
        and found("until=2020-01-01") == []
    )
    walked, after = [], 0
    while after is not None:
        answer = web.json(f"/jobs.json?after={after}" if after else "/jobs.json")
        walked += [j["id"] for j in answer["jobs"]]
        after = answer.get("after")
    assert walked == ids[::-1]
    tagged = db.one(
        "select deferred.defer('noop', '{\"customer\": {\"id\": 4711}, \"x\": [\"a b\"]}', '{\"tags\": [\"red\", "
        "\"big one\"]}')"
    )
    poison = db.one(
        "select deferred.defer('noop', '{\"customer\": {\"id\": 4711}, \"x\": \"\\u0000\"}', '{\"tags\": [\"red\"]}')"
    )
    mail = db.one("select deferred.send_mail('ann@example.org', 'Thank you', 'x')")
    traced = db.one(
        "select deferred.defer('noop', '{}', '{\"traceparent\": "
        "\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"}')"
    )
    assert "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01</bdi></dd>" in web.page(
        f"/jobs/{traced}"
    ) and "<dt>Trace</dt>" not in web.page(f"/jobs/{tagged}")
    assert (
        web.json(f"/jobs/{traced}.json")["job"]["traceparent"][:5] == "00-0a"
        and web.json(f"/jobs/{tagged}.json")["job"]["traceparent"] is None
    )
    assert (
        found("q=tag:red") == [poison, tagged]
        and found("q=tag:red+tag:%22big+one%22") == [tagged] == found("q=tag:%22big+one%22&state=ready")
        and found("q=tag:none") == []
    )
    assert (
        found("q=params.customer.id:4711") == [tagged] == found("q=params.x.0:%22a+b%22&queue=default")
        and found("q=params.customer:4711") == []
    )
    assert (
        found("q=params.subject:%22Thank+you%22") == [mail]
        and web.json("/jobs.json?q=params.subject:%22Thank+you%22", "rea")["jobs"] == []
    )
    assert (
        web.ask("/jobs?q=params.subject:x", "vic")[0] == 403
        and web.json("/jobs.json?q=tag:red", "vic")["jobs"][0]["id"] == poison
    )
    assert (
        web.ask("/jobs?state=ready&q=params.x:1")[0]
        == 400
        == web.ask("/jobs?q=params" + ".a" * 20 + ":1")[0]
        == web.ask("/jobs?q=" + "tag:a+" * 40)[0]
    )
    assert web.ask("/jobs?q=17")[:1] + (web.ask("/jobs?q=17")[1]["Location"],) == (303, "/jobs/17")
    assert web.ask("/jobs?since=rubbish")[0] == 400 and "rubbish" in web.ask("/jobs?since=rubbish")[2]
    assert web.ask("/jobs?state=ready&outcome=ok")[0] == 400
    assert found("q=" + "a" * 900) == [] and web.ask("/jobs?q=%ff")[0] == 400


def test_an_operator_acts_and_each_action_is_written_down(web, db, job):
    def act(path, verb, who="opal", **more):
        return web.ask(f"{path}/{verb}", who, "POST", {"token": web.token(path), **more})

    status, headers, _ = act(f"/jobs/{job}", "retry")
    assert (status, headers["Location"]) == (303, f"/jobs/{job}?done=retry") and db.one(
        "select state from deferred.job where id = %s", job
    ) == "ready"
    assert "with all its attempts" in web.page(headers["Location"]) and "alert" not in web.page(
        f"/jobs/{job}?done=<script>alert"
    ).replace("alert(", "")
    assert (
        act(f"/jobs/{job}", "cancel")[0] == 303
        and db.one("select state from deferred.job where id = %s", job) == "cancelled"
    )
    status, headers, _ = web.ask(f"/jobs/{job}/cancel", "opal", "POST", {"token": web.token("/queues/default")})
    assert headers["Location"].endswith("refused=cancel") and "nothing to cancel" in web.page(f"/jobs/{job}")
    later = db.defer("noop", delay="1h")
    assert ">Run now<" in web.page(f"/jobs/{later}") and act(f"/jobs/{later}", "run")[0] == 303
    assert db.one("select state from deferred.job where id = %s", later) == "ready"
    assert act("/queues/default", "pause")[0] == 303 and db.one(
        "select paused from deferred.__deferred_queue where name = 'default'"
    )
    assert (
        f"This queue is paused. Workers start none of its jobs. <bdi>{web.login('opal')}</bdi> paused it "
        in web.page("/queues/default")
    )
    assert (
        [q["paused_by"] for q in web.json("/queues.json")["queues"]]
        == [web.json("/queues/default.json")["queue"]["paused_by"]]
        == [web.login("opal")]
    )
    assert act("/queues/default", "resume")[0] == 303
    assert not db.one("select paused from deferred.__deferred_queue where name = 'default'")
    assert db.sql(
        "select who, role, address, verb, job_id, queue, refused is null from deferred.__deferred_action order by id"
    ) == [
        (web.login("opal"), web.login("opal"), "127.0.0.1", verb, id, queue, ok)
        for verb, id, queue, ok in (
            ("retry", job, None, True),
            ("cancel", job, None, True),
            ("cancel", job, None, False),
            ("run", later, None, True),
            ("pause", None, "default", True),
            ("resume", None, "default", True),
        )
    ]
    assert [a["verb"] for a in web.json("/audit.json")["actions"]] == [
        "resume",
        "pause",
        "run",
        "cancel",
        "cancel",
        "retry",
    ]


def test_what_does_not_come_from_a_page_of_ours_is_refused(web, db, job):
    path, token = f"/jobs/{job}/retry", web.token(f"/jobs/{job}")

    def refused(who="opal", form=None, **headers):
        return web.ask(path, who, "POST", {"token": token} if form is None else form, **headers)[0]

    assert refused("vic") == refused("rea") == 403  # the token is another's, and they may not
    assert (
        refused(Origin="http://evil.example")
        == refused(Origin=None)
        == refused(Origin="null")
        == refused(Sec_Fetch_Site="cross-site")
        == 403
    )
    assert (
        refused(form={})
        == refused(form={"token": token[:-1] + "x"})
        == refused(form={"token": ""})
        == refused(form={"token": token, "x": "y" * 5000})
        == 403
    )
    assert (
        refused(Host="evil.example", Origin="http://evil.example") == 421
        and web.ask("/", Host="evil.example")[0] == 421
    )
    assert web.ask(path, method="GET")[0] == 405 and web.ask(path, None, "POST", {"token": token})[0] == 401
    assert (
        db.one("select state from deferred.job where id = %s", job) == "dead"
        and db.sql("select from deferred.__deferred_action") == []
    )
    # A login that sees all may still not act by SQL, nor write the audit.
    reader = db.connect(user=web.login("rea"), password=web.PASSWORD)
    with pytest.raises(Exception, match="permission denied"), reader.cursor() as cursor:
        cursor.execute("select deferred.__act('retry', %s, null, 'me', null)", (job,))
    reader.close()
    assert refused(Sec_Fetch_Site=None) == 303


def test_logins_are_the_databases(web, db):
    assert web.ask("/", None)[1]["WWW-Authenticate"].startswith("Basic ")
    status, _, text = web.ask("/", "nob")
    assert status == 403 and "grant deferred_viewer to" in text
    for header in ("Basic", "Basic !!", "Basic b3BhbA==", "Basic OnB3", "Basic b3BhbDo=", "Bearer x"):
        assert web.ask("/", Authorization=header)[0] == 401, header
    assert web.ask("/", "vic")[0] == 200
    assert [web.ask("/", "vic", password=f"wrong {i}")[0] for i in range(7)] == [401] * 7
    assert web.ask("/", "vic")[0] == 200  # who is in stays in
    assert web.PASSWORD not in web.program.output() and "wrong 1" not in web.program.output()
    # Without a password nobody gets in, also where the server asks for none.
    db.sql("create role trusted_one login in role deferred_operator")
    try:
        assert web.ask("/", "trusted_one", password="anything")[0] in (401, 429, 503)
    finally:
        db.sql("drop role trusted_one")


def test_nobody_acts_on_a_page_for_looking_and_a_proxy_says_who_it_is(start_web, db, job):
    db.defer("noop")
    looking = start_web("auth = none")
    assert (
        looking.page(f"/jobs/{job}", None)
        and "Not shown to your role" in looking.page(f"/jobs/{job}", None)
        and "<form class=\"act\"" not in looking.page("/queues/default", None)
    )
    assert looking.ask(f"/jobs/{job}/retry", None, "POST", {"token": "0" * 64})[0] == 403
    reading = start_web("read_only = 1")
    assert "<form class=\"act\"" not in reading.page(f"/jobs/{job}") and "12345678901234567890123" in reading.page(
        f"/jobs/{job}"
    )
    proxied = start_web(
        f'auth = proxy\nproxies = "127.0.0.1"\nusers = "ann:deferred_operator, bob:deferred_viewer, '
        f'eve:deferred_owner"\nhosts = "jobs.example.org"'
    )
    assert [proxied.ask("/", None, X_Forwarded_User=who)[0] for who in ("ann", "bob", "eve", "zoe", None)] == [
        200,
        200,
        403,
        403,
        403,
    ]
    for who, says in (
        ("zoe", "The setting web.users does not list the user 'zoe'."),
        (None, "The proxy sent no X-Forwarded-User header."),
        ("x" * 300, "The user name in the header X-Forwarded-User is too long."),
    ):
        assert says in html.unescape(proxied.ask("/", None, X_Forwarded_User=who)[2]), who
    elsewhere = start_web('auth = proxy\nproxies = "192.0.2.1"\nusers = "ann:deferred_viewer"')
    assert "not one of the proxies in the setting web.proxies" in elsewhere.ask("/", None, X_Forwarded_User="ann")[2]
    assert ">Retry<" in proxied.ask(f"/jobs/{job}", None, X_Forwarded_User="ann", Host="jobs.example.org")[2]
    assert ">Retry<" not in proxied.ask(f"/jobs/{job}", None, X_Forwarded_User="bob")[2]
    token = re.search(r'name="token" value="(\w+)"', proxied.ask(f"/jobs/{job}", None, X_Forwarded_User="ann")[2])[1]
    assert proxied.ask(f"/jobs/{job}/retry", None, "POST", {"token": token}, X_Forwarded_User="bob")[0] == 403
    assert proxied.ask(f"/jobs/{job}/retry", None, "POST", {"token": token}, X_Forwarded_User="ann")[0] == 303
    assert db.sql("select who, role, login = session_user from deferred.__deferred_action") == [
        ("ann", "deferred_operator", True)
    ]
    assert proxied.ask("/queues/default/pause", None, "POST", {"token": token}, X_Forwarded_User="ann")[0] == 303
    assert (
        db.one("select paused_by from deferred.__deferred_queue where name = 'default'") == "ann"
    )  # of all who act by that role


def test_the_kernel_says_who_is_at_a_unix_socket(db, people):
    def ask(path, method="GET", body=None, **headers):
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(place)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    db.defer("noop")
    place, me = os.path.join(db.dir, "web.sock"), pwd.getpwuid(os.geteuid()).pw_name
    for role in ("deferred_operator", "deferred_viewer", None):
        with open(os.path.join(db.dir, "peer.conf"), "w") as f:
            f.write(
                f'web {{ auth = peer\nlisten = "{place}"\nusers = "nobody:deferred_operator'
                + (f', {me}:{role}"' if role else '"')
                + "\n}\n"
            )
        web = db.spawn(["deferred_web", "--config", f.name])
        harness.wait_for(lambda: "listening on" in web.output() or not web.alive(), what="a listening deferred_web")
        status, text = ask("/queues/default", **{"X-Forwarded-User": "nobody"})
        assert (status, ">Pause<" in text) == (403 if role is None else 200, role == "deferred_operator")
        if role is None:
            assert f"The setting web.users does not list the user '{me}'." in html.unescape(text)
        if role == "deferred_operator":
            token = re.search(r'name="token" value="(\w+)"', text)[1]
            assert (
                ask(
                    "/queues/default/pause",
                    "POST",
                    "token=" + token,
                    Origin="http://localhost",
                    **{"Content-Type": "application/x-www-form-urlencoded"},
                )[0]
                == 303
            )
            assert db.sql("select who, role, address from deferred.__deferred_action") == [
                (me, "deferred_operator", None)
            ]
        web.signal(signal.SIGTERM)
        assert web.wait(30) == 0, web.output()
    done = db.run(["deferred_web", "--listen", "127.0.0.1:0", "--auth", "peer"])
    assert done.returncode == 78 and "does not tell who connects" in done.stderr


def test_no_function_that_a_producer_made_is_called_by_who_looks(web, db):
    """Of those in public one that takes just what is given is nearer than what takes anything."""
    db.sql(
        "insert into deferred.__deferred_queue (name) select 'other' where not exists (select "
        "from deferred.__deferred_queue where name = 'other')"
    )
    waiting, failed = db.defer("echo", '{"a": 1}'), db.defer("fail", max_attempts=1, queue="other")
    assert db.run(["check_deferred", "--queue", "other"]).returncode == 0
    for name, args in (
        [("format", f"text, {t}") for t in ("bigint", "integer", "text", "interval")]
        + [("concat_ws", ", ".join(["text"] * n)) for n in (3, 4, 5)]
        + [("json_build_object", "text, text, text, boolean"), ("array_to_string", "text[], text")]
    ):
        kind = "json" if name.startswith("json") else "text"
        db.sql(
            f"create function public.{name}({args}) returns {kind} "
            f"language plpgsql as $$ begin raise exception 'called'; end $$".replace("%", "%%")
        )
    db.sql(f"alter database {db.name} set track_functions = 'all'")
    for args in (
        ["why"],
        ["why", str(waiting)],
        ["why", str(failed)],
        ["status"],
        ["metrics"],
        ["top", "--once"],
        ["ls"],
        ["show", str(failed)],
        ["functions"],
        ["queue", "ls"],
        ["rule", "ls"],
        ["schedule", "ls"],
        ["account", "ls"],
        ["doctor"],
    ):
        done = db.run(["deferred", *args])
        assert done.returncode in (0, 1) and "called" not in done.stdout + done.stderr, (args, done)
    for path in ("/", "/queues/default", f"/jobs/{waiting}", f"/jobs/{failed}", "/metrics"):
        assert "called" not in web.page(path)
    db.sql(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name like 'deferred%%' "
        "and datname = current_database()".replace("%%", "%")
    )
    assert db.sql("select funcname, calls from pg_stat_user_functions where schemaname = 'public'") == []


def test_patterns_are_shown_and_named_at_their_queues(web, db):
    assert "No patterns." in web.page("/queues") and web.json("/queues.json")["patterns"] == []
    db.sql("""select deferred.__queue_set('tenant.*', '{"rate": 10, "max_running": 3}')""")
    db.defer("noop", queue="tenant.a")
    (pattern,) = web.json("/queues.json")["patterns"]
    assert (pattern["pattern"], pattern["settings"], pattern["queues"]) == (
        "tenant.*",
        {"rate": 10, "max_running": 3},
        1,
    )
    assert "max_running 3, rate 10" in web.page("/queues")
    assert "<dt>From pattern</dt><dd><bdi>tenant.*</bdi></dd>" in web.page("/queues/tenant.a")
    assert web.json("/queues/tenant.a.json")["settings"]["pattern"] == "tenant.*"


@pytest.mark.parametrize("path", ["/", "/queues/default"])
def test_a_page_reads_once_what_lies_in_the_queues(web, db, path):
    db.defer("noop")
    db.sql(f"alter database {db.name} set track_functions = 'all'")
    for _ in range(3):
        assert "default" in web.page(path)

    def told():
        db.sql(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'deferred_web' "
            "and datname = current_database()"
        )
        return dict(
            db.sql(
                "select funcname, calls from pg_stat_user_functions "
                "where funcname in ('__depths', '__fold_housekeeping')"
            )
        )

    calls = told()
    assert calls["__depths"] == 3 + calls.get("__fold_housekeeping", 0), calls


def test_a_host_that_is_missed_stands_on_the_first_page_and_is_looked_for_once_a_minute(web, db):
    db.sql(
        "insert into deferred.__deferred_worker (instance, host, pid, version, started_at, seen_at, ended_at, "
        "mode) select h || ':/run/<d>.pid#1', h, 1, '1', t, t, t, 'run' "
        "from (values ('a', 0), ('b', 25)) v(h, ago), generate_series(now() - interval '3 hours', now() - ago * "
        "interval '1 min', interval '1 min') t"
    )
    told = "<bdi>check_deferred on host b has stopped, while others still run</bdi>"
    assert (
        told in web.page("/", "vic")
        and "pidfile /run/&lt;d&gt;.pid: it was seen 25min ago" in web.page("/")
        and told not in web.page("/queues/default")
    )
    db.sql("delete from deferred.__deferred_worker")
    assert told in web.page("/") and web.json("/.json")["why"][0]["cause"] == "absent"


def test_it_does_not_listen_where_passwords_could_be_read(db):
    for options, says in (
        (["--listen", "0.0.0.0:0"], "without TLS"),
        (["--listen", "0.0.0.0:0", "--auth", "none"], "none"),
        (["--listen", ""], "no address to listen on is set"),
        (["--listen", ""], "set web.listen or web.listen_tls"),
    ):
        done = db.run(["deferred_web", *options])
        assert done.returncode == 78 and says in done.stderr, done


def test_an_address_of_their_own_has_the_metrics_and_nothing_else(start_web, db, job):
    """Beside pages that ask for a login; by the rights of deferred_viewer, through the login of the config."""
    socket_path = os.path.join(db.dir, "m" * (100 - len(db.dir)))  # it is told whole
    web = start_web(f'listen_metrics = "127.0.0.1:0, {socket_path}"')
    said = harness.wait_for(
        lambda: (at := re.findall(r"listening on (\S+), HTTP, for nothing but /metrics$", web.program.output(), re.M))[
            1:
        ]
        and at,
        what="it listens at both",
    )
    assert said[1:] == [socket_path] and web.ask("/metrics", None)[0] == 401 and web.ask("/", None)[0] == 401
    connection = http.client.HTTPConnection("127.0.0.1", int(said[0].rsplit(":", 1)[1]), timeout=30)

    def ask(path, method="GET", **headers):
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()

    status, headers, text = ask("/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain") and "deferred_build_info{" in text
    assert ask("/metrics", Accept="application/openmetrics-text")[2].endswith("# EOF\n")
    assert (ask("/metrics", "HEAD")[0], ask("/metrics?x=1")[0]) == (200, 200)
    assets = re.findall(r'(?:href|src)="(/[\w-]+-[0-9a-f]{12}\.\w+)"', web.page("/"))
    assert assets
    for path in (
        "/",
        "/metrics.json",
        "/metrics/",
        "/queues",
        f"/jobs/{job}.json",
        "/queues/default/pause",
        "/healthz",
        *assets,
    ):
        status, headers, text = ask(path)
        assert (status, headers["Content-Type"], json.loads(text)["error"]) == (
            404,
            "application/json",
            "The page does not exist.",
        ), path
    assert ask("/metrics", "POST")[0] == 405 and ask("/queues/default/pause", "POST")[0] == 404
    login = {"Authorization": "Basic " + base64.b64encode(f"{web.login('opal')}:{web.PASSWORD}".encode()).decode()}
    assert ask("/", **login)[0] == 404 and ask("/metrics", Host="evil.example")[0] == 421
    connection.close()
    local = http.client.HTTPConnection("localhost")
    local.sock = socket.socket(socket.AF_UNIX)
    local.sock.connect(socket_path)
    local.request("GET", "/metrics")
    assert local.getresponse().status == 200
    local.close()


def test_metrics_take_the_login_of_the_config_that_may_look(web, start_web, db):
    """One that may not is refused, whatever else the pages let in; and what needs no login stays on this machine."""
    for who, expected in (("vic", 200), ("nob", 403)):
        other = start_web(
            "listen_metrics = 0", ["--db", f"{db.conninfo} user={web.login(who)} password='{web.PASSWORD}'"]
        )
        port = harness.wait_for(
            lambda: re.search(r"listening on \S+:(\d+), HTTP, for nothing", other.program.output())
        )[1]
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert (answer.status, b"deferred_workers" in answer.read()) == (expected, expected == 200)
        connection.close()
    done = db.run(["deferred_web", "--listen", "127.0.0.1:0", "--listen-metrics", "0.0.0.0:0"])
    assert (
        done.returncode == 78
        and "/metrics is for whoever asks there" in done.stderr
        and "web.listen_tls" in done.stderr
    ), done


@contextlib.contextmanager
def many(web, n, path, who):
    """So many browsers that keep a page fresh, each as page.js does; gives a list of the bodies they got."""
    over, bodies = threading.Event(), []

    def browser(user):
        seen = web_of(web, user)
        status, headers, body = seen("/" if path is None else path)
        while not over.is_set():
            assert status in (200, 304)
            bodies.append((user, status, body))
            over.wait(1)
            status, headers, body = seen(path, If_None_Match=headers["ETag"])

    browsers = [threading.Thread(target=browser, args=(who[i % len(who)],)) for i in range(n)]
    for b in browsers:
        b.start()
    yield bodies
    over.set()
    for b in browsers:
        b.join()


def web_of(web, user):
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=30)

    def ask(path, **headers):
        connection.request(
            "GET", path, headers={"X-Forwarded-User": user, **{k.replace("_", "-"): v for k, v in headers.items()}}
        )
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()

    return ask


@pytest.mark.slow
def test_fifty_browsers_cost_the_database_what_one_costs(start_web, db):
    db.defer("noop")
    people = {f"v{i}": "deferred_viewer" for i in range(25)} | {f"o{i}": "deferred_operator" for i in range(25)}
    web = start_web(
        'auth = proxy\nproxies = "127.0.0.1"\nusers = "' + ", ".join(f"{u}:{r}" for u, r in people.items()) + '"'
    )

    def transactions():
        return db.one("select xact_commit + xact_rollback from pg_stat_database where datname = current_database()")

    def cost(n, who):
        with many(web, n, "/queues/default", who) as bodies:
            time.sleep(12)  # until sessions that have nothing to do have told what they did
            before = transactions()
            time.sleep(6)
            took = transactions() - before
        return took, bodies

    one, _ = cost(1, ["v0"])
    all_of_them, bodies = cost(50, list(people))
    assert len(bodies) > 50 * 5 and all_of_them <= 2 * one + 40, (one, all_of_them)  # there are two kinds of rights
    # Each has a page that is his own, and no more than his.
    tokens = {}
    for user, status, body in bodies:
        if status == 200:
            assert f"<bdi>{user}</bdi>" in body and (">Pause<" in body) == (people[user] == "deferred_operator")
            tokens.setdefault(user, set()).update(re.findall(r'name="token" value="(\w+)"', body))
    assert all(len(tokens[u]) in (1, 2) for u in people if u[0] == "o") and len(set.union(*tokens.values())) >= 25
    # What a button did is seen at once, by who keeps his page fresh too; and who comes to a page sees it as it is.
    asked = web_of(web, "o1")
    status, headers, body = asked("/queues/default")
    token = re.search(r'name="token" value="(\w+)"', body)[1]
    assert web.ask("/queues/default/pause", None, "POST", {"token": token}, X_Forwarded_User="o1")[0] == 303
    assert (
        "This queue is paused" in asked("/queues/default", If_None_Match=headers["ETag"])[2]
        and "This queue is paused" in web_of(web, "v1")("/queues/default", If_None_Match="x")[2]
    )
    db.sql("update deferred.__deferred_queue set paused = false")
    assert "This queue is paused" not in asked("/queues/default")[2]


def test_without_javascript_what_changes_is_loaded_anew(web, job):
    again = '<noscript><meta http-equiv="refresh" content="10"></noscript></head>'
    for path in ("/", "/?range=24h", "/queues", f"/jobs/{job}", "/running", "/dead", "/workers"):
        assert again in web.page(path, "vic"), path
    for path in ("/queues/default", "/jobs", "/functions/fail", "/audit"):
        assert again not in web.page(path), path  # there are forms, or nothing changes
    stop = html.unescape(re.search(r'<noscript><p>[^<]*<a href="([^"]*)"', web.page("/?range=24h&%22%3E%3Cb%3E"))[1])
    assert stop == "?range=24h&%22%3E%3Cb%3E&still=1" and "<noscript>" not in web.page("/" + stop)
    assert "noscript" not in web.ask("/jobs/999999")[2]


def test_killed_in_any_moment_it_leaves_nothing_behind(start_web, db):
    """What it was at is done or not, its row of the audit with it; whoever comes next goes on."""
    db.sql(
        "select deferred.defer_many((select json_agg(json_build_object('fn', 'noop')) from generate_series(1, 3000)))"
    )
    for after_s in (0.0, 0.01, 0.1, 0.3, 0.6, 1.0, 2.0, 4.0, 8.0, 16.0):
        if after_s > 1 and db.hot() < 3000:
            break  # on a busy machine it takes longer until something is done
        web = start_web()
        token = web.token("/jobs/all?verb=cancel&state=ready")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            asked = pool.submit(web.ask, "/jobs/all/cancel?state=ready", "opal", "POST", {"token": token})
            time.sleep(after_s)
            web.program.signal(signal.SIGKILL)
            web.program.wait(30)
            asked.exception()
        start_web.started.remove(web)
        harness.wait_for(
            lambda: db.one(
                "select count(*) from pg_stat_activity where application_name = 'deferred_web' "
                "and datname = current_database()"
            )
            == 0,
            20,
            "its sessions are gone",
        )
        assert db.one("select coalesce(sum(jobs), 0) from deferred.__deferred_action") == 3000 - db.hot()
    assert db.hot() < 3000 and db.sql("select * from deferred.check_ledger()") == []
    assert start_web().json("/.json")["ready"] == min(1000, db.hot())


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user")
def test_another_user_of_the_machine_learns_nothing(db, people, start_web):
    """Not by a socket in a folder that anybody may enter, nor by loopback."""
    db.defer("noop", label="a secret order")
    place = os.path.join(db.dir, "open")
    os.makedirs(place)
    os.chmod(db.dir, 0o711), os.chmod(place, 0o711)
    web = db.spawn(["deferred_web", "--listen", os.path.join(place, "s"), "--auth", "none"])
    harness.wait_for(lambda: "listening on" in web.output() or not web.alive(), what="a listening deferred_web")
    ask = (
        "import socket,sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b'GET /jobs "
        "HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n'); print(s.makefile().read())"
    )
    done = {
        uid: subprocess.run(
            ["/usr/bin/python3", "-c", ask, os.path.join(place, "s")],
            user=uid,
            group=uid,
            extra_groups=[],
            capture_output=True,
            text=True,
        )
        for uid in (0, 65534)
    }
    assert "a secret order" in done[0].stdout and "Permission denied" in done[65534].stderr and done[65534].stdout == ""
    web.signal(signal.SIGTERM)
    assert web.wait(30) == 0
    over_tcp = start_web()
    for path in ("/", "/jobs", "/jobs.json", "/metrics", "/queues/default", "/queues/none", "/nothing"):
        status, _, text = over_tcp.ask(path, None)
        assert status == 401 and "secret" not in text and "default" not in text, path


def test_a_login_gets_no_page_that_was_made_for_another(web, db):
    """What the database tells of its sessions is another's."""
    job = db.defer("noop")
    assert db.run(["check_deferred"]).returncode == 0
    job = db.defer("noop")
    db.sql(
        f"create role seer_{os.getpid()} login password '{web.PASSWORD}' in role password_people, deferred_viewer, "
        f"pg_read_all_stats"
    )
    holder = db.connect()
    holder.cursor().execute("select 'a secret query' from deferred.__deferred_hot for update")
    try:
        seer = f"seer_{os.getpid()}"
        for _ in range(2):
            assert (
                "idle in transaction" in web.ask(f"/jobs/{job}", seer, If_None_Match="x")[2]
                and "state not seen" in web.ask(f"/jobs/{job}", "vic", If_None_Match="x")[2]
            )
    finally:
        holder.close()
        db.sql(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'deferred_web' "
            "and datname = current_database()"
        )
        db.sql(f"drop role {seer}")


def test_jobs_of_a_time_are_found_beneath_many_newer_ones(web, db):
    db.sql(
        "insert into deferred.__deferred (id, queue, fn, params, "
        "created_at) select nextval('deferred.__deferred_id_seq'), 'default', 'noop', '{}', "
        "now() - (40001 - i) * interval '1 minute' "
        "from generate_series(1, 40000) i; analyze deferred.__deferred"
    )
    ids = [
        row[0]
        for row in db.sql(
            "select id from deferred.__deferred where created_at between now() - interval '601 hours' "
            "and now() - interval '600 hours' order by id desc"
        )
    ]
    assert len(ids) == 60
    for _ in range(7):  # the sixth time the plan is one for any arguments
        told = web.json("/jobs.json?since=601h&until=600h", "vic")
        assert [j["id"] for j in told["jobs"]] == ids[:50] and told["after"] == ids[49]
    told = web.json(f"/jobs.json?since=601h&until=600h&after={ids[49]}", "vic")
    assert [j["id"] for j in told["jobs"]] in (
        ids[50:],
        ids[50:-1],
    ) and "after" not in told, "it does not go on to the oldest job of all"
    told = web.json("/jobs.json?since=601h&until=600h&q=params.x:1", "rea")
    assert told["jobs"] == [] and "after" not in told
    assert (
        web.json("/jobs.json?until=9000h", "vic")["jobs"]
        == []
        == web.json("/jobs.json?since=2099-01-01", "vic")["jobs"]
    )


def test_a_search_reads_no_more_than_it_looks_at(db):
    """Of what the planner knows nothing of it takes a small share to be meant, and would sort it."""
    db.sql(
        "insert into deferred.__deferred (id, queue, fn, params) select nextval('deferred.__deferred_id_seq'), "
        "'default', 'noop', '{}' from generate_series(1, 60000); analyze deferred.__deferred"
    )
    for name, more in (("web_jobs", ", null"), ("web_jobs_params", ", array['x'], '1', array[]::text[], null, null")):
        text = pg.source(name)
        for since, until in (
            ("null", "null"),
            ("(now() - interval '1 hour')::text", "now()::text"),
            ("(now() + interval '1 hour')::text", "null"),
        ):
            with db.connect(options="-c role=deferred_reader") as c, c.cursor() as cursor:
                cursor.execute("set jit = off; set enable_bitmapscan = off; set plan_cache_mode = force_custom_plan")
                cursor.execute(f"prepare x as {text}")
                cursor.execute(
                    f"execute x(null, null, null, 50, null, 'nothing', null, null, null, {since}, {until}, 10000, "
                    f"'true', null, null{more})"
                )
                assert len(cursor.fetchall()) <= 1
                cursor.execute(
                    "select sum(seq_tup_read + idx_tup_fetch) from pg_stat_xact_user_tables "
                    "where relname like '\\_\\_deferred\\_0' or relname = '__deferred_default'"
                )
                assert cursor.fetchone()[0] < 11000, (name, since)


def test_a_database_without_the_schema_is_named_as_the_cause(web, db):
    db.sql("drop schema deferred cascade")
    for path in "/", "/jobs", "/jobs.json":
        status, _, text = web.ask(path)
        assert status == 503 and "deferred migrate" in text and "cannot be reached" not in text
