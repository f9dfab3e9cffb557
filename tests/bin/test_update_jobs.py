"""deferred update: what it takes, prints and answers with."""

import json

import pytest

from test_deferred import end, fails, login, ok

NOT_DONE, USAGE, DATA = 1, 64, 65


def update(db, *args):
    return ok(db.run(["deferred", "update", *map(str, args)]))


def jobs(db, *columns):
    return db.sql(f"select {', '.join(columns)} from deferred.__deferred order by id")


def test_jobs_are_changed_by_their_ids(db):
    one, two = db.defer("noop"), db.defer("noop", queue="b")
    assert update(db, one, two, "--priority", "5", "--queue", "q", "--label", "l") == "1 changed\n2 changed\n"
    assert jobs(db, "queue", "label", "priority") == [("q", "l", 5)] * 2
    args = ["--to-queue", "r", "--to-label", "m", "--max-attempts", "2", "--timeout", "90s", "--delay", "1h"]
    assert json.loads(update(db, one, *args, "--params", '{"a":  1.0}', "--json")) == [{"id": one, "changed": True}]
    assert jobs(db, "queue", "label", "max_attempts", "timeout_ms", "run_at > now()", "params::text")[0] == (
        "r", "m", 2, 90000, True, '{"a":  1.0}'
    )  # fmt: skip
    update(db, one, "--to-label", "", "--max-attempts", "", "--timeout", "", "--delay", "0")
    assert jobs(db, "label", "max_attempts", "timeout_ms", "run_at")[0] == (None,) * 4
    assert ok(db.run(["deferred", "update", "1", "--params", "-"], input='"from standard input"\n')) == "1 changed\n"
    assert jobs(db, "params")[0] == ("from standard input",)
    update(db, one, "--run-at", "2099-01-31 14:30")
    assert db.one("select state from deferred.job where id = %s", one) == "delayed"


def test_jobs_are_changed_by_a_filter(db):
    for n in range(3):
        db.defer("noop", queue="ab"[n % 2], label="x")
    db.defer("echo", delay="1h")
    assert update(db, "--queue", "a", "--to-queue", "c", "--dry-run") == "2 jobs to update\n"
    assert update(db, "--queue", "a", "--to-queue", "c", "--to-label", "y") == "2 jobs changed\n"
    assert jobs(db, "queue", "label") == [("c", "y"), ("b", "x"), ("c", "y"), ("default", None)]
    assert json.loads(update(db, "--state", "delayed", "--priority", "-1", "--json")) == {
        "changed": 1, "refused": 0, "more": False
    }  # fmt: skip
    assert ok(db.run(["deferred", "queue", "set", "small", "--create", "--max-length", "1"])) == ""
    done = db.run(["deferred", "update", "--fn", "noop", "--to-queue", "small"])
    assert (done.returncode, done.stdout) == (NOT_DONE, "1 job changed\n")
    assert "2 jobs refused, the first: queue 'small' is full" in done.stderr
    assert update(db, "--ended-since", "1h", "--priority", "1") == "0 jobs changed\n"


@pytest.mark.parametrize(
    "args, code, texts",
    [
        (["1"], USAGE, ["a change is missing", "--priority 5"]),
        (["--fn", "noop"], USAGE, ["a change is missing"]),
        (["--queue", "q"], USAGE, ["a change is missing"]),
        (["--priority", "5"], USAGE, ["job ids or a filter are missing"]),
        (["1", "--fn", "noop", "--priority", "5"], USAGE, ["argument '1' contradicts the filter"]),
        (["1", "--priority", "5", "--dry-run"], USAGE, ["option '--dry-run' needs a filter"]),
        (["x", "--priority", "5"], USAGE, ["job id"]),
        (["--state", "dead", "--priority", "5"], USAGE, ["'dead' is not one of ready, delayed and waiting"]),
        (["1", "--delay", "5"], USAGE, ["option '--delay': value '5' has no unit"]),
        (["1", "--timeout", "5"], USAGE, ["option '--timeout': value '5' has no unit"]),
        (["1", "--params", "{"], DATA, ["JSON"]),
        (["1", "--params", '1, "priority": 5'], DATA, ["JSON"]),
        (["1", "--priority", "high"], DATA, ["option 'priority' is not a number: 'high'"]),
        (["--fn", "noop", "--run-at", "soon", "--dry-run"], DATA, ["option 'run_at': 'soon' is not a time"]),
        (["1", "--queue", "a b"], DATA, ["queue name 'a b' is invalid"]),
        (["99", "--priority", "5"], NOT_DONE, ["job 99 does not exist"]),
        (["2", "--priority", "5"], NOT_DONE, ["job 2 has ended", "hint: only jobs that wait can be changed"]),
        (["3", "--priority", "5"], NOT_DONE, ["job 3 is claimed", "hint: change the job when its attempt has ended"]),
    ],
)
def test_what_is_wrong_is_named_and_changes_nothing(db, args, code, texts):
    db.defer("noop")
    end(db, db.defer("noop"))
    db.hold(db.defer("noop"))
    fails(db.run(["deferred", "update", *args]), code, *texts)
    assert jobs(db, "priority", "queue", "params::text") == [(0, "default", "{}")] * 3


def test_changes_are_written_down_without_params(db):
    job = db.defer("noop")
    update(db, job, "--priority", "5", "--params", '{"secret": 1}')
    update(db, "--fn", "noop", "--to-label", "", "--params", '{"secret": 1}')
    update(db, "--fn", "noop", "--priority", "1", "--dry-run")
    noted = "select verb, job_id, settings, filter, jobs, refused, who ~ ': deferred update$' from deferred.__action"
    assert db.sql(noted + " order by id") == [
        ("update", job, {"priority": "5", "params": "changed"}, None, None, None, True),
        ("update", None, {"label": None, "params": "changed"}, {"fn": "noop"}, 1, None, True),
    ]
    name, own = login(db, "deferred_producer")
    try:
        mine = ok(db.run(["deferred", "add", "noop"], env=own)).strip()
        ok(db.run(["deferred", "update", mine, "--priority", "3"], env=own))
        assert db.run(["deferred", "update", str(job), "--priority", "3"], env=own).returncode == NOT_DONE
    finally:
        db.sql(f"drop role {name}")
    assert len(db.sql(noted)) == 2
