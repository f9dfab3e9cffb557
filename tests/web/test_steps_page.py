"""The steps of a job on its page."""

import pytest


@pytest.fixture
def job(db):
    """A job that saved two steps."""
    job = db.defer("noop")
    db.sql(
        "insert into deferred.__deferred_step (job_id, name, value, bytes, number, attempt, resets) values "
        "(%s, 'charge', '\"<b>SECRET</b>\"', 15, 1, 1, false), (%s, 'ship', '7', 1, 2, 3, false)",
        job,
        job,
    )
    db.sql("update deferred.__deferred_hot set watched = false, params_bytes = 1024 + 16")
    return job


def test_a_page_has_the_steps_and_their_values_for_those_who_may_see_params(web, job):
    for who in ("opal", "rea", "vic"):
        page = web.page(f"/jobs/{job}", who)
        assert "<h2>Steps</h2>" in page and "charge" in page and "ship" in page
        assert ("&lt;b&gt;SECRET" in page) == (who != "vic") and "<b>SECRET" not in page
        steps = web.json(f"/jobs/{job}.json", who)["steps"]
        assert [(s["number"], s["name"], s["attempt"], s["bytes"]) for s in steps] == [
            (1, "charge", 1, 15),
            (2, "ship", 3, 1),
        ]
        assert [s.get("value") for s in steps] == ([None] * 2 if who == "vic" else ['"<b>SECRET</b>"', "7"])


def test_the_values_of_hidden_functions_are_for_operators(start_web, job):
    web = start_web('hide_params = "noop"')
    assert "SECRET" in web.page(f"/jobs/{job}", "opal") and "SECRET" not in web.page(f"/jobs/{job}", "rea")


def test_a_job_without_steps_has_no_such_table(web, db):
    job = db.defer("noop")
    assert "<h2>Steps</h2>" not in web.page(f"/jobs/{job}") and web.json(f"/jobs/{job}.json")["steps"] == []
