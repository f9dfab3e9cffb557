"""The life of a program: how it is started, what it is given, when it is replaced, and what is recorded of its jobs."""

import json
import os
import re
import signal

import pytest

from conversation import HELPER, act, drain, ended, in_turn, pid_of, pids, program
import harness
from harness import ledger, wait_for

ONE = "runners = 1\ninterval_floor = 50ms\ninterval_ceiling = 200ms\n"


def ran(db, jobs):
    """The processes that ran these jobs, in order."""
    return [pid_of(db, job) for job in jobs]


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_announced_functions_are_offered_with_their_limits_and_version(db, isolate):
    text = HELPER.replace(
        "ready(*FUNCTIONS)",
        "send({'type': 'function', 'name': 'quick', 'timeout_ms': 1234, 'max_attempts': 3})\nready('act')",
    )
    db.config(ONE + program(db, declared=False, text=text, timeout="2min", max_attempts="7"))
    jobs = [act(db), act(db, fn="quick"), act(db, "done(body=json.dumps(head))")]
    drain(db, f"--isolate={isolate}")
    assert [db.log(job) for job in jobs] == [[(1, "ok")]] * 3
    assert db.one("select plugin from deferred.__deferred_log where job_id = %s", jobs[0]) == "shop 1.4"
    assert db.sql(
        "select f.* from deferred.__deferred_offer o, unnest(o.fn, o.plugin, o.timeout_ms, o.max_attempts) f(name)"
        " where name in ('act', 'quick') order by 1"
    ) == [("act", "shop 1.4", 120000, 7), ("quick", "shop 1.4", 1234, 3)]
    head = json.loads(db.one("select result from deferred.__deferred_log where job_id = %s", jobs[2]))
    assert 119000 < head["timeout_ms"] <= 120000


def test_a_call_has_what_the_job_has(db):
    db.config(ONE + program(db) + 'settings "shop" { api = "a \\"b\\"" empty = "" }\nsettings "till" { key = 1 }\n')
    parent = db.defer("noop")
    job = act(
        db,
        "done(body=json.dumps([head, settings, json.loads(body[head['params']:]),"
        " os.environ.get('DEFERRED_PROGRAM')]))",
        label='say "hi" ä',
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        timeout="90s",
        after=parent,
    )
    drain(db)
    drain(db)
    head, settings, parents, version = json.loads(
        db.one("select result from deferred.__deferred_log where job_id = %s", job)
    )
    assert head["job"] == str(job) and head["fn"] == "act" and head["attempt"] == 1 and int(head["receipt"]) != 0
    assert head["label"] == 'say "hi" ä' and head["traceparent"].startswith("00-0af7651916cd43dd")
    assert 80000 < head["timeout_ms"] <= 90000 and "tick_us" not in head
    assert head["bytes"] == head["params"] + head["parents"] + head["steps"] and head["steps"] == 0
    assert [p["id"] for p in parents.values()] == [parent]
    assert settings == {"api": 'a "b"', "empty": ""} and version == "1"


@pytest.mark.parametrize("size", [2, 100, 65536, 1000000])
def test_params_of_any_size_arrive_unchanged(db, size):
    text = HELPER.replace(
        "    params = json.loads(", "    params = {'do': 'done(body=str(len(body)))'} if SIZE else json.loads("
    )
    db.config(ONE + program(db, text=text.replace("SIZE", "1")))
    params = "{}" if size == 2 else '{"large": "%s"}' % ("x" * (size - 13))
    job = db.defer("act", params)
    drain(db)
    assert int(db.one("select result from deferred.__deferred_log where job_id = %s", job)) == len(params)


def test_a_program_has_its_pipes_its_folder_and_no_other_descriptor(db):
    look = (
        "import resource\n"
        "folder = '/proc/self/fd/'\n"
        "links = {fd: os.readlink(folder + fd) for fd in os.listdir(folder) if os.path.exists(folder + fd)}\n"
        "status = open('/proc/self/status').read()\n"
        "done(body=json.dumps([sorted(map(int, links)), links['0'], links['1'] == links['2'], os.getcwd(),"
        " os.getpgid(0) == os.getpid(), 'NoNewPrivs:\\t1' in status, sorted(os.environ)]))"
    )
    os.mkdir(db.dir + "/work")
    db.config(ONE + program(db, directory=db.dir + "/work"))
    job = act(db, look)
    drain(db)
    fds, stdin, same, cwd, leads, no_new, env = json.loads(
        db.one("select result from deferred.__deferred_log where job_id = %s", job)
    )
    assert fds[:5] == [0, 1, 2, 3, 4] and len(fds) <= 6, "and that of the list itself"
    assert stdin == "/dev/null" and same and cwd == db.dir + "/work" and leads and no_new
    assert "DEFERRED_PROGRAM" in env and not [e for e in env if e.startswith("DEFERRED_JOB") or e.startswith("PG")]


def test_a_program_is_replaced_after_max_jobs_and_loses_no_job(db):
    db.config(ONE + program(db, max_jobs=3))
    jobs = [act(db) for _ in range(30)]
    drain(db)
    found = ran(db, jobs)
    assert [found.count(pid) for pid in dict.fromkeys(found)] == [3] * 10
    ledger(db)


def test_the_number_of_jobs_varies_by_a_tenth(db):
    db.config(ONE + program(db, max_jobs=20))
    jobs = [act(db) for _ in range(200)]
    drain(db)
    found = ran(db, jobs)
    counts = sorted(found.count(pid) for pid in set(found))
    assert all(18 <= n <= 20 for n in counts[1:]) and counts[0] <= 20, "the last one has the rest"


def test_a_program_is_replaced_when_it_asks_for_it(db):
    db.config(ONE + program(db))
    jobs = in_turn(db, lambda: act(db), lambda: act(db, "done(body=str(os.getpid()), last=1)"), lambda: act(db))
    first, second, third = ran(db, jobs)
    assert first == second != third


def test_a_program_that_has_grown_beyond_max_memory_is_replaced_and_one_that_starts_so_is_reported(db):
    db.config(ONE + program(db, max_memory="100m"))
    jobs = in_turn(
        db,
        lambda: act(db),
        lambda: act(db, "grown = b'1' * (150 << 20)\ndone(body=str(os.getpid()))"),
        lambda: act(db),
    )
    first, second, third = ran(db, jobs)
    assert first == second != third
    assert db.one("select max_rss_kb > 150 << 10 from deferred.__deferred_log where job_id = %s", jobs[1])
    db.config(ONE + program(db, max_memory="1m"))
    jobs = [act(db) for _ in range(3)]
    assert "before its first job, more than max_memory" in drain(db)
    assert len(set(ran(db, jobs))) == 3


@pytest.mark.parametrize("change", ["touch", "rename", "link"])
def test_a_program_is_replaced_when_a_watched_path_changes(db, change):
    for name in ("a", "b"):
        os.mkdir(f"{db.dir}/{name}")
    os.symlink("a", db.dir + "/current")
    db.config(ONE + program(db, watch='{"%s/current", "%s/absent"}' % (db.dir, db.dir)))
    run = db.spawn(["check_deferred", "--loop", "--listen"])
    first = act(db)
    wait_for(lambda: db.log(first), 30)
    if change == "touch":
        os.utime(db.dir + "/a", (1, 1))
    elif change == "rename":
        os.rename(db.dir + "/b", db.dir + "/a")
    else:
        os.symlink("b", db.dir + "/next")
        os.rename(db.dir + "/next", db.dir + "/current")

    def replaced():
        job = act(db)
        wait_for(lambda: db.log(job), 30)
        return pid_of(db, job) != pid_of(db, first)

    wait_for(replaced, 30)
    run.signal(signal.SIGTERM)
    run.wait(30)


@pytest.mark.parametrize("declared", [True, False])
def test_sighup_replaces_a_program(db, declared):
    db.config(ONE + program(db, declared=declared))
    run = db.spawn(["check_deferred", "--loop", "--listen"])
    first = act(db)
    wait_for(lambda: db.log(first), 30)
    run.signal(signal.SIGHUP)

    def replaced():
        job = act(db)
        wait_for(lambda: db.log(job), 30)
        return pid_of(db, job) != pid_of(db, first)

    wait_for(replaced, 30)
    run.signal(signal.SIGTERM)
    run.wait(30)
    assert not pids(db)


def test_a_program_that_leaves_runs_its_exit_handlers_and_one_that_stays_is_killed(db):
    leave = "import atexit\natexit.register(lambda: open(os.environ['HOME'] + '/left', 'a').write('x'))\n"
    db.config(ONE + program(db, before=leave.replace("os.environ['HOME'] + '/left'", repr(db.dir + "/left"))))
    act(db)
    drain(db)
    wait_for(lambda: not pids(db), 20)
    assert open(db.dir + "/left").read() == "x"
    stays = HELPER.replace("            sys.exit(0)", "            time.sleep(60)")
    db.config(ONE + "kill_after = 300ms\n" + program(db, text=stays))
    act(db)
    drain(db)
    wait_for(lambda: not pids(db), 20)


def test_back_off_grows_with_each_failed_start(db):
    db.config(ONE + program(db, before=f"open({db.dir + '/starts'!r}, 'a').write('x')\nsys.exit('not yet')"))
    jobs = [act(db, max_attempts=1) for _ in range(20)]
    drain(db)
    assert len(open(db.dir + "/starts").read()) <= 5, "one a job would be twenty"
    for job in jobs:
        assert "not yet" in ended(db, job)[0][1]


def test_back_off_ends_with_a_good_start(db):
    flag = db.dir + "/good"
    db.config(ONE + program(db, before=f"if not os.path.exists({flag!r}): sys.exit('not yet')"))
    run = db.spawn(["check_deferred", "--loop", "--listen"])

    def works():
        job = act(db)
        return wait_for(lambda: db.log(job), 20)[0][1] == "ok"

    for _ in range(6):
        wait_for(lambda: not works(), 20)
        open(flag, "w").close()
        wait_for(works, 20, "the sixth failure in a row would delay the next start by 32 s")
        dies = act(db, "os._exit(1)", max_attempts=1)
        os.unlink(flag)
        wait_for(lambda: db.log(dies), 20)
    run.signal(signal.SIGTERM)
    run.wait(30)


def test_all_announced_programs_start_together(db):
    """Each waits for the start of the other."""
    meet = "open('{0}/{1}', 'w')\nwhile not os.path.exists('{0}/{2}'): time.sleep(0.01)"
    db.config(
        ONE
        + program(db, declared=False, before=meet.format(db.dir, "first", "second"))
        + program(db, name="till", functions=("pay",), declared=False, before=meet.format(db.dir, "second", "first"))
    )
    jobs = [act(db), act(db, fn="pay")]
    drain(db)
    assert [db.log(job) for job in jobs] == [[(1, "ok")]] * 2


def test_sighup_starts_an_announced_program_that_had_failed(db):
    flag = db.dir + "/good"
    db.config(ONE + program(db, declared=False, before=f"if not os.path.exists({flag!r}): sys.exit('not yet')"))
    job, other = act(db), db.defer("noop")
    run = db.spawn(["check_deferred", "--loop", "--listen"])
    wait_for(lambda: db.log(other), 30)
    wait_for(lambda: "not yet" in run.output(), 30)
    assert db.log(job) == []
    open(flag, "w").close()
    run.signal(signal.SIGHUP)
    wait_for(lambda: db.log(job) == [(1, "ok")], 30)
    run.signal(signal.SIGTERM)
    run.wait(30)


def test_declared_functions_are_the_only_ones_that_are_offered(db):
    db.config(ONE + program(db, functions=("act",), text=HELPER.replace("FUNCTIONS_HERE", "['act', 'secret']")))
    job, secret = act(db), act(db, fn="secret")
    drain(db)
    assert db.log(job) == [(1, "ok")] and db.log(secret) == []
    assert db.one("select count(*) from deferred.__deferred_offer where 'secret' = any(fn)") == 0


def test_a_start_within_a_call_counts_toward_the_limit_of_the_call(db):
    db.config(ONE + program(db, timeout="3s", before="print('connecting', flush=True)\ntime.sleep(60)"))
    job = act(db, max_attempts=1)
    drain(db)
    assert ended(db, job)[0][1] == "program 'shop' was not ready in time\nconnecting"
    assert db.one("select state from deferred.job where id = %s", job) not in ("dead", "done")


def test_a_replacement_starts_during_other_work(db):
    go = db.dir + "/go"
    wait = f"while os.path.exists({db.dir + '/ran'!r}) and not os.path.exists({go!r}): time.sleep(0.01)"
    db.config(ONE + program(db, before=wait))
    run = db.spawn(["check_deferred", "--loop", "--listen"])
    first = act(db, f"open({db.dir + '/ran'!r}, 'w').close()\ndone(body=str(os.getpid()), last=1)")
    wait_for(lambda: db.log(first), 30)
    wait_for(lambda: pids(db) and pids(db) != [pid_of(db, first)], 30, "the replacement has started")
    other = db.defer("noop")
    wait_for(lambda: db.log(other) == [(1, "ok")], 30, "a job of a plugin runs meanwhile")
    second = act(db)
    open(go, "w").close()
    wait_for(lambda: db.log(second) == [(1, "ok")], 30)
    run.signal(signal.SIGTERM)
    assert run.wait(30) == 0
    ledger(db)


def test_declared_functions_never_delay_a_plugin(db):
    db.config(program(db, before="time.sleep(60)"))
    job = db.defer("noop")
    drain(db)
    assert db.log(job) == [(1, "ok")] and not pids(db)


def test_a_slow_start_of_an_announced_program_is_waited_for_beyond_ten_seconds(db):
    db.config(ONE + program(db, declared=False, before="time.sleep(11)"))
    job = act(db)
    drain(db)
    assert db.log(job) == [(1, "ok")]


@pytest.mark.parametrize(
    "other, declared", [("plugin", True), ("plugin", False), ("command", False), ("program", True), ("program", False)]
)
def test_a_function_that_exists_twice_is_refused(db, other, declared):
    name = "noop" if other == "plugin" else "act"
    text = program(db, functions=(name, "fine"), declared=declared)
    if other == "command":
        text += 'function "act" { command = {"/bin/true"} }\n'
    if other == "program":
        text += program(db, name="till", functions=("act",), declared=False)
    db.config(ONE + text)
    job, fine = db.defer(name), db.defer("fine")
    said = drain(db)
    assert f"function '{name}' is both " in said and "of program 'shop'" in said, said
    assert db.log(job) == [] and db.log(fine) == [(1, "ok")]


def test_with_isolation_each_job_has_a_process_of_its_own_unless_max_jobs_is_set(db):
    db.config(ONE + "isolate = job\n" + program(db))
    jobs = [act(db) for _ in range(4)]
    drain(db)
    assert len(set(ran(db, jobs))) == 4
    db.config(ONE + "isolate = job\n" + program(db, max_jobs=10))
    jobs = [act(db) for _ in range(4)]
    drain(db)
    assert len(set(ran(db, jobs))) == 1


def test_processor_time_and_memory_are_those_of_the_job(db):
    db.config(ONE + program(db))
    idle, works, again = (
        act(db),
        act(db, "x = b'1' * (80 << 20)\nsum(i * i for i in range(3000000))\ndel x\ndone()"),
        act(db),
    )
    dies = act(db, "sum(i * i for i in range(3000000))\nos._exit(1)", max_attempts=1)
    noop = db.defer("noop")
    drain(db)
    used = dict(db.sql("select job_id, user_us + sys_us from deferred.__deferred_log"))
    assert used[works] > 50000 and used[dies] > 50000
    assert used[idle] < 50000 and used[again] < 50000 and used[noop] < 50000
    assert db.one("select min(max_rss_kb) > 4096 from deferred.__deferred_log where job_id = %s", idle)


def test_cpu_limit_holds_for_each_job(db):
    db.config(ONE + "cpu_limit = 1s\n" + program(db))
    burn = "t = time.process_time()\nwhile time.process_time() < t + %s: pass\ndone(body=str(os.getpid()))"
    *jobs, over = in_turn(db, *[lambda: act(db, burn % 0.6)] * 4, lambda: act(db, burn % 60, max_attempts=1))
    assert len(set(ran(db, jobs))) == 1
    ((outcome, error, _),) = ended(db, over)
    assert outcome == "crashed" and error.startswith("killed by signal 24")


if not harness.SAN:  # the sanitizer has an address space of its own

    def test_the_memory_limit_is_named_where_it_may_have_ended_a_program(db):
        db.config(ONE + 'memory_limit = "1g"\n' + program(db))
        jobs = [
            act(db, do, max_attempts=1)
            for do in (
                "print('out of space', flush=True); os.kill(os.getpid(), signal.SIGTRAP)",
                "sys.stderr.write('no line end'); sys.stderr.flush(); os.abort()",
                "os.kill(os.getpid(), 9)",
                "grown = b'1' * (2 << 30)",
            )
        ]
        drain(db)
        limit = (
            "memory_limit allows it 1048576 KiB of address space\n"
            "hint: raise memory_limit if that is too little; Node.js needs 768m to start"
        )
        errors = [ended(db, job)[0][1] for job in jobs]
        assert errors[0] == f"killed by signal 5 (Trace/breakpoint trap)\nout of space\n{limit}"
        assert errors[1] == f"killed by signal 6 (Aborted)\nno line end\n{limit}"
        assert errors[2] == "killed by signal 9 (Killed)"
        assert errors[3].startswith("the function ended its process with status 1\n") and "MemoryError" in errors[3]
        db.config(ONE + 'memory_limit = "1g"\n' + program(db, before="os.abort()"))
        job = act(db)
        drain(db)
        assert ended(db, job)[0][1] == f"program 'shop' ended before it was ready (signal 6)\n{limit}"


def test_deferred_run_runs_a_function_of_a_program(db):
    db.config(program(db, declared=False) + program(db, name="till", functions=("pay",)))
    do = json.dumps({"do": "print('hello', flush=True)\ndone(body='there')"})
    for fn in ("act", "pay"):
        done = db.run(["deferred", "run", fn, do])
        assert done.returncode == 0 and done.stdout == "there\n" and "hello" in done.stderr, done.stderr
    done = db.run(["deferred", "run", "act", '{"do": "done(\'dead\', \'no\')"}'])
    assert done.returncode != 0 and "no" in done.stderr
    assert not pids(db) and not pids(db, "till")


def test_deferred_run_points_to_a_program_that_did_not_start(db):
    db.config(program(db, declared=False, before="sys.exit('no such module')"))
    done = db.run(["deferred", "run", "act"])
    assert done.returncode == 69
    *before, error, hint = done.stderr.splitlines()
    assert "\n".join(before).count("no such module") == 1
    assert re.search("functions of program 'shop' are not offered: .*exit status 1.$", before[-1]), before
    assert error.startswith("deferred: function 'act' is not in ")
    assert hint.endswith("; a warning above names each program that did not start")


@pytest.mark.parametrize("level", ["info", "warning"])
def test_the_log_has_the_output_of_a_failed_start_once(db, level):
    """The warning contains it where the level hides the lines of programs."""
    db.config(program(db, declared=False, before="sys.exit('no such module')"))
    act(db)
    said = drain(db, "--log-level", level)
    assert said.count("no such module") == 1, said
    warned = "no such module" in re.search("program 'shop' are not offered: (.*)", said)[1]
    assert warned == (level == "warning"), said


def test_a_new_version_of_an_announced_program_is_recorded(db):
    flag = db.dir + "/new"
    before = f"if os.path.exists({flag!r}): VERSION = '2.0'; FUNCTIONS.append('more')"
    db.config(ONE + program(db, declared=False, before=before, watch='{"%s"}' % flag))
    run = db.spawn(["check_deferred", "--loop", "--listen"])
    first = act(db)
    wait_for(lambda: db.log(first), 30)
    open(flag, "w").close()

    def renewed():
        job = act(db)
        wait_for(lambda: db.log(job), 30)
        return db.one("select plugin from deferred.__deferred_log where job_id = %s", job) == "shop 2.0"

    wait_for(renewed, 30)
    job = act(db, fn="more")
    wait_for(lambda: db.log(job) == [(1, "ok")], 30)
    run.signal(signal.SIGTERM)
    run.wait(30)
    ledger(db)
