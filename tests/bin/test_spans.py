"""Attempts as spans of OTLP: shape, chain from the producer, who sees what, and what comes late."""

import json
import os
import re
import signal
import subprocess

import pytest

import harness
from test_deferred import login

OK, USAGE, IOERR = 0, 64, 74
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
QUIET = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
HOSTILE = "<script>\"'\\&\u202e\x01\n\U0001f4e6"


def spans(text):
    """All of them, each line checked against what OTLP says of JSON."""
    found = []
    for line in text.splitlines():
        assert len(line) < 1 << 20
        request = json.loads(line)
        assert list(request) == ["resourceSpans"] and len(request["resourceSpans"]) == 1
        (resource,) = request["resourceSpans"]
        assert resource["resource"] == {"attributes": [{"key": "service.name", "value": {"stringValue": "deferred"}}]}
        (scope,) = resource["scopeSpans"]
        assert (
            scope["scope"]["name"] == "deferred"
            and re.fullmatch(r"\d+\.\d+\.\d+", scope["scope"]["version"])
            and scope["spans"]
        )
        for span in scope["spans"]:
            assert (
                re.fullmatch("[0-9a-f]{32}", span["traceId"])
                and re.fullmatch("[0-9a-f]{16}", span["spanId"])
                and int(span["spanId"], 16)
            )
            assert (
                re.fullmatch("[0-9a-f]{16}", span["parentSpanId"])
                and span["kind"] == 5
                and isinstance(span["name"], str)
            )
            assert re.fullmatch(r"\d{19}", span["startTimeUnixNano"]) and re.fullmatch(
                r"\d{19}", span["endTimeUnixNano"]
            )
            assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
            assert set(span) - {"status"} == {
                "traceId",
                "spanId",
                "parentSpanId",
                "name",
                "kind",
                "startTimeUnixNano",
                "endTimeUnixNano",
                "attributes",
            }
            assert "status" not in span or span["status"]["code"] == 2
            values = {}
            for attribute in span["attributes"]:
                ((kind, value),) = attribute["value"].items()
                assert {"stringValue": str, "intValue": str, "boolValue": bool}[kind] is type(value) and (
                    kind != "intValue" or re.fullmatch(r"-?\d+", value)
                )
                values[attribute["key"]] = value
            assert len(values) == len(span["attributes"]) and values["messaging.system"] == "deferred"
            assert values["messaging.operation.name"] == values["messaging.operation.type"] == "process"
            found.append((span, values))
    return found


def ended(db, job, attempt=1, outcome="ok", at="now()", error=None, final=True):
    db.sql(
        f"""insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at,
            wait_us, run_us, error)
               values (%s, %s, %s, %s, {at} - interval '1 second', {at}, 5, 1000000, %s)""",
        job,
        attempt,
        outcome,
        final,
        error,
    )


def test_an_id_comes_out_from_wherever_it_was_put_in(db, ledger):
    db.plugins()
    program = os.path.join(db.dir, "trace")
    with open(program + ".c", "w") as f:
        f.write(
            '#include <deferred.h>\nint main(void) { struct deferred_opts o = { .traceparent = "'
            + TRACE
            + '" }; return defer("noop", "{}", &o) < 0; }\n'
        )
    harness.run(
        ["cc", "-o", program, program + ".c", "-I", "lib/include", "-L", "build/lib", "-ldeferred"],
        cwd=harness.pg.TOP,
        check=True,
    )
    assert db.run([program], env={"LD_LIBRARY_PATH": os.path.join(harness.pg.BUILD, "lib")}).returncode == OK
    c = db.one("select max(id) from deferred.__deferred")
    sql = db.defer("noop", traceparent=TRACE, queue="orders")
    cli = int(
        db.run(
            ["deferred", "add", "fail", '{"error": "no order"}', "--traceparent", TRACE, "--max-attempts", "2"]
        ).stdout
    )
    db.defer("noop")
    quiet = db.defer("noop", traceparent=QUIET)
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == OK
    found = {int(v["messaging.message.id"]): (s, v) for s, v in spans(db.run(["deferred", "spans"]).stdout)}
    assert set(found) == {c, sql, cli}
    for job, (span, values) in found.items():
        assert (span["traceId"], span["parentSpanId"]) == (TRACE[3:35], TRACE[36:52])
        us = db.sql(
            """select (extract(epoch from started_at) * 1e6)::int8, (extract(epoch
                from finished_at) * 1e6)::int8, worker, wait_us::int8
                       from deferred.__deferred_log where job_id = %s""",
            job,
        )[0]
        assert (int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])) == (us[0] * 1000, us[1] * 1000)
        assert (values["deferred.worker"], values["deferred.wait_us"], values["deferred.attempt"]) == (
            str(us[2]),
            str(us[3]),
            "1",
        )
    span, values = found[sql]
    assert (
        span["name"] == "process orders"
        and values["messaging.destination.name"] == "orders"
        and "error.type" not in values
        and "status" not in span
    )
    span, values = found[cli]
    assert (
        values["error.type"] == "failed"
        and "no order" in span["status"]["message"]
        and values["deferred.final"] is False
        and values["deferred.function"] == "fail"
    )
    assert {int(v["messaging.message.id"]) for _, v in spans(db.run(["deferred", "spans", "--all"]).stdout)} == {
        c,
        sql,
        cli,
        quiet,
    }
    ledger(db)


def test_each_attempt_has_an_id_of_its_own_that_stays(db):
    job = db.defer("noop", traceparent=TRACE)
    for attempt, outcome in enumerate(
        ["failed", "crashed", "timeout", "interrupted", "superseded", "lost", "snoozed", "cancelled", "ok"], 1
    ):
        ended(db, job, attempt, outcome, final=outcome == "ok")
    ended(db, job, 0, "expired")  # nobody ran it: no attempt
    found = spans(db.run(["deferred", "spans"]).stdout)
    assert len({s["spanId"] for s, _ in found}) == 9 and [s["spanId"] for s, _ in found] == [
        s["spanId"] for s, _ in spans(db.run(["deferred", "spans"]).stdout)
    ]
    assert {v["deferred.outcome"]: v.get("error.type") for _, v in found} == {
        o: None if o in ("ok", "snoozed") else o
        for o in ("failed", "crashed", "timeout", "interrupted", "superseded", "lost", "snoozed", "cancelled", "ok")
    }


def test_what_was_since_then(db):
    old, new = db.defer("noop", traceparent=TRACE), db.defer("noop", traceparent=TRACE)
    ended(db, old, at="now() - interval '3 hours'")
    ended(db, new)

    def jobs(*args):
        return [int(v["messaging.message.id"]) for _, v in spans(db.run(["deferred", "spans", *args]).stdout)]

    assert (
        jobs() == [new]
        and jobs("--since", "4h") == jobs("--since", "-infinity") == jobs("--since", "2001-01-01") == [old, new]
        and jobs("--since", "infinity") == []
    )
    assert jobs("--since", db.one("select (now() - interval '2 hours')::text")) == [new]
    for args in (["x"], ["--since"], ["--frob"], ["--follow=x"], ["--all=1"]):
        assert db.run(["deferred", "spans", *args]).returncode == USAGE
    # What is no time is quoted as it was given, and what a time is is said, not what the server calls it.
    for time, quoted in (
        ("yestermorrow", "yestermorrow"),
        ("2026-13-01", "2026-13-01"),
        ("-1h", "-1h"),
        ("2026-01-01 12:00 Mars/Phobos", "2026-01-01 12:00 Mars/Phobos"),
        ("a\nb", "a\\nb"),
        ("x" * 100, "x" * 64),
    ):
        for more in ([], ["--follow"]):
            wrong = db.run(["deferred", "spans", "--since", time, *more])
            assert (wrong.returncode, wrong.stdout) == (USAGE, ""), wrong
            assert wrong.stderr == (
                f"deferred: option '--since': value '{quoted}' is not a time\n"
                "hint: write how long ago, such as 10min, 2h or 30d, or a time such as '2026-01-31 14:30'\n"
            )


def test_many_of_a_moment_come_out_once(db):
    """More than one call looks at, in one microsecond too."""
    db.sql(
        "insert into deferred.__deferred (id, queue, fn, params, traceparent) select g, 'q', 'f', '{}', %s "
        "from generate_series(1, 22000) g",
        TRACE,
    )
    db.sql(
        """insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at)
              select g, 1, 'ok', true, now(), case when g <= 12000 then now() else now() - (g ||
              ' ms')::interval end from generate_series(1, 22000) g"""
    )
    found = [int(v["messaging.message.id"]) for _, v in spans(db.run(["deferred", "spans", "--since", "10min"]).stdout)]
    assert len(found) == 22000 and set(found) == set(range(1, 22001))


def test_texts_from_others_stay_texts(db):
    job = db.defer("noop", traceparent=TRACE)
    db.sql(
        "update deferred.__deferred set queue = %s, fn = %s where id = %s", HOSTILE, HOSTILE * 10, job
    )  # no defer would take them
    ended(db, job, outcome="failed", error=HOSTILE)
    ended(db, db.defer("noop", traceparent=TRACE), outcome="failed", error="\x01" * 8000)
    for wrong in ("00-" + "x\n" * 26, "00-" + "0" * 32 + TRACE[35:], TRACE + "1", "1"):
        job = db.defer("noop", traceparent=TRACE)
        db.sql("update deferred.__deferred set traceparent = %s where id = %s", wrong, job)
        ended(db, job)
    job = db.defer("noop", traceparent=TRACE)
    db.sql("update deferred.__deferred set queue = %s where id = %s", "\U0001f4e6" * 300, job)
    ended(db, job)
    (first, values), (second, _), (third, _) = spans(db.run(["deferred", "spans"]).stdout)
    assert (
        first["status"]["message"] == HOSTILE
        and first["name"] == "process " + HOSTILE
        and values["messaging.destination.name"] == HOSTILE
    )
    assert values["deferred.function"] == HOSTILE * 10
    assert third["name"] == "process " + "\U0001f4e6" * 125
    assert second["status"]["message"] == "\x01" * 2048


def test_errors_are_for_those_who_may_read_them(db):
    ended(db, db.defer("noop", traceparent=TRACE), outcome="failed", error="secret")
    for role, message in (("deferred_viewer", None), ("deferred_reader", "secret"), ("deferred_producer", "refused")):
        name, env = login(db, role)
        try:
            said = db.run(["deferred", "spans"], env=env)
            assert (
                (said.returncode != OK and "deferred_viewer" in said.stderr and said.stdout == "")
                if message == "refused"
                else spans(said.stdout)[0][0]["status"].get("message") == message
            ), said
        finally:
            db.sql(f"drop role {name}")


def test_it_follows_and_misses_nothing_that_commits_late(db):
    first, late, next_one = (db.defer("noop", traceparent=TRACE) for _ in range(3))
    ended(db, first)
    with db.connect() as slow, slow.cursor() as cursor:
        cursor.execute(
            "insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at) "
            "values (%s, 1, 'ok', true, now(), now() - interval '50 seconds')",
            (late,),
        )
        errors = open(os.path.join(db.dir, "errors"), "w+")
        program = db.spawn(["deferred", "spans", "--follow", "--since", "2min"], stderr=errors)

        def jobs():
            return [int(v["messaging.message.id"]) for _, v in spans(program.output())]

        harness.wait_for(lambda: jobs() == [first])
        ended(db, next_one)
        harness.wait_for(lambda: jobs() == [first, next_one])
        slow.commit()
    harness.wait_for(lambda: jobs() == [first, next_one, late], timeout=60)
    assert (
        db.one(
            "select count(*) from pg_stat_activity where application_name = 'deferred' "
            "and datname = current_database() and state ~ 'transaction'"
        )
        == 0
    )
    program.signal(signal.SIGTERM)
    assert program.wait() == OK and jobs() == [first, next_one, late]
    errors.seek(0)
    said = r"printed the attempts that ended before \d{4}-\d\d-\d\dT[\d:]{8}Z\nhint: go on with --since"
    assert re.search(said, errors.read())


@pytest.mark.parametrize("follow", [[], ["--follow"]])
def test_it_ends_with_its_reader(db, follow):
    db.sql(
        "insert into deferred.__deferred (id, queue, fn, params, traceparent) select g, 'q', 'f', '{}', %s "
        "from generate_series(1, 3000) g",
        TRACE,
    )
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at) select g, 1, 'ok', true, "
        "now() from generate_series(1, 3000) g"
    )
    program = db.spawn(["deferred", "spans", *follow], stdout=subprocess.PIPE)
    program.process.stdout.read(10)
    program.process.stdout.close()
    assert program.wait(20) == -signal.SIGPIPE
    if follow:  # with nothing more to write, too
        program = db.spawn(["deferred", "spans", "--follow", "--since", "infinity"], stdout=subprocess.PIPE)
        program.process.stdout.close()
        program.wait(20)
    with open("/dev/full", "w") as full:
        said = db.run(["deferred", "spans", *follow], stdout=full, stderr=subprocess.PIPE)
    assert said.returncode == IOERR and "cannot write the answer" in said.stderr, said
    assert (
        harness.run(
            ["sh", "-c", 'exec "$0" "$@" >&-', harness.command(["deferred"])[0], "spans", *follow], env=db.env
        ).returncode
        == IOERR
    )


def test_a_look_back_writes_nothing_twice(db):
    """What was written is known again when its time is read anew, after a minute."""
    jobs = [db.defer("noop", traceparent=TRACE) for _ in range(3000)]
    db.sql(
        """insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at)
              select id, 1, 'ok', true, now(), now() - interval '56 seconds' + (id || ' ms')::interval
              from deferred.__deferred"""
    )
    program = db.spawn(["deferred", "spans", "--follow"])
    harness.wait_for(lambda: program.output().count('"traceId"') == len(jobs))
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at) select id, 2, "
        "'ok', true, now(), now() - interval '50 seconds' from deferred.__deferred limit 1"
    )
    harness.wait_for(lambda: program.output().count('"traceId"') > len(jobs), timeout=60)
    program.signal(signal.SIGINT)
    assert program.wait() == OK
    found = spans("".join(line + "\n" for line in program.output().splitlines() if line.startswith("{")))
    assert len({s["spanId"] for s, _ in found}) == len(found) == len(jobs) + 1
