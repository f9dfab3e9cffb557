"""Memory of a run, over time: it is to be small, and no larger in the end than in the beginning.

Measured are, for check_deferred and its runner: Pss (what is its own, plus its share of what several
processes map, such as libc: so it also moves when others start or end); anonymous pages (heap, stack and
what was written to: those alone tell whether it grows); and the peak of its resident pages (VmHWM, which
counts all that is shared in full, in each process).
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


def readable(pid):
    """check_deferred holds secrets and so is closed to all but root: others see its resident pages,
    shared ones in full."""
    try:
        field(pid, "smaps_rollup", "Pss:")
        return ("smaps_rollup", "Pss:", "Anonymous:"), "Pss"
    except PermissionError:
        return ("status", "VmRSS:", "RssAnon:"), "VmRSS; root sees Pss"


def watch(started, every_s):
    """Samples until it ends: (seconds, KiB of check_deferred, of its runners, anonymous of all);
    peaks by process; what was measured."""
    begin, samples, peaks, what = time.monotonic(), [], {}, None
    while started.process.poll() is None:
        pids = [started.pid] + pg.children_of(started.pid)
        if len(pids) > 1:
            # A runner that has just been forked is still a copy of its parent; the next sample sees its own program.
            (name, size_word, own_word), what = readable(started.pid)
            size, own = ([field(p, name, word) for p in pids] for word in (size_word, own_word))
            if None not in size + own:
                samples.append((time.monotonic() - begin, size[0], sum(size[1:]), sum(own)))
                for p in pids:
                    peaks[p] = max(peaks.get(p, 0), field(p, "status", "VmHWM:") or 0)
        time.sleep(every_s)
    return samples, peaks, what


def run(b):
    jobs = b.size(1000000, 20000)
    with b.database() as db:
        db.fill(jobs)
        db.settle()
        started = db.start(cnt=0, batch=b.best["batch"])
        try:
            samples, peaks, what = watch(started, 0.01 if b.quick else EVERY_S)
        finally:
            started.stop()
        started.check()
        db.expect(jobs, 0)
    if len(samples) < 8:
        raise Failed(f"only {len(samples)} samples could be taken: take more jobs")
    runners = [p for p in peaks if p != started.pid]
    both = [p + c for _, p, c, _ in samples]
    quarter = len(samples) // 4
    # Not the first quarter, in which the heaps are set up.
    early, late = (max(s[3] for s in part) for part in (samples[quarter : 2 * quarter], samples[-quarter:]))
    r = b.report
    r.row(f"peak of both together, {what}", max(both) / 1024, "MiB", value_most=16)
    r.row("  check_deferred", max(s[1] for s in samples) / 1024, "MiB")
    r.row(f"  runner ({len(runners)})", max(s[2] for s in samples) / 1024, "MiB")
    r.row("anonymous pages, last quarter of the run against the second", late / 1024, "MiB", early / 1024, most=1.1)
    r.row("peak of resident pages, check_deferred, VmHWM", peaks[started.pid] / 1024, "MiB")
    r.row("peak of resident pages, runner, VmHWM", max(peaks[p] for p in runners) / 1024, "MiB")
    r.fact("measured", what)
    r.fact(
        "samples",
        [
            {"seconds": round(t, 2), "check_deferred_kib": p, "runner_kib": c, "anonymous_kib": a}
            for t, p, c, a in samples
        ],
    )
    r.chart(
        svg.lines,
        "",
        f"Memory while {jobs:,} jobs are executed",
        "seconds",
        f"MiB ({what})",
        [
            ("check_deferred", [(s[0], s[1] / 1024) for s in samples]),
            ("runner", [(s[0], s[2] / 1024) for s in samples]),
            ("of both, anonymous", [(s[0], s[3] / 1024) for s in samples], "dashed"),
        ],
        dots=False,
    )
