"""`deferred doctor`: one run in which all is well, and for each check what it is for, brought about."""

import json
import os

import pytest

from test_deferred import login

OK, WARN, FAIL = 0, 1, 2


@pytest.fixture
def doctor(db):
    """Calls it as the role a line of cron connects as; findings by check, each (status, what, why, do)."""
    db.worker, env = login(db, "deferred_worker")

    def ask(code, env=env, options=(), **kw):
        done = db.run(["deferred", *options, "--json", "doctor"], env=env, **kw)
        assert done.returncode == code and done.stderr == "", done
        found = {}
        for f in json.loads(done.stdout):
            assert (f["status"] == "ok") == ("what" not in f), f
            if f["status"] != "ok":
                assert f["what"] and f["why"] and f["do"], f
                found.setdefault(f["check"], []).append((f["status"], f["what"], f["why"], f["do"]))
        return found
    ask.env = env
    return ask


def test_all_is_well(db, doctor):
    db.defer("noop")
    db.run(["check_deferred"])
    done = db.run(["deferred", "doctor"], env=doctor.env)
    assert done.returncode == OK and done.stderr == ""
    checks = [line.split() for line in done.stdout.splitlines()]
    assert {c[0] for c in checks} == {"ok"} and all(len(c) == 2 for c in checks) and len(checks) == 18, done.stdout


def test_what_is_wrong_with_the_config_and_the_connection(db, doctor):
    for env, status, what in (({"DEFERRED_DB": "host=/nonexistent"}, "connection", "cannot connect"),
                              ({"DEFERRED_DB": db.conninfo + " user=nobody_there"}, "connection", "nobody_there"),
                              ({"DEFERRED_CONFIG": "/nonexistent"}, "config", "/nonexistent")):
        found = doctor(FAIL, env={**doctor.env, **env})
        assert list(found) == [status] and what in found[status][0][1]
    db.config("cntt = 1\n")
    assert 'unknown setting "cntt"' in doctor(FAIL)["config"][0][1]


def test_what_is_wrong_with_schema_and_role(db, doctor):
    assert doctor(WARN, env={})["role"][0][1].endswith("a superuser")
    name, nothing = login(db, "deferred_producer")
    found = doctor(FAIL, env=nothing)
    assert found["role" if "role" in found else "schema"][0][3].startswith("grant deferred_worker to")
    db.sql(f"grant deferred_owner to {name}")
    told = doctor(FAIL, env=nothing)["role"]
    assert [t[0] for t in told] == ["warn", "fail"] and told[0][3] == f"revoke deferred_owner from {name}; grant deferred_worker to {name}"
    db.sql("revoke delete on deferred.__deferred_lease from deferred_worker")
    try:
        mend = doctor(FAIL)["role"][0][3]
    finally:
        db.sql("grant delete on deferred.__deferred_lease to deferred_worker")
    assert mend == "grant delete on deferred.__deferred_lease to deferred_worker"
    db.sql("update deferred.__deferred_source set checksum = '' where name = 'functions/defer'")
    found = doctor(WARN)
    assert list(found) == ["schema"] and "functions/defer" in found["schema"][0][1] and found["schema"][0][3] == "deferred migrate"
    assert db.run(["deferred", "migrate"]).returncode == 0 and doctor(OK) == {}
    db.sql("update deferred.__deferred_migration set version = 999")
    assert list(doctor(FAIL)) == ["schema"]
    db.sql("drop schema deferred cascade")
    assert doctor(FAIL)["schema"][0][1] == "there is no schema in this database"


def test_what_is_wrong_with_the_tables(db, doctor):
    db.sql("update pg_index set indisvalid = false where indexrelid = 'deferred.__deferred_hot_delayed'::regclass")
    for weeks in 2, 3, 4:
        table = db.one("select '__deferred_log_' || to_char(date_trunc('week', now() at time zone 'UTC') + %s * interval '1 week', 'YYYYMMDD')", weeks)
        db.sql(f"drop table deferred.{table}")
    db.sql("insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at) values (1, 1, 'ok', true, now() - interval '1 year')")
    db.sql("select pg_stat_force_next_flush()")
    db.sql("select 1")
    found = doctor(FAIL)
    assert set(found) == {"indexes", "partitions"}
    assert found["indexes"] == [("fail", "index deferred.__deferred_hot_delayed of deferred.__deferred_hot is not valid", found["indexes"][0][2],
                                 "reindex index concurrently deferred.__deferred_hot_delayed")]
    assert [(s, w) for s, w, _, _ in found["partitions"]] == [("warn", "__deferred_log has no partition for the week after the next"),
                                                              ("warn", "1 row in the partitions that take what no other does")]
    db.sql(found["indexes"][0][3])
    db.sql("delete from deferred.__deferred_log")
    db.sql("create table deferred.__deferred_log_old partition of deferred.__deferred_log for values from ('2020-01-06') to ('2020-01-13')")
    db.sql("select deferred.maintain(); select pg_stat_force_next_flush()")
    db.sql("insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at) values (1, 1, 'ok', true, '2020-01-07')")
    found = doctor(WARN)
    assert set(found) == {"retention"} and "was never purged" in found["retention"][0][1] and found["retention"][0][3].endswith("purge --older-than 30d")
    assert db.run(["deferred", "purge", "--older-than", "10000d"]).returncode == 0 and doctor(OK) == {}
    db.sql("update deferred.__deferred_upkeep set purged_at = now() - interval '40 days', purged_older = '20 days'")
    assert "though the last purge, 40 days ago, was told to keep 20" in doctor(WARN)["retention"][0][1]
    assert db.run(["deferred", "purge", "--older-than", "20d"]).returncode == 0 and doctor(OK) == {}
