"""Pages of deferred_web about flows: what became of them, a picture of what waits for what, where a
job stands, and what operators do to them."""

import json
import re

import psycopg2.errors
import pytest

HOSTILE = "<script>alert(1)</script>\"'&\u202e"


def post(web, flow, verb, who="opal", **form):
    return web.ask(f"/flow/{flow}/{verb}", who, "POST", {"token": web.token(f"/flow/{flow}"), **form})


def settle(db):
    while db.one("select deferred.__settle(1000)"):
        pass


def test_flows_are_paged_and_one_shows_its_jobs_and_what_they_wait_for(web, db):
    assert "No flows found" in web.page("/flows", "vic") and web.ask("/flow/17")[0] == 404
    jobs = [
        {"name": HOSTILE, "fn": "noop", "label": HOSTILE},
        {"name": "mail", "fn": "noop", "after": HOSTILE},
        {"fn": "echo", "params": {"secret": HOSTILE}, "after": {"job": "mail", "on": "failed"}},
    ]
    flow = db.one(
        "select deferred.defer_flow(%s)",
        json.dumps({"label": HOSTILE, "on_failure": "cancel", "jobs": jobs, "then": [{"fn": "noop", "on": "ended"}]}),
    )
    first, mail, undo, last = [row[0] for row in db.sql("select id from deferred.flow_jobs(%s)", flow)]
    for who in ("vic", "rea", "opal"):
        for path in ("/flows", f"/flow/{flow}", f"/jobs/{mail}"):
            text = web.page(path, who)
            assert (
                "<script>alert" not in text
                and "\u202e" not in text
                and "secret" not in text.partition("<h2>Params")[0]
                and f"/flow/{flow}\"" in text
                or path == f"/flow/{flow}"
            ), (path, who)
        text = web.page(f"/flow/{flow}", who)
        assert (
            ("Retry</button>" in text)
            == ("Cancel</button>" in text)
            == (f"/flow/{flow}/cancel" in text)
            == (who == "opal")
        )
    assert (
        text.count('class="edge"') == 1
        and text.count('class="edge else"') == 4
        and text.count('class="node is-') == 4
        and "1 ready, 3 waiting" in text
    )
    columns = [int(x) for x in re.findall(r'<svg x="(\d+)"', text)]
    assert columns[0] < columns[1] < columns[2] < columns[3], "each stands right of what it waits for"
    told = web.json(f"/flow/{flow}.json", "vic")
    assert (told["flow"]["label"], told["flow"]["states"], told["flow"]["failed"]) == (
        HOSTILE,
        {"ready": 1, "waiting": 3},
        None,
    )
    assert [(j["id"], j["state"], [p["id"] for p in j["after"]]) for j in told["jobs"]] == [
        (first, "ready", []),
        (mail, "waiting", [first]),
        (undo, "waiting", [mail]),
        (last, "waiting", [first, mail, undo]),
    ]
    told = web.json(f"/jobs/{mail}.json", "vic")
    assert (told["flow"], [p["id"] for p in told["parents"]], [(c["id"], c["on"]) for c in told["children"]]) == (
        flow,
        [first],
        [(undo, "failed"), (last, "ended")],
    )
    shown = web.page(f"/jobs/{mail}", "vic")
    assert "Waits for</h2>" in shown and "Awaited by</h2>" in shown and f'href="/jobs/{undo}"' in shown
    assert (web.ask(f"/flow/{mail}", "vic")[0], web.ask(f"/flow/{mail}", "vic")[1]["Location"]) == (
        303,
        f"/flow/{flow}",
    )
    db.sql("select deferred.cancel(%s)", first)
    settle(db)
    assert (
        re.search(rf'First failure</dt><dd><a href="/jobs/{first}"', web.page(f"/flow/{flow}", "vic"))
        and web.json("/flows.json", "vic")["flows"][0]["failed"] == first
    )
    alone = db.defer("noop")
    assert (
        "Waits for</h2>" not in web.page(f"/jobs/{alone}")
        and web.json(f"/jobs/{alone}.json")["flow"] is None
        and web.ask(f"/flow/{alone}")[0] == 404
    )
    flows = [db.one("select deferred.defer_flow('{\"jobs\": [{\"fn\": \"noop\"}]}')") for _ in range(30)][::-1] + [flow]
    page = web.json("/flows.json", "vic")
    assert (
        [f["id"] for f in page["flows"]] == flows[:25]
        and page["after"] == flows[24]
        and f'href="/flows?after={flows[24]}"' in web.page("/flows", "vic")
    )
    page = web.json(f"/flows.json?after={flows[24]}", "vic")
    assert [f["id"] for f in page["flows"]] == flows[25:] and "after" not in page


def test_a_large_flow_is_paged_and_cancelled_step_by_step(web, db):
    flow = db.one(
        "select deferred.defer_flow((select json_build_object('jobs', json_agg(json_build_object('fn', 'noop'))) "
        "from generate_series(1, 2300)))"
    )
    ids = [row[0] for row in db.sql("select id from deferred.flow_jobs(%s)", flow)]
    page = web.json(f"/flow/{flow}.json", "vic")
    assert (
        [j["id"] for j in page["jobs"]] == ids[:60]
        and page["after"] == ids[59]
        and page["flow"]["states"] == {"ready": 1000}
    )
    assert [j["id"] for j in web.json(f"/flow/{flow}.json?after={ids[2269]}", "vic")["jobs"]] == ids[2270:]
    text = web.page(f"/flow/{flow}", "vic")
    assert f'href="/flow/{flow}?after={ids[59]}"' in text and "<h2>Graph" not in text and "1000 ready, ..." in text
    # Around a job with many children a bounded number is shown.
    parent = db.defer("noop")
    for _ in range(52):
        db.defer("noop", after=parent)
    assert (
        len(web.json(f"/jobs/{parent}.json", "vic")["children"]) == 50
        and "Only the first are shown" in web.page(f"/jobs/{parent}", "vic")
        and "Only the first are shown" not in web.page(f"/jobs/{ids[0]}")
    )
    for who in ("vic", "rea"):
        assert [post(web, flow, verb, who)[0] for verb in ("cancel", "retry")] == [403, 403]
    assert web.ask(f"/flow/{flow}/cancel", "opal", "POST", {})[0] == 403 and web.ask(f"/flow/{flow}/cancel")[0] == 405
    status, headers, text = post(web, flow, "cancel")
    steps = 1
    while status == 200:
        assert f"{steps * 1000} jobs were cancelled so far" in text and "data-go" in text and steps < 5
        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', text))
        status, headers, text = web.ask(f"/flow/{flow}/cancel", "opal", "POST", fields)
        steps += 1
    assert (status, headers["Location"], steps) == (303, f"/flow/{flow}?done=cancel", 3) and db.hot() == 53
    assert "All jobs that had not ended were cancelled" in web.page(f"/flow/{flow}?done=cancel") and {
        j["state"] for j in web.json(f"/flow/{flow}.json")["jobs"]
    } == {"cancelled"}
    assert [(a["verb"], a["jobs"]) for a in web.json(f"/flow/{flow}.json")["actions"]] == [
        ("cancel", 300),
        ("cancel", 1000),
        ("cancel", 1000),
    ]
    assert {a["flow"] for a in web.json("/audit.json", "vic")["actions"]} == {flow}
    assert db.sql("select * from deferred.check_ledger()") == []


def test_an_operator_has_a_flow_begun_again(web, db):
    flow = db.one("select deferred.defer_flow('{\"jobs\": [{\"fn\": \"noop\"}]}')")
    job = db.one("select id from deferred.flow_jobs(%s)", flow)
    db.sql("select deferred.cancel(%s)", job)
    assert post(web, flow, "retry")[1][
        "Location"
    ] == f"/flow/{flow}?done=retry" and "The flow will run again" in web.page(f"/flow/{flow}?done=retry")
    assert "being begun again since" in web.page(f"/flow/{flow}", "vic")
    assert post(web, flow, "retry")[1]["Location"].endswith(
        "refused=retry"
    ) and "being begun again already" in web.page(f"/flow/{flow}?refused=retry")
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0 and db.log(job)[-1][1] == "ok"
    assert "begun again at" in web.json(f"/flow/{flow}.json")["flow"]["retry"]
    status, headers, _ = web.ask("/flow/99999/cancel", "opal", "POST", {"token": web.token(f"/flow/{flow}")})
    assert (status, headers["Location"]) == (303, "/flow/99999?refused=cancel") and "does not exist" in web.json(
        "/audit.json"
    )["actions"][0]["refused"]
    # Nor does who sends SQL himself do more than the buttons.
    reader = db.connect(user=web.login("rea"), password=web.PASSWORD)
    with pytest.raises(Exception, match="permission denied"), reader.cursor() as cursor:
        cursor.execute("select deferred.__act_flow('retry', %s, null, 'me', null)", (flow,))
    reader.close()
    for wrong in ("'run', 1", "null, 1", "'retry', null"):
        with pytest.raises(psycopg2.errors.InvalidParameterValue):
            db.sql(f"select deferred.__act_flow({wrong}, null, 'me', null)")
