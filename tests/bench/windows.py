"""Measuring in windows: something is done and left alone in turns while one run is under way, for a
machine changes its speed by more from run to run than from one moment to the next. Off, on; on,
off; off, off, ...: each two are a pair, and what grows or fades in the course of the run cancels
out over two pairs. In each third pair it is left alone all the time: how much these two differ is
what the machine does by itself, and less than that cannot be told."""

import statistics
import typing


class Window(typing.NamedTuple):
    """Times in seconds, since whenever."""

    on: bool
    begin: float
    end: float


def on(i):
    """Whether it is done in the i-th window."""
    return i % 6 in (1, 2)


def pairs(windows, first, last):
    """[(off, on)], [(off, off)]: numbers of windows in the run's order; of those pairs only in both
    of which it was under way all the time, from first to last."""
    whole = [w.begin >= first and w.end <= last for w in windows]
    both = [
        (i, i + 1) if not windows[i].on else (i + 1, i)
        for i in range(0, len(windows) - 1, 2)
        if whole[i] and whole[i + 1]
    ]
    return [p for p in both if windows[p[1]].on], [p for p in both if not windows[p[1]].on]


def quartiles(figures):
    """Lower quartile, median, upper quartile; of a single figure that."""
    return statistics.quantiles(figures, n=4, method="inclusive") if len(figures) > 1 else figures * 3
