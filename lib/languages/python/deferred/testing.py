"""Call functions in a test, without a worker and without a database.

    def test_resize():
        done = deferred.testing.call("resize", {"owner": "ann@example.org"}, attempt=2)
        assert done.outcome == "ok" and done.deferred[0].fn == "send_mail"
"""

import dataclasses
import json
import time
import types
from typing import Any, Dict, List, Mapping, Optional, Sequence

import deferred
from deferred import program


@dataclasses.dataclass
class Deferred:
    """The arguments of a call of Job.defer()."""

    fn: str
    params: Any
    options: Dict[str, Any]


@dataclasses.dataclass
class Done:
    """The end of a call. A worker would store `text`: the result, or the error if the outcome is not ok."""

    outcome: str = "ok"
    text: str = ""
    exception: Optional[BaseException] = None
    after_ms: Optional[int] = None
    last: bool = False
    deferred: List[Deferred] = dataclasses.field(default_factory=list)
    logged: List[str] = dataclasses.field(default_factory=list)
    progress: List[Dict[str, Any]] = dataclasses.field(default_factory=list)
    steps: Dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def data(self) -> Any:
        """The value of a result that was stored as JSON."""
        return json.loads(self.text) if self.text else None


def call(
    fn: str,
    params: Any = None,
    *,
    settings: Optional[Mapping[str, str]] = None,
    parents: Optional[Mapping[str, Any]] = None,
    steps: Optional[Mapping[str, Any]] = None,
    timeout: Optional[deferred.Span] = None,
    stop: bool = False,
    **members: Any,
) -> Done:
    """Call a function with its hooks. Params and result pass through JSON, as with a worker.

    steps    what earlier attempts have saved. The end has what this one saved
    timeout  the time limit; default: that of the function. It is visible to the function and not enforced
    stop     what Job.stop_asked() returns
    members  of the job, in the form of the protocol: job (its id), attempt, label, receipt, created_us, tick_us ...
    """
    known = {"settings": settings, "parents": parents, "steps": steps}
    return call_many(fn, [{} if params is None else params], timeout=timeout, stop=stop, **known, **members)[0]


def call_many(
    fn: str,
    params: Sequence[Any],
    *,
    settings: Optional[Mapping[str, str]] = None,
    parents: Optional[Mapping[str, Any]] = None,
    steps: Optional[Mapping[str, Any]] = None,
    timeout: Optional[deferred.Span] = None,
    stop: bool = False,
    **members: Any,
) -> List[Done]:
    """Call a function that takes a list of jobs, with the params of each. Their ids follow each other."""
    known = deferred.functions.get(fn)
    limit = deferred.milliseconds(timeout) if timeout is not None else known and known.timeout_ms
    dones = [Done() for _ in params]
    first = int(members.pop("job", 1))

    def send(job: deferred.Job, kind: str, head: Mapping[str, Any], body: bytes = b"") -> None:
        done = dones[job.id - first]
        if kind == "log":
            done.logged.append(body.decode())
        elif kind == "progress":
            done.progress.append(dict(head))
        else:
            given, options = body[: head["params"]], body[head["params"] :]
            done.deferred.append(Deferred(head["fn"], json.loads(given), json.loads(options or b"{}")))

    def save_step(job: deferred.Job, name: str, value: bytes) -> str:
        dones[job.id - first].steps[name] = json.loads(value)
        return "saved"

    methods = {"send": send, "save_step": save_step, "stop_asked": lambda _: stop}
    host = types.SimpleNamespace(settings=settings or {}, **methods)
    head = {"fn": fn, "created_us": int(time.time() * 1e6), "timeout_ms": limit, **members}
    behind = deferred.encode(parents), deferred.encode(steps)
    jobs = [
        deferred.Job(host, {**head, "job": first + i}, bytearray(json.dumps(one), "ascii"), *behind)
        for i, one in enumerate(params)
    ]
    for job, done, end in zip(jobs, dones, program.attempts(jobs)):
        done.outcome, text, done.after_ms, done.exception = end
        done.text, done.last = text.decode("utf-8", "replace"), bool(job._last)
    return dones
