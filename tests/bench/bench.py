"""`make bench`: what the project costs, as ratios to plain PostgreSQL measured in the same run.

    bench.py [--quick] [--scale F] [--jobs N] [--rows N] [--rounds N] [SCENARIO...]

A private server with durable settings is started for it, each scenario has databases of its own. Figures go
to the terminal and, with charts, to build/bench (build/bench/quick after a trial), with full sizes
also to RESULTS.md. Exit status 1 if a scenario failed: a run was wrong, lost or doubled a job, or
said something. An aim that is not reached is no failure. See tests/bench/README.md.
"""

import argparse
import importlib
import os
import signal
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import report  # noqa: E402
import results  # noqa: E402
import scenarios  # noqa: E402
from stage import SETTINGS, Failed, Stage, pg  # noqa: E402
from turns import in_turns  # noqa: E402


class Bench:
    """What a scenario is given: the stage, its report, sizes."""

    say = staticmethod(report.Report.say)

    def __init__(self, stage, args):
        self.stage, self.args, self.quick = stage, args, args.quick
        self.rounds = args.rounds or (1 if args.quick else 3)
        self.best = {"processes": args.processes, "batch": args.batch}  # execute puts in what it found best
        self.name = self.report = None

    def size(self, full, quick):
        """Jobs to be executed."""
        return self.args.jobs or max(int((quick if self.quick else full) * self.args.scale), 1000)

    def rows(self, full, quick):
        """Rows that lie there beside them."""
        return self.args.rows or max(int((quick if self.quick else full) * self.args.scale), 1000)

    def database(self, suffix=""):
        return self.stage.database(f"bench_{self.name}{'_' + suffix if suffix else ''}")

    def in_turns(self, ways, rounds=None):
        return in_turns(ways, rounds or self.rounds, self.say, self.report.facts.setdefault("rounds_of", []))


def run(bench, name, folder, about):
    """One scenario. Returns whether it was all right."""
    scenario = importlib.import_module("scenarios." + name)
    bench.name = name
    bench.report = report.Report(name, scenario.TITLE, folder, about)
    begin = time.monotonic()
    bench.say(f"{name}: {scenario.TITLE}")
    try:
        scenario.run(bench)
        bench.stage.check_log()
    except Failed as e:
        print(f"\n{scenario.TITLE}\n  FAILED: {e}", flush=True)
        return False
    except Exception:  # so that one that is broken does not cost the figures of the others
        traceback.print_exc()
        print(f"\n{scenario.TITLE}\n  FAILED", flush=True)
        return False
    bench.report.fact("best", dict(bench.best))
    bench.report.finish(time.monotonic() - begin)
    path = results_of(bench.args)
    if path:
        results.record(path, scenarios.NAMES, name, results.section(name, scenario.TITLE, about, bench.report.rows))
    return True


def results_of(args):
    """Where the tables go: small sizes are not to take the place of full ones, unless a file is named for them."""
    return args.results or (None if args.quick or args.jobs or args.scale < 1 else results.RESULTS)


def read_args():
    p = argparse.ArgumentParser(description="figures, as ratios to plain PostgreSQL measured in the same run")
    p.add_argument(
        "scenario", nargs="*", help=f"of {', '.join(scenarios.NAMES)}; none: all but {', '.join(scenarios.LONG)}"
    )
    p.add_argument(
        "--quick",
        action="store_true",
        default=os.environ.get("BENCH_QUICK", "") not in ("", "0"),
        help="small sizes, one round: shows that it works (BENCH_QUICK=1)",
    )
    p.add_argument("--scale", type=float, default=1.0, help="factor for all sizes")
    p.add_argument("--jobs", type=int, help="jobs to be executed, instead of what each scenario has")
    p.add_argument("--rows", type=int, help="rows of backlog or history, instead of what each scenario has")
    p.add_argument("--rounds", type=int, help="rounds (3; quick: 1)")
    p.add_argument(
        "--processes", type=int, default=2, help="copies of check_deferred where a scenario does not vary them (2)"
    )
    p.add_argument("--batch", type=int, default=500, help="batch where a scenario does not vary it (500)")
    p.add_argument(
        "--results",
        metavar="FILE",
        help="where the tables go (tests/bench/RESULTS.md; with --quick, --jobs or a --scale below 1 nowhere)",
    )
    args = p.parse_args()
    for name in args.scenario:
        if name not in scenarios.NAMES:
            p.error(f"there is no scenario '{name}'; there are {', '.join(scenarios.NAMES)}")
    for name in ("scale", "jobs", "rows", "rounds", "processes", "batch"):
        if getattr(args, name) is not None and getattr(args, name) <= 0:
            p.error(f"--{name} must be more than 0")
    return args, {k: p.get_default(k) for k in vars(args)}


def main():
    args, defaults = read_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit("bench: terminated"))  # so that the server is stopped
    names = args.scenario or [n for n in scenarios.NAMES if n not in scenarios.LONG]
    folder = os.path.join(pg.BUILD, "bench", *(["quick"] if args.quick else []))
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="deferred-bench.") as place:
        stage = Stage(place)
        try:
            stage.start()
            bench = Bench(stage, args)
            about = report.about(args.quick, stage.server_version(), SETTINGS, place, bench.rounds)
            about["asked"] = {
                k: v for k, v in vars(args).items() if k not in ("quick", "scenario", "results") and v != defaults[k]
            }
            print(report.head(about), flush=True)
            good = [name for name in names if run(bench, name, folder, about)]
        finally:
            stage.close()
    Bench.say("done")
    failed = [name for name in names if name not in good]
    if failed:
        sys.exit(f"bench: failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
