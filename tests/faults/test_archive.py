"""The worked example of rules: old documents and tasks are archived exactly once, whatever happens to the agents."""

import itertools
import json
import os
import random
import signal
import time

import harness
import pg
import pytest

ROWS = 3000
RULES = {
    "archive_documents": "select 'document' as \"table\", id, 'document-' || id as key from app.document "
    "where changed_at < now() - interval '3 years'",
    "archive_tasks": "select 'task' as \"table\", id, 'task-' || id as key from app.task "
    "where done_at < now() - interval '3 years'",
}


@pytest.fixture
def app(db):
    """Tables with old rows, the rules, and the plugin."""
    result = harness.run(
        [
            "psql",
            "-X",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-v",
            f"rows={ROWS}",
            "-d",
            db.conninfo,
            "-f",
            os.path.join(pg.TOP, "tests", "demo", "archive.sql"),
        ]
    )
    assert result.returncode == 0, result.stderr
    db.plugins("archive")
    db.config(f'settings "archive" {{ conninfo = "{db.conninfo}" }}\n')
    for name, query in RULES.items():
        result = db.run(["deferred", "rule", "add", name, "archive_row", query, "--key", "key"])
        assert result.returncode == 0, result
    return db


def queue_all(app):
    answers = json.loads(app.run(["deferred", "rule", "run", "--json"]).stdout)
    assert all(a["failed"] == 0 for a in answers)
    return sum(a["queued"] for a in answers)


def agent(app, n):
    return app.spawn(["check_deferred", "--cnt", 0, "--runners", 1, "--pidfile", os.path.join(app.dir, f"agent{n}")])


def archived(app):
    return app.one("select (select count(*) from app.document_archive) + (select count(*) from app.task_archive)")


def each_once(app):
    for table in ("document", "task"):
        assert app.sql(
            f"select count(*), count(distinct id), count(*) filter (where id % 10 = 0) from app.{table}_archive"
        ) == [(ROWS * 9 // 10, ROWS * 9 // 10, 0)]
        assert app.sql(f"select count(*), count(*) filter (where id % 10 <> 0) from app.{table}") == [(ROWS // 10, 0)]


@pytest.mark.slow
def test_one_agent_archives_each_row_once(app, ledger):
    assert queue_all(app) == ROWS * 9 // 5
    assert queue_all(app) == 0
    assert agent(app, 0).wait(120) == 0
    each_once(app)
    assert queue_all(app) == 0
    assert app.sql("select outcome, count(*) from deferred.__deferred_log group by 1") == [("ok", ROWS * 9 // 5)]
    ledger(app)


def test_a_row_moved_before_is_success_and_one_that_never_was_is_dead(app):
    app.sql("select deferred.defer('archive_row', %s) from generate_series(1, 2)", '{"table": "task", "id": 1}')
    app.defer("archive_row", '{"table": "task", "id": 999999}')
    app.defer("archive_row", '{"table": "pg_authid", "id": 1}')
    assert agent(app, 0).wait(60) == 0
    assert app.sql("select result, error from deferred.__deferred_log order by coalesce(result, error)") == [
        ("moved", None),
        (None, 'params need "table", document or task, and "id", a number'),
        (None, "there is no such row"),
        ("was moved before", None),
    ]
    assert app.one("select count(*) from app.task_archive") == 1


def stop_at_work(app, agents, rng):
    """Stop one that holds claims, and so keeps them; its index."""
    while app.hot() > 0:
        victim = rng.randrange(len(agents))
        if agents[victim].process.poll() is not None:
            agents[victim] = agent(app, victim)
        agents[victim].signal(signal.SIGSTOP)
        if app.one(
            "select exists (select from deferred.__deferred_worker w join deferred.__held h on h.worker = w.id"
            " where w.pid = %s and w.ended_at is null)",
            agents[victim].pid,
        ):
            return victim
        agents[victim].signal(signal.SIGCONT)
        time.sleep(0.01)
    pytest.fail("all was archived before anybody could be killed at work")


@pytest.mark.slow
def test_the_number_of_agents_changes_and_some_are_killed(app, ledger, wait_for):
    """1, 2, 8 of them, some ended, two killed by SIGKILL and their runners with them, one more told
    to end; then rules again."""
    seed = int(os.environ.get("DEFERRED_TEST_SEED", "1"))
    rng = random.Random(seed)
    total = queue_all(app)
    agents = [agent(app, 0)]
    wait_for(lambda: archived(app) > 100)
    agents += [agent(app, 1)]
    wait_for(lambda: archived(app) > 300)
    agents += [agent(app, n) for n in range(2, 8)]
    for _ in range(2):
        victim = stop_at_work(app, agents, rng)
        agents[victim].signal(signal.SIGKILL)
        agents[victim].wait()
        # Its successor on the same pid file knows it is dead, and takes its jobs back.
        agents[victim] = agent(app, victim)
    agents[rng.randrange(8)].signal(signal.SIGTERM)
    queue_all(app)  # what is not hot any more is archived already, or it would be queued again
    for a in agents:
        a.wait(120)
    wait_for(lambda: not app.orphans())
    # Jobs of who was killed last, and after them what failed and waits for its next attempt.
    deadline = time.monotonic() + 120
    for n in itertools.cycle(range(8)):
        last = agent(app, n)
        assert last.wait(120) == 0, last.output()
        if time.monotonic() > deadline or (n == 7 and app.hot() == 0):
            break
    left = app.sql(
        "select h.id, h.visible_at, h.attempt, l.worker, clock_timestamp() from deferred.__deferred_hot h"
        " left join deferred.__held l on l.id = h.id"
    )
    assert left == [], f"seed {seed}: {left}\n" + "\n".join(a.output() for a in app.started)
    each_once(app)
    assert queue_all(app) == 0
    assert app.one("select count(distinct job_id) from deferred.__deferred_log where outcome = 'ok'") >= total
    assert any("ready again" in a.output() for a in app.started), "somebody was killed at work"
    ledger(app)
