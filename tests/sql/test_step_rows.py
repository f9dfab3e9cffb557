"""Steps that running jobs save: deferred.__step_save() and what becomes of the rows."""

import json

import pytest

import pg

pytestmark = pytest.mark.by_hand


@pytest.fixture
def job(db):
    """A job that is claimed with receipt 1."""
    job = db.defer("noop", '{"a": 1}')
    db.hold(job)
    return job


def save(db, job, name="s", value="1", receipt=1, resets=0):
    """What became of the step, and why."""
    said = db.sql(
        "select outcome, why from deferred.__step_save(array[%s::bigint], array[%s::bigint], array[%s], array[%s], "
        "array[%s::integer])",
        job,
        receipt,
        name,
        value,
        resets,
    )
    return said[0][0] if said[0][1] is None else said[0]


def steps(db, job=None):
    return db.sql(
        "select name, value::text, number, attempt from deferred.__deferred_step where job_id = coalesce(%s, job_id) "
        "order by job_id, number",
        job,
    )


def hot(db, job):
    return db.sql("select watched, params_bytes from deferred.__deferred_hot where id = %s", job)[0]


def lapse(db, job):
    db.sql("update deferred.__deferred_lease set expires_at = now() - interval '1 s' where %s = any (ids)", job)


def fail(db, job, uncounted=0):
    """The attempt fails, as a worker records it."""
    text = open(f"{pg.TOP}/sql/queries/claim/job_retry.sql").read()
    values = (job, 1, "failed", "e", None, None, 1, 1, "p", 1, 1, 1, 1, None, 0, uncounted, 1)
    for i in range(17, 0, -1):
        text = text.replace(f"${i}::", f"%(p{i})s::")
    db.sql(text, {f"p{i + 1}": [value] for i, value in enumerate(values)})


def test_a_step_is_stored_with_its_attempt_and_its_place(db, job, ledger):
    assert hot(db, job) == (None, None)
    assert [save(db, job, name, value) for name, value in [("b", '{"x": [1]}'), ("a.b_C9", "null"), ("_", '"é"')]] == [
        "new"
    ] * 3
    assert steps(db) == [("b", '{"x": [1]}', 1, 1), ("a.b_C9", "null", 2, 1), ("_", '"é"', 3, 1)]
    assert hot(db, job) == (False, 1024 + 10 + 4 + 4)
    assert json.loads(db.one("select deferred.__steps(%s)", job)) == {"b": {"x": [1]}, "a.b_C9": None, "_": "é"}
    ledger(db)


def test_a_second_value_of_a_name_replaces_the_first(db, job):
    assert (save(db, job, value="12345"), save(db, job, value="6")) == ("new", "new")
    assert steps(db) == [("s", "6", 1, 1)] and hot(db, job) == (False, 1025)
    fail(db, job)
    db.hold(job)
    assert (save(db, job, value="77"), save(db, job, "t", "8")) == ("saved", "new")
    assert steps(db) == [("s", "77", 1, 1), ("t", "8", 2, 2)]
    assert db.sql("select * from deferred.__ledger_jobs()") == []


@pytest.mark.parametrize("why", ["lapsed", "given back", "taken over", "cancelled", "finished", "receipt", "no job"])
def test_a_worker_that_does_not_hold_the_job_cannot_save(db, job, why):
    save(db, job)
    before, receipt, other = steps(db), 1, job
    if why == "lapsed":
        lapse(db, job)
    elif why in ("given back", "taken over"):
        db.sql("update deferred.__deferred_hot set xid = pg_current_xact_id() where id = %s", job)
    elif why == "cancelled":
        db.sql("select deferred.cancel(%s)", job)
    elif why == "finished":
        db.sql("delete from deferred.__deferred_hot")
    if why == "taken over":
        db.hold(job, worker=2, receipt=2)
    if why == "receipt":
        receipt = 2
    if why == "no job":
        other = job + 1
    assert save(db, other, value="9", receipt=receipt) == "gone"
    assert steps(db) == before
    if why == "taken over":
        assert save(db, job, value="9", receipt=2) == "new" and steps(db) == [("s", "9", 1, 1)]


def test_a_lease_of_one_job_does_not_hold_another_of_its_receipt(db, job, ledger):
    """The lease of a batch has ended, and that of one of its jobs was extended."""
    other = db.defer("noop")
    lapse(db, job)
    db.hold(other)
    assert (save(db, job), save(db, other)) == ("gone", "new")


def test_a_job_with_an_extended_lease_saves_once(db, job, ledger):
    db.hold(job)
    assert save(db, job) == "new" and steps(db) == [("s", "1", 1, 1)]
    ledger(db)


def test_a_locked_row_is_reported_and_not_waited_for(db, job):
    with db.connect() as other:
        cursor = other.cursor()
        cursor.execute("select from deferred.__deferred_hot where id = %s for update", (job,))
        db.sql("set statement_timeout = '5s'")
        assert save(db, job) == "locked" and steps(db) == []
    other.close()
    assert save(db, job) == "new"


@pytest.mark.parametrize(
    "name, value",
    [
        ("", "1"),
        ("1a", "1"),
        ("a b", "1"),
        ("a\n", "1"),
        ("é", "1"),
        ("x" * 128, "1"),
        (None, "1"),
        ("a", ""),
        ("a", "{"),
        ("a", None),
        ("a", '"' + "x" * 65535 + '"'),
        ("a", "[" * 60000),
    ],
    ids=lambda text: "" if text is None else text[:9].strip(),
)
def test_what_cannot_be_stored_is_refused_alone(db, job, name, value):
    """The other steps of the statement, and what is sent along, are stored."""
    other = db.defer("noop")
    db.hold(other)
    said = db.sql(
        "select id, outcome, why <> '' from deferred.__step_save(%s, array[1, 1], array[%s, 's'], array[%s, '1'], "
        "array[0, 0])",
        [job, other],
        name,
        value,
    )
    assert said == [(job, "refused", True), (other, "new", None)]
    assert steps(db, job) == [] and steps(db, other) == [("s", "1", 1, 1)] and hot(db, job) == (None, None)


def test_the_longest_names_and_values_are_stored(db, job, ledger):
    assert save(db, job, "x" * 127, '"' + "y" * 65534 + '"') == "new"
    ledger(db)


def test_a_job_has_at_most_a_thousand_steps(db, job, ledger):
    db.sql(
        "insert into deferred.__deferred_step (job_id, name, value, bytes, number, attempt, resets) "
        "select %s, 's' || i, '1', 1, i, 1, false from generate_series(1, 999) i",
        job,
    )
    db.sql("update deferred.__deferred_hot set watched = false, params_bytes = 1024 + 999")
    assert save(db, job, "last") == "new"
    assert save(db, job, "one_more") == ("full", "it has 1000 steps")
    assert save(db, job, "last", "22") == "new"
    assert len(steps(db)) == 1000
    ledger(db)


def test_the_steps_of_a_job_have_at_most_a_mebibyte(db, job, ledger):
    full = '"' + "x" * 65534 + '"'
    assert [save(db, job, f"s{i}", full) for i in range(16)] == ["new"] * 16
    assert save(db, job, "more") == ("full", "its steps would have more than 1 MiB")
    assert save(db, job, "s3", "1") == "new" and save(db, job, "more") == "new"
    assert save(db, job, "s3", full)[0] == "full"
    ledger(db)


def test_finish_deletes_the_steps_with_the_success(db, job, ledger):
    save(db, job)
    token = db.one("select deferred.__token(%s, 1, 1)", job)
    db.sql("select deferred.finish(%s, %s)", job, token)
    assert steps(db) == []
    ledger(db)


def end(db, job, outcome):
    db.sql("delete from deferred.__deferred_hot where id = %s", job)
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final) values (%s, 1, %s, true)", job, outcome
    )


@pytest.mark.parametrize("from_start", [None, False, True])
def test_a_dead_job_keeps_its_steps_unless_it_is_to_begin_from_the_start(db, job, ledger, from_start):
    other = db.defer("noop")
    db.hold(other)
    save(db, other)
    save(db, job, value="12345")
    end(db, job, "failed")
    ledger(db)
    call = "select deferred.retry(%s)" if from_start is None else "select deferred.retry(%s, %s)"
    assert db.one(call, job, *([] if from_start is None else [from_start]))
    assert steps(db, job) == ([] if from_start else [("s", "12345", 1, 1)])
    assert steps(db, other) == [("s", "1", 1, 1)]
    assert hot(db, job) == (False, None if from_start else 1029)
    ledger(db)


def test_a_job_that_runs_keeps_its_steps(db, job):
    save(db, job)
    with pytest.raises(Exception, match="is running"):
        db.sql("select deferred.retry(%s, true)", job)
    assert steps(db) == [("s", "1", 1, 1)]
    assert db.one("select deferred.retry(%s, true)", job + 1) is False


def test_a_delayed_job_may_begin_from_the_start(db, job, ledger):
    save(db, job)
    fail(db, job)
    db.sql("update deferred.__deferred_hot set due_at = now() + interval '1 h', visible_at = now() + interval '1 h'")
    assert db.one("select deferred.retry(%s, true)", job)
    assert steps(db) == [] and hot(db, job) == (False, None)
    ledger(db)


@pytest.mark.parametrize("outcome", ["lost", "superseded"])
@pytest.mark.parametrize("resets, attempt", [(0, 1), (1, 1), (1, 2)])
def test_a_lost_attempt_that_saved_a_new_step_does_not_count_if_the_function_says_so(
    db, ledger, outcome, resets, attempt
):
    """attempt 2: the step is of the one before."""
    job = db.defer("noop", max_attempts=2)
    if attempt == 2:
        db.hold(job)
        save(db, job, resets=1)
        fail(db, job, uncounted=1)
    db.hold(job, alone=True, receipt=7)
    save(db, job, receipt=7, resets=resets)
    lapse(db, job)
    db.sql("select * from deferred.__lost(array[1]::bigint[], %s, 1)", outcome)
    counts = outcome == "lost" and not (resets and attempt == 1)
    assert db.sql("select attempt, coalesce(attempt_base, 0) from deferred.__deferred_hot") == [
        (attempt, attempt - counts)
    ]
    ledger(db)


def test_a_change_of_the_params_keeps_the_steps_and_counts_them(db, job, ledger):
    save(db, job)
    fail(db, job)
    db.sql("update deferred.__deferred_hot set due_at = now() + interval '1 h', visible_at = now() + interval '1 h'")
    assert db.one("select deferred.update(%s, %s::json)", job, '{"params": {"a": 2}}')
    assert steps(db) == [("s", "1", 1, 1)] and hot(db, job) == (False, 1025)
    ledger(db)


def test_a_purge_takes_the_steps_with_the_job(db, job, ledger):
    kept = db.defer("noop")
    db.hold(kept)
    save(db, kept)
    save(db, job)
    end(db, job, "failed")
    db.sql("delete from deferred.__deferred_log")
    db.sql("update deferred.__deferred set created_at = now() - interval '1 year'")
    db.sql("select deferred.__purge_jobs('1 day', 0, 100)")
    assert [s[0] for s in db.sql("select job_id from deferred.__deferred_step")] == [kept]
    db.sql("delete from deferred.__deferred_hot")
    db.sql("delete from deferred.__deferred")
    db.sql("select deferred.__purge_orphans('1 day', 0, 100)")
    assert steps(db) == []


def test_a_viewer_sees_no_values(db, job):
    save(db, job)
    db.sql("set role deferred_viewer")
    assert db.sql("select name, bytes from deferred.__deferred_step") == [("s", 1)]
    with pytest.raises(Exception, match="permission denied"):
        db.sql("select value from deferred.__deferred_step")
    db.sql("set role deferred_reader")
    assert db.sql("select value::text from deferred.__deferred_step") == [("1",)]


@pytest.mark.parametrize("role", ["deferred_producer", "deferred_viewer", "deferred_purger", "deferred_http"])
def test_only_workers_save(db, job, role):
    db.sql(f"set role {role}")
    for call in ("__step_save(array[1::bigint], array[1::bigint], array['s'], array['1'], array[0])", "__steps(1)"):
        with pytest.raises(Exception, match="permission denied"):
            db.sql(f"select deferred.{call}")


@pytest.mark.parametrize("outcome, receipt, gone", [("ok", 1, True), ("ok", 2, False), ("failed", 1, False)])
def test_steps_go_only_with_a_success_that_was_recorded(db, job, outcome, receipt, gone):
    other = db.defer("noop")
    db.hold(other)
    save(db, other)
    save(db, job)
    db.sql("delete from deferred.__deferred_hot where id = %s", job)
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, receipt) values (%s, 1, %s, true, 1)",
        job,
        outcome,
    )
    text = open(f"{pg.TOP}/sql/queries/claim/job_steps_end.sql").read()
    db.sql(text.replace("$1::", "%(ids)s::").replace("$2::", "%(receipts)s::"), {"ids": [job], "receipts": [receipt]})
    assert steps(db, job) == ([] if gone else [("s", "1", 1, 1)]) and len(steps(db, other)) == 1
