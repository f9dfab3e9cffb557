"""What the pages say at a glance: the navigation, green, amber and red, and times of jobs."""

import re

import pytest

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
