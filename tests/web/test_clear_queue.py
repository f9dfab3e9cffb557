"""A queue is cleared from its page: by operators who type its name, step by step, but for what
somebody holds; each step and each refusal is written down."""

import html
import re
import signal

import psycopg2.errors
import pytest

import harness

HOSTILE = "<script>alert(1)</script>\"'&\u202e"


def fill(db, n):
    db.sql(
        "select deferred.defer_many((select json_agg(json_strip_nulls(json_build_object('fn', 'noop', 'queue', "
        "'bulk', 'delay', case when i %% 2 = 0 then '1h' end))) "
        "from generate_series(1, %s) i))",
        n,
    )


def form_of(text):
    found = re.search(
        r'<form class="(?:act|search)" method="post"( data-go)? action="(/queues/[^"]*)">(.*?)</form>', text
    )
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', found[3])
    return found[1], html.unescape(found[2]), {k: html.unescape(v) for k, v in fields}


def actions(db):
    return db.sql("select who, role, verb, queue, jobs, refused from deferred.__deferred_action order by id")


def test_an_operator_clears_a_queue_step_by_step_but_for_what_is_held(web, db):
    other = db.defer("noop")
    running = db.defer("sleep", '{"ms": 60000}', queue="bulk")
    worker = db.spawn(["check_deferred", "--cnt", "1", "--queue", "bulk"])
    harness.wait_for(
        lambda: db.one("select state = 'claimed' from deferred.job where id = %s", running), 20, "one is running"
    )
    db.sql("select deferred.defer(null, to_json('a message'::text), queue => 'bulk') from generate_series(1, 3)")
    held = db.one("select id from deferred.__message_get('{bulk}', '{1}', '{60000}') where id is not null")
    fill(db, 2300)
    waiting = db.defer("noop", queue="bulk", after=running)
    assert '/queues/bulk/clear"' in web.page("/queues/bulk") and "Clear this queue" not in web.page(
        "/queues/bulk", "rea"
    )
    asked = web.page("/queues/bulk/clear")
    goes_on, path, fields = form_of(asked)
    assert not goes_on and set(fields) == {"token"} and 'name="typed" required' in asked
    told = []
    fields["typed"] = "bulk"
    while True:
        status, _, text = web.ask(path, "opal", "POST", fields)
        assert status == 200
        told.append(re.search(r"(\d+) jobs were cancelled( so far)?\.", text).groups())
        if "data-go" not in text:
            break
        if len(told) == 1:
            late = db.defer("noop", queue="bulk")
        goes_on, path, fields = form_of(text)
        assert goes_on and set(fields) == {"token", "typed", "at", "to", "done"} and ">Stop</a>" in text
    assert told[-1] == ("2303", None) and len(told) >= 2, told
    assert db.sql(
        "select id, state from deferred.job where state in ('ready', 'delayed', 'waiting', 'claimed') order by id"
    ) == [(other, "ready"), (running, "claimed"), (held, "claimed"), (late, "ready")]
    assert db.sql("select distinct error from deferred.__deferred_log") == [(f"queue cleared by {web.login('opal')}",)]
    assert db.one("select state from deferred.job where id = %s", waiting) == "cancelled"
    rows = actions(db)
    assert (
        {r[:4] + r[5:] for r in rows} == {(web.login("opal"), web.login("opal"), "clear", "bulk", None)}
        and sum(r[4] for r in rows) == 2303
        and len(rows) == len(told)
    )
    assert "clear" in web.page("/queues/bulk", "vic") and db.sql("select * from deferred.check_ledger()") == []
    worker.signal(signal.SIGTERM)
    worker.wait(30)


def test_the_name_has_to_be_typed_and_nobody_but_an_operator_clears(start_web, db):
    fill(db, 3)
    web = start_web()
    path, fields = form_of(web.page("/queues/bulk/clear"))[1:]
    for typed in ("", "Bulk", "default", HOSTILE):
        status, _, text = web.ask(path, "opal", "POST", {**fields, "typed": typed})
        assert (
            status == 200
            and 'role="alert"' in text
            and "is not the name of the queue" in text
            and "<script>alert" not in text
            and "data-go" not in text
        )
        assert (
            html.unescape(re.search(r'spellcheck="false" value="([^"]*)"></label><button class="careful">', text)[1])
            == typed
            and "\u202e" not in text
        )  # what was typed is kept
    assert db.hot() == 3 and [r[2:5] + (r[5] is None,) for r in actions(db)] == [("clear", "bulk", 0, False)] * 4
    # A place in the queue that somebody made up does not make up for the name.
    assert (
        "is not the name of the queue" in web.ask(path, "opal", "POST", {**fields, "at": "1", "to": "99"})[2]
        and db.hot() == 3
    )
    for who in ("vic", "rea"):
        assert (
            web.ask("/queues/bulk/clear", who)[0] == 403 == web.ask(path, who, "POST", {**fields, "typed": "bulk"})[0]
        )
    assert (
        web.ask(path, "opal", "POST", {"typed": "bulk"})[0]
        == 403
        == web.ask(path, "opal", "POST", {**fields, "typed": "bulk"}, Origin="http://evil.example")[0]
    )
    assert (
        web.ask("/queues/none/clear")[0] == 404 == web.ask("/queues/%3Cscript%3E/clear")[0] and web.ask(path)[0] == 405
    )
    assert (
        "queue &#39;none&#39; does not exist"
        in web.ask("/queues/none/clear/step", "opal", "POST", {**fields, "typed": "none"})[2]
    )
    looking = start_web("read_only = 1")
    assert "Clear this queue" not in looking.page("/queues/bulk") and looking.ask("/queues/bulk/clear")[0] == 403
    with pytest.raises(psycopg2.errors.InsufficientPrivilege), db.connect(
        options="-c role=deferred_reader"
    ) as c, c.cursor() as cursor:
        cursor.execute("select deferred.__act_clear('bulk', 'bulk', null, null, 'x', null)")
    assert db.hot() == 3
    assert web.ask("/queues/bulk/clear.json")[0] == 200 and web.json("/queues/bulk/clear.json")["refused"] is None
    assert "3 jobs were cancelled." in web.ask(path, "opal", "POST", {**fields, "typed": "bulk"})[2] and db.hot() == 0
