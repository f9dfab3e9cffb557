"""A program that speaks the protocol of deferred_program(7) without a library. It does what its jobs say."""

import json
import os
import signal

from harness import wait_for

HELPER = '''#!/usr/bin/python3
import ctypes, json, os, signal, sys, time

calls, answers, left, jobs = open(3, "rb", 0), open(4, "wb", 0), {}, 0


def send(head, body=b""):
    answers.write(json.dumps({**head, "bytes": len(body)}).encode() + b"\\n" + body)


def take(n):
    body = b""
    while len(body) < n:
        body += calls.read(n - len(body))
    return body


def line():
    text = b""
    while not text.endswith(b"\\n"):
        byte = calls.read(1)
        if not byte:
            sys.exit(0)
        text += byte
    return json.loads(text)


def done(outcome="ok", body="", **more):
    send({"type": "done", "job": head["job"], "outcome": outcome, **more}, body.encode())


def ready(*names):
    for name in names:
        send({"type": "function", "name": name})
    send({"type": "ready", "protocol": 1, "version": VERSION})


VERSION, FUNCTIONS = "1.4", FUNCTIONS_HERE
BEFORE_HERE
ready(*FUNCTIONS)
settings = {}
while True:
    head = line()
    body = take(head.get("bytes", 0))
    if head["type"] == "setting":
        settings[head["name"]] = head["value"]
    if head["type"] != "call":
        continue
    jobs += 1
    params = json.loads(body[: head["params"]])
    did = exec(params.get("do", "done(body=str(os.getpid()))"), globals())
'''


def program(db, name="shop", functions=("act",), before="", declared=True, text=HELPER, **settings):
    """The sections of a config file: a program, and its functions unless it announces them."""
    path = os.path.join(db.dir, name)
    with open(path, "w") as f:
        f.write(text.replace("FUNCTIONS_HERE", repr(list(functions))).replace("BEFORE_HERE", before))
    os.chmod(path, 0o755)
    return section(name, path, functions if declared else (), **settings)


def section(name, path, functions=(), **settings):
    lines = "".join(
        f"\t{key} = {value if str(value).startswith('{') else chr(34) + str(value) + chr(34)}\n"
        for key, value in settings.items()
    )
    declared = "".join(f'function "{fn}" {{ program = "{name}" }}\n' for fn in functions)
    return f'program "{name}" {{\n\tcommand = {{"{path}"}}\n{lines}}}\n{declared}'


def act(db, do=None, fn="act", **opts):
    """A job of which the program does this."""
    return db.defer(fn, json.dumps({"do": do} if do else {}), **opts)


def drain(db, *args, **kw):
    done = db.run(["check_deferred", "--cnt", "0", *args], **kw)
    assert done.returncode == 0, done.stderr
    return done.stderr


def in_turn(db, *jobs):
    """Have a service run these jobs, each deferred by a call when the one before has ended."""
    run, ids = db.spawn(["check_deferred", "--loop", "--listen"]), []
    for defer in jobs:
        ids.append(defer())
        wait_for(lambda: db.log(ids[-1]), 60)
    run.signal(signal.SIGTERM)
    assert run.wait(60) == 0
    return ids


def ended(db, job):
    """Outcome, error and number of each of its attempts, in order."""
    return db.sql(
        "select outcome, coalesce(error, ''), attempt from deferred.__deferred_log"
        " where job_id = %s order by finished_at",
        job,
    )


def pid_of(db, job):
    """The process that ran a job without instructions."""
    return int(db.one("select result from deferred.__deferred_log where job_id = %s and outcome = 'ok'", job))


def pids(db, name="shop"):
    """Processes of a program that live."""
    path, found = os.path.join(db.dir, name), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if path.encode() in words:
            found.append(int(pid))
    return found
