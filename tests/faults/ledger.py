"""`make ledger`: what holds when everything dies, counted. Two campaigns (storm.py), with workers
as cron starts them and as services, then the scenarios that chaos suites of queues use
(scenarios.py), one fault each. All of it comes from one seed, which is printed; what was lost,
accepted twice, at work twice at once, left over or stuck makes the exit status 1.

    ledger.py [--seed N] [--jobs N] [--kills N] [--only NAME]... [--lines FILE] [--table FILE] [--sql FILE]
              [--server FOLDER]

--only        of "cron", "service" and the scenarios those whose name contains one of these
--lines FILE  a line of JSON for each job of the campaigns is added to it
--table FILE  the result as Markdown
--sql FILE    is run in each database first: what a broken program would do, for a test that this one notices
--server      folder of another PostgreSQL server: see use_server() in pg.py
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "harness")]

import harness  # noqa: E402
import pg  # noqa: E402

SHOWN = ("jobs", "lost", "never run", "accepted twice", "overlapping", "stuck", "run twice", "begun", "dead")


def seconds(value):
    return "-" if value is None else f"{value:.2f}"


def table(head, rows):
    return "\n".join(
        ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
        + ["| " + " | ".join(map(str, r)) + " |" for r in rows]
    )


class Ledger:
    def __init__(self, args):
        self.args, self.wrong, self.parts = args, [], []
        self.sql = open(args.sql).read() if args.sql else None

    def say(self, text):
        print(text, flush=True)

    def wanted(self, name):
        return not self.args.only or any(word in name for word in self.args.only)

    def campaign(self, mode):
        from storm import Storm, sentence

        db = harness.OwnServer(settings={"max_connections": "200", "shared_buffers": "128MB"})
        try:
            storm = Storm(
                db, random.Random(f"{self.args.seed} {mode}"), mode, self.args.jobs // 2, self.args.kills // 2, self.say
            )
            verdict = storm.run(self.sql)
        finally:
            db.close()
        if self.args.lines:
            verdict.write_lines(self.args.lines, mode=mode, seed=self.args.seed)
        kinds = sorted(k for k in verdict.counts if k != "all") + ["all"]
        for kind in kinds:
            self.say(f"{mode} {sentence(kind, verdict.counts[kind], verdict.wait_of(kind))}")
        recovered = sorted(storm.recovered.items())
        for fault, of in recovered:
            times = sorted(of)
            self.say(
                f"{mode} {fault}: {sum(f[0] == fault for f in storm.faults)} times"
                + (f", recovered after p50 {times[len(times) // 2]:.2f} s, max {times[-1]:.2f} s" if times else "")
            )
        total = verdict.counts["all"]
        self.say(
            f"{mode}: {total['jobs']} jobs and {len(storm.faults)} faults in {storm.seconds:.0f} s, "
            f"{storm.journal.unknown} transactions unanswered; "
            f"lost {total['lost']}, never run {total['never run']}, accepted twice {total['accepted twice']}, "
            f"overlapping {total['overlapping']}, "
            f"orphans {total['orphans']}, stuck {total['stuck']}, contradictions {total['contradictions']}"
        )
        self.say(f"{mode}: refused with a named error: {dict(storm.named)}")
        for violation in verdict.violations:
            self.say(f"{mode}: {violation}")
        if verdict.wrong():
            self.wrong.append(mode)
        self.parts += [
            f"## Campaign: {mode}\n\n{total['jobs']} jobs, {len(storm.faults)} faults, {storm.seconds:.0f} s; "
            f"{storm.journal.unknown} transactions of producers got no answer. "
            f"Orphans {total['orphans']}, contradictions between the tables {total['contradictions']}.\n",
            table(
                ["kind", *SHOWN, "waited p50 s", "p99", "max"],
                [
                    [kind, *(verdict.counts[kind][what] for what in SHOWN), *map(seconds, verdict.wait_of(kind))]
                    for kind in kinds
                ],
            )
            + "\n",
            table(
                ["fault", "times", "recovered after p50 s", "max"],
                [
                    [
                        fault,
                        sum(f[0] == fault for f in storm.faults),
                        seconds(sorted(of)[len(of) // 2] if of else None),
                        seconds(max(of, default=None)),
                    ]
                    for fault, of in recovered
                ],
            )
            + "\n",
        ]

    def scenarios(self):
        import scenarios

        rows = []
        for name, what in scenarios.ALL.items():
            if not self.wanted(name):
                continue
            try:
                result = scenarios.play(what, random.Random(f"{self.args.seed} {name}"), self.sql)
            except Exception:  # one that breaks off does not take the others with it, but it is no success
                traceback.print_exc()
                self.wrong.append(name)
                self.say(f"{name}: broken off")
                continue
            self.say(
                f"{name}: {result.jobs} jobs, lost {result.lost}, run twice {result.twice}, recovered after "
                f"{seconds(result.recovered)} s, "
                f"longest pause {seconds(result.pause)} s; said: {result.said}"
            )
            for line in result.wrong:
                self.say(f"{name}: WRONG: {line}")
            if result.wrong:
                self.wrong.append(name)
            rows.append(
                [
                    name,
                    result.jobs,
                    result.lost,
                    result.twice,
                    seconds(result.recovered),
                    seconds(result.pause),
                    result.said.replace("|", "\\|"),
                ]
            )
        if rows:
            self.parts += [
                "## One fault each\n",
                table(
                    [
                        "fault",
                        "jobs",
                        "lost",
                        "run twice",
                        "recovered after s",
                        "longest pause s",
                        "what the operator saw",
                    ],
                    rows,
                )
                + "\n",
            ]

    def write(self, path, took):
        commit = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=pg.TOP,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        head = (
            f"# Ledger\n\nWritten by `make ledger SEED={self.args.seed} LEDGER_JOBS={self.args.jobs} "
            f"LEDGER_KILLS={self.args.kills}` at commit "
            f"{commit.stdout.strip() or 'unknown'}, {took:.0f} s, {len(os.sched_getaffinity(0))} processors. "
            "Lost: acknowledged, and neither waiting nor ended. Never run: accepted though no function says that it "
            "ran. Accepted twice: two final results. Overlapping: of one job, or of one "
            "concurrency key, two that were at work at once. Stuck: waiting after the end of all that disturbs. Run "
            "twice: came to its end more often than is recorded, which "
            "at least once allows. Waited: from when a job was due to the start of its first attempt.\n\n"
            + (f"**Wrong: {', '.join(self.wrong)}**\n\n" if self.wrong else "")
        )
        with open(path, "w") as f:
            f.write(head + "\n".join(self.parts))

    def run(self):
        began = time.monotonic()
        for mode in "cron", "service":
            if self.wanted(mode):
                self.campaign(mode)
        self.scenarios()
        if self.args.table:
            self.write(self.args.table, time.monotonic() - began)
        self.say(
            f"{time.monotonic() - began:.0f} s, seed {self.args.seed}: "
            + (f"WRONG: {', '.join(self.wrong)}" if self.wrong else "nothing lost, nothing accepted twice")
        )
        return 1 if self.wrong or not self.parts else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--jobs", type=int, default=6000)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--only", action="append")
    parser.add_argument("--lines")
    parser.add_argument("--table")
    parser.add_argument("--sql")
    parser.add_argument("--server")
    args = parser.parse_args()
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        signal.signal(number, lambda *_, status=status: sys.exit(status))  # so that it still comes to the sweep
    print(
        f"seed {args.seed}: repeat with `make ledger SEED={args.seed} LEDGER_JOBS={args.jobs} "
        f"LEDGER_KILLS={args.kills}`",
        flush=True,
    )
    root = os.environ["DEFERRED_TEST_ROOT"] = pg.make_root("deferred-ledger.")
    try:
        if args.server:
            pg.use_server(args.server, root)
        return Ledger(args).run()
    finally:
        del os.environ["DEFERRED_TEST_ROOT"]
        pg.sweep(root)


if __name__ == "__main__":
    sys.exit(main())
