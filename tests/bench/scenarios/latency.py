"""From ready to started, while jobs come one by one at a steady pace and a service waits for them;
and from before the defer to the start, against a bare libpq client that is woken in the same way
and does nothing else."""

import bisect
import os
import shutil
import statistics
import time

import pg
import svg
from stage import Failed, Run
from turns import quantile

TITLE = "From ready to started, jobs at a steady pace"
WOKEN = {"DEFERRED_LOOP": "1", "DEFERRED_LISTEN": "1"}
PACE = 100  # jobs a second; a slow disk may not let the one producer keep it: what it kept is printed


def histogram(found):
    """Lower bounds in microseconds, three a factor of ten from 0.1 ms on, and how many waits lie at or above each and
    below the next; what is shorter counts with the first."""
    longest = max(waits[-1] for waits in found.values())
    bounds = [100]
    while bounds[-1] < longest:
        bounds.append(round(10 ** (2 + len(bounds) / 3)))
    counts = {name: [0] * len(bounds) for name in found}
    for name, waits in found.items():
        for wait in waits:
            counts[name][max(bisect.bisect_right(bounds, wait) - 1, 0)] += 1
    return bounds, counts


def run(b):
    with b.database() as db:
        seconds = 3 if b.quick else 15
        ways = {
            "polling every 10 ms": {
                "DEFERRED_LOOP": "1",
                "DEFERRED_INTERVAL_FLOOR": "10ms",
                "DEFERRED_INTERVAL_CEILING": "10ms",
            },
            "woken by NOTIFY": WOKEN,
        }
        found = {name: measure(b, db, env, seconds) for name, env in ways.items()}
        against_bare(b, db, PACE * seconds)
    for name, (pace, waits) in found.items():
        for share in (0.5, 0.9, 0.99, 1):
            label = "longest" if share == 1 else f"{share:.0%} at most"
            b.report.row(f"{len(waits):,} jobs at {pace:.0f}/s, {name}: {label}", quantile(waits, share) / 1000, "ms")
    bounds, counts = histogram({name: waits for name, (_, waits) in found.items()})
    b.report.fact("histogram", {"bounds_us": bounds, **counts})
    b.report.chart(
        svg.bars,
        "",
        "From ready to started",
        "milliseconds at least (three steps a factor of ten)",
        "jobs",
        [svg.number(float(f"{e / 1000:.2g}")) for e in bounds],
        list(counts.items()),
        values=False,
    )


def against_bare(b, db, n):
    """Rows for p50 and p99: the medians of the rounds. wake_latency.c defers the next one 5 to 15
    ms after the last was started."""
    plugins = os.path.join(b.stage.folder, "plugins")
    os.makedirs(plugins, 0o755, exist_ok=True)
    for path in ("plugins/sample.so", "tests/plugins/stamp.so"):
        shutil.copy(os.path.join(pg.BUILD, path), plugins)

    def latencies(*args):
        text, _ = b.stage.program("wake_latency", db.conninfo, *args)
        return sorted(float(line.split()[0]) / 1000 for line in text.splitlines())

    def bare():
        return latencies("bare", n)

    def woken():
        db.clear()
        db.settle()
        stamps = os.path.join(b.stage.folder, "stamps")
        service = Run(db.command(plugin_dir=plugins), WOKEN)
        try:
            latencies("defer", 20, stamps)  # with these it has its runner, its plugins and its statements
            found = latencies("defer", n, stamps)
            wait_until_done(db, n + 20, service)
        finally:
            service.stop()
        service.check()
        db.expect(n + 20, 0)
        return found

    rounds = {"bare": [], "woken": []}
    for i in range(b.rounds):
        for name, way in (("bare", bare), ("woken", woken))[:: -1 if i % 2 else 1]:
            rounds[name].append(way())
            b.say(
                f"round {i + 1} of {b.rounds}, {name}: p50 {quantile(rounds[name][-1], 0.5):.2f} ms, p99 "
                f"{quantile(rounds[name][-1], 0.99):.2f} ms"
            )
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        figures = {way: statistics.median(quantile(waits, share) for waits in found) for way, found in rounds.items()}
        b.report.row(f"{n:,} times, from before the INSERT: bare libpq client, {name}", figures["bare"], "ms")
        b.report.row(
            f"{n:,} times, from before the defer: woken by NOTIFY, {name}",
            figures["woken"],
            "ms",
            figures["bare"],
            most=1.3,
        )


def measure(b, db, env, seconds):
    db.clear()
    db.settle()
    service = Run(db.command(), env)
    try:
        db.sql("select deferred.defer('noop')")  # with it the service has its runner and its plugins
        wait_until_done(db, 1, service)
        time.sleep(0.2)
        db.clear_log()
        n, begin = PACE * seconds, time.monotonic()
        for i in range(n):
            time.sleep(max(0.0, begin + i / PACE - time.monotonic()))
            db.sql("select deferred.defer('noop')")
        took = time.monotonic() - begin
        wait_until_done(db, n, service)
    finally:
        service.stop()
    service.check()
    db.expect(n, 0)
    b.say(f"{n:,} jobs deferred in {took:.1f} s")
    return n / took, sorted(w for w, in db.sql("select wait_us from deferred.__deferred_log"))


def wait_until_done(db, n, service):
    deadline = time.monotonic() + 30
    while db.one("select count(*) from deferred.__deferred_log") < n:
        if time.monotonic() > deadline or service.process.poll() is not None:
            raise Failed(f"the service did not do {n} jobs within 30 s, exit status {service.process.poll()}")
        time.sleep(0.01)
