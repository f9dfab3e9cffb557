"""Memory of a run, over time: it is to be small, and no larger in the end than in the beginning.

Measured are, for check_deferred and its runner: Pss (what is its own, plus its share of what several
processes map, such as libc) and the peak of its resident pages (VmHWM, which counts all that is shared
in full, in each process).
"""

import time

import pg
import svg
from stage import Failed

TITLE = "Memory of a run"
EVERY_S = 0.1


def field(pid, name, word):
    """KiB of a line of /proc/PID/NAME; None once the process has ended."""
    try:
        with open(f"/proc/{pid}/{name}") as f:
            return next((int(line.split()[1]) for line in f if line.startswith(word)), None)
    except (FileNotFoundError, ProcessLookupError):
        return None


def run(b):
    jobs = b.size(1000000, 20000)
    with b.database() as db:
        db.fill(jobs)
        db.settle()
        started = db.start(cnt=0, batch=b.best["batch"])
        begin, samples, peaks = time.monotonic(), [], {}
        while started.process.poll() is None:
            children = pg.children_of(started.pid)
            pss = [field(p, "smaps_rollup", "Pss:") for p in [started.pid] + children]
            # A runner that has just been forked still is a copy of its parent: it counts once it is a program of its own.
            if children and None not in pss:
                samples.append((time.monotonic() - begin, pss[0], sum(pss[1:])))
                for p in [started.pid] + children:
                    peaks[p] = max(peaks.get(p, 0), field(p, "status", "VmHWM:") or 0)
            time.sleep(0.01 if b.quick else EVERY_S)
        started.wait()
        started.check()
        db.expect(jobs, 0)
    if len(samples) < 5:
        raise Failed(f"only {len(samples)} samples could be taken: take more jobs")
    runners = [p for p in peaks if p != started.pid]
    both = [p + c for _, p, c in samples]
    quarter = max(len(both) // 4, 1)
    early, late = max(both[quarter:2 * quarter]), max(both[-quarter:])  # in the first one buffers and heap are set up
    r = b.report
    r.row("peak of both together, Pss", max(both) / 1024, "MiB", value_most=16)
    r.row("  check_deferred", max(p for _, p, _ in samples) / 1024, "MiB")
    r.row(f"  runner ({len(runners)})", max(c for _, _, c in samples) / 1024, "MiB")
    r.row("highest of the last quarter of the run, against the second", late / 1024, "MiB", early / 1024, most=1.1)
    r.row("peak of resident pages, check_deferred, VmHWM", peaks[started.pid] / 1024, "MiB")
    r.row("peak of resident pages, runner, VmHWM", max(peaks[p] for p in runners) / 1024, "MiB")
    r.fact("samples", [{"seconds": round(t, 2), "check_deferred_pss_kib": p, "runner_pss_kib": c} for t, p, c in samples])
    r.chart(svg.lines, "", f"Memory while {jobs:,} jobs are executed", "seconds", "MiB (Pss)",
            [("check_deferred", [(t, p / 1024) for t, p, _ in samples]), ("runner", [(t, c / 1024) for t, _, c in samples])], dots=False)
