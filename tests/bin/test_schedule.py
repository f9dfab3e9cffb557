"""`deferred schedule`, the files it syncs, and starts and services that find a tick due. When ticks
are is tested in tests/sql/test_cron.py, what becomes of them in tests/sql/test_tick.py."""

import json
import os
import re
import shlex

import pytest

import pg
from harness import ledger, wait_for

OK, NOT_DONE, USAGE, DATA, NOPERM, CONFIG = 0, 1, 64, 65, 77, 78


def ok(result):
    assert (result.returncode, result.stderr) == (OK, ""), result
    return result.stdout


def fails(result, code, *texts):
    assert result.returncode == code, result
    for text in texts:
        assert text in result.stderr
    return result.stdout


def schedule(db, *args, **kw):
    return db.run(["deferred", "schedule", *args], **kw)


def man_page(begin, end):
    with open(os.path.join(pg.TOP, "docs", "man", "deferred-schedule.1"), encoding="utf-8") as f:
        text = f.read()
    return [
        b.replace("\\e", "\\")
        for b in re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", text[text.index(begin) : text.index(end)], re.M | re.S)
    ]


def test_wrong_usage_ends_with_64_before_anything_is_touched(run):
    env = {"DEFERRED_DB": "host=/nonexistent"}
    for args in (
        [],
        ["sell"],
        ["set", "a", "@daily"],
        ["set", "a", "@daily", "f", "{}", "x"],
        ["set", "a", "@daily", "f", "--nope"],
        ["ls", "x"],
        ["show"],
        ["next", "a", "b"],
        ["next", "a", "--ticks", "1001"],
        ["pause"],
        ["backfill", "a"],
        ["backfill", "--from", "x", "--to", "y"],
        ["sync"],
    ):
        result = run(["deferred", "schedule", *args], env=env)
        assert result.returncode == USAGE and re.search(r"\nhint: .+\n$", result.stderr) and result.stdout == "", (
            args,
            result,
        )


def test_the_examples_of_the_man_page_are_what_it_prints(db, tmp_path):
    (example,) = [b for b in man_page(".Sh EXAMPLES", ".Sh SEE ALSO") if "schedule set" in b]
    for block in re.split(r"(?m)^\$ ", example)[1:]:
        command, *printed = block.splitlines()
        found = ok(db.run(shlex.split(command))).splitlines()
        assert [re.sub(r"\d", "0", re.sub(r"\w{3} ", "", line)) for line in found] == [
            re.sub(r"\d", "0", re.sub(r"\w{3} ", "", line)).replace("+00:00", "+00:00") for line in printed
        ]
    ok(schedule(db, "rm", "nightly"))
    path = tmp_path / "app.conf"
    path.write_text(man_page(".Sh SCHEDULES", ".Sh JSON OUTPUT")[0])
    assert ok(schedule(db, "sync", path)) == "added     nightly\n"
    (row,) = json.loads(ok(db.run(["deferred", "--json", "schedule", "ls"])))
    assert (row["rule"], row["timezone"], row["fn"], row["params"], row["overlap"], row["source"]) == (
        "30 2 * * *",
        "Europe/Berlin",
        "report",
        {"days": 1},
        "queue",
        "app.conf",
    )


def test_a_file_is_synced_as_often_as_one_likes(db, tmp_path):
    path = tmp_path / "app.conf"

    def sync(text, *args, code=OK, says=""):
        path.write_text(text)
        result = schedule(db, "sync", path, *args)
        assert result.returncode == code and says in result.stderr, result
        return sorted(tuple(line.split()) for line in result.stdout.splitlines())

    two = (
        'schedule "a" { rule = "@daily" function = f priority = 3 }\nschedule "b" { rule = "every 5min" function = '
        'f jitter = 10s }\n'
    )
    assert (
        sync(two, "--dry-run") == [("added", "a"), ("added", "b")]
        and db.one("select count(*) from deferred.__deferred_schedule") == 0
    )
    assert sync(two) == [("added", "a"), ("added", "b")]
    before = db.sql("select name, next_at, changed_at from deferred.__deferred_schedule order by 1")
    ok(schedule(db, "pause", "a"))
    assert sync(two) == [("unchanged", "a"), ("unchanged", "b")]
    # What is said of the jobs leaves the next tick alone, and a pause by hand stays.
    assert sync(two.replace("10s", "20s").replace("= 3", "= 4")) == [("changed", "a"), ("changed", "b")]
    assert db.sql("select next_at from deferred.__deferred_schedule order by name") == [(None,), (before[1][1],)]
    ok(schedule(db, "set", "mine", "@daily", "f"))
    assert sync(two.splitlines()[0]) == [("changed", "a"), ("gone", "b")]
    assert sync("", "--prune") == [("removed", "a"), ("removed", "b")]
    assert db.sql("select name from deferred.__deferred_schedule") == [("mine",)]
    # All of a file or nothing of it; others' schedules are not touched.
    assert (
        sync(
            two + 'schedule "mine" { rule = "@daily" function = f }',
            code=NOT_DONE,
            says="schedule 'mine' was set by hand",
        )
        == []
    )
    fails(
        schedule(db, "set", "b", "61 * * * *", "f"),
        DATA,
        "schedule rule '61 * * * *': minute '61' is out of range",
        "hint:",
    )
    for text, code, says in (
        ('schedule "x" { rule = "0 0 31 2 *" function = f }', DATA, "never comes due"),
        ('schedule "x" { function = f }', CONFIG, "schedule 'x' has no rule"),
        ('schedule "x" { rule = "@daily" function = f cnt = 3 }', CONFIG, "setting 'cnt' of schedule 'x' is unknown"),
        ('schedule "x" { rule = "@daily" function = f params = "{" }', DATA, "json"),
        (two + two, CONFIG, "twice"),
        ('schedule "x" { rule = "@daily" function = f missed = all overlap = skip }', DATA, "overlap"),
    ):
        assert sync(text, code=code, says=says) == []
    assert db.sql("select name from deferred.__deferred_schedule") == [("mine",)]
    other = tmp_path / "other" / "app.conf"
    os.mkdir(other.parent)
    other.write_text(two)
    assert ok(schedule(db, "sync", other)) and sync(two) == [
        ("unchanged", "a"),
        ("unchanged", "b"),
    ]  # a release in another folder
    ok(schedule(db, "set", "mine", "@hourly", "f"))
    fails(schedule(db, "set", "a", "@hourly", "f"), NOT_DONE, "schedule 'a' comes from 'app.conf'", "sync")


@pytest.mark.slow
def test_commands_tell_what_is_and_do_what_they_say(db):
    shown = ok(
        schedule(
            db, "set", "s", "0 9 * * *", "f", "-", "--timezone", "Asia/Kolkata", "--max-attempts", "2", input='{"a": 1}'
        )
    ).splitlines()
    assert (
        shown[0] == "s added"
        and len(shown) == 4
        and all("09:00:00 +05:30" in line and line.endswith("T03:30:00Z") for line in shown[1:])
    )
    assert ok(schedule(db, "next", "s", "--ticks", "3")).splitlines() == shown[1:]
    # Not of the same day always: at four in the morning nine o'clock is over in the one zone, and to come in the other.
    day, *rest, utc = ok(schedule(db, "next", "s", "--ticks", "1", "--timezone", "UTC")).split()[1:]
    assert rest == ["09:00:00", "+00:00"] and utc == f"{day}T09:00:00Z"
    job = int(ok(schedule(db, "run", "s")))
    assert db.one("select params::text from deferred.__deferred where id = %s", job) == '{"a": 1}'
    assert (
        ok(schedule(db, "backfill", "s", "--from", "2026-01-01 09:00", "--to", "2026-01-03 08:59", "--dry-run"))
        == "s: 2 ticks without a job\n"
    )
    assert (
        ok(schedule(db, "backfill", "s", "--from", "2026-01-01T09:00+05:30", "--to", "2026-01-03 08:59"))
        == "s: 2 ticks queued\n"
    )
    fails(schedule(db, "backfill", "s", "--from", "2020-01-01", "--to", "2026-01-01"), NOT_DONE, "2192 ticks", "--yes")
    fails(schedule(db, "backfill", "s", "--from", "soon", "--to", "2026-01-01"), DATA, "soon")
    whole = json.loads(ok(db.run(["deferred", "--json", "schedule", "show", "s"])))
    assert [t["what"] for t in whole["ticks"]] == ["by hand", "queued", "queued"] and whole["schedule"]["opts"] == {
        "max_attempts": "2"
    }
    lines = ok(schedule(db, "show", "s")).splitlines()
    assert "Asia/Kolkata" in lines[1] and lines[-1].split() == ["2026-01-01", "09:00:00", "queued", str(job + 1)]
    ok(schedule(db, "pause", "s", "s"))
    assert "paused" in ok(schedule(db, "ls"))
    ok(schedule(db, "resume", "s"))
    assert "paused" not in ok(schedule(db, "ls"))
    for command in ("show", "next", "pause", "resume", "run", "rm"):
        fails(schedule(db, command, "nope"), NOT_DONE, "schedule 'nope' does not exist", "deferred schedule ls")
    ok(schedule(db, "rm", "s"))
    assert ok(schedule(db, "ls")) == ""


def test_with_cron_alone_the_first_start_after_a_tick_defers_and_runs_its_job(db):
    db.sql(
        "select deferred.schedule('s', 'every 1d', 'noop', opts => '{\"queue\": \"other\"}'), deferred.schedule('t', "
        "'@yearly', 'noop')"
    )
    ok(db.run(["check_deferred"]))
    assert db.one("select count(*) from deferred.__deferred_worker") == 0  # nothing is due: it has not even registered
    db.sql("update deferred.__deferred_schedule set next_at = now() - interval '1 day' where name = 's'")
    db.sql("update deferred.__deferred_state set next_tick = (select min(next_at) from deferred.__deferred_schedule)")
    assert db.run(["check_deferred", "--queue", "default"]).returncode == OK  # whatever queues it serves
    assert db.sql("select what from deferred.__deferred_tick") == [("queued",)] and db.log() == []
    assert db.run(["check_deferred"]).returncode == OK
    assert [
        (r["outcome"] if isinstance(r, dict) else r[-1]) for r in db.sql("select outcome from deferred.__deferred_log")
    ] == ["ok"]
    assert db.one("select min(next_tick) > now() from deferred.__deferred_state")
    ledger(db)


def test_a_function_learns_its_tick_and_zones_come_from_the_setting(db, tmp_path):
    db.plugins("running")
    db.config(
        'timezone = "Asia/Kolkata"\nfunction "when" { command = {"/bin/sh", "-c", "echo \'{\\"at\\": '
        '\\"\'$DEFERRED_TICK\'\\"}\'"} }'
    )
    assert "+05:30  " in ok(schedule(db, "set", "s", "@daily", "when")) and "+05:30  " in ok(
        schedule(db, "next", "@daily")
    )
    ok(schedule(db, "set", "l", "@daily", "tick", "--queue", "limited", "--timezone", "UTC", "--jitter", "1ms"))
    assert "+00:00  " in ok(schedule(db, "next", "l"))  # its own, whatever the setting is
    path = tmp_path / "app.conf"
    path.write_text('schedule "f" { rule = "@daily" function = tick }')
    ok(schedule(db, "sync", path))
    assert dict(db.sql("select name, zone from deferred.__deferred_schedule")) == {
        "s": "Asia/Kolkata",
        "l": "UTC",
        "f": "UTC",
    }  # the file's setting, not the host's
    ok(db.run(["deferred", "queue", "set", "limited", "--create", "--max-running", "1"]))
    # One of a rule, late by hours, in a limited queue; one by hand; and two of no schedule.
    db.sql("update deferred.__deferred_schedule set next_at = date_trunc('day', now(), 'UTC') where name = 'l'")
    db.sql("update deferred.__deferred_state set next_tick = '-infinity'")
    ok(schedule(db, "run", "s"))
    plain = [db.defer("when"), db.defer("tick")]
    assert db.run(["check_deferred", "--cnt", "0"], env={"DEFERRED_TICK": "2000-01-01T00:00:00Z"}).returncode == OK
    rows = dict(
        db.sql(
            "select s.name, (l.result, to_char(t.tick at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), "
            "extract(epoch from t.tick) * 1000000)::text "
            "from deferred.__deferred_log l join deferred.__deferred_tick t using (job_id) join "
            "deferred.__deferred_schedule s on s.id = t.schedule"
        )
    )
    by_hand, by_rule = (re.findall(r"[0-9][^ ,\\\"()]*", rows[name]) for name in ("s", "l"))
    assert (
        by_hand[0] == by_hand[1] and by_rule[0] + ".000000" == by_rule[2] and int(by_rule[0]) % 86400000000 == 0
    ), rows
    assert [db.one("select result from deferred.__deferred_log where job_id = %s", job) for job in plain] == [
        '{"at": ""}',
        "0",
    ]
    ledger(db)


def test_a_function_learns_the_tick_before_which_its_report_begins_with(db):
    db.plugins("running")
    db.config(
        'function "since" { command = {"/bin/sh", "-c", "echo \'{\\"from\\": \\"\'$DEFERRED_PREVIOUS_TICK\'\\", '
        '\\"to\\": \\"\'$DEFERRED_TICK\'\\"}\'"} }'
    )
    ok(schedule(db, "set", "p", "every 1h", "ticks"))
    ok(schedule(db, "set", "c", "@hourly", "since", "--queue", "limited"))
    ok(db.run(["deferred", "queue", "set", "limited", "--create", "--max-running", "1"]))
    for hours in (3, 1):  # the tick between the two became no job
        db.sql(
            "update deferred.__deferred_schedule set next_at = date_trunc('hour', now()) - %s * interval '1 hour', "
            "missed = 'skip', late_ms = 86400000",
            hours,
        )
        db.sql(
            "select deferred.__tick_at(10, date_trunc('hour', now()) - %s * interval '1 hour' + interval '1 second')",
            hours,
        )
        assert (
            db.run(["check_deferred", "--cnt", "0"], env={"DEFERRED_PREVIOUS_TICK": "2000-01-01T00:00:00Z"}).returncode
            == OK
        )
    name = {
        "p": "extract(epoch from t.tick)::bigint * 1000000",
        "c": "to_char(t.tick at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')",
    }
    for schedule_name, none in (("p", 0), ("c", "")):
        rows = db.sql(
            f"select l.result, {name[schedule_name]} from deferred.__deferred_tick t "
            f"join deferred.__deferred_schedule s on s.id = t.schedule"
            " join deferred.__deferred_log l using (job_id) where s.name = %s and t.tick < date_trunc('hour', now()) "
            "order by t.tick",
            schedule_name,
        )
        (first, at), (second, then) = [(json.loads(result), tick) for result, tick in rows]
        assert first == {"from": none, "to": at} and second == {"from": at, "to": then} and at != then
    # A gap that is filled later: what lies before it, not what was last.
    between = db.one("select date_trunc('hour', now()) - interval '2 hours'")
    assert db.one("select deferred.schedule_backfill('p', %s, %s)", between, between) == 1
    run = db.run(["check_deferred", "--cnt", "0"])
    told = [
        json.loads(r[0])
        for r in db.sql(
            "select result from deferred.__deferred_log l join deferred.__deferred d on d.id = l.job_id "
            "where d.tick = %s",
            between,
        )
    ]
    assert run.returncode == OK and [(t["to"] - t["from"]) / 3600e6 for t in told] == [1]


def test_services_wake_for_a_tick_and_each_becomes_one_job(db, tmp_path):
    """Two of them at once: whoever is first. And one that sleeps for long learns of a schedule that is set."""
    services = [
        db.spawn(
            [
                "check_deferred",
                "--loop",
                "--listen",
                "--interval-floor",
                "1h",
                "--interval-ceiling",
                "1h",
                "--pidfile",
                tmp_path / f"pid{n}",
            ]
        )
        for n in range(2)
    ]
    wait_for(lambda: db.one("select count(*) from deferred.__deferred_worker") == 2)
    wait_for(lambda: not db.one("select deferred.__nobody_waits()"), 20, "they sleep")
    db.sql("select deferred.schedule('s', 'every 1s', 'noop', opts => '{\"overlap\": \"allow\", \"missed\": \"all\"}')")
    wait_for(lambda: db.one("select count(*) from deferred.__deferred_log") >= 3)
    db.sql("select deferred.schedule_pause('s')")
    for s in services:
        s.signal(15)
        s.wait()
    rows = db.sql("select tick, job_id, at - tick < interval '0.5 s' from deferred.__deferred_tick order by 1")
    assert [(b[0] - a[0]).total_seconds() for a, b in zip(rows, rows[1:])] == [1] * (len(rows) - 1)
    assert len({job for _, job, _ in rows}) == len(rows) == db.one("select count(*) from deferred.__deferred")
    ledger(db)


def test_a_schedule_in_the_config_file_is_nothing_to_a_start(db, run):
    db.config('schedule "s" { rule = "@daily" function = f }\ncnt = 1')
    assert db.run(["check_deferred"]).returncode == OK
    assert db.one("select count(*) from deferred.__deferred_schedule") == 0


@pytest.mark.parametrize(
    "role, command, code",
    [("deferred_viewer", ["ls"], OK), ("deferred_viewer", ["run", "s"], NOPERM), ("deferred_purger", ["ls"], NOPERM)],
)
def test_who_may_what(db, role, command, code):
    ok(schedule(db, "set", "s", "@daily", "f", '{"secret": 1}'))
    name = f"r_{db.name}"
    db.sql(f"create role {name} login")
    db.sql(f"grant {role} to {name}")
    try:
        result = db.run(["deferred", "--db", db.cluster.conninfo(db.name, user=name), "--json", "schedule", *command])
        assert result.returncode == code and "secret" not in result.stdout, result
    finally:
        db.sql(f"drop owned by {name}")
        db.sql(f"drop role {name}")
