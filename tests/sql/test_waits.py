"""Jobs that wait for jobs: deferred.__settle()."""

import glob
import os

import pg
import psycopg2.errors as pgerror
import pytest
from harness import wait_for

OK = "('{%s}', '{%s}', '{00:00:01}', '{00:00:00}', '{0}', '{0}', '{0}', '{0}', '{0}', 'p', '{%s}', array['%s'::tid])"


def settle(db, most=1000):
    """Until nothing is left to be told; what was put off is due at once."""
    for _ in range(100):
        db.sql("update deferred.__deferred_ended set not_before = now() where late")
        db.sql("select deferred.__settle(%s)", most)
        if not db.one("select exists (select from deferred.__deferred_ended)"):
            return
    raise AssertionError("notes are left")


def states(db, *jobs):
    return [db.one("select state from deferred.job where id = %s", job) for job in jobs]


def clean(db):
    assert db.sql("select * from deferred.check_ledger()") == []


def end(db, job, outcome="ok"):
    """What a worker does; a claim is not needed for it."""
    db.sql(
        "with h as (delete from deferred.__deferred_hot h where id = %s"
        " returning id, case when h.watched then deferred.__note_end(id, attempt + 1, %s) else attempt + 1 end as "
        "attempt)"
        " insert into deferred.__deferred_log (job_id, attempt, outcome, final) select id, attempt, %s, true from h",
        job,
        outcome,
        outcome,
    )


def test_a_job_waits_until_its_parents_have_ended_as_it_says(db):
    first, second = db.defer("a"), db.defer("b")
    both, undo, log = (
        db.defer("c", after=[first, second]),
        db.defer("u", after={"job": first, "on": "failed"}),
        db.defer("l", after=[{"job": second, "on": "ended", "as": "b"}], delay="1h"),
    )
    behind, undone = db.defer("d", after=both), db.defer("e", after={"job": undo, "on": "failed"})
    assert states(db, both, undo, log, behind, undone) == ["waiting"] * 5
    with pytest.raises(pgerror.ObjectNotInPrerequisiteState, match=f"job {both} waits for job {first}"):
        db.sql("select deferred.retry(%s)", both)
    settle(db)
    end(db, first)
    assert states(db, both, undo) == ["waiting"] * 2
    settle(db)
    assert states(db, both, undo, undone) == [
        "waiting",
        "cancelled",
        "cancelled",
    ], "one that was skipped has not failed"
    end(db, second)
    settle(db)
    assert states(db, both, log, behind) == ["ready", "delayed", "waiting"]
    assert db.sql("select deferred.cancel(%s)", both) == [(True,)]
    settle(db)
    assert states(db, behind) == ["cancelled"]
    assert (
        db.one("select error from deferred.__deferred_log where job_id = %s", behind)
        == f"skipped: job {both}, for which it waited, did not end as it must have"
    )
    assert db.one("select count(*) from deferred.__deferred_wait") == 0
    clean(db)
    assert db.sql("select name, parent, \"on\", outcome from deferred.parents(%s)", log) == [
        ("b", second, "ended", "ok")
    ]
    assert db.sql("select deferred.retry(%s)", behind) == [(True,)], "who wants it in spite of all that has it run"
    assert states(db, behind) == ["ready"]


def test_a_job_that_waits_is_released_by_hand_and_who_did_so_is_kept(db):
    parent = db.defer("a")
    job, behind, late = (
        db.defer("b", after=parent),
        db.defer("c", after=parent),
        db.defer("d", after=parent, delay="1h"),
    )
    settle(db)
    with pytest.raises(
        pgerror.ObjectNotInPrerequisiteState, match=f"job {job} waits for job {parent}\n.*deferred flow release"
    ):
        db.sql("select deferred.retry(%s)", job)
    assert db.sql("select deferred.flow_release(%s), deferred.flow_release(%s)", job, late) == [(True, True)]
    assert states(db, parent, job, behind, late) == ["ready", "ready", "waiting", "ready"]
    assert db.sql("select verb, job_id, who = current_user, refused from deferred.__deferred_action order by id") == [
        ("release", job, True, None),
        ("release", late, True, None),
    ]
    clean(db)
    for other in (parent, job):
        with pytest.raises(pgerror.ObjectNotInPrerequisiteState, match=f"job {other} does not wait for other jobs"):
            db.sql("select deferred.flow_release(%s)", other)
    # It ends, and is run again, before the end of its parent is told: nothing of that moves it.
    child = db.defer("e", after=job)
    settle(db)
    end(db, job, "failed")
    db.sql("select deferred.retry(%s)", job)
    end(db, parent, "failed")
    settle(db)
    assert states(db, job, behind, late, child) == ["ready", "cancelled", "ready", "cancelled"]
    with pytest.raises(pgerror.ObjectNotInPrerequisiteState, match="does not wait for other jobs"):
        db.sql("select deferred.flow_release(%s)", behind)
    assert (
        db.one("select count(*) from deferred.__deferred_wait") == 0
        and db.one("select deferred.flow_release(0)") is False
    )
    # Its row is locked while its parent's end is told, and that stands whichever comes first.
    parent = db.defer("f")
    job = db.defer("g", after=parent)
    settle(db)
    with db.connect() as other, other.cursor() as cursor:
        cursor.execute("select deferred.flow_release(%s)", (job,))
        end(db, parent, "failed")
        db.sql("select deferred.__settle(10)")
        other.commit()
    settle(db)
    assert states(db, job) == ["ready"]
    db.sql("update deferred.__deferred set created_by = 'somebody' where id = %s", db.defer("h", after=job))
    with db.connect(options="-c role=deferred_producer") as producer, producer.cursor() as cursor:
        with pytest.raises(pgerror.InsufficientPrivilege):
            cursor.execute("select deferred.flow_release(%s)", (job,))
        producer.rollback()
    clean(db)


def test_jobs_that_have_ended_are_waited_for_and_others_refused(db):
    done, dead, other = db.defer("a"), db.defer("b"), db.defer("c", label="of another role")
    end(db, done)
    end(db, dead, "failed")
    a, b, c = db.defer("d", after=done), db.defer("d", after=dead), db.defer("d", after={"job": dead, "on": "failed"})
    settle(db)
    assert states(db, a, b, c) == ["ready", "cancelled", "ready"]
    for after, says in (
        ([], "names 0 jobs"),
        ([done, done], f"names job {done} twice"),
        (10**6, "job 1000000 does not exist"),
        ({"job": done, "on": "x"}, "has the invalid value"),
        ("x", "invalid value"),
        ({"job": str(done) + " "}, "invalid value"),
        (list(range(1001)), "names 1001 jobs"),
    ):
        with pytest.raises(pgerror.InvalidParameterValue, match=says):
            db.defer("e", after=after)
    with pytest.raises(pgerror.InvalidParameterValue, match="option 'after' is not allowed for a message"):
        db.sql("select deferred.defer(null, '{}'::json, %s::json)", '{"queue": "q", "after": %d}' % done)
    db.sql("update deferred.__deferred set created_by = 'somebody' where id = %s", other)
    with db.connect(options="-c role=deferred_producer") as producer, producer.cursor() as cursor:
        with pytest.raises(pgerror.InvalidParameterValue, match="does not exist"):
            cursor.execute("select deferred.defer('e', '{}'::json, '{\"after\": %s}'::json)", (other,))
    key = db.defer("k", key="one")
    assert db.defer("k", key="one", after=done) == key, "the one that has the key waits for nobody"
    assert states(db, key) == ["ready"]
    clean(db)


def test_every_way_to_end_is_told(db):
    """Each by the statement that does it, of a job that a worker holds or that is ready."""

    def child(job, **more):
        return db.defer("child", after={"job": job, **more})

    job = {
        name: db.defer("a", queue=name, **opts)
        for name, opts in {
            "done": {},
            "finish": {},
            "cancel": {},
            "clear": {},
            "messages": {},
            "expired": {"expires": "1ms"},
            "limited": {"expires": "1ms", "concurrency_key": "k"},
            "lost": {"max_attempts": 1},
            "key": {"key": "k"},
            "key2": {"key": "k", "expires": "1ms"},
        }.items()
    }
    well = {name: child(i) for name, i in job.items()}
    ill = {name: child(i, on="failed") for name, i in job.items()}
    settle(db)
    db.hold(job["done"], receipt=5)
    db.sql(
        "prepare done (int8[], int8[], interval[], interval[], int8[], int8[], int8[], int8[], int8[], text, int8[], "
        "tid[]) as " + pg.source("job_done")
    )
    db.sql(
        "execute done"
        + OK % (job["done"], 5, 5, db.one("select ctid::text from deferred.__deferred_hot where id = %s", job["done"]))
    )
    db.hold(job["finish"], receipt=6)
    db.sql(
        "prepare finish (int8[], int8[], text[], text[], int4[], int4[], int8[], int8[], text[], int8[], int8[], "
        "int8[], int8[], text[], int8[]) as " + pg.source("job_finish")
    )
    db.sql(
        f"execute finish ('{{{job['finish']}}}', '{{6}}', '{{failed}}', '{{no}}', '{{1}}', '{{0}}', '{{2}}', '{{1}}', "
        f"'{{p}}', '{{0}}', '{{0}}', '{{0}}', '{{0}}', '{{x}}', '{{6}}')"
    )
    db.sql("select deferred.cancel(%s)", job["cancel"])
    db.sql("select deferred.__queue_clear('clear', 0, 1000000, 1000)")
    db.sql("select deferred.__message_clear_some('messages', 1000000, 1000)")
    db.sql("select deferred.__claim_aside('expired', null, array[%s])", job["expired"])
    db.sql("select deferred.__claim_limited('{limited}', 1, 1, 1, 1000, 1, null, 1, 1000, 1, null)")
    db.hold(job["lost"], receipt=7, worker=7, alone=True)
    db.sql("select deferred.__lost('{7}', 'lost', 1)")
    db.defer("a", queue="key", key="k", on_duplicate="replace")
    db.defer("a", queue="key2", key="k")
    settle(db)
    for name in job:
        assert (name, *states(db, well[name], ill[name])) == (
            name,
            *(("ready", "cancelled") if name == "done" else ("cancelled", "ready")),
        )
    clean(db)


def test_a_locked_row_is_not_waited_for(db):
    """Neither who ends a job, nor who tells of it, waits for a transaction that cancels another
    one, or defers to wait for it."""
    first, second = db.defer("a"), db.defer("b")
    with db.connect() as other, other.cursor() as cursor:
        cursor.execute("select deferred.cancel(%s)", (first,))
        waits, free = db.defer("c", after=first), db.defer("d", after=second)
        for _ in range(3):
            db.sql("select deferred.__settle(1000)")
        end(db, second)
        db.sql("select deferred.__settle(1000)")
        assert states(db, waits, free) == ["waiting", "ready"]
        # However many are locked, whoever else is to be told is told by the next call; and then
        # nobody looks for a while.
        locked = [db.defer("f", after=first) for _ in range(20)]
        db.sql("select deferred.__settle(15) from generate_series(1, 3)")
        third = db.defer("a")
        told = db.defer("g", after=third)
        end(db, third)
        assert db.sql("select deferred.__settle(15), deferred.__settle(15)")[0][0] > 0
        assert states(db, told) == ["ready"]

        def put_off():
            """Again if so much time passed between two statements that the next look is due."""
            db.sql("select deferred.__settle(1000)")
            query = "select dealt, wait_ms, coalesce(deferred.__settle_due() > now(), false) from deferred.__tick(10)"
            dealt, wait_ms, later = db.sql(query)[0]
            assert dealt == 0
            return later and 100 <= wait_ms <= 500

        wait_for(put_off, 20)
        other.rollback()
        settle(db)
        cursor.execute("select deferred.defer('e', '{}'::json, '{\"after\": %s}'::json)", (first,))
        late = cursor.fetchone()[0]
        end(db, first)
        settle(db)
        other.commit()
    settle(db)
    assert states(db, waits, late, *locked) == ["ready"] * 22
    assert db.sql("select deferred.__settle_due(), dealt, wait_ms from deferred.__tick(10)") == [(None, 0, None)]
    clean(db)


def test_what_is_put_off_costs_one_row_however_many_it_waits_for(db):
    """A producer whose open transaction has the row of a job, or of one parent, slows nobody down
    by the number of its parents."""

    def cost():
        db.sql("update deferred.__deferred_ended set not_before = '-infinity' where late")
        assert db.one("select count(*) from deferred.__deferred_ended") == 1
        plan = db.one("explain (analyze, buffers, format json) select deferred.__settle(1000)")[0]["Plan"]
        return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]

    parents = [row[0] for row in db.sql("select deferred.defer('a', '{}') from generate_series(1, 800)")]
    job, last = db.defer("b", after=parents), db.defer("c", after=parents[0])
    settle(db)
    with db.connect() as other, other.cursor() as cursor:
        cursor.execute("select deferred.cancel(%s)", (job,))
        for parent in parents:
            end(db, parent)
        db.sql("select deferred.__settle(100000)")
        assert states(db, job, last) == ["waiting", "ready"]
        cost()
        other.rollback()
    settle(db)
    assert states(db, job) == ["ready"]

    parents = [row[0] for row in db.sql("select deferred.defer('a', '{}') from generate_series(1, 800)")]
    with db.connect() as other, other.cursor() as cursor:
        cursor.execute("select deferred.cancel(%s)", (parents[7],))
        job = db.defer("b", after=[{"job": p, "on": "ended"} for p in parents])
        db.sql("select deferred.__settle(100000)")
        db.sql("vacuum analyze")
        cost()
        assert cost() < 200
        other.commit()
    for parent in parents:
        end(db, parent)
    settle(db)
    assert states(db, job) == ["ready"]
    clean(db)


def test_a_purge_leaves_nothing_of_who_was_cancelled_while_it_waited(db):
    parent = db.defer("a")
    job = db.defer("b", after=parent)
    settle(db)
    db.sql("select deferred.cancel(%s)", job)
    assert db.one("select count(*) from deferred.__deferred_wait") == 1
    end(db, parent)
    db.sql("delete from deferred.__deferred_log")
    db.sql("select deferred.__purge_jobs('0s', 0, 100)")
    assert db.one("select count(*) from deferred.__deferred") == 0
    assert db.one("select count(*) from deferred.__deferred_wait") == 0
    settle(db)
    clean(db)


def test_who_is_deferred_after_a_retry_is_not_told_of_the_end_before(db):
    """Nor is he missed who took his number before the end, and committed after the retry."""
    parent = db.defer("a", max_attempts=1)
    before = db.defer("b", after={"job": parent, "on": "failed"})
    settle(db)
    with db.connect() as other, other.cursor() as cursor:
        cursor.execute("select deferred.defer('c', '{}'::json, '{\"after\": %s}'::json)", (parent,))
        open_then = cursor.fetchone()[0]
        end(db, parent, "failed")
        db.sql("select deferred.retry(%s)", parent)
        after = db.defer("d", after=parent)
        settle(db)
        other.commit()
    settle(db)
    assert states(db, before, open_then, after) == ["ready", "waiting", "waiting"]
    end(db, parent)
    settle(db)
    assert states(db, before, open_then, after) == ["ready"] * 3
    clean(db)


def test_dead_notes_are_not_walked_over(db):
    """Under a snapshot that is held, and beside a transaction that stays open; what that one noted
    is told all the same."""

    def pages(what):
        plan = db.one(f"explain (analyze, buffers, format json) {what}")[0]["Plan"]
        return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]

    first = db.defer("a")
    last = db.defer("b", after={"job": first, "on": "failed"})
    settle(db)
    with db.connect(
        options="-c default_transaction_isolation=repeatable\\ read"
    ) as held, db.connect() as other, other.cursor() as cursor:
        held.cursor().execute("select 1")
        cursor.execute("select deferred.cancel(%s)", (first,))
        look = "select deferred.__settle_due(), deferred.__settle(10)"
        pages(look)
        cost = pages(look)
        for _ in range(3):
            db.sql(
                "insert into deferred.__deferred_ended (id, what, upto) select 1, 'o', 0 from generate_series(1, 3000)"
            )
            while db.one("select deferred.__settle(2000)"):
                pass
        # Of 9,000. A transaction of another database that stays open costs some until it ends.
        wait_for(lambda: pages(look) < cost + 200, 60)
        other.commit()
        assert db.one("select deferred.__settle_due()") is not None
        db.sql("select deferred.__settle(10)")
        assert states(db, last) == ["ready"]
        wait_for(lambda: pages(look) < cost + 200, 60)
        held.rollback()
    clean(db)


def test_each_statement_that_ends_a_job_tells_those_who_wait():
    """One that forgets it has them wait for ever. Nobody waits for jobs that the same statement has added."""
    added = {"__enqueue_key.sql", "__rule_ended.sql"}
    files = glob.glob(os.path.join(pg.TOP, "sql", "**", "*.sql"), recursive=True)
    ending = [path for path in files if "delete from deferred.__deferred_hot" in open(path, encoding="utf-8").read()]
    assert len(ending) >= 13
    silent = [path for path in ending if "deferred.__note_end(" not in open(path, encoding="utf-8").read()]
    assert {os.path.basename(path) for path in silent} == added
