"""The pages in a real browser: tests/web/browser/look.mjs. Minutes on a busy machine, so by `make
check-web` alone, which installs what it takes and says so in DEFERRED_BROWSER."""

import json
import os
import random
import shutil

import pytest

import harness
import pg
from api_client import add_token
from made_log import history, write_log
from test_web import HOSTILE

LIMIT_S = 1800
PLACE = os.path.join(pg.TOP, "build", "browser")


@pytest.mark.by_hand
@pytest.mark.skipif(not os.environ.get("DEFERRED_BROWSER"), reason="takes minutes and a browser: make check-web")
def test_people_can_read_and_use_each_page(web, db):
    job, dead = [
        db.defer("fail", json.dumps({"html": "</pre><script>alert(2)</script>"}), label=HOSTILE[:1000], max_attempts=1)
        for _ in range(2)
    ]
    assert db.run(["check_deferred", "--cnt", "2"]).returncode == 0
    db.sql("update deferred.__deferred_log set error = %s", "</pre><script>alert(3)</script>" + HOSTILE)
    db.sql("select deferred.defer('noop', '{}', '{\"queue\": \"mail\"}') from generate_series(1, 60)")
    db.sql("select deferred.schedule('nightly', '0 3 * * *', 'noop')")
    db.sql(
        "select deferred.defer_many((select json_agg(json_build_object('fn', 'noop', 'queue', 'bulk')) "
        "from generate_series(1, 1500)))"
    )
    write_log(db, history(random.Random(3), 0.5, lambda r: 4.0, 2), "images")  # as much as advice takes
    assert db.run(["deferred", "fold", "--rebuild"]).returncode == 0
    add_token(db, "shop", "--may", "defer,work", "--functions", "order.*")
    later = db.defer("noop", '{"to": "a"}', delay="1h")
    claimed = db.defer("sleep", '{"ms": 3600000}', priority=100)
    db.spawn(["check_deferred", "--cnt", "1"])
    harness.wait_for(lambda: db.one("select state from deferred.job where id = %s", claimed) == "claimed", 60)
    approval = db.defer("noop", wait_for={"event": "approved", "within": "1h", "on_timeout": "fail"})
    flow = db.one(
        "select deferred.defer_flow(%s)",
        json.dumps(
            {
                "label": HOSTILE[:900],
                "jobs": [
                    {"name": HOSTILE[:60], "fn": "noop", "delay": "1h"},
                    {"name": "b", "fn": "noop", "after": HOSTILE[:60]},
                    {"fn": "noop", "after": {"job": "b", "on": "failed"}},
                ],
            }
        ),
    )
    shutil.copy(os.path.join(pg.TOP, "tests", "web", "browser", "look.mjs"), PLACE)
    looking = db.spawn(
        [
            "node",
            os.path.join(PLACE, "look.mjs"),
            f"http://127.0.0.1:{web.port}",
            str(job),
            str(dead),
            str(later),
            str(flow),
            str(approval),
            str(claimed),
            web.login("opal"),
            web.login("vic"),
            web.PASSWORD,
        ]
    )
    harness.wait_for(
        lambda: "ready\n" in looking.output() or not looking.alive(), LIMIT_S, "a browser that waits for a change"
    )
    db.defer("noop")
    assert looking.wait(LIMIT_S) == 0, looking.output()
    assert json.loads(looking.output().splitlines()[-1]) == []
    assert db.sql(
        "select priority, params from deferred.__deferred where id in (%s, %s) order by id", later, claimed
    ) == [
        (7, {"to": "b"}),
        (100, {"ms": 3600000}),
    ]
    edits = db.sql(
        "select who, job_id, settings, refused, at is not null from deferred.__deferred_action"
        " where verb = 'update' order by id"
    )
    assert [(who, job, (refused or "").split(" (")[0], at) for who, job, _, refused, at in edits] == [
        (web.login("opal"), later, "option 'priority' is not a number: 'high'", True),
        (web.login("opal"), later, "", True),
        (web.login("opal"), claimed, f"job {claimed} is claimed", True),
    ]
    assert edits[1][2] == {"priority": "7", "delay": "2h", "params": "changed"}
    assert db.sql(
        "select who, job_id, settings->>'event', at between sent_at - interval '1min' and sent_at + interval '1 min' "
        "from deferred.__deferred_action cross join deferred.__deferred_event where verb = 'send'"
    ) == [(web.login("opal"), approval, "approved", True)]
    assert db.one("select payload from deferred.__deferred_event") == {"by": "Ann"}
