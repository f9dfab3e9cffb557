"""The conversation with the worker's runner, which writes to descriptor 3 and reads from descriptor 4."""

import contextlib
import json
import os
import select
import signal
import sys
import threading
import traceback
from types import FrameType
from typing import Any, Dict, Mapping, Optional

import deferred

IN, OUT = 3, 4


class End(Exception):
    """End of file on descriptor 3."""


def describe(error: BaseException) -> str:
    """The message, then the traceback without frames of this library. Of a verdict the message alone."""
    if isinstance(error, deferred.Verdict):
        return str(error)
    frame = error.__traceback__
    while frame and frame.tb_frame.f_code.co_filename.startswith(os.path.dirname(__file__)):
        frame = frame.tb_next
    return f"{type(error).__name__}: {error}\n{''.join(traceback.format_exception(type(error), error, frame))}"


def outcome(error: Optional[BaseException]) -> str:
    return "ok" if error is None else error.outcome if isinstance(error, deferred.Verdict) else "failed"


def execute(job: deferred.Job, params: Any) -> bytes:
    """Call hooks and function. Returns what is stored."""
    function = deferred.functions.get(job.fn)
    if function is None:
        raise deferred.Unready(f"the program has no function '{job.fn}'")
    for hook in deferred.before_hooks:
        hook(job)
    value = function.run(params, job)
    if hasattr(value, "__await__"):
        import asyncio

        value = asyncio.run(value)
    return deferred.encode(value)


def after(job: deferred.Job) -> None:
    """Call the hooks that follow each function, whatever its outcome was."""
    for hook in deferred.after_hooks:
        try:
            hook(job)
        except Exception as error:
            job.log(f"after_job: {describe(error)}", deferred.ERROR)


def close_stale_connections() -> None:
    """What Django does around a request, if this program has loaded Django."""
    if django := sys.modules.get("django.db"):
        django.reset_queries()
        django.close_old_connections()


class Program:
    """The state of one process. SIGTERM raises Stop while `armed`, but within `with self` it is `pending`."""

    def __init__(self) -> None:
        self.settings: Dict[str, str] = {}
        self.buffer = bytearray()
        self.job: Optional[deferred.Job] = None
        self.armed = self.busy = self.pending = self.stopping = False
        self.input, self.output = IN, OUT
        self.lock, self.thread = threading.Lock(), threading.get_ident()

    def __enter__(self) -> None:
        if threading.get_ident() == self.thread:
            self.busy = True
        self.lock.acquire()

    def __exit__(self, *_: Any) -> None:
        self.lock.release()
        if threading.get_ident() == self.thread:
            self.busy = False
            if self.pending:
                self.terminate()

    def terminate(self, number: int = 0, frame: Optional[FrameType] = None) -> None:
        """The handler of SIGTERM. The signal does not name a job, so it is ignored between jobs."""
        self.pending = self.armed and self.busy
        if self.armed and not self.busy:
            self.armed, self.stopping = False, True
            raise deferred.Stop("the job was stopped by SIGTERM")

    def head(self) -> Dict[str, Any]:
        """Read the head of a message."""
        while (end := self.buffer.find(b"\n")) < 0:
            data = os.read(self.input, 65536)
            if not data:
                raise End
            self.buffer += data
        head = json.loads(self.buffer[:end])
        del self.buffer[: end + 1]
        return head

    def body(self, head: Mapping[str, Any]) -> bytearray:
        """Read the body of a message."""
        size = head.get("bytes", 0)
        body, have = bytearray(size), min(size, len(self.buffer))
        body[:have] = self.buffer[:have]
        del self.buffer[:have]
        rest = memoryview(body)[have:]
        while rest:
            got = os.readv(self.input, [rest])
            if not got:
                raise End
            rest = rest[got:]
        return body

    def send(self, job: Optional[deferred.Job], kind: str, head: Mapping[str, Any], body: bytes = b"") -> None:
        """Write a message about a job, or about none before the first."""
        if job is not self.job:
            raise RuntimeError(f"job {job and job.id} has ended")
        text = json.dumps({"type": kind, **({"job": str(job.id)} if job else {}), **head, "bytes": len(body)})
        data = memoryview(text.encode() + b"\n" + body)
        with self:
            while data:
                data = data[os.write(self.output, data) :]

    def stop_asked(self, job: deferred.Job) -> bool:
        with self:
            while job is self.job and not self.stopping:
                if not self.buffer and not select.select([self.input], [], [], 0)[0]:
                    break
                head = self.head()
                self.body(head)
                self.stopping = head["type"] == "stop" and head.get("job") == str(job.id)
        return self.stopping

    def call(self, head: Mapping[str, Any]) -> None:
        """Execute one job and report its outcome."""
        body, size = self.body(head), head.get("params", 0)
        self.stopping = False
        self.job = job = deferred.Job(self, head, body[size : size + head.get("parents", 0)])
        result, error = b"", None
        try:
            close_stale_connections()
            self.armed = True
            result = execute(job, json.loads(str(memoryview(body)[:size], "utf-8")))
            self.armed = False
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as raised:
            error = raised
        self.armed = self.pending = False
        after(job)
        with contextlib.suppress(Exception):  # the function may have closed or replaced them
            close_stale_connections()
            sys.stdout.flush()
            sys.stderr.flush()
        self.done(job, result, error)

    def done(self, job: deferred.Job, result: bytes, error: Optional[BaseException]) -> None:
        if error:
            result = describe(error).encode("utf-8", "replace")
            if len(result) > deferred.TEXT_MAX:
                half = deferred.TEXT_MAX // 2 - 3
                result = result[:half] + b"\n...\n" + result[-half:]
        elif len(result) > deferred.TEXT_MAX:
            job.log(f"the result has {len(result)} bytes; the first {deferred.TEXT_MAX} are kept", deferred.WARNING)
            result = result[: deferred.TEXT_MAX]
        after_ms = getattr(error, "after_ms", None)
        head = {"outcome": outcome(error), "after_ms": after_ms, "last": 1 if job._last else None}
        self.send(job, "done", {name: value for name, value in head.items() if value is not None}, result)
        self.job = None

    def forked(self) -> None:
        """A forked child does not take part in the conversation."""
        os.close(self.input)
        os.close(self.output)
        self.input = self.output = -1


def run(version: str) -> None:
    """Announce the functions, then execute one job after another until end of file."""
    if os.environ.pop("DEFERRED_PROGRAM", None) is None:  # children do not inherit it
        return
    program = Program()
    os.set_inheritable(IN, False)
    os.set_inheritable(OUT, False)
    os.register_at_fork(after_in_child=program.forked)
    signal.signal(signal.SIGTERM, program.terminate)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # what a killed job printed is not lost
    for function in deferred.functions.values():
        limits = {"timeout_ms": function.timeout_ms, "max_attempts": function.max_attempts}
        known = {name: value for name, value in limits.items() if value is not None}
        program.send(None, "function", {"name": function.name, **known})
    program.send(None, "ready", {"protocol": 1, "version": version})
    try:
        while True:
            head = program.head()
            if head["type"] == "call":
                program.call(head)
            else:
                program.body(head)
            if head["type"] == "setting":
                program.settings[head["name"]] = head["value"]
    except End:
        sys.exit(0)
