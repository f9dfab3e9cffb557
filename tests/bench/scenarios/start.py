"""What cron pays when nothing is due: connect, one probe, exit; against the smallest program that
asks PostgreSQL something."""

import os
import statistics

import svg
from stage import PROGRAMS

TITLE = "A start with nothing due"


def run(b):
    starts = 10 if b.quick else 100
    with b.database() as db:
        db.settle()
        text, _ = b.stage.program(
            "spawn", starts, "--", os.path.join(PROGRAMS, "libpq_min"), db.conninfo, "--", *db.command()
        )
        db.expect(0, 0)
    runs = [[int(v) for v in line.split()] for line in text.splitlines()]
    for column, name, unit, factor in (
        (1, "wall time", "ms", 1000),
        (2, "processor time", "ms", 1000),
        (3, "peak memory", "MiB", 1024),
    ):
        least, ours = (statistics.median(r[column] for r in runs if r[0] == n) / factor for n in (0, 1))
        aims = {"most": 1.15} if column == 1 else {}
        b.report.row(f"{name}, smallest libpq program", least, unit)
        b.report.row(f"{name}, check_deferred", ours, unit, least, **aims)
    b.report.chart(
        svg.lines,
        "",
        "A start with nothing due",
        "start",
        "ms",
        [
            (name, [(i + 1, r[1] / 1000) for i, r in enumerate(r for r in runs if r[0] == n)])
            for n, name in ((0, "smallest libpq program"), (1, "check_deferred"))
        ],
        dots=False,
    )
