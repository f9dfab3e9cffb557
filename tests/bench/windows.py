"""Measures an activity in windows of one run, on and off in turns. The speed of a machine differs
more between runs than between moments. Two windows are a pair: off, on; then on, off; then off, off.
Two pairs cancel a trend of the run. The third pair shows how much the machine varies by itself.
A smaller effect cannot be measured."""

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
