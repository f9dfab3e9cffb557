"""Whether a queue is paused is written once, and costs what the column costs."""

import glob
import os
import re

import pg
from documents import read

# Statements that change the setting, and two of the hot path whose plan the call changes: a lane is
# looked up by name there.
OTHERS = {"__queue_set.sql", "__queue_quota.sql", "__is_paused.sql", "__claim_lanes.sql", "run_probe.sql"}


def test_the_planner_inlines_it(db):
    for test in ("deferred.__is_paused(q)", "not deferred.__is_paused(q)", "deferred.__is_paused(q) is not true"):
        plan = "\n".join(line for line, in db.sql(f"explain select from deferred.__deferred_queue q where {test}"))
        assert "paused" in plan and "__is_paused" not in plan, plan


def test_no_statement_reads_the_column_itself():
    for kind in ("functions", "queries", "views"):
        for path in glob.glob(os.path.join(pg.TOP, "sql", kind, "**", "*.sql"), recursive=True):
            text = re.sub(r"--.*", "", read(path))
            aliases = set(re.findall(r"__deferred_queue (?:as )?(\w+)", text)) - {"where", "set", "for"}
            raw = [a for a in aliases if re.search(rf"\b{a}\.paused\b", text)]
            assert not raw or os.path.basename(path) in OTHERS, (path, raw)
