"""Jobs that wait are changed: deferred.update(). A job runs once, as it was or with all its changes, whatever is
claimed at the same moment."""

import concurrent.futures
import json
import os
import random

import psycopg2
import psycopg2.errors as pgerror
import pytest

from harness import ledger, wait_for
from test_claim import ids, lapse, many, row, worker  # noqa: F401
from test_keys import acting, roles  # noqa: F401
from test_limits import Limited, setq
from test_waits import settle

Q = "letters"

HOUR = 3600


def update(db, job, **changes):
    return db.one("select deferred.update(%s, %s::json)", job, json.dumps(changes))


def stored(db, job, *columns):
    return db.sql(f"select {', '.join(columns)} from deferred.__deferred where id = %s", job)[0]


def refused(db, kind, job, *texts, **changes):
    with pytest.raises(kind) as e:
        update(db, job, **changes)
    for text in texts:
        assert text in str(e.value), (text, str(e.value))


# ---- what changes


def test_each_change_is_stored_and_nothing_else_changes(db, worker):
    job = db.defer("noop", '{"a": 1}', label="l", key="k", priority=3, timeout="5s", max_attempts=4, tags=["t"])
    every = "to_jsonb(d)"
    for changes, columns in (
        ({"queue": "other"}, {"queue": "other"}),
        ({"priority": -7}, {"priority": -7}),
        ({"label": "m"}, {"label": "m"}),
        ({"label": None}, {"label": None}),
        ({"max_attempts": 9}, {"max_attempts": 9}),
        ({"max_attempts": None}, {"max_attempts": None}),
        ({"timeout": "1min"}, {"timeout_ms": 60000}),
        ({"timeout": None}, {"timeout_ms": None}),
        ({"params": [1, {"b": None}]}, {"params": [1, {"b": None}]}),
        ({"params": None}, {"params": None}),
        ({"queue": "default", "priority": 3}, {"queue": "default", "priority": 3}),
    ):
        before = db.one(f"select {every} from deferred.__deferred d where id = %s", job)
        assert update(db, job, **changes) is True
        after = db.one(f"select {every} from deferred.__deferred d where id = %s", job)
        assert after == {**before, **columns}, changes
        hot = row(db, job)
        assert all(hot[name] == after[name] for name in ("queue", "priority", "max_attempts", "fn"))
    assert hot["key"].endswith(":k") and hot["due_at"] is None
    w = worker()
    (mine,) = w.take()
    assert (mine.id, mine.priority, mine.params) == (job, 3, None)
    assert update(db, 99, label="l") is False


def test_params_are_kept_byte_for_byte_and_their_size_is_known_to_claims(db, worker):
    job = db.defer("noop")
    large = '{"b":  12345678901234567890123, "a": 1e99999, "a": "' + "x" * 5000 + '"}'
    assert db.one("select deferred.update(%s, %s::json)", job, '{ "params" : ' + large + "}")
    assert db.one("select params::text from deferred.__deferred") == large
    assert row(db, job)["params_bytes"] == len(large)
    update(db, job, params={})
    assert row(db, job)["params_bytes"] is None
    assert ids(worker().take()) == [job]


def test_a_time_is_set_moved_and_taken_away(db, worker):
    w = worker()
    job = db.defer("noop")
    soon = "extract(epoch from {} - clock_timestamp())"
    for changes, seconds in (({"delay": "1h"}, HOUR), ({"delay": "2h", "priority": 1}, 2 * HOUR)):
        update(db, job, **changes)
        due, run_at = db.sql(f"select {soon.format('due_at')}, {soon.format('run_at')} from deferred.__deferred_hot "
                             "join deferred.__deferred using (id)")[0]  # fmt: skip
        assert seconds - 60 < due <= seconds and seconds - 60 < run_at <= seconds
        assert w.take() == []
    update(db, job, run_at="2099-01-31 14:30+00", delay="1s")
    assert row(db, job)["due_at"].startswith("2099-01-31T14:30")
    update(db, job, label="x")
    assert row(db, job)["due_at"].startswith("2099-01-31T14:30") and w.take() == []
    update(db, job, delay="0")
    assert row(db, job)["due_at"] is None and stored(db, job, "run_at") == (None,)
    update(db, job, run_at="2000-01-01")
    assert row(db, job)["due_at"] is None and stored(db, job, "run_at") == (None,)
    assert ids(w.take()) == [job]


def test_a_job_that_waits_for_others_goes_on_waiting(db, worker):
    w = worker()
    parent = db.defer("noop")
    late, now = db.defer("noop", after=parent, priority=1), db.defer("noop", after=parent, delay="1h")
    update(db, late, delay="1h", queue="other", params=[1])
    update(db, now, delay="0")
    assert [row(db, job)["due_at"] for job in (late, now)] == ["infinity"] * 2
    (mine,) = w.take()
    assert mine.id == parent
    w.done(mine)
    w.commit()
    settle(db)
    assert row(db, late)["due_at"] not in (None, "infinity") and row(db, now)["due_at"] is None
    assert ids(w.take()) == [now]


def test_the_label_of_a_mail_follows_its_subject(db):
    job = db.defer("send_mail", '{"subject": "old"}')
    update(db, job, params={"subject": "new"})
    assert stored(db, job, "label") == ("new",)
    update(db, job, label="mine")
    update(db, job, params={"subject": "newest"})
    assert stored(db, job, "label") == ("mine",)
    update(db, job, label=None)
    assert stored(db, job, "label") == ("newest",)


# ---- lanes


def test_what_stays_in_its_lane_keeps_its_place_and_what_moves_goes_behind(db, worker):
    w = worker()
    jobs = many(db, 4, queue="q")
    other = many(db, 1, queue="r")
    for change in ({"label": "l"}, {"params": [1]}, {"max_attempts": 5}, {"timeout": "1s"}, {"priority": 0}):
        update(db, jobs[0], **change)
    update(db, jobs[1], queue="r")
    assert ids(w.take(2, window=1, queues=["q"])) == [jobs[0], jobs[2]]
    assert ids(w.take(2, window=1, queues=["r"])) == [*other, jobs[1]]
    assert ids(w.take()) == [jobs[3]]


@pytest.mark.parametrize("change", [{"queue": "r"}, {"priority": 5}, {"params": [1]}, {"delay": "0"}])
@pytest.mark.parametrize("left", [0, 2])
def test_the_cursor_skips_no_job_that_was_moved(db, worker, change, left):
    """Into a lane that was handed out to its end, or behind one that has jobs left over; back and forth."""
    w = worker()
    jobs = many(db, 6, queue="q")
    newer = many(db, 1, queue="r") + many(db, 1, queue="q", priority=5)
    assert ids(w.take(queues=["r"])) + ids(w.take(1, queues=["q"])) == newer
    taken = ids(w.take(3, window=6 if left else 1, queues=["q"]))
    rest = [job for job in jobs if job not in taken]
    for job in rest[left:]:
        update(db, job, **change)
    update(db, rest[-1], queue="q", priority=0)
    assert sorted(ids(w.take())) == rest
    assert w.take() == []


def test_a_job_moves_into_and_out_of_limits(db, worker):
    w = Limited(db, "host:/limited")
    setq(db, "narrow", max_running=1)
    setq(db, "wide")
    jobs = many(db, 3, queue="wide")
    for job in jobs:
        update(db, job, queue="narrow")
    assert [row(db, job)["limited"] for job in jobs] == [True] * 3 and w.claim() == []
    w.commit()
    held = w.take()
    assert len(held) == 1
    refused(db, pgerror.ObjectInUse, held[0].id, "is claimed", queue="wide")
    rest = [job for job in jobs if job != held[0].id]
    for job in rest:
        update(db, job, queue="wide")
    assert [row(db, job)["limited"] for job in rest] == [False] * 2
    assert sorted(ids(w.claim())) == rest
    w.commit()
    w.done(*held)
    w.connection.close()


def test_a_job_that_nobody_has_the_function_of_is_looked_at_again_where_it_moves(db, worker):
    w = worker()
    db.sql(
        "insert into deferred.__deferred_offer (host, origin, catalog, fn, plugin, timeout_ms, max_attempts) "
        "values ('h', 'o', 1, '{known}', '{p}', '{0}', '{0}')"
    )
    job = db.defer("strange")
    assert w.take(known=["known"]) == []
    assert row(db, job)["unknown"] is True
    update(db, job, label="l")
    assert row(db, job)["unknown"] is True
    update(db, job, delay="1h")
    assert (row(db, job)["unknown"], row(db, job)["limited"]) == (False, False)
    update(db, job, delay="0", queue="other")
    assert ids(w.take()) == [job]


# ---- claims at the same moment


def test_a_claimed_job_is_refused_and_so_is_one_that_has_ended(db, worker):
    w = worker()
    job = db.defer("noop")
    (mine,) = w.take()
    refused(db, pgerror.ObjectInUse, job, f"job {job} is claimed", "HINT:", priority=5)
    lapse(db, mine)
    refused(db, pgerror.ObjectInUse, job, f"job {job} is claimed", priority=5)
    assert w.lost() == 1
    update(db, job, params=[2])
    (mine,) = w.take()
    assert mine.params == [2]
    w.done(mine)
    w.commit()
    refused(db, pgerror.ObjectInUse, job, f"job {job} has ended", priority=5)
    gone = db.defer("noop")
    db.sql("select deferred.cancel(%s)", gone)
    refused(db, pgerror.ObjectInUse, gone, f"job {gone} has ended", priority=5)
    assert stored(db, job, "priority") == stored(db, gone, "priority") == (0,)


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_an_update_waits_for_the_claim_under_way(db, worker, ends):
    w = worker()
    w.take()
    job = db.defer("noop")
    assert ids(w.claim()) == [job]
    with concurrent.futures.ThreadPoolExecutor() as pool, db.connect() as c, c.cursor() as cursor:
        waiting = pool.submit(cursor.execute, "select deferred.update(%s, '{\"params\": [1]}')", [job])
        wait_for(
            lambda: db.one("select count(*) from pg_stat_activity where wait_event_type = 'Lock' and pid = %s",
                           c.info.backend_pid)  # fmt: skip
        )
        getattr(w, ends)()
        if ends == "commit":
            with pytest.raises(pgerror.ObjectInUse):
                waiting.result()
        else:
            waiting.result()
    assert stored(db, job, "params") == ({} if ends == "commit" else [1],)
    c.close()
    if ends == "rollback":
        assert [j.params for j in w.take()] == [[1]]


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("change", [{"queue": "r", "params": [1]}, {"params": [1]}, {"label": "l", "params": [1]}])
def test_a_claim_passes_by_what_is_being_changed(db, worker, change, ends):
    w = worker()
    jobs = many(db, 3)
    with db.connect() as c, c.cursor() as cursor:
        cursor.execute("select deferred.update(%s, %s)", [jobs[0], json.dumps(change)])
        assert sorted(ids(w.take())) == jobs[1:]
        assert w.take() == []
        getattr(c, ends)()
    c.close()
    (mine,) = w.take()
    assert (mine.id, mine.params) == (jobs[0], [1] if ends == "commit" else {})


def test_a_change_in_an_old_snapshot_fails(db, worker):
    w = worker()
    job = db.defer("noop")
    with db.connect() as c, c.cursor() as cursor:
        cursor.execute("set transaction isolation level repeatable read; select 1")
        w.take()
        with pytest.raises((pgerror.SerializationFailure, pgerror.ObjectInUse)):
            cursor.execute("select deferred.update(%s, '{\"params\": [1]}')", [job])
    c.close()
    assert stored(db, job, "params") == ({},)


def test_jobs_are_changed_while_workers_run_them(db, seed):
    """Each job runs once, as the last change that was accepted says, in any order of claims and changes."""
    rng = random.Random(seed)
    jobs = []
    for i in range(1500):
        jobs.append(db.defer("echo", "[0]", queue=f"q{i % 3}", priority=i % 2))
    expected, done = {job: [0] for job in jobs}, []

    def edit(n):
        own = random.Random(f"{seed} {n}")
        mine = [job for job in jobs if job % 4 == n]
        c = db.connect()
        c.autocommit = True
        with c.cursor() as cursor:
            while not done and mine:
                job = own.choice(mine)
                changes = {"params": [own.randrange(1, 1000)]}
                if own.random() < 0.5:
                    changes["queue"] = f"q{own.randrange(3)}"
                if own.random() < 0.5:
                    changes["priority"] = own.randrange(2)
                if own.random() < 0.2:
                    changes["delay"] = own.choice(["0", "100ms"])
                try:
                    cursor.execute("select deferred.update(%s, %s)", [job, json.dumps(changes)])
                    expected[job] = changes["params"]
                except pgerror.ObjectInUse:
                    mine.remove(job)
        c.close()

    with concurrent.futures.ThreadPoolExecutor() as pool:
        editors = [pool.submit(edit, n) for n in range(4)]
        workers = [
            db.spawn(["check_deferred", "--loop", "--runners", "2", "--pidfile", f"{db.pidfile}.{n}"]) for n in range(2)
        ]
        try:
            wait_for(lambda: db.hot() == 0, 120, "all jobs to end")
        finally:
            done.append(True)
        for editor in editors:
            editor.result()
        for w in workers:
            w.kill()
    ran = db.sql("select job_id, outcome, result from deferred.__deferred_log order by job_id")
    assert [(job, outcome) for job, outcome, _ in ran] == [(job, "ok") for job in jobs]
    wrong = [(job, result, expected[job]) for job, _, result in ran if json.loads(result) != expected[job]]
    assert not wrong
    ledger(db)


# ---- the target queue


def test_the_limits_of_the_target_queue_count(db, worker):
    setq(db, "small", max_length=2, params_max_bytes=100)
    setq(db, "drops", max_length=1, on_full="drop")
    setq(db, "brief", ttl_ms=60000)
    jobs = many(db, 4)
    for job in jobs[:2]:
        update(db, job, queue="small")
    refused(db, pgerror.ConfigurationLimitExceeded, jobs[2], "queue 'small' is full", "HINT:", queue="small")
    with pytest.raises(pgerror.ConfigurationLimitExceeded):
        db.defer("noop", queue="small")
    update(db, jobs[0], queue="small", priority=4)  # it is there already
    update(db, jobs[0], queue="drops")
    refused(db, pgerror.ConfigurationLimitExceeded, jobs[2], "queue 'drops' is full", queue="drops")
    assert db.defer("noop", queue="drops") is None
    update(db, jobs[0], queue="default")
    assert row(db, jobs[0])["bounded"] is False and row(db, jobs[1])["bounded"] is True
    update(db, jobs[3], params="x" * 200)
    refused(db, pgerror.ProgramLimitExceeded, jobs[3], "but queue 'small' allows 100", queue="small")
    refused(db, pgerror.ProgramLimitExceeded, jobs[1], "but queue 'small' allows 100", params="x" * 200)
    refused(db, pgerror.ProgramLimitExceeded, jobs[3], "nest deeper", params=json.loads("[" * 600 + "]" * 600))
    assert row(db, jobs[3])["expires_at"] is None
    update(db, jobs[3], queue="brief")
    assert db.one("select expires_at - now() <= '1 min' from deferred.__deferred_hot where id = %s", jobs[3])
    assert stored(db, jobs[3], "expires_at is not null") == (True,)


def test_a_job_moves_to_a_queue_that_is_paused_new_or_was_removed(db, worker):
    w = worker()
    setq(db, "still", paused=True)
    setq(db, "gone")
    db.sql("select deferred.__queue_rm('gone')")
    jobs = many(db, 3)
    for job, queue in zip(jobs, ("still", "new", "gone")):
        update(db, job, queue=queue)
    assert sorted(ids(w.take())) == jobs[1:]
    assert db.sql("select name from deferred.__deferred_queue where removed_at is null order by 1") == [
        ("default",), ("gone",), ("new",), ("still",)
    ]  # fmt: skip
    setq(db, "still", paused=False)
    assert ids(w.take()) == jobs[:1]


def test_a_key_that_is_taken_in_the_target_queue_refuses_the_job(db, worker):
    first, second = db.defer("noop", key="k"), db.defer("noop", key="k", queue="other")
    refused(
        db, pgerror.UniqueViolation, first,
        f"job {first} cannot be moved: job {second} of queue 'other' has key 'k' already", "HINT:", queue="other",
    )  # fmt: skip
    assert stored(db, first, "queue") == ("default",) and row(db, first)["queue"] == "default"
    update(db, first, priority=3)
    db.sql("select deferred.cancel(%s)", second)
    update(db, first, queue="other")
    assert db.defer("noop", key="k", queue="other") == first and db.defer("noop", key="k") != first


@pytest.mark.parametrize("until", ["end", "start", "10min"])
def test_a_job_takes_its_key_along(db, worker, until):
    """However long it holds the key; where the key is held in the target queue, also after an end, it is refused."""
    w = worker()
    job = db.defer("f", key="k", key_until=until)
    ended = db.defer("f", key="k", key_until="10min", queue="kept")
    (mine,) = w.take(queues=["kept"])
    w.done(mine)
    w.commit()
    refused(db, pgerror.UniqueViolation, job, f"job {ended} of queue 'kept' has key 'k' already", queue="kept")
    update(db, job, queue="q")
    assert db.defer("f", key="k", queue="q", key_until=until) == job
    other = db.defer("f", key="k", key_until=until)
    assert other != job
    refused(db, pgerror.UniqueViolation, job, f"job {other} of queue 'default' has key 'k'", queue="default")
    (mine,) = w.take(queues=["q"])
    w.retry(mine, delay_ms=60000)
    w.commit()
    update(db, job, queue="r")
    assert (db.defer("f", key="k", queue="r") == job) == (until != "start")


# ---- messages


def test_a_message_is_changed_while_nobody_holds_it(db):
    job = db.defer(None, '"old"', queue=Q)
    update(db, job, params="new", label="l")
    (taken,) = db.sql("select id, receipt, params from deferred.claim(%s, 1, 60000)", Q)
    assert taken[::2] == (job, "new")
    refused(db, pgerror.ObjectInUse, job, "is claimed", label="m")
    db.sql("update deferred.__deferred_hot set visible_at = clock_timestamp(), due_at = clock_timestamp()")
    update(db, job, delay="1h")
    assert db.sql("select id from deferred.claim(%s)", Q) == []
    with pytest.raises(pgerror.ObjectNotInPrerequisiteState):
        db.sql("select deferred.finish(%s, %s)", job, taken[1])
    assert db.one("select state from deferred.job") == "delayed"
    update(db, job, delay="0")
    assert db.sql("select id from deferred.claim(%s)", Q) == [(job,)]
    assert db.sql("select * from deferred.check_ledger()") == []


def test_a_message_becomes_a_call_where_its_new_queue_has_a_function(db, worker):
    w = worker()
    setq(db, "calls", fn="f")
    job = db.defer(None, '"text"', queue=Q)
    update(db, job, queue="calls")
    (mine,) = w.take()
    assert (mine.id, mine.fn, mine.params) == (job, "f", "text")
    job = db.defer(None, '"text"', queue=Q, max_attempts=1)
    db.sql("select deferred.claim(%s)", Q)
    db.sql("update deferred.__deferred_hot set visible_at = clock_timestamp() where id = %s", job)
    db.sql("update deferred.__deferred_hot set due_at = visible_at where id = %s", job)
    update(db, job, queue="calls", delay="0")
    (mine,) = w.take()
    assert (mine.id, mine.attempt, mine.attempt_base) == (job, 2, 1)


# ---- bad input


@pytest.mark.parametrize(
    "changes, kind, text",
    [
        (None, "22023", "changes must be a JSON object, but a JSON null was given"),
        ("[]", "22023", "changes must be a JSON object, but a JSON array was given"),
        ("null", "22023", "changes must be a JSON object, but a JSON null was given"),
        ("{}", "22023", "changes name nothing to change"),
        ('{"key": "k"}', "22023", "change 'key' is unknown"),
        ('{"fn": "f", "priority": 1}', "22023", "change 'fn' is unknown"),
        ('{"params": {"a": "\\u0000"}}', "22P05", "changes: the escape \\u0000 cannot be stored as text"),
        ('{"label": "\\u0000"}', "22P05", "changes: the escape \\u0000 cannot be stored as text"),
        ('{"\\u0000": 1}', "22P05", "changes: the escape \\u0000 cannot be stored as text"),
        ('{"priority": 1e999999}', "22003", "changes: a number is too large"),
        ('{"priority": null}', "22004", "option 'priority' is null"),
        ('{"queue": null}', "22004", "option 'queue' is null"),
        ('{"delay": null}', "22004", "option 'delay' is null"),
        ('{"run_at": null}', "22004", "option 'run_at' is null"),
        ('{"priority": "high"}', "22023", "option 'priority' is not a number: 'high'"),
        ('{"priority": 1.5}', "22023", "option 'priority' is not a number: '1.5'"),
        ('{"priority": 32768}', "22003", "option 'priority' is out of range: 32768"),
        ('{"max_attempts": 0}', "22003", "option 'max_attempts' is out of range: 0"),
        ('{"max_attempts": []}', "22023", "option 'max_attempts' is not a number"),
        ('{"timeout": "0"}', "22003", "option 'timeout' is out of range: 0 ms"),
        ('{"timeout": "soon"}', "22023", "option 'timeout': 'soon' is not a time span"),
        ('{"delay": "-1h"}', "22023", "option 'delay': '-1h' is not a time span"),
        ('{"delay": "99999999d"}', "22023", "option 'delay': time span '99999999d' is too long"),
        ('{"run_at": "soon"}', "22023", "option 'run_at': 'soon' is not a time"),
        ('{"run_at": "infinity"}', "22003", "option 'run_at' is out of range: infinity"),
        ('{"run_at": "20000-01-01"}', "22003", "option 'run_at' is out of range"),
        ('{"label": "%s"}' % ("x" * 1001), "22003", "option 'label' is out of range: 1001 characters"),
        ('{"queue": ""}', "22023", "queue name '' is invalid"),
        ('{"queue": "a b"}', "22023", "queue name 'a b' is invalid"),
        ('{"queue": "%s"}' % ("q" * 89), "22023", "is invalid"),
        ('{"queue": {"a": 1}}', "22023", "is invalid"),
    ],
)
def test_bad_changes_are_refused(db, changes, kind, text):
    """In the words for a new job, and with a hint; also for a count by a filter."""
    job = db.defer("noop")
    before = db.sql(
        "select to_jsonb(d), to_jsonb(h) from deferred.__deferred d join deferred.__deferred_hot h using (id)"
    )
    for query, args in (
        ("select deferred.update(%s, %s)", (job, changes)),
        ("select * from deferred.__update_some(null, '{}', %s, null, true, 1000)", (changes,)),
    ):
        with pytest.raises(psycopg2.Error) as e:
            db.sql(query, *args)
        assert e.value.pgcode == kind and text in e.value.diag.message_primary and e.value.diag.message_hint
    assert before == db.sql(
        "select to_jsonb(d), to_jsonb(h) from deferred.__deferred d join deferred.__deferred_hot h using (id)"
    )


# ---- rights


def test_who_may_cancel_a_job_may_change_it(db, roles):
    ann, bob = roles
    job = acting(db, ann, "select deferred.defer('noop', '{}')")[0][0]
    change = "select deferred.update(%s, '{\"label\": \"l\"}')"
    assert acting(db, ann, change, job) == [(True,)] and acting(db, bob, change, job) == [(False,)]
    boss = f"boss_{os.getpid()}"
    db.sql(f"create role {boss} in role deferred_worker")
    try:
        assert acting(db, boss, change, job) == [(True,)]
    finally:
        db.sql(f"drop role {boss}")


def test_a_role_changes_nothing_but_jobs_of_its_own_by_a_filter(db, roles):
    ann, bob = roles
    job = acting(db, ann, "select deferred.defer('noop', '{}')")[0][0]
    some = "select done, refused from deferred.__update_some(null, '{}', '{\"priority\": 5}', null, %s, 1000)"
    for dry in (True, False):
        assert acting(db, bob, some, dry) == [(0, 0)]
    assert acting(db, ann, some, False) == [(1, 0)] and stored(db, job, "priority") == (5,)


def test_grants_limit_where_a_role_may_move_its_jobs(db, roles):
    ann, _ = roles
    job = acting(db, ann, "select deferred.defer('noop', '{}')")[0][0]
    db.sql("insert into deferred.__deferred_grant (role, queue) values (%s, 'default')", ann)
    with pytest.raises(pgerror.InsufficientPrivilege) as e:
        acting(db, ann, "select deferred.update(%s, '{\"queue\": \"other\"}')", job)
    assert "may not defer 'noop' to queue 'other'" in str(e.value)
    assert acting(db, ann, "select deferred.update(%s, '{\"priority\": 1}')", job) == [(True,)]
    db.sql("insert into deferred.__deferred_quota (creator, queues) values (%s, 0)", ann)
    db.sql("delete from deferred.__deferred_grant")
    with pytest.raises(pgerror.ConfigurationLimitExceeded):
        acting(db, ann, "select deferred.update(%s, '{\"queue\": \"other\"}')", job)
    assert stored(db, job, "queue") == ("default",)


# ---- by a filter


def test_a_filter_changes_what_waits_and_counts_what_is_refused(db, worker):
    w = worker()
    setq(db, "small", max_length=1)
    held = db.defer("noop", queue="h")
    w.take()
    ready, delayed = db.defer("noop"), db.defer("noop", delay="1h")
    waits = db.defer("noop", after=held)
    gone = db.defer("noop")
    db.sql("select deferred.cancel(%s)", gone)
    some = "select done, refused, why, after::text from deferred.__update_some(%s, %s, %s, null, %s, 1000)"
    assert db.sql(some, None, '{"fn": "noop"}', '{"priority": 5}', True) == [(3, 0, None, None)]
    assert db.sql(some, None, '{"fn": "noop"}', '{"priority": 5}', False) == [(3, 0, None, None)]
    assert db.sql("select id from deferred.__deferred where priority = 5 order by id") == [
        (ready,),
        (delayed,),
        (waits,),
    ]
    assert db.sql(some, "claimed", "{}", '{"priority": 6}', False) == [
        (0, 1, f"job {held} is claimed", None)
    ]  # fmt: skip
    done, refused_, why, _ = db.sql(some, None, "{}", '{"queue": "small"}', False)[0]
    assert (done, refused_) == (1, 2) and "queue 'small' is full" in why


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_a_change_by_a_filter_waits_for_the_claim_under_way(db, worker, ends):
    w = worker()
    w.take()
    jobs = many(db, 3)
    assert ids(w.claim(1)) == jobs[:1]
    some = "select done, refused, why from deferred.__update_some(null, '{}', '{\"params\": [1]}', null, false, 1000)"
    with concurrent.futures.ThreadPoolExecutor() as pool, db.connect() as c, c.cursor() as cursor:
        waiting = pool.submit(cursor.execute, some)
        wait_for(
            lambda: db.one("select count(*) from pg_stat_activity where wait_event_type = 'Lock' and pid = %s",
                           c.info.backend_pid)  # fmt: skip
        )
        getattr(w, ends)()
        waiting.result()
        answer = cursor.fetchone()
    c.close()
    assert answer == ((2, 1, f"job {jobs[0]} is claimed") if ends == "commit" else (3, 0, None))
    assert [stored(db, job, "params") for job in jobs] == [({} if ends == "commit" else [1],), ([1],), ([1],)]


def test_a_filter_takes_few_subtransactions(db):
    """The server remembers 64 of a transaction. More make each snapshot of other sessions slower."""
    many(db, 300)
    some = "select done, refused from deferred.__update_some(null, '{}', '{\"queue\": \"r\"}', null, false, 1000)"
    assert db.sql(some) == [(300, 0)]
    assert db.one("select count(distinct xmin::text) from deferred.__deferred_hot where queue = 'r'") == 1
    # One that is refused has each tried alone.
    setq(db, "small", params_max_bytes=10)
    jobs = [db.defer("noop", '"is too large"'), db.defer("noop", "1"), db.defer("noop", "2")]
    done, refused_, why = db.sql(
        "select done, refused, why from deferred.__update_some(null, %s, '{\"queue\": \"small\"}', null, false, 1000)",
        json.dumps({"fn": "noop", "queue": "default"}),
    )[0]
    assert (done, refused_) == (2, 1) and "have 14 bytes, but queue 'small' allows 10" in why
    assert [stored(db, job, "queue")[0] for job in jobs] == ["default", "small", "small"]


@pytest.mark.slow
def test_a_hundred_thousand_are_changed_by_a_filter(db, worker):
    """A thousand in a transaction, while a worker takes some of them."""
    w = worker()
    n = 100000
    db.sql("select deferred.defer_many((select json_agg(json_build_object('fn', 'f')) from generate_series(1, %s)))", n)
    taken = len(w.take(500))
    done = json.loads(db.run(["deferred", "update", "--fn", "f", "--to-queue", "r", "--params", "[1]", "--json"],
                             timeout=600).stdout)  # fmt: skip
    assert done == {"changed": n - taken, "refused": 0, "more": False}
    assert db.sql("select queue, params::text, count(*) from deferred.__deferred group by 1, 2 order by 1") == [
        ("default", "{}", taken), ("r", "[1]", n - taken)
    ]  # fmt: skip
    assert len(w.take(1000, queues=["r"])) == 1000
    assert db.one("select sum(jobs) from deferred.__deferred_action") == n - taken
