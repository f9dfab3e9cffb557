"""deferred.finish(), deferred.extend() and the rest of what a running job may be told and asked in SQL."""

import hashlib
import os
import struct

import psycopg2
import pytest

import pg

pytestmark = pytest.mark.by_hand

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
    db.sql(
        "insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone, claimed_at, expires_at)"
        " values ('default', 7, %s, array[%s::bigint], int8range(%s, %s, '[]'), pg_current_snapshot(), false, now() - "
        "interval '2 s', now() + %s::interval)",
        receipt,
        job,
        job,
        job,
        lease,
    )


def refused(db, sql, *args):
    """The SQLSTATE and the message of a statement that is refused."""
    with pytest.raises(psycopg2.Error) as e:
        db.sql(sql, *args)
    return e.value.pgcode, e.value.diag.message_primary


def everything(db):
    return (
        db.sql("select * from deferred.__deferred_hot order by id"),
        db.sql("select * from deferred.__deferred_lease order by receipt, expires_at"),
        db.log(),
    )


def lapsed(db, job):
    db.sql("update deferred.__deferred_lease set expires_at = now() - interval '1 s' where %s = any (ids)", job)


def taken(db, job):
    given_back(db, job)
    claim(db, job, receipt=5)


def given_back(db, job):
    """The lease stays: it was of others too."""
    db.sql("update deferred.__deferred_hot set xid = pg_current_xact_id(), visible_at = now() where id = %s", job)


WHY = {
    "finished": (
        lambda db, job, receipt=RECEIPT: db.sql("select deferred.finish(%s, %s)", job, told(job, receipt)),
        "it is finished already",
    ),
    "cancelled": (lambda db, job: db.sql("select deferred.cancel(%s)", job), "it was cancelled"),
    "lapsed": (lapsed, "its lease has expired"),
    "taken over": (taken, "another worker has claimed it"),
    "given back": (given_back, "it is not running"),
}


@pytest.mark.parametrize("why", WHY)
@pytest.mark.parametrize(
    "call", ["select deferred.finish(%s, %s)", "select deferred.extend(%s, %s, 1000)"], ids=["finish", "extend"]
)
def test_a_receipt_that_is_not_valid_any_more_is_refused_with_the_reason(db, job, why, call):
    make, text = WHY[why]
    make(db, job)
    before = everything(db)
    assert refused(db, call, job, told(job)) == ("55000", f"job {job} is not held by this receipt: {text}")
    assert everything(db) == before


@pytest.mark.parametrize(
    "call, code",
    [
        ("select deferred.finish(null, 5)", "22004"),
        ("select deferred.finish({job}, null)", "22004"),
        ("select deferred.finish(0, 0)", "55000"),
        ("select deferred.finish({job}, {told}, repeat('x', 8193))", "22001"),
        ("select deferred.finish({job}, {told}, repeat('é', 4097))", "22001"),
        ("select deferred.extend({job}, {told}, 0)", "22003"),
        ("select deferred.extend({job}, {told}, -5)", "22003"),
        ("select deferred.extend({job}, {told}, 604800001)", "22003"),
        ("select deferred.extend({job}, {told}, null)", "22003"),
        ("select deferred.extend({job}, null, 5)", "22004"),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(db, job, call, code):
    before = everything(db)
    assert refused(db, call.format(job=job, told=told(job)))[0] == code
    assert everything(db) == before and db.log() == []


def test_finish_writes_the_log_row_of_the_attempt(db, job, ledger):
    db.sql("insert into deferred.__deferred_progress values (%s, 1, 2, 3, 'x', now())", job)
    assert db.one("select deferred.finish(%s, %s, %s)", job, told(job), "x" * 8192) == ""
    assert db.sql(
        "select attempt, outcome, final, worker, receipt, run_us between 2e6 "
        "and 9e6, length(result), finished_at >= started_at"
        " from deferred.__deferred_log"
    ) == [(1, "ok", True, 7, RECEIPT, True, 8192, True)]
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
    assert db.sql("select id, attempt from deferred.__held") == [(job, 1)] and db.log() == []
    db.sql("select deferred.finish(%s, %s)", job, told(job))
    assert db.log() == [(job, 1, "ok")]


@pytest.mark.parametrize(
    "call", ["select deferred.finish(%s, %s)", "select deferred.extend(%s, %s, 1000)"], ids=["finish", "extend"]
)
def test_neither_the_receipt_nor_the_token_of_another_job_is_taken(db, job, call):
    other = db.defer("noop")
    claim(db, other)
    before = everything(db)
    for wrong in (RECEIPT, told(other), told(job, RECEIPT + 1), -told(job), 0):
        assert refused(db, call, job, wrong) == (
            "55000",
            f"job {job} is not held by this receipt: another worker has claimed it",
        )
    assert everything(db) == before and db.log() == []
    db.sql(call, job, told(job))


def test_extend_makes_a_lease_longer_and_never_shorter(db, job):
    end = "select max(expires_at) from deferred.__held"
    ends = db.one("select deferred.extend(%s, %s, 3600000)", job, told(job))
    assert (
        db.one(f"select extract(epoch from ({end}) - clock_timestamp()) between 3590 and 3600") and db.one(end) == ends
    )
    assert db.one("select deferred.extend(%s, %s, 1000)", job, told(job)) == ends == db.one(end)
    assert db.one("select deferred.extend(%s, %s, 604800000)", job, told(job)) > ends


def test_what_was_extended_outlives_the_lease_it_was_claimed_with(db, job, ledger):
    """And that alone: others of the batch are ready when their lease has ended."""
    other = db.defer("noop")
    db.sql(
        "update deferred.__deferred_lease set ids = ids || %s::bigint, span = int8range(%s, %s, '[]'), "
        "snap = pg_current_snapshot()",
        other,
        job,
        other,
    )
    db.sql("select deferred.extend(%s, %s, 3600000)", job, told(job))
    db.sql("update deferred.__deferred_lease set expires_at = now() - interval '1 s' where %s = any (ids)", other)
    assert db.one("select count(*) from deferred.__lost(null, 'lost', 3)") == 1
    assert db.sql("select id from deferred.__held") == [(job,)]
    assert db.sql("select id, suspect from deferred.__deferred_hot order by id") == [(job, None), (other, True)]
    assert refused(db, "select deferred.finish(%s, %s)", other, told(other))[0] == "55000"
    db.sql("select deferred.finish(%s, %s)", job, told(job))
    assert db.log() == [(job, 1, "ok")]
    db.sql("update deferred.__deferred_lease set expires_at = now() - interval '1 s'")
    assert (
        db.one("select count(*) from deferred.__lost(null, 'lost', 3)") == 0
        and db.sql("select * from deferred.__deferred_lease") == []
    )
    ledger(db)


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


def test_who_deferred_it_may_with_the_receipt_and_a_member_of_that_role_and_no_other_producer(db, job, role):
    role()
    assert refused(db, f"select deferred.finish({job}, {told(job)})")[0] == "42501"
    db.sql("reset role")
    role("deferred_viewer")
    assert refused(db, f"select deferred.extend({job}, {told(job)}, 1)")[0] == "42501"
    assert db.sql("select done from deferred.__deferred_progress") == []
    db.sql("reset role")
    role("deferred_producer")
    for call in f"select deferred.finish({job}, {told(job)})", f"select deferred.extend({job}, {told(job)}, 1)":
        assert refused(db, call) == ("42501", f"job {job} was deferred by another role")
    db.sql("reset role")
    db.sql(f"update deferred.__deferred set created_by = 'producer_of_' || current_database() where id = {job}")
    creator = db.one(f"select created_by from deferred.__deferred where id = {job}")
    db.sql(f"create role {creator} in role deferred_producer")
    try:
        role("deferred_producer")
        member = db.one("select current_user")
        db.sql("reset role")
        db.sql(f"grant {creator} to {member}")
        for who in member, creator:
            db.sql(f"set role {who}")
            db.sql(f"select deferred.extend({job}, {told(job)}, 100000)")
    finally:
        db.sql("reset role")
        db.sql(f"drop role {creator}")
    db.sql(f"update deferred.__deferred set created_by = %s where id = {job}", member)
    db.sql(f"set role {member}")
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
    receipts = [RECEIPT + job for job in jobs]
    for job, receipt in zip(jobs, receipts):
        claim(db, job, receipt)
    WHY["finished"][0](db, jobs[0], receipts[0])
    for job, why in zip(jobs[1:], ("cancelled", "lapsed", "taken over", "given back")):
        WHY[why][0](db, job)
    text = pg.source("job_renew")
    for n, value in (("$1", jobs), ("$2", receipts), ("$3", receipts), ("$4", [60000] * 6)):
        text = text.replace(n, "array" + str(value))
    rows = db.sql(text.replace("%", "%%"))
    why = ("ok", "cancelled", None, None, None)
    assert sorted(r for r in rows if r[0] is not None) == [
        (job, receipt, None, outcome) for job, receipt, outcome in zip(jobs, receipts, why)
    ]
    assert (None, receipts[5], 60000, None) in rows and receipts[2] not in [r[1] for r in rows if r[0] is None]
