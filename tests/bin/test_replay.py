"""`deferred replay`: the function of a past attempt, called again with what that attempt had, and nothing recorded."""

import json
import os
import pty
import re
import select
import subprocess

import pytest

import pg
from harness import SAN, ledger, program

NOT_DONE, FAILED, CRASHED, TIMEOUT, USAGE, DATA, NO_INPUT, UNAVAILABLE, NO_PERMISSION = 1, 6, 7, 8, 64, 65, 66, 69, 77

SOURCE = r"""
#include <deferred_plugin.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#ifndef VERSION
#define VERSION "1"
#endif

/* All that a call has, and the limits of its process, as the error of an attempt that saves a step and fails. */
static int told(const struct deferred_call *call)
{
	static char text[8000], step[20];
	struct rlimit cpu, memory, files;

	getrlimit(RLIMIT_CPU, &cpu);
	getrlimit(RLIMIT_AS, &memory);
	getrlimit(RLIMIT_NOFILE, &files);
	snprintf(text, sizeof(text), "%lld %d %s %s %s %lld %lld %lld %lld %s %s %s %lld %lld %lld %s %d",
		 (long long)call->id, call->attempt, call->fn, call->label, call->params,
		 (long long)call->created_at_us, (long long)call->tick, (long long)call->previous_tick,
		 (long long)call->timeout_ms, call->parents, call->steps, call->traceparent,
		 (long long)cpu.rlim_cur, (long long)memory.rlim_cur, (long long)files.rlim_cur, getenv("PATH"),
		 (int)getuid());
	snprintf(step, sizeof(step), "step%d", call->attempt);
	call->host->step(call, step, "{\"a\": 1}");
	call->host->retry_after(call, 0);
	call->host->error(call, text, strlen(text));
	return DEFERRED_LATER;
}

int __attribute__((noinline)) wild(const struct deferred_call *call)
{
	volatile char *block = malloc(16);
	int read = block[16 + (call->id < 0)];

	free((void *)block);
	return read == 1000 ? DEFERRED_FAILED : DEFERRED_OK;
}

int __attribute__((noinline)) inner_part(const struct deferred_call *call)
{
	if (strstr(call->params, "crash"))
		raise(SIGSEGV);
	printf("it prints this\n");
	call->host->result(call, "the result", 10);
	return DEFERRED_OK;
}

int __attribute__((noinline)) outer_part(const struct deferred_call *call)
{
	return inner_part(call) + 0 * (int)call->id;
}

int outer_many(const struct deferred_call *const *calls, size_t n)
{
	return outer_part(calls[n - 1]);
}

/* All that a function may have recorded. */
static int asks(const struct deferred_call *call)
{
	call->host->progress(call, 3, 10, "copying", 7);
	call->host->step(call, "paid", "true");
	call->host->defer(call, "noop", "{}", NULL);
	call->host->remove_after(call, "/nonexistent/file");
	usleep(600000); /* progress is looked at four times a second */
	call->host->progress(call, 4, 0, "of unknown", 10);
	usleep(600000);
	return DEFERRED_OK;
}

static const struct deferred_function functions[] = {
	{ .name = "told", .run = told },
	{ .name = "told_apart", .run = told, .cpu_ms = 7000, .memory_bytes = (int64_t)1 << 31, .files = 99 },
	{ .name = "wild", .run = wild },
	{ .name = "outer", .run = outer_part },
	{ .name = "outer_apart", .run = outer_part, .flags = DEFERRED_ISOLATE_JOB },
	{ .name = "outer_many", .run_many = outer_many },
	{ .name = "asks", .run = asks },
};
DEFERRED_PLUGIN("replayed", VERSION, functions);
"""


def build(folder, *options):
    source = os.path.join(folder, "replayed.c")
    with open(source, "w") as f:
        f.write(SOURCE)
    target = os.path.join(folder, "replayed.so")
    words = ["cc", "-g", "-O1", "-shared", "-fPIC", f"-I{pg.TOP}/lib/include", *options, "-o", target + ".new", source]
    subprocess.run(words, check=True)
    os.chmod(target + ".new", 0o755)
    os.rename(target + ".new", target)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replayed")
    build(str(folder))
    return folder / "replayed.so"


@pytest.fixture
def replayed(db, compiled):
    """A database whose workers have the plugin above."""
    folder = db.plugins("running")
    path = os.path.join(folder, "replayed.so")
    with open(path, "wb") as f:
        f.write(compiled.read_bytes())
    os.chmod(path, 0o755)
    yield db
    ledger(db)


def work(db):
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0


def replay(db, job, *options, code=0, **kw):
    done = db.run(["deferred", "replay", str(job), *options], **kw)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def errors(db, job):
    return [e for (e,) in db.sql("select error from deferred.__deferred_log where job_id = %s order by attempt", job)]


def tables(db):
    """All rows of all tables of the schema."""
    names = [
        n
        for (n,) in db.sql(
            "select oid::regclass::text from pg_class where relkind = 'r' and relnamespace = "
            "'deferred'::regnamespace order by 1"
        )
    ]
    return {n: db.one(f"select string_agg(t::text, E'\\n' order by t::text) from {n} t") for n in names}


# ---- what the function gets


@pytest.mark.parametrize("fn", ["told", "told_apart"])
@pytest.mark.parametrize("isolate", ["child", "job"])
def test_each_attempt_is_called_again_with_what_it_had(replayed, fn, isolate):
    db = replayed
    db.config(
        f'isolate = "{isolate}"\nfiles_limit = 200\nbackoff_floor = "1ms"\n' + 'memory_limit = "3g"\n' * (not SAN)
    )
    parent = db.defer("echo", '{"of": "the parent"}')
    job = db.defer(
        fn,
        '{"a": 1.10}',
        label="a label",
        timeout="77s",
        max_attempts=3,
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        after={"job": parent, "as": "first"},
        wait_for="paid",
    )
    work(db)
    db.sql("select deferred.send_event('paid', '{\"amount\": 12}')")
    work(db)
    while db.hot():
        work(db)
    recorded = errors(db, job)
    assert len(recorded) == 3 and '"step1"' in recorded[2] and '"step2"' in recorded[2] and "amount" in recorded[0]
    before = tables(db)
    for n, error in enumerate(recorded, 1):
        done = replay(db, job, "--attempt", str(n), code=FAILED)
        assert f"deferred: {fn} failed: {error}\n" in done.stderr
        assert f"not saved, this being a replay: step step{n} " in done.stderr
    assert error in replay(db, job, code=FAILED).stderr  # the last one
    assert tables(db) == before


def test_a_replay_has_the_ticks_of_the_schedule(replayed):
    db = replayed
    assert db.run(["deferred", "schedule", "set", "s", "every 1h", "ticks"]).returncode == 0
    job = int(db.run(["deferred", "schedule", "run", "s"]).stdout)
    db.sql("update deferred.__deferred set previous_tick = tick - interval '1 hour' where id = %s", job)
    work(db)
    said = db.one("select result from deferred.__deferred_log where job_id = %s", job)
    assert json.loads(said)["to"] - json.loads(said)["from"] == 3600000000
    assert replay(db, job).stdout == said + "\n"


def test_other_params_come_from_a_file_or_from_standard_input(replayed):
    db = replayed
    job = db.defer("echo", '{"a": 1}')
    work(db)
    assert replay(db, job).stdout == '{"a": 1}\n'
    path = os.path.join(db.dir, "params.json")
    with open(path, "w") as f:
        f.write('{"b": 2}\n')
    assert replay(db, job, "--params", path).stdout == '{"b": 2}\n'
    assert replay(db, job, "--params", "-", input='{"c": 3}').stdout == '{"c": 3}\n'
    assert json.loads(replay(db, job, "--json").stdout) == {"outcome": "ok", "result": '{"a": 1}'}
    for text, said in (("{x", "invalid JSON"), ("", "the file is empty"), ("{}\0", "the file has a NUL byte")):
        with open(path, "w") as f:
            f.write(text)
        assert said in replay(db, job, "--params", path, code=DATA).stderr
    assert "cannot be opened" in replay(db, job, "--params", path + "x", code=NO_INPUT).stderr


# ---- how it ends


def test_a_crash_shows_signal_and_backtrace(replayed):
    db = replayed
    job = db.defer("outer", '{"do": "crash"}', max_attempts=1)
    work(db)
    before = tables(db)
    said = replay(db, job, code=CRASHED).stderr
    assert "outer crashed: killed by signal 11 (Segmentation fault)" in said and "replayed.so(inner_part+0x" in said
    assert json.loads(replay(db, job, "--json", code=CRASHED).stdout)["outcome"] == "crashed"
    assert tables(db) == before


def test_the_output_and_the_result_of_a_function_are_printed(replayed):
    job = replayed.defer("outer")
    work(replayed)
    done = replay(replayed, job)
    assert done.stdout == "the result\n" and done.stderr.endswith(": it prints this\n")


def test_a_command_gets_its_job(replayed):
    db = replayed
    script = os.path.join(db.dir, "command")
    with open(script, "w") as f:
        f.write('#!/bin/sh\ncat >&2\necho " $DEFERRED_JOB_ID $DEFERRED_JOB_ATTEMPT" >&2\nexit 3\n')
    os.chmod(script, 0o755)
    db.config(f'function "shell" {{ command = {{"{script}"}} }}\nbackoff_floor = "1h"\n')
    job = db.defer("shell", '{"a": 1}')
    work(db)
    said = replay(db, job, code=FAILED).stderr
    assert said == f'deferred: shell failed: {{"a": 1}} {job} 1\n'
    assert db.log() == [(job, 1, "failed")]


def test_a_function_of_a_program_gets_its_job(replayed):
    db = replayed
    with open(os.path.join(db.dir, "tasks.py"), "w") as f:
        f.write(
            "import deferred\n"
            '@deferred.function("told_by_program", max_attempts=1)\n'
            "def told(params, job):\n"
            '    first = job.step("first", lambda: 7)\n'
            '    raise deferred.Dead(f"{job.id} {job.attempt} {params} {first}")\n'
        )
    words = f'"/usr/bin/env", "PYTHONPATH={pg.TOP}/lib/languages/python:{db.dir}", "/usr/bin/python3", "-B"'
    db.config(f'program "tasks" {{ command = {{{words}, "-m", "deferred", "tasks"}} }}\n')
    job = db.defer("told_by_program", '{"a": 1}')
    work(db)
    (error,) = errors(db, job)
    assert error == f"{job} 1 {{'a': 1}} 7"
    before = tables(db)
    said = replay(db, job, code=FAILED).stderr
    assert f"told_by_program failed: {error}\n" in said and "not saved, this being a replay: step first 7" in said
    assert tables(db) == before


def test_the_time_limit_of_the_job_holds(replayed):
    db = replayed
    db.config('backoff_floor = "1h"\n')
    job = db.defer("sleep", '{"ms": 600000}', timeout="200ms")
    work(db)
    assert db.log(job) == [(1, "timeout")]
    assert "time limit of 200 ms exceeded" in replay(db, job, code=TIMEOUT).stderr


# ---- nothing is recorded


def test_what_the_function_asks_for_is_printed_and_not_recorded(replayed):
    db = replayed
    job = db.defer("asks", "{}")
    work(db)
    before = tables(db)
    said = replay(db, job).stderr
    assert "asks: progress 3 of 10 (30 %), copying" in said and "asks: progress 4, of unknown" in said
    for what in ("not saved", "not deferred", "not removed"):
        assert f"deferred: {what}, this being a replay: " in said
    assert tables(db) == before


def test_the_receipt_of_a_replay_ends_no_job(replayed):
    """The job waits again, and another worker holds it, while its first attempt is replayed."""
    db = replayed
    db.sql("create schema app; create table app.effect (job bigint, attempt integer)")
    db.config(f'settings "running" {{ conninfo = "{db.conninfo}" }}\n')
    job = db.defer("own", '{"how": "commit", "then": "failed"}', max_attempts=1)
    db.sql("alter table app.effect rename to gone")  # so that the first attempt fails before it finishes its job
    work(db)
    db.sql("alter table app.gone rename to effect")
    assert db.run(["deferred", "retry", str(job)]).returncode == 0
    db.hold(job, worker=7)
    before = tables(db)
    assert "is not held by this receipt" in replay(db, job, code=FAILED).stderr
    assert tables(db) == before and db.one("select count(*) from app.effect") == 0


def test_a_build_that_differs_is_named(replayed):
    db = replayed
    job = db.defer("outer")
    work(db)
    assert "was made by" not in replay(db, job).stderr
    build(db.env["DEFERRED_PLUGIN_DIR"], '-DVERSION="2"')
    assert re.search(
        r"deferred: function 'outer': this is 'replayed 2[^']*', but the attempt was made by 'replayed 1[^']*'\nhint: ",
        replay(db, job).stderr,
    )


# ---- tools

SCRIPT = "bt\nfinish\ncontinue\nquit\n"


@pytest.mark.parametrize("fn", ["outer", "outer_apart", "outer_many"])
@pytest.mark.parametrize("isolate", ["child", "job"])
def test_gdb_stops_in_the_function(replayed, fn, isolate):
    db = replayed
    db.config(f'isolate = "{isolate}"\ncpu_limit = "1min"\n')
    job = db.defer(fn)
    work(db)
    before = tables(db)
    done = replay(db, job, "--gdb", input=SCRIPT)
    name = "outer_many" if fn == "outer_many" else "outer_part"
    assert re.search(rf"^(\(gdb\) )?#0 +{name} \(call", done.stderr, re.M), done.stderr
    assert re.search(r"^#\d +0x\w+ in call_function ", done.stderr, re.M) and "Value returned is" in done.stderr
    assert done.stdout == "the result\n" and tables(db) == before


def test_a_debugger_that_quits_early_ends_the_replay(replayed):
    job = replayed.defer("outer")
    work(replayed)
    done = replay(replayed, job, "--gdb", input="kill\nquit\n", code=FAILED)
    assert "outer failed" in done.stderr and done.stdout == ""


def test_gdb_stops_in_a_command(replayed):
    db = replayed
    db.config('function "shell" { command = {"/bin/cat"} }\n')
    job = db.defer("shell", '{"a": 1}')
    work(db)
    done = replay(db, job, "--gdb", input="info inferiors\ncontinue\nquit\n")
    assert re.search(r"^\* \d .*/cat", done.stderr, re.M), done.stderr
    assert done.stdout == '{"a": 1}\n'


def read_until(fd, words, said=b""):
    """What a program prints on its terminal, up to these words; None: up to its end."""
    while words is None or words not in said:
        assert select.select([fd], [], [], 60)[0], said
        try:
            more = os.read(fd, 65536)
        except OSError:  # the terminal of a program that has ended
            more = b""
        said += more
        if not more:
            assert words is None, said
            break
    return said


def test_a_debugger_has_the_terminal(replayed):
    """As a background process it would be stopped when it reads. Afterwards the terminal is ours again."""
    db = replayed
    job = db.defer("outer")
    work(db)
    command = f"'{program('deferred')}' replay {job} --gdb; read word; echo \"$? <$word>\""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve("/bin/bash", ["bash", "-c", command], {**db.env, "TERM": "dumb"})
    try:
        said = read_until(fd, b"(gdb) ")
        os.write(fd, b"bt 1\n")
        said = read_until(fd, b"(gdb) ", said.rpartition(b"(gdb)")[2])
        assert b"outer_part (call" in said
        os.write(fd, b"continue\n")
        read_until(fd, b"exited ")
        os.write(fd, b"quit\n")
        read_until(fd, b"the result")
        os.write(fd, b"word\n")
        assert b"0 <word>" in read_until(fd, None)
    finally:
        os.close(fd)
        os.waitpid(pid, 0)


@pytest.mark.skipif(SAN, reason="valgrind cannot run what the sanitizers are in")
@pytest.mark.parametrize("isolate", ["child", "job"])
def test_valgrind_reports_an_invalid_read(replayed, isolate):
    db = replayed
    db.config(f'memory_limit = "2g"\ncpu_limit = "1min"\nisolate = "{isolate}"\n')
    job, good, limited = db.defer("wild"), db.defer("outer"), db.defer("outer_apart")
    work(db)
    said = replay(db, job, "--valgrind").stderr
    assert re.search(r"== Invalid read of size 1\n==\d+== +at 0x\w+: wild \(replayed.c:\d+\)", said), said
    for job in (good, limited):
        done = replay(db, job, "--valgrind")
        assert "ERROR SUMMARY: 0 errors" in done.stderr and done.stdout == "the result\n", done.stderr


def test_valgrind_is_refused_for_a_command(replayed):
    db = replayed
    db.config('function "shell" { command = {"/bin/cat"} }\n')
    job = db.defer("shell")
    work(db)
    said = replay(db, job, "--valgrind", code=DATA).stderr
    assert "function 'shell' is not in a plugin, and --valgrind is for plugins\nhint: put valgrind" in said


def test_any_command_can_be_in_front(replayed):
    db = replayed
    job = db.defer("outer", '{"do": "nothing"}')
    work(db)
    done = replay(db, job, "--exec", "sh -c 'echo below >&2; exec \"$@\"' x")
    assert done.stdout == "the result\n" and done.stderr == "below\nit prints this\n"
    for command, said in (("true", ""), ("/nonexistent/tool", "not found")):
        done = replay(db, job, "--exec", command, code=UNAVAILABLE)
        assert said in done.stderr and "ended before function 'outer' was called\nhint: " in done.stderr
    path = os.path.join(db.dir, "crash.json")
    with open(path, "w") as f:
        f.write('{"do": "crash"}')
    assert "outer crashed" in replay(db, job, "--exec", "env", "--params", path, code=CRASHED).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_tool_runs_as_the_user_of_functions(replayed):
    db = replayed
    os.chmod(db.dir, 0o711)
    db.config('user = "nobody"\n')
    job = db.defer("outer")
    work(db)
    done = replay(db, job, "--exec", "sh -c 'id -un >&2; exec \"$@\"' x")
    assert done.stdout == "the result\n" and done.stderr == "nobody\nit prints this\n"
    assert "outer_part (call" in replay(db, job, "--gdb", input=SCRIPT).stderr


# ---- what is refused


def test_what_is_not_there_is_named(replayed):
    db = replayed
    job = db.defer("fail", max_attempts=1)
    assert f"job {job} has no attempt in the log\nhint: " in replay(db, job, code=NOT_DONE).stderr
    work(db)
    said = replay(db, job, "--attempt", "2", code=NOT_DONE).stderr
    assert said == f"deferred: job {job} has no attempt 2 in the log\nhint: deferred show {job} lists those it has\n"
    message = db.defer("noop")
    db.sql("update deferred.__deferred set fn = null where id = %s", message)
    assert f"job {message} is a message, which has no function\nhint: " in replay(db, message, code=NOT_DONE).stderr
    db.sql("update deferred.__deferred set fn = 'noop' where id = %s", message)
    db.sql("delete from deferred.__deferred where id = %s", job)
    said = replay(db, job, code=NOT_DONE).stderr
    assert f"job {job} does not exist\nhint: it was never deferred, was purged, " in said
    gone = db.defer("nosuch", max_attempts=1)
    db.sql("delete from deferred.__deferred_hot where id = %s", gone)
    db.sql("insert into deferred.__deferred_log (job_id, attempt, outcome, final) values (%s, 1, 'failed', true)", gone)
    assert "function 'nosuch' is not in a plugin" in replay(db, gone, code=UNAVAILABLE).stderr
    db.sql("delete from deferred.__deferred_log where job_id = %s", job)


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "argument ID is missing"),
        (["x"], "job id 'x' is not a whole number"),
        (["1", "--attempt", "0"], "'0' is not a whole number from 1"),
        (["1", "--gdb", "--valgrind"], "--gdb, --valgrind and --exec exclude each other"),
        (["1", "--exec", " "], "option '--exec': value ' ' is empty"),
    ],
    ids=str,
)
def test_wrong_usage_is_refused(db, words, said):
    done = db.run(["deferred", "replay", *words])
    assert done.returncode == USAGE and said in done.stderr and "\nhint: " in done.stderr


@pytest.mark.parametrize("role, code", [("deferred_viewer", NO_PERMISSION), ("deferred_reader", 0)])
def test_only_those_who_may_read_params_replay(replayed, role, code):
    db = replayed
    parent = db.defer("echo", '{"secret": 1}')
    job = db.defer("parents", after=parent)
    work(db)
    work(db)
    name = f"replayer_{os.getpid()}"
    db.sql(f"create role {name} login in role {role}")
    try:
        done = replay(db, job, code=code, env={"DEFERRED_DB": f"{db.conninfo} user={name}"})
        assert ("secret" in done.stdout) == (code == 0) and (code == 0 or "deferred_reader" in done.stderr)
    finally:
        db.sql(f"drop role {name}")
