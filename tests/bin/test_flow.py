"""Jobs that wait for jobs, run by real workers and shown by the commands."""

import json

def test_a_run_goes_on_with_what_waited_for_its_jobs(db):
    """With cron alone: one start, and however long the chain."""
    first = job = db.defer("noop")
    for _ in range(5):
        job = db.defer("noop", after=job)
    wide = [db.defer("noop", after=first) for _ in range(5)]
    last = db.defer("noop", after=[*wide, job])
    lame = db.defer("noop", after={"job": last, "on": "failed"})
    shown = {word: db.run(["deferred", *word.split()]) for word in (f"show {last}", f"why {last}", "--json ls --state waiting", "status", "top --once", "ls --json", "why")}
    assert [d.stderr for d in shown.values()] == [""] * len(shown)
    assert len(json.loads(shown["--json ls --state waiting"].stdout)) == 12
    assert "state       waiting" in shown[f"show {last}"].stdout
    done = db.run(["check_deferred", "--cnt", "0"])
    assert done.returncode == 0, done.stderr
    assert db.one("select count(*) from deferred.__deferred_log where outcome = 'ok'") == 12
    assert db.log(lame) == [(0, "cancelled")]
    assert db.hot() == 0 and db.one("select count(*) from deferred.__deferred_wait") == 0
    # What was told to nobody, as its worker died or nobody was there, is told by the next start.
    parent = db.defer("noop", delay="1h")
    child = db.defer("noop", after={"job": parent, "on": "failed"})
    db.sql("select deferred.__settle(10)")
    db.sql("select deferred.cancel(%s)", parent)
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert db.log(child) == [(1, "ok")]
    assert db.sql("select * from deferred.check_ledger()") == []


def test_a_job_is_added_to_wait_for_others_and_they_show_each_other(db):
    first, second = db.defer("noop", label="one\n\033[31m"), db.defer("noop")
    done = db.run(["deferred", "add", "noop", "--after", f"{first},{second}", "--after-failed", str(second)])
    assert (done.returncode, done.stderr) == (65, f'deferred: option "after" names job {second} twice\n')
    for argument, says in (("17,", 'job id ""'), ("x", 'job id "x"'), (",".join(["1"] * 1001), "more than 1000 jobs to wait for")):
        done = db.run(["deferred", "add", "noop", "--after", argument])
        assert done.returncode == 64 and says in done.stderr, done.stderr
    job = int(db.run(["deferred", "add", "noop", "--after", str(first), "--after-ended", str(second)]).stdout)
    lines = db.run(["deferred", "show", str(job)]).stdout.splitlines()
    at = [n for n, line in enumerate(lines) if line.startswith("waits for")][0]
    assert lines[at:at + 2] == [f"waits for   {first} noop, ok: ready one\\n\\x1b[31m", f"            {second} noop, ended: ready "]
    assert f"awaited by  {job} noop, ok: waiting" in db.run(["deferred", "show", str(first)]).stdout
    assert [p["on"] for p in json.loads(db.run(["deferred", "--json", "show", str(job)]).stdout)["parents"]] == ["ok", "ended"]
    line = json.dumps({"fn": "noop", "after": [{"job": first, "on": "ended"}], "params": {"a": 1}})
    late = int(db.run(["deferred", "add", "--stdin"], input='{"fn": "noop"}\n' + line + "\n").stdout.split()[1])
    assert db.one("select state from deferred.job where id = %s", late) == "waiting"
