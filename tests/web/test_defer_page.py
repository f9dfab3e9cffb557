"""A job is deferred from a page: by operators, with all that deferred.defer() checks; what is
refused stays in the form, quoted and escaped, and is written down."""

import html
import json
import re

import psycopg2.errors
import pytest

HOSTILE = "<script>alert(1)</script>\"'&\u202e\u200c</textarea>"


def send(web, who="opal", path="/defer/now", **fields):
    return web.ask(path, who, "POST", {"token": web.token("/defer"), **fields})


def kept(text):
    """What the fields of the form hold."""
    fields = {
        name: html.unescape(value) for name, value in re.findall(r'<input name="(\w+)"[^>]* value="([^"]*)">', text)
    }
    return {
        **{k: v for k, v in fields.items() if v and k != "q"},
        "params": html.unescape(re.search(r"<textarea [^>]*>\n(.*?)</textarea>", text, re.S)[1]),
    }


def test_an_operator_defers_a_job_and_comes_to_its_page(web, db):
    assert 'href="/defer"' in web.page("/functions") and "/defer" not in web.page("/functions", "rea")
    db.defer("echo")
    assert db.run(["check_deferred"]).returncode == 0
    assert 'href="/defer?fn=echo"' in web.page("/functions/echo") and kept(web.page("/defer?fn=echo")) == {
        "fn": "echo",
        "params": "{}",
    }
    assert '<option value="echo">' in web.page("/defer") and '<option value="default">' in web.page("/defer")
    params = '{"a": 12345678901234567890123,\n "b": "\u200f\u20ac"}'
    status, headers, _ = send(
        web,
        fn="echo",
        params=params.replace("\n", "\r\n"),
        queue="few",
        label=HOSTILE,
        delay="1h",
        expires="2d",
        key="k 1",
        priority="-3",
        max_attempts="4",
        timeout="90s",
    )
    job = db.one("select max(id) from deferred.__deferred")
    assert (status, headers["Location"]) == (303, f"/jobs/{job}?done=defer") and "The job is deferred." in web.page(
        headers["Location"]
    )
    assert db.sql(
        "select fn, queue, params::text, label, key, priority, max_attempts, timeout_ms, created_by, "
        "expires_at - created_at = interval '2 days', run_at - created_at = interval '1 hour' "
        "from deferred.__deferred where id = %s",
        job,
    ) == [("echo", "few", params, HOSTILE, "k 1", -3, 4, 90000, web.login("opal"), True, True)]
    assert db.one("select state from deferred.job where id = %s", job) == "delayed" and "<script>alert" not in web.page(
        f"/jobs/{job}"
    ) + web.page("/audit")
    ((verb, who, id, fn, settings, refused),) = db.sql(
        "select verb, who, job_id, fn, settings, refused from deferred.__deferred_action"
    )
    assert (
        (verb, who, id, fn, refused) == ("defer", web.login("opal"), job, "echo", None)
        and settings["label"] == HOSTILE
        and "a" not in settings
    )
    assert "defer" in [
        a["verb"] for a in web.json(f"/jobs/{job}.json", "vic")["actions"]
    ] and "12345678901234567890123" not in web.page("/audit")
    # Nothing but the function has to be said; as JSON the answer is the number.
    assert (
        json.loads(send(web, path="/defer/now.json", fn="noop")[2])["job"]
        == job + 1
        == db.one("select id from deferred.__deferred where fn = 'noop' and params::text = '{}'")
    )
    assert (
        send(web, fn="noop", params=json.dumps({"x": "y\u20ac" * 16000}))[0] == 303
        and db.sql("select * from deferred.check_ledger()") == []
    )


def test_a_key_is_held_as_long_as_the_form_says(web, db):
    fields = {"fn": "noop", "key": "k", "key_until": "10min"}
    first = json.loads(send(web, path="/defer/now.json", **fields)[2])["job"]
    assert "has key &#39;k&#39; already" in send(web, **fields)[2].replace("'", "&#39;")
    for on_duplicate in ("skip", "update"):
        made = send(web, path="/defer/now.json", label=on_duplicate, on_duplicate=on_duplicate, **fields)[2]
        assert json.loads(made)["job"] == first
    assert db.sql("select label, key_until_ms from deferred.__deferred where key = 'k'") == [("update", 600000)]
    assert "held until 00:10:00 after the end of the job" in web.page(f"/jobs/{first}")
    db.hold(first)
    assert "is running and cannot be replaced" in send(web, on_duplicate="replace", **fields)[2]


def test_what_is_refused_is_quoted_and_stays_in_the_form(web, db):
    db.sql("insert into deferred.__deferred_queue (name, max_length) values ('full', 1)")
    db.defer("noop", queue="full")
    assert send(web, fn="noop", key="k")[0] == 303  # keys of two roles never meet
    for fields, says in (
        ({"params": '{"a": secret}'}, r'params are not valid JSON: .*secret.*JSON data, line 1: \{"a": secret'),
        ({"params": '{"a": 1,\n}'}, r"JSON data, line 2: \}"),
        ({"params": "{" + HOSTILE}, "params are not valid JSON: .*<"),
        ({"params": "[" * 600 + "]" * 600}, "nest deeper"),
        ({"fn": HOSTILE}, "function name '<script>"),
        ({"queue": HOSTILE}, "queue name '<script>"),
        ({"delay": HOSTILE}, "option 'delay': '<script>.*' is not a time span .write a number and a unit"),
        ({"expires": "-1s"}, "option 'expires': '-1s' is not a time span"),
        ({"priority": HOSTILE}, "option 'priority' is not a number: '<script>"),
        ({"priority": "99999"}, "option 'priority' is out of range: 99999"),
        ({"max_attempts": "0"}, "max_attempts"),
        ({"timeout": HOSTILE}, "is not a time span"),
        ({"label": "l" * 1001}, "'label' is out of range: 1001"),
        ({"key": "k"}, "has key 'k' already"),
        ({"key": "k", "key_until": HOSTILE}, "option 'key_until' has the invalid value '<script>"),
        ({"queue": "full"}, r"queue 'full' is full \(max_length 1\)"),
    ):
        fields = {"fn": "noop", "params": '{"a": "\u202e"}', "label": HOSTILE, **fields}
        status, _, text = send(web, **fields)
        assert (
            status == 200 and "<script>alert" not in text and not re.search("[\u202a-\u202e\u2066-\u2069\u200b]", text)
        ), fields
        said = html.unescape(re.search(r'role="alert"><bdi>(.*?)</bdi>', text, re.S)[1])
        assert re.search(says, said, re.S), said
        assert kept(text) == fields
    assert db.one("select count(*) from deferred.__deferred") == 2
    rows = db.sql(
        "select verb, fn, job_id, refused from deferred.__deferred_action where refused is not null order by id"
    )
    assert len(rows) == 16 and all(r[0] == "defer" and r[2] is None for r in rows)
    # What is in params is for those who may read them.
    assert [r[3] for r in rows[:3]] == ["params are not valid JSON"] * 3 and "secret" not in web.page("/audit", "vic")


def test_nobody_but_an_operator_defers_and_he_no_more_than_he_may(start_web, db):
    web = start_web()
    token = web.token("/defer")
    for who in ("vic", "rea"):
        assert web.ask("/defer", who)[0] == 403 == web.ask("/defer/now", who, "POST", {"token": token, "fn": "noop"})[0]
    assert (
        web.ask("/defer/now", "opal", "POST", {"fn": "noop"})[0]
        == 403
        == web.ask("/defer/now", "opal", "POST", {"token": token, "fn": "noop"}, Origin="http://evil.example")[0]
    )
    assert web.ask("/defer/now", "opal", "POST", {"token": token, "fn": "noop", "params": " " * 300000})[0] == 413
    looking = start_web("read_only = 1")
    assert looking.ask("/defer")[0] == 403 and "/defer" not in looking.page("/functions")
    db.sql("insert into deferred.__deferred_grant (role, fn) values (%s, 'echo')", web.login("opal"))
    assert "may not defer" in send(web, fn="noop")[2] and send(web, fn="echo")[0] == 303
    with pytest.raises(psycopg2.errors.InsufficientPrivilege), db.connect(
        options="-c role=deferred_reader"
    ) as c, c.cursor() as cursor:
        cursor.execute("select deferred.__act_defer('noop', '{}', '{}', 'x', null)")
    assert db.sql("select fn from deferred.__deferred") == [("echo",)]
