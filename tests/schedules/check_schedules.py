"""The whole of what tests/sql/test_cron.py takes samples of: 200 time zones over 30 years, each
change of their clocks, against a clock that is watched minute by minute; and rules against what
croniter and systemd say, where these two agree. `make check-schedules`.

    check_schedules.py [--seed N] [--zones N] [--first YEAR] [--last YEAR] [--rules N] [--others N]
"""

import argparse
import datetime
import os
import random
import re
import signal
import subprocess
import sys
import time
import zoneinfo

sys.dont_write_bytecode = True
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TESTS, "harness"), os.path.join(TESTS, "sql")]

import cron_reference  # noqa: E402
import harness  # noqa: E402
import pg  # noqa: E402

UTC = datetime.timezone.utc
PLACES = ("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")


def zone_names(r, db, n):
    known = {name for name, in db.sql("select name from pg_timezone_names")}
    names = sorted(name for name in zoneinfo.available_timezones() & known if name.split("/")[0] in PLACES)
    return r.sample(names, min(n, len(names)))


def check_watched(db, args):
    zones, cases, ticks, wrong, begun = zone_names(random.Random(args.seed), db, args.zones), 0, 0, [], time.time()
    for n, zone in enumerate(zones):
        for case in cron_reference.cases(args.seed + n, [zone], args.first, args.last, args.rules):
            cases += 1
            ticks += sum(map(len, case.expected))
            wrong += case.differs(db)
        if n % 20 == 19:
            print(
                f"{n + 1} zones, {cases} spans of days, {ticks} ticks, {len(wrong)} differ, {time.time() - begun:.0f} "
                f"s",
                flush=True,
            )
    print(
        f"watched clocks: {len(zones)} zones, {args.first} to {args.last}: {cases} spans of 3 days, "
        f"{cases * args.rules} rules, {ticks} ticks, {len(wrong)} rules differ"
    )
    return wrong


def on_calendar(rule, zone):
    """The rule as systemd has it; of day and weekday one is *."""

    def words(field, low, high, names=()):
        found = sorted(cron_reference.numbers(field, low, high, names))
        return "*" if field == "*" else ",".join(f"{n:02}" for n in found)

    minute, hour, day, month, weekday = rule.split()
    days = (
        ""
        if weekday == "*"
        else ",".join(
            sorted(
                {cron_reference.DAYS[n % 7].title() for n in cron_reference.numbers(weekday, 0, 7, cron_reference.DAYS)}
            )
        )
        + " "
    )
    return (
        f"{days}*-{words(month, 1, 12, cron_reference.MONTHS)}-{words(day, 1, 31)} "
        f"{words(hour, 0, 23)}:{words(minute, 0, 59)}:00 {zone}"
    )


def by_systemd(rule, zone, base, n):
    done = subprocess.run(
        [
            "systemd-analyze",
            "calendar",
            f"--iterations={n}",
            f"--base-time={base:%Y-%m-%d %H:%M:%S} UTC",
            on_calendar(rule, zone),
        ],
        env={**os.environ, "TZ": "UTC", "LC_ALL": "C"},
        capture_output=True,
        text=True,
    )
    times = re.findall(r"(?m)(?:Next elapse|Iter\. #\d+): \w+ (\S+ \S+) UTC", done.stdout)
    return [datetime.datetime.fromisoformat(t).replace(tzinfo=UTC) for t in times]


def by_croniter(rule, zone, base, n):
    """croniter has rules that it does not come back from."""
    import croniter

    def stop(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(5)
    try:
        it = croniter.croniter(rule, base.astimezone(zoneinfo.ZoneInfo(zone)))
        return [it.get_next(datetime.datetime).astimezone(UTC) for _ in range(n)]
    except (TimeoutError, croniter.CroniterError):
        return None
    finally:
        signal.alarm(0)


def put_forward(rule, zone, t):
    """A tick of a time that the clocks of that moment skipped. We let it come when they have been
    put forward, as Debian's cron does and as the watched clocks hold us to; croniter and systemd leave it out."""
    before, after = (
        (t + d).astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None)
        for d in (-cron_reference.MINUTE, cron_reference.MINUTE * 0)
    )
    rule = cron_reference.Rule(rule)
    return rule.fixed and after - before > cron_reference.MINUTE and not rule.matches(after)


def check_others(db, args):
    r, agreed, asked, skipped, wrong = random.Random(args.seed), 0, 0, 0, []
    zones = zone_names(r, db, 1000)
    while asked < args.others:
        rule, zone = cron_reference.random_rule(r), r.choice(zones)
        fields = rule.split()
        if "L" in rule.upper().replace("JUL", "") or "#" in rule or (fields[2] != "*" and fields[4] != "*"):
            continue
        asked += 1
        base = datetime.datetime(2001, 1, 1, tzinfo=UTC) + datetime.timedelta(minutes=r.randrange(30 * 525600))
        theirs, others = by_systemd(rule, zone, base, 5), by_croniter(rule, zone, base, 5)
        if theirs != others or len(theirs) != 5:
            continue
        agreed += 1
        ours = [t for t, in db.sql("select tick from deferred.schedule_next(%s, 10, %s, %s)", rule, zone, base)]
        shown = [t for t in ours if not put_forward(rule, zone, t)]
        skipped += shown[:5] == theirs != ours[:5]
        if shown[:5] != theirs:
            wrong.append(
                f"{rule!r} in {zone} from {base}: {[str(t) for t in ours]}, croniter and systemd say "
                f"{[str(t) for t in theirs]}"
            )
    print(
        f"croniter and systemd: {asked} rules, they agree on {agreed}, of these {len(wrong)} differ, beside {skipped} "
        f"whose time was skipped"
    )
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name, default in (
        ("seed", random.randrange(1 << 32)),
        ("zones", 200),
        ("first", 2001),
        ("last", 2030),
        ("rules", 3),
        ("others", 1000),
    ):
        parser.add_argument("--" + name, type=int, default=default)
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    root = pg.make_root("deferred-schedules.")
    os.environ["DEFERRED_TEST_ROOT"] = root
    try:
        db = harness.OwnServer()
        db.sql("set timezone to 'UTC'")
        wrong = check_others(db, args) + check_watched(db, args)
        db.close()
    finally:
        pg.sweep(root)
    print("\n".join(wrong[:20]), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
