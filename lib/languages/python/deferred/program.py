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
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

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


End = Union[bytes, BaseException]  # of a job: what is stored, or what ended it
Ended = Tuple[str, bytes, Optional[int], Optional[BaseException]]  # outcome, text, delay in ms, exception


def store(value: Any) -> End:
    """The end of a job by its entry in a list."""
    if isinstance(value, BaseException):
        return value
    try:
        return deferred.encode(value)
    except Exception as error:
        return error


def execute(jobs: Sequence[deferred.Job]) -> List[End]:
    """Call the hooks that precede each function, and the function. Returns the end of each job."""
    fn = jobs[0].fn
    function = deferred.functions.get(fn)
    if function is None:
        raise deferred.Unready(f"the program has no function '{fn}'")
    for job in jobs:
        for hook in deferred.before_hooks:
            hook(job)
    value = function.run(list(jobs)) if function.batch else function.run(jobs[0].params, jobs[0])
    if hasattr(value, "__await__"):
        import asyncio

        value = asyncio.run(value)
    if not function.batch:
        return [deferred.encode(value)]
    values = [None] * len(jobs) if value is None else list(value)
    if len(values) != len(jobs):
        raise ValueError(f"function '{fn}' returned {len(values)} outcomes for {len(jobs)} jobs")
    return [store(value) for value in values]


def ended(end: End) -> Ended:
    if isinstance(end, bytes):
        return "ok", end, None, None
    verdict = isinstance(end, deferred.Verdict)
    outcome, after_ms = (end.outcome, end.after_ms) if verdict else ("failed", None)
    return outcome, describe(end).encode("utf-8", "replace"), after_ms, end


def attempts(jobs: Sequence[deferred.Job]) -> List[Ended]:
    """Execute a job, or the jobs of a batch, with hooks."""
    host = jobs[0]._host
    try:
        try:
            host.armed = True
            ends = execute(jobs)
        finally:
            host.armed = False  # SIGTERM before this line raises Stop here
    except (SystemExit, KeyboardInterrupt):
        raise
    except deferred.Gone as raised:
        other = deferred.Snooze(0, "another job of the batch is gone")
        ends = [raised if job._gone else other for job in jobs]
    except BaseException as raised:
        ends = [raised] * len(jobs)
    for job in jobs:
        for hook in deferred.after_hooks:
            try:
                hook(job)
            except Exception as failure:
                job.log(f"after_job: {describe(failure)}", deferred.ERROR)
    return [ended(end) for end in ends]


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
        self.jobs: List[deferred.Job] = []
        self.stopped: Set[str] = set()  # ids of jobs that should end
        self.armed = self.busy = self.pending = self.stopping = False
        self.saves = False  # the worker stores steps
        self.asked: Optional[str] = None  # id of the job that waits for the answer to a step
        self.answer, self.saving = "", threading.Lock()
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
        if job is not None and job not in self.jobs:
            raise RuntimeError(f"job {job.id} has ended")
        members = {"type": kind, "job": str(job.id) if job else None, **head, "bytes": len(body)}
        text = json.dumps({name: value for name, value in members.items() if value is not None})
        data = memoryview(text.encode() + b"\n" + body)
        with self:
            if kind == "step":
                self.asked = members["job"]
            while data:
                data = data[os.write(self.output, data) :]

    def readable(self, wait: float) -> bool:
        return bool(self.buffer or select.select([self.input], [], [], wait)[0])

    def listen(self, wait: float) -> bool:
        """Take a message about a job. False: none came in time."""
        if not self.readable(wait):
            return False
        with self:
            if not self.readable(0):  # another thread took it
                return False
            head, _ = self.message()
            if head["type"] == "stop":
                self.stopped.add(str(head.get("job")))
            elif head["type"] == "stepped" and head.get("job") == self.asked:
                self.asked, self.answer = None, head["outcome"]
        return True

    def stop_asked(self, job: deferred.Job) -> bool:
        while job in self.jobs and not self.stopping and str(job.id) not in self.stopped and self.listen(0):
            pass
        return self.stopping or str(job.id) in self.stopped

    def save_step(self, job: deferred.Job, name: str, value: bytes) -> str:
        if not self.saves:
            raise RuntimeError("the worker is older than 0.2.0 and saves no steps")
        with self.saving:
            self.await_answer()  # to a step whose wait SIGTERM has ended
            self.send(job, "step", {"name": name}, value)
            self.await_answer()
            return self.answer

    def await_answer(self) -> None:
        while self.asked is not None:
            self.listen(0.1)  # another thread may take the answer

    def call(self, head: Mapping[str, Any], body: bytearray) -> None:
        """Execute one job, or a batch when all of its calls have come, and report the outcomes."""
        size = head["params"]
        behind = size + head.get("parents", 0)
        parents, steps = body[size:behind], body[behind : behind + head.get("steps", 0)]
        del body[size:]
        self.jobs.append(deferred.Job(self, head, body, parents, steps))
        if head.get("more", 0) > 0:
            return
        self.stopping, self.saves, self.asked = False, "steps" in head, None
        self.stopped.clear()
        close_stale_connections()
        ends = attempts(self.jobs)
        close_stale_connections()
        with contextlib.suppress(Exception):  # the function may have closed or replaced them
            sys.stdout.flush()
            sys.stderr.flush()
        for job, end in zip(tuple(self.jobs), ends):
            self.done(job, *end)

    def done(
        self, job: deferred.Job, outcome: str, text: bytes, after_ms: Optional[int], error: Optional[BaseException]
    ) -> None:
        if len(text) > deferred.TEXT_MAX and error:
            half = deferred.TEXT_MAX // 2 - 3
            text = text[:half] + b"\n...\n" + text[-half:]
        elif len(text) > deferred.TEXT_MAX:
            job.log(f"the result has {len(text)} bytes; the first {deferred.TEXT_MAX} are kept", deferred.WARNING)
        members = {"outcome": outcome, "after_ms": after_ms, "last": job._last}
        self.send(job, "done", members, text[: deferred.TEXT_MAX])
        self.jobs.remove(job)

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
        limits = {name: value for name, value in function._asdict().items() if name != "run"}
        program.send(None, "function", limits)
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
