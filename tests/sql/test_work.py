"""Programs that claim calls by SQL: deferred.claim_jobs(), fail(), snooze(), progress(), step(), and finish() and
extend() for what they hold. Retries, keys, flows and limits hold for them as for check_deferred."""

import ctypes
import json
import random
import re
import subprocess
import threading

import psycopg2
import pytest

import pg

FIELDS = (
    "id, receipt, fn, params, attempt, max_attempts, queue, key, label, steps, parents, timeout_ms, tick, "
    "previous_tick, lease_ends_at"
)


class Job:
    def __init__(self, program, row):
        self.program = program
        for name, value in zip(FIELDS.split(", "), row):
            setattr(self, name, value)

    def call(self, function, *args):
        marks = ", ".join(["%s"] * (len(args) + 2))
        return self.program.ask(f"select deferred.{function}({marks})", self.id, self.receipt, *args)[0][0]

    def refused(self, function, *args, code="55000"):
        with pytest.raises(psycopg2.Error) as refused:
            self.call(function, *args)
        assert refused.value.pgcode == code, refused.value
        assert refused.value.diag.message_hint, refused.value
        return str(refused.value)


class Program:
    """A program that claims by SQL, with a connection of its own."""

    def __init__(self, db, name="app", **how):
        self.connection = db.connect(application_name=name, **how)
        self.connection.autocommit = True

    def ask(self, query, *args):
        with self.connection.cursor() as cursor:
            cursor.execute(query, args)
            return cursor.fetchall() if cursor.description else []

    def claim(self, n=1, fns=("f",), queues=None, lease=60000):
        rows = self.ask(f"select {FIELDS} from deferred.claim_jobs(%s, %s, %s, %s)", queues, list(fns), n, lease)
        return [Job(self, row) for row in rows]

    def soon(self, *args, **kw):
        """Some calls make jobs ready, and the next one finds them."""
        for _ in range(5):
            jobs = self.claim(*args, **kw)
            if jobs:
                return jobs
        raise AssertionError("nothing was claimed")


@pytest.fixture
def program(db):
    made = []

    def make(name="app", **how):
        made.append(Program(db, name, **how))
        return made[-1]

    yield make
    for one in made:
        one.connection.close()


def outcomes(db, job):
    return db.sql("select attempt, outcome, final from deferred.__deferred_log where job_id = %s order by 1", job)


def state(db, job):
    return db.one("select state from deferred.job where id = %s", job)


def due_ms(db, job):
    return db.one(
        "select (extract(epoch from due_at - (select max(finished_at) from deferred.__deferred_log where job_id = id)) "
        "* 1000)::bigint from deferred.__deferred_hot where id = %s",
        job,
    )


def ready(db, *jobs):
    """As if their delays had passed."""
    db.sql("update deferred.__deferred_hot set due_at = now() where id = any (%s)", list(jobs))


def lapse(db, *jobs):
    """The leases of these jobs have ended."""
    db.sql(
        "update deferred.__deferred_lease set claimed_at = claimed_at - interval '1 h', expires_at = now() - interval "
        "'1 s' where ids && %s::bigint[]::bigint[]",
        list(jobs),
    )


def leases(db):
    return db.one("select count(*) from deferred.__deferred_lease")


# ---- one job


def test_a_job_is_claimed_with_all_that_a_function_gets(db, program, ledger):
    job = db.defer("f", '{"a": 1}', key="k", label="l", max_attempts=3, timeout="300s", queue="q")
    db.defer("other")
    (got,) = program().claim(10)
    assert (got.id, got.fn, got.params, got.attempt, got.max_attempts) == (job, "f", {"a": 1}, 1, 3)
    assert (got.queue, got.key, got.label, got.steps, got.parents, got.timeout_ms) == (
        "q",
        "k",
        "l",
        None,
        None,
        300000,
    )
    assert got.tick is None and program("second").claim(10) == []
    assert state(db, job) == "claimed"
    got.call("finish", "done")
    assert outcomes(db, job) == [(1, "ok", True)]
    assert db.one("select deferred.result(%s)::text", job) and leases(db) == 0
    assert "it is finished already" in got.refused("finish", None)
    for refused in ("fail", "progress"):
        assert "it is finished already" in got.refused(refused)
    row = db.sql("select wait_us >= 0, run_us >= 0, started_at <= finished_at from deferred.__deferred_log")[0]
    assert row == (True, True, True)
    ledger(db)


def test_no_job_of_another_function_or_queue_is_claimed(db, program, ledger):
    mine = db.defer("f", queue="mine")
    db.defer("f", queue="other")
    db.defer("g", queue="mine")
    assert [j.id for j in program().claim(10, queues=["mine"])] == [mine]
    assert [j.fn for j in program("g").soon(10, ["g"], ["mine"])] == ["g"]
    ledger(db)


def test_jobs_of_one_claim_come_in_order_and_close_their_lease_with_the_last(db, program, ledger):
    jobs = [db.defer("f") for _ in range(5)]
    got = program().claim(5)
    assert [j.id for j in got] == jobs and leases(db) == 1
    for j in got[:4]:
        j.call("finish", None)
    assert leases(db) == 1
    got[4].call("extend", 100000)
    assert leases(db) == 2
    got[4].call("fail", "bad")
    assert leases(db) == 0
    ledger(db)


def test_a_delayed_job_is_made_ready_without_check_deferred(db, program):
    job = db.defer("f", delay="1h")
    p = program()
    assert p.claim() == []
    ready(db, job)
    assert [j.id for j in p.soon()] == [job]


def test_a_tick_of_a_schedule_comes_with_its_job(db, program):
    db.sql("select deferred.schedule('s', '* * * * *', 'f')")
    db.sql("update deferred.__deferred_schedule set next_at = now() - interval '1 min'")
    db.sql("update deferred.__deferred_state set next_tick = now() - interval '1 min'")
    (job,) = program().soon()
    assert job.tick is not None and job.tick == db.one("select tick from deferred.tick(%s)", job.id)


@pytest.mark.parametrize(
    "args,code,says",
    [
        ((None, [], 1, 1000), "22023", "0 functions were given"),
        ((None, None, 1, 1000), "22023", "0 functions were given"),
        ((None, ["a b"], 1, 1000), "22023", "function name 'a b' is invalid"),
        ((None, ["f", None], 1, 1000), "22023", "function name"),
        (([], ["f"], 1, 1000), "22023", "0 queues were given"),
        ((["a b"], ["f"], 1, 1000), "22023", "queue name 'a b' is invalid"),
        ((None, ["f"], 0, 1000), "22003", "argument 'max' is out of range: 0"),
        ((None, ["f"], 1001, 1000), "22003", "argument 'max' is out of range: 1001"),
        ((None, ["f"], None, 1000), "22003", "argument 'max' is out of range: NULL"),
        ((None, ["f"], 1, 0), "22003", "lease of 0 ms is out of range"),
        ((None, ["f"], 1, 604800001), "22003", "7 days"),
    ],
)
def test_a_claim_that_asks_for_nonsense_is_refused(db, program, args, code, says):
    with pytest.raises(psycopg2.Error) as refused:
        program().ask("select deferred.claim_jobs(%s, %s, %s, %s)", *args)
    assert refused.value.pgcode == code and says in str(refused.value) and refused.value.diag.message_hint


def test_a_claim_with_an_old_snapshot_is_refused(db, program):
    p = program()
    for level in ("repeatable read", "serializable"):
        p.ask(f"begin transaction isolation level {level}")
        with pytest.raises(psycopg2.Error) as refused:
            p.claim()
        assert f"that is {level}" in str(refused.value)
        p.ask("rollback")


def test_a_claim_does_not_make_other_writes_of_its_transaction_less_durable(db, program):
    p = program()
    db.defer("f")
    p.ask("begin")
    assert p.claim()
    assert p.ask("show synchronous_commit") == [("off",)]
    p.ask("commit")
    p.ask("begin")
    p.ask("select deferred.defer('f')")
    p.claim()
    assert p.ask("show synchronous_commit") == [("on",)]
    p.ask("commit")
    # A job with one attempt has begun if its lease is there.
    db.defer("f", max_attempts=1)
    p.claim(10)
    p.ask("begin")
    db.defer("f", max_attempts=1)
    assert program("new").claim
    p.claim(10, ["f", "new"])
    assert p.ask("show synchronous_commit") == [("on",)]
    p.ask("commit")


def own(db, program):
    """In a transaction whose number is below one that has ended."""
    program.ask("begin")
    program.ask("select pg_current_xact_id()")
    db.sql("create table if not exists other (); drop table other")


def test_a_job_that_the_transaction_of_a_claim_makes_ready_is_not_passed_over(db, program, ledger):
    first = db.defer("f")
    p, q = program(), program("second")
    own(db, p)
    (got,) = p.claim(10)
    (new,) = p.ask("select deferred.defer('f')")[0]
    got.call("fail", "x", 0)
    p.ask("commit")
    assert sorted(j.id for j in q.claim(10)) == [first, new]
    # The same with a limit.
    job = db.defer("g", concurrency_key="k")
    own(db, p)
    (got,) = p.soon(10, ["g"])
    got.call("fail", "x", 0)
    p.ask("commit")
    (again,) = q.soon(10, ["g"])
    assert (again.id, again.attempt) == (job, 2)
    ledger(db)


def test_an_end_in_the_transaction_of_a_claim_is_not_passed_over(db, program, ledger):
    parents = [db.defer("f"), db.defer("f")]
    children = [db.defer("g", after=[parent]) for parent in parents]
    p = program()
    before, held = sorted(p.soon(2), key=lambda job: job.id)
    before.call("finish", None)  # so that the claim has an end to look at
    own(db, p)
    p.claim(10)
    held.call("finish", None)
    p.ask("commit")
    assert sorted(j.id for j in p.soon(10, ["g"]) + p.soon(10, ["g"])) == children
    ledger(db)


# ---- attempts


def c_retry(tmp_path):
    """lib/base/retry.c, to be called from here."""
    library = tmp_path / "retry.so"
    sources = [f"{pg.TOP}/lib/base/{name}.c" for name in ("retry", "backoff", "error")]
    include = ["-I", f"{pg.TOP}/lib", "-I", f"{pg.TOP}/lib/include", "-D_GNU_SOURCE"]
    subprocess.run(["cc", "-shared", "-fPIC", *include, "-o", library, *sources, "-lm"], check=True)
    retry = ctypes.CDLL(str(library))

    class Policy(ctypes.Structure):
        _fields_ = [("floor", ctypes.c_int64), ("ceiling", ctypes.c_int64), ("exponent", ctypes.c_double)]

    retry.retry_delay_ms.restype = ctypes.c_int64
    return lambda floor, ceiling, exponent, n: retry.retry_delay_ms(ctypes.byref(Policy(floor, ceiling, exponent)), n)


def test_the_back_off_in_sql_is_that_of_check_deferred(db, tmp_path, seed):
    delay, draw = c_retry(tmp_path), random.Random(seed)
    cases = [
        (
            draw.choice([1, 7, 1000, 10000, draw.randrange(1, 10**7)]),
            draw.choice([1, 3600000, draw.randrange(1, 10**12), 3155760000001]),
            draw.choice([1.0, 1.5, 2.0, 100.0, draw.uniform(1, 3)]),
            draw.choice([1, 2, 3, 10, 100, draw.randrange(1, 2000)]),
        )
        for _ in range(500)
    ]
    got = db.sql(
        "select deferred.__backoff_ms(f, c, e, n) from unnest(%s::bigint[], %s::bigint[], %s::float8[], "
        "%s::integer[]) with ordinality u(f, c, e, n, i) order by i",
        *map(list, zip(*cases)),
    )
    assert [ms for (ms,) in got] == [delay(*case) for case in cases]
    default = [delay(10000, 3600000, 2.0, n) for n in range(1, 12)]
    got = db.sql("select deferred.__backoff_ms(null, null, null, n) from generate_series(1, 11) n")
    assert [ms for (ms,) in got] == default
    # A floor above the usual ceiling raises it, and a ceiling below the usual floor lowers that.
    assert db.sql("select deferred.__backoff_ms(7200000, null, 2, 3), deferred.__backoff_ms(null, 500, 2, 3)") == [
        (7200000, 500)
    ]
    got = db.sql("select min(x), max(x) from (select deferred.__jitter_ms(10) as x from generate_series(1, 500)) x")
    assert got == [(8, 10)] and db.one("select deferred.__jitter_ms(1)") == 1


def test_a_failed_job_comes_again_by_its_back_off_until_its_attempts_are_used_up(db, program, ledger):
    job = db.defer("f", max_attempts=3, backoff_floor="20s", backoff_exponent=3)
    p = program()
    for attempt, delay in ((1, 20000), (2, 60000)):
        (got,) = p.soon()
        assert got.attempt == attempt and got.call("fail", "bad") is not None
        assert delay * 0.8 <= due_ms(db, job) <= delay
        assert p.claim() == [] and state(db, job) == "delayed"
        ready(db, job)
    (got,) = p.soon()
    assert got.call("fail", "worse") is None
    assert outcomes(db, job) == [(1, "failed", False), (2, "failed", False), (3, "failed", True)]
    assert db.one("select string_agg(error, ' ' order by attempt) from deferred.__deferred_log") == "bad bad worse"
    assert state(db, job) == "dead" and leases(db) == 0
    ledger(db)


def test_the_settings_of_a_queue_hold_for_jobs_that_have_none(db, program):
    db.run(["deferred", "queue", "set", "q", "--create", "--max-attempts", "2", "--backoff-floor", "100s"], check=True)
    job = db.defer("f", queue="q")
    p = program()
    (got,) = p.claim()
    assert got.max_attempts == 2
    got.call("fail", None)
    assert 80000 <= due_ms(db, job) <= 100000
    ready(db, job)
    p.soon()[0].call("fail", None)
    assert state(db, job) == "dead"


def test_a_program_names_the_delay_or_gives_up(db, program, ledger):
    soon, never = db.defer("f"), db.defer("f")
    p = program()
    a, b = p.claim(2)
    a.call("fail", "busy", 5000)
    assert due_ms(db, soon) == 5000
    assert b.call("fail", "hopeless", None, True) is None and state(db, never) == "dead"
    ready(db, soon)
    (a,) = p.soon()
    a.call("fail", "again", 0)
    (a,) = p.claim()
    assert a.attempt == 3
    for bad in (-1, 31536000001):
        assert "delay of" in a.refused("fail", "x", bad, code="22003")
        assert "delay of" in a.refused("snooze", bad, code="22003")
    a.refused("snooze", None, code="22004")
    a.call("finish", None)
    ledger(db)


def test_a_snoozed_attempt_does_not_count(db, program, ledger):
    job = db.defer("f", max_attempts=1)
    p = program()
    for _ in range(3):
        (got,) = p.soon()
        got.call("snooze", 1)
        assert due_ms(db, job) == 1000
        ready(db, job)
    (got,) = p.soon()
    assert got.attempt == 4
    got.call("fail", "x")
    assert [o for _, o, _ in outcomes(db, job)] == ["snoozed"] * 3 + ["failed"] and state(db, job) == "dead"
    ledger(db)


def test_a_lost_batch_counts_for_no_job_and_then_each_job_counts_alone(db, program, ledger):
    jobs = [db.defer("f", max_attempts=1 if i == 0 else 2) for i in range(3)]
    p = program()
    assert len(p.claim(3)) == 3
    lapse(db, *jobs)
    assert p.claim(3) == []
    # The first one had a lease of its own, for it has one attempt.
    assert outcomes(db, jobs[0]) == [(1, "lost", True)] and outcomes(db, jobs[1]) == []
    again = p.claim(3)
    assert [(j.id, j.attempt) for j in again] == [(jobs[1], 1), (jobs[2], 1)] and leases(db) == 2
    again[0].call("finish", None)
    lapse(db, jobs[2])
    assert "its lease has expired" in again[1].refused("finish", None)
    (last,) = p.soon(3)
    assert (last.id, last.attempt) == (jobs[2], 2) and outcomes(db, jobs[2]) == [(1, "lost", False)]
    assert "the attempt was recorded as lost" in again[1].refused("fail")
    last.call("finish", None)
    assert leases(db) == 0
    ledger(db)


def test_a_time_limit_ends_the_lease_and_counts(db, program, ledger):
    short = db.defer("f", timeout="5s", max_attempts=2)
    other = db.defer("f")
    p = program()
    a, b = p.claim(2)
    assert 50 < (b.lease_ends_at - a.lease_ends_at).total_seconds() < 60
    # It is not extended beyond the limit, as the other one is.
    assert a.call("extend", 600000) == a.lease_ends_at
    assert (b.call("extend", 600000) - b.lease_ends_at).total_seconds() > 500
    assert db.one("select count(*) from deferred.__held where id = %s", short) == 1
    lapse(db, short)
    a.refused("finish", None)
    (a,) = p.soon()
    assert (a.id, a.attempt) == (short, 2) and outcomes(db, short) == [(1, "lost", False)]
    lapse(db, short)
    assert p.claim() == []
    assert outcomes(db, short)[1:] == [(2, "lost", True)]
    b.call("finish", None)
    assert state(db, other) == "done" and leases(db) == 0
    # A limit above the lease is one too.
    db.defer("f", timeout="90s")
    (c,) = p.claim()
    assert 25 < (c.call("extend", 600000) - c.lease_ends_at).total_seconds() < 35
    c.call("finish", None)
    ledger(db)


def test_a_cancelled_job_is_refused_at_the_next_word(db, program, ledger):
    job = db.defer("f")
    (got,) = program().claim()
    got.call("progress", 1, 2, "half")
    assert db.sql("select done, total, text, attempt from deferred.__deferred_progress") == [(1, 2, "half", 1)]
    got.refused("progress", -1, code="22003")
    assert db.one("select deferred.cancel(%s)", job)
    for call in (("progress",), ("extend", 1000), ("step", "s", "1"), ("fail",), ("snooze", 1), ("finish", None)):
        assert "it was cancelled" in got.refused(*call)
    ledger(db)


def test_an_uncommitted_cancel_does_not_hold_up_progress(db, program):
    job = db.defer("f")
    (got,) = program().claim()
    other = db.connect()
    other.cursor().execute("select deferred.cancel(%s)", (job,))
    got.call("progress", 1)
    assert db.one("select count(*) from deferred.__deferred_progress") == 0
    assert "another transaction has locked" in got.refused("step", "s", "1", code="55P03")
    other.rollback()
    other.close()
    got.call("progress", 1)
    assert db.one("select done from deferred.__deferred_progress") == 1


def test_steps_are_there_in_the_next_attempt_only_while_the_job_is_not_done(db, program, ledger):
    job = db.defer("f")
    p = program()
    (got,) = p.claim()
    got.call("step", "a", '{"x": 1}')
    got.call("step", "b.c", "null")
    got.call("step", "a", "[2]")
    got.call("fail", "x", 0)
    (again,) = p.claim()
    assert again.steps == {"a": [2], "b.c": None}
    assert "the attempt was recorded as failed" in got.refused("step", "a", "1")
    for name, value, code in (
        ("a b", "1", "22023"),
        (None, "1", "22023"),
        ("s", None, "22004"),
        ("s", json.dumps("x" * 65536), "22001"),
    ):
        again.refused("step", name, value, code=code)
    for i in range(16):
        again.call("step", f"big{i}", json.dumps("x" * 65000))
    assert "1 MiB" in again.refused("step", "more", json.dumps("x" * 65000), code="54000")
    again.call("finish", None)
    assert db.one("select count(*) from deferred.__deferred_step") == 0 and state(db, job) == "done"
    ledger(db)


# ---- keys, flows, limits


def test_keys_are_held_as_for_other_workers(db, program, ledger):
    ends, starts = db.defer("f", key="end"), db.defer("f", key="start", key_until="start")
    span = db.defer("f", key="span", key_until="1h")
    keys = (("end", {}), ("start", {"key_until": "start"}), ("span", {"key_until": "1h"}))
    assert [db.defer("f", key=key, **more) for key, more in keys] == [ends, starts, span]
    got = program().claim(3)
    assert {j.id for j in got} == {ends, starts, span}
    # The first attempt of the second one has started.
    new = [db.defer("f", key=key, **more) for key, more in keys]
    assert new[0] == ends and new[1] > span and new[2] == span
    again = new[1]
    for j in got:
        j.call("finish", None)
    new = [db.defer("f", key=key, **more) for key, more in keys]
    assert new[0] > again and new[1] == again and new[2] == span
    ledger(db)


def test_a_flow_goes_on_with_results_payloads_and_failures(db, program, ledger):
    a, b = db.defer("f"), db.defer("f")
    child = db.defer("g", after=[{"job": a, "as": "first"}], wait_for={"event": "paid", "as": "pay"})
    skipped = db.defer("g", after=[b])
    p = program()
    # Those that wait are known before a parent ends.
    for _ in range(3):
        assert p.claim(1, ["nosuch"]) == []
    p = program("second")
    got = {j.id: j for j in p.soon(2)}
    got[a].call("finish", "forty-two")
    got[b].call("fail", "no", None, True)
    db.sql("select deferred.send_event('paid', '{\"amount\": 12}')")
    (next_one,) = p.soon(5, ["f", "g"])
    assert next_one.id == child
    assert next_one.parents == {
        "first": {"id": a, "outcome": "ok", "result": "forty-two"},
        "pay": {"event": "paid", "outcome": "ok", "result": '{"amount": 12}'},
    }
    next_one.call("finish", None)
    (said,) = db.sql("select outcome, error from deferred.__deferred_log where job_id = %s", skipped)
    assert said == ("cancelled", f"skipped: job {b}, for which it waited, did not end as it must have")
    ledger(db)


def test_limits_of_queues_functions_and_keys_hold(db, program, ledger):
    db.run(["deferred", "queue", "set", "two", "--create", "--max-running", "2"], check=True)
    db.run(["deferred", "function", "set", "slow", "--max-running", "1"], check=True)
    db.run(["deferred", "queue", "set", "rated", "--create", "--rate", "1/h"], check=True)
    for _ in range(4):
        db.defer("f", queue="two")
        db.defer("slow", queue="s")
        db.defer("f", queue="keyed", concurrency_key="k")
        db.defer("f", queue="rated")
    p, held = program(), []
    for _ in range(10):
        held += p.claim(20, ["f", "slow"])
    assert sorted(j.queue for j in held) == ["keyed", "rated", "s", "two", "two"]
    for j in held:
        j.call("finish", None)
    for _ in range(10):
        held += p.claim(20, ["f", "slow"])
    assert sorted(j.queue for j in held[5:]) == ["keyed", "s", "two", "two"]
    # A lost lease frees its place.
    lapse(db, *[j.id for j in held[5:]])
    for _ in range(10):
        held += p.claim(20, ["f", "slow"])
    assert sorted(j.queue for j in held[9:]) == ["keyed", "s", "two", "two"]
    for j in held[9:]:
        j.call("finish", None)
    ledger(db)


def test_neither_jobs_with_limits_nor_others_keep_the_other_kind_waiting(db, program):
    for _ in range(30):
        db.defer("f")
        db.defer("f", concurrency_key=str(random.random()))
    p, kinds = program(), set()
    for _ in range(30):
        (job,) = p.claim()
        kinds.add(db.one("select concurrency_key is null from deferred.__deferred where id = %s", job.id))
    assert kinds == {True, False}


# ---- others


def drain(program, fns, n, done, failed_first):
    """Claims until nothing is left. Each third job fails once."""
    empty = 0
    while empty < 20:
        jobs = program.claim(n, fns)
        empty = 0 if jobs else empty + 1
        for job in jobs:
            if job.attempt == 1 and job.id in failed_first:
                job.call("fail", "first", 0)
            else:
                job.call("finish", None)
                done.append(job.id)


def test_programs_and_check_deferred_share_a_queue_and_run_each_job_once(db, program, ledger):
    jobs = [db.defer("noop" if i % 2 else "f", priority=i % 3) for i in range(200)]
    jobs += [db.defer("f", concurrency_key=f"k{i % 5}", concurrency=2) for i in range(50)]
    both = [db.defer("noop", max_attempts=5) for _ in range(50)]
    done, failed = [], set(jobs[::6])
    programs = [program(f"p{i}") for i in range(4)]
    threads = [
        threading.Thread(target=drain, args=(p, ["f"] if i < 2 else ["f", "noop"], 1 + 4 * (i % 2), done, failed))
        for i, p in enumerate(programs)
    ]
    for t in threads:
        t.start()
    for _ in range(3):
        db.run(["check_deferred", "--cnt", "0"], check=True)
    for t in threads:
        t.join()
    db.run(["check_deferred", "--cnt", "0"], check=True)
    left = []
    drain(program("last"), ["f"], 10, left, failed)
    assert db.hot() == 0 and len(done) == len(set(done))
    ok = db.sql("select job_id from deferred.__deferred_log where outcome = 'ok'")
    assert sorted(job for (job,) in ok) == sorted(jobs + both)
    ledger(db)


def test_who_holds_a_job_is_shown_and_its_function_is_known(db, program):
    job = db.defer("f")
    (got,) = program("invoices").claim()
    shown = db.run(["deferred", "show", str(job)]).stdout
    assert re.search(rf"sql:{pg.USER} pid \d+", shown), shown
    assert f"sql:{pg.USER}" in db.run(["deferred", "why", str(job)]).stdout
    assert db.run(["deferred", "functions"]).stdout.split("\n")[1].startswith("f ")
    assert db.sql("select instance, mode, ended_at, queues from deferred.__deferred_worker") == [
        (f"sql:{pg.USER}:invoices#0.0@sql", "sql", None, None)
    ]
    # Its run ends when it has not claimed for a while and holds nothing.
    db.sql(
        "update deferred.__deferred_worker set started_at = now() - interval '1 h', seen_at = now() - interval '1 h'"
    )
    maintain = "update deferred.__deferred_upkeep set repaired_at = '-infinity'"
    for ended in (False, True):
        db.sql(maintain)
        db.sql("select deferred.maintain()")
        assert db.one("select ended_at is not null from deferred.__deferred_worker") is ended
        if not ended:
            got.call("finish", None)
    db.defer("f")
    program("invoices").claim()
    assert db.one("select count(*) from deferred.__deferred_worker where ended_at is null") == 1


def test_a_job_that_check_deferred_runs_cannot_be_failed_from_outside(db, program):
    job = db.defer("noop")
    db.hold(job)
    receipt = db.one("select deferred.__token(%s, 1, 1)", job)
    held = Job(program(), [job, receipt])
    for call in (("fail",), ("snooze", 1), ("progress",), ("step", "s", "1")):
        assert "is run by check_deferred" in held.refused(*call)
    held.call("extend", 100000)
    held.call("finish", None)


def test_only_workers_may_claim_and_a_receipt_of_another_job_is_no_use(db, program):
    a, b = db.defer("f"), db.defer("f")
    first, second = program().claim(2)
    first.receipt = second.receipt
    for call in (("fail",), ("finish", None), ("progress",)):
        assert "another worker has claimed it" in first.refused(*call)
    name = f"w_{db.name}"
    db.sql(f"create role {name} login")
    try:
        p = program(user=name)
        for role, may in (("deferred_producer", False), ("deferred_http", True), ("deferred_worker", True)):
            db.sql(f"grant {role} to {name}")
            job = db.defer("f")
            if may:
                (got,) = p.claim()
                assert got.id == job
                # A role that is no worker needs a right to the job besides: its own, or that of a token.
                if role == "deferred_http":
                    got.refused("finish", None, code="42501")
                else:
                    got.call("finish", None)
            else:
                with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                    p.claim()
                db.sql("select deferred.cancel(%s)", job)
    finally:
        for open_one in (p,):
            open_one.connection.close()
        db.sql(f"drop owned by {name}")
        db.sql(f"drop role {name}")
    assert a and b


def read(program, *jobs):
    """Pages that a claim touches."""
    plan = program.ask(
        "explain (analyze, buffers, format json) select * from deferred.claim_jobs(null, '{f}', 10, 60000)"
    )[0][0][0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


@pytest.mark.by_hand
def test_a_claim_does_not_read_more_from_a_long_queue(db, program):
    p = program()
    cost = {}
    for n in (1000, 100000):
        db.sql("select count(deferred.defer('f')) from generate_series(1, %s)", n)
        for _ in range(3):
            p.claim(10)
        cost[n] = min(read(p) for _ in range(5))
    assert cost[100000] < 2 * cost[1000] + 200, cost
