"""What the pages say at a glance: the navigation, green, amber and red, and times of jobs."""

import html
import json
import os
import re

import pytest

from job_options import STORED, TOGETHER, VALUES

# What the navigation marks for each page, and the tab below it.
WHERE = {
    "/": ("deferred: overview", None),
    "/queues": ("Queues", None),
    "/jobs": ("Jobs", "All jobs"),
    "/jobs/1": ("Jobs", "All jobs"),
    "/running": ("Jobs", "Running"),
    "/dead": ("Jobs", "Dead"),
    "/functions/noop": ("Functions", None),
    "/flow/2": ("Flows", None),
    "/doctor": ("Doctor", None),
    "/accounts": ("Settings", "Accounts"),
    "/tokens": ("Settings", "Tokens"),
    "/defer": (None, None),
}


def plain(text):
    return re.sub("<[^>]*>", "", text)


def test_the_navigation_has_groups_and_marks_where_one_is(web, db):
    assert db.defer("noop") == 1
    assert db.run(["check_deferred"]).returncode == 0
    assert db.one("""select deferred.defer_flow('{"jobs": [{"name": "a", "fn": "noop"}]}')""") == 2
    for path, where in WHERE.items():
        header, _, rest = web.page(path).partition("<main")
        groups = re.findall("<ul>(.*?)</ul>", re.search('<nav class="sections".*?</nav>', header)[0])
        assert [plain(g.replace("</li><li>", " ")) for g in groups] == [
            "Jobs Queues Functions Recurring Flows",
            "Workers Doctor Advice Audit",
            "Settings",
        ]
        marked = [plain(m) for m in re.findall('<a [^>]*aria-current="page">.*?</a>', header)]
        assert marked == [m for m in where if m], path


def causes(web, path):
    """The level of the first cause on a page, as JSON and as the class of its box."""
    level = web.json((path or "/") + ".json")["why"][0]["level"]
    assert re.search('<p class="why ([a-z]+)">', web.page(path or "/"))[1] == level
    return level


def test_green_is_healthy_amber_is_to_be_looked_at_and_red_is_to_be_acted_on(web, db):
    db.sql("insert into deferred.__deferred_queue (name) values ('shop')")
    assert causes(web, "/queues/shop") == "healthy" == causes(web, "")
    assert '<p class="why healthy"><bdi>nothing waits in queue shop</bdi>' in web.page("/queues/shop")
    later = db.defer("noop", queue="shop", delay="1h")
    assert causes(web, f"/jobs/{later}") == "healthy" and ">do: <" not in web.page(f"/jobs/{later}")
    db.sql("update deferred.__deferred_queue set paused = true where name = 'shop'")
    job = db.defer("noop", queue="shop")
    assert causes(web, f"/jobs/{job}") == "look" == causes(web, "/queues/shop")
    assert '<p class="why">This queue is paused.' in web.page("/queues/shop") and 'class="trouble"' not in web.page(
        "/queues/shop"
    )
    unknown = db.defer("nosuch")
    assert db.run(["check_deferred"]).returncode == 0
    assert causes(web, f"/jobs/{unknown}") == "act" and ">do: <" in web.page(f"/jobs/{unknown}")


@pytest.mark.parametrize("path", ["/jobs", "/jobs?state=done"])
def test_a_job_that_has_just_ended_is_not_due(web, db, path):
    job = db.defer("noop")
    assert db.run(["check_deferred"]).returncode == 0
    db.sql("update deferred.__deferred_log set finished_at = clock_timestamp() + interval '1 hour'")
    first, waits = db.sql("select deferred.defer('noop', '{}', '{\"delay\": \"1h\"}'), 0")[0]
    waits = db.one("select deferred.defer('noop', '{}', json_build_object('after', json_build_array(%s)))", first)
    rows = dict(
        re.findall(r'<tr><td class="n"><a href="/jobs/(\d+)">.*?<td class="n">([^<]*)</td></tr>', web.page(path))
    )
    assert rows[str(job)] == "now"
    if path == "/jobs":
        assert re.fullmatch("in (1 h|59 min.*)", rows[str(first)]) and rows[str(waits)] == ""


def test_an_action_names_its_object_and_times_name_their_zone(web, db):
    job = db.defer("noop", delay="1h")
    for path in (f"/jobs/{job}/cancel", "/queues/default/pause"):
        assert web.ask(path, "opal", "POST", {"token": web.token("/queues/default")})[0] == 303
    rows = re.findall("<tr>(<td>.*?)</tr>", web.page("/audit", "vic"))
    on = [re.findall("<td.*?>(.*?)</td>", row) for row in rows]
    assert [plain(cells[3]).split() for cells in on] == [["queue", "default"], ["job", str(job)]]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", cells[0]) for cells in on)
    facts = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", web.page(f"/jobs/{job}", "vic")))
    assert all(facts[name].endswith(" UTC") for name in ("Deferred", "Not before", "Ended"))
    assert 'href="/functions/noop"' in facts["Function"] and 'href="/queues/default"' in facts["Queue"]


def test_only_commands_of_a_remedy_are_marked_as_such(web, db):
    db.defer("nosuch")
    assert db.run(["check_deferred"]).returncode == 0
    (remedy,) = re.findall('do: </span>(.*?)</p>', web.page("/"))
    assert remedy == (
        "<bdi>if the name is wrong: </bdi><code>deferred cancel --fn nosuch</code><bdi>; </bdi>"
        "<bdi>if it is right: </bdi><bdi>install the plugin where check_deferred runs, and read its log</bdi>"
    )


def test_a_page_for_operators_says_how_to_become_one(web):
    for path in ("/defer", "/schedule", "/jobs/all?verb=retry&state=dead", "/queues/default/clear"):
        status, _, text = web.ask(path, "vic")
        assert status == 403 and f"grant deferred_operator to &quot;{web.login('vic')}&quot;" in text, path


def test_a_wrong_time_of_a_search_is_named(web):
    for times, title in (
        ("since=soon", "Deferred since"),
        ("since=2h&until=soon", "Until"),
        ("ended_since=soon", "Ended since"),
        ("since=2h&ended_until=soon", "Ended until"),
    ):
        status, _, text = web.ask(f"/jobs.json?{times}")
        assert status == 400 and json.loads(text)["error"] == (
            f"{title}: 'soon' is not a time; hint: write a time such as 2026-01-31 14:30, or how long ago, such as 2h"
        )


def charts(text):
    """By its title: legend, labels of the axes, and by series the bars that are drawn."""
    for figure in re.findall('<figure class="chart">(.*?)</figure>', text, re.S):
        drawn = dict(re.findall(r'<path class="(\w+)" d="([^"]*)"', figure))
        yield re.search("<figcaption>(.*?)</figcaption>", figure)[1], {
            "legend": re.findall("<li[^>]*>(.*?)</li>", figure),
            "y": re.findall("<span>(.*?)</span>", re.search('<div class="y">(.*?)</div>', figure)[1]),
            "x": re.findall("<span>(.*?)</span>", re.search('<div class="x">(.*?)</div>', figure)[1]),
            "bars": {name: [int(x) for x in re.findall(r"M(\d+)\.1 ", d)] for name, d in drawn.items()},
            "rows": re.findall(r'<tr data-at="(\d+)"><td>([^<]*)</td>(.*?)</tr>', figure),
        }


def test_charts_have_a_legend_labels_a_table_and_gaps(web, db):
    assert web.page("/").count("No attempts in this time.") == 3
    for hours, outcome, run_us in ((2, "ok", 1000000), (2, "failed", 1000000), (5, "ok", 3000000)):
        job = db.defer("noop")
        db.sql("delete from deferred.__deferred_hot where id = %s", job)
        db.sql(
            "insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at,"
            " wait_us, run_us)"
            " select id, 1, %s, true, t - interval '1 s', t, 1000, %s from deferred.__deferred,"
            " (select date_trunc('hour', now(), 'UTC') - %s * interval '1 hour'"
            " + interval '90 s' as t) x where id = %s",
            outcome,
            run_us,
            hours,
            job,
        )
    assert db.run(["deferred", "fold", "--rebuild"]).returncode == 0
    told = dict(charts(web.page("/?range=7d", "vic")))
    assert list(told) == ["Attempts per hour", "Wait time per hour", "Run time per hour"]
    assert [c["legend"] for c in told.values()] == [["ok", "failed", "deferred"]] + 2 * [["p50", "p95", "p99"]]
    attempts, _, run = told.values()
    assert attempts["y"] in (["2", "1", "0"], ["4", "2", "0"]) and run["y"][2] == "0" and run["y"][0] in ("4 s", "6 s")
    assert all(re.fullmatch(r"\d\d-\d\d \d\d:00", x) for c in told.values() for x in c["x"]) and len(run["x"]) == 3
    # A bar where something ended, a gap where nothing did, a row for each bar.
    first, second = attempts["bars"]["ok"]
    assert second - first == 3 and run["bars"]["p50"] == [first, second] and attempts["bars"]["failed"] == [second]
    assert [(int(at), re.sub("<[^>]*>", " ", cells).split()) for at, _, cells in attempts["rows"]][:2] == [
        (first, ["1", "0", "0"]),
        (second, ["1", "1", "0"]),
    ]


@pytest.mark.parametrize(
    "path, told",
    [
        ("/jobs?state=frog", "The value 'frog' of state is not valid. Use one of: ready, delayed, "),
        ("/jobs?q=state:frog", "The value 'frog' of state is not valid."),
        ("/jobs?outcome=<b>", "The value '<b>' of outcome is not valid. Use one of: ok, failed, "),
        ("/jobs?q=outcome:OK", "The value 'OK' of outcome is not valid."),
        ("/jobs?since=frog", "Deferred since: 'frog' is not a time; hint: write a time such as "),
        ("/jobs?until=frog", "Until: 'frog' is not a time; hint: write a time such as "),
        ("/jobs?after=-1", "The value '-1' of after is not valid. It is the number of a row."),
        ("/jobs/all?verb=retry&state=frog", "The value 'frog' of state is not valid."),
        ("/jobs/all?verb=frog", "The verb 'frog' does not exist: use verb=retry or verb=cancel."),
        ("/?range=frog", "The value 'frog' of range is not valid. Use one of: 1h, 24h, 7d, 90d, 400d."),
        ("/queues/default?range=2h", "The value '2h' of range is not valid."),
        ("/functions/noop?range=1H", "The value '1H' of range is not valid."),
        ("/flows?after=frog", "The value 'frog' of after is not valid."),
        ("/flow/1?after=1.5", "The value '1.5' of after is not valid."),
        ("/audit?after=9999999999999999999", "The value '9999999999999999999' of after is not valid."),
    ],
)
def test_a_filter_with_a_value_that_does_not_exist_says_so(web, db, path, told):
    """It would show all rows, as if there were no filter."""
    db.sql("""select deferred.defer_flow('{"jobs": [{"name": "a", "fn": "noop"}]}')""")
    status, _, page = web.ask(path)
    assert (status, page.count("<h1>")) == (400, 1) and told in html.unescape(page), page
    path, _, query = path.partition("?")
    status, _, text = web.ask(f"{path}.json?{query}")
    assert status == 400 and told in json.loads(text)["error"]


def test_times_of_flows_are_in_utc_as_all_others(web, db):
    flow = db.one("""select deferred.defer_flow('{"jobs": [{"name": "a", "fn": "fail", "max_attempts": 1}]}')""")
    assert db.run(["check_deferred"]).returncode == 0
    assert web.ask(f"/flow/{flow}/retry", "opal", "POST", {"token": web.token(f"/flow/{flow}")})[0] == 303
    for path in ("/flows", f"/flow/{flow}"):
        assert "+00:00" not in web.page(path) and re.search(r"\d\d:\d\d:\d\d UTC<", web.page(path)), path
    assert re.search(r"begun again since \d\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC, by ", web.page(f"/flow/{flow}"))


def test_a_page_that_takes_too_long_says_what_to_do(web, db):
    db.sql(
        """create or replace function deferred.__schedules() returns setof deferred.__deferred_schedule language plpgsql
              as 'begin perform pg_sleep(60); end'"""
    )
    status, headers, text = web.ask("/recurring.json")
    assert (status, headers["Retry-After"]) == (503, "10")
    assert json.loads(text)["error"] == (
        "The database took longer than a page may wait. It may be busy, or the search too wide. "
        "Load the page again, or search for less."
    )


def test_what_stands_nowhere_else_is_not_cut_off(web, db):
    db.config(f'http {{ key_file = "{os.path.join(db.dir, "http.key")}" }}\n')
    assert db.run(["deferred", "account", "add", "shop"]).returncode == 0
    assert db.run(["deferred", "account", "allow", "shop", "charge_card", "send_mail"]).returncode == 0
    assert '<td class="told"><bdi>charge_card, send_mail</bdi></td>' in web.page("/accounts")


def test_the_page_of_a_job_tells_each_of_its_options(web, db):
    """For each, it differs from the page of a job without that option."""

    def told(options):
        job = db.one("select deferred.defer('noop', '{}', %s)", json.dumps(options))
        page = web.page(f"/jobs/{job}", "vic")
        facts = re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", page) + re.findall('<p class="(label)">(.*?)</p>', page)
        db.run(["deferred", "cancel", str(job)])
        return {(name, plain(value)) for name, value in facts if name not in ("State", "Deferred")}

    for option in sorted(STORED):
        others = TOGETHER.get(option, {})
        without = told(others)
        assert told({**others, option: VALUES[option]}) - without, option
