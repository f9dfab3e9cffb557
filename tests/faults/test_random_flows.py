"""Random flows, run by real workers that are killed, stopped and lose their sessions, while
operators cancel and purge: what becomes of each job is what the model of
tests/harness/flow_model.py says, and none ends twice. DEFERRED_TEST_SEED repeats the draw."""

import random
import signal
import time

import pytest

from flow_model import Flow
from harness import wait_for

FATES = ("ok", "ok", "flaky", "ok", "failed", "crash", "cancel", "late")
CALLS = {
    "ok": {"fn": "noop"},
    "flaky": {"fn": "flaky"},
    "failed": {"fn": "sample.fail", "max_attempts": 1},
    "crash": {"fn": "segv", "max_attempts": 1},
    "cancel": {"fn": "sample.fail", "params": {"cancel": True}},
    "late": {"fn": "slow"},
}
ENDS = {"flaky": "ok", "late": "ok", "crash": "failed"}


def seen(db, flow):
    """As app.ended has it, for the log is purged."""
    return [
        row[0]
        for row in db.sql(
            """
        select case when h.id is not null then 'hot' when l.outcome = 'ok' then 'ok' when l.error like
        'skipped: %%' then 'skipped' else 'failed' end
        from unnest(%s) with ordinality u(id, n) left join deferred.__deferred_hot h using (id)
        left join lateral (select * from app.ended x where x.job_id = u.id order by x.n desc limit 1) l
        on true order by u.n""",
            flow.jobs,
        )
    ]


@pytest.mark.parametrize("purged", [True, False])
@pytest.mark.parametrize("flows", [25, pytest.param(150, marks=pytest.mark.long)])
def test_flows_end_as_the_model_says_whoever_dies(db, flows, purged, seed):
    """Not purged: some flows are opened, for those do not count what was purged before they were looked at."""
    rng = random.Random(seed)
    db.plugins("unruly")
    db.config(
        'lease = "3s"\nbackoff_floor = "1ms"\nbackoff_ceiling = "10ms"\ninterval_floor = "10ms"\ninterval_ceiling = '
        '"100ms"\nmax_attempts = 50\nbreaker { crashes = 0 }\n'
        'function "flaky" { command = {"/bin/sh", "-c", "[ $DEFERRED_JOB_ATTEMPT -gt 1 ]"} }\nfunction "slow" { '
        'command = {"/bin/sleep", "0.05"} }'
    )
    db.sql(
        """create schema app;
        create table app.ended (n bigint generated always as identity, job_id bigint, outcome text, error text);
        create function app.note() returns trigger language plpgsql security definer as
            $$begin if new.final then insert into app.ended (job_id, outcome, error)
            values (new.job_id, new.outcome, new.error); end if; return null; end$$;
        create trigger note after insert on deferred.__deferred_log for each row execute function app.note()"""
    )
    drawn = [Flow(db, rng, lambda fate: dict(CALLS[fate]), FATES, 0 if purged else 0.5) for _ in range(flows)]
    for flow in drawn:
        flow.fates = [ENDS.get(fate, fate) for fate in flow.fates]

    def start(n):
        return db.spawn(
            ["check_deferred", "--loop", "--runners", "2", "--grace", "100ms", "--pidfile", f"{db.pidfile}.{n}"]
        )

    workers = [start(n) for n in range(3)]
    events = {"kill": 0, "stop": 0, "terminate": 0, "purge": 0}
    deadline = time.monotonic() + 60 + flows
    while db.hot() and time.monotonic() < deadline:
        time.sleep(rng.uniform(0.05, 0.4))
        for flow in drawn:
            flow.pass_on(db, rng)
        what, n = rng.choice(
            ("kill", "kill", "kill", "stop", "terminate", *(["purge"] if purged else []))
        ), rng.randrange(3)
        events[what] += 1
        if what in ("kill", "stop"):
            workers[n].signal(signal.SIGKILL if what == "kill" else signal.SIGTERM)
            workers[n].wait()
            workers[n] = start(n)
        elif what == "terminate":
            db.sql(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'check_deferred' "
                "and datname = current_database()"
            )
        else:
            purged = db.run(["deferred", "purge", "--older-than", "0s", "--dead-older-than", "0s"])
            assert purged.returncode == 0, purged.stderr
    for worker in workers:
        worker.signal(signal.SIGTERM)
        worker.wait()
    wait_for(
        lambda: not db.hot() or db.run(["check_deferred", "--cnt", "0"]).returncode, 30, f"all has ended, seed {seed}"
    )
    print(events)
    ends = [seen(db, flow) for flow in drawn]
    for flow, end in zip(drawn, ends):
        stopped = {
            flow.jobs.index(row[0])
            for row in db.sql(
                "select job_id from app.ended where job_id = any (%s) "
                "and error like 'cancelled: job %% of its flow failed'",
                flow.jobs,
            )
        }
        assert all(n < len(flow.spared) and not flow.spared[n] for n in stopped) and (
            flow.cancels or not stopped
        ), f"seed {seed}"
        assert end == flow.expected(stopped), f"seed {seed}"
    assert db.sql("select job_id from app.ended group by job_id having count(*) > 1") == [], "none ends twice"
    assert db.sql("select * from deferred.check_ledger()") == []
