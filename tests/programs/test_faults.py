"""Programs that crash, lie, hang, flood or leave something behind: how the attempt and the next job end."""

import json
import os
import re
import signal

import pytest

import pg
from conversation import HELPER, act, drain, ended, in_turn, pid_of, pids, program
from harness import ledger, wait_for

LIMITS = "runners = 1\ninterval_floor = 50ms\ninterval_ceiling = 200ms\nkill_after = 700ms\ngrace = 300ms\n"

# What a job does; outcome and error of its attempt.
REPLACED = {
    "signal": (
        "print('out of paper', flush=True); os.kill(os.getpid(), 9)",
        "crashed",
        r"killed by signal 9 \(Killed\)\nout of paper",
    ),
    "exit": (
        "print('no toner', flush=True); os._exit(3)",
        "failed",
        r"the function ended its process with status 3\nno toner",
    ),
    "exit, with a child that holds the pipes": (
        "if os.fork() == 0:\n os.setsid()\n time.sleep(60)\nos._exit(3)",
        "failed",
        "the function ended its process with status 3",
    ),
    "exit without an answer": ("os._exit(0)", "failed", "the function ended its process with status 0"),
    "garbage": (
        "answers.write(b'Hello\\x01\\n' * 3)",
        "failed",
        r"program 'shop' broke the protocol, and is replaced: it is not JSON: 'Hello\?'",
    ),
    "garbage without an end": (
        "answers.write(b'Hello'); time.sleep(60)",
        "failed",
        "program 'shop' broke the protocol, and is replaced: it is not JSON: 'Hello'",
    ),
    "garbage that is long": (
        "answers.write(b'x' * 100); time.sleep(60)",
        "failed",
        f"program 'shop' broke the protocol, and is replaced: it is not JSON: '{'x' * 64}'",
    ),
    "head too long": (
        "answers.write(b'{' + b'x' * 20000)",
        "failed",
        f".*: its head is longer than 16 KiB: '.{'x' * 63}'",
    ),
    "unknown type": ("send({'type': 'dance', 'job': head['job']})", "failed", ".*: its type is unknown: '.*dance.*'"),
    "untimely type": ("ready()", "failed", ".*: it had said before that it is ready: '.*ready.*"),
    "unknown outcome": ("done('fine')", "failed", ".*: its outcome is unknown: '.*"),
    "body too large": (
        "send({'type': 'done', 'job': head['job'], 'outcome': 'ok'}, b'x' * ((16 << 20) + 1))",
        "failed",
        ".*: its body is larger than 16 MiB: '.*",
    ),
    "another job": (
        "send({'type': 'done', 'job': '987654321', 'outcome': 'ok'})",
        "failed",
        ".*: it names another job than its own: '.*987654321.*",
    ),
    "closed": (
        "answers.close(); time.sleep(60)",
        "failed",
        "program 'shop' broke the protocol, and is replaced: it closed descriptor 4",
    ),
    "second step": (
        "m = json.dumps({'type': 'step', 'job': head['job'], 'name': 'a', 'bytes': 1}).encode() + b'\\n1'\n"
        "answers.write(m + m)\ntime.sleep(60)",
        "failed",
        ".*: it sent a step before the answer to the last one.*",
    ),
    "deaf": ("time.sleep(60)", "timeout", "time limit of 3000 ms exceeded"),
    "deaf and talkative": (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('at work', flush=True)\nwhile True:\n send({'type': "
        "'progress', 'job': head['job'], 'done': 1})",
        "timeout",
        r"time limit of 3000 ms exceeded\nat work",
    ),
}


def attempt(db, job):
    """Its only one."""
    ((outcome, error, number),) = ended(db, job)
    assert number == 1
    return outcome, error


def around(db, do, params=None, **settings):
    """Has a job run between two others. Returns it, and whether the others ran in the same process."""
    before, job, after = in_turn(
        db,
        lambda: act(db),
        lambda: act(db, do, max_attempts=1) if params is None else db.defer("act", params, max_attempts=1),
        lambda: act(db),
    )
    first, second = pid_of(db, before), pid_of(db, after)
    wait_for(lambda: not pids(db), 20, "the end of all processes of the program")
    ledger(db)
    return job, first == second


@pytest.mark.parametrize("case", REPLACED)
def test_a_program_that_breaks_its_word_costs_its_own_job_and_is_replaced(db, case):
    do, outcome, error = REPLACED[case]
    db.config(LIMITS + program(db, timeout="3s" if outcome == "timeout" else "30s"))
    job, same = around(db, do)
    found, text = attempt(db, job)
    assert found == outcome and re.fullmatch(error, text), (found, text)
    assert not same


def test_a_program_that_does_not_read_its_params_runs_into_its_time_limit(db):
    text = HELPER.replace("    body = take(", "    if head.get('bytes', 0) > 100000: time.sleep(60)\n    body = take(")
    db.config(LIMITS + program(db, text=text, timeout="1s"))
    job, same = around(db, None, params='{"large": "%s"}' % ("x" * 1000000))
    assert attempt(db, job) == ("timeout", "time limit of 1000 ms exceeded") and not same


def test_an_answer_before_all_params_were_read_counts_and_the_program_is_replaced(db):
    text = HELPER.replace(
        "    body = take(", "    if head.get('bytes', 0) > 100000: done(body='seen enough')\n    body = take("
    )
    db.config(LIMITS + program(db, text=text))
    job, same = around(db, None, params='{"large": "%s"}' % ("x" * 1000000))
    assert db.log(job) == [(1, "ok")] and not same


STEP = "def step(name, value):\n send({'type': 'step', 'job': head['job'], 'name': name}, value)\n"

STAYS = {
    "printed": ("print('{\"type\":\"done\"}', flush=True)\ndone()", "ok", ""),
    "printed to stderr": ("sys.stderr.write('no line end')\ndone()", "ok", ""),
    "unknown members": (
        "send({'type': 'progress', 'job': head['job'], 'future': 'x', 'n': -5})\ndone(future='y')",
        "ok",
        "",
    ),
    "step": (STEP + "step('a', b'[1]')\nassert line()['outcome'] == 'saved'\ndone()", "ok", ""),
    "step without waiting": (STEP + "step('a', b'1')\ndone()", "ok", ""),
    "step refused": (
        STEP + "said = []\nfor n, v in [('', b'1'), ('a b', b'1'), ('a', b'{'), ('a', b''), ('a', b'1\\0'), "
        "('a', b' ' * 65536 + b'1'), ('a', b'\\xff')]:\n step(n, v)\n said.append(line()['outcome'])\n"
        "done('failed', ' '.join(said))",
        "failed",
        "invalid invalid invalid invalid invalid invalid invalid",
    ),
    "child": ("if os.fork() == 0:\n time.sleep(60)\ndone()", "ok", ""),
    "exception of its own": ("done('failed', 'KeyError: 1')", "failed", "KeyError: 1"),
    "answer within kill_after": (
        "signal.signal(signal.SIGTERM, lambda *a: None)\ntime.sleep(1.2)\ndone('failed', 'stopped half way')",
        "timeout",
        "time limit of 1000 ms exceeded\nstopped half way",
    ),
    "success within kill_after": (
        "signal.signal(signal.SIGTERM, lambda *a: None)\ntime.sleep(1.2)\ndone()",
        "timeout",
        "time limit of 1000 ms exceeded",
    ),
}


@pytest.mark.parametrize("case", STAYS)
def test_a_program_stays_when_its_job_alone_fails(db, case):
    do, outcome, error = STAYS[case]
    db.config(LIMITS + program(db, timeout="1s" if outcome == "timeout" else "30s"))
    job, same = around(db, do)
    assert attempt(db, job) == (outcome, error)
    assert same


# What a job sends with `done`; its outcome, and the state of a job that may have one attempt, and of one with three.
OUTCOMES = {
    "later": ("done('later', 'busy', after_ms=3600000)", "failed", "dead", "delayed"),
    "snooze": ("done('snooze', after_ms=3600000)", "snoozed", "delayed", "delayed"),
    "dead": ("done('dead', 'no')", "failed", "dead", "dead"),
    "cancel": ("done('cancel', 'not needed')", "cancelled", "cancelled", "cancelled"),
    "unready": ("done('unready', 'no key')", "failed", "delayed", "delayed"),
}


@pytest.mark.parametrize("case", OUTCOMES)
def test_each_outcome_has_its_effect_on_the_job(db, case):
    do, outcome, *states = OUTCOMES[case]
    db.config(LIMITS + program(db))
    jobs = [act(db, do, max_attempts=n) for n in (1, 3)]
    drain(db)
    assert [[row[0] for row in ended(db, job)] for job in jobs] == [[outcome]] * 2
    state = "select state, visible_at - now() > interval '59 min' from deferred.job where id = %s"
    found = [db.sql(state, job)[0] for job in jobs]
    assert [row[0] for row in found] == states
    assert all(later for state, later in found if state == "delayed") or "after_ms" not in do
    ledger(db)


def test_a_result_is_cut_at_8_kib_and_made_valid_utf8(db):
    db.config(LIMITS + program(db))
    send = "send({'type': 'done', 'job': head['job'], 'outcome': 'ok'}, %s)"
    large, strange = act(db, send % "b'x' * (16 << 20)"), act(db, send % "b'a\\xffb\\0c'")
    drain(db)
    result = "select result from deferred.__deferred_log where outcome = 'ok' and job_id = %s"
    assert re.fullmatch(r"x{8000,}.*", text := db.one(result, large)) and len(text) <= 8192
    text = db.one(result, strange)
    assert text[0] == "a" and "b" in text and text[-1] == "c" and "\0" not in text


def test_log_messages_have_their_level_and_job(db):
    db.config("log_level = debug\n" + LIMITS + program(db))
    job = act(
        db,
        "for level in (1, 2, 3, 4, 9):\n"
        " send({'type': 'log', 'job': head['job'], 'level': level}, f'of level {level}'.encode())\n"
        "done()",
    )
    said = drain(db)
    for level, name in ((1, "error"), (2, "warning"), (3, "info"), (4, "debug"), (9, "info")):
        assert re.search(rf"{name}: job {job} act: of level {level}\n", said), said


def test_what_a_program_prints_is_logged_for_the_job_that_printed_it(db):
    db.config(LIMITS + program(db))
    jobs = [
        act(db, f"print('line {n}'); sys.stdout.flush(); sys.stderr.write('end {n}'); sys.stderr.flush(); done()")
        for n in range(20)
    ]
    said = drain(db)
    for n, job in enumerate(jobs):
        assert f"job {job} act: line {n}\n" in said and f"job {job} act: end {n}\n" in said, said


def test_the_error_of_a_job_does_not_show_what_an_earlier_job_printed(db):
    db.config(LIMITS + program(db))
    _, dies = in_turn(
        db,
        lambda: act(db, "print('of the first', flush=True); done()"),
        lambda: act(db, "print('of the second', flush=True); os._exit(1)", max_attempts=1),
    )
    assert attempt(db, dies) == ("failed", "the function ended its process with status 1\nof the second")


@pytest.mark.parametrize("between", ["send({'type': 'log', 'job': head['job'], 'level': 3})", "os._exit(4)"])
def test_what_a_program_does_between_jobs_costs_no_job(db, between):
    db.config(LIMITS + program(db, text=HELPER + f"    if 'between' in params: {between}\n"))
    first, second = db.defer("act", '{"between": 1}'), act(db)
    said = drain(db)
    assert db.log(first) == [(1, "ok")] and db.log(second) == [(1, "ok")]
    assert pid_of(db, first) != pid_of(db, second) or "between jobs" in said
    assert "between jobs" in said


def test_a_missing_function_is_not_ready_and_costs_no_attempt(db):
    db.config(LIMITS + program(db, functions=("act", "gone"), text=HELPER.replace("ready(*FUNCTIONS)", "ready('act')")))
    job, other = db.defer("gone", max_attempts=1), act(db)
    drain(db)
    assert db.log(other) == [(1, "ok")]
    row = db.sql("select outcome, error from deferred.__deferred_log where job_id = %s", job)
    assert row[0][1] == "program 'shop' does not have function 'gone'"
    assert db.one("select state from deferred.job where id = %s", job) not in ("dead", "done")


FAILED_STARTS = {
    "missing": (None, "ended before it was ready (exit status 127)\ncannot execute '/nonexistent/shop': No such file"),
    "exits": (
        "print('ModuleNotFoundError: shop', flush=True); sys.exit(1)",
        "(exit status 1)\nModuleNotFoundError: shop",
    ),
    "signal": ("os.kill(os.getpid(), 11)", "ended before it was ready (signal 11)"),
    "hangs": ("print('connecting', flush=True); time.sleep(60)", "was not ready within 2000 ms\nconnecting"),
    "protocol": ("send({'type': 'ready', 'protocol': 2})", "it speaks another version of the protocol than 1"),
    "untimely": ("send({'type': 'progress'})", "its first messages are not 'function' and 'ready'"),
    "garbage": ("answers.write(b'hello')", "it is not JSON: 'hello"),
    "name": ("ready('no-name')", "it announces a function whose name is not valid"),
    "many": ("ready(*(f'f{i}' for i in range(1001)))", "it announces more than 1000 functions"),
}


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("case", FAILED_STARTS)
def test_a_program_that_does_not_become_ready_costs_no_attempt(db, case, declared):
    before, error = FAILED_STARTS[case]
    text = program(db, before=before or "", declared=declared, start_timeout="2s" if case == "hangs" else "30s")
    if before is None:
        text = text.replace(db.dir + "/shop", "/nonexistent/shop")
    db.config(LIMITS + text)
    job, other = act(db, max_attempts=1), db.defer("noop")
    said = drain(db)
    assert db.log(other) == [(1, "ok")]
    if declared:
        assert error in db.sql("select error from deferred.__deferred_log where job_id = %s", job)[0][0]
    else:
        assert "functions of program 'shop' are not offered: program 'shop' " in said and error.split("\n")[0] in said
    assert db.one("select state from deferred.job where id = %s", job) not in ("dead", "done")
    assert not pids(db)


def test_a_setting_that_fits_in_no_head_costs_no_attempt(db):
    db.config(LIMITS + program(db) + f'settings "shop" {{ large = "{"x" * 17000}" }}\n')
    job = act(db, max_attempts=1)
    drain(db)
    error = "program 'shop' cannot be given setting 'settings.shop.large', which is longer than 16 KiB"
    assert ended(db, job)[0][1] == error
    assert db.one("select state from deferred.job where id = %s", job) not in ("dead", "done")


def test_a_cancelled_job_is_asked_to_end_and_the_program_stays(db):
    db.config(LIMITS + program(db))
    do = (
        "def asked(*a): raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGTERM, asked)\n"
        "try:\n print('began', flush=True)\n time.sleep(60)\n"
        "except KeyboardInterrupt:\n stop = line()\n done('failed', stop['why'])\n"
    )
    job = act(db, do)
    run = db.spawn(["check_deferred", "--cnt", "0", "--lease", "4s"])
    wait_for(lambda: "began" in run.output(), 30)
    (pid,) = pids(db)
    after = act(db)
    db.sql("select deferred.cancel(%s)", job)
    assert run.wait(60) == 0
    assert pid_of(db, after) == pid, run.output()
    assert db.one("select state from deferred.job where id = %s", job) == "cancelled"
    ledger(db)


def test_a_cancelled_job_that_goes_on_is_ended_with_its_runner(db):
    db.config(LIMITS + program(db))
    job = act(db, "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('began', flush=True)\ntime.sleep(60)")
    run = db.spawn(["check_deferred", "--cnt", "0", "--lease", "4s"])
    wait_for(lambda: "began" in run.output(), 30)
    (pid,) = pids(db)
    after = act(db)
    db.sql("select deferred.cancel(%s)", job)
    assert run.wait(60) == 0
    assert pid_of(db, after) != pid and not pids(db)
    assert db.one("select state from deferred.job where id = %s", job) == "cancelled"


def test_a_job_is_interrupted_when_the_worker_stops_and_the_attempt_does_not_count(db):
    db.config(LIMITS + program(db))
    job = act(db, "print('began', flush=True)\nprint(line()['why'], flush=True)\ntime.sleep(60)", max_attempts=1)
    run = db.spawn(["check_deferred", "--cnt", "0", "--lease", "4s"])
    wait_for(lambda: "began" in run.output(), 30)
    waits = act(db)
    run.signal(signal.SIGTERM)
    run.wait(60)
    assert f"job {job} act: stopping" in run.output()
    wait_for(lambda: not pids(db), 20)
    assert [row[0] for row in ended(db, job)] in (["interrupted"], [])
    assert db.log(waits) == []
    db.sql("select deferred.cancel(%s)", job)
    drain(db)
    assert db.log(waits) == [(1, "ok")]


def test_the_program_dies_with_its_runner(db):
    db.config(LIMITS + program(db))
    job = act(db, "print('began', flush=True)\ntime.sleep(60)", max_attempts=1)
    run = db.spawn(["check_deferred", "--cnt", "0", "--lease", "4s"])
    wait_for(lambda: "began" in run.output(), 30)
    (pid,) = pids(db)
    (runner,) = pg.children_of(run.pid)
    waits = act(db)
    os.kill(runner, signal.SIGKILL)
    assert run.wait(60) == 0
    assert [row[0] for row in ended(db, job)] == ["crashed"] and db.log(waits) == [(1, "ok")]
    assert pid_of(db, waits) != pid and not pids(db)


def test_the_time_limit_of_one_program_leaves_the_others_alone(db):
    db.config(LIMITS + program(db, timeout="1s") + program(db, name="till", functions=("pay",)))
    before, slow = act(db, fn="pay"), act(db, "time.sleep(60)", max_attempts=1)
    after = act(db, fn="pay")
    drain(db)
    assert [row[0] for row in ended(db, slow)] == ["timeout"]
    assert pid_of(db, before) == pid_of(db, after)


def test_the_worker_ends_a_runner_that_keeps_no_time_limit(db):
    db.config(LIMITS + program(db, timeout="1s"))
    job = act(db, "print('began', flush=True)\ntime.sleep(60)", max_attempts=1)
    run = db.spawn(["check_deferred", "--cnt", "0", "--lease", "4s"])
    wait_for(lambda: "began" in run.output(), 30)
    (runner,) = pg.children_of(run.pid)
    waits = act(db)
    os.kill(runner, signal.SIGSTOP)
    assert run.wait(60) == 0
    assert ended(db, job)[0][:2] == ("timeout", "time limit of 1000 ms exceeded")
    assert db.log(waits) == [(1, "ok")] and not pids(db)


def test_a_deferred_job_is_stored_with_the_success_and_a_refused_one_fails_the_attempt(db):
    db.config(LIMITS + program(db))
    defer = "send({'type': 'defer', 'job': head['job'], 'fn': FN, 'params': len(p)}, p + o)\ndone()"
    good = act(db, "p, o = b'{\"a\": 1}', b'{\"label\": \"hi\"}'\n" + defer.replace("FN", "'noop'"))
    plain = act(db, "p, o = b'', b''\n" + defer.replace("FN", "'noop'"))
    bad = [
        act(db, f"p, o = {p}, {o}\n" + defer.replace("FN", fn), max_attempts=1)
        for p, o, fn in (("b'{'", "b''", "'noop'"), ("b'{}'", "b'[]'", "'noop'"), ("b'{}'", "b''", "'no-op'"))
    ]
    failed = act(db, "p, o = b'{}', b''\n" + defer.replace("FN", "'noop'").replace("done()", "done('dead', 'no')"))
    drain(db)
    assert db.log(good) == [(1, "ok")] and db.log(plain) == [(1, "ok")]
    assert sorted(db.sql("select params::text, label from deferred.__deferred where fn = 'noop'")) == [
        ('{"a": 1}', "hi"),
        ("{}", None),
    ]
    for job in bad:
        outcome, error = attempt(db, job)
        assert outcome == "failed" and re.match("the job 'no-?op' that it deferred was refused: ", error), error
    assert attempt(db, failed) == ("failed", "no")


def test_the_next_attempt_gets_the_steps_behind_the_parents(db):
    db.config(LIMITS + 'backoff_floor = "1ms"\n' + program(db))
    parent = db.defer("noop")
    job = act(
        db,
        STEP + "if head['attempt'] == 1:\n step('a', b'{\"x\": [1]}')\n line()\n step('b', b'2')\n line()\n"
        " done('failed', 'later')\nelse:\n rest = body[head['params'] + head['parents']:]\n"
        " done(body=rest.decode() + str(len(rest) == head['steps']))",
        after=parent,
    )
    while db.hot():
        drain(db)
    assert [row[0] for row in ended(db, job)] == ["failed", "ok"]
    result = db.one("select result from deferred.__deferred_log where job_id = %s and final", job)
    assert result.endswith("True") and json.loads(result[:-4]) == {"a": {"x": [1]}, "b": 2}
    assert db.sql("select from deferred.__deferred_step") == []
    ledger(db)


def test_a_step_that_came_with_the_end_of_its_attempt_is_stored(db):
    """The worker is stopped while the program sends them, and so finds both."""
    db.config(LIMITS + 'backoff_floor = "1ms"\n' + program(db))
    os.mkfifo(f"{db.dir}/go")
    job = act(
        db,
        STEP + "if head['attempt'] == 1:\n print('began', flush=True)\n"
        f" open('{db.dir}/go').read()\n step('a', b'1')\n done('failed', 'no')\n sys.exit()\n"
        "done(body=body[head['params']:].decode())",
    )
    run = db.spawn(["check_deferred", "--cnt", "0"])
    wait_for(lambda: "began" in run.output(), 30)
    (pid,) = pids(db)
    run.signal(signal.SIGSTOP)
    with open(f"{db.dir}/go", "w"):
        pass
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), 30, "its runner has read all that it sent")
    run.signal(signal.SIGCONT)
    assert run.wait(60) == 0
    while db.hot():
        drain(db)
    assert [row[0] for row in ended(db, job)] == ["failed", "ok"]
    assert json.loads(db.one("select result from deferred.__deferred_log where final")) == {"a": 1}
    ledger(db)


@pytest.mark.parametrize("declared", [True, False])
def test_an_attempt_that_moved_on_does_not_count_for_a_function_that_says_so(db, declared):
    text = HELPER if declared else HELPER.replace('"name": name}', '"name": name, "progress_resets": 1}')
    sections = program(db, text=text, declared=declared)
    if declared:
        sections = sections.replace('{ program = "shop" }', '{ program = "shop"  progress_resets = 1 }')
    db.config(LIMITS + 'backoff_floor = "1ms"\n' + sections)
    job = act(
        db,
        STEP + "if head['attempt'] < 3: step('s%d' % head['attempt'], b'1'); line()\ndone('failed', 'no')",
        max_attempts=1,
    )
    while db.hot():
        drain(db)
    assert db.sql("select attempt, final from deferred.__deferred_log where job_id = %s order by 1", job) == [
        (1, False),
        (2, False),
        (3, True),
    ]
    ledger(db)
