"""Jobs that wait for jobs, run by real workers and shown by the commands."""

import contextlib
import json
import re
import time

import harness


def test_a_run_goes_on_with_what_waited_for_its_jobs(db):
    """With cron alone: one start, and however long the chain."""
    first = job = db.defer("noop")
    for _ in range(5):
        job = db.defer("noop", after=job)
    wide = [db.defer("noop", after=first) for _ in range(5)]
    last = db.defer("noop", after=[*wide, job])
    lame = db.defer("noop", after={"job": last, "on": "failed"})
    shown = {
        word: db.run(["deferred", *word.split()])
        for word in (
            f"show {last}",
            f"why {last}",
            "--json ls --state waiting",
            "status",
            "top --once",
            "ls --json",
            "why",
        )
    }
    assert [d.stderr for d in shown.values()] == [""] * len(shown)
    assert f"job {last} waits for the end of other jobs\n" in shown[f"why {last}"].stdout
    assert (
        ", ".join(f"job {n} (noop, waiting)" for n in sorted([*wide, job])[:5]) + ", ..." in shown[f"why {last}"].stdout
    )
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


def test_a_run_tells_of_the_ends_it_noted_itself_though_telling_takes_long(db):
    """Beside jobs, telling has a fifth of the time. When the last one has ended there are none, and
    the next start may be a minute away."""
    db.sql(
        """create function deferred.slowly() returns trigger
            language plpgsql as $$ begin perform pg_sleep(0.6); return new; end $$;
              create trigger slowly before update on deferred.__deferred_wait
              for each row execute function deferred.slowly()"""
    )
    last = db.defer("noop", after=[db.defer("sleep", f'{{"ms": {ms}}}') for ms in (0, 300, 1200)])
    done = db.run(["check_deferred", "--cnt", "0"])
    assert done.returncode == 0 and db.log(last) == [(1, "ok")], done


def test_a_run_waits_a_moment_for_who_keeps_it_from_telling_of_ends(db):
    first = db.defer("noop")
    last = db.defer("noop", after=first)
    with contextlib.closing(db.connect()) as holder:
        holder.cursor().execute("select from deferred.__deferred_wait where id = %s for update", (last,))
        run = db.spawn(["check_deferred", "--cnt", "0"])
        harness.wait_for(lambda: db.log(first))
        time.sleep(0.3)
        holder.rollback()
        assert run.wait(20) == 0, run.output()
    assert db.log(last) == [(1, "ok")]


def test_a_job_is_added_to_wait_for_others_and_they_show_each_other(db):
    first, second = db.defer("noop", label="one\n\033[31m"), db.defer("noop")
    done = db.run(["deferred", "add", "noop", "--after", f"{first},{second}", "--after-failed", str(second)])
    assert (done.returncode, done.stderr) == (
        65,
        f"deferred: option 'after' names job {second} twice\nhint: name each job once\n",
    )
    for argument, says in (
        ("17,", "job id ''"),
        ("x", "job id 'x'"),
        (",".join(["1"] * 1001), "option '--after' names more than 1000 jobs"),
    ):
        done = db.run(["deferred", "add", "noop", "--after", argument])
        assert done.returncode == 64 and says in done.stderr, done.stderr
    job = int(db.run(["deferred", "add", "noop", "--after", str(first), "--after-ended", str(second)]).stdout)
    lines = db.run(["deferred", "show", str(job)]).stdout.splitlines()
    at = [n for n, line in enumerate(lines) if line.startswith("waits for")][0]
    assert lines[at : at + 2] == [
        f"waits for   {first} noop, ok: ready one\\n\\x1b[31m",
        f"            {second} noop, ended: ready ",
    ]
    assert f"awaited by  {job} noop, ok: waiting" in db.run(["deferred", "show", str(first)]).stdout
    assert [p["on"] for p in json.loads(db.run(["deferred", "--json", "show", str(job)]).stdout)["parents"]] == [
        "ok",
        "ended",
    ]
    line = json.dumps({"fn": "noop", "after": [{"job": first, "on": "ended"}], "params": {"a": 1}})
    late = int(db.run(["deferred", "add", "--stdin"], input='{"fn": "noop"}\n' + line + "\n").stdout.split()[1])
    assert db.one("select state from deferred.job where id = %s", late) == "waiting"


def test_a_flow_is_added_shown_run_and_cancelled(db, tmp_path):
    flow = {
        "label": "one\ntwo",
        "jobs": [
            {"name": 'a"];\n\\x', "fn": "noop"},
            {"name": "b", "fn": "noop", "after": 'a"];\n\\x', "params": {"x": 1}},
            {"fn": "noop", "after": {"job": "b", "on": "failed"}},
        ],
        "then": [{"fn": "noop", "on": "ended"}],
    }
    (tmp_path / "flow.json").write_text(json.dumps(flow))
    added = json.loads(db.run(["deferred", "--json", "flow", "add", str(tmp_path / "flow.json")]).stdout)
    a, b, c, d = [job["id"] for job in added["jobs"]]
    assert [job["name"] for job in added["jobs"]] == ['a"];\n\\x', "b", None, None]
    shown = db.run(["deferred", "flow", "show", str(added["id"])]).stdout.splitlines()
    assert shown[0] == "flow of 4 jobs: one\\ntwo"
    assert shown[1:4] == ["states      1 ready, 3 waiting", "on failure  continue", ""]
    assert [line.split()[-1] for line in shown[5:]] == ["ready", str(a), "(failed)", "(ended)"]
    assert db.run(["deferred", "graph", str(d)]).stdout.splitlines() == [
        f'{a} a"];\\n\\x: ready',
        f'  {b} b: waiting <- {a}',
        f'    {c} noop: waiting <- {b} (failed)',
        f'      {d} noop: waiting <- {a} (ended), {b} (ended), {c} (ended)',
    ]
    assert (
        db.run(["deferred", "--json", "graph", str(a)]).stdout
        == db.run(["deferred", "--json", "flow", "show", str(a)]).stdout
    )
    assert (
        db.run(["deferred", "graph", str(a), "--limit", "2"]).stdout.splitlines()[-1]
        == "... and perhaps more: see --limit"
    )
    none = db.run(["deferred", "graph", "9999"])
    assert (none.returncode, none.stderr) == (
        1,
        "deferred: flow 9999 does not exist\nhint: it was never deferred, was purged, or belongs to a role that you "
        "are not a member of\n",
    )
    dot = db.run(["deferred", "graph", "--dot", str(c)]).stdout.splitlines()
    assert dot[3] == f'    {a} [label = "a\\"];\\\\n\\\\x\\nnoop: ready"];', "a name ends no text of the graph"
    assert (
        f"    {a} -> {b};" in dot
        and f'    {b} -> {c} [label = "failed", style = dashed];' in dot
        and len(dot) == 3 + 4 + 2 + 3 + 1
    )
    assert len(json.loads(db.run(["deferred", "--json", "flow", "show", str(added["id"]), "--limit", "2"]).stdout)) == 2
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert [db.log(job)[-1][1] for job in (a, b, c, d)] == ["ok", "ok", "cancelled", "ok"]
    second = int(db.run(["deferred", "flow", "add", "-"], input=json.dumps(flow)).stdout)
    assert [row["id"] for row in json.loads(db.run(["deferred", "--json", "flow", "ls"]).stdout)] == [
        second,
        added["id"],
    ]
    assert db.run(["deferred", "flow", "cancel", str(second)]).stdout == "4 cancelled\n"
    assert db.run(["deferred", "flow", "cancel", str(second)]).stdout == "0 cancelled\n"
    again = db.run(["deferred", "flow", "retry", str(second)])
    assert (again.returncode, again.stdout, again.stderr) == (0, f"{second}: the next worker begins it again\n", "")
    assert json.loads(db.run(["deferred", "--json", "flow", "retry", str(second)]).stdout) == {
        "id": second,
        "noted": False,
    }
    assert "retry       being begun again since" in db.run(["deferred", "flow", "show", str(second)]).stdout
    # The last one is told of an end by the next start, where this one has none left to wait for.
    harness.wait_for(
        lambda: db.run(["check_deferred", "--cnt", "0"]).returncode == 0
        and sorted(row[0] for row in db.sql("select state from deferred.flow_jobs(%s)", second))
        == ["cancelled", "done", "done", "done"],
        30,
        "the flow has ended",
    )
    keyed = int(
        db.run(["deferred", "flow", "add", "-"], input=json.dumps({"jobs": [{"fn": "noop", "key": "k"}]})).stdout
    )
    db.run(["deferred", "flow", "cancel", str(keyed)])
    db.defer("noop", key="k")
    assert db.run(["deferred", "flow", "retry", str(keyed)]).returncode == 0
    assert db.run(["check_deferred", "--cnt", "1"]).returncode == 0
    shown = db.run(["deferred", "flow", "show", str(keyed)]).stdout
    assert re.search(
        r"(?m)^retry       begun again at \S+ \S+ \S+, by \w+: 0 ready, 0 waiting, 1 refused, the first: job \d+ "
        r"cannot be retried: key 'k' is in use by job \d+$",
        shown,
    ), shown
    above = db.defer("noop", delay="1h")
    lone = db.defer("noop", after=above)
    refused = db.run(["deferred", "retry", str(lone)])
    assert (
        f"job {lone} waits for job {above}" in refused.stderr and "deferred flow release" in refused.stderr
    ), refused.stderr
    released = db.defer("noop", after=lone)
    assert db.run(["deferred", "flow", "release", str(lone)]).stdout == f"{lone} ready\n"
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert (db.log(lone), db.log(released)) == ([(1, "ok")], [(1, "ok")])
    lone = db.defer("noop", after=db.defer("noop"))
    assert len(json.loads(db.run(["deferred", "--json", "flow", "show", str(lone)]).stdout)) == 2
    for words, says in (
        (["add", "-"], "invalid JSON"),
        (["add", str(tmp_path)], "cannot read"),
        (["add", "/nowhere"], "file '/nowhere' cannot be opened"),
        (["show", "99999"], "flow 99999 does not exist"),
        (["cancel", "99999"], "does not exist"),
        (["retry", "99999"], "does not exist"),
        (["retry"], "argument ID is missing"),
        (["release", "99999"], "job 99999 does not exist"),
        (["release", str(a)], f"job {a} does not wait for other jobs"),
        (["show"], "argument ID is missing"),
        (["show", "x"], "id 'x'"),
    ):
        done = db.run(["deferred", "flow", *words], input="{")
        assert done.returncode != 0 and says in done.stderr, done.stderr
    assert db.sql("select * from deferred.check_ledger()") == []


def test_flows_show_what_became_of_their_jobs_and_which_failed_first(db):
    jobs = [{"fn": "noop"}] * 249 + [{"fn": "noop", "delay": "1h"}]
    flow = db.one("select deferred.defer_flow(%s)", json.dumps({"label": "many", "on_failure": "cancel", "jobs": jobs}))
    other = db.one("select deferred.defer_flow(%s)", json.dumps({"jobs": jobs[:2]}))
    first = db.one("select min(job) from deferred.__deferred_member where flow = %s", flow)
    head = db.run(["deferred", "flow", "show", str(first)]).stdout.splitlines()[:3]
    assert head == [
        "flow of 250 jobs: many",
        "states      1 delayed, 249 ready",
        "on failure  cancel",
    ], "by a job of it, too"
    db.sql("select deferred.cancel(%s)", first + 1)
    db.sql("select deferred.__settle(1000)")
    while db.one("select deferred.__settle(1000)"):
        pass
    head = db.run(["deferred", "flow", "show", str(flow), "--limit", "1"]).stdout.splitlines()[:3]
    assert head[1:] == [
        "states      250 cancelled",
        f"on failure  cancel, job {first + 1} failed first",
    ], "whatever the limit"
    lines = db.run(["deferred", "flow", "ls"]).stdout.splitlines()
    assert lines[0].split()[:5] == ["ID", "JOBS", "STATES", "ON", "FAILURE"]
    assert "2 ready " in lines[1] and "200 cancelled, ..." in lines[2] and " cancel " in lines[2]
    rows = {row["id"]: row for row in json.loads(db.run(["deferred", "--json", "flow", "ls"]).stdout)}
    assert (rows[flow]["looked"], rows[flow]["states"], rows[flow]["on_failure"], rows[flow]["failed"]) == (
        200,
        {"cancelled": 200},
        "cancel",
        first + 1,
    )
    assert (rows[other]["looked"], rows[other]["states"], rows[other]["on_failure"], rows[other]["failed"]) == (
        2,
        {"ready": 2},
        "continue",
        None,
    )
    # However many are wanted, some 20,000 jobs are looked at.
    row = json.loads(db.run(["deferred", "--json", "flow", "ls", "--limit", "10000"]).stdout)[1]
    assert (row["looked"], row["states"]) == (2, {"cancelled": 2})
    alone = db.defer("noop", after=db.defer("noop"))
    assert db.run(["deferred", "flow", "show", str(alone)]).stdout.split()[0] == "ID", "in no flow"
