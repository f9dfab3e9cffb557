"""Figures of real runs: who folds, and what `deferred metrics` tells of it."""

import json
import os
import re
import shutil
import subprocess

import pytest

import pg
from harness import program, wait_for


def metrics(text):
    """{name and labels: value}"""
    return {
        key: float(value)
        for key, value in (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    }


def checked(text):
    """What promtool, where it is installed, has to say of it."""
    if not shutil.which("promtool"):
        return ""
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    return done.stdout + done.stderr


def old(db):
    """As if everything had happened a while ago."""
    db.sql(
        "update deferred.__deferred_log set finished_at = finished_at - interval '10 minutes', "
        "started_at = started_at - interval '10 minutes'"
    )
    db.sql("update deferred.__deferred set created_at = created_at - interval '10 minutes'")
    db.sql("update deferred.__deferred_folded set folded_to = now() - interval '20 minutes', slice = '1 hour'")


def deferred(db, *args, **kw):
    return db.run([program("deferred"), *args], **kw)


@pytest.mark.by_hand
def test_figures_are_folded_by_a_run_and_told(db):
    db.sql("select deferred.__queue_set('mail', '{\"max_running\": 4}', true)")
    for i in range(3):
        db.defer("echo", queue="mail")
    db.defer("fail", max_attempts=1)
    db.defer('echo', queue="images")
    db.sql("select deferred.__queue_set('images', '{\"paused\": true}')")
    done = db.run([program("check_deferred"), "--cnt", "0", "--log-format", "json", "--log-level", "debug"])
    assert done.returncode == 0
    said = [json.loads(line) for line in done.stderr.splitlines()]
    assert {frozenset(["ts", "level", "program", "pid", "event", "msg"]) <= set(line) for line in said} == {True}
    about = {line["fn"]: line for line in said if line["event"] == "attempt"}
    assert (about["fail"]["outcome"], about["fail"]["final"], about["fail"]["queue"], "retry_ms" in about["fail"]) == (
        "failed",
        True,
        "default",
        False,
    )
    assert (
        about["fail"]["msg"].startswith(f"job {about['fail']['job']} fail attempt 1: failed: ")
        and about["echo"]["outcome"] == "ok"
    )
    assert db.one("select count(*) from deferred.__deferred_sum") == 0
    old(db)
    db.defer("echo", queue="mail")
    assert db.run([program("check_deferred"), "--cnt", "0"]).returncode == 0  # nobody had folded for five minutes
    assert db.one("select folded_to > now() - interval '1 minute' from deferred.__deferred_folded")
    assert (
        db.one(
            "select ok from deferred.__deferred_sum x join deferred.__deferred_series s on s.id = x.series "
            "where (span, queue, fn) = (0, 'mail', '*')"
        )
        == 3
    )
    old(db)
    db.sql("truncate deferred.__deferred_sum")
    done = deferred(db, "--json", "fold", "--rebuild")
    assert (done.returncode, json.loads(done.stdout)["attempts"]) == (0, 5), done.stderr
    assert deferred(db, "fold").stdout == "0 attempts and 0 deferred jobs added to the sums\n"

    path = os.path.join(db.dir, "deferred.prom")
    assert deferred(db, "metrics", "--textfile", path).returncode == 0
    with open(path) as f:
        text = f.read()
    assert os.listdir(db.dir).count("deferred.prom") == 1 and oct(os.stat(path).st_mode)[-3:] == "644"
    assert checked(text) == ""
    told = metrics(text)
    assert told['deferred_attempts_total{queue="mail",fn="echo",outcome="ok"}'] == 4
    assert told['deferred_attempts_total{queue="default",fn="fail",outcome="failed"}'] == 1
    assert told['deferred_jobs_dead_total{queue="default",fn="fail"}'] == 1
    assert told['deferred_jobs_deferred_total{queue="mail"}'] == 4
    assert (
        told['deferred_jobs{queue="images",state="ready"}'] == 1 and told['deferred_queue_paused{queue="images"}'] == 1
    )
    assert (
        told['deferred_wait_seconds_count{queue="mail"}']
        == told['deferred_wait_seconds_bucket{queue="mail",le="+Inf"}']
        == 4
    )
    run_us = db.one(
        "select sum(l.run_us) from deferred.__deferred_log l join deferred.__deferred d on d.id = l.job_id "
        "where d.fn = 'echo'"
    )
    assert told['deferred_run_seconds_sum{fn="echo"}'] == pytest.approx(float(run_us) / 1e6)
    assert told['deferred_last_run_timestamp_seconds'] > 1e9 and told["deferred_workers"] == 0
    assert told['deferred_build_info{version="0.2.0",schema_version="2"}'] == 1
    buckets = [v for k, v in told.items() if k.startswith('deferred_run_seconds_bucket{fn="echo"')]
    assert len(buckets) == 16 and buckets == sorted(buckets)

    opened = deferred(db, "metrics", "--openmetrics").stdout
    assert opened.endswith("\n# EOF\n") and "# TYPE deferred_attempts counter\n" in opened
    # Each name is in front of its samples, once, in either format.
    for said in (text, opened):
        names = re.findall(r"(?m)^# TYPE (\S+)", said)
        assert len(names) == len(set(names))
    assert deferred(db, "metrics", "--textfile", os.path.join(db.dir, "no", "x")).returncode == 73
    assert deferred(db, "metrics", "x").returncode == 64 and deferred(db, "fold", "x").returncode == 64


def test_a_service_folds(db):
    db.spawn([program("check_deferred"), "--loop"])
    wait_for(
        lambda: db.one("select sampled_at > now() - interval '1 minute' from deferred.__deferred_folded"),
        what="housekeeping",
    )
    assert db.sql("select queue, ready from deferred.__deferred_depth") == [("default", 0)]
