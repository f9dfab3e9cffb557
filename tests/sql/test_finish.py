"""deferred.finish(), deferred.extend() and the rest of what a running job may be told and asked in SQL."""

import hashlib
import os
import struct

import psycopg2
import pytest

RECEIPT = 4711


def told(job, receipt=RECEIPT):
    """What the function of a job that a worker claimed with this receipt is told."""
    return struct.unpack(">q", hashlib.sha256(struct.pack(">qq", receipt, job)).digest()[:8])[0]


@pytest.fixture
def job(db):
    """A job that is claimed with RECEIPT."""
    job = db.defer("noop")
    claim(db, job)
    return job


def claim(db, job, receipt=RECEIPT, lease="1 min"):
    db.sql("update deferred.__deferred_hot set receipt = %s, worker = 7, attempt = attempt + 1, started_at = now() - interval '2 s',"
           " visible_at = now() + %s::interval where id = %s", receipt, lease, job)


def refused(db, sql, *args):
    """The SQLSTATE and the message of a statement that is refused."""
    with pytest.raises(psycopg2.Error) as e:
        db.sql(sql, *args)
    return e.value.pgcode, e.value.diag.message_primary


def lapsed(db, job):
    db.sql("update deferred.__deferred_hot set visible_at = now() - interval '1 s' where id = %s", job)


def taken(db, job):
    claim(db, job, receipt=5)


def given_back(db, job):
    db.sql("update deferred.__deferred_hot set receipt = null, worker = null, attempt = attempt - 1, visible_at = now() where id = %s", job)


WHY = {
    "finished": (lambda db, job: db.sql("select deferred.finish(%s, %s)", job, told(job)), "it has been finished already"),
    "cancelled": (lambda db, job: db.sql("select deferred.cancel(%s)", job), "it was cancelled"),
    "lapsed": (lapsed, "its lease has ended"),
    "taken over": (taken, "it was claimed again"),
    "given back": (given_back, "it is not being run"),
}


@pytest.mark.parametrize("why", WHY)
@pytest.mark.parametrize("call", ["select deferred.finish(%s, %s)", "select deferred.extend(%s, %s, 1000)"], ids=["finish", "extend"])
def test_a_receipt_that_is_not_valid_any_more_is_refused_with_the_reason(db, job, why, call):
    make, text = WHY[why]
    make(db, job)
    before = db.sql("select * from deferred.__deferred_hot"), db.log()
    assert refused(db, call, job, told(job)) == ("55000", f"job {job} is not held by this receipt: {text}")
    assert (db.sql("select * from deferred.__deferred_hot"), db.log()) == before


@pytest.mark.parametrize("call, code", [
    ("select deferred.finish(null, 5)", "22004"), ("select deferred.finish({job}, null)", "22004"), ("select deferred.finish(0, 0)", "55000"),
    ("select deferred.finish({job}, {told}, repeat('x', 8193))", "22001"), ("select deferred.finish({job}, {told}, repeat('é', 4097))", "22001"),
    ("select deferred.extend({job}, {told}, 0)", "22003"), ("select deferred.extend({job}, {told}, -5)", "22003"),
    ("select deferred.extend({job}, {told}, 604800001)", "22003"), ("select deferred.extend({job}, {told}, null)", "22003"),
    ("select deferred.extend({job}, null, 5)", "22004")])
def test_nonsense_is_refused_and_changes_nothing(db, job, call, code):
    before = db.sql("select * from deferred.__deferred_hot")
    assert refused(db, call.format(job=job, told=told(job)))[0] == code
    assert db.sql("select * from deferred.__deferred_hot") == before and db.log() == []


def test_finish_writes_the_log_row_of_the_attempt(db, job, ledger):
    db.sql("insert into deferred.__deferred_progress values (%s, 1, 2, 3, 'x', now())", job)
    assert db.one("select deferred.finish(%s, %s, %s)", job, told(job), "x" * 8192) == ""
    assert db.sql("select attempt, outcome, final, worker, receipt, run_us between 2e6 and 9e6, length(result), finished_at >= started_at"
                  " from deferred.__deferred_log") == [(1, "ok", True, 7, RECEIPT, True, 8192, True)]
    assert db.hot() == 0 and db.sql("select * from deferred.__deferred_progress") == []
    ledger(db)


def test_a_transaction_in_which_finish_failed_cannot_be_committed(db, job):
    db.sql("create table work (id bigint)")
    taken(db, job)
    conn = db.connect()
    cursor = conn.cursor()
    cursor.execute("insert into work values (1)")
    with pytest.raises(psycopg2.Error):
        cursor.execute("select deferred.finish(%s, %s)", (job, told(job)))
    conn.commit()
    conn.close()
    assert db.sql("select * from work") == [] and db.hot() == 1


def test_finish_rolled_back_leaves_the_claim(db, job):
    conn = db.connect()
    conn.cursor().execute("select deferred.finish(%s, %s)", (job, told(job)))
    conn.rollback()
    conn.close()
    assert db.sql("select receipt, attempt from deferred.__deferred_hot") == [(RECEIPT, 1)] and db.log() == []
    db.sql("select deferred.finish(%s, %s)", job, told(job))
    assert db.log() == [(job, 1, "ok")]


@pytest.mark.parametrize("call", ["select deferred.finish(%s, %s)", "select deferred.extend(%s, %s, 1000)"], ids=["finish", "extend"])
def test_neither_the_receipt_nor_the_token_of_another_job_is_taken(db, job, call):
    other = db.defer("noop")
    claim(db, other)
    before = db.sql("select * from deferred.__deferred_hot order by id")
    for wrong in (RECEIPT, told(other), told(job, RECEIPT + 1), -told(job), 0):
        assert refused(db, call, job, wrong) == ("55000", f"job {job} is not held by this receipt: it was claimed again")
    assert db.sql("select * from deferred.__deferred_hot order by id") == before and db.log() == []
    db.sql(call, job, told(job))


def test_extend_makes_a_lease_longer_and_never_shorter(db, job):
    left = "select extract(epoch from visible_at - clock_timestamp())::float8 from deferred.__deferred_hot"
    ends = db.one("select deferred.extend(%s, %s, 3600000)", job, told(job))
    assert 3590 < db.one(left) <= 3600 and db.one("select visible_at from deferred.__deferred_hot") == ends
    assert db.one("select deferred.extend(%s, %s, 1000)", job, told(job)) == ends
    assert db.one("select deferred.extend(%s, %s, 604800000)", job, told(job)) > ends


@pytest.fixture
def role(db):
    """Make a role and act as it; the tests' own role again afterwards."""
    made = []

    def make(*groups):
        name = f"role_{os.getpid()}_{len(made)}"
        db.sql(f"drop role if exists {name}")
        db.sql(f"create role {name}" + (f" in role {', '.join(groups)}" if groups else ""))
        made.append(name)
        db.sql(f"set role {name}")
    yield make
    db.sql("reset role")
    for name in made:
        db.sql(f"drop role {name}")


def test_a_producer_who_knows_the_receipt_may_and_others_may_not(db, job, role):
    role()
    assert refused(db, f"select deferred.finish({job}, {told(job)})")[0] == "42501"
    db.sql("reset role")
    role("deferred_viewer")
    assert refused(db, f"select deferred.extend({job}, {told(job)}, 1)")[0] == "42501"
    assert db.sql("select done from deferred.__deferred_progress") == []
    db.sql("reset role")
    role("deferred_producer")
    assert refused(db, "select * from deferred.__deferred_progress")[0] == "42501"
    assert refused(db, f"select deferred.__refuse_receipt({job}, {told(job)})")[0] == "42501"
    db.sql(f"select deferred.extend({job}, {told(job)}, 5000)")
    db.sql(f"select deferred.finish({job}, {told(job)})")
    db.sql("reset role")
    assert db.log() == [(job, 1, "ok")]


def notified(conn):
    conn.poll()
    got = [(n.channel, n.payload) for n in conn.notifies]
    del conn.notifies[:]
    return got


def test_a_cancel_tells_the_worker_of_a_claimed_job_only(db, job):
    listener = db.connect()
    listener.autocommit = True
    listener.cursor().execute("listen deferred")
    assert db.one("select deferred.cancel(%s)", db.defer("noop"))
    listener.cursor().execute("select 1")
    assert notified(listener) == []
    assert db.one("select deferred.cancel(%s)", job)
    listener.cursor().execute("select 1")
    assert notified(listener) == [("deferred", "!7")]
    for _ in range(2):
        claim(db, db.defer("noop"))
    db.defer("noop")
    db.sql("select deferred.__queue_clear('default', 0, 1000, 1000)")
    listener.cursor().execute("select 1")
    assert notified(listener) == [("deferred", "!7")], "once a worker"
    listener.close()
    assert db.hot() == 0


def test_a_renewal_says_why_a_claim_is_gone(db):
    jobs = [db.defer("noop") for _ in range(6)]
    for job in jobs:
        claim(db, job)
    for job, why in zip(jobs, ("finished", "cancelled", "lapsed", "taken over", "given back")):
        WHY[why][0](db, job)
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "sql", "queries", "job_renew.sql")) as f:
        text = f.read()
    for n, value in (("$1", jobs), ("$2", [RECEIPT] * 6), ("$3", [60000] * 6)):
        text = text.replace(n, "array" + str(value))
    rows = {r[0]: r[1:] for r in db.sql(text.replace("%", "%%"))}
    assert [rows[j] for j in jobs] == [(RECEIPT, False, None, "ok"), (RECEIPT, False, None, "cancelled"), (RECEIPT, False, None, None),
                                       (RECEIPT, False, None, None), (RECEIPT, False, None, None), (RECEIPT, True, 60000, None)]
