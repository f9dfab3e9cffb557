"""Schedules that are not due: a start with nothing to do is not to notice them, however many they are."""

import os
import statistics

from stage import PROGRAMS

TITLE = "Beside schedules"


def run(b):
    schedules, starts = b.rows(10000, 1000), 10 if b.quick else 60
    with b.database("none") as none, b.database("many") as many:
        many.sql(
            "select count(deferred.schedule('s' || n, '0 0 1 1 *', 'noop')) from generate_series(1, %s) n", schedules
        )

        def start(db):
            def way():
                db.settle()
                text, _ = b.stage.program(
                    "spawn", starts, "--", os.path.join(PROGRAMS, "libpq_min"), db.conninfo, "--", *db.command()
                )
                db.expect(0, 0)
                return statistics.median(
                    int(line.split()[1]) / 1000 for line in text.splitlines() if line.split()[0] == "1"
                )

            return way

        f = b.in_turns({"none": start(none), "many": start(many)})
        b.report.row(
            f"a start with nothing due beside {schedules:,} schedules, against none",
            f["many"],
            "ms",
            f["none"],
            most=1.1,
        )
