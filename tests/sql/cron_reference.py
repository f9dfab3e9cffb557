"""The meaning of a rule, computed in another way than in sql/functions/schedule/__cron_next.sql: a clock is watched
minute by minute.

A rule is read here too, by its own few lines. zoneinfo knows the zones, which are those of the
server where both use the system's.
"""

import calendar
import datetime
import functools
import random
import zoneinfo

MINUTE = datetime.timedelta(minutes=1)
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]


def numbers(field, low, high, names=()):
    found = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        if span == "*":
            first, last = low, high
        else:
            ends = [names.index(e.upper()) + low if e.upper() in names else int(e) for e in span.split("-")]
            first, last = ends[0], ends[-1]
        found |= set(range(first, last + 1, int(step or 1)))
    return found


class Rule:
    def __init__(self, text):
        minute, hour, day, month, weekday = text.split()
        self.minutes, self.hours = numbers(minute, 0, 59), numbers(hour, 0, 23)
        self.months = numbers(month, 1, 12, MONTHS)
        plain = [d for d in day.split(",") if d != "L"]
        self.days, self.last = numbers(",".join(plain), 1, 31) if plain else set(), "L" in day.split(",")
        self.nth = {(DAYS.index(d[:3]), d[4]) for d in weekday.split(",") if "#" in d}
        plain = [d for d in weekday.split(",") if "#" not in d]
        self.weekdays = (
            {d % 7 for d in numbers(",".join(plain), 0, 6 if plain[0].startswith("*") else 7, DAYS)} if plain else set()
        )
        self.both = day.startswith("*") or weekday.startswith("*")
        self.fixed = not minute.startswith("*") and not hour.startswith("*")
        self.known = {}

    def day_matches(self, date):
        if date not in self.known:
            length, weekday = calendar.monthrange(date.year, date.month)[1], date.isoweekday() % 7
            by_day = date.day in self.days or (self.last and date.day == length)
            by_weekday = (
                weekday in self.weekdays
                or (weekday, str((date.day - 1) // 7 + 1)) in self.nth
                or (weekday, "L") in self.nth
                and date.day + 7 > length
            )
            self.known[date] = date.month in self.months and (
                by_day and by_weekday if self.both else by_day or by_weekday
            )
        return self.known[date]

    def matches(self, local):
        return local.minute in self.minutes and local.hour in self.hours and self.day_matches(local.date())


def watch(zone, start, minutes):
    """What the clocks of a zone show, minute by minute from a moment on, as (moment, local time)."""
    return [(t, t.astimezone(zone).replace(tzinfo=None)) for t in (start + n * MINUTE for n in range(minutes))]


def ticks(rule, shown, skip):
    """The ticks of a rule among the minutes watched, of which the first are there only to know what
    the clocks have shown before."""
    found, highest = [], shown[0][1]
    for n, (moment, local) in enumerate(shown):
        if not rule.fixed:
            hit = rule.matches(local)
        else:
            hit, passed = False, local
            while passed > highest:
                hit = hit or rule.matches(passed)
                passed -= MINUTE
            highest = max(highest, local)
        if hit and n >= skip:
            found.append(moment)
    return found


def changes(zone, start, end):
    """The days in which the clocks of a zone are set."""
    found, day = [], start
    while day < end:
        if day.astimezone(zone).utcoffset() != (day + datetime.timedelta(days=1)).astimezone(zone).utcoffset():
            found.append(day)
        day += datetime.timedelta(days=1)
    return found


def random_rule(r):
    def some(low, high, names=()):
        def word(n):
            return (
                r.choice([names[n - low].lower(), names[n - low]])
                if n - low < len(names) and r.random() < 0.3
                else str(n)
            )

        kind, a, b = r.random(), *sorted(r.sample(range(low, high + 1), 2))
        if kind < 0.5:
            return ",".join(word(r.randint(low, high)) for _ in range(r.randint(1, 3)))
        if kind < 0.75:
            return f"{word(a)}-{word(b)}" + (f"/{r.randint(1, high // 2)}" if r.random() < 0.4 else "")
        return f"*/{r.randint(1, high)}" if kind < 0.85 else "*"

    minute = r.choice([str(r.randint(0, 59)), "0", "30", "*/15", "*", some(0, 59)])
    hour = r.choice([str(r.randint(0, 4)), "2", "1-3", "*", "*/2", some(0, 23)])
    day = r.choice(["*", "*", "*", "L", some(1, 31), f"L,{r.randint(1, 28)}"])
    weekday = r.choice(["*", "*", "*", some(0, 7), some(0, 6, DAYS), f"{r.choice(DAYS)}#{r.choice('12345L')}"])
    month = r.choice(["*", "*", "*", some(1, 12, MONTHS)])
    return " ".join((minute, hour, day, month, weekday))


class Case:
    """Some rules in one zone over some days, near a change of its clocks if it has any."""

    LEAD = 3 * 1440

    def __init__(self, name, start, days, rules):
        self.zone, self.start, self.end, self.rules = name, start, start + datetime.timedelta(days=days), rules
        self.days = days

    @functools.cached_property
    def expected(self):
        shown = watch(zoneinfo.ZoneInfo(self.zone), self.start - Case.LEAD * MINUTE, Case.LEAD + 1440 * self.days)
        return [ticks(Rule(text), shown, Case.LEAD + 1) for text in self.rules]

    def answered(self, db):
        """What the server says: each tick asked for by the one before."""
        rows = db.sql(
            """
            with recursive rule as (
                select n, deferred.__cron_parse(text) as cron from unnest(%s::text[]) with ordinality as r(text, n)),
            tick as (
                select n, cron, %s::timestamptz as t from rule
                union all
                select n, cron, deferred.__cron_next(cron, %s, t) from tick where t < %s)
            select n, t from tick where t > %s and t < %s order by n, t""",
            self.rules,
            self.start,
            self.zone,
            self.end,
            self.start,
            self.end,
        )
        return [[t for n, t in rows if n == i + 1] for i in range(len(self.rules))]

    def differs(self, db):
        for text, expected, answered in zip(self.rules, self.expected, self.answered(db)):
            if expected != answered:
                odd = sorted(set(expected) ^ set(answered))[:3]
                yield f"{text!r} in {self.zone}, first difference at {[str(t) for t in odd]}, "
                f"{'wanted' if odd[0] in expected else 'not wanted'}"


def cases(seed, zones, first, last, rules, days=3, most=None):
    """Of each zone: a few days around changes of its clocks, all of them or some, and a few anywhere."""
    r = random.Random(seed)
    for name in zones:
        start, end = (datetime.datetime(y, 1, 1, tzinfo=datetime.timezone.utc) for y in (first, last + 1))
        days_of_change = changes(zoneinfo.ZoneInfo(name), start, end)
        if most is not None:
            days_of_change = r.sample(days_of_change, min(most, len(days_of_change)))
        anywhere = start + datetime.timedelta(days=r.randrange((end - start).days))
        for day in [anywhere, *days_of_change]:
            begin = day - datetime.timedelta(days=1, minutes=r.randrange(1440))
            yield Case(name, begin, days, [random_rule(r) for _ in range(rules)])
