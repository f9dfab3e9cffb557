"""Functions in Python for deferred, the job runner for PostgreSQL, and a way to defer jobs.

    import deferred

    @deferred.function("resize", timeout="10s", max_attempts=5)
    def resize(params, job):
        if busy():
            raise deferred.Later("30s")
        return {"width": 640}

A worker starts `python3 -m deferred tasks` for the file tasks.py. See deferred_program(7).
"""

import datetime
import functools
import inspect
import json
import re
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, TypeVar, Union, overload

__version__ = "0.2.0"
ERROR, WARNING, INFO, DEBUG = 1, 2, 3, 4  # levels of Job.log()
TEXT_MAX = 8192  # bytes of a result, an error or a log line that are kept

Span = Union[str, int, float, datetime.timedelta]
Handler = Callable[..., Any]  # of params and a job, or with `batch` of a list of jobs
Hook = Callable[["Job"], Any]
AnyHandler = TypeVar("AnyHandler", bound=Handler)
AnyHook = TypeVar("AnyHook", bound=Hook)
Function = NamedTuple(
    "Function",
    [
        ("name", str),
        ("run", Handler),
        ("timeout_ms", Optional[int]),
        ("max_attempts", Optional[int]),
        ("batch", Optional[int]),
        ("batch_wait_ms", Optional[int]),
        ("progress_resets", Optional[int]),
    ],
)

functions: Dict[str, Function] = {}
before_hooks: List[Hook] = []
after_hooks: List[Hook] = []
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
_UNITS = {"ms": 1, "s": 1000, "sec": 1000, "m": _MINUTE, "min": _MINUTE, "h": _HOUR, "d": _DAY, "w": 7 * _DAY}
_REFUSED = {
    "invalid": "a name follows the rule for function names, and a value has at most 64 KiB",
    "full": "a job has at most 1,000 steps of together 1 MiB",
    "refused": "the log of the worker says why",
}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def milliseconds(span: Span) -> int:
    """The milliseconds of a span: seconds as a number, a timedelta, or text such as "200ms", "1.5h" or "2h 30min"."""
    if isinstance(span, datetime.timedelta):
        return round(span.total_seconds() * 1000)
    if isinstance(span, str) and not re.fullmatch(r"\d+(\.\d+)?", span):
        part = rf"(\d+(?:\.\d+)?) ?({'|'.join(_UNITS)})(?: |$|(?=\d))"
        if re.sub(part, "", span) or not span:
            raise ValueError(f"'{span}' is not a span; write a number and a unit, such as 200ms, 5s, 10min, 2h or 30d")
        return round(sum(float(number) * _UNITS[unit] for number, unit in re.findall(part, span)))
    return round(float(span) * 1000)


class Stop(BaseException):
    """SIGTERM came: the time is up, the job is cancelled, or the worker stops. `except Exception` lets it pass."""


class Verdict(Exception):
    """The base of outcomes other than success. Any other exception means failed, with its traceback."""

    outcome = "failed"
    after_ms: Optional[int] = None


class Dead(Verdict):
    """The job failed for good and is not tried again."""

    outcome = "dead"


class Cancel(Verdict):
    """The job is not needed any more."""

    outcome = "cancel"


class Unready(Verdict):
    """An operator has to act first. The attempt does not count."""

    outcome = "unready"


class Later(Verdict):
    """The attempt failed. The next one starts after the span, or after the usual delay."""

    outcome = "later"

    def __init__(self, span: Optional[Span] = None, error: str = ""):
        super().__init__(error)
        self.after_ms = None if span is None else milliseconds(span)


class Snooze(Later):
    """The job cannot run yet. The attempt does not count, and the next one starts after the span."""

    outcome = "snooze"


class Gone(Verdict):
    """Another attempt of this job of a batch may run, so a step was not saved. Return it as the entry of the job.

    If the function lets it pass, the attempts of the other jobs do not count, and these jobs are tried again soon.
    """


@overload
def function(name: AnyHandler) -> AnyHandler:
    ...


@overload
def function(
    name: Optional[str] = None,
    *,
    timeout: Optional[Span] = None,
    max_attempts: Optional[int] = None,
    batch: Optional[int] = None,
    batch_wait: Optional[Span] = None,
    progress_resets: bool = False,
) -> Callable[[AnyHandler], AnyHandler]:
    ...


def function(
    name: Any = None,
    *,
    timeout: Optional[Span] = None,
    max_attempts: Optional[int] = None,
    batch: Optional[int] = None,
    batch_wait: Optional[Span] = None,
    progress_resets: bool = False,
) -> Any:
    """Decorator: offer a function of params and job, by default under its own name. It may be a coroutine function.

    With `batch`, it is a function of a list of jobs, up to that number. They wait up to `batch_wait` for each other.
    It returns None, or a list with an entry for each job. An entry is the result, or an exception as the outcome.

    With `progress_resets`, an attempt that saved a step of a new name does not count against `max_attempts`.
    """

    def offer(run: AnyHandler) -> AnyHandler:
        known = name if isinstance(name, str) else run.__name__
        if known in functions:
            raise ValueError(f"function '{known}' is defined twice")
        spans = [None if span is None else milliseconds(span) for span in (timeout, batch_wait)]
        resets = 1 if progress_resets else None
        functions[known] = Function(known, run, spans[0], max_attempts, batch, spans[1], resets)
        return run

    return offer(name) if callable(name) else offer


def before_job(hook: AnyHook) -> AnyHook:
    """Decorator: call the hook with each job before its function. An exception ends the attempt like the function's."""
    before_hooks.append(hook)
    return hook


def after_job(hook: AnyHook) -> AnyHook:
    """Decorator: call the hook with each job after its function. An exception is only logged."""
    after_hooks.append(hook)
    return hook


def to_json(value: Any) -> str:
    """JSON that PostgreSQL accepts: without NaN, and with escapes only where UTF-8 cannot do without."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text if text.isascii() or not re.search("[\ud800-\udfff]", text) else json.dumps(value, allow_nan=False)


def encode(value: Any) -> bytes:
    """The stored form of a returned value: text and bytes unchanged, nothing of None, JSON of all others."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    return b"" if value is None else (value if isinstance(value, str) else to_json(value)).encode("utf-8", "replace")


def _moment(microseconds: Any) -> Optional[datetime.datetime]:
    return _EPOCH + datetime.timedelta(microseconds=int(microseconds)) if microseconds else None


class Job:
    """The job that a function was called for. It is valid until the function returns.

    id, fn, attempt (from 1), label ("" if there is none), traceparent (W3C; or "")
    receipt        proves to the database that this attempt holds the job
    created        when the job was deferred
    tick           when the schedule was due; None if no schedule made the job
    previous_tick  the tick of the schedule's previous job, or None
    parents        the jobs that this job waited for: {"pack": {"id": 17, "outcome": "ok", "result": "three boxes"}}
    params         the params, for a function that takes a list of jobs
    steps          what this and earlier attempts have saved, by name
    """

    def __init__(
        self, host: Any, head: Mapping[str, Any], params: bytes = b"{}", parents: bytes = b"", steps: bytes = b""
    ):
        self._host, self._params = host, params
        self.id, self.fn, self.attempt = int(head["job"]), str(head["fn"]), int(head.get("attempt", 1))
        self.label, self.traceparent = str(head.get("label", "")), str(head.get("traceparent", ""))
        self.receipt, self.created = int(head.get("receipt", 0)), _moment(head.get("created_us"))
        self.tick, self.previous_tick = _moment(head.get("tick_us")), _moment(head.get("previous_tick_us"))
        self.parents: Dict[str, Any] = json.loads(parents) if parents else {}
        self.steps: Dict[str, Any] = json.loads(steps) if steps else {}
        limit = head.get("timeout_ms")
        self._end = None if limit is None else time.monotonic() + limit / 1000
        self._last: Optional[int] = None
        self._gone = False

    @functools.cached_property
    def params(self) -> Any:
        return json.loads(self._params.decode())

    def left(self) -> Optional[float]:
        """The seconds until the time limit of this attempt, or None without a limit."""
        return None if self._end is None else max(self._end - time.monotonic(), 0)

    def stop_asked(self) -> bool:
        """True if the function should end soon, because the worker stops or the job was cancelled."""
        return self._host.stop_asked(self)

    def setting(self, name: str) -> Optional[str]:
        """The text of a setting of this program, or None."""
        return self._host.settings.get(name)

    def progress(self, done: int, total: int = -1, text: str = "") -> None:
        """Report how far the job is; -1 is unknown. At most 200 bytes of the text are kept."""
        short = str(text).encode("utf-8", "replace")[:200].decode("utf-8", "ignore")
        self._host.send(self, "progress", {"done": int(done), "total": int(total), "text": short})

    def log(self, text: str, level: int = INFO) -> None:
        """Write to the worker's log. Levels: ERROR, WARNING, INFO, DEBUG."""
        self._host.send(self, "log", {"level": int(level)}, str(text).encode("utf-8", "replace")[:TEXT_MAX])

    def defer(self, fn: str, params: Any = None, options: Optional[Mapping[str, Any]] = None) -> None:
        """Defer a call in the statement that records the success of this attempt. Options: those of SQL's defer()."""
        text = to_json({} if params is None else params).encode()
        self._host.send(self, "defer", {"fn": fn, "params": len(text)}, text + encode(options or None))

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Call the function once in the life of the job, save its value as JSON, and return the saved value.

        A later attempt returns the saved value without a call. Of a coroutine function the step is awaitable too.
        """
        if inspect.iscoroutinefunction(function):
            return self._step_later(name, function)
        return self.steps[name] if name in self.steps else self.save_step(name, function())

    async def _step_later(self, name: str, function: Callable[[], Any]) -> Any:
        return self.steps[name] if name in self.steps else self.save_step(name, await function())

    def save_step(self, name: str, value: Any) -> Any:
        """Save a value under a name, in place of an earlier one. Returns when the database has it.

        If another attempt may run, this raises Stop, or Gone in a function that takes a list of jobs.
        """
        text = to_json(value)
        outcome = self._host.save_step(self, name, text.encode())
        if outcome == "gone":
            self._gone = True
            batch = self.fn in functions and functions[self.fn].batch
            raise (Gone if batch else Stop)(f"step '{name}' was not saved, since another attempt may run")
        if outcome != "saved":
            raise ValueError(f"step '{name}' was not saved: {_REFUSED.get(outcome, outcome)}")
        self.steps[name] = json.loads(text)
        return self.steps[name]

    def last(self) -> None:
        """Ask the worker to replace this process after the job."""
        self._last = 1

    def finish(self, connection: Any, result: Any = None) -> None:
        """Record the success of this attempt in the transaction of the caller. The returned value is then ignored."""
        text = encode(result).decode("utf-8", "replace") or None
        _select(connection, "deferred.finish(%s::bigint, %s::bigint, %s::text)", self.id, self.receipt, text)

    def extend(self, connection: Any, span: Span) -> datetime.datetime:
        """Let the lease of the job last at least this span from now. Returns its end."""
        query = "deferred.extend(%s::bigint, %s::bigint, %s::bigint)"
        return _select(connection, query, self.id, self.receipt, milliseconds(span))


def defer(connection: Any, fn: str, params: Any = None, options: Optional[Mapping[str, Any]] = None) -> int:
    """Defer a call in the transaction of an open connection: psycopg 2, psycopg 3 or Django's. Returns the job's id."""
    texts = to_json({} if params is None else params), to_json(options) if options else None
    return _select(connection, "deferred.defer(%s::text, %s::json, %s::json)", fn, *texts)


def _select(connection: Any, call: str, *values: Any) -> Any:
    with connection.cursor() as cursor:
        if hasattr(connection, "row_factory"):  # psycopg 3, whose rows may be of any class
            cursor.row_factory = lambda _: tuple
        cursor.execute(f"select {call}", values)
        row = cursor.fetchone()
    return next(iter(row.values())) if isinstance(row, Mapping) else row[0]


def run(version: str = "") -> None:
    """Serve the worker and exit at its end. Returns at once in a process that was not started by a worker."""
    from . import program

    program.run(version)
