"""Rules of schedules: when the next tick is, whatever clocks do. The whole of it, all zones and 40
years, is `make check-schedules`."""

import datetime
import random

import psycopg2
import pytest

import cron_reference

UTC = datetime.timezone.utc
# Gaps of half an hour and of a day, three hours at once, changes at midnight, changes twice in a spring.
ODD = """Europe/Berlin America/New_York Australia/Lord_Howe Pacific/Chatham America/St_Johns Antarctica/Troll
    Africa/Casablanca Pacific/Apia Asia/Tehran America/Sao_Paulo Asia/Pyongyang Antarctica/Casey
    Europe/Dublin Asia/Gaza America/Caracas Asia/Beirut""".split()


def test_ticks_are_those_of_a_clock_that_is_watched_minute_by_minute(db):
    db.sql("set timezone to 'America/Santiago'")  # whatever the client has
    seed = random.randrange(1 << 32)
    print("seed", seed)
    r = random.Random(seed)
    cases = [
        random_case
        for zone in r.sample(ODD, 5)
        for random_case in cron_reference.cases(r.random(), [zone], 2005, 2027, 3, days=2, most=2)
    ]
    assert [d for case in cases for d in case.differs(db)] == []


EXAMPLES = [
    # Debian's cron: what was skipped comes when the gap ends, once; what is repeated does not come again.
    ("Europe/Berlin", "30 2 * * *", "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-30 00:30"]),
    ("Europe/Berlin", "10,20,30 2 * * *", "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-30 00:10"]),
    ("Europe/Berlin", "30 2 * * *", "2026-10-24 12:00", ["2026-10-25 00:30", "2026-10-26 01:30"]),
    ("Europe/Berlin", "30 2 * * *", "2026-10-25 01:10", ["2026-10-26 01:30"]),  # the second 02:10
    # Real time: none in the gap, and both of the repeated hour.
    ("Europe/Berlin", "*/30 2 * * *", "2026-03-28 12:00", ["2026-03-30 00:00", "2026-03-30 00:30"]),
    (
        "Europe/Berlin",
        "*/30 2 25 10 *",
        "2026-01-01 00:00",
        ["2026-10-25 00:00", "2026-10-25 00:30", "2026-10-25 01:00", "2026-10-25 01:30", "2027-10-25 00:00"],
    ),
    ("Europe/Berlin", "0 */2 * * *", "2026-10-24 23:00", ["2026-10-25 00:00", "2026-10-25 01:00", "2026-10-25 03:00"]),
    ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03 00:00", ["2026-10-03 15:30"]),
    ("Pacific/Apia", "0 12 30 12 *", "2011-12-01 00:00", ["2011-12-30 10:00"]),  # a day that never was
    # Calendar.
    ("UTC", "0 0 L * *", "2027-02-01 00:00", ["2027-02-28 00:00", "2027-03-31 00:00"]),
    ("UTC", "0 9 * * MON#1", "2026-11-22 00:00", ["2026-12-07 09:00", "2027-01-04 09:00"]),
    ("UTC", "0 9 * * fri#l,5#3", "2026-11-01 00:00", ["2026-11-20 09:00", "2026-11-27 09:00"]),
    ("UTC", "0 0 13 * 5", "2026-11-01 00:00", ["2026-11-06 00:00", "2026-11-13 00:00"]),  # either
    ("UTC", "0 0 */13 * 7", "2026-11-01 00:00", ["2026-12-27 00:00"]),  # both, for one begins with *
    ("UTC", "0 0 29 2 *", "2096-03-01 00:00", ["2104-02-29 00:00"]),
    ("UTC", "every 90s", "2026-11-22 00:00:10", ["2026-11-22 00:01:30", "2026-11-22 00:03"]),
    ("Europe/Berlin", "every 6h", "2026-10-24 23:00", ["2026-10-25 00:00", "2026-10-25 06:00"]),
    ("UTC", "@weekly", "2026-11-22 00:00", ["2026-11-29 00:00"]),
]


def test_examples(db):
    for zone, rule, after, ticks in EXAMPLES:
        found = db.sql(
            "select utc from deferred.schedule_next(%s, %s, %s, %s::timestamptz)", rule, len(ticks), zone, after + "+00"
        )
        assert [t for t, in found] == [
            datetime.datetime.fromisoformat(t).strftime("%Y-%m-%dT%H:%M:%SZ") for t in ticks
        ], (zone, rule)


REFUSED = [
    ("0 30 2 * * *", "6 fields", "seconds and years are not supported"),
    ("30 2 * *", "4 fields", "@daily"),
    ("", "0 fields", ""),
    ("60 2 * * *", "schedule rule '60 2 * * *': minute '60' is out of range (0 to 59)", "0 to 59"),
    ("0 24 * * *", "hour '24' is out of range", ""),
    ("0 0 0 * *", "day '0' is out of range", ""),
    ("0 0 * 13 *", "month '13' is out of range", ""),
    ("0 0 * FOO *", "month 'FOO' is out of range", "JAN"),
    ("0 0 * * 8", "weekday '8' is out of range", ""),
    ("0 0 ? * *", "day '?' is invalid", "write *"),
    ("0 0 15W * *", "day '15W' is invalid", "numbers"),
    ("H 0 * * *", "minute 'H' is invalid", ""),
    ("5/10 * * * *", "step without a range", "5-59/10"),
    ("*/0 * * * *", "the step of minute '*/0' is out of range", ""),
    ("0 22-4 * * *", "ends before it begins", "22-23,0-4"),
    ("0 0 * * MON#6", "weekday 'MON#6' is invalid", "MON#1"),
    ("0 0 31 2 *", "never comes due", ""),
    ("0 0 * * MON#1-3", "weekday 'MON#1-3' is invalid", ""),
    ("@reboot", "is unknown", "@daily"),
    ("every", "", ""),
    ("every 1ms", "out of range", "1s"),
    ("every 5", "", None),
    ("every -5s", "is not a time span", ""),
    ("0 0 1,,2 * *", "day '' is invalid", ""),
    ("0 0 L-3 * *", "day 'L-3' is invalid", ""),
    ("*" * 1001, "longer than", ""),
    ("0\n0 * * *", "4 fields", ""),
    (None, "0 fields", ""),
]


def test_what_is_no_rule_or_zone_is_refused_and_the_hint_says_what_to_write(db):
    for rule, message, hint in REFUSED:
        if hint is None:  # a bare number is one of seconds, as everywhere
            db.sql("select deferred.schedule('s', %s, 'f')", rule)
            continue
        with pytest.raises(psycopg2.errors.InvalidParameterValue) as refused:
            db.sql("select deferred.schedule('s', %s, 'f')", rule)
        assert message in refused.value.diag.message_primary and hint in (refused.value.diag.message_hint or ""), (
            rule,
            refused.value,
        )
    for zone, hint in (
        ("berlin", "Europe/Berlin"),
        ("Foo3", "pg_timezone_names"),
        ("localtime", "pg_timezone_names"),
        ("CET-1CEST", "pg_timezone_names"),
    ):
        with pytest.raises(psycopg2.errors.InvalidParameterValue) as refused:
            db.sql("select deferred.schedule('s', '@daily', 'f', opts => json_build_object('timezone', %s))", zone)
        assert hint in refused.value.diag.message_hint, zone
