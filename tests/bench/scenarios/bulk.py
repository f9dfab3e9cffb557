"""Many jobs at once, against COPY into a bare table of the same columns."""

import svg
from plain import Plain
from stage import HOT_COLUMNS, PARAMS, Failed

TITLE = "Many jobs at once"
ROW = f"default\tnoop\t{PARAMS}"
HOT_TEXT = {"queue": "default", "fn": "noop", "visible_at": "now"}
# What no design with a row of each job in two tables can pass.
TWO_TABLES = (
    "plain.job (id, queue, fn, params)",
    f"#\t{ROW}",
    f"plain.ready (id, {HOT_COLUMNS})",
    "\t".join(["#", *(HOT_TEXT[column] for column in HOT_COLUMNS.split(", "))]),
)


def run(b):
    jobs = b.size(500000, 20000)
    with b.database() as db:
        plain = Plain(db)

        def way(kind, table, *args):
            def measure():
                db.clear()
                plain.clear()
                db.settle()
                rate, _ = b.stage.defer_loop(db.conninfo, kind, jobs, *args)
                n = db.one(f"select count(*) from {table}")
                if n != jobs:
                    raise Failed(f"{kind}: {jobs} rows were to be stored, {n} are there")
                return rate

            return measure

        f = b.in_turns(
            {
                "copy": way("copy", "plain.columns", "plain.columns (queue, fn, params)", ROW),
                "indexed": way("copy", "bare", "bare (queue, fn, params)", ROW),
                "two": way("copy", "plain.ready join plain.job using (id)", *TWO_TABLES),
                "bulk": way("bulk", "deferred.__deferred_hot h join deferred.__deferred d using (id)"),
            }
        )
    b.report.row(f"{jobs:,} rows by COPY into one table of the same columns, no index", f["copy"], "rows/s")
    b.report.row(f"{jobs:,} rows by COPY into one table of 5 columns, primary key", f["indexed"], "rows/s", f["copy"])
    b.report.row(
        f"{jobs:,} rows by COPY into each of our two tables, with their indexes", f["two"], "jobs/s", f["copy"]
    )
    b.report.row(f"{jobs:,} jobs by deferred_defer_many()", f["bulk"], "jobs/s", f["copy"], least=0.3)
    b.report.chart(
        svg.bars,
        "",
        "Many at once",
        "",
        "a second",
        ["COPY, no index", "COPY, primary key", "COPY, two tables", "deferred_defer_many()"],
        [("rows or jobs", list(f.values()))],
    )
