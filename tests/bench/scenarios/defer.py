"""One job a transaction, durable: from C and from SQL, against a bare INSERT of one row."""

import svg
from plain import DEFER, INSERT_BARE, INSERT_ROWS, Plain
from stage import Failed

TITLE = "One defer a transaction"
CLIENTS = (1, 4, 16)
NAMES = {"bare": "INSERT of one row, pgbench", "rows": "INSERT of the two rows, pgbench", "c": "deferred_defer(), C",
         "sql": "deferred.defer(), pgbench"}


def run(b):
    seconds = 1 if b.quick else 4
    with b.database() as db:
        plain = Plain(db)

        def fresh():
            db.clear()
            plain.clear()
            db.settle()

        def pgbench(script, table, clients):
            def way():
                fresh()
                rate = db.pgbench(script, clients, "-T", seconds)
                stored(rate, table)
                return rate
            return way

        def library(clients):
            def way():
                fresh()
                rate = float(b.stage.program("defer_loop", db.conninfo, "single", clients, seconds))
                stored(rate, "deferred.__deferred_hot")
                return rate
            return way

        def stored(rate, table):
            """The rows are there: about as many as rate and time say, each complete."""
            n = db.one(f"select count(*) from {table}")
            if table.startswith("deferred."):
                whole = db.one("select count(*) from deferred.__deferred_hot h join deferred.__deferred d using (id)")
                if whole != n:
                    raise Failed(f"{n} jobs are in the queue, {whole} of them in both tables")
            if not 0.8 * rate * seconds <= n <= 1.5 * rate * seconds + 50:
                raise Failed(f"{rate:.0f} calls a second for {seconds} s were reported, {n} rows are in {table}")

        figures = {}
        for clients in CLIENTS:
            b.say(f"{clients} client(s)")
            figures[clients] = b.in_turns({"bare": pgbench(INSERT_BARE, "bare", clients), "rows": pgbench(INSERT_ROWS, "plain.hot", clients),
                                           "c": library(clients), "sql": pgbench(DEFER, "deferred.__deferred_hot", clients)})
    for clients, f in figures.items():
        for way, name in NAMES.items():
            b.report.row(f"{clients} client(s): {name}", f[way], "calls/s", None if way == "bare" else f["bare"],
                         least={"c": 0.8, "sql": 0.7}.get(way))
    b.report.chart(svg.bars, "", "One job a transaction", "clients", "calls a second", [str(c) for c in CLIENTS],
                   [(name, [figures[c][way] for c in CLIENTS]) for way, name in NAMES.items()])
