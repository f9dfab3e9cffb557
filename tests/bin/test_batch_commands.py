"""Commands that take several jobs in one start: lines of JSON in, a line of outcome for each job out."""

import json
import os
import stat

import pytest

from harness import ledger, wait_for

ALL = ["check_deferred", "--cnt", "0"]
HEAD = """#!/usr/bin/python3 -uS
import json, os, signal, sys, time
jobs = sorted((json.loads(line) for line in sys.stdin), key=lambda job: int(job["job"]))
with open(FILE, "a") as f:
    print(*(job["job"] for job in jobs), file=f)
def end(job, outcome="ok", **more):
    print(json.dumps({"job": job["job"], "outcome": outcome, **more}))
def words(job):
    return job["params"]["do"].split()
"""


def prepared(db, text, more="", limits="batch = 5 batch_wait = 1min"):
    """The command many, whose program is this text behind HEAD."""
    path = os.path.join(db.dir, "many")
    with open(path, "w") as f:
        f.write(HEAD.replace("FILE", repr(path + ".calls")) + text)
    os.chmod(path, stat.S_IRUSR | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH | stat.S_IRGRP | stat.S_IROTH)
    db.config(f'function "many" {{ command = {{"{path}"}} {limits} }}\nwindow = 1\n' + more)
    return db


def calls(db):
    path = os.path.join(db.dir, "many.calls")
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return [sorted(map(int, line.split())) for line in f]


def defer(db, *words, **opts):
    return [db.defer("many", json.dumps({"do": word}), **opts) for word in words]


def ran(db, *args):
    done = db.run([*ALL, *args], timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stderr


def ends(db, jobs):
    """(outcome, error, result) of the last attempt of each job."""
    last = "select outcome, error, result from deferred.__deferred_log where job_id = %s order by attempt desc limit 1"
    return [db.sql(last, job)[0] for job in jobs]


def outcomes(db, job):
    return [outcome for _, outcome in db.log(job)]


def test_a_command_reads_a_line_and_prints_a_line_for_each_job(db):
    prepared(db, "for job in reversed(jobs): end(job, text=json.dumps(job))")
    parent = db.defer("echo", '"three boxes"')
    jobs = [
        db.defer("many", '{"a":\n [1,\r\n "\\n"]}', label='say "hi"', timeout="90s", after=parent),
        *defer(db, *["plain"] * 4),
    ]
    ran(db)
    assert calls(db) == [sorted(jobs)]
    given = [json.loads(end[2]) for end in ends(db, jobs)]
    assert [one["job"] for one in given] == [str(job) for job in jobs]
    first = given[0]
    assert first["params"] == {"a": [1, "\n"]} and first["label"] == 'say "hi"' and first["attempt"] == 1
    assert first["fn"] == "many" and int(first["receipt"]) != 0 and first["timeout_ms"] == 600000
    assert [p["result"] for p in first["parents"].values()] == ['"three boxes"']
    assert "parents" not in given[1]
    ledger(db)


def test_each_outcome_has_its_effect(db):
    prepared(
        db,
        """for job in jobs:
    outcome, *after = words(job)
    end(job, outcome, text="é " + outcome, **({"after_ms": int(after[0])} if after else {}))
""",
    )
    jobs = defer(db, "ok", "failed", "later 3600000", "dead", "snooze 3600000", "cancel", "unready", "ok", "ok", "ok")
    ran(db)
    assert calls(db) == [jobs[:5], jobs[5:]]
    assert ends(db, jobs)[:7] == [
        ("ok", None, "é ok"),
        ("failed", "é failed", None),
        ("failed", "é later", None),
        ("failed", "é dead", None),
        ("snoozed", "é snooze", None),
        ("cancelled", "é cancel", None),
        ("failed", "é unready", None),
    ]
    later = "select id from deferred.__deferred_hot where due_at > now() + interval '50 min' order by id"
    assert [job for job, in db.sql(later)] == [jobs[2], jobs[4]]
    ledger(db)


def test_a_job_without_a_line_has_failed_and_the_others_have_not(db):
    prepared(db, "for job in jobs[:3]: end(job)\nprint()")
    jobs = defer(db, *["plain"] * 5)
    ran(db)
    assert [end[:2] for end in ends(db, jobs)] == [("ok", None)] * 3 + [
        ("failed", "the command printed no outcome for this job")
    ] * 2
    ledger(db)


WRONG = {
    "not JSON": ('print("done")', "it is not a flat JSON object"),
    "not flat": ("end(jobs[0], text={})", "it is not a flat JSON object"),
    "an outcome of another language": ('end(jobs[0], "success")', "its outcome is unknown"),
    "no outcome": ('print(json.dumps({"job": jobs[0]["job"]}))', "its outcome is unknown"),
    "another job": ('end({"job": "1000000"})', "it names another job than those of the batch"),
    "no job": ("""print('{"outcome": "ok"}')""", "it names another job than those of the batch"),
    "the same job twice": ("end(jobs[0])", "it is the second one for its job"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_line_that_is_not_an_outcome_ends_all_attempts_and_each_job_is_tried_alone(db, case):
    line, text = WRONG[case]
    prepared(db, f"for job in jobs: end(job)\nif len(jobs) > 1:\n    {line}")
    jobs = defer(db, *["plain"] * 5)
    ran(db)
    assert calls(db)[0] == jobs and sorted(calls(db)[1:]) == [[job] for job in jobs]
    for job in jobs:
        assert outcomes(db, job) == ["interrupted", "ok"]
        (first,) = db.sql("select error, result from deferred.__deferred_log where job_id = %s and attempt = 1", job)
        assert first == (f"in a batch of 5 jobs: line 6 of its output is not an outcome: {text}", None)
    ledger(db)


def test_a_wrong_line_for_a_single_job_is_a_failure_that_counts(db):
    prepared(db, "end(jobs[0])\nend(jobs[0])", limits="batch = 5")
    (job,) = defer(db, "plain", max_attempts=1)
    ran(db)
    assert ends(db, [job])[0][:2] == (
        "failed",
        "line 2 of its output is not an outcome: it is the second one for its job",
    )
    assert db.hot() == 0
    ledger(db)


BAD_ENDS = {
    "exit status": ('print("no", file=sys.stderr); sys.exit(3)', "no", "failed"),
    "give up": ("sys.exit(65)", "exit status 65", "failed"),
    "signal": ("os.kill(os.getpid(), signal.SIGKILL)", "killed by signal 9", "crashed"),
    "time limit": ("time.sleep(1000)", "time limit of 3000 ms exceeded", "timeout"),
}


@pytest.mark.parametrize("isolate", ["child", "job"])
@pytest.mark.parametrize("case", BAD_ENDS)
def test_what_ends_a_command_badly_is_no_attempt_of_a_batch_and_each_job_is_tried_alone(db, case, isolate):
    do, text, alone = BAD_ENDS[case]
    prepared(
        db,
        f"for job in jobs: end(job)\nif any('bad' in words(job) for job in jobs):\n    {do}",
        f"isolate = {isolate}\n",
    )
    limits = {"timeout": "3s"} if case == "time limit" else {}
    jobs = defer(db, "plain", "bad", "plain", "plain", "plain", max_attempts=2, **limits)
    ran(db)
    together = isolate == "child"
    assert sorted(calls(db)[together:]) == [[job] for job in jobs]
    before = ["interrupted"] if together else []
    assert [outcomes(db, job) for job in jobs] == [before + [alone if job == jobs[1] else "ok"] for job in jobs]
    for job in jobs if together else []:
        error = db.one("select error from deferred.__deferred_log where job_id = %s and attempt = 1", job)
        assert error.startswith(f"in a batch of 5 jobs: {text}")
    assert text in ends(db, [jobs[1]])[0][1]
    ledger(db)


def test_the_environment_names_no_job(db):
    prepared(
        db,
        """for job in jobs:
    end(job, text=" ".join(sorted(name + "=" + value for name, value in os.environ.items()
                                  if name.startswith(("DEFERRED_", "TRACE")) and name != "DEFERRED_INSTANCE")))
""",
    )
    jobs = defer(db, *["plain"] * 5, traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    ran(db)
    assert {end[2] for end in ends(db, jobs)} == {"DEFERRED_BATCH=5 DEFERRED_JOB_FN=many DEFERRED_PROGRESS_FD=3"}


def test_a_line_of_progress_is_about_the_job_that_it_names(db):
    prepared(
        db,
        """for job in jobs:
    os.write(3, f"{job['job']} 3/7 of {job['job']}\\nnonsense\\n1000000 5\\n".encode())
while not os.path.exists(sys.argv[0] + ".go"):
    time.sleep(0.02)
for job in jobs: end(job)
""",
    )
    jobs = defer(db, *["plain"] * 5)
    run = db.spawn(ALL)
    wait_for(
        lambda: db.sql("select job_id, done, total, text from deferred.__deferred_progress order by 1")
        == [(job, 3, 7, f"of {job}") for job in jobs],
        30,
        "each has reported",
    )
    open(os.path.join(db.dir, "many.go"), "w").close()
    assert run.wait(30) == 0, run.output()
    assert {end[0] for end in ends(db, jobs)} == {"ok"}
    ledger(db)


def test_a_command_of_which_one_job_is_cancelled_goes_on_and_ends_when_all_are(db):
    prepared(
        db,
        """while not os.path.exists(sys.argv[0] + ".go"):
    time.sleep(0.02)
for job in jobs: end(job)
""",
        'kill_after = "1min"\n',
    )
    jobs = defer(db, *["plain"] * 5)
    run = db.spawn(["check_deferred", "--loop", "--listen"])
    wait_for(lambda: calls(db), 30, "the command runs")
    assert db.run(["deferred", "cancel", jobs[0]]).returncode == 0
    wait_for(lambda: "it is asked to stop" in run.output(), 30)
    open(os.path.join(db.dir, "many.go"), "w").close()
    wait_for(lambda: db.hot() == 0, 30)
    assert [end[0] for end in ends(db, jobs)] == ["cancelled", "ok", "ok", "ok", "ok"]
    os.unlink(os.path.join(db.dir, "many.go"))
    more = defer(db, *["plain"] * 5)
    wait_for(lambda: len(calls(db)) == 2, 30, "the command runs")
    assert db.run(["deferred", "cancel", *more]).returncode == 0
    other = db.defer("noop")
    wait_for(lambda: db.log(other) == [(1, "ok")], 30, "SIGTERM ended the command")
    assert {end[0] for end in ends(db, more)} == {"cancelled"}
    run.signal(15)
    assert run.wait(30) == 0, run.output()
    ledger(db)


@pytest.mark.parametrize(
    "limits, text",
    [
        ("batch = 0", "batch"),
        ("batch = 129", "batch"),
        ("batch = many", "batch"),
        ("batch = 5 batch_wait = 2min", "batch_wait"),
        ("batch_wait = 1s", "has batch_wait and no batch"),
    ],
)
def test_wrong_numbers_are_refused_with_the_line(db, limits, text):
    prepared(db, "", limits=limits)
    done = db.run(ALL)
    assert done.returncode == 78 and text in done.stderr and "deferred.conf:1" in done.stderr, done.stderr


STEPS = """while not os.path.exists(sys.argv[0] + ".go"):
    time.sleep(0.02)
for job in jobs:
    os.write(3, f"{job['job']} step one {job['job']}\\n".encode())
for job in jobs: end(job)
"""


def test_a_command_goes_on_for_the_others_when_one_job_of_its_batch_is_lost(db):
    """Somebody else finishes the job, so its step is refused."""
    jobs = defer(prepared(db, STEPS), *["plain"] * 5)
    run = db.spawn(ALL)
    wait_for(lambda: calls(db), 30, "the command runs")
    receipt = "select deferred.__token(%s, receipt, worker) from deferred.__deferred_lease where %s = any (ids)"
    token = db.one(receipt, jobs[1], jobs[1])
    db.sql("select deferred.finish(%s, %s, 'elsewhere')", jobs[1], token)
    open(os.path.join(db.dir, "many.go"), "w").close()
    assert run.wait(30) == 0, run.output()
    assert f"job {jobs[1]} many attempt 1: step one was not saved: the lease had ended" in run.output()
    assert calls(db) == [jobs] and [outcomes(db, job) for job in jobs] == [["ok"]] * 5
    assert ends(db, jobs)[1] == ("ok", None, "elsewhere")
    ledger(db)


def test_a_job_that_has_too_many_steps_fails_alone(db):
    """Also if it says that it has done its work before it is asked to end."""
    script = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + STEPS
    jobs = defer(prepared(db, script), *["plain"] * 5, max_attempts=2)
    open(os.path.join(db.dir, "many.go"), "w").close()
    db.sql(
        "insert into deferred.__deferred_step (job_id, name, value, bytes, number, attempt, resets) "
        "select %s, 'f' || i, '1', 1, i, 1, false from generate_series(1, 1000) i",
        jobs[1],
    )
    db.sql("update deferred.__deferred_hot set watched = false, params_bytes = 2024 where id = %s", jobs[1])
    ran(db)
    assert calls(db)[0] == jobs and sorted(calls(db)[1:]) == [[job] for job in jobs]
    assert [outcomes(db, job) for job in jobs] == [
        ["interrupted", "failed" if job == jobs[1] else "ok"] for job in jobs
    ]
    text = "step 'one' was not saved: the steps of the job are too many or too large"
    assert db.one("select error from deferred.__deferred_log where job_id = %s and attempt = 2", jobs[1]) == text
    ledger(db)
