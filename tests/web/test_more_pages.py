"""Pages of deferred_web about one function and about recurring jobs, and the forms of limits: what
they show to whom, and what is done by them."""

import html
import json
import re
import signal
import urllib.parse

import psycopg2.errors
import pytest

import harness

HOSTILE = "<script>alert(1)</script>\"'&\u202e"


def post(web, page, verb, who="opal", **form):
    status, headers, _ = web.ask(f"{page}/{verb}", who, "POST", {"token": web.token(page), **form})
    return status, headers["Location"]


def test_schedules_are_shown_paused_resumed_and_run_by_operators(web, db):
    assert "No schedules yet" in web.page("/recurring")
    db.sql(
        "select deferred.schedule('nightly', '0 3 * * *', 'echo', %s::json, '{\"timezone\": \"Europe/Berlin\"}')",
        json.dumps({"secret": HOSTILE}),
    )
    for who in ("vic", "rea", "opal"):
        assert "nightly" in web.page("/recurring", who) and "secret" not in web.page("/recurring/nightly", who)
        assert ("Pause</button>" in web.page("/recurring/nightly", who)) == (who == "opal")
    told = web.json("/recurring/nightly.json", "vic")
    assert (
        told["schedule"][0]["timezone"] == "Europe/Berlin"
        and len(told["coming"]) == 5
        and " 03:00:00 " in told["coming"][0]["local"]
    )
    assert web.ask("/recurring/none")[0] == 404
    assert post(web, "/recurring/nightly", "pause") == (303, "/recurring/nightly?done=pause") and db.one(
        "select paused and next_at is null from deferred.__deferred_schedule"
    )
    assert "The schedule is paused." in web.page("/recurring/nightly?done=pause") and post(
        web, "/recurring/nightly", "pause"
    )[1].endswith("refused=pause")
    assert "paused already" in web.page("/recurring/nightly")
    assert post(web, "/recurring/nightly", "resume")[1].endswith("done=resume") and db.one(
        "select next_at > now() from deferred.__deferred_schedule"
    )
    assert db.one(
        "select min(next_tick) <= (select next_at from deferred.__deferred_schedule) from deferred.__deferred_state"
    )
    assert (
        post(web, "/recurring/nightly", "run")[1].endswith("done=run")
        and db.one("select count(*) from deferred.job where fn = 'echo' and created_by = 'deferred'") == 1
    )
    assert [t["what"] for t in web.json("/recurring/nightly.json")["ticks"]] == ["by hand"]
    assert [(a["verb"], a["refused"] is None) for a in web.json("/recurring/nightly.json")["actions"]] == [
        ("run", True),
        ("resume", True),
        ("pause", False),
        ("pause", True),
    ]
    assert web.ask("/recurring/nightly/pause", "rea", "POST", {"token": web.token("/recurring/nightly")})[0] == 403


def test_a_function_is_told_by_build_with_its_errors_and_limits_are_set_by_a_form(web, db):
    jobs = [db.defer("fail", json.dumps({"error": f"no order {i} {HOSTILE}"}), max_attempts=1) for i in range(3)] + [
        db.defer("noop")
    ]
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    db.sql("update deferred.__deferred_log set error = 'no order ' || job_id || %s where outcome = 'failed'", HOSTILE)
    assert db.run(["deferred", "fold"]).returncode == 0
    for who in ("vic", "opal"):
        text, told = web.page("/functions/fail", who), web.json("/functions/fail.json", who)
        assert (
            "<script>alert" not in text
            and ("no order #" in text) == (who == "opal")
            and ("Limits" in text)
            and ("/functions/fail/set" in text) == (who == "opal")
        )
        assert told["offers"][0]["fn"] == "fail"
    assert told["errors"] == [
        {
            "fn": "fail",
            "outcome": "failed",
            "error": "no order #" + HOSTILE.replace("1", "#"),
            "jobs": 3,
            **{k: told["errors"][0][k] for k in ("last_s", "first_s", "newest")},
        }
    ]
    assert (
        told["errors"][0]["newest"] in jobs
        and "no order #" in web.page("/dead")
        and "no order" not in web.page("/dead", "vic")
    )
    assert web.ask("/functions/none")[0] == 404 and web.ask("/functions/%3Cscript%3E")[0] == 404
    # What a form says of what was not changed counts for nothing.
    same = {"max_running": "", "was_max_running": "", "rate": "", "was_rate": "", "burst": "", "was_burst": ""}
    assert post(web, "/functions/fail", "set", **same)[1].endswith("done=nothing")
    assert post(web, "/functions/fail", "set", **{**same, "max_running": "3"})[1].endswith("done=set")
    assert post(web, "/functions/fail", "set", **{**same, "rate": "0.5"})[1].endswith("done=set")
    assert db.sql("select max_running, rate from deferred.__deferred_function") == [(3, 0.5)]
    for wrong, says in (
        ({"max_running": "-1"}, "'max_running' is out of range: -1 (use a whole number from 1 to 2147483647)"),
        ({"max_running": "many"}, "'max_running' is not a number: 'many' (use a whole number from 1 to"),
        ({"rate": "1e99"}, "'rate' is out of range: 1e99 (use a number from 0.0000001 to 1000000)"),
        ({"burst": "9" * 40}, f"'burst' is out of range: {'9' * 40} (use a whole number from 1 to 1000000)"),
    ):
        assert post(web, "/functions/fail", "set", **{**same, **wrong})[1].endswith("refused=set"), wrong
        page = web.page("/functions/fail?refused=set")
        (told,) = re.findall('<p class="trouble">That was refused. <bdi>(.*?)</bdi>', page)
        assert html.unescape(told).startswith(f"function 'fail': setting {says}")
    assert post(
        web, "/functions/fail", "set", **{**same, "max_running": "", "was_max_running": "3", "was_rate": "0.5"}
    )[1].endswith("done=set")
    assert db.sql("select from deferred.__deferred_function") == []
    assert post(web, "/queues/default", "set", max_running="2", was_max_running="", weight="1", was_weight="1")[
        1
    ].endswith("done=set")
    assert db.sql("select max_running, weight from deferred.__deferred_queue where name = 'default'") == [(2, 1)]
    assert [json.loads(a["settings"]) for a in web.json("/audit.json")["actions"] if a["queue"] == "default"] == [
        {"max_running": "2"}
    ]
    assert web.ask("/queues/default/set", "opal", "POST", {"max_running": "9"})[0] == 403
    # Nor does who sends SQL himself set more than the form has.
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        db.sql("select deferred.__act('set', null, 'default', 'x', null, settings => '{\"fn\": \"noop\"}')")

    def all_folded():  # what ended in the last seconds is folded later
        assert db.run(["deferred", "fold"]).returncode == 0
        told = web.json("/functions/fail.json")["builds"]
        return told if sum(b["attempts"] for b in told) == 3 else None

    builds = harness.wait_for(all_folded, 20, "what ended is in the figures")
    assert [(b["plugin"].split()[0], b["attempts"], b["failed"], b["dead"]) for b in builds] == [
        ("sample", 3, 3, 3)
    ] and builds[0]["run_p50_us"] > 0
    assert "sample" in web.page("/functions/fail", "vic") and "100.0 %" in web.page("/functions/fail", "vic")


def test_what_is_deferred_for_dead_jobs_is_set_by_a_form(web, db):
    db.defer("noop")
    assert db.run(["check_deferred"]).returncode == 0
    for page, kind, name in (("/queues/default", "queue", "default"), ("/functions/noop", "function", "noop")):
        assert (
            "Function for dead jobs" in web.page(page)
            and "Function for dead jobs" not in web.page(page, "rea")
            and "<dt>Function for dead jobs" not in web.page(page)
        )
        assert post(web, page, "set", on_dead="mourn", was_on_dead="")[1].endswith("done=set")
        assert db.sql("select kind, name, fn from deferred.__deferred_on_dead where kind = %s", kind) == [
            (kind, name, "mourn")
        ]
        assert re.search(
            "<dt>Function for dead jobs</dt><dd><bdi>mourn<", web.page(page, "vic")
        ) and 'name="was_on_dead" value="mourn"' in web.page(page)
        assert web.json(page + ".json", "vic")["settings"]["on_dead"] == "mourn"
        assert post(web, page, "set", on_dead=HOSTILE, was_on_dead="mourn")[1].endswith(
            "refused=set"
        ) and "is not the name of a function" in web.page(page)
        assert (
            "<script>alert" not in web.page(page)
            and db.one("select fn from deferred.__deferred_on_dead where kind = %s", kind) == "mourn"
        )
        assert web.ask(page + "/set", "rea", "POST", {"token": web.token(page), "on_dead": ""})[0] == 403
    # Of two who have the page open neither sets back what the other has set.
    assert post(web, "/queues/default", "set", on_dead="", was_on_dead="", weight="2", was_weight="1")[1].endswith(
        "done=set"
    )
    for page in ("/queues/default", "/functions/noop"):
        assert db.one("select count(*) from deferred.__deferred_on_dead") > 0 and post(
            web, page, "set", on_dead="", was_on_dead="mourn"
        )[1].endswith("done=set")
    assert db.sql("select from deferred.__deferred_on_dead") == []
    assert [json.loads(a["settings"])["on_dead"] for a in web.json("/functions/noop.json")["actions"]] == [
        None,
        HOSTILE,
        "mourn",
    ]


def test_it_is_said_how_much_of_a_limit_is_used(web, db):
    assert "Limit <progress" not in web.page("/queues/default", "vic") and "limit_used" not in web.json(
        "/queues/default.json", "vic"
    )
    assert db.run(["deferred", "queue", "set", "default", "--max-running", "3"]).returncode == 0
    assert web.json("/queues/default.json", "vic")["limit_used"] == {"running": 0, "max_running": 3, "ratio": 0}
    for _ in range(2):
        db.defer("sleep", '{"ms": 60000}')
    worker = db.spawn(["check_deferred", "--cnt", "0", "--runners", "2"])
    told = harness.wait_for(
        lambda: (lambda t: t if t["running"] == 2 else None)(web.json("/queues/default.json", "vic")["limit_used"]),
        20,
        "two run",
    )
    assert told == {"running": 2, "max_running": 3, "ratio": 0.666667}
    assert "2 of 3 running, 67 %." in web.page("/queues/default", "vic")

    def measured():
        assert db.run(["deferred", "fold"]).returncode == 0  # a viewer reads the sums as workers left them
        text = web.page("/metrics", "vic")
        return text if "used_ratio{" in text else None

    assert 'deferred_limit_used_ratio{queue="default"} 0.666667' in harness.wait_for(measured, 20, "metrics tell it")
    worker.signal(signal.SIGTERM)
    worker.wait(30)


def test_what_runs_for_longer_than_its_function_does_is_said_to_be_long(web, db):
    assert "No jobs are running" in web.page("/running", "vic") and web.json("/running.json", "vic")["usual"] == []
    harness.ran_in_build(db, "sleep", "sample 1", 100, 10, 2)
    harness.ran_in_build(db, "noop", "sample 1", 19, 10, 2)  # too few, and not held
    assert db.run(["deferred", "fold", "--rebuild"]).returncode == 0
    long, short = db.defer("sleep", '{"ms": 60000}'), db.defer("sleep", '{"ms": 60000}')
    worker = db.spawn(["check_deferred", "--cnt", "0", "--runners", "2"])
    harness.wait_for(lambda: len(web.json("/running.json", "vic")["running"]) == 2, 20, "two run")
    assert ">long<" not in web.page("/running", "vic") or web.json("/running.json")["running"][0]["held_s"] > 1

    def marked():
        told = web.json("/running.json", "vic")
        return told if min(j["held_s"] for j in told["running"]) >= 3 else None

    told = harness.wait_for(marked, 20, "they run for a while")
    assert [u["fn"] for u in told["usual"]] == ["sleep"] and 12_000 < told["usual"][0]["run_p95_us"] < 17_000
    text = web.page("/running", "vic")
    assert (
        text.count(">long</span>") == 2
        and "p95 run time" in text
        and f"/jobs/{long}" in text
        and f"/jobs/{short}" in text
    )
    worker.signal(signal.SIGTERM)
    worker.wait(30)


def test_what_stands_beside_an_axis_is_short_enough_for_its_place(web, db):
    """The place is 40 px wide, of which a character of 10 px takes 6."""
    spans = {"some": 9.6e3, "sec": 42e3, "min": 262e3, "mins": 1402e3, "hours": 8.3 * 3600e3, "days": 30 * 86400e3}
    for fn, ms in spans.items():
        harness.ran_in_build(db, fn, "sample 1", 100, ms, 2)
    assert db.run(["deferred", "fold", "--rebuild"]).returncode == 0
    tops = [
        re.findall(r'<div class="y"><span>([^<]*)</span>', web.page(f"/functions/{fn}?range=24h", "vic"))[-1]
        for fn in spans
    ]
    assert all(re.fullmatch(r"(\d\.\d|\d\d?) (s|min|h|d)", top) for top in tops) and {
        top.split()[1] for top in tops
    } == {"s", "min", "h", "d"}, tops


def test_params_are_shown_as_they_were_deferred_and_indented_byte_for_byte(web, db):
    def shown(params, who="opal"):
        text = web.page(f"/jobs/{db.defer('noop', params)}", who)
        found = re.search(r"<details><summary>Indented</summary><pre[^>]*>(.*?)</pre></details>", text, re.S)
        return html.unescape(
            re.search(r"<h2>Params</h2><pre[^>]*>(.*?)</pre>", text, re.S)[1]
        ), found and html.unescape(found[1])

    large = '{"b":12345678901234567890123.10, "a" : {"x":[1e400,{ },[ ], "a,{\\"}: <b>"]},"b":1.0}'
    assert shown(large) == (
        large,
        """{
  "b": 12345678901234567890123.10,
  "a": {
    "x": [
      1e400,
      {},
      [],
      "a,{\\"}: <b>"
    ]
  },
  "b": 1.0
}""",
    )
    assert shown("{}") == ("{}", None)  # there is nothing to be indented
    deep = '{"a":' + "[" * 500 + "]" * 500 + "}"
    assert shown(deep)[0] == deep and re.sub(r"\s", "", shown(deep)[1]) == deep
    wide = '{"a":[' + ",".join(["1"] * 40000) + "]}"  # more than is shown
    assert shown(wide)[1] is None
    many = '{"a":' + "[" * 30 + ",".join(["1"] * 30000) + "]" * 30 + "}"  # would become too long
    assert shown(many) == (many, None)
    secret = db.defer("noop", '{"a": "the secret"}')
    assert "the secret" not in web.page(f"/jobs/{secret}", "vic") and "Indented" not in web.page(
        f"/jobs/{secret}", "vic"
    )


def test_jobs_are_found_by_what_they_said_by_those_who_may_read_it(start_web, db):
    web = start_web('hide_params = "echo"')
    jobs = [db.defer(fn, max_attempts=1) for fn in ("fail", "fail", "echo", "fail")]
    db.sql(
        "with h as (delete from deferred.__deferred_hot returning id) insert into deferred.__deferred_log (job_id, "
        "attempt, outcome, final, error) "
        "select id, 1, 'failed', true, case when id = %s then 'Another' else 'No order ' || id || E' of "
        "\\'x%%y\\'\nline 2' end from h",
        jobs[3],
    )
    db.defer("fail")

    def found(q, who="opal", more=""):
        return [j["id"] for j in web.json(f"/jobs.json?q={urllib.parse.quote(q)}{more}", who)["jobs"]]

    assert (
        found("error~order")
        == jobs[2::-1]
        == found('error~"LINE 2"')
        == found('error:"No order 7 of \'x%y\'"')
        == found('error:"No order # of \'x%y\'"')
    )
    assert (
        found("error~another") == [jobs[3]] == found("error:Another")
        and found("error:Anoth") == [] == found("error~%%%")
        and found("error~order fn:echo") == [jobs[2]]
    )
    assert (
        found(f"error~order queue:default", more="&outcome=failed&since=1h") == jobs[2::-1]
        and found("error~order key:none") == []
    )
    # Functions that are hidden from readers are not searched; viewers search nothing.
    assert (
        found("error~order", "rea") == jobs[1::-1] == found('error:"No order # of \'x%y\'"', "rea")
        and found("error~order fn:echo", "rea") == []
    )
    for form in ("/jobs", "/jobs.json"):
        for q in ("error~order", "error:Another", "error~nothing", "fn:fail error~o"):
            assert web.ask(f"{form}?q={urllib.parse.quote(q)}", "vic")[0] == 403, q
    assert (
        web.ask("/jobs?q=error~x&state=dead")[0]
        == 400
        == web.ask("/jobs?q=error~x+params.a:1")[0]
        == web.ask("/jobs/all?verb=retry&q=error~x")[0]
    )
    assert len(found("error:")) == 5 and "/jobs/all" not in web.page("/jobs?q=error~order")
    # It looks at so many and no more, and goes on from there.
    db.sql(
        "select deferred.defer_many((select json_agg(json_build_object('fn', 'noop')) from generate_series(1, 2100)))"
    )
    told = web.json("/jobs.json?q=error~order")
    assert told["jobs"] == [] and "Searched 2,000 jobs" in web.page("/jobs?q=error~order")
    assert [j["id"] for j in web.json(f"/jobs.json?q=error~order&after={told['after']}")["jobs"]] == jobs[2::-1]


def test_the_keys_are_told_on_each_page_with_and_without_javascript(web):
    text = web.page("/", "vic")
    footer, dialog = (
        re.search("<footer>(.*)</footer>", text, re.S)[1],
        re.search('<dialog id="keys".*</dialog>', text, re.S)[0],
    )
    for key in ("/", "j", "k", "Enter", "?"):
        assert f"<kbd>{key}</kbd>" in footer and f"<kbd>{key}</kbd>" in dialog, key
    assert "open>" not in dialog


def test_a_build_is_held_against_the_one_before_it_with_what_is_chance(web, db):
    def ran(*args, **crashed):
        harness.ran_in_build(db, "build", *args, **crashed)

    ran("p 1 aa", 400, 100, 30)
    ran("p 2 bb", 150, 400, 20)  # too few
    ran("p 3 cc", 300, 200, 10)
    ran("p 4 dd", 300, 205, 3, crashed=40)
    assert db.run(["deferred", "fold", "--rebuild"]).returncode == 0
    told = {b["plugin"]: b for b in web.json("/functions/build.json", "vic")["builds"]}
    assert {b: "slowdown" in told[b] for b in told} == {
        "p 1 aa": False,
        "p 2 bb": False,
        "p 3 cc": True,
        "p 4 dd": True,
    }
    assert (
        1.9 < told["p 3 cc"]["slowdown"] < 2.1
        and 1.15 < told["p 3 cc"]["slowdown_low"] < 2 < told["p 3 cc"]["slowdown_high"] < 2.6
    )
    assert told["p 4 dd"]["slowdown_low"] < 1 < told["p 4 dd"]["slowdown_high"]
    shown = web.page("/functions/build", "vic")
    assert shown.count("<strong>slower</strong>") == 1 and "faster" not in shown
    assert (
        told["p 4 dd"]["more_crashes"] == 0.1333
        and told["p 3 cc"]["more_crashes_low"] < 0 < told["p 3 cc"]["more_crashes_high"]
    )
    assert shown.count("<strong>more</strong> 40") == 1 and "<strong>less</strong>" not in shown
    # Where a build came, charts have a mark, and words for it; the first one took the place of none.
    for path in ("/", "/functions/build"):
        far = web.json(f"{path}.json?range=400d", "vic")
        assert len(far["figures"]) == 400 and [(m["fn"], m["plugin"]) for m in far["new_builds"]] == [
            ("build", b) for b in ("p 4 dd", "p 3 cc", "p 2 bb")
        ], path
        text = web.page(f"{path}?range=400d", "vic")
        assert (
            text.count('<path class="mark"') == 9
            and text.count('<li class="mark">new build') == 3
            and "New builds" in text
            and text.count("p 3 cc</bdi></li>") == 1
            and re.search(r"As of (\d\d\d\d-\d\d-\d\d )?\d\d:\d\d:\d\d UTC\.", text)
        )
    assert (
        0 < far["as_of"]
        and web.json("/functions/build.json?range=1h")["new_builds"] == []
        and "new_builds" not in web.json("/queues/default.json")
        and "New builds" not in web.page("/queues/default")
    )


def test_all_jobs_of_a_search_are_retried_or_cancelled_step_by_step(web, db):
    db.sql(
        "select deferred.defer_many((select json_agg(json_build_object('fn', 'fail', 'label', '<b>l', 'tags', "
        "json_build_array('t', 'u'))) from generate_series(1, 2300)))"
    )
    db.sql(
        "with h as (delete from deferred.__deferred_hot returning id) insert into deferred.__deferred_log (job_id, "
        "attempt, outcome, final) select id, 1, 'failed', true from h"
    )
    other = [db.defer("noop", key=f"k{i}") for i in range(3)]
    search = "state=dead&fn=fail&q=label%3A%22%3Cb%3El%22+tag%3At&since=1h"

    def form_of(text):
        found = re.search(r'<form class="act" method="post"( data-go)? action="([^"]*)">(.*?)</form>', text)
        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', found[3]))
        return found[1], html.unescape(found[2]), {k: html.unescape(v) for k, v in fields.items()}

    listed = web.page("/jobs?" + search)
    link = html.unescape(re.search(r'href="(/jobs/all\?[^"]*)">retry<', listed)[1])
    assert (
        ">cancel</a>" not in listed
        and "since=2" in link
        and ">cancel</a>" in web.page("/jobs?state=ready")
        and ">retry</a>" not in web.page("/jobs?state=ready")
    )
    assert (
        "/jobs/all" not in web.page("/jobs?" + search, "vic")
        and "/jobs/all" not in web.page("/jobs?q=l")
        and "/jobs/all" not in web.page("/jobs?outcome=ok")
    )
    asked = web.page(link)
    counted = int(re.search(r"<p>(?:More than )?(\d+) jobs", asked)[1])  # as far as it comes in a moment
    assert (
        (counted == 2300 or (counted in (1000, 2000) and "More than" in asked))
        and "<b>l" not in asked
        and "&lt;b&gt;l" in asked
        and db.one("select count(*) from deferred.__deferred_action") == 0
    )
    told = web.json(link.replace("/all?", "/all.json?"))
    assert (told["jobs"], told["more"]) in ((2300, False), (2000, True), (1000, True))
    for who in ("vic", "rea"):
        assert web.ask(link, who)[0] == 403
    goes_on, path, fields = form_of(asked)
    assert not goes_on and set(fields) == {"token"}
    assert (
        web.ask(path, "opal", "POST", {})[0] == 403
        and web.ask(path, "rea", "POST", fields)[0] == 403
        and web.ask(path)[0] == 405
    )
    told = []
    while True:
        status, _, text = web.step(path, fields)
        assert status == 200
        told.append(re.search(r"(\d+) jobs are ready again( so far)?\.", text).groups())
        if "data-go" not in text:
            break
        goes_on, path, fields = form_of(text)
        assert goes_on and set(fields) == {"token", "at", "done", "refused"} and ">Stop</a>" in text
    assert (
        told[-1] == ("2300", None)
        and len(told) >= 3
        and all(so_far and int(n) <= 1000 * (i + 1) for i, (n, so_far) in enumerate(told[:-1]))
    ), told
    assert db.sql("select fn, state, count(*) from deferred.job group by 1, 2 order by 1") == [
        ("fail", "ready", 2300),
        ("noop", "ready", 3),
    ]
    # What a step began with, once more, finds nothing: it is done. So does a place somebody made up, which is refused.
    assert "0 jobs are ready again." in web.ask(path, "opal", "POST", fields)[2]
    assert (
        web.ask(path, "opal", "POST", {**fields, "at": '{"id": "x"}'})[0] >= 400
        and web.ask(path, "opal", "POST", {**fields, "at": "{"})[0] >= 400
    )
    audit = web.json("/audit.json")["actions"]
    assert (
        {(a["verb"], a["refused"]) for a in audit} == {("retry", None)}
        and sum(a["jobs"] for a in audit) == 2300
        and len(audit) == len(told)
    )
    filter = json.loads(audit[0]["filter"])
    assert filter == {"state": "dead", "fn": "fail", "label": "<b>l", "tags": ["t"], "since": filter["since"]}
    # Of those that cannot be retried it is said how many, and why.
    db.sql("select deferred.cancel(id) from unnest(%s) id", other)
    again = db.defer("noop", key="k1")
    link = "/jobs/all?verb=retry&state=cancelled&fn=noop"
    path, fields = form_of(web.page(link))[1:]
    text = web.ask(path, "opal", "POST", fields)[2]
    assert "2 jobs are ready again." in text and "1 was refused." in text and f"is in use by job {again}" in text
    refused = web.json("/audit.json")["actions"][0]
    assert refused["jobs"] == 2 and refused["refused"].startswith("1 jobs: ")
    path, fields = form_of(web.page("/jobs/all?verb=cancel&q=by:deferred+key:k0"))[1:]
    assert (
        "1 job was cancelled." in web.ask(path, "opal", "POST", fields)[2]
        and db.one("select state from deferred.job where id = %s", other[0]) == "cancelled"
    )
    for wrong in (
        "verb=retry&state=ready",
        "verb=cancel&state=dead",
        "verb=drop",
        "state=dead",
        "verb=retry&q=part",
        "verb=retry&outcome=ok",
        "verb=retry&q=17",
        "verb=retry&q=params.a:1",
    ):
        assert web.ask("/jobs/all?" + wrong)[0] == 400, wrong
    with pytest.raises(psycopg2.errors.InsufficientPrivilege), db.connect(
        options="-c role=deferred_reader"
    ) as c, c.cursor() as cursor:
        cursor.execute("select deferred.__act_some('cancel', null, '{}', null, false, 'x', null)")
    with pytest.raises(psycopg2.errors.InvalidParameterValue):
        db.sql("select deferred.__act_some('run', null, '{}', null, false, 'x', null)")
    with pytest.raises(psycopg2.errors.InvalidParameterValue):
        db.sql("select deferred.__act_some(null, null, '{}', null, false, 'x', null)")
    assert db.sql("select * from deferred.check_ledger()") == []


def test_pages_about_the_dead_look_at_a_bounded_number_of_them(web, db):
    db.sql(
        "select deferred.defer_many((select json_agg(json_build_object('fn', 'fail')) from generate_series(1, 4000)))"
    )
    db.sql(
        "with h as (delete from deferred.__deferred_hot returning id) insert into deferred.__deferred_log (job_id, "
        "attempt, outcome, final) select id, 1, 'failed', true from h"
    )
    told = web.json("/.json", "vic")
    assert told["dead_last_hour"] == 301 and "<b>301+</b>" in web.page("/", "vic")
    assert [(d["fn"], d["dead"], d["more"]) for d in web.json("/dead.json", "vic")["dead"]] == [("fail", 2000, "t")]


def test_all_dead_jobs_with_one_error_are_retried_from_their_group(web, db):
    hostile = "no order 17 " + HOSTILE
    assert db.run(["deferred", "function", "set", "fail", "--max-running", "9"]).returncode == 0
    db.sql(
        "select deferred.defer_many((select json_agg(json_build_object('fn', 'fail')) from generate_series(1, 1600)))"
    )
    other = db.defer("fail"), db.defer("echo")
    db.sql(
        "with h as (delete from deferred.__deferred_hot returning id) insert into deferred.__deferred_log (job_id, "
        "attempt, outcome, final, error) "
        "select id, 1, 'failed', true, case when id = any (%s) then 'another' else regexp_replace(%s, '17', "
        "id::text) || E'\nline 2' end from h",
        list(other),
        hostile,
    )
    for who in ("vic", "rea"):
        assert "Retry all" not in web.page("/dead", who) and "Retry all" not in web.page("/functions/fail", who)
    links = [
        html.unescape(found)
        for found in re.findall(r'<a href="(/jobs/all[^"]*)" aria-label="[^"]*">Retry all<', web.page("/dead"))
    ]
    assert (
        len(links) == 3
        and html.unescape(
            re.search(r'<a href="(/jobs/all[^"]*)" aria-label="[^"]*">Retry all<', web.page("/functions/fail"))[1]
        )
        == links[0]
    )
    text = web.page(links[0])
    counted = re.search(r"<p>(More than )?(\d+) jobs\.", text).groups()  # as far as it comes in a moment
    assert (
        counted in ((None, "1600"), ("More than ", "1000"))
        and "<script>alert" not in text
        and "no order #" in text
        and 'href="/dead">Back to the list' in text
    )
    steps = 0
    while True:
        form = re.search(r'<form class="act" method="post"(?: data-go)? action="([^"]*)">(.*?)</form>', text)
        if not form:
            break
        fields = {
            k: html.unescape(v) for k, v in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form[2])
        }
        text = web.step(html.unescape(form[1]), fields)[2]
        steps += 1
    assert (
        "1600 jobs are ready again." in text
        and steps >= 2
        and db.sql("select id from deferred.job where state = 'dead' order by id") == [(id,) for id in other]
    )
    audit = web.json("/audit.json")["actions"]
    assert (
        json.loads(audit[0]["filter"])
        == {"state": "dead", "fn": "fail", "error": "no order # " + re.sub(r"\d+", "#", HOSTILE)}
        and sum(a["jobs"] for a in audit if a["verb"] == "retry") == 1600
    )
    # A command does it too; what has not ended has no error.
    assert web.ask("/jobs/all?verb=cancel&error=another")[0] == 400
    assert db.run(["deferred", "retry", "--error", "another", "--dry-run"]).stdout == "2 jobs to retry\n"
    assert (
        db.run(["deferred", "retry", "--error", "another", "--fn", "echo"]).stdout == "1 job ready\n"
        and db.one("select state from deferred.job where id = %s", other[1]) == "ready"
    )
    assert (
        db.run(["deferred", "retry", "--error", "anot"]).stdout == "0 jobs ready\n"
        and db.run(["deferred", "cancel", "--error", "another"]).returncode == 64
    )
    assert db.sql("select * from deferred.check_ledger()") == []


def test_measures_that_cannot_be_are_shown_as_some_that_can(web, db):
    """They are what a role wrote that may record attempts."""
    job = db.defer("noop")
    db.sql(
        """insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, wait_us, run_us,
            user_us, sys_us, max_rss_kb)
              select %s, i, 'failed', false, now(), x, x, x, x, x
              from unnest('{NaN,Infinity,-Infinity,3e38,-3e38,-1}'::real[]) with ordinality m(x, i)""",
        job,
    )
    attempts = {
        a["attempt"]: (a["wait_us"], a["run_us"], a["cpu_us"], a["max_rss_kb"])
        for a in web.json(f"/jobs/{job}.json")["attempts"]
    }
    most = 10**14
    assert attempts == {i: (most, most, 2 * most, most) if i in (1, 2, 4) else (0, 0, 0, 0) for i in range(1, 7)}
    for path in (f"/jobs/{job}", "/", "/functions", "/running", "/dead", "/doctor", "/advice"):
        web.page(path)
