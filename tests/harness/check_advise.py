"""What `make check-advise` does: 20 workloads, four at a time, each advised, followed by the real
check_deferred and measured; then one table of all, and one line.

    check_advise.py [--seed N] [--workloads N]     exit status 1 if one is further off than 20 %, or
    has no result; seeds from N on (0)

A workload is one of tests/bin/test_advise.py: its test prints what came of it.
"""

import argparse
import os
import re
import subprocess
import sys
import threading

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
AT_ONCE = 4
SAID = re.compile(
    r"seed (\d+): (\d+) s, (\S+) x (\S+), cnt (\S+); 1:\d+; (\d+) jobs: promised ([\d.]+) s, bound ([\d.]+) s, "
    r"measured ([\d.]+) s \(([-+]\d+)%\); .*"
    r"for which the promise is ([\d.]+) s \(([-+]\d+)%\)"
)


class Result:
    def __init__(self, match=None):
        if match:
            self.interval, self.lines, self.runners, self.cnt, self.jobs = match.group(2, 3, 4, 5, 6)
            self.promised, self.bound, self.measured, _, self.then, _ = (
                float(g) for g in match.group(7, 8, 9, 10, 11, 12)
            )
            self.off = self.measured / self.then - 1


def follow(seeds, results, why):
    """The workloads of these seeds, one after the other; lines are passed on as they come."""
    test = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-s",
            "-p",
            "no:cacheprovider",
            "tests/bin/test_advise.py",
            "-k",
            "comes_true",
        ],
        cwd=TOP,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "DEFERRED_ADVISE": ",".join(map(str, seeds))},
    )
    rest = []
    for line in test.stdout:
        match = SAID.search(line)
        if match:
            results[int(match.group(1))] = Result(match)
            print(match.group(0), flush=True)
        else:
            rest.append(line)
    if test.wait() != 0:
        why.append("".join(rest))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workloads", type=int, default=20)
    args = parser.parse_args()
    seeds = range(args.seed, args.seed + args.workloads)
    print(f"seeds {seeds[0]} to {seeds[-1]}: SEED={args.seed} for the same ones again", flush=True)
    results, why = {}, []
    threads = [
        threading.Thread(target=follow, args=(seeds[i::AT_ONCE], results, why)) for i in range(min(AT_ONCE, len(seeds)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    far = [s for s in seeds if s in results and abs(results[s].off) >= 0.2]
    none = [s for s in seeds if s not in results]
    over = [s for s in seeds if s in results and results[s].measured > results[s].bound]
    if none:
        print("\n".join(why))
    print(
        f"\n{'SEED':>6} {'EVERY':>6} {'LINES':>9} {'CNT':>6} {'JOBS':>5} {'PROMISED':>9} {'BOUND':>7} {'MEASURED':>9} "
        f"{'OFF':>6}"
    )
    for s in seeds:
        if s in results:
            r = results[s]
            print(
                f"{s:>6} {r.interval + ' s' if r.interval != '0' else 'service':>6} {r.lines + ' x ' + r.runners:>9} "
                f"{r.cnt:>6} {r.jobs:>5} {r.then:>9.1f} {r.bound:>7.1f} "
                f"{r.measured:>9.1f} "
                f"{r.off:>+6.0%}{'  too far' if s in far else ''}{'  above its bound' if s in over else ''}"
            )
        else:
            print(f"{s:>6} no result")
    offs = sorted(abs(r.off) for r in results.values())
    print(
        f"\n{len(seeds) - len(far) - len(none)} of {len(seeds)} workloads waited as was promised, within 20 %"
        + (f"; half of them within {offs[len(offs) // 2]:.0%}, the furthest {offs[-1]:.0%}" if offs else "")
        + f"; {len(over)} above the bound"
        + (f"; too far: seed {', '.join(map(str, far))}" if far else "")
        + (f"; no result: seed {', '.join(map(str, none))}" if none else "")
    )
    return 1 if far or none else 0


sys.exit(main())
