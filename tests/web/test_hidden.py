"""What web.hide_params hides comes out nowhere else."""

import json
import re
import urllib.parse

import psycopg2
import pytest

import harness


@pytest.fixture
def web(start_web):
    return start_web('hide_params = "pay"')


def die(db, error):
    """All jobs there are die of it."""
    db.sql(
        "with h as (delete from deferred.__deferred_hot returning id) insert into deferred.__deferred_log (job_id, "
        "attempt, outcome, final, error) "
        "select id, 1, 'failed', true, %s from h",
        error,
    )


@pytest.fixture
def jobs(db):
    """A job with a secret that died, and the one that was deferred for it, which died too."""
    db.sql("""select deferred.__queue_add('default', session_user)""")
    db.sql("""select deferred.__queue_set('default', '{"on_dead": "bury"}')""")
    paid = db.defer("pay", '{"card": "4111-SECRET"}', max_attempts=1)
    die(db, "no cover for ERRORSECRET")
    db.sql("select deferred.__notice()")
    buried = db.one("select id from deferred.__deferred where fn = 'bury'")
    die(db, "cannot bury 4111-SECRET of ERRORSECRET")
    return paid, buried


def test_the_job_that_was_deferred_for_it(web, db, jobs):
    for job in jobs:
        for path in f"/jobs/{job}", f"/jobs/{job}.json":
            assert "SECRET" in web.page(path, "opal") and "SECRET" not in web.page(path, "rea") + web.page(
                path, "vic"
            ), path
    for path in "/dead", "/dead.json", "/", "/queues/default", "/queues/default.json":
        assert "SECRET" not in web.page(path, "rea") + web.page(path, "vic"), path
    assert "ERRORSECRET" in web.page("/dead", "opal")


@pytest.mark.parametrize(
    "q",
    [
        "params.card:4111-SECRET",
        "params.params.card:4111-SECRET",
        "params.error:\"no cover for ERRORSECRET\"",
        "error~SECRET",
        "error~bury",
    ],
)
def test_a_search(web, jobs, q):
    path = "/jobs.json?q=" + urllib.parse.quote(q)
    assert set(j["id"] for j in web.json(path, "opal")["jobs"]) & set(jobs)
    assert web.json(path, "rea")["jobs"] == []


def test_what_operators_did(web, db, jobs):
    done = db.one(
        "select done from deferred.__act_some('retry', 'dead', %s, null, false, 'o', null)",
        json.dumps({"fn": "pay", "error": "no cover for ERRORSECRET"}),
    )
    assert done == 1
    for path in "/audit", "/audit.json":
        assert "ERRORSECRET" in web.page(path, "opal") and "ERRORSECRET" not in web.page(path, "rea") + web.page(
            path, "vic"
        )
        assert "pay" in web.page(path, "vic")
    viewer = db.connect(user=web.login("vic"), password=web.PASSWORD)
    with viewer.cursor() as cursor:
        cursor.execute("select filter::jsonb ? 'fn', filter::jsonb ? 'error' from deferred.__action")
        assert cursor.fetchall() == [(True, False)]
        with pytest.raises(psycopg2.Error, match="permission denied"):
            cursor.execute("select from deferred.__deferred_action")
    viewer.close()


SAYS = "printf '3/4 card %s\\n' SECRET >&$DEFERRED_PROGRESS_FD; sleep 60"


def test_what_a_running_job_says(web, start_web, db):
    """Of a hidden function, and of a job that the system deferred. Numbers stay."""
    db.config(
        "".join(f'function "{fn}" {{ command = {{"/bin/sh", "-c", "{SAYS}"}} }}\n' for fn in ("pay", "bury", "plain"))
    )
    paid, buried, plain = (db.defer(fn) for fn in ("pay", "bury", "plain"))
    db.sql("update deferred.__deferred set created_by = 'deferred_owner' where id = %s", buried)
    worker = db.spawn(["check_deferred", "--cnt", "3", "--runners", "3"])
    harness.wait_for(
        lambda: db.one("select count(*) from deferred.__deferred_progress") == 3, 30, "what three jobs say"
    )
    for job, hidden in ((paid, True), (buried, True), (plain, False)):
        for path in (f"/jobs/{job}", f"/jobs/{job}.json"):
            assert "SECRET" in web.page(path, "opal")
            for who in ("rea", "vic"):
                # Of what function a reason is, is not known.
                told = (
                    web.page(path, who)
                    if path.endswith("json")
                    else re.sub('<p class="why.*?</p>', "", web.page(path, who))
                )
                assert ("SECRET" in told) == (not hidden and not path.endswith("json")), (path, who)
        assert "3 of 4" in web.page(f"/jobs/{job}", "vic")
    for path in ("/running", "/running.json"):
        assert web.page(path, "opal").count("SECRET") == 3
        assert [web.page(path, who).count("SECRET") for who in ("rea", "vic")] == [1, 1], path
    shows = start_web('hide_params = ""')
    assert [shows.page("/running", who).count("SECRET") for who in ("rea", "vic")] == [3, 3]
    worker.kill()


def test_where_nothing_is_hidden_readers_see_it(start_web, jobs):
    web = start_web('hide_params = ""')
    for job in jobs:
        assert "SECRET" in web.page(f"/jobs/{job}", "rea") and "SECRET" not in web.page(f"/jobs/{job}", "vic")
