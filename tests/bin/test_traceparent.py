"""A W3C trace context: from who defers, through log and page, to the function."""

import json
import re

import psycopg2
import pytest

OK, DATA = 0, 65
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"

WRONG = [
    "",
    "00",
    TRACE.upper(),
    "ff" + TRACE[2:],
    TRACE + "-1",
    TRACE[:-1],
    TRACE.replace("-", "_"),
    TRACE[:-1] + "\n",
    TRACE + "\n",
    "é" * 55,
    "00-" + "0" * 32 + TRACE[35:],
    TRACE[:36] + "0" * 16 + "-01",
]


def stored(db, *jobs):
    return [db.one("select traceparent from deferred.__deferred where id = %s", job) for job in jobs]


def test_it_is_stored_from_wherever_it_is_given(db, ledger):
    first, waits = db.defer("noop", traceparent=TRACE), db.defer("noop", traceparent=TRACE, after=[db.defer("noop")])
    assert stored(db, first, waits, db.defer("noop"), db.defer("noop", traceparent=None)) == [TRACE, TRACE, None, None]
    for key in ({}, {"key": "k"}):  # in one statement, or one by one
        jobs = json.dumps(
            [{"fn": "noop", "traceparent": TRACE}, {"fn": "noop"}, {"fn": "noop", "traceparent": OTHER, **key}]
        )
        assert stored(db, *(r[0] for r in db.sql("select deferred.defer_many(%s)", jobs))) == [TRACE, None, OTHER]
    flow = db.one(
        "select deferred.defer_flow(%s)",
        json.dumps(
            {
                "jobs": [{"name": "a", "fn": "noop", "traceparent": TRACE}],
                "then": [{"fn": "noop", "traceparent": OTHER}],
            }
        ),
    )
    assert stored(db, flow + 1, flow + 2) == [TRACE, OTHER]
    flow = db.one(
        "select deferred.defer_flow(%s)",
        json.dumps(
            {
                "jobs": [{"fn": "noop"}, {"fn": "noop", "traceparent": OTHER}, {"fn": "noop", "traceparent": None}],
                "then": [{"fn": "noop"}],
                "traceparent": TRACE,
            }
        ),
    )
    assert stored(db, *range(flow + 1, flow + 5)) == [
        TRACE,
        OTHER,
        None,
        TRACE,
    ], "that of the flow, but where a job says something else"
    one = db.run(["deferred", "add", "noop", "--traceparent", TRACE])
    lines = db.run(["deferred", "add", "--stdin"], input=f'{{"fn": "noop", "traceparent": "{OTHER}"}}\n')
    assert (one.returncode, lines.returncode) == (OK, OK) and stored(db, int(one.stdout), int(lines.stdout)) == [
        TRACE,
        OTHER,
    ]
    views = db.sql(
        "select j.id, j.traceparent, m.traceparent from deferred.job j join deferred.my_job m using (id) "
        "where id in (%s, %s) order by id",
        first,
        flow + 2,
    )
    assert views == [(first, TRACE, TRACE), (flow + 2, OTHER, OTHER)]
    assert {j["traceparent"] for j in json.loads(db.run(["deferred", "ls", "--json"]).stdout)} == {TRACE, OTHER, None}
    ledger(db)


def test_what_is_none_is_refused_and_quoted(db):
    for wrong in WRONG:
        for statement, argument in (
            ("select deferred.defer('f', '{}', %s)", {"traceparent": wrong}),
            ("select deferred.defer_many(%s)", [{"fn": "f"}, {"fn": "f", "traceparent": wrong}]),
            ("select deferred.defer_flow(%s)", {"jobs": [{"fn": "f"}], "traceparent": wrong}),
        ):
            with pytest.raises(psycopg2.Error) as e:
                db.sql(statement, json.dumps(argument))
            assert (
                e.value.pgcode == "22023"
                and "option 'traceparent' has the invalid value" in str(e.value)
                and wrong[:20].split("\n")[0] in str(e.value)
            ), wrong
    assert db.one("select count(*) from deferred.__deferred") == 0
    refused = db.run(["deferred", "add", "noop", "--traceparent", "00-xyz"])
    assert (
        refused.returncode == DATA
        and "option 'traceparent' has the invalid value '00-xyz'" in refused.stderr
        and refused.stdout == ""
    ), refused


def test_a_function_and_a_command_get_it_and_no_other_one(db, ledger):
    db.plugins("running")
    db.config('function "say" { command = {"/bin/sh", "-c", "echo \'{\\"t\\": \\"\'$TRACEPARENT$TRACESTATE\'\\"}\'"} }')
    jobs = [db.defer(fn, traceparent=trace) for fn in ("trace", "trace_apart", "say") for trace in (TRACE, OTHER, None)]
    db.sql("select deferred.__queue_set('limited', %s, true)", '{"max_running": 1}')
    jobs.append(db.defer("trace", queue="limited", traceparent=TRACE))
    assert (
        db.run(
            ["check_deferred", "--cnt", "0"],
            env={"TRACEPARENT": "00-" + "1" * 32 + "-" + "1" * 16 + "-01", "TRACESTATE": "a=b"},
        ).returncode
        == OK
    )
    said = [
        (db.one("select result from deferred.__deferred_log where job_id = %s", job) or "")
        .removeprefix('{"t": "')
        .removesuffix('"}')
        for job in jobs
    ]
    assert said == [TRACE, OTHER, "", TRACE, OTHER, "", TRACE, OTHER, "", TRACE]
    ledger(db)


def test_what_some_other_hand_stored_goes_nowhere(db, ledger):
    db.plugins("running")
    job = db.defer("trace")
    db.sql("update deferred.__deferred set traceparent = %s where id = %s", "00-" + "x\n" * 26, job)
    assert db.run(["check_deferred"]).returncode == OK
    assert db.one("select coalesce(result, '') from deferred.__deferred_log where job_id = %s", job) == ""
    ledger(db)


def test_it_is_in_both_logs_and_shown(db, ledger):
    traced, plain = db.defer("sample.fail", traceparent=TRACE, max_attempts=1), db.defer("sample.fail", max_attempts=1)
    text = db.run(["check_deferred", "--cnt", "1", "--window", "1"])
    again = db.run(["check_deferred", "--cnt", "0"])
    lines = {
        int(m[1]): m[2]
        for m in re.finditer(r" job (\d+) sample\.fail attempt 1: failed: (.*)", text.stderr + again.stderr)
    }
    assert lines[traced].endswith(f"; dead; traceparent {TRACE}") and lines[plain].endswith("; dead"), lines
    db.defer("sample.fail", traceparent=OTHER, max_attempts=1)
    db.defer("sample.fail", max_attempts=1)
    run = db.run(["check_deferred", "--cnt", "0", "--log-format", "json"])
    told = [json.loads(line) for line in run.stderr.splitlines()]
    assert [o.get("traceparent") for o in told if o["event"] == "attempt" and o["outcome"] == "failed"] in (
        [OTHER, None],
        [None, OTHER],
    )
    # What a function says, and what is said of an attempt that does not fail.
    db.config('function "say" { command = {"/bin/sh", "-c", "echo hello >&2"} }')
    said = db.defer("say", traceparent=OTHER)
    cancelled = db.defer("sample.fail", '{"cancel": true}', traceparent=TRACE)
    told = [
        json.loads(line)
        for line in db.run(["check_deferred", "--cnt", "0", "--log-format", "json"]).stderr.splitlines()
    ]
    assert {(o["job"], o["event"], o["attempt"], o["fn"], o["traceparent"]) for o in told if "job" in o} == {
        (said, "job", 1, "say", OTHER),
        (cancelled, "job", 1, "sample.fail", TRACE),
    }
    show = db.run(["deferred", "show", str(traced)])
    assert (
        re.search(f"(?m)^trace +{TRACE}$", show.stdout)
        and "trace " not in db.run(["deferred", "show", str(plain)]).stdout
    )
    assert json.loads(db.run(["deferred", "show", "--json", str(traced)]).stdout)["traceparent"] == TRACE
    ledger(db)
