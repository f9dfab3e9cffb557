"""Operators change a waiting job on its page, with the checks of deferred.update(). Fields that were not edited keep
their values. Refused values stay in the form. The audit log has changes and refusals."""

import html
import json
import re

import pytest

import harness

HOSTILE = "<script>alert(1)</script>\"'&\u202e\u200c</textarea>"


def fields(text):
    """What the fields of the form hold."""
    found = {
        name: html.unescape(value) for name, value in re.findall(r'<input name="(\w+)"[^>]* value="([^"]*)">', text)
    }
    found.pop("q", None)
    params = re.search(r"<textarea [^>]*>\n(.*?)</textarea>", text, re.S)
    return {**found, **({"params": html.unescape(params[1])} if params else {})}


def send(web, job, who="opal", json_answer=False, **form):
    path = f"/jobs/{job}/update" + (".json" if json_answer else "")
    return web.ask(path, who, "POST", {"token": web.token("/defer"), **form})


def stored(db, job):
    return db.sql(
        "select queue, label, priority, max_attempts, timeout_ms, params::text from deferred.__deferred where id = %s",
        job,
    )[0]


def actions(db):
    return db.sql("select verb, job_id, settings, refused from deferred.__deferred_action order by id")


def test_an_operator_changes_a_job_and_comes_back_to_its_page(web, db):
    job = db.defer("noop", '{"a":  12345678901234567890,\r\n "b": 1}', label=HOSTILE, priority=3, timeout="90s")
    assert f'href="/jobs/{job}/edit"' in web.page(f"/jobs/{job}")
    assert f"/jobs/{job}/edit" not in web.page(f"/jobs/{job}", "rea")
    form = fields(web.page(f"/jobs/{job}/edit"))
    assert form == {
        "queue": "default",
        "label": HOSTILE,
        "priority": "3",
        "delay": "",
        "max_attempts": "",
        "timeout": "90s",
        "params": '{"a":  12345678901234567890,\n "b": 1}',
    }
    before = stored(db, job)
    status, headers, _ = send(web, job, **form)
    assert (status, headers["Location"]) == (303, f"/jobs/{job}?done=nothing")
    assert stored(db, job) == before and actions(db) == []
    status, headers, _ = send(web, job, **{**form, "priority": "5", "label": "", "max_attempts": "2"})
    assert (status, headers["Location"]) == (303, f"/jobs/{job}?done=update")
    assert "The job was changed." in web.page(headers["Location"])
    assert stored(db, job) == ("default", None, 5, 2, 90000, before[-1])
    assert actions(db) == [("update", job, {"label": None, "priority": "5", "max_attempts": "2"}, None)]
    send(web, job, queue="other", delay="1h", timeout="", params='{"b": "\u20ac"}')
    assert stored(db, job) == ("other", None, 5, 2, None, '{"b": "\u20ac"}')
    assert db.one("select state from deferred.job where id = %s", job) == "delayed"
    assert actions(db)[1][2] == {"queue": "other", "delay": "1h", "timeout": None, "params": "changed"}


@pytest.mark.parametrize(
    "form, says",
    [
        ({"priority": "high"}, "option 'priority' is not a number: 'high'"),
        ({"delay": "5"}, "delay '5' has no unit"),
        ({"queue": "a b"}, "queue name 'a b' is invalid"),
        ({"params": '{"a": }'}, "params are not valid JSON"),
        ({"params": "7 <b>"}, "params are not valid JSON"),
        ({"queue": "small"}, "queue 'small' is full"),
        ({"queue": "keyed"}, "of queue 'keyed' has key 'k' already"),
    ],
)
def test_what_is_refused_stays_in_the_form_and_is_written_down(web, db, form, says):
    db.sql("""select deferred.__queue_set('small', '{"max_length": 1}', true)""")
    db.defer("noop", queue="small")
    db.defer("noop", queue="keyed", key="k")
    job = db.defer("noop", key="k")
    before = stored(db, job)
    with_label = {"label": HOSTILE, **form}
    status, _, text = send(web, job, **with_label)
    assert status in (200, 400) and says in html.unescape(text) and "<script>alert" not in text
    assert {name: fields(text)[name] for name in with_label} == with_label
    assert stored(db, job) == before
    status, _, text = send(web, job, json_answer=True, **with_label)
    assert says in json.loads(text)["refused"]
    for verb, of, settings, refused in actions(db):
        assert (verb, of) == ("update", job) and refused and "7 <b>" not in json.dumps([settings, refused])


def test_a_job_that_is_claimed_or_has_ended_is_refused(web, db):
    running = db.defer("sleep", '{"ms": 60000}')
    db.spawn(["check_deferred", "--cnt", "1"])
    harness.wait_for(lambda: db.one("select state from deferred.job where id = %s", running) == "claimed")
    assert "/edit" not in web.page(f"/jobs/{running}")
    assert f"job {running} is claimed" in send(web, running, priority="5")[2]
    ended = db.defer("noop")
    db.sql("select deferred.cancel(%s)", ended)
    assert "/edit" not in web.page(f"/jobs/{ended}")
    assert f"job {ended} has ended" in send(web, ended, priority="5")[2]
    assert [refused is not None for *_, refused in actions(db)] == [True, True]


def test_only_operators_change_jobs(web, db):
    job = db.defer("noop")
    for who in ("vic", "rea"):
        assert web.ask(f"/jobs/{job}/edit", who)[0] == 403
        assert web.ask(f"/jobs/{job}/update", who, "POST", {"token": web.token("/defer"), "priority": "5"})[0] == 403
    assert web.ask("/jobs/999/edit")[0] == 404
    assert web.ask(f"/jobs/{job}/update", "opal", "POST", {"priority": "5"})[0] == 403
    assert stored(db, job)[2] == 0


def test_params_that_are_long_stay_out_of_the_form(web, db):
    job = db.defer("noop", json.dumps("x" * 70000))
    assert "params" not in fields(web.page(f"/jobs/{job}/edit"))
    send(web, job, params="[1]", priority="5")
    assert stored(db, job)[2] == 5 and len(stored(db, job)[-1]) > 70000
