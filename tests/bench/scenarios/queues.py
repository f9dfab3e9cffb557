"""Queues without jobs: neither executing nor a start with nothing due is to notice them, however many they are."""

import os
import statistics

from stage import PROGRAMS

TITLE = "Beside empty queues"


def run(b):
    some, queues, starts = b.size(200000, 10000), b.rows(20000, 2000), 10 if b.quick else 60
    with b.database("one") as one, b.database("many") as many:
        many.sql(
            "insert into deferred.__deferred_queue (name) select 'empty' || n from generate_series(1, %s) n", queues
        )
        many.sql("vacuum analyze deferred.__deferred_queue")

        def execute(db):
            def way():
                db.clear_log()
                db.fill(some - db.ready(), b.say)
                db.settle()
                n = b.best["processes"]
                seconds = db.work(n, cnt=0, batch=b.best["batch"])
                db.expect(some, 0)
                return some / seconds

            return way

        f = b.in_turns({"one": execute(one), "many": execute(many)})
        b.report.row(
            f"{some:,} jobs of one queue beside {queues:,} empty ones, against none",
            f["many"],
            "jobs/s",
            f["one"],
            least=0.95,
        )

        def start(db):
            def way():
                db.clear()
                db.settle()
                text, _ = b.stage.program(
                    "spawn", starts, "--", os.path.join(PROGRAMS, "libpq_min"), db.conninfo, "--", *db.command()
                )
                return statistics.median(
                    int(line.split()[1]) / 1000 for line in text.splitlines() if line.split()[0] == "1"
                )

            return way

        f = b.in_turns({"one": start(one), "many": start(many)})
        b.report.row(
            f"a start with nothing due beside {queues:,} empty queues, against none",
            f["many"],
            "ms",
            f["one"],
            most=1.1,
        )
