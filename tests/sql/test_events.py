"""Jobs that wait for events: option wait_for, deferred.send_event()."""

import itertools
import json
import os
import random

import psycopg2.errors as pgerror
import pytest

from harness import wait_for
from test_waits import clean, end, settle, states

DRAWS = int(os.environ.get("DEFERRED_TEST_EVENTS", "8"))


def send(db, name, payload=None, keep="1 day", **more):
    db.sql(
        "select deferred.send_event(%s, %s::json, %s::interval" + (", %s)" if more else ")"),
        name,
        json.dumps(payload),
        keep,
        *more.values(),
    )


def got(db, job):
    """The payloads of the events that a job waited for, by the name it has for each; None: it did not come."""
    rows = db.sql("select name, outcome, result from deferred.parents(%s) where parent is null", job)
    return {name: json.loads(result) if outcome == "ok" else None for name, outcome, result in rows}


def time_is_up(db, job):
    """As if the job had been deferred so much earlier."""
    db.sql(
        "update deferred.__deferred_awaited set since = since - (until - now()), until = now()"
        " where child = %s and until is not null",
        job,
    )
    settle(db)


def why(db, job):
    return db.sql(
        "select outcome, attempt, final, error from deferred.__deferred_log where job_id = %s"
        " order by finished_at desc limit 1",
        job,
    )[0]


def test_an_event_is_waited_for_and_its_payload_handed_on(db):
    job = db.defer("ship", wait_for="paid:4711")
    other = db.defer("ship", wait_for="paid:4712")
    named = db.defer("ship", wait_for={"event": "paid:4711", "as": "payment"}, delay="1h")
    settle(db)
    assert states(db, job, other, named) == ["waiting"] * 3
    with pytest.raises(pgerror.ObjectNotInPrerequisiteState, match=f"job {job} waits for event 'paid:4711'"):
        db.sql("select deferred.retry(%s)", job)
    assert db.sql("select * from deferred.parents(%s)", named) == [("payment", None, "ok", None, None)]
    send(db, "paid:4711", {"amount": 12})
    assert states(db, job) == ["waiting"]
    settle(db)
    assert states(db, job, other, named) == ["ready", "waiting", "delayed"]
    assert got(db, job) == {"paid:4711": {"amount": 12}} and got(db, named) == {"payment": {"amount": 12}}
    assert json.loads(db.sql("select parents from deferred.__parents(array[%s])", job)[0][0]) == {
        "paid:4711": {"event": "paid:4711", "outcome": "ok", "result": '{"amount": 12}'}
    }
    assert db.sql("select deferred.flow_release(%s), deferred.cancel(%s)", other, named) == [(True, True)]
    send(db, "paid:4712")
    settle(db)
    assert states(db, other, named) == ["ready", "cancelled"]
    db.sql("select deferred.send_event('a', '1'::jsonb), deferred.send_event('b')")
    clean(db)


def test_an_event_that_is_kept_counts_for_jobs_deferred_later(db):
    send(db, "paid", 1)
    send(db, "paid", 2)
    send(db, "gone", 1, keep="0")
    late, missed = db.defer("a", wait_for="paid"), db.defer("a", wait_for="gone")
    settle(db)
    assert states(db, late, missed) == ["ready", "waiting"]
    assert got(db, late) == {"paid": 2}, "the last one that was sent before"
    db.sql("update deferred.__deferred_event set kept_until = clock_timestamp() where name = 'paid'")
    again = db.defer("a", wait_for="paid")
    settle(db)
    assert states(db, again) == ["waiting"]
    send(db, "paid", 3, keep="0")
    send(db, "paid", 4)
    settle(db)
    assert states(db, again) == ["ready"] and got(db, again) == {"paid": 3}, "the first one since"
    assert got(db, late) == {"paid": 2}, "what it got does not change"
    clean(db)


def test_many_events_jobs_and_a_delay_are_waited_for_together(db):
    parent = db.defer("a")
    ids = db.one(
        "select array_agg(i) from deferred.defer_many(%s) i",
        json.dumps(
            [
                {"fn": "b", "wait_for": ["x", {"event": "y", "as": "z"}], "after": parent, "delay": "1h"},
                {"fn": "b", "wait_for": "x", "queue": "other"},
                {"fn": "b"},
            ]
        ),
    )
    settle(db)
    send(db, "y", "why")
    end(db, parent)
    settle(db)
    assert states(db, *ids) == ["waiting", "waiting", "ready"]
    send(db, "x", [1])
    settle(db)
    assert states(db, *ids) == ["delayed", "ready", "ready"]
    assert got(db, ids[0]) == {"x": [1], "z": "why"} and got(db, ids[1]) == {"x": [1]}
    clean(db)


@pytest.mark.parametrize("keep", ["1 day", "0"])
@pytest.mark.parametrize(
    "first, committed, between",
    itertools.product(["send", "defer"], ["send", "defer"], [True, False]),
)
def test_of_an_event_and_a_job_in_two_transactions_one_sees_the_other(db, keep, first, committed, between):
    """Whichever calls first and whichever commits first, and whether or not notes are processed between the commits.
    Neither waits for the other."""
    with db.connect() as sender, db.connect() as producer:
        cursors = {"send": sender.cursor(), "defer": producer.cursor()}
        for cursor in cursors.values():
            cursor.execute("set lock_timeout = '5s'")
        for what in (first, *({"send", "defer"} - {first})):
            cursors[what].execute(
                "select deferred.send_event('e', '7', %s)"
                if what == "send"
                else "select deferred.defer('a', '{}', '{\"wait_for\": \"e\"}')",
                (keep,) if what == "send" else (),
            )
        job = cursors["defer"].fetchone()[0]
        for what in (committed, *({"send", "defer"} - {committed})):
            cursors[what].connection.commit()
            if between:
                settle(db)
                clean(db)
    clean(db)
    settle(db)
    counts = keep != "0" or first == "defer"
    assert states(db, job) == ["ready" if counts else "waiting"]
    assert got(db, job) == {"e": 7 if counts else None}
    settle(db)
    clean(db)


def test_what_is_rolled_back_was_not_sent_and_nobody_waits(db):
    job = db.defer("a", wait_for="e")
    with db.connect() as other, other.cursor() as cursor:
        cursor.execute("select deferred.send_event('e', '1')")
        settle(db)
        other.rollback()
        settle(db)
        assert states(db, job) == ["waiting"]
        cursor.execute("select deferred.defer('a', '{}', '{\"wait_for\": \"e\"}')")
        other.rollback()
    assert db.one("select count(*) from deferred.__deferred_awaited") == 1
    send(db, "e", 2)
    settle(db)
    assert states(db, job) == ["ready"] and got(db, job) == {"e": 2}
    clean(db)


def test_the_time_limit_cancels_fails_or_runs_the_job(db):
    by = {
        what: db.defer("a", wait_for={"event": f"e {what}", "within": "3 days", "on_timeout": what})
        for what in ("cancel", "fail", "run")
    }
    unnamed = db.defer("a", wait_for={"event": "e", "within": 259200})
    both = db.defer("a", wait_for=[{"event": "e", "within": "1min"}, "f"])
    behind = [db.defer("b", after={"job": job, "on": on}) for job in by.values() for on in ("failed", "ok")]
    settle(db)
    assert states(db, *by.values(), unnamed, both) == ["waiting"] * 5
    until = db.one(
        "select extract(epoch from until - since) from deferred.__deferred_awaited where child = %s", unnamed
    )
    assert until == 259200
    assert db.one("select deferred.__settle_due() = min(until) from deferred.__deferred_awaited")
    wait_ms = db.one("select wait_ms from deferred.__tick(1)")
    assert 0 < wait_ms <= 60000, "a worker that sleeps rises for it"
    for job in (*by.values(), unnamed, both):
        time_is_up(db, job)
    assert states(db, *by.values(), unnamed, both) == ["cancelled", "dead", "ready", "cancelled", "cancelled"]
    end(db, by["run"])
    settle(db)
    assert states(db, *behind) == ["ready", "cancelled", "ready", "cancelled", "cancelled", "ready"]
    for what, outcome in (("cancel", "cancelled"), ("fail", "failed")):
        seen = why(db, by[what])
        assert seen[:3] == (outcome, 0, True) and seen[3].startswith(f"event 'e {what}' was not sent before 20"), seen
    send(db, "e cancel", 1)
    send(db, "e run", 1)
    settle(db)
    assert states(db, by["cancel"]) == ["cancelled"], "too late"
    assert db.sql("select outcome, result from deferred.parents(%s)", by["run"]) == [("failed", None)]
    assert db.sql("select deferred.retry(%s)", by["cancel"]) == [(True,)]
    assert states(db, by["cancel"]) == ["ready"], "who wants it in spite of that has it run"
    clean(db)


def test_an_event_in_time_counts_though_no_worker_ran_since(db):
    job, late = [db.defer("a", wait_for={"event": e, "within": "1h", "on_timeout": "fail"}) for e in "ab"]
    send(db, "a", 1)
    db.sql("update deferred.__deferred_awaited set until = clock_timestamp()")
    send(db, "b", 1)
    settle(db)
    assert states(db, job, late) == ["ready", "dead"]
    clean(db)


def test_a_job_that_waits_no_more_has_no_time_limit(db):
    parent, limited = db.defer("p"), {"event": "e", "within": "1h"}
    jobs = [db.defer("a", wait_for=limited) for _ in range(3)] + [db.defer("a", wait_for=limited, after=parent)]
    settle(db)
    end(db, parent, "failed")
    settle(db)
    db.sql("select deferred.cancel(%s), deferred.flow_release(%s)", jobs[0], jobs[1])
    db.sql("update deferred.__deferred_awaited set until = clock_timestamp()")
    with db.connect() as other, other.cursor() as cursor:
        cursor.execute("select from deferred.__deferred_hot where id = %s for update", (jobs[2],))
        assert db.one("select deferred.__settle(10)") == 3, "the third one is looked at later"
        assert db.one("select deferred.__settle(10)") == 0
        assert states(db, *jobs) == ["cancelled", "ready", "waiting", "cancelled"]
        other.rollback()
    settle(db)
    assert states(db, *jobs) == ["cancelled", "ready", "cancelled", "cancelled"]
    assert db.one("select deferred.__settle_due()") is None
    clean(db)


def test_names_are_separate_for_each_role(db):
    db.sql("create role event_a login in role deferred_producer; create role event_b login in role deferred_producer")
    try:
        with db.connect(options="-c role=event_a") as a, a.cursor() as cursor:
            cursor.execute("select deferred.defer('a', '{}', '{\"wait_for\": \"e\"}')")
            job = cursor.fetchone()[0]
            a.commit()
            with db.connect(options="-c role=event_b") as b, b.cursor() as other:
                other.execute("select deferred.send_event('e', '\"b\"')")
                b.commit()
                settle(db)
                assert states(db, job) == ["waiting"]
                with pytest.raises(
                    pgerror.InsufficientPrivilege,
                    match="role 'event_b' may not send events to jobs of role 'event_a'\n.*grant event_a to event_b",
                ):
                    other.execute("select deferred.send_event('e', '1', role => 'event_a')")
                b.rollback()
                with pytest.raises(pgerror.InsufficientPrivilege):
                    other.execute("select deferred.send_event('e', '1', role => 'nobody here')")
                b.rollback()
                for forbidden in ("select * from deferred.__deferred_event", "table deferred.__deferred_awaited"):
                    with pytest.raises(pgerror.InsufficientPrivilege):
                        other.execute(forbidden)
                    b.rollback()
                db.sql("grant event_a to event_b")
                other.execute("select deferred.send_event('e', '\"for a\"', role => 'event_a')")
                b.commit()
            settle(db)
            assert states(db, job) == ["ready"]
            assert got(db, job) == {"e": "for a"}
            assert db.sql("select owner, sent_by from deferred.__deferred_event order by id desc limit 1") == [
                ("event_a", "event_b")
            ]
    finally:
        db.sql("drop owned by event_a, event_b; drop role event_a, event_b")
    clean(db)


def test_what_is_no_event_or_no_wait_is_refused(db):
    for value in (
        {"event": ""},
        {"event": "e" * 201},
        {"event": 7},
        {"event": None},
        {"within": "1h"},
        {"event": "e", "within": "0"},
        {"event": "e", "on_timeout": "run"},
        {"event": "e", "within": "1h", "on_timeout": "retry"},
        {"event": "e", "as": ""},
        {"event": "e", "as": "a" * 101},
        {"event": "e", "job": 1},
        7,
        [["e"]],
        True,
    ):
        with pytest.raises(pgerror.InvalidParameterValue, match="option 'wait_for' has the invalid value"):
            db.defer("a", wait_for=value)
    for value, says in (
        ([], "option 'wait_for' names no event"),
        (["e", {"event": "e", "as": "f"}], "option 'wait_for' names event 'e' twice"),
        ({"event": "e", "within": "soon"}, "option 'within': 'soon' is not a time span"),
        ([f"e{i}" for i in range(1001)], "names 1001 jobs, but 1 to 1000"),
    ):
        with pytest.raises(pgerror.InvalidParameterValue, match=says):
            db.defer("a", wait_for=value)
    with pytest.raises(pgerror.InvalidParameterValue, match="option 'wait_for' is not allowed for a message"):
        db.sql("""select deferred.defer(null, '{}', '{"queue": "q", "wait_for": "e"}')""")
    for args, error in (
        ("''", pgerror.InvalidParameterValue),
        ("null", pgerror.InvalidParameterValue),
        ("repeat('e', 201)", pgerror.InvalidParameterValue),
        ("'e', '1', '-1 s'", pgerror.NumericValueOutOfRange),
        ("'e', '1', '200 years'", pgerror.NumericValueOutOfRange),
        ("'e', to_json(repeat('x', 65535))", pgerror.ProgramLimitExceeded),
        ("'e', (repeat('[', 600) || repeat(']', 600))::json", pgerror.ProgramLimitExceeded),
    ):
        with pytest.raises(error):
            db.sql(f"select deferred.send_event({args})")
    assert db.one("select count(*) from deferred.__deferred_event") == 0
    job = db.defer("a", wait_for=None)
    assert states(db, job) == ["ready"]
    key = db.defer("a", key="k", wait_for="e")
    assert db.defer("a", key="k", wait_for="f") == key
    assert db.sql("select name from deferred.__deferred_awaited") == [("e",)]
    clean(db)


def test_jobs_of_a_flow_wait_for_events(db):
    def flow(**more):
        spec = {
            "jobs": [
                {"name": "pack", "fn": "a"},
                {"name": "ship", "fn": "a", "after": ["pack"], "wait_for": {"event": "ok", "within": "1h"}},
                {"fn": "a", "after": ["ship", old]},
                {"fn": "a", "after": ["pack", old], "wait_for": "ok2"},
            ],
            "then": [{"fn": "report", "on": "failed"}],
            **more,
        }
        return db.one("select deferred.defer_flow(%s)", json.dumps(spec))

    old = db.defer("a")
    number = flow()
    pack, ship, behind, mixed, report = [r[0] for r in db.sql("select id from deferred.flow_jobs(%s)", number)]
    settle(db)
    clean(db)
    end(db, old)
    end(db, pack)
    settle(db)
    assert states(db, pack, ship, behind, mixed, report) == ["done"] + ["waiting"] * 4
    time_is_up(db, ship)
    assert states(db, ship, behind, mixed, report) == ["cancelled", "cancelled", "waiting", "waiting"]
    send(db, "ok2")
    settle(db)
    end(db, mixed)
    settle(db)
    assert states(db, report) == ["ready"]
    clean(db)
    assert db.one("select deferred.flow_retry(%s)", number)
    while db.one("select deferred.__flow_retry_some()"):
        pass
    settle(db)
    assert states(db, ship, behind) == ["waiting", "waiting"], "the wait begins again"
    assert db.one("select until - clock_timestamp() > '50 min' from deferred.__deferred_awaited where child = %s", ship)
    clean(db)
    send(db, "ok", "yes")
    settle(db)
    assert states(db, ship, behind) == ["ready", "waiting"] and got(db, ship) == {"ok": "yes"}
    end(db, ship)
    settle(db)
    assert states(db, behind) == ["ready"]
    clean(db)
    # What waits in vain has the rest cancelled, where a failure does.
    db.sql("update deferred.__deferred_event set kept_until = '2000-01-02', sent_at = '2000-01-01'")
    number = flow(on_failure="cancel")
    pack, ship, behind, mixed, report = [r[0] for r in db.sql("select id from deferred.flow_jobs(%s)", number)]
    settle(db)
    time_is_up(db, ship)
    settle(db)
    assert states(db, pack, ship, behind, mixed) == ["cancelled"] * 4
    clean(db)
    with pytest.raises(pgerror.InvalidParameterValue, match="callback 1 has the option 'wait_for'"):
        flow(then=[{"fn": "a", "wait_for": "e"}])
    opened = db.one("select deferred.flow_open()")
    added = db.defer("a", flow=opened, wait_for="added")
    db.sql("select deferred.flow_close(%s)", opened)
    settle(db)
    send(db, "added")
    settle(db)
    assert states(db, added) == ["ready"]
    clean(db)


def housekeep(db, times=1):
    for _ in range(times):
        db.sql("update deferred.__deferred_event set look_at = kept_until where kept_until <= clock_timestamp()")
        db.sql("select deferred.__forget_events(1000)")
    return [r[0] for r in db.sql("select name from deferred.__deferred_event order by id")]


def test_housekeeping_removes_what_is_kept_no_longer_and_nobody_got(db):
    for name in ("got", "spare", "kept", "taken"):
        send(db, name, keep="1 day")
    job = db.defer("a", wait_for="got")
    settle(db)
    taken = db.defer("a", wait_for="taken")  # and its note is not processed yet
    with db.connect() as other, other.cursor() as cursor:
        cursor.execute("select deferred.defer('a', '{}', '{\"wait_for\": \"spare\"}')")
        late = cursor.fetchone()[0]
        db.sql(
            "update deferred.__deferred_event set kept_until = clock_timestamp(), look_at = clock_timestamp()"
            " where name <> 'kept'"
        )
        db.sql("update deferred.__deferred_upkeep set repaired_at = '-infinity'")
        db.sql("select deferred.maintain()")
        assert db.one("select count(*) from deferred.__deferred_event where over_xid is not null") == 3
        assert housekeep(db, 3) == ["got", "spare", "kept", "taken"], "that transaction was open then"
        other.commit()
    assert housekeep(db, 2) == ["got", "spare", "kept", "taken"], "for these jobs it came in time"
    settle(db)
    assert states(db, late, taken) == ["ready"] * 2
    assert housekeep(db, 2) == ["got", "spare", "kept", "taken"], "a retry of the job gets it again"
    for other in (job, late, taken):
        db.sql("select deferred.cancel(%s)", other)
    db.sql("delete from deferred.__deferred_log")
    db.sql("select deferred.__purge_jobs('0s', 0, 100)")
    assert db.one("select count(*) from deferred.__deferred_awaited") == 0
    # A row goes when all transactions of its time have ended, also those of other databases.
    wait_for(lambda: housekeep(db) == ["kept"], 60)
    # As in a cluster into which a dump was restored.
    db.sql("update deferred.__deferred_event set kept_until = '2000-01-01', over_xid = '9999999999'")
    assert housekeep(db) == ["kept"]
    wait_for(lambda: housekeep(db) == [], 60)
    clean(db)


def test_a_transaction_that_deferred_before_the_event_gets_it_though_it_was_not_kept(db):
    with db.connect() as other, other.cursor() as cursor:
        cursor.execute("select deferred.defer('a', '{}', '{\"wait_for\": \"e\"}')")
        job = cursor.fetchone()[0]
        send(db, "e", 1, keep="0")
        settle(db)
        assert housekeep(db, 3) == ["e"]
        other.commit()
    assert housekeep(db, 3) == ["e"]
    settle(db)
    assert states(db, job) == ["ready"] and got(db, job) == {"e": 1}


def test_nobody_is_blocked_by_who_has_sent_or_waits(db):
    """Neither another sender, nor a job that waits, nor a worker that processes notes."""
    first = db.defer("a", wait_for="e")
    settle(db)
    with db.connect() as other, other.cursor() as cursor:
        cursor.execute("select deferred.send_event('e', '1'), deferred.defer('a', '{}', '{\"wait_for\": \"e\"}')")
        cursor.execute("select deferred.cancel(%s)", (first,))
        db.sql("set lock_timeout = '5s'")
        send(db, "e", 2)
        second = db.defer("a", wait_for="e")
        db.sql("select deferred.__settle(100), deferred.__settle(100)")
        assert states(db, first, second) == ["waiting", "ready"]
        other.rollback()
    settle(db)
    assert states(db, first) == ["ready"] and got(db, first) == {"e": 2}
    clean(db)


def test_tiny_slices_reach_all_jobs_and_let_others_pass(db):
    """What is left of a note comes behind the notes that others left."""
    jobs = [db.defer("a", wait_for="e") for _ in range(12)]
    parent = db.defer("p")
    many, other = [db.defer("c", after=parent) for _ in range(12)], db.defer("p")
    child = db.defer("c", after=other)
    settle(db)
    for step in (lambda: send(db, "e"), lambda: end(db, parent), lambda: end(db, other)):
        step()
    for _ in range(3):
        db.sql("select deferred.__settle(4)")
    assert states(db, child) == ["ready"]
    assert db.one("select count(*) from deferred.__deferred_hot where due_at = 'infinity'") > 8
    clean(db)
    settle(db, 4)
    assert states(db, *jobs, *many) == ["ready"] * 24
    clean(db)


@pytest.mark.slow
def test_an_event_is_passed_on_in_slices(db):
    jobs = 100_000
    db.sql(
        "select count(deferred.defer('a', '{}'::json,"
        " '{\"wait_for\": {\"event\": \"e\", \"within\": \"1h\"}}'::json)) from generate_series(1, %s)",
        jobs,
    )
    while db.one("select deferred.__settle(20000)"):
        pass
    db.sql("vacuum analyze deferred.__deferred_awaited, deferred.__deferred_hot, deferred.__deferred_wait")
    send(db, "e", {"a": 1})
    parent = db.defer("p")
    child = db.defer("c", after=parent)
    settle_once = "select deferred.__settle(1000)"
    end(db, parent)
    plan = db.one(f"explain (analyze, buffers, format json) {settle_once}")[0]["Plan"]
    db.sql(settle_once)
    left = "select count(*) from deferred.__deferred_awaited where sent is null"
    assert jobs - 2002 <= db.one(left) < jobs - 1000, "a call processes about 1,000 jobs"
    assert states(db, child) == ["ready"], "others do not wait for the last slice"
    first = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    calls = 0
    while db.one("select exists (select from deferred.__deferred_ended)"):
        calls += 1
        assert calls < 300
        db.sql("select deferred.__settle(1000)")
    assert db.one(left) == 0 and calls > 90
    assert db.one("select count(*) from deferred.__deferred_hot where due_at is null") == jobs + 1
    assert first < 100_000, "a slice does not read all that wait"
    clean(db)


class Draw:
    """Transactions that are open at once, on a few connections, with events and jobs of a few names."""

    def __init__(self, db, rng):
        self.db, self.rng = db, rng
        self.open = [db.connect() for _ in range(3)]
        self.doing = [[] for _ in self.open]
        self.clock = 0
        self.sent, self.jobs = [], []

    def act(self):
        n = self.rng.randrange(len(self.open))
        name = self.rng.choice("ef")
        self.clock += 1
        cursor = self.open[n].cursor()
        what = self.rng.random()
        if what < 0.3:
            keep = self.rng.choice(("0", "1 day"))
            cursor.execute("select deferred.send_event(%s, %s, %s)", (name, str(self.clock), keep))
            self.doing[n].append(("sent", (name, self.clock, keep)))
        elif what < 0.6:
            cursor.execute("select deferred.defer('a', '{}', %s)", (json.dumps({"wait_for": name}),))
            self.doing[n].append(("jobs", (cursor.fetchone()[0], name, self.clock)))
        elif what < 0.85:
            self.end(n, self.rng.random() < 0.7)
        else:
            self.db.sql("update deferred.__deferred_ended set not_before = '-infinity' where late")
            self.db.sql("begin")
            self.db.sql("select deferred.__settle(%s)", self.rng.choice((1, 2, 5, 50)))
            self.db.sql(self.rng.choice(("commit", "commit", "rollback")))

    def end(self, n, commit):
        (self.open[n].commit if commit else self.open[n].rollback)()
        for kind, what in self.doing[n] if commit else ():
            getattr(self, kind).append(what)
        self.doing[n] = []

    def check(self):
        for n, connection in enumerate(self.open):
            self.end(n, self.rng.random() < 0.8)
            connection.close()
        clean(self.db)
        settle(self.db)
        clean(self.db)
        for job, name, at in self.jobs:
            counts = {when for e, when, keep in self.sent if e == name and (when > at or keep != "0")}
            assert states(self.db, job) == ["ready" if counts else "waiting"], (job, name, at)
            assert not counts or got(self.db, job)[name] in counts


@pytest.mark.parametrize("n", range(DRAWS))
def test_random_transactions_lose_no_event_and_no_job(db, seed, n):
    draw = Draw(db, random.Random(seed + n))
    for _ in range(60):
        draw.act()
    draw.check()
