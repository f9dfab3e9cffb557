"""What a run leaves: progress lines, a table on the terminal, build/bench/NAME.json, charts beside it.

A figure may be compared with another (its ratio) and have an aim. `least` and `most` are limits of the
ratio; `value_least` and `value_most` limits of the figure itself.
"""

import contextlib
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time

WIDTH = 66


def machine(folder):
    """What the figures depend on, apart from the server's settings."""

    def first(path, word):
        with open(path) as f:
            return next((line.split(":", 1)[1].strip() for line in f if line.startswith(word)), "unknown")

    disk = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True).stdout.strip()
    return {
        "cores": os.cpu_count(),
        "cpu": first("/proc/cpuinfo", "model name"),
        "memory_gib": round(int(first("/proc/meminfo", "MemTotal").split()[0]) / 2**20, 1),
        "kernel": platform.release(),
        "disk": disk,
        "fsync_us": fsync_us(folder),
    }


def fsync_us(folder):
    """Median time of an 8 KiB write made durable: what a commit waits for."""
    path, times = os.path.join(folder, "fsync"), []
    with open(path, "wb", buffering=0) as f:
        for _ in range(50):
            f.seek(0)
            f.write(bytes(8192))
            start = time.monotonic()
            os.fdatasync(f.fileno())
            times.append(time.monotonic() - start)
    os.unlink(path)
    return round(statistics.median(times) * 1e6)


class Report:
    """Figures of one scenario."""

    began = time.monotonic()

    def __init__(self, name, title, folder, about):
        self.name, self.title, self.folder, self.about = name, title, folder, about
        self.rows, self.facts, self.charts = [], {}, []
        with contextlib.suppress(FileNotFoundError):  # a run that fails is not to leave the figures of another
            os.unlink(self.path)

    @property
    def path(self):
        return os.path.join(self.folder, self.name + ".json")

    @property
    def note(self):
        """Small print of a chart."""
        m = self.about["machine"]
        quick = "trial with small sizes; " if self.about["quick"] else ""
        return (
            f"{quick}{self.about['date'][:10]}, {m['cores']} cores, PostgreSQL "
            f"{self.about['postgresql'].split()[0]} on the same machine"
        )

    @staticmethod
    def say(text):
        """A progress line."""
        print(f"[{time.monotonic() - Report.began:7.1f} s] {text}", file=sys.stderr, flush=True)

    def row(self, name, value, unit="", base=None, least=None, most=None, value_least=None, value_most=None):
        ratio = value / base if base else None
        reached = None
        for limit, got, sign in (
            (least, ratio, 1),
            (most, ratio, -1),
            (value_least, value, 1),
            (value_most, value, -1),
        ):
            if limit is not None:
                reached = (reached is not False) and got is not None and sign * got >= sign * limit
        aim = [
            f"{word} {limit:,}{suffix}"
            for limit, word, suffix in (
                (least, ">=", ""),
                (most, "<=", ""),
                (value_least, ">=", " " + unit),
                (value_most, "<=", " " + unit),
            )
            if limit is not None
        ]
        self.rows.append(
            {
                "name": name,
                "value": round(value, 3),
                "unit": unit,
                "ratio": None if ratio is None else round(ratio, 3),
                "aim": " and ".join(a.strip() for a in aim) or None,
                "reached": reached,
            }
        )
        return ratio

    def fact(self, name, value):
        """Raw figures, for the JSON file only."""
        self.facts[name] = value

    def chart(self, draw, suffix, *args, **kw):
        path = os.path.join(self.folder, f"{self.name}{'-' + suffix if suffix else ''}.svg")
        draw(path, *args, note=self.note, **kw)
        self.charts.append(os.path.basename(path))

    def finish(self, seconds):
        """Print the table, write the JSON file."""
        print(f"\n{self.title:<{WIDTH + 2}}{'':>12} {'':<8}{'ratio':>7}  aim", flush=True)
        for r in self.rows:
            ratio = "" if r["ratio"] is None else f"{r['ratio']:.2f}"
            verdict = "" if r["aim"] is None else f"  {r['aim']}: {'reached' if r['reached'] else 'NOT REACHED'}"
            digits = 0 if abs(r["value"]) >= 100 else 2
            print(f"  {r['name']:<{WIDTH}}{r['value']:>12,.{digits}f} {r['unit']:<8}{ratio:>7}{verdict}")
        print(
            f"  {seconds:.0f} s; {', '.join([self.name + '.json'] + self.charts)} in {os.path.relpath(self.folder)}",
            flush=True,
        )
        with open(self.path + ".new", "w") as f:
            json.dump(
                {
                    "scenario": self.name,
                    "title": self.title,
                    **self.about,
                    "seconds": round(seconds, 1),
                    "figures": self.rows,
                    "charts": self.charts,
                    **self.facts,
                },
                f,
                indent=1,
            )
            f.write("\n")
        os.rename(self.path + ".new", self.path)


def about(quick, postgresql, settings, folder, rounds):
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "quick": quick,
        "rounds": rounds,
        "postgresql": postgresql,
        "settings": settings,
        "machine": machine(folder),
    }


def head(about):
    """What stands above the tables."""
    m = about["machine"]
    return (
        f"{about['date']}{'  (a trial with small sizes: the figures say nothing)' if about['quick'] else ''}\n"
        f"{m['cores']} cores ({m['cpu']}), {m['memory_gib']} GiB, Linux {m['kernel']}, data on {m['disk']}, a durable "
        f"write takes "
        f"{m['fsync_us']} us\nPostgreSQL {about['postgresql']} on the same cores: "
        + ", ".join(f"{k} = {v}" for k, v in about["settings"].items())
        + f"\nmedians of {about['rounds']} round(s) in turns"
    )
