"""Measuring in turns: what is compared runs one after the other in each round, so that what disturbs the
machine disturbs both; the median of the rounds counts."""

import statistics


def in_turns(ways, rounds, say, kept):
    """ways: name -> function that measures and returns a figure. Each runs once a round, the rounds begin with
    different ones. Returns the medians by name, adds all figures to the list `kept`."""
    figures = {name: [] for name in ways}
    names = list(ways)
    for i in range(rounds):
        first = i % len(names)
        for name in names[first:] + names[:first]:
            figures[name].append(ways[name]())
            say(f"round {i + 1} of {rounds}, {name}: {figures[name][-1]:,.0f}")
    kept.append({str(name): values for name, values in figures.items()})
    return {name: statistics.median(values) for name, values in figures.items()}


def quantile(ordered, share):
    """The value below which that share of the ordered values lies."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
