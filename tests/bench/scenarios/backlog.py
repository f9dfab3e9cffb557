"""What a backlog costs: the same number of jobs executed while so many more lie in the queue."""

import svg

TITLE = "Executing beside a backlog"


def run(b):
    some = b.size(100000, 5000)
    least, most = 10000, b.rows(10000000, 100000)
    sizes = [n for n in (10000, 100000, 1000000) if n < most] + [most]
    with b.database("few") as few, b.database("many") as many:

        def measure(db, backlog):
            def way():
                db.clear_log()
                db.fill(backlog + some - db.ready(), b.say)
                db.settle()
                n = b.best["processes"]
                seconds = db.work(n, cnt=some // n, batch=b.best["batch"])
                db.expect(some // n * n, backlog + some - some // n * n)
                return some // n * n / seconds

            return way

        curve = []
        for backlog in sizes:
            b.say(f"backlog of {backlog:,}")
            f = b.in_turns({"few": measure(few, least), "many": measure(many, backlog)})
            curve.append((backlog, f["many"], f["few"]))
    for backlog, value, base in curve:
        last = backlog == most
        b.report.row(
            f"{some:,} jobs in front of {backlog:,} more, against {least:,}",
            value,
            "jobs/s",
            base,
            least=0.95 if last else None,
        )
    b.report.chart(
        svg.lines,
        "",
        "No-op jobs executed, over backlog",
        "jobs behind those executed",
        "jobs a second",
        [
            ("that backlog", [(n, v) for n, v, _ in curve]),
            (f"{least:,} jobs, in turn", [(n, v) for n, _, v in curve], "dashed"),
        ],
        log_x=True,
    )
