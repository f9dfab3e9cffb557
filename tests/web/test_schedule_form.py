"""Operators add and change schedules on a page, with the checks and words of `deferred schedule set`."""

import html
import json
import re

import psycopg2.errors
import pytest

HOSTILE = "<script>alert(1)</script>\"'&\u202e</textarea>"


def fields_of(text):
    """What the form holds."""
    form = re.search('<form class="search fields".*?</form>', text, re.S)[0]
    found = {n: html.unescape(v) for n, v in re.findall(r'<input[^>]* name="(\w+)"[^>]* value="([^"]*)">', form) if v}
    for name, words in re.findall(r'<select name="(\w+)">(.*?)</select>', form):
        found.update((name, word) for word in re.findall("<option selected>(.*?)</option>", words))
    found["params"] = html.unescape(re.search(r"<textarea [^>]*>\n(.*?)</textarea>", form, re.S)[1])
    return found


def send(web, who="opal", path="/schedule/set", **fields):
    return web.ask(path, who, "POST", {"token": web.token("/schedule"), **fields})


def refused(answer):
    status, _, text = answer
    assert status == 200 and "<script>alert" not in text
    return html.unescape(re.search(r'role="alert"><bdi>(.*?)</bdi>', text, re.S)[1])


def test_an_operator_adds_and_changes_a_schedule(web, db):
    assert 'href="/schedule">Add a schedule<' in web.page("/recurring")
    for who in ("vic", "rea"):
        assert "/schedule" not in web.page("/recurring", who)
    typed = {
        "name": "nightly",
        "rule": "0 3 * * *",
        "fn": "echo",
        "timezone": "Europe/Berlin",
        "queue": "few",
        "missed": "skip",
        "overlap": "allow",
        "late": "10min",
        "jitter": "90s",
        "label": HOSTILE,
        "timeout": "5min",
        "priority": "-2",
        "expires": "2d",
        "max_attempts": "4",
        "backoff_floor": "2s",
        "concurrency_key": "k",
        "concurrency": "2",
        "params": '{"a": 1,\n "b": "\u20ac"}',
    }
    status, headers, _ = send(web, **{**typed, "params": typed["params"].replace("\n", "\r\n")})
    assert (status, headers["Location"]) == (303, "/recurring/nightly?done=set")
    page = web.page(headers["Location"])
    assert (
        "The schedule is saved." in page
        and 'href="/schedule?name=nightly">Change<' in page
        and "<script>alert" not in page
    )
    assert "Change<" not in web.page("/recurring/nightly", "rea")
    # What is set is what the command would have set.
    by_command = ["deferred", "schedule", "set", "other", typed["rule"], typed["fn"], typed["params"]]
    for name, value in typed.items():
        if name not in ("name", "rule", "fn", "params"):
            by_command += ["--" + name.replace("_", "-"), value]
    assert db.run(by_command).returncode == 0
    columns = "rule, zone, fn, params::text, queue, opts::jsonb, missed, late_ms, overlap, jitter_ms"
    rows = db.sql(f"select {columns} from deferred.__deferred_schedule order by name")
    assert len(rows) == 2 and rows[0] == rows[1]
    assert db.one("select owner::text from deferred.__deferred_schedule where name = 'nightly'") == web.login("opal")
    # The form to change it holds all of that; what was not typed in it stays, tags too.
    db.sql(
        "update deferred.__deferred_schedule set opts = (opts::jsonb || '{\"tags\": [\"t\"]}')::json"
        " where name = 'nightly'"
    )
    text = web.page("/schedule?name=nightly")
    form = fields_of(text)
    version = form.pop("version")
    assert (
        {k: v for k, v in form.items() if k != "token"} == typed
        and " readonly" in text
        and "<details class=\"whole\" open>" in text
    )
    changed = {**typed, "rule": "every 5min", "label": "", "version": version, "timezone": ""}
    assert send(web, **changed)[1]["Location"] == "/recurring/nightly?done=set"
    assert db.sql(
        "select rule, zone, opts->>'label', opts->'tags' from deferred.__deferred_schedule where name = 'nightly'"
    ) == [("every 5min", "UTC", None, ["t"])]
    rows = db.sql("select verb, who, fn, schedule, settings, refused from deferred.__deferred_action order by id")
    assert [r[:4] + r[5:] for r in rows] == [("set", web.login("opal"), "echo", "nightly", None)] * 2
    assert rows[0][4]["rule"] == "0 3 * * *" and rows[0][4]["label"] == HOSTILE and "a" not in rows[0][4]
    assert [a["verb"] for a in web.json("/recurring/nightly.json", "vic")["actions"]] == ["set", "set"]
    # As JSON the answer is the name.
    assert json.loads(send(web, path="/schedule/set.json", name="short", rule="@daily", fn="noop")[2]) == {
        "page": "set",
        "schedule": "short",
        "refused": None,
    }


def test_what_is_refused_has_the_words_of_the_command_and_stays_in_the_form(web, db):
    typed = {"name": "n", "rule": "@daily", "fn": "noop", "params": '{"x": "\u202e"}', "label": HOSTILE}
    for wrong in (
        {"name": "a b"},
        {"rule": "61 2 * * *"},
        {"rule": "every day"},
        {"rule": "<script>alert(1)</script>"},
        {"rule": "0 0 30 2 *"},
        {"fn": "no fn"},
        {"timezone": "Europe/Berln"},
        {"queue": "a b"},
        {"late": "soon"},
        {"jitter": "2d"},
        {"missed": "all", "overlap": "skip"},
        {"priority": "x"},
        {"max_attempts": "0"},
        {"timeout": "-1s"},
        {"backoff_exponent": "0"},
        {"concurrency": "2"},
    ):
        fields = {**typed, **wrong}
        said = refused(answer := send(web, **fields))
        assert {k: v for k, v in fields_of(answer[2]).items() if k != "token"} == fields, wrong
        options = [
            a
            for k, v in fields.items()
            if k not in ("name", "rule", "fn", "params")
            for a in ("--" + k.replace("_", "-"), v)
        ]
        by_command = db.run(
            ["deferred", "schedule", "set", fields["name"], fields["rule"], fields["fn"], fields["params"], *options]
        )
        assert by_command.returncode != 0 and said.split(" (")[0] in by_command.stderr, (said, by_command.stderr)
    for name, value in (("timeout", "30"), ("late", "5")):
        by_command = db.run(["deferred", "schedule", "set", "n", "@daily", "noop", "--" + name, value]).stderr
        what, hint = refused(send(web, **{**typed, name: value})).rstrip(")").split(" (")
        assert what == f"{name} '{value}' has no unit"
        assert by_command == f"deferred: option '--{name}': value '{value}' has no unit\nhint: {hint}\n"
    assert "secret" in refused(send(web, **{**typed, "params": '{"a": secret}'}))
    assert db.sql("select from deferred.__deferred_schedule") == []
    rows = db.sql("select refused from deferred.__deferred_action order by id")
    assert len(rows) == 17 and all(r[0] for r in rows) and "secret" not in web.page("/audit", "vic")


def test_a_form_neither_replaces_nor_undoes_what_others_set(web, db):
    assert send(web, name="n", rule="@daily", fn="noop")[0] == 303
    assert (
        refused(send(web, name="n", rule="@hourly", fn="noop"))
        == "schedule 'n' exists already (change it on its page, or choose another name)"
    )
    form = fields_of(web.page("/schedule?name=n"))
    assert send(web, **{**form, "rule": "@weekly"})[0] == 303
    assert (
        refused(send(web, **{**form, "rule": "@monthly"})) == "schedule 'n' was changed meanwhile (load its form again)"
    )
    assert db.sql("select rule from deferred.__deferred_schedule") == [("@weekly",)]
    form = fields_of(web.page("/schedule?name=n"))
    db.sql("delete from deferred.__deferred_schedule")
    assert "schedule 'n' does not exist" in refused(send(web, **form)) and web.ask("/schedule?name=n")[0] == 404
    # A schedule of another role, or of a file, is not changed here.
    db.sql("select deferred.schedule('theirs', '@daily', 'noop')")
    db.sql(
        "select * from deferred.__schedule_sync('jobs.conf',"
        " '[{\"name\": \"filed\", \"rule\": \"@daily\", \"fn\": \"noop\"}]', false)"
    )
    assert "belongs to role" in web.page("/schedule?name=theirs")
    version = db.one(
        "select extract(epoch from changed_at)::text from deferred.__deferred_schedule where name = 'theirs'"
    )
    assert "belongs to role" in refused(send(web, name="theirs", rule="@hourly", fn="noop", version=version))
    db.sql(f"update deferred.__deferred_schedule set owner = '{web.login('opal')}'::regrole where name = 'filed'")
    assert "comes from &#39;jobs.conf&#39;: change it there" in web.page("/schedule?name=filed")
    form = fields_of(web.page("/schedule?name=filed"))
    assert "comes from 'jobs.conf'" in refused(send(web, **{**form, "rule": "@hourly"}))
    assert {r[0] for r in db.sql("select rule from deferred.__deferred_schedule")} == {"@daily"}


def test_nobody_but_an_operator_sets_a_schedule_and_he_no_more_than_he_may(start_web, db):
    web = start_web()
    token, fields = web.token("/schedule"), {"name": "n", "rule": "@daily", "fn": "noop"}
    for who in ("vic", "rea"):
        assert (
            web.ask("/schedule", who)[0] == 403 == web.ask("/schedule/set", who, "POST", {"token": token, **fields})[0]
        )
    assert web.ask("/schedule/set", "opal", "POST", fields)[0] == 403
    assert web.ask("/schedule/set", "opal", "POST", {"token": token, **fields}, Origin="http://evil.example")[0] == 403
    looking = start_web("read_only = 1")
    assert looking.ask("/schedule")[0] == 403 and "/schedule" not in looking.page("/recurring")
    db.sql("insert into deferred.__deferred_grant (role, fn) values (%s, 'echo')", web.login("opal"))
    assert "may not defer" in refused(send(web, **fields)) and send(web, **{**fields, "fn": "echo"})[0] == 303
    with pytest.raises(psycopg2.errors.InsufficientPrivilege), db.connect(options="-c role=deferred_reader") as c:
        c.cursor().execute("select deferred.__act_schedule_set('x', '', '@daily', 'noop', '{}', '{}', 'x', null)")
    assert db.sql("select name, fn from deferred.__deferred_schedule") == [("n", "echo")]


def test_the_time_zone_of_the_settings_is_that_of_a_schedule_that_names_none(start_web, db):
    web = start_web('}\ntimezone = "Europe/Berlin"\nalert {')
    assert ' placeholder="Europe/Berlin"' in web.page("/schedule")
    assert send(web, name="n", rule="@daily", fn="noop")[0] == 303
    assert db.one("select zone from deferred.__deferred_schedule") == "Europe/Berlin"
    web = start_web('}\ntimezone = "Europe/Berln"\nalert {')
    said = refused(send(web, name="m", rule="@daily", fn="noop"))
    assert said.startswith("setting 'timezone': time zone 'Europe/Berln' is unknown"), said
