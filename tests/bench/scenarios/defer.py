"""One job a transaction, durable: from C and from SQL, against the two rows of a job stored in one
statement, with nothing around them."""

import svg
from plain import DEFER, INSERT_BARE, INSERT_ROWS, Plain
from stage import Failed

TITLE = "One defer a transaction"
CLIENTS = (1, 4, 16)
SLICES = 4  # a round: short ones in turns, for what disturbs the machine lasts for seconds
NAMES = {
    "rows": "INSERT of the two rows in one statement, pgbench",
    "bare": "INSERT of one row, pgbench",
    "c": "deferred_defer(), C",
    "sql": "deferred.defer(), pgbench",
}


def run(b):
    seconds = 1
    with b.database() as db:
        plain = Plain(db)

        def fresh():
            db.clear()
            plain.clear()
            db.settle()

        def pgbench(script, table, clients):
            def way():
                fresh()
                rate, calls = db.pgbench(script, clients, "-T", seconds)
                stored(calls, table)
                return rate

            return way

        def library(clients):
            def way():
                fresh()
                rate, calls = b.stage.defer_loop(db.conninfo, "single", clients, seconds)
                stored(calls, "deferred.__deferred_hot")
                return rate

            return way

        def stored(calls, table):
            """A row is there for each call, and each job is complete."""
            n = db.one(f"select count(*) from {table}")
            if table.startswith("deferred."):
                whole = db.one("select count(*) from deferred.__deferred_hot h join deferred.__deferred d using (id)")
                if whole != n:
                    raise Failed(f"{n} jobs are in the queue, {whole} of them in both tables")
            if n != calls:
                raise Failed(f"{calls} calls were made, {n} rows are in {table}")

        figures = {}
        for clients in CLIENTS:
            b.say(f"{clients} client(s)")
            figures[clients] = b.in_turns(
                {
                    "bare": pgbench(INSERT_BARE, "bare", clients),
                    "rows": pgbench(INSERT_ROWS, "plain.ready", clients),
                    "c": library(clients),
                    "sql": pgbench(DEFER, "deferred.__deferred_hot", clients),
                },
                rounds=b.rounds * (1 if b.quick else SLICES),
            )
    for clients, f in figures.items():
        for way, name in NAMES.items():
            b.report.row(
                f"{clients} client(s): {name}",
                f[way],
                "calls/s",
                None if way == "rows" else f["rows"],
                least={"c": 0.85, "sql": 0.8}.get(way),
            )
    b.report.chart(
        svg.bars,
        "",
        "One job a transaction",
        "clients",
        "calls a second",
        [str(c) for c in CLIENTS],
        [(name, [figures[c][way] for c in CLIENTS]) for way, name in NAMES.items()],
    )
