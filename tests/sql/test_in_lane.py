"""Which jobs lie in a lane is written once, and found by the index of the lanes; no function of the claim is long."""

import glob
import os
import re

import pg
from documents import read

READY = re.compile(r"(\w+)\.due_at is null\s+and not \1\.limited\s+and \1\.fn is not null")


def test_the_planner_inlines_it_and_takes_the_index_of_the_lanes(db):
    (where,) = re.findall(
        r"create index __deferred_hot_ready on deferred.__deferred_hot [^;]*?\bwhere ([^;]+);",
        read(pg.TOP + "/sql/migrations/0001_tables.sql"),
    )
    assert where == "due_at is null and not limited and fn is not null"
    db.sql("set enable_seqscan = off; set enable_bitmapscan = off")
    plan = "\n".join(
        line
        for line, in db.sql(
            "explain select from deferred.__deferred_hot h where h.queue = 'q' and h.priority = 0"
            " and deferred.__in_lane(h.due_at, h.limited, h.fn) order by h.xid limit 1"
        )
    )
    assert "using __deferred_hot_ready" in plan and "__in_lane" not in plan and "Filter" not in plan, plan


def test_no_statement_says_itself_which_jobs_lie_in_a_lane():
    said = [
        path
        for kind in ("functions", "queries", "views")
        for path in glob.glob(os.path.join(pg.TOP, "sql", kind, "**", "*.sql"), recursive=True)
        if READY.search(re.sub(r"--.*", "", read(path)))
    ]
    assert said == []


def test_no_function_of_the_claim_keeps_state_in_a_setting():
    used = {
        setting
        for path in pg.sources("functions").values()
        if "/claim/__claim" in path
        for setting in re.findall(r"(?:set_config|current_setting)\('([^']+)'", read(path))
    }
    assert used == {"synchronous_commit"}
