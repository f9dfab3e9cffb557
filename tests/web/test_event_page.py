"""The page of a job that waits for events: an operator sends one, and the audit log has it."""

import html
import json

HOSTILE = "<script>alert(1)</script>\"'&\u202e"


def send(web, job, who="opal", path="send", **fields):
    return web.ask(f"/jobs/{job}/{path}", who, "POST", {"token": web.token("/defer"), **fields})


def said(db, job):
    return db.sql("select outcome, result from deferred.parents(%s)", job)


def audit(db):
    return db.sql(
        "select verb, who, job_id, settings->>'event', refused from deferred.__deferred_action order by id desc limit 1"
    )[0]


def settle(db):
    while db.one("select deferred.__settle(100)"):
        pass


def test_an_operator_sends_what_a_job_waits_for(web, db):
    limit = {"event": "approved", "as": "boss", "within": "3 days", "on_timeout": "fail"}
    job, other = db.defer("noop", wait_for=[limit, HOSTILE]), db.defer("noop")
    page = web.page(f"/jobs/{job}")
    assert "waits for an event" in page and "Waits for events" in page and "<script>alert" not in page
    assert page.count(">Send event</button>") == 2 and html.escape(HOSTILE, quote=False)[:20] in page
    assert "Send event" not in web.page(f"/jobs/{job}", "vic") + web.page(f"/jobs/{other}")
    assert "Waits for events" in web.page(f"/jobs/{job}", "vic")
    first, second = web.json(f"/jobs/{job}.json")["events"]
    assert (first["event"], first["name"], first["said"], first["on_timeout"], first["waits"]) == (
        "approved",
        "boss",
        "not sent",
        "fail",
        True,
    )
    assert first["until"].startswith("20") and second["event"] == HOSTILE and not second.get("until")
    status, headers, _ = send(web, job, event="approved", payload='{"by": "Ann"}')
    assert (status, headers["Location"]) == (303, f"/jobs/{job}?done=send")
    assert "The event is sent." in web.page(headers["Location"])
    assert audit(db) == ("send", web.login("opal"), job, "approved", None)
    settle(db)
    page = web.page(f"/jobs/{job}")
    assert page.count(">Send event</button>") == 1 and f"by {web.login('opal')}" in page
    assert "Ann" not in web.page("/audit") and said(db, job) == [(None, None), ("ok", '{"by": "Ann"}')]
    for fields, why in (
        ({"event": "approved"}, f"job {job} does not wait for event 'approved'"),
        ({"event": "no such", "payload": "1"}, "does not wait for event 'no such'"),
        ({"payload": "1"}, "does not wait for event"),
        ({"event": HOSTILE, "payload": '{"secret"'}, "the payload is not valid JSON"),
        ({"event": HOSTILE, "payload": json.dumps("x" * 65535)}, "more than 65536"),
    ):
        _, headers, _ = send(web, job, **fields)
        assert headers["Location"] == f"/jobs/{job}?refused=send", fields
        assert why in audit(db)[4] and "secret" not in audit(db)[4]
        assert html.escape(why[:30], quote=False).replace("'", "&#39;")[:20] in web.page(headers["Location"])
    assert send(web, job, "vic", event=HOSTILE)[0] == 403
    assert json.loads(send(web, job, path="send.json", event=HOSTILE, payload=" ")[2])["refused"] is None
    settle(db)
    assert db.one("select state from deferred.job where id = %s", job) == "ready"
    assert said(db, job) == [("ok", None), ("ok", '{"by": "Ann"}')]
    assert db.sql("select * from deferred.check_ledger()") == []
