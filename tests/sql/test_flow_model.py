"""Random flows and random events, beside a model of what must become of them.

Each job has a fate that is drawn when it is deferred. Notes are told by calls with tiny budgets,
some of which are rolled back, and those who end jobs roll back too.
tests/faults/test_random_flows.py has them run by workers. DEFERRED_TEST_SEED repeats a run,
DEFERRED_TEST_FLOWS is how many flows there are.
"""

import os
import random

from flow_model import FATES, Flow
from test_waits import clean, end, settle

FLOWS = int(os.environ.get("DEFERRED_TEST_FLOWS", "4"))


def strike(db, job, fate):
    if fate == "cancel":
        db.sql("select deferred.cancel(%s)", job)
    else:
        end(db, job, fate)


def retry_to_the_end(db):
    """A retry waits for the note that has the rest of its flow cancelled, and the end of the flow for the retry."""
    for _ in range(100):
        db.sql("update deferred.__deferred_flow_retry set not_before = '-infinity'")
        if not db.one("select deferred.__flow_retry_some()"):
            if not db.one("select count(*) from deferred.__deferred_flow_retry where ended_at is null"):
                return
            db.sql("select deferred.__settle(1000)")
    raise AssertionError("a retry of a flow does not come to its end")


def retry_whole(db, rng, flows):
    """Flows are retried, some of it rolled back, while jobs end and notes are told; then each job
    ends well, until nothing is left to retry.

    What was ready by then is run; no other member is, as long as one it waits for is still to be run."""
    before = set()
    for _ in range(30 * len(flows)):
        what = rng.random()
        ready = [row[0] for row in db.sql("select id from deferred.__deferred_hot where due_at is null order by id")]
        undone = rng.random() < 0.2
        if undone:
            db.sql("begin")
        if what < 0.25:
            before.update(ready)
            if rng.random() < 0.5:
                db.sql("select deferred.flow_retry(%s)", rng.choice(flows).id)
            db.sql("update deferred.__deferred_flow_retry set not_before = '-infinity'")
            db.sql("select deferred.__flow_retry_some()")
        elif what < 0.6 and ready:
            job = rng.choice(ready)
            strike(db, job, rng.choice(FATES))
            if not undone:
                before.discard(job)
        else:
            db.sql("update deferred.__deferred_ended set not_before = '-infinity' where not_before > clock_timestamp()")
            db.sql("select deferred.__settle(%s)", rng.choice((1, 2, 5, 50)))
        if undone:
            db.sql("rollback")
        clean(db)
        early = db.sql(
            """select e.child, e.parent from deferred.__deferred_edge e join deferred.__deferred_hot c
                on c.id = e.child and c.due_at is null
                          join deferred.__deferred_hot p on p.id = e.parent
                          join deferred.__deferred_member m on m.job = e.child where e.child <> all (%s)""",
            list(before),
        )
        assert early == [], "a job is ready before one it waits for has ended"
    retry_to_the_end(db)
    for _ in range(50):
        settle(db)
        ready = [row[0] for row in db.sql("select id from deferred.__deferred_hot where due_at is null order by id")]
        if ready:
            for job in ready:
                end(db, job)
            continue
        assert db.hot() == 0, "nobody waits for what has ended"
        for flow in flows:
            db.sql("select deferred.flow_retry(%s)", flow.id)
        retry_to_the_end(db)
        clean(db)
        if db.hot() == 0:
            break
    else:
        raise AssertionError("flows go on for ever")
    settle(db)


def test_random_flows_end_as_the_model_says(db, seed):
    rng = random.Random(seed)
    flows = [Flow(db, rng) for _ in range(FLOWS)]
    fate = {job: f for flow in flows for job, f in zip(flow.jobs, flow.fates)}
    clean(db)
    for step in range(100 * FLOWS):
        ready = [row[0] for row in db.sql("select id from deferred.__deferred_hot where due_at is null order by id")]
        notes = db.one("select count(*) from deferred.__deferred_ended")
        if rng.random() < 0.2 or (not ready and not notes):
            if any(flow.pass_on(db, rng) for flow in rng.sample(flows, len(flows))):
                continue
        if not ready and not notes and not db.one("select coalesce(deferred.__settle_due() <= now(), false)"):
            break
        undone = rng.random() < 0.2
        if undone:
            db.sql("begin")
        if ready and (not notes or rng.random() < 0.6):
            for job in rng.sample(ready, min(len(ready), rng.randint(1, 4))):
                strike(db, job, fate[job])
        else:
            db.sql("update deferred.__deferred_ended set not_before = '-infinity' where not_before > clock_timestamp()")
            db.sql("select deferred.__settle(%s)", rng.choice((1, 2, 3, 5, 50)))
        if undone:
            db.sql("rollback")
        if step % 20 == 0:
            clean(db)
    clean(db)
    assert [flow.seen(db) for flow in flows] == [flow.expected(flow.stopped(db)) for flow in flows], f"seed {seed}"
    for flow in flows:
        flow.check(db, flow.seen(db))
    assert db.one("select count(*) from deferred.__deferred_wait") == 0 and db.hot() == 0
    for name in (name for flow in flows for name in flow.events):
        db.sql("select deferred.send_event(%s)", name)  # so that those that are retried need not wait
    # By hand, in any order: nothing else moves, and what is run again ends again.
    again = [job for flow in flows for job, end_ in zip(flow.jobs, flow.seen(db)) if end_ != "ok"][:10]
    for job in again:
        assert db.one("select deferred.retry(%s)", job)
        strike(db, job, rng.choice(FATES))
    settle(db)
    clean(db)
    assert db.hot() == 0 and db.one("select count(*) from deferred.__deferred_wait") == 0
    retry_whole(db, rng, flows)
    clean(db)
