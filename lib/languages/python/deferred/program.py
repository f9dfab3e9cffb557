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
from typing import Any, Dict, Mapping, Optional, Tuple

import deferred

IN, OUT = 3, 4


def describe(error: BaseException) -> str:
    """The message, then the traceback without frames of this library. Of a verdict the message alone."""
    if isinstance(error, deferred.Verdict):
        return str(error)
    frame = error.__traceback__
    while frame and frame.tb_frame.f_code.co_filename.startswith(os.path.dirname(__file__)):
        frame = frame.tb_next
    return f"{type(error).__name__}: {error}\n{''.join(traceback.format_exception(type(error), error, frame))}"


def execute(job: deferred.Job, params: bytearray) -> bytes:
    """Call the hooks that precede each function, and the function. Returns what is stored."""
    function = deferred.functions.get(job.fn)
    if function is None:
        raise deferred.Unready(f"the program has no function '{job.fn}'")
    for hook in deferred.before_hooks:
        hook(job)
    value = function.run(json.loads(params.decode()), job)
    if hasattr(value, "__await__"):
        import asyncio

        value = asyncio.run(value)
    return deferred.encode(value)


def attempt(job: deferred.Job, params: bytearray) -> Tuple[str, bytes, Optional[int], Optional[BaseException]]:
    """Execute a job with its hooks. Returns the outcome, what is stored, the delay in ms, and the exception."""
    outcome, text, after_ms, error = "ok", b"", None, None
    try:
        try:
            job._host.armed = True
            text = execute(job, params)
        finally:
            job._host.armed = False  # SIGTERM before this line raises Stop here
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as raised:
        outcome, text, error = "failed", describe(raised).encode("utf-8", "replace"), raised
        if isinstance(raised, deferred.Verdict):
            outcome, after_ms = raised.outcome, raised.after_ms
    for hook in deferred.after_hooks:
        try:
            hook(job)
        except Exception as failure:
            job.log(f"after_job: {describe(failure)}", deferred.ERROR)
    return outcome, text, after_ms, error


def close_stale_connections() -> None:
    """What Django does around a request, if this program has loaded Django."""
    if django := sys.modules.get("django.db"):
        with contextlib.suppress(Exception):
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

    def fill(self) -> None:
        data = os.read(self.input, 65536)
        if not data:
            raise EOFError
        self.buffer += data

    def message(self) -> Tuple[Dict[str, Any], bytearray]:
        """Read a message: its head and its body."""
        while (end := self.buffer.find(b"\n") + 1) == 0:
            self.fill()
        head = json.loads(self.buffer[:end].decode())
        size = head.get("bytes", 0)
        while len(self.buffer) < end + size:
            self.fill()
        body = self.buffer[end : end + size]
        del self.buffer[: end + size]
        return head, body

    def send(self, job: Optional[deferred.Job], kind: str, head: Mapping[str, Any], body: bytes = b"") -> None:
        """Write a message about a job, or about none before the first. Members that are None are left out."""
        if job is not self.job:
            raise RuntimeError(f"job {job and job.id} has ended")
        members = {"type": kind, "job": str(job.id) if job else None, **head, "bytes": len(body)}
        text = json.dumps({name: value for name, value in members.items() if value is not None})
        data = memoryview(text.encode() + b"\n" + body)
        with self:
            while data:
                data = data[os.write(self.output, data) :]

    def stop_asked(self, job: deferred.Job) -> bool:
        with self:
            while job is self.job and not self.stopping:
                if not self.buffer and not select.select([self.input], [], [], 0)[0]:
                    break
                head, _ = self.message()
                self.stopping = head["type"] == "stop" and head.get("job") == str(job.id)
        return self.stopping

    def call(self, head: Mapping[str, Any], body: bytearray) -> None:
        """Execute one job and report its outcome."""
        size = head["params"]
        self.stopping = False
        self.job = job = deferred.Job(self, head, body[size : size + head.get("parents", 0)])
        del body[size:]
        close_stale_connections()
        outcome, text, after_ms, error = attempt(job, body)
        close_stale_connections()
        with contextlib.suppress(Exception):  # the function may have closed or replaced them
            sys.stdout.flush()
            sys.stderr.flush()
        if len(text) > deferred.TEXT_MAX and error:
            half = deferred.TEXT_MAX // 2 - 3
            text = text[:half] + b"\n...\n" + text[-half:]
        elif len(text) > deferred.TEXT_MAX:
            job.log(f"the result has {len(text)} bytes; the first {deferred.TEXT_MAX} are kept", deferred.WARNING)
        members = {"outcome": outcome, "after_ms": after_ms, "last": job._last}
        self.send(job, "done", members, text[: deferred.TEXT_MAX])
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
        program.send(None, "function", {"name": function.name, **limits})
    program.send(None, "ready", {"protocol": 1, "version": version})
    try:
        while True:
            head, body = program.message()
            if head["type"] == "call":
                program.call(head, body)
            elif head["type"] == "setting":
                program.settings[head["name"]] = head["value"]
    except EOFError:
        sys.exit(0)
