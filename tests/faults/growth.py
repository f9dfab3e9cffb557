"""`make growth`: does anything grow? Four weeks by the clock of the server, set forward twelve
hours at a time: in each such step jobs, messages and starts of check_deferred beside a service and
an HTTP front that stay, then a purge. Partitions of the log begin and go by the week, those of the
jobs as numbers are skipped. The first two weeks fill what is kept (--keep, five days); the greatest
size of each thing in the third is held against that in the fourth. What has grown makes the exit status 1.

    growth.py [--seed N] [--starts N] [--keep SPAN]
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "harness")]

import json  # noqa: E402

import harness  # noqa: E402
import pg  # noqa: E402
import test_clocks  # noqa: E402
from front import Front  # noqa: E402
from harness import wait_for  # noqa: E402

STEP_H, WEEK, WEEKS = 12, 14, 4
NUMBERS = 1_000_000  # skipped a step: a partition of jobs holds ten times as many
# Of each thing how much more the last week may have than the two before had at most; and how much
# more than the second where it grew from week to week, twice: a share, and so much beside it.
JUMP, JUMP_SLACK = 0.1, {"kB": 256, "": 2}
CREEP, CREEP_SLACK = 0.2, {"kB": 96, "": 2}
TABLES = {
    "jobs": "^__deferred(_default|_[0-9]+)?$",
    "hot jobs": "^__deferred_hot$",
    "log": "^__deferred_log",
    "leases and places": "^__deferred_(lease|place)$",
    "runs and their offers": "^__deferred_(worker|offer)$",
    "figures by minute": "^__deferred_(series|depth|total|minute|folded)$",
    "figures by hour": "^__deferred_hour$",
}
KEPT = {"figures by hour": "kept for 400 days"}  # and so not to be flat in four weeks


def is_flat(weeks, unit):
    second, third, fourth = weeks
    jumped = fourth > max(second, third) * (1 + JUMP) + JUMP_SLACK[unit]
    crept = second < third < fourth and fourth > second * (1 + CREEP) + CREEP_SLACK[unit]
    return not jumped and not crept


def pages_kb(pid):
    """Memory that is its own."""
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith(("Private_Clean:", "Private_Dirty:", "Swap:")))


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def segments(pids):
    """Of shared memory, System V's and POSIX's, that these have mapped."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/maps") as f:
            found |= {
                line.split(None, 5)[5]
                for line in f
                if "/dev/shm/PostgreSQL." in line or "/SYSV" in line or "/dev/zero" in line
            }
    return len(found)


class Weeks:
    def __init__(self, rng, starts, keep):
        self.keep = keep
        self.rng, self.starts = rng, max(starts // (WEEK * WEEKS), 1)
        self.clock = test_clocks.Clock("growth")
        # Autovacuum looks as often as it would in the time that seems to pass, or nearly.
        self.db = harness.OwnServer(
            settings={"autovacuum_naptime": "1s", "max_wal_size": "64MB", "min_wal_size": "32MB", "wal_keep_size": "0"},
            server_env=self.clock.env,
        )
        self.seen = {}

    def note(self, name, unit, value):
        self.seen.setdefault((name, unit), []).append(value)

    def measure(self):
        db = self.db
        names = (
            "select c.relname, pg_total_relation_size(c.oid) / 1024 from pg_class c "
            "where c.relnamespace = 'deferred'::regnamespace and c.relkind = 'r'"
        )
        sizes = db.sql(names)
        left = sum(size for _, size in sizes)
        for name, pattern in TABLES.items():
            kb = db.one(f"select coalesce(sum(s.kb), 0)::int8 from ({names}) s(name, kb) where s.name ~ %s", pattern)
            self.note(name, "kB", kb)
            left -= kb
        self.note("other tables", "kB", left)
        self.note(
            "partitions",
            "",
            db.one("select count(*) from pg_inherits i join pg_class c on c.oid = i.inhrelid where c.relkind = 'r'"),
        )
        self.note(
            "catalogue",
            "kB",
            db.one(
                "select sum(pg_total_relation_size(c.oid))::int8 / 1024 from pg_class c "
                "where c.relnamespace = 'pg_catalog'::regnamespace and c.relkind = 'r'"
            ),
        )
        self.note("WAL kept", "kB", db.one("select sum(size)::int8 / 1024 from pg_ls_waldir()"))
        self.note("sessions", "", db.one("select count(*) from pg_stat_activity where datname = current_database()"))
        db.sql(
            "checkpoint"
        )  # files of what was dropped are there until then; the maps of free and of visible pages come as tables fill
        self.note(
            "files of the server",
            "",
            sum("_" not in name for _, _, files in os.walk(os.path.join(db.cluster.data, "base")) for name in files),
        )
        postmaster = db.cluster.pid()
        self.note("shared memory segments", "", segments([postmaster, *pg.children_of(postmaster)]))
        for name, run in ("service", self.service), ("front", self.front.program):
            self.note(f"memory of the {name}", "kB", pages_kb(run.pid))
            self.note(f"descriptors of the {name}", "", descriptors(run.pid))
        self.note("files beside the pidfile", "", len(os.listdir(db.dir)))
        self.note("processes", "", len(pg.processes_with("DEFERRED_TEST_ROOT", harness.root())))

    def prepare(self):
        db = self.db
        self.front = Front(db)
        self.http = self.front.client()
        self.http.create("mail")
        with open(db.config_file) as f:
            db.config(
                f.read()
                + 'interval_floor = "50ms"\ninterval_ceiling = "200ms"\nbackoff_floor = "1ms"\nbackoff_ceiling = '
                '"1ms"\n'
            )
        self.service = db.spawn(
            ["check_deferred", "--loop", "--listen", "--runners", "2", "--pidfile", f"{db.dir}/service"]
        )

    def step(self):
        """Half a day."""
        db = self.db
        for _ in range(self.starts):
            calls = [{"fn": "noop"}] * 15 + [
                {"fn": "fail", "max_attempts": 2},
                {"fn": "noop", "concurrency_key": f"k {self.rng.randrange(1000)}"},
                {"fn": "noop", "key": f"key {self.rng.randrange(10**6)}", "queue": "other"},
            ]
            db.sql("select deferred.defer_many(%s)", json.dumps(calls))
            db.run(["check_deferred", "--cnt", "0", "--if-running=skip"])
            self.http.put("mail", "x" * self.rng.randrange(1000))
            for message in self.http.get("mail"):
                self.http.delete("mail", message)
        wait_for(
            lambda: db.one("select count(*) from deferred.__deferred_hot where fn is not null") == 0, 60, "all is done"
        )
        db.sql("select setval('deferred.__deferred_id_seq', nextval('deferred.__deferred_id_seq') + %s)", NUMBERS)
        folded = db.run(["deferred", "fold"])
        assert folded.returncode == 0, folded.stderr
        purged = db.run(["deferred", "purge", "--older-than", self.keep, "--dead-older-than", self.keep])
        assert purged.returncode == 0, purged.stderr
        self.measure()
        self.clock.set(self.hours * 3600)

    def run(self):
        try:
            self.prepare()
            began = time.monotonic()
            for n in range(WEEK * WEEKS):
                self.hours = (n + 1) * STEP_H
                self.step()
                if n % WEEK == WEEK - 1:
                    print(f"week {n // WEEK + 1} of {WEEKS}: {time.monotonic() - began:.0f} s", flush=True)
            self.service.signal(signal.SIGTERM)
            ended = self.service.wait(60)
            assert ended == 0, self.service.output()
            violations = self.db.sql("select * from deferred.check_ledger()")
            self.largest = self.db.sql(
                """select c.relname, pg_relation_size(c.oid) / 1024 from pg_class c
                                          where c.relnamespace = 'deferred'::regnamespace
                                          and c.relkind in ('r', 'i') order by 2 desc limit 15"""
            )
            return self.told(violations)
        finally:
            self.db.close()
            self.clock.close()

    def told(self, violations):
        grown = []
        print(f"\n| | {' | '.join(f'week {w + 1}' for w in range(WEEKS))} | |\n|---{'|--:' * WEEKS}|---|")
        for (name, unit), values in self.seen.items():
            weeks = [max(values[w * WEEK : (w + 1) * WEEK]) for w in range(WEEKS)]
            flat = is_flat(weeks[1:], unit)
            if name in KEPT:
                print(f"| {name}{', ' + unit if unit else ''} | {' | '.join(f'{w:,}' for w in weeks)} | {KEPT[name]} |")
                continue
            grown += [] if flat else [name]
            print(
                f"| {name}{', ' + unit if unit else ''} | {' | '.join(f'{w:,}' for w in weeks)} | "
                f"{'flat' if flat else 'GROWS'} |"
            )
        if grown:
            for name, kb in self.largest:
                print(f"largest: {name} {kb:,} kB")
        for violation in violations:
            print(violation)
        print(
            f"\n{self.starts * WEEK * WEEKS} starts, {self.starts * WEEK * WEEKS * 18} jobs; "
            + (f"GROWS: {', '.join(grown)}" if grown else "nothing grows"),
            flush=True,
        )
        return 1 if grown or violations else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--starts", type=int, default=560)
    parser.add_argument("--keep", default="5d")
    args = parser.parse_args()
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        signal.signal(number, lambda *_, status=status: sys.exit(status))
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        cwd=pg.TOP,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    print(f"seed {args.seed}, commit {commit.stdout.strip() or 'unknown'}: greatest sizes by week", flush=True)
    root = os.environ["DEFERRED_TEST_ROOT"] = pg.make_root("deferred-growth.")
    try:
        return Weeks(random.Random(args.seed), args.starts, args.keep).run()
    finally:
        del os.environ["DEFERRED_TEST_ROOT"]
        pg.sweep(root)


if __name__ == "__main__":
    sys.exit(main())
