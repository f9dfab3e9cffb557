"""What is told, and that it is told once: each cause brought about in the sums that it is found by.
Runs of programs are in tests/bin/test_alerting.py."""

import json
import os

import psycopg2
import pytest

import pg

SETTINGS = {
    "hook": True,
    "mail_to": "ops@example.org",
    "queue": "alert",
    "timeout_ms": "30000",
    "repeat_ms": "14400000",
    "late_ms": "900000",
    "late_queues": {"slow": "0"},
    "dead": "1",
    "failing": "0.2",
    "build_ratio": "1.5",
    "crashes": "20",
    "retry_ms": "300000",
}
OUTCOMES = (
    "ok",
    "failed",
    "crashed",
    "timeout",
    "interrupted",
    "superseded",
    "lost",
    "cancelled",
    "expired",
    "snoozed",
    "dead",
    "arrived",
)


class Told:
    def __init__(self, db):
        self.db = db

    def look(self, connection=None, later="1 minute", **settings):
        """Those that are told, {(cause, name): sentence}, by a look that comes a while after the last one."""
        if later:
            self.db.sql(
                f"update deferred.__deferred_upkeep set alerts_at = alerts_at - interval '{later}', "
                f"breakers_at = breakers_at - interval '{later}', "
                f"builds_at = builds_at - interval '{later}'"
            )
        asked = {k: v for k, v in {**SETTINGS, **settings}.items() if v is not None}
        with (connection or self.db.connection).cursor() as cursor:
            cursor.execute("select cause, name, text from deferred.__alert(%s)", (json.dumps(asked),))
            return {(cause, name): text for cause, name, text in cursor.fetchall()}

    def hours_pass(self, hours):
        self.db.sql(
            "update deferred.__deferred_alert set reported_at = reported_at - %s * interval '1 hour', "
            "since = since - %s * interval '1 hour', "
            "ended_at = ended_at - %s * interval '1 hour'",
            hours,
            hours,
            hours,
        )

    def series(self, fn, queue="*", plugin="*"):
        self.db.sql(
            "insert into deferred.__deferred_series (queue, fn, plugin) values (%s, %s, %s) on conflict do nothing",
            queue,
            fn,
            plugin,
        )
        return self.db.one(
            "select id from deferred.__deferred_series where (queue, fn, plugin) = (%s, %s, %s)", queue, fn, plugin
        )

    def sums(self, fn, ago, span=1, run="{}", rss_kb=0, queue="*", plugin="*", **outcomes):
        """Attempts of a minute or an hour so long ago; since ever, where span is 0."""
        self.db.sql(
            f"insert into deferred.__deferred_sum (span, at, series, {', '.join(OUTCOMES)}, wait_us, run_us, cpu_us, "
            f"max_rss_kb, wait, run) "
            f"values (%s, case when %s = 0 then '-infinity' else date_bin('1 minute', now() - %s::interval, "
            f"'2000-01-01 00:00+00') end, %s, "
            f"{', '.join(['%s'] * len(OUTCOMES))}, 0, 0, 0, %s, '{{}}', %s) on conflict (span, series, at) do update "
            f"set dead = excluded.dead",
            span,
            span,
            ago,
            self.series(fn, queue, plugin),
            *[outcomes.get(o, 0) for o in OUTCOMES],
            rss_kb,
            run,
        )

    def jobs(self):
        """What is waiting to be told, each once: [(function, label)]"""
        return self.db.sql(
            "select d.fn, d.label from deferred.__deferred d join deferred.__deferred_hot h on h.id = d.id "
            "where d.queue = 'alert' and d.fn <> 'noop' order by d.id"
        )


@pytest.fixture
def told(db):
    db.sql("update deferred.__deferred_folded set folded_to = now(), sampled_at = now()")
    return Told(db)


def test_each_death_is_told_and_no_more_than_once_an_hour(db, told):
    told.sums("old", "1 day", span=0, dead=7)
    assert told.look(later=False) == {}  # what died before anybody wanted to be told is history
    told.sums("import", "1 min", span=0, dead=2)
    assert told.look(later=False) == {}  # somebody has just looked
    assert told.look() == {("dead", "import"): "2 jobs of function import died"}
    assert told.jobs() == [
        ("deferred-alert", "dead import: 2 jobs of function import died"),
        ("send_mail", "deferred: dead import"),
    ]
    hook, mail = (row[0] for row in db.sql("select params from deferred.__deferred where queue = 'alert' order by id"))
    assert (hook["cause"], hook["name"], hook["text"], hook["do"], hook["database"]) == (
        "dead",
        "import",
        "2 jobs of function import died",
        "deferred ls --state dead --fn import",
        db.name,
    )
    assert (
        mail["to"] == ["ops@example.org"]
        and mail["headers"] == {"Auto-Submitted": "auto-generated"}
        and "2 jobs of function import died\n\ndo: deferred ls" in mail["text"]
    )
    assert db.sql(
        "select created_by, max_attempts, timeout_ms from deferred.__deferred where fn = 'deferred-alert'"
    ) == [("deferred_owner", 2, 30000)]
    told.sums("import", "1 min", span=0, dead=5)
    assert told.look() == {}
    told.hours_pass(1.1)
    (text,) = told.look().values()
    assert text.startswith("3 jobs of function import died since 20")  # those of the hour in between are in it
    told.hours_pass(5)
    assert told.look() == {}
    db.sql("update deferred.__deferred_sum set dead = 1 where span = 0")  # the sums were made anew
    assert told.look() == {} and db.one("select counted from deferred.__deferred_alert where name = 'import'") == 1
    # What is about mail is not told by mail, and what is about the hook not at all; nobody's name
    # makes another message.
    told.sums("send_mail", "1 min", span=0, dead=1)
    told.sums("deferred-alert", "1 min", span=0, dead=1)
    assert set(told.look()) == {("dead", "send_mail")}
    assert told.jobs()[4:] == [("deferred-alert", "dead send_mail: 1 job of function send_mail died")]
    with pytest.raises(psycopg2.Error, match="function name|deferred-alert"):
        db.sql("select deferred.defer('deferred-alert', '{}')")
    assert "nobody at all@" in told.look(mail_to="nobody at all@")["settings", "alert.mail_to"]
    # Ten of a cause within an hour. The last one names the rest, which then count as reported.
    for i in range(30):
        told.sums(f"f{i}", "1 min", span=0, dead=1)
    many = list(told.look(mail_to=None).values())
    assert len(many) == 9 and not any("the same of" in text for text in many[:-1])
    assert many[-1].endswith("; the same of 21 others: f17, f18, f19, f2, f20, ...; deferred ls --state dead")
    assert told.look() == {}
    assert (
        db.one(
            "select count(*) from deferred.__deferred_alert where cause = 'dead' and name ~ '^f' "
            "and reported_at is null"
        )
        == 0
    )


def test_no_role_uses_up_the_messages_of_others_or_has_many_sent(db, told):
    """A producer makes late queues all the time. Other causes, and the queues of others, are reported all the same."""

    def late(queue, oldest, creator):
        db.sql(
            "insert into deferred.__deferred_queue (name, created_by) values (%s, %s) on conflict do nothing",
            queue,
            creator,
        )
        db.sql(
            "insert into deferred.__deferred_depth select f.sampled_at, %s, 1, 0, 0, false, %s, false "
            "from deferred.__deferred_folded f",
            queue,
            oldest,
        )

    def minutes_pass(n):
        db.sql("update deferred.__deferred_alert set reported_at = reported_at - %s * interval '1 minute'", n)

    db.sql("insert into deferred.__deferred_worker (instance, host, pid, version) values ('h:/p#1.1@b', 'h', 1, 't')")
    assert told.look(later=False) == {}
    for i in range(30):
        late(f"junk{i:02}", 9999 - i, "mallory")
    late("mail", 1000, "app")
    assert told.look() == {
        (
            "late",
            "junk00",
        ): "queue junk00 is late: 1 job waits in it, the first for 3h; the same of 30 others: mail, junk01, junk02, "
        "junk03, junk04, ...; deferred alert --list"
    }
    for i in range(31, 33):
        late(f"junk{i}", 9999, "mallory")
        assert set(told.look()) == {("late", f"junk{i}")}
    late("junk33", 9999, "mallory")
    assert told.look() == {}, "the three messages of the hour are used up"
    told.sums("import", "1 min", span=0, dead=1)
    assert set(told.look()) == {("dead", "import")}, "another cause has a budget of its own"
    minutes_pass(11)
    late("images", 1000, "app")
    assert told.look() == {
        (
            "late",
            "junk33",
        ): "queue junk33 is late: 1 job waits in it, the first for 3h; the same of 1 other: images; deferred alert "
        "--list"
    }
    for i in range(34, 44):
        late(f"junk{i}", 9999, "mallory")
        told.look()
    assert db.one("select count(distinct reported_at) from deferred.__deferred_alert where cause = 'late'") == 4
    # Functions that somebody kills without end leave room for others: who has waited longest is first.
    for i in range(40):
        told.sums(f"f{i:02}", "1 min", span=0, dead=1)
    assert len(told.look()) == 9
    told.sums("export", "1 min", span=0, dead=1)
    assert told.look() == {}
    minutes_pass(11)
    for i in range(40):
        told.sums(f"g{i:02}", "1 min", span=0, dead=1)
    assert set(told.look()) == {("dead", "export"), ("late", "junk34")}
    # What a producer can make comes last in the list, of which readers see the beginning.
    told.sums("late-found", "1 min", ok=5, failed=40)
    told.look()
    listed = json.loads(db.run(["deferred", "--json", "alert", "--list"]).stdout)
    kinds = [a["cause"] in ("late", "unserved") for a in listed]
    assert kinds == sorted(kinds) and not kinds[0]
    # Nor do their names stay.
    db.sql("update deferred.__deferred_depth set oldest_s = 0")
    told.look()
    db.sql("update deferred.__deferred_alert set ended_at = ended_at - interval '25 hours'")
    told.look()
    assert (
        db.one("select count(*) from deferred.__deferred_alert where cause = 'late'") == 0
        and db.one("select count(*) from deferred.__deferred_alert") > 40
    )


def test_ages_are_said_as_in_c(db):
    """tests/lib/span_test.c reads the same list."""
    with open(os.path.join(pg.TOP, "tests", "lib", "ages")) as f:
        ages = [(int(s), text) for s, text in (line.rstrip("\n").split("|") for line in f if line[0] != "#")]
    assert db.sql("select s, deferred.__age(s) from unnest(%s::int8[]) s", [s for s, _ in ages]) == ages


def test_a_queue_that_is_late_and_one_that_nobody_serves(db, told):
    """Whichever of two workers finds it first, and whether or not he lives to tell it."""
    for queue, oldest in (("mail", 1000), ("slow", 9999), ("quick", 60), ("alert", 5000), ("held", 5000)):
        db.defer("noop", queue=queue)
        db.sql(
            "insert into deferred.__deferred_depth select f.sampled_at, %s, 3, 0, 0, false, %s, false "
            "from deferred.__deferred_folded f",
            queue,
            oldest,
        )
    db.sql(
        "insert into deferred.__deferred_worker (instance, host, pid, version, queues) "
        "values ('h:/p#1.1@b', 'h', 1, 't', '{mail,quick}')"
    )
    db.sql("update deferred.__deferred_queue set paused = true where name = 'held'")
    died, other = db.connect(), db.connect()
    assert set(told.look(died)) == {("late", "mail")}  # slow may be late; who tells is not told about; a pause is meant
    died_told = told.jobs()
    died.rollback()  # before it was committed nobody was told
    died.close()
    assert died_told == told.jobs() == []
    first = db.connect()
    assert set(told.look(first)) == {("late", "mail")}
    assert told.look(other, later=False) == {}  # the other one looks at the same time, and waits for nobody
    first.commit()
    other.rollback()
    assert [fn for fn, _ in told.jobs()] == ["deferred-alert", "send_mail"]
    db.sql(
        "update deferred.__deferred_worker set started_at = now() - interval '2 hours', "
        "seen_at = now() - interval '2 hours'"
    )
    assert told.look() == {("unserved", "mail"): "no worker serves queue mail: 3 jobs wait in it, the first for 17min"}
    assert db.sql("select cause from deferred.__deferred_alert where ended_at is null") == [("unserved",)]
    # One whose run takes long, and holds a lease, serves it.
    db.sql(
        "insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone, expires_at) "
        "select 'other', w.id, 1, '{}', 'empty', pg_current_snapshot(), false, now() + interval '1 minute' "
        "from deferred.__deferred_worker w"
    )
    assert told.look() == {} and db.sql("select cause from deferred.__deferred_alert where ended_at is null") == [
        ("late",)
    ]
    # A sample that is old says nothing, neither that it stands nor that it is over.
    db.sql("update deferred.__deferred_folded set sampled_at = now() - interval '1 hour'")
    assert told.look() == {} and db.one("select count(*) from deferred.__deferred_alert where ended_at is null") == 1
    db.sql("update deferred.__deferred_folded set sampled_at = (select max(at) from deferred.__deferred_depth)")
    told.hours_pass(2)
    assert set(told.look()) == {("late", "mail")}  # it began anew after it was told
    told.hours_pass(2)
    assert told.look() == {}
    told.hours_pass(3)
    assert set(told.look()) == {("late", "mail")}  # every four hours while it stands
    db.sql("update deferred.__deferred_depth set oldest_s = 10")
    assert told.look() == {} and db.one("select count(*) from deferred.__deferred_alert where ended_at is null") == 0
    for connection in (first, other):
        connection.close()


def test_a_function_that_fails_more_or_got_slower_or_bigger(db, told):
    told.sums("steady", "3 hours", span=60, ok=100, failed=100)
    told.sums("steady", "1 min", ok=20, failed=24)
    told.sums("sudden", "3 hours", span=60, ok=990, failed=10)
    told.sums("sudden", "1 min", ok=20, failed=8, crashed=2)
    told.sums("chance", "3 hours", span=60, ok=80, failed=20)
    told.sums("chance", "1 min", ok=11, failed=9)
    told.sums("new", "1 min", ok=5, failed=15)
    told.sums("few", "1 min", failed=5)
    # Histograms: {bucket, attempts}; bucket 20 is up to 1 ms, 23 up to 2 ms, 26 up to 4 ms.
    for fn, before, after, rss in (
        ("slower", "{{20,500}}", "{{26,150}}", 0),
        ("same", "{{20,500}}", "{{20,300},{26,10}}", 0),
        ("bigger", "{{20,500}}", "{{20,150}}", 90000),
    ):
        told.sums(fn, "30 hours", span=60, queue="mail", plugin="p 1.0 a", run=before, ok=500, rss_kb=20000)
        told.sums(fn, "2 hours", span=60, queue="mail", plugin="p 1.1 b", run=after, ok=150, rss_kb=rss or 24000)
    found = told.look()
    assert set(found) == {("failing", "sudden"), ("failing", "new"), ("slower", "slower"), ("bigger", "bigger")}
    assert (
        found["failing", "sudden"]
        == "function sudden fails: 10 of 30 attempts in the last 15 minutes, and 1.0 % in the week before"
    )
    assert found["failing", "new"] == "function new fails: 15 of 20 attempts in the last 15 minutes"
    assert (
        found["slower", "slower"].startswith(
            "function slower is slower since build p 1.1 b: half of its attempts take more than 3."
        )
        and " ms before, with p 1.0 a" in found["slower", "slower"]
    )
    assert (
        found["bigger", "bigger"]
        == "function bigger is bigger since build p 1.1 b: it takes 88 MiB, 20 MiB before, with p 1.0 a"
    )
    assert db.one("select deferred.__histogram_quantile('{{0,5},{20,90},{30,5}}', 0.5)") == pytest.approx(893, rel=0.02)
    assert db.one("select deferred.__histogram_quantile('{}', 0.5)") is None
    # The build before it is put back, and runs.
    told.sums("slower", "0 hours", span=60, queue="mail", plugin="p 1.0 a", run="{{20,50}}", ok=50)
    told.sums("tardy", "30 hours", span=60, queue="mail", plugin="p 1.0 a", run="{{20,500}}", ok=500)
    told.sums("tardy", "2 hours", span=60, queue="mail", plugin="p 1.1 b", run="{{26,150}}", ok=150)
    told.look(failing="0")
    standing = "select cause, name from deferred.__deferred_alert where ended_at is null"
    assert set(db.sql(standing)) == {
        ("bigger", "bigger"),
        ("slower", "slower"),
    }, "builds are looked at once an hour, and stand as they were"
    told.look(later="1 hour", failing="0")
    assert set(db.sql(standing)) == {("bigger", "bigger"), ("slower", "tardy")}


def test_a_function_that_crashes_each_time_is_paused_and_tried_now_and_then(db, told):
    db.sql("select deferred.__function_set('mad', '{\"rate\": 5, \"burst\": 9}')")
    for fn in ("mad", "wild", "mixed"):
        told.sums(fn, "9 min", ok=1, crashed=50)
        told.sums(fn, "7 min", crashed=12, lost=3)
        told.sums(fn, "5 min", crashed=8, ok=int(fn == "mixed"))
    assert (
        told.look(crashes="0", hook=None, mail_to=None) == {}
        and db.one("select count(*) from deferred.__deferred_function") == 1
    )
    found = told.look(hook=None)
    assert found.pop(("failing", "mixed")) and found == {
        ("breaker", fn): f"function {fn} is paused: its last 20 attempts crashed; one is tried every 300 s"
        for fn in ("mad", "wild")
    }
    assert db.sql(
        "select name, max_running, round(1 / rate), burst, own_max_running, own_rate, own_burst, "
        "broken_at is not null from deferred.__deferred_function order by 1"
    ) == [("mad", 1, 300, None, None, 5, 9, True), ("wild", 1, 300, None, None, None, None, True)]
    db.sql(
        "select deferred.__function_set('mad', '{\"max_running\": 2}')"
    )  # what is set meanwhile holds after the pause
    db.sql("select deferred.__function_set('wild', '{\"max_running\": null}')")
    told.look()
    assert db.one("select count(*) from deferred.__deferred_function where broken_at is not null") == 2
    # The first trial comes after breaker.retry, so a minute that holds attempts from before the pause does not end it.
    tokens = db.sql("select name, tokens from deferred.__deferred_limit where kind = 'function' order by 1")
    assert tokens == [("mad", 0), ("wild", 0)]
    # The minute of the pause will not have ended.
    db.sql("update deferred.__deferred_function set broken_at = now() + interval '1 min'")
    told.sums("mad", "0 min", ok=1)
    told.look()
    assert db.one("select count(*) from deferred.__deferred_function where broken_at is not null") == 2
    db.sql("delete from deferred.__deferred_sum where span = 1 and at >= now() - interval '3 min'")
    db.sql("update deferred.__deferred_function set broken_at = now() - interval '2 min'")
    told.sums("wild", "0 min", failed=1)
    told.sums("mad", "0 min", crashed=1)
    assert (
        told.look(crashes="0", hook=None, mail_to=None) == {}
    )  # one that failed did not crash; and whoever looks ends a pause
    assert db.sql("select name from deferred.__deferred_function") == [("mad",)]
    assert db.sql("select deferred.__function_resume('mad'), deferred.__function_resume('wild')") == [(True, False)]
    assert db.sql("select max_running, rate, burst, own_rate, broken_at from deferred.__deferred_function") == [
        (2, 5, 9, None, None)
    ]
    assert (
        told.look(failing="0") == {}
        and db.one("select count(*) from deferred.__deferred_function where broken_at is not null") == 0
    )  # crashes before that do not count
    assert db.sql("select name from deferred.__deferred_alert where cause = 'breaker' and ended_at is null") == []


def test_crashes_of_one_role_do_not_pause_a_function_that_others_use(db, told):
    def attempts(role, outcome, ago):
        job = db.one("select deferred.defer('shared', '{}')")
        db.sql("update deferred.__deferred set created_by = %s where id = %s", role, job)
        db.sql(
            "insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at) select %s, n, %s, "
            "true, now() - %s::interval from generate_series(1, 20) n",
            job,
            outcome,
            ago,
        )
        db.sql("update deferred.__deferred_folded set folded_to = now() - interval '1 hour', slice = '1 day'")
        db.sql("select deferred.__fold()")

    attempts("prod2", "ok", "30 minutes")
    attempts("prod1", "crashed", "5 minutes")
    assert ("breaker", "shared") not in told.look()
    assert db.one("select count(*) from deferred.__deferred_function") == 0
    attempts("prod3", "crashed", "3 minutes")  # of two roles: it is the function
    assert ("breaker", "shared") in told.look()
    assert db.one("select deferred.__function_resume('shared')")
    # A function that one role uses alone is paused for its crashes.
    db.sql("update deferred.__deferred_alert set ended_at = now() - interval '1 hour' where cause = 'breaker'")
    db.sql("delete from deferred.__deferred_caller where creator <> 'prod1'")
    told.look(later="1 hour")
    assert (
        db.one("select count(*) from deferred.__deferred_function where name = 'shared' and broken_at is not null") == 1
    )
    # Who has not used it for a week is no user.
    db.sql("update deferred.__deferred_caller set crashed_at = now() - interval '8 days', other_at = null")
    db.sql("update deferred.__deferred_folded set sampled_at = now() - interval '2 hours'")
    db.sql("select deferred.__fold()")
    assert db.one("select count(*) from deferred.__deferred_caller") == 0


class Crashes:
    def __init__(self, db):
        self.db = db
        db.sql("update deferred.__deferred_folded set folded_to = now()")

    def attempts(self, outcome, n=1, role="prod1", fn="f", ago="0 s"):
        """They have been recorded, and nobody has folded them."""
        job = self.db.one("select deferred.defer(%s, '{}')", fn)
        self.db.sql("update deferred.__deferred set created_by = %s where id = %s", role, job)
        self.db.sql(
            "insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at) "
            "select %s, n, %s, false, clock_timestamp() - %s::interval from generate_series(1, %s) n",
            job,
            outcome,
            ago,
            n,
        )

    def told(self, n, fn="f", crashes=20):
        """What a worker hears that has recorded n crashes."""
        return self.db.sql("select paused, text from deferred.__crashed(%s, %s, %s, 300000)", fn, n, crashes)[0]

    def crash(self, n, **of):
        self.attempts("crashed", n, **of)
        return self.told(n, of.get("fn", "f"))[0]


@pytest.fixture
def crashes(db):
    return Crashes(db)


def test_a_function_is_paused_with_the_crash_that_is_one_too_many(db, crashes):
    assert not crashes.crash(12) and not crashes.crash(19, fn="g")
    crashes.attempts("interrupted")
    crashes.attempts("lost")
    assert not crashes.crash(7)
    crashes.attempts("crashed")
    assert crashes.told(1) == (True, "function f is paused: its last 20 attempts crashed; one is tried every 300 s")
    assert crashes.told(1) == (True, None), "another worker hears of the pause, and does not report it again"
    functions = db.sql("select name, max_running, broken_at is not null from deferred.__deferred_function")
    assert functions == [("f", 1, True)]
    assert db.sql("select name, tokens from deferred.__deferred_limit") == [("f", 0)], "the first trial comes in 300 s"
    assert db.sql("select cause, name from deferred.__deferred_alert where ended_at is null") == [("breaker", "f")]
    # Crashes before the end of a pause are not counted again.
    assert db.one("select deferred.__function_resume('f')")
    db.sql("update deferred.__deferred_crash set since = now() - interval '1 h'")
    assert not crashes.crash(19)
    assert crashes.crash(1)


def test_two_workers_that_pause_a_function_keep_the_limits_it_had(db):
    db.sql("select deferred.__function_set('f', '{\"max_running\": 7, \"rate\": 5, \"burst\": 9}')")
    for said in (True, False):
        assert db.one("select text is not null from deferred.__function_pause('f', 20, 1000)") is said
    assert db.one("select deferred.__function_resume('f')")
    assert db.sql("select max_running, rate, burst from deferred.__deferred_function") == [(7, 5, 9)]


@pytest.mark.parametrize("outcome", ["ok", "failed", "timeout", "cancelled", "snoozed"])
def test_what_crashed_before_another_end_does_not_count(db, crashes, outcome):
    assert not crashes.crash(19)
    crashes.attempts(outcome)
    assert not crashes.crash(1)
    assert not crashes.crash(18)
    assert crashes.crash(1)
    assert crashes.told(0)[0] and db.one("select count(*) from deferred.__deferred_function") == 1


def test_crashes_are_counted_whoever_records_them_and_in_whatever_order_they_are_told(db, crashes):
    first, second = db.connect(), db.connect()
    crashes.attempts("crashed", 20)
    count = "select paused from deferred.__crashed('f', 10, 20, 300000)"
    with first.cursor() as a, second.cursor() as b:
        a.execute(count)
        assert a.fetchone() == (False,)
        first.commit()
        b.execute(count)
        assert b.fetchone() == (True,)
        second.rollback()  # it died before it was committed
        a.execute(count)
        assert a.fetchone() == (True,)
        first.commit()
    for connection in (first, second):
        connection.close()
    assert db.one("select count(*) from deferred.__deferred_function where broken_at is not null") == 1


def test_the_jobs_of_one_role_do_not_pause_a_function_that_others_use_as_they_crash(db, crashes):
    for other in ("ok", "crashed"):
        # What was not folded yet counts as well as what stands in __deferred_caller.
        crashes.attempts(other, role="prod2", fn=other, ago="5 s")
        db.sql("update deferred.__deferred_folded set folded_to = now() - interval '1 min'")
        assert not crashes.crash(19, fn=other) and not crashes.crash(1, fn=other)
        db.sql("update deferred.__deferred_folded set folded_to = now()")
        db.sql(
            "insert into deferred.__deferred_caller (fn, creator, other_at)"
            " values ('x' || %s, 'prod2', now() - interval '6 days')",
            other,
        )
        assert not crashes.crash(20, fn="x" + other)
        db.sql("update deferred.__deferred_caller set other_at = now() - interval '8 days'")
        assert crashes.crash(20, fn="x" + other), "a role that has not used the function for a week does not count"
    assert not crashes.crash(19, fn="both")
    assert crashes.crash(1, fn="both", role="prod2"), "jobs of two roles crash: it is the function"


def test_where_the_log_is_too_long_the_sums_tell(db, crashes):
    assert not crashes.crash(19)
    crashes.attempts("ok", 50000, fn="other")
    assert not crashes.crash(1)
    assert db.one("select n from deferred.__deferred_crash") == 0
    db.sql("update deferred.__deferred_crash set since = clock_timestamp()")
    assert not crashes.crash(19) and crashes.crash(1)


def test_who_may_not_run_jobs_has_nothing_told(db):
    with db.connect() as connection, connection.cursor() as cursor:
        for role, call in (
            ("deferred_producer", "__alert('{}')"),
            ("deferred_viewer", "__alert('{}')"),
            ("deferred_viewer", "__function_resume('f')"),
            ("deferred_producer", "__crashed('f', 1, 1, 1000)"),
            ("deferred_worker", "__function_pause('f', 1, 1000)"),
            ("deferred_worker", "__alert_job('q', 'f', '{}', '', null, null)"),
        ):
            cursor.execute(f"set role {role}; savepoint s")
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(f"select deferred.{call}")
            cursor.execute("rollback to s; reset role")
