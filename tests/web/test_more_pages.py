"""Pages of deferred_web about one function and about recurring jobs, and the forms of limits: what they show to whom, and what is done by them."""

import json

import psycopg2.errors
import pytest

import harness

HOSTILE = "<script>alert(1)</script>\"'&\u202e"


def post(web, page, verb, who="opal", **form):
    status, headers, _ = web.ask(f"{page}/{verb}", who, "POST", {"token": web.token(page), **form})
    return status, headers["Location"]


def test_schedules_are_shown_paused_resumed_and_run_by_operators(web, db):
    assert "There are no recurring jobs" in web.page("/recurring")
    db.sql("select deferred.schedule('nightly', '0 3 * * *', 'echo', %s::json, '{\"timezone\": \"Europe/Berlin\"}')", json.dumps({"secret": HOSTILE}))
    for who in ("vic", "rea", "opal"):
        assert "nightly" in web.page("/recurring", who) and "secret" not in web.page("/recurring/nightly", who)
        assert ("Pause</button>" in web.page("/recurring/nightly", who)) == (who == "opal")
    told = web.json("/recurring/nightly.json", "vic")
    assert told["schedule"][0]["timezone"] == "Europe/Berlin" and len(told["coming"]) == 5 and " 03:00:00 " in told["coming"][0]["local"]
    assert web.ask("/recurring/none")[0] == 404
    assert post(web, "/recurring/nightly", "pause") == (303, "/recurring/nightly?done=pause") and db.one("select paused and next_at is null from deferred.__deferred_schedule")
    assert "no job comes of it" in web.page("/recurring/nightly?done=pause") and post(web, "/recurring/nightly", "pause")[1].endswith("refused=pause")
    assert "paused already" in web.page("/recurring/nightly")
    assert post(web, "/recurring/nightly", "resume")[1].endswith("done=resume") and db.one("select next_at > now() from deferred.__deferred_schedule")
    assert db.one("select next_tick <= (select next_at from deferred.__deferred_schedule) from deferred.__deferred_state")
    assert post(web, "/recurring/nightly", "run")[1].endswith("done=run") and db.one("select count(*) from deferred.job where fn = 'echo' and created_by = 'deferred'") == 1
    assert [t["what"] for t in web.json("/recurring/nightly.json")["ticks"]] == ["by hand"]
    assert [(a["verb"], a["refused"] is None) for a in web.json("/recurring/nightly.json")["actions"]] == [("run", True), ("resume", True), ("pause", False), ("pause", True)]
    assert web.ask("/recurring/nightly/pause", "rea", "POST", {"token": web.token("/recurring/nightly")})[0] == 403


def test_a_function_is_told_by_build_with_its_errors_and_limits_are_set_by_a_form(web, db):
    jobs = [db.defer("fail", json.dumps({"error": f"no order {i} {HOSTILE}"}), max_attempts=1) for i in range(3)] + [db.defer("noop")]
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    db.sql("update deferred.__deferred_log set error = 'no order ' || job_id || %s where outcome = 'failed'", HOSTILE)
    assert db.run(["deferred", "fold"]).returncode == 0
    for who in ("vic", "opal"):
        text, told = web.page("/functions/fail", who), web.json("/functions/fail.json", who)
        assert "<script>alert" not in text and ("no order #" in text) == (who == "opal") and ("Limits" in text) and ("/functions/fail/set" in text) == (who == "opal")
        assert told["offers"][0]["fn"] == "fail"
    assert told["errors"] == [{"fn": "fail", "outcome": "failed", "error": "no order #" + HOSTILE.replace("1", "#"), "jobs": 3,
                               **{k: told["errors"][0][k] for k in ("last_s", "first_s", "newest")}}]
    assert told["errors"][0]["newest"] in jobs and "no order #" in web.page("/dead") and "no order" not in web.page("/dead", "vic")
    assert web.ask("/functions/none")[0] == 404 and web.ask("/functions/%3Cscript%3E")[0] == 404
    # What a form says of what was not changed counts for nothing.
    same = {"max_running": "", "was_max_running": "", "rate": "", "was_rate": "", "burst": "", "was_burst": ""}
    assert post(web, "/functions/fail", "set", **same)[1].endswith("done=nothing")
    assert post(web, "/functions/fail", "set", **{**same, "max_running": "3"})[1].endswith("done=set")
    assert post(web, "/functions/fail", "set", **{**same, "rate": "0.5"})[1].endswith("done=set")
    assert db.sql("select max_running, rate from deferred.__deferred_function") == [(3, 0.5)]
    for wrong in ({"max_running": "-1"}, {"max_running": "many"}, {"rate": "1e99"}, {"burst": "9" * 40}):
        assert post(web, "/functions/fail", "set", **{**same, **wrong})[1].endswith("refused=set"), wrong
    assert post(web, "/functions/fail", "set", **{**same, "max_running": "", "was_max_running": "3", "was_rate": "0.5"})[1].endswith("done=set")
    assert db.sql("select from deferred.__deferred_function") == []
    assert post(web, "/queues/default", "set", max_running="2", was_max_running="", weight="1", was_weight="1")[1].endswith("done=set")
    assert db.sql("select max_running, weight from deferred.__deferred_queue where name = 'default'") == [(2, 1)]
    assert [json.loads(a["settings"]) for a in web.json("/audit.json")["actions"] if a["queue"] == "default"] == [{"max_running": "2"}]
    assert web.ask("/queues/default/set", "opal", "POST", {"max_running": "9"})[0] == 403
    # Nor does who sends SQL himself set more than the form has.
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        db.sql("select deferred.__act('set', null, 'default', 'x', null, settings => '{\"fn\": \"noop\"}')")
    def all_folded():  # what ended in the last seconds is folded later
        assert db.run(["deferred", "fold"]).returncode == 0
        told = web.json("/functions/fail.json")["builds"]
        return told if sum(b["attempts"] for b in told) == 3 else None
    builds = harness.wait_for(all_folded, 20, "what ended is in the figures")
    assert [(b["plugin"].split()[0], b["attempts"], b["failed"], b["dead"]) for b in builds] == [("sample", 3, 3, 3)] and builds[0]["run_p50_us"] > 0
    assert "sample" in web.page("/functions/fail", "vic") and "100.0 %" in web.page("/functions/fail", "vic")
