"""Programs whose functions take a batch: what they are sent, what their answers mean, and what ends all of them."""

import json
import os

import pytest

from conversation import HELPER, drain, ended, program
from harness import ledger, wait_for

LIMITS = "runners = 1\nwindow = 1\ninterval_floor = 50ms\ninterval_ceiling = 200ms\nkill_after = 700ms\ngrace = 300ms\n"

# It does what the first job of the batch says that says something, and answers each job otherwise.
TEXT = HELPER.replace(
    'send({"type": "function", "name": name})', 'send({"type": "function", "name": name, **ANNOUNCED})'
).replace(
    """    jobs += 1
    params = json.loads(body[: head["params"]])
    did = exec(params.get("do", "done(body=str(os.getpid()))"), globals())
""",
    """    batch = globals().get("batch", []) + [{**head, "given": json.loads(body[: head["params"]]),
        "steps": body[head["params"] + head["parents"] :].decode()}]
    if head.get("more"):
        continue
    with open(FILE, "a") as f:
        print(*(head["job"] for head in batch), file=f)
    batch.sort(key=lambda one: int(one["job"]))
    words, together = [one["given"]["do"] for one in batch if one["given"].get("do")], batch
    batch = []
    did = exec(words[0] if words else ALL, globals())
""",
)
ALL = "for head in together: done(body=head['job'])"


def prepared(db, declared=False, announced='{"batch": 5, "batch_wait_ms": 60000}', **settings):
    text = TEXT.replace("ANNOUNCED", announced).replace("FILE", repr(file_of(db)))
    text = text.replace("else ALL", "else " + repr(ALL))
    config = program(db, declared=declared, text=text, **settings)
    if declared:
        config = config.replace('{ program = "shop" }', '{ program = "shop" batch = 5 batch_wait = 1min }')
    db.config(LIMITS + config)
    return db


def file_of(db):
    return os.path.join(db.dir, "calls")


def calls(db):
    if not os.path.exists(file_of(db)):
        return []
    with open(file_of(db)) as f:
        return [sorted(map(int, line.split())) for line in f]


def defer(db, *do, **opts):
    return [db.defer("act", json.dumps({"do": word}), **opts) for word in do]


@pytest.mark.parametrize("declared", [False, True], ids=["announced", "declared"])
def test_a_program_gets_a_batch_and_each_job_its_outcome(db, declared):
    prepared(db, declared)
    jobs = defer(
        db,
        "for head, end in zip(reversed(together), ['ok', 'dead', 'failed', 'ok', 'cancel']):"
        " done(end, end + head['job'])",
        *[None] * 4,
    )
    drain(db)
    assert calls(db) == [jobs]
    rows = db.sql("select outcome, coalesce(error, result), plugin from deferred.__deferred_log order by job_id")
    name = "shop" if declared else "shop 1.4"
    assert rows == [
        ("cancelled", f"cancel{jobs[0]}", name),
        ("ok", f"ok{jobs[1]}", name),
        ("failed", f"failed{jobs[2]}", name),
        ("failed", f"dead{jobs[3]}", name),
        ("ok", f"ok{jobs[4]}", name),
    ]
    ledger(db)


def test_what_is_said_of_a_job_is_recorded_of_it(db):
    prepared(db)
    do = """for head in together:
    send({"type": "progress", "job": head["job"], "done": 3, "total": 5})
    send({"type": "log", "job": head["job"], "level": 2}, b"hears " + head["job"].encode())
send({"type": "defer", "job": together[1]["job"], "fn": "noop", "params": 2}, b"{}")
send({"type": "defer", "job": together[2]["job"], "fn": "no name", "params": 2}, b"{}")
for head in together: done(body=head["job"])
"""
    jobs = defer(db, do, *[None] * 4)
    log = drain(db)
    assert calls(db) == [jobs]
    assert all(f"job {job} act: hears {job}" in log for job in jobs)
    assert [ended(db, job)[0][0] for job in jobs] == ["ok", "ok", "failed", "ok", "ok"]
    assert "the job 'no name' that it deferred was refused" in ended(db, jobs[2])[0][1]
    assert db.sql("select count(*) from deferred.__deferred where fn = 'noop'") == [(1,)]
    ledger(db)


def test_the_steps_of_a_batch_outlive_its_program(db):
    prepared(db)
    do = """for head in together:
    send({"type": "step", "job": head["job"], "name": "one"}, head["job"].encode())
    assert line()["outcome"] == "saved"
if len(together) > 1: os._exit(3)
done(body=head["steps"])
"""
    jobs = defer(db, *[do] * 5)
    while db.hot():
        drain(db)
    assert calls(db)[0] == jobs and sorted(calls(db)[1:]) == [[job] for job in jobs]
    rows = db.sql("select result from deferred.__deferred_log where final order by job_id")
    assert [json.loads(result) for result, in rows] == [{"one": job} for job in jobs]
    ledger(db)


ENDS = {
    "signal": ("os.kill(os.getpid(), 9)", "killed by signal 9", "crashed"),
    "exit": ("os._exit(3)", "the function ended its process with status 3", "failed"),
    "garbage": ("answers.write(b'Hello\\n' * 3)", "program 'shop' broke the protocol", "failed"),
    "another job": (
        "send({'type': 'done', 'job': '987654321', 'outcome': 'ok'})",
        "program 'shop' broke the protocol, and is replaced: it names another job",
        "failed",
    ),
    "one job twice": (
        "for head in together[:1] * min(2, len(together)): done()",
        "program 'shop' broke the protocol, and is replaced: it names another job",
        "ok",
    ),
    "time limit": ("time.sleep(60)", "time limit of 3000 ms exceeded", "timeout"),
}


@pytest.mark.parametrize("case", ENDS)
def test_what_ends_the_process_of_a_batch_is_no_attempt_and_each_job_is_tried_alone(db, case):
    do, text, alone = ENDS[case]
    prepared(db)
    some = "for head in together[:-1] if len(together) > 1 else []: done()\n" if case != "one job twice" else ""
    limits = {"timeout": "3s"} if case == "time limit" else {}
    jobs = defer(db, None, some + do, None, None, None, max_attempts=2, **limits)
    drain(db)
    assert calls(db)[0] == jobs and sorted(calls(db)[1:]) == [[job] for job in jobs]
    for job in jobs:
        first, second = ended(db, job)
        assert first[0] == "interrupted" and first[1].startswith(f"in a batch of 5 jobs: {text}"), first
        assert second[0] == (alone if job == jobs[1] else "ok"), second
    assert db.sql("select 1 from deferred.__deferred_log where attempt = 1 and result is not null") == []
    ledger(db)


def test_a_program_hears_of_the_job_that_was_cancelled_and_gets_no_signal(db):
    prepared(db)
    do = """signal.signal(signal.SIGTERM, lambda *_: os._exit(9))
stop = line()
for head in together: done(body=json.dumps(stop) if head["job"] == stop.get("job") else "fine")
"""
    jobs = defer(db, do, *[None] * 4)
    run = db.spawn(["check_deferred", "--loop", "--listen"])
    wait_for(lambda: calls(db), 30, "the batch runs")
    assert db.run(["deferred", "cancel", jobs[2]]).returncode == 0
    wait_for(lambda: db.hot() == 0, 30)
    run.signal(15)
    assert run.wait(30) == 0, run.output()
    assert calls(db) == [jobs]
    assert [ended(db, job)[0][0] for job in jobs] == ["ok", "ok", "cancelled", "ok", "ok"]
    ledger(db)


def test_a_program_of_which_all_jobs_were_cancelled_gets_sigterm(db):
    prepared(db)
    do = """def end(*_):
    global head
    for head in together: done("failed", "terminated")
signal.signal(signal.SIGTERM, end)
signal.pause()
"""
    jobs = defer(db, do, *[None] * 4)
    run = db.spawn(["check_deferred", "--loop", "--listen"])
    wait_for(lambda: calls(db), 30, "the batch runs")
    assert db.run(["deferred", "cancel", *jobs]).returncode == 0
    other = db.defer("act")
    wait_for(lambda: db.hot() == 1, 30)
    run.signal(15)
    assert run.wait(30) == 0, run.output()
    assert {ended(db, job)[0][0] for job in jobs} == {"cancelled"}
    assert "does not leave" not in run.output() and db.log(other) == []
    ledger(db)


def test_a_function_that_takes_one_job_gets_no_batch(db):
    prepared(db, declared=True, announced="{}")
    jobs = defer(db, *[None] * 5)
    log = drain(db)
    assert calls(db) == []
    assert "function 'act' of program 'shop' takes one job at a time" in log
    assert {ended(db, job)[0][0] for job in jobs} == {"failed"} and db.hot() == 5
    assert db.one("select sum(attempt - coalesce(attempt_base, 0)) from deferred.__deferred_hot") == 0
    done = db.run(["deferred", "doctor"])
    assert "function 'act' of program 'shop' takes one job at a time" in done.stdout + done.stderr
    ledger(db)


@pytest.mark.parametrize("announced", ['{"batch": 129}', '{"batch": -1}', '{"batch": 5, "batch_wait_ms": 60001}'])
def test_a_program_that_announces_a_wrong_batch_is_not_ready(db, announced):
    prepared(db, announced=announced)
    defer(db, None)
    log = drain(db)
    assert "its batch is not 1 to 128, or its batch_wait_ms not 0 to 60000" in log
    assert calls(db) == [] and db.hot() == 1


def test_max_jobs_counts_the_jobs_of_batches(db):
    prepared(db, max_jobs="10")
    jobs = defer(db, *["for head in together: done(body=str(os.getpid()))"] * 20)
    drain(db)
    processes = [db.one("select result from deferred.__deferred_log where job_id = %s", job) for job in jobs]
    assert sorted(processes.count(process) for process in set(processes)) == [10, 10]
    ledger(db)
