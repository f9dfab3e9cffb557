"""WAL a job, from the defer to its log row: what replicas, archive and disk have to take."""

import os
import re

import pg
import svg
from stage import Failed

TITLE = "WAL a job"

# What writes a kind of record, by which a run's WAL is told apart.
KINDS = (
    ("rows locked or updated", r"Heap/(LOCK|UPDATE|HOT_UPDATE)|Heap2/LOCK_UPDATED"),
    ("rows deleted: hot, lease, place", r"Heap/DELETE"),
    ("rows added: log, lease, place", r"Heap2?/(MULTI_)?INSERT"),
    ("their indexes", r"Btree/(?!VACUUM|DELETE|MARK|UNLINK|DEDUP)"),
    ("commits", r"Transaction/"),
    ("dead rows removed", r"Heap2/(PRUNE|VACUUM|FREEZE|VISIBLE)|Btree/(VACUUM|DELETE|MARK|UNLINK|DEDUP)"),
)


def records(cluster, start, end):
    """{kind of record: (number, bytes without images, bytes of page images)} between two places of the WAL."""

    # From the file it is in: else pg_waldump learns their size from any one, that of which nothing
    # has been written yet included. It reads up to the last file that is named.
    def file_of(place):
        high, low = place.split("/")
        return f"00000001{int(high, 16):08X}{int(low, 16) >> 24:08X}"

    text = pg.call(
        pg.as_server(
            [
                os.path.join(pg.bindir(), "pg_waldump"),
                "-p",
                os.path.join(cluster.data, "pg_wal"),
                "-s",
                start,
                "-e",
                end,
                "--stats=record",
                file_of(start),
                file_of(end),
            ]
        )
    )
    found = {}
    for line in text.splitlines():
        m = re.match(r"(\S+)\s+(\d+) \(\s*[\d.]+\)\s+(\d+) \(\s*[\d.]+\)\s+(\d+) \(\s*[\d.]+\)\s+\d+ \(", line)
        if m:
            kind = m[1].replace("+INIT", "")  # the first row of a page
            found[kind] = tuple(a + int(c) for a, c in zip(found.get(kind, (0, 0, 0)), m.groups()[1:]))
    if not found:
        raise Failed(f"pg_waldump said nothing of use:\n{text[:500]}")
    return found


def run(b):
    jobs = b.size(300000, 10000)
    seconds = 1 if b.quick else 8
    r, chart = b.report, []
    with b.database() as db:

        def place():
            return db.one("select pg_current_wal_insert_lsn()::text")

        def distance(a, z):
            return int(db.one("select pg_wal_lsn_diff(%s, %s)", z, a))

        def case(name, defer, checkpoint, aim):
            db.clear()
            db.settle()
            start = place()
            defer()
            n, deferred = db.ready(), place()
            if checkpoint:
                db.sql("checkpoint")
            claimed = place()
            db.work(1, cnt=0, batch=b.best["batch"])
            end = place()
            db.expect(n, 0)
            b.say(f"{name}: {n:,} jobs")
            # Now, while the files are there; the last record has to be on disk.
            db.sql("select pg_switch_wal()")
            kinds = records(b.stage.cluster, claimed, end)
            images = sum(k[2] for k in kinds.values())
            first, then = distance(start, deferred), distance(claimed, end)
            if not checkpoint:
                images += sum(k[2] for k in records(b.stage.cluster, start, deferred).values())
            r.row(f"{name}: together", (first + then) / n, "bytes", value_most=aim)
            r.row("  of these deferred", first / n, "bytes")
            r.row("  of these claimed and finished", then / n, "bytes")
            r.row("  without page images (full_page_writes)", (first + then - images) / n, "bytes")
            parts = {"deferred": first / n}
            for kind, pattern in KINDS:
                parts[kind] = sum(k[1] + k[2] for rec, k in kinds.items() if re.match(pattern, rec)) / n
            parts["other"] = max((first + then) / n - sum(parts.values()), 0)
            for kind, value in list(parts.items())[1:]:
                r.row(f"    {kind}", value, "bytes")
            r.fact(
                name,
                {
                    "jobs": n,
                    "records": {k: {"n": v[0], "bytes": v[1], "image_bytes": v[2]} for k, v in sorted(kinds.items())},
                },
            )
            chart.append((name, parts))

        def bulk():
            b.stage.defer_loop(db.conninfo, "bulk", jobs)

        case("deferred at once", bulk, False, 650)
        case("one defer a transaction", lambda: b.stage.defer_loop(db.conninfo, "single", 4, seconds), False, 800)
        case("deferred at once, then a checkpoint", bulk, True, None)
    names = list(chart[0][1])
    r.chart(
        svg.bars,
        "",
        "WAL a job",
        "",
        "bytes a job",
        [n.split(":")[0] for n in names],
        [(name, [parts[n] for n in names]) for name, parts in chart],
        values=False,
    )
