"""What is deferred, and how it is started: rows X1 to X6 of the fault matrix. X7 to X9, mail, are in test_mail.py."""

import json
import os
import re
import subprocess

import psycopg2
import pytest

from harness import ledger, program, wait_for

DEEP = {n: "[" * n + "]" * n for n in (100, 512, 513, 100_000)}


def check(db, *args, code=0, **kw):
    done = db.run(["check_deferred", *args], **kw)
    assert done.returncode == code, done.stderr
    return done


def by_sql(db, params):
    """The job's id, or None where it was refused."""
    if b"\0" in params:
        return None  # the protocol has no way to say it
    try:
        return db.one("select deferred.defer('echo', convert_from(%s, 'UTF8')::json)", psycopg2.Binary(params))
    except psycopg2.DataError:
        return None
    except psycopg2.OperationalError as e:  # 54000, limit exceeded
        assert e.pgcode and e.pgcode.startswith("54"), e
        return None


def by_cli(db, params):
    """The same through `deferred add`: as an argument where one can hold it, else as a line of standard input."""
    if b"\0" in params or len(params) > 100_000:
        done = db.run(["deferred", "add", "--stdin"], input=b'{"fn": "echo", "params": ' + params + b"}\n")
    else:
        done = db.run(["deferred", "add", "echo", params])
    assert done.returncode in (0, 65), done.stderr
    assert (done.returncode == 0) == (not done.stderr)
    return int(done.stdout) if done.returncode == 0 else None


REFUSED = {
    "a NUL byte": b'"a\0b"',
    "bad UTF-8": b'"\xff"',
    "overlong UTF-8": b'"\xc0\x80"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "no JSON": b"{hello}",
    "half an object": b'{"a": 1',
    "two values": b"1 2",
    "nothing": b"",
    "a bare word": b"nan",
    "2 MB": b'"' + b"x" * 2_000_000 + b'"',
    "10 MB": b'"' + b"x" * 10_000_000 + b'"',
    "nested 513 deep": DEEP[513].encode(),
    "nested 100,000 deep": DEEP[100_000].encode(),
}
TAKEN = {
    "nested 100 deep": DEEP[100].encode(),
    "nested 512 deep": DEEP[512].encode(),
    "brackets in a string": b'"' + b"[" * 5000 + b'"',
    "an escaped NUL": b'"a\\u0000b"',
    "1 MB": b'"' + b"x" * (1048576 - 2) + b'"',
    "integers beyond 2^53": b'{"n": 9007199254740993, "m": 18446744073709551616}',
    "1e400, 1.10 and order of keys": b'{"z": 1e400, "a": 1.10, "a": 2}',
}


@pytest.mark.parametrize("way", [by_sql, by_cli])
@pytest.mark.parametrize("what", REFUSED)
def test_x1_x2_params_that_cannot_be_stored_are_refused_on_every_way_in(db, way, what):
    assert way(db, REFUSED[what]) is None
    assert db.sql("select 1 from deferred.__deferred") == []
    ledger(db)


@pytest.mark.parametrize("way", [by_sql, by_cli])
@pytest.mark.parametrize("what", TAKEN)
def test_x2_x3_params_that_can_be_stored_reach_the_function_byte_for_byte(db, way, what):
    job = way(db, TAKEN[what])
    assert job
    check(db)
    assert db.log(job) == [(1, "ok")]
    result = db.one("select result from deferred.__deferred_log where job_id = %s", job)
    text = TAKEN[what].decode()
    assert result == text if len(text) <= 8192 else result[:8000] == text[:8000]
    ledger(db)


def fuzzed(rng, depth=0):
    """A JSON text as nobody would write it, valid all the same."""

    def space():
        return rng.choice(["", "", "", " ", "\t", " \n "])

    kind = rng.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return rng.choice(["true", "false", "null"])
    if kind == 1:
        return rng.choice(["", "-"]) + str(rng.randrange(10 ** rng.randrange(1, 25)))
    if kind == 2:
        return f"{rng.randrange(1000)}.{rng.randrange(10**6):06d}" + rng.choice(["", "0", "e5", "E-7", "e+300", "e400"])
    if kind < 6:
        return (
            '"'
            + "".join(
                rng.choice(["a", "ä", "€", "😀", "\\n", "\\u00e4", "\\\"", "\\\\", "\\/", " ", "<", "'", "%"])
                for _ in range(rng.randrange(20))
            )
            + '"'
        )
    items = [fuzzed(rng, depth + 1) for _ in range(rng.randrange(5))]
    if kind == 6:
        return "[" + ",".join(space() + i + space() for i in items) + "]"
    return (
        "{" + ",".join(space() + f'"{rng.choice("abc")}"' + space() + ":" + space() + i for i in items) + space() + "}"
    )


def round_trip(db, rng, n):
    texts = [fuzzed(rng) for _ in range(n)]
    texts = [t for t in texts if len(t.encode()) <= 8000]
    for at in range(0, len(texts), 1000):
        db.sql(
            "select deferred.__enqueue_many(array_fill('echo'::text, array[%s]), %s::json[],"
            + ",".join(["null"] * 14)
            + ")",
            len(texts[at : at + 1000]),
            texts[at : at + 1000],
        )
    check(db, "--cnt", "0", timeout=300)
    results = [r[0] for r in db.sql("select result from deferred.__deferred_log where outcome = 'ok' order by job_id")]
    assert results == texts
    ledger(db)


def test_x3_fuzzed_texts_come_back_as_they_were(db, rng):
    round_trip(db, rng, 300)


@pytest.mark.long
def test_x3_ten_thousand_fuzzed_texts_come_back_as_they_were(db, rng):
    round_trip(db, rng, 10_000)


@pytest.mark.slow
def test_x4_poison_jobs_do_not_hold_up_good_ones(db):
    db.config('backoff_floor = "1h"\n')
    bad = [db.defer("crash", '{"signal": 9}') for _ in range(5)]
    db.sql("select deferred.defer('noop') from generate_series(1, 200)")
    runs = 0
    while db.one("select count(*) from deferred.__deferred_hot where due_at is null"):
        check(db, "--cnt", "20")
        runs += 1
    assert runs <= 11  # 205 attempts in twenties: a poison job costs the one attempt
    assert [db.log(j) for j in bad] == [[(1, "crashed")]] * 5
    assert db.one("select count(*) from deferred.__deferred_log where outcome = 'ok'") == 200
    ledger(db)


def test_x5_a_job_defers_jobs_with_its_success_only(db):
    db.plugins("unruly")
    good = db.defer("defer_more", '{"n": 3, "fn": "noop"}')
    bad = db.defer("defer_more", '{"n": 3, "fn": "noop", "fail": true}', max_attempts=1)
    check(db, "--cnt", "0")
    assert db.log(good) == [(1, "ok")] and db.log(bad) == [(1, "failed")]
    assert db.one("select count(*) from deferred.__deferred where fn = 'noop'") == 3
    assert db.hot() == 0
    ledger(db)


@pytest.mark.parametrize(
    "fn,opts,answer",
    [
        ("noop", "", 0),
        ("a.b_2", ' {"key": "k"}', 0),
        ("", "", -1),
        ("a b", "", -1),
        ("1x", "", -1),
        ("noop", "[]", -1),
        ("noop", '"x"', -1),
        ("noop", '{"key"', -1),
    ],
)
def test_x5_what_the_host_cannot_take_it_refuses_at_once(db, fn, opts, answer):
    db.plugins("unruly")
    job = db.defer("defer_raw", json.dumps({"fn": fn, "opts": opts}))
    check(db)
    assert db.sql("select outcome, result from deferred.__deferred_log where job_id = %s", job) == [("ok", str(answer))]
    assert db.hot() == (1 if answer == 0 else 0)
    ledger(db)


def test_x5_a_function_that_wants_to_go_on_later_and_names_no_delay_waits_as_usual(db):
    db.plugins("unruly")
    job = db.defer("returns", '{"value": 2}')
    check(db, "--cnt", "5")
    assert db.log(job) == [(1, "failed")]
    assert db.one("select visible_at > now() from deferred.__deferred_hot where id = %s", job)
    ledger(db)


@pytest.mark.parametrize("isolate", ["child", "job"])
@pytest.mark.parametrize(
    "value,text", [(1, "without saying why"), (3, "without saying why"), (42, "returned 42"), (-1, "returned -1")]
)
def test_x5_a_function_that_says_nothing_is_told_by_what_it_returned(db, value, text, isolate):
    db.plugins("unruly")
    job = db.defer("returns", json.dumps({"value": value}), max_attempts=1)
    done = check(db, f"--isolate={isolate}")
    assert f"attempt 1: failed: {text}; dead" in done.stderr
    assert db.sql("select outcome, error from deferred.__deferred_log where job_id = %s", job) == [("failed", text)]
    ledger(db)


def test_x5_what_a_function_logs_is_one_line_of_text(db):
    db.plugins("unruly")
    db.defer("log_bytes")
    assert "log_bytes: before?after ? end\n" in check(db).stderr
    ledger(db)


@pytest.mark.slow
def test_no_raw_byte_of_what_a_function_prints_reaches_the_log(db):
    """Of a plugin, of one in a process of its own, and of a command, whose words are stored and
    shown too: one line each, all of it text."""
    db.plugins("unruly")
    script = (
        "import os\nfor fd in 1, 2: os.write(fd, bytes(range(256)) + b'\\n\\0error: forged\\r\\n\\xc3')\nraise "
        "SystemExit(1)"
    )
    with open(os.path.join(db.dir, "bytes.py"), "w") as f:
        f.write(script)
    db.config(f'function "bytes" {{ command = {{"/usr/bin/python3", "{f.name}"}} }}')
    for args in (["--isolate=child"], ["--isolate=job", "--log-format=json"]):
        for fn in "print_bytes", "bytes":
            db.defer(fn, max_attempts=1)
        done = db.run(["check_deferred", "--cnt", "0", "--log-level=debug", *args], input=b"")
        assert done.returncode == 0, done.stderr
        said = done.stderr.decode()  # it is UTF-8
        assert {c for c in said if not c.isprintable()} == {"\n"}
        assert "forged" in said, said
        begin = r"\{" if "json" in args[-1] else r"(error|warning|info|debug): "
        assert all(re.search(begin, line) and "error: forged" not in line[:40] for line in said.splitlines()), said
    for shown in (["show", "2"], ["show", "2", "--json"]):
        text = db.run(["deferred", *shown], input=b"").stdout.decode()
        assert "forged" in text and {c for c in text if not c.isprintable()} <= {
            "\n",
            "\x7f" if "--json" in shown else "\n",
        }, text
    ledger(db)


def chain(db, n):
    db.plugins("unruly")
    db.defer("defer_self", json.dumps({"n": n}))
    wait_for(lambda: check(db, "--cnt", "0") and db.hot() == 0, 120)
    assert db.sql("select outcome, count(*) from deferred.__deferred_log group by 1") == [("ok", n + 1)]
    ledger(db)


def test_x5_a_chain_of_jobs_comes_to_its_end(db):
    chain(db, 100)


@pytest.mark.long
def test_x5_a_chain_of_a_thousand(db):
    chain(db, 1000)


def test_x5_a_job_that_defers_itself_for_ever_is_bounded_by_cnt(db):
    db.plugins("unruly")
    db.defer("defer_self", '{"n": 1000000}')
    check(db, "--cnt", "7")
    assert db.one("select count(*) from deferred.__deferred_log") == 7
    assert db.hot() == 1
    ledger(db)


def test_x6_a_log_nobody_reads_ends_no_run(db):
    """Standard error is a pipe whose reader has gone: no SIGPIPE, and the outcome is recorded."""
    job, good = db.defer("fail", max_attempts=1), db.defer("noop")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [program("check_deferred"), "--cnt", "0", "--log-level", "debug"],
        env=db.env,
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=writer,
        timeout=60,
    )
    os.close(writer)
    assert done.returncode == 0
    assert db.log(job) == [(1, "failed")] and db.log(good) == [(1, "ok")]
    ledger(db)


def test_x6_runs_overlap_by_cron_and_each_job_runs_once(db):
    """Every minute a start, each slower than a minute: with skip they give way to the one at work."""
    db.sql("select deferred.defer('sleep', '{\"ms\": 20}') from generate_series(1, 60)")
    first = db.spawn(["check_deferred", "--cnt", "0"])
    wait_for(lambda: db.sql("select 1 from deferred.__held"))
    for _ in range(5):
        done = db.run(["check_deferred", "--cnt", "0", "--if-running=skip"])
        assert done.returncode in (0, 75)
    assert first.wait(60) == 0
    assert db.sql("select outcome, count(*) from deferred.__deferred_log group by 1") == [("ok", 60)]
    ledger(db)


@pytest.mark.parametrize(
    "env", [{}, {"PATH": "", "HOME": ""}, {"TZ": "America/St_Johns", "LC_ALL": "tr_TR.UTF-8"}, {"LD_PRELOAD": ""}]
)
def test_x6_the_environment_decides_nothing_but_settings(db, env):
    job = db.defer("echo", '{"İ": 1.5}')
    settings = {k: v for k, v in db.env.items() if k.startswith(("DEFERRED_", "ASAN", "UBSAN", "LSAN"))}
    done = subprocess.run(
        [program("check_deferred")],
        env={**settings, **env},
        cwd="/",
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"error: " not in done.stderr
    assert db.sql("select outcome, result from deferred.__deferred_log where job_id = %s", job) == [
        ("ok", '{"İ": 1.5}')
    ]
    ledger(db)
