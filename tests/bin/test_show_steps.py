"""How steps are shown, and deleted on demand."""

import json

import pytest

from harness import ledger


@pytest.fixture
def dead(db):
    """A job that saved two steps, the second one twice, and failed for good."""
    db.plugins("running")
    job = db.defer("saved", json.dumps({"file": f"{db.dir}/said", "dead": 2}))
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    return job


def test_show_prints_the_steps(db, dead):
    shown = db.run(["deferred", "show", dead]).stdout
    (first, second) = [line for line in shown.splitlines() if ", attempt 1, 2" in line]
    assert first.startswith("steps       1 s1, attempt 1, 20") and first.endswith(": 1")
    assert second.startswith("            2 s2, attempt 1, 20") and second.endswith(": 2")
    steps = json.loads(db.run(["deferred", "show", "--json", dead]).stdout)["steps"]
    assert [(s["number"], s["name"], s["attempt"], s["value"]) for s in steps] == [(1, "s1", 1, 1), (2, "s2", 1, 2)]
    other = db.defer("noop")
    assert "steps" not in db.run(["deferred", "show", other]).stdout
    assert json.loads(db.run(["deferred", "show", "--json", other]).stdout)["steps"] == []


def test_show_prints_the_beginning_of_a_long_value_on_one_line(db, dead):
    db.sql("update deferred.__deferred_step set value = to_json(repeat(E'x\\n\\x01', 1000)) where name = 's1'")
    (line,) = [line for line in db.run(["deferred", "show", dead]).stdout.splitlines() if " s1, attempt" in line]
    assert len(line) < 300 and "\x01" not in line


def test_why_counts_the_steps_and_names_the_last(db, dead):
    (cause,) = json.loads(db.run(["deferred", "why", "--json", dead]).stdout)
    assert cause["figure"].endswith("; 2 steps saved, the last is s2")
    assert cause["do"] == f"deferred retry {dead}, or from the start: deferred retry --from-start {dead}"
    db.sql("delete from deferred.__deferred_step where name = 's2'")
    (cause,) = json.loads(db.run(["deferred", "why", "--json", dead]).stdout)
    assert cause["figure"].endswith("; 1 step saved, the last is s1")


@pytest.mark.parametrize("words", [["ID"], ["--state", "dead"], ["--fn", "saved"]], ids=lambda w: w[0])
def test_a_retry_keeps_the_steps_unless_it_is_from_the_start(db, dead, words):
    words = [str(dead) if word == "ID" else word for word in words]
    count = "select count(*) from deferred.__deferred_step"
    if words[0] != str(dead):
        assert db.run(["deferred", "retry", "--from-start", "--dry-run", *words]).stdout == "1 job to retry\n"
        assert db.one(count) == 2
    assert db.run(["deferred", "retry", *words]).returncode == 0
    assert db.one(count) == 2
    assert db.run(["deferred", "cancel", dead]).returncode == 0
    words = [word.replace("dead", "cancelled") for word in words]
    if "--fn" in words:
        words += ["--state", "cancelled"]
    assert db.run(["deferred", "retry", "--from-start", *words]).returncode == 0
    assert db.one(count) == 0
    ((who, chosen),) = db.sql(
        "select who, filter from deferred.__deferred_action where verb = 'retry' order by id desc limit 1"
    )
    assert chosen["from_start"] is True if chosen else who.endswith(": deferred retry --from-start")
    ledger(db)
