"""The functions that tests/programs/README.md lists."""

import atexit
import os
import subprocess
import sys
import time

import deferred

__version__ = "1.2-test"
if "NOISE" in os.environ:
    print("text before the first message")

hooks = {"before": 0, "after": 0}


@deferred.before_job
def count_before(job):
    hooks["before"] += 1


@deferred.after_job
def count_after(job):
    hooks["after"] += 1


def define(run):
    """A function with the limits that the list names."""
    return deferred.function(run.__name__, timeout="10s", max_attempts=5)(run)


@define
def echo(params, job):
    return params


@define
def fail(params, job):
    raise ValueError(params["error"])


@deferred.function(timeout="1500ms", max_attempts=7)
def later(params, job):
    raise deferred.Later(params["span"])


@define
def snooze(params, job):
    raise deferred.Snooze(params["span"])


@define
def dead(params, job):
    raise deferred.Dead(params["error"])


@define
def cancel(params, job):
    raise deferred.Cancel(params["error"])


@define
def unready(params, job):
    raise deferred.Unready(params["error"])


@define
def nothing(params, job):
    return None


@define
def text(params, job):
    return params["text"]


@deferred.function("bytes", timeout="10s", max_attempts=5)
def invalid(params, job):
    return b"a\xffb"


@define
def big(params, job):
    return "x" * params["bytes"]


@define
def strange(params, job):
    return strange


@define
def length(params, job):
    return {"characters": len(params["text"])}


def seconds(moment):
    return moment and int(moment.timestamp())


@define
def members(params, job):
    texts = {name: str(getattr(job, name)) for name in ("id", "fn", "attempt", "label", "receipt", "traceparent")}
    return {**texts, **{name: seconds(getattr(job, name)) for name in ("created", "tick", "previous_tick")}}


@define
def left(params, job):
    return {"ms": None if job.left() is None else int(job.left() * 1000)}


@define
def parents(params, job):
    return job.parents


@define
def progress(params, job):
    job.progress(params["done"], params["total"], params["text"])


@define
def log(params, job):
    job.log(params["text"], params["level"])


@define
def defer(params, job):
    job.defer(params["fn"], params["params"], params.get("options"))


@define
def step(params, job):
    ran = []

    def work():
        ran.append(1)
        return params["value"]

    value = job.step(params["name"], work)
    return {"value": value, "ran": len(ran), "steps": job.steps}


@define
def save(params, job):
    for value in params["values"]:
        job.save_step(params["name"], value)
    return job.steps


@define
def setting(params, job):
    return {"value": job.setting(params["name"])}


@deferred.function("print", timeout="10s", max_attempts=5)
def print_both(params, job):
    sys.stdout.write(params["text"])
    sys.stderr.write(params["error"])


@define
def stop_asked(params, job):
    while not job.stop_asked():
        time.sleep(0.01)
    return "asked"


@define
def sleep(params, job):
    try:
        job.progress(0, 1, "begun")
        time.sleep(params["ms"] / 1000)
    except deferred.Stop:
        return "stopped"
    return "slept"


@define
def stopped(params, job):
    time.sleep(params["ms"] / 1000)
    return "slept"


@define
def last(params, job):
    job.last()
    return "last"


@define
def children(params, job):
    links = ["readlink", "/proc/self/fd/3", "/proc/self/fd/4"]
    return subprocess.run(links, stdout=subprocess.PIPE, text=True, close_fds=False).stdout


@define
def left_behind(params, job):
    return str(subprocess.Popen(["sleep", "60"], close_fds=False).pid)


@deferred.function("hooks", timeout="10s", max_attempts=5)
def report_hooks(params, job):
    return hooks


@define
def at_exit(params, job):
    def bye():
        with open(params["path"], "w") as f:
            f.write("bye")

    atexit.register(bye)


@deferred.function(timeout="10s", max_attempts=5, batch=3, batch_wait="200ms")
def many(jobs):
    words = [job.params["do"] for job in jobs]
    if "raise" in words:
        raise ValueError(jobs[words.index("raise")].params["error"])
    if "null" in words:
        return None
    return [entry(job) for job in jobs] + ["too many"] * words.count("long")


def entry(job):
    params, do = job.params, job.params["do"]
    if do == "progress":
        job.progress(1, 2, params["text"])
    while do == "stop_asked" and not job.stop_asked():
        time.sleep(0.01)
    if do in ("step", "try"):
        try:
            return [job.step("one", lambda: params["value"])]
        except deferred.Gone as gone:
            if do == "try":
                return gone
            raise
    return {
        "text": params.get("text"),
        "params": params,
        "dead": deferred.Dead(params.get("error", "")),
        "snooze": deferred.Snooze(params.get("span")),
        "fail": ValueError(params.get("error")),
        "strange": many,
        "stop_asked": "asked",
    }.get(do)
