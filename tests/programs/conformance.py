"""Plays the runner for a program and checks the protocol of deferred_program(7).

    conformance.py [LANGUAGE ...]        the test programs of these languages; without a name, of all
    conformance.py --basic -- COMMAND    any program with the functions echo and fail

Prints a line for each case that fails. Exit status 1 if there is one. tests/programs/README.md lists the functions
of the test programs.
"""

import fcntl
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEAD_MAX, BODY_MAX, TEXT_MAX, LARGE = 16 << 10, 16 << 20, 8 << 10, 100 << 20
PATIENCE_S = 120
TYPES = {"function", "ready", "progress", "log", "defer", "step", "done"}


class Language:
    """How a test program is started, and what its language cannot do."""

    def __init__(self, argv, env=None, large=LARGE, inherits=False, empty_object=True):
        self.argv, self.env, self.large, self.inherits, self.empty_object = (
            argv,
            env or {},
            large,
            inherits,
            empty_object,
        )

    def missing(self):
        """Why it cannot run here, or None."""
        return None if shutil.which(self.argv[0]) else f"{self.argv[0]} is not installed"


def at(*names):
    return os.path.join(TOP, *names)


def has_xs():
    """JSON::PP takes more than a second for each MB."""
    return any(os.system(f"perl -M{name}::XS -e1 2>/dev/null") == 0 for name in ("Cpanel::JSON", "JSON"))


PERL = ["perl", at("tests/programs/perl/tasks.pl")]
PERL_LIB = at("lib/languages/perl/lib")
LANGUAGES = {
    "python": Language(
        [sys.executable, "-m", "deferred", "tasks"],
        {"PYTHONPATH": f"{at('lib/languages/python')}:{at('tests/programs/python')}"},
    ),
    "perl": Language(PERL, {"PERL5LIB": PERL_LIB}, large=LARGE if has_xs() else 1 << 20),
    "perl_core": Language(
        PERL, {"PERL5LIB": f"{PERL_LIB}:{at('lib/languages/perl/t')}", "PERL5OPT": "-MCoreOnly"}, large=1 << 20
    ),
    "node": Language(["node", at("tests/programs/node/tasks.mjs")]),
    # PHP can neither set close-on-exec nor tell an empty object from an empty list.
    "php": Language(["php", at("tests/programs/php/tasks.php")], inherits=True, empty_object=False),
}


class Message:
    def __init__(self, head, body):
        self.head, self.body, self.type = head, body, head["type"]


class Done:
    """The answer to a call, the messages before it, and the output that had come by then."""

    def __init__(self, message, before, output):
        self.outcome, self.body, self.head = message.head.get("outcome"), message.body, message.head
        self.before, self.output = before, output

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")

    @property
    def value(self):
        assert self.outcome == "ok", (self.outcome, self.text)
        return json.loads(self.body)


def pipe_at_10():
    """A pipe whose ends are in nobody's way when they get their numbers in the child."""
    ends = []
    for fd in os.pipe():
        ends.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10))
        os.close(fd)
    return ends


class Program:
    """One process, and the runner's ends of its pipes."""

    def __init__(self, language, env=None, settings=None, protocol="1"):
        to, self.to = pipe_at_10()
        self.answers, answers = pipe_at_10()
        self.printed, printed = pipe_at_10()
        environ = {name: value for name, value in os.environ.items() if name != "DEFERRED_PROGRAM"}
        environ.update(language.env, **(env or {}))
        if protocol:
            environ["DEFERRED_PROGRAM"] = protocol
        actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
        actions += [(os.POSIX_SPAWN_DUP2, *ends) for ends in ((printed, 1), (printed, 2), (to, 3), (answers, 4))]
        self.pid = os.posix_spawnp(
            language.argv[0], language.argv, environ, file_actions=actions, setpgroup=0, setsigdef=[signal.SIGPIPE]
        )
        for fd in (to, answers, printed):
            os.close(fd)
        os.set_blocking(self.to, False)
        self.status, self.jobs = None, 0
        self.sending, self.received, self.output = bytearray(), bytearray(), bytearray()
        self.functions, self.version = {}, None
        for name, value in (settings or {}).items():
            self.send({"type": "setting", "name": name, "value": value})
        if protocol:
            self.become_ready()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.wait()
        for fd in (self.to, self.answers, self.printed):
            if fd is not None:
                os.close(fd)

    def become_ready(self):
        while (message := self.read()).type == "function":
            assert message.head["name"] not in self.functions, message.head
            self.functions[message.head["name"]] = message.head
        assert message.type == "ready" and message.head["protocol"] == 1, message.head
        self.version = message.head.get("version")

    # ---- the pipes

    def move(self, until):
        """Write and read until this is true."""
        end = time.monotonic() + PATIENCE_S
        while not until():
            poll = select.poll()
            for fd in (self.answers, self.printed):
                if fd is not None:
                    poll.register(fd, select.POLLIN)
            if self.sending:
                poll.register(self.to, select.POLLOUT)
            assert time.monotonic() < end, f"no answer; it printed {bytes(self.output)!r}"
            for fd, _ in poll.poll(1000):
                self.move_one(fd)

    def move_one(self, fd):
        if fd == self.to:
            del self.sending[: os.write(self.to, self.sending[: 1 << 16])]
            return
        data = os.read(fd, 1 << 16)
        if fd == self.printed:
            self.output += data
            if not data:
                os.close(fd)
                self.printed = None
            return
        self.received += data
        if not data:
            os.close(fd)
            self.answers = None

    def send(self, head, *bodies, behind=b""):
        """behind: a second message that goes out with this one."""
        body = b"".join(bodies)
        if body:
            head = {**head, "bytes": len(body)}
        self.sending += json.dumps(head).encode() + b"\n" + body + behind
        self.move(lambda: not self.sending)

    def read(self):
        self.move(lambda: b"\n" in self.received or self.answers is None)
        end = self.received.find(b"\n")
        assert end >= 0, f"end of file on 4 after {bytes(self.received)!r}; it printed {bytes(self.output)!r}"
        head = check_head(bytes(self.received[: end + 1]))
        size = head.get("bytes", 0)
        assert 0 <= size <= BODY_MAX, head
        self.move(lambda: len(self.received) > end + size or self.answers is None)
        body = bytes(self.received[end + 1 : end + 1 + size])
        assert len(body) == size, "end of file within a body"
        del self.received[: end + 1 + size]
        return Message(head, body)

    # ---- calls

    def begin(self, fn, params=b"{}", parents=b"", steps=b"", extra=b"", behind=b"", **members):
        """Send a call. Returns the number of its job."""
        self.jobs += 1
        params = params if isinstance(params, bytes) else json.dumps(params).encode()
        head = {
            "type": "call",
            "job": str(self.jobs),
            "fn": fn,
            "attempt": 1,
            "receipt": "12345678901",
            "created_us": 1700000000123456,
            "timeout_ms": 60000,
            "params": len(params),
            "parents": len(parents),
            "steps": None if steps is None else len(steps),
            **members,
        }
        head = {name: value for name, value in head.items() if value is not None}
        self.send(head, params, parents, steps or b"", extra, behind=behind)
        return head["job"]

    def finish(self, job):
        """Read until the job is done. Like the runner, take the output that has come by then."""
        before = []
        while (message := self.read()).type != "done":
            assert message.type in ("progress", "log", "defer"), message.head
            before.append(message)
        assert all(m.head["job"] == job for m in [*before, message]), (job, message.head)
        assert not self.received, f"after done came {bytes(self.received[:100])!r}"
        while self.printed is not None and select.select([self.printed], [], [], 0)[0]:
            self.move_one(self.printed)
        done = Done(message, before, bytes(self.output))
        self.output.clear()
        return done

    def call(self, fn, params=b"{}", **members):
        return self.finish(self.begin(fn, params, **members))

    # ---- the end

    def wait(self):
        end = time.monotonic() + PATIENCE_S
        while os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            assert time.monotonic() < end, "it does not end"
            for fd in (self.answers, self.printed):
                if fd is not None and select.select([fd], [], [], 0.02)[0]:
                    self.move_one(fd)
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def end(self):
        """Close descriptor 3 of the program, which is its sign to leave."""
        os.close(self.to)
        self.to = None
        assert self.wait() == 0, f"exit status {self.status}; it printed {bytes(self.output)!r}"
        assert not self.received, f"before its end it sent {bytes(self.received[:100])!r}"


def check_head(line):
    """A head is one line: a flat object with strings and whole numbers, its type first."""
    assert len(line) <= HEAD_MAX, f"a head of {len(line)} bytes"
    pairs = json.loads(line, object_pairs_hook=list)
    assert pairs and pairs[0][0] == "type" and pairs[0][1] in TYPES, line
    assert all(isinstance(value, str) or type(value) is int for _, value in pairs), line
    head = dict(pairs)
    assert len(head) == len(pairs), f"a member occurs twice: {line}"
    assert head["type"] in ("function", "ready") or isinstance(head["job"], str), line
    return head


# ---- the cases

CASES, BASIC = {}, {}


def case(run):
    CASES[run.__name__] = run
    return run


def basic(run):
    """A case that needs only the functions echo and fail."""
    BASIC[run.__name__] = run
    return case(run)


def works(program):
    """The program is still there and in step."""
    assert program.call("echo", {"still": "here"}).value == {"still": "here"}


@basic
def it_echoes_fails_and_goes_on(language):
    with Program(language) as program:
        assert program.call("echo", b"{}").outcome == "ok"
        works(program)
        failed = program.call("fail", {"error": "went wrong"})
        assert failed.outcome == "failed" and "went wrong" in failed.text
        works(program)
        program.end()


@basic
def it_ends_with_status_0_at_end_of_file(language):
    with Program(language) as program:
        program.end()
    with Program(language) as program:
        job = program.begin("echo")
        os.close(program.to)
        program.to = None
        assert program.finish(job).outcome == "ok"
        assert program.wait() == 0


@basic
def it_ignores_unknown_members_and_types(language):
    with Program(language, settings={"a": "b"}) as program:
        program.send({"type": "future", "job": "1", "bytes": 0})
        program.send({"type": "future", "members": 7}, b'{"type": "call"}\n')
        done = program.call("echo", {"a": 1}, future="x", another=-5, extra=b"bytes of a later version\n{}")
        assert json.loads(done.body) == {"a": 1}
        program.send({"type": "stop", "job": "1", "why": "a reason of a later version"})
        works(program)


@basic
def it_reads_messages_in_pieces_of_any_size(language):
    with Program(language) as program:
        head = b'{"type": "call", "job": "900", "fn": "echo", "params": 7, "parents": 2, "bytes": 9}\n{"a":1}{}'
        for i in range(len(head)):
            program.sending += head[i : i + 1]
            program.move(lambda: not program.sending)
        assert program.finish("900").outcome == "ok"
        random_sizes = random.Random(os.environ.get("SEED", "7"))
        for _ in range(60):
            text = "z" * int(10 ** random_sizes.uniform(0, 5.3))
            assert program.call("echo", {"text": text}).outcome == "ok"


@basic
def it_answers_a_function_that_it_lacks_with_unready(language):
    with Program(language) as program:
        done = program.call("no_such_function")
        assert done.outcome == "unready" and "no_such_function" in done.text, done.text
        works(program)


@case
def it_announces_functions_limits_and_version(language):
    with Program(language, env={"NOISE": "1"}) as program:
        assert program.version == "1.2-test"
        limits = {name: (head["timeout_ms"], head["max_attempts"]) for name, head in program.functions.items()}
        assert limits.pop("later") == (1500, 7)
        assert set(limits.values()) == {(10000, 5)}
        assert limits.keys() == set(listed()) - {"later"}
        works(program)


def listed():
    """The functions in the table of README.md."""
    with open(at("tests/programs/README.md")) as f:
        rows = f.read().split("| function |")[1].split("\n\n")[0].split("\n")[2:]
    return [name.strip(" `") for row in rows if row for name in row.split("|")[1].split(",")]


@case
def without_a_runner_it_returns_at_once(language):
    with Program(language, protocol=None) as program:
        assert program.wait() == 0
        assert not program.received


VALUES = [
    {"a": [1, "b", None, True, False, -1.5], "c": {"d": {}}, "": 0},
    [],
    [[], {}, [[]]],
    0,
    -1,
    2**53 - 1,
    1.5,
    1e100,
    True,
    False,
    {"é€😀": "é€😀\u2028\u0000\"\\/\b\f\n\r\t\x7f"},
    {str(i): i for i in range(300)},
]


@case
def it_reads_and_writes_every_json_value(language):
    def same(a, b):
        if not language.empty_object and a in ([], {}) and b in ([], {}):
            return True
        if isinstance(a, list) and isinstance(b, list):
            return len(a) == len(b) and all(map(same, a, b))
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
        return a == b and isinstance(a, bool) == isinstance(b, bool)

    deep = []
    for _ in range(100):
        deep = [deep]
    with Program(language) as program:
        for value in [*VALUES, deep]:
            for ascii_only in (True, False):
                params = json.dumps(value, ensure_ascii=ascii_only).encode()
                done = program.call("echo", params)
                assert same(done.value, value), (params, done.text)
        done = program.call("echo", b' \n{"a"\t:\r\n 1 } ')
        assert done.value == {"a": 1}


@case
def it_stores_text_unchanged_and_null_not_at_all(language):
    with Program(language) as program:
        for text in ("three boxes", "", '"quoted"', "7", "é€😀\n", "\u0001"):
            done = program.call("text", {"text": text})
            assert (done.outcome, done.text) == ("ok", text)
        assert program.call("echo", b'"three boxes"').body == b"three boxes"
        for done in (program.call("nothing"), program.call("echo", b"null")):
            assert (done.outcome, done.body) == ("ok", b"")


@case
def it_reads_surrogates(language):
    with Program(language) as program:
        assert program.call("text", b'{"text": "\\ud83d\\ude00"}').body == "😀".encode()
        assert program.call("length", b'{"text": "\\ud83d\\ude00\\u00e9"}').value == {"characters": 2}
        for text in (rb"\ud83d", rb"\ude00", rb"a\ud83db", rb"\ude00\ud83d"):
            done = program.call("text", b'{"text": "' + text + b'"}')
            assert done.outcome in ("ok", "failed", "dead"), done.text
        works(program)


@case
def it_survives_params_that_are_not_json(language):
    with Program(language) as program:
        for params in (b'{"a":', b"", b"nonsense", b'"\xff"', b"{}{}"):
            done = program.call("echo", params)
            assert done.outcome in ("failed", "dead") or params == b'"\xff"', (params, done.outcome, done.text)
            works(program)


@case
def it_sends_results_that_are_not_utf8_or_have_no_json_form(language):
    with Program(language) as program:
        done = program.call("bytes")
        assert done.outcome == "ok" and done.body[:1] == b"a" and done.body[-1:] == b"b", done.body
        works(program)
        assert program.call("strange").outcome in ("failed", "dead")
        works(program)


@case
def it_reads_large_params(language):
    with Program(language) as program:
        for size in sorted({12, 1000, 65536, 65537, 1 << 20, language.large}):
            done = program.call("length", b'{"text": "' + b"x" * (size - 12) + b'"}')
            assert done.value == {"characters": size - 12}
        works(program)


@case
def it_cuts_large_results_and_says_so(language):
    with Program(language) as program:
        for size in (TEXT_MAX, TEXT_MAX + 1, 1 << 20, 20 << 20):
            done = program.call("big", {"bytes": size})
            assert done.outcome == "ok" and done.body[:TEXT_MAX] == b"x" * TEXT_MAX
            assert [m.type for m in done.before] == (["log"] if size > TEXT_MAX else []), size
        works(program)


@case
def it_gives_the_function_the_members_of_the_job(language):
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    given = {
        "job": str(2**53 + 1),
        "receipt": str(2**63 - 1),
        "attempt": 3,
        "label": 'é "quoted" \\ \u2028😀',
        "traceparent": trace,
        "tick_us": 1700000060000000,
        "previous_tick_us": 1700000000999999,
    }
    with Program(language) as program:
        assert program.call("members", **given).value == {
            "id": str(2**53 + 1),
            "fn": "members",
            "attempt": "3",
            "label": given["label"],
            "receipt": str(2**63 - 1),
            "traceparent": trace,
            "created": 1700000000,
            "tick": 1700000060,
            "previous_tick": 1700000000,
        }
        value = program.call("members").value
        assert (value["tick"], value["previous_tick"]) == (None, None)
        assert 0 < program.call("left", timeout_ms=50000).value["ms"] <= 50000
        assert program.call("left", timeout_ms=None).value == {"ms": None}


@case
def it_gives_the_function_its_parents(language):
    parents = {
        "pack": {"id": 17, "outcome": "ok", "result": "three boxes"},
        "wéigh": {"id": 18, "outcome": "dead", "result": None, "cut": True},
    }
    with Program(language) as program:
        text = json.dumps(parents, ensure_ascii=False).encode()
        assert program.call("parents", {"a": 1}, parents=text, extra=b"more").value == parents
        assert program.call("parents").text in ("", "{}", "[]")


@case
def it_sends_progress_logs_and_deferred_jobs(language):
    with Program(language) as program:
        (message,) = program.call("progress", {"done": 3, "total": 7, "text": 'höher "7"'}).before
        assert message.type == "progress"
        assert [message.head[name] for name in ("done", "total", "text")] == [3, 7, 'höher "7"']
        program.call("progress", {"done": 3, "total": 7, "text": "é" * 20000})
        (message,) = program.call("log", {"text": "two\nlines of é", "level": 2}).before
        assert (message.type, message.head["level"], message.body.decode()) == ("log", 2, "two\nlines of é")
        options = {"queue": "mail", "delay": "5min"}
        job = {"fn": "send_mail", "params": {"to": ["ann@example.org"], "n": 1.5}, "options": options}
        (message,) = program.call("defer", job).before
        size = message.head["params"]
        assert (message.type, message.head["fn"]) == ("defer", "send_mail")
        assert json.loads(message.body[:size]) == job["params"] and json.loads(message.body[size:]) == options
        (message,) = program.call("defer", {"fn": "next", "params": {"a": "é"}}).before
        assert json.loads(message.body[: message.head["params"]]) == {"a": "é"}
        assert message.body[message.head["params"] :] in (b"", b"{}")


@case
def it_reads_settings(language):
    settings = {"greeting": 'hé "x" \\\n', "empty": "", "long": "y" * 15000}
    with Program(language, settings=settings) as program:
        for name in ("greeting", "empty"):
            assert program.call("setting", {"name": name}).value == {"value": settings[name]}
        assert "y" * 8000 in program.call("setting", {"name": "long"}).text
        assert program.call("setting", {"name": "missing"}).value == {"value": None}


@case
def it_reports_each_verdict(language):
    with Program(language) as program:
        done = program.call("later", {"span": "1.5s"})
        assert (done.outcome, done.head["after_ms"]) == ("later", 1500)
        done = program.call("snooze", {"span": "2min"})
        assert (done.outcome, done.head["after_ms"]) == ("snooze", 120000)
        for fn in ("dead", "cancel", "unready"):
            done = program.call(fn, {"error": f"é {fn}"})
            assert done.outcome == fn and f"é {fn}" in done.text, done.text
        assert "after_ms" not in program.call("fail", {"error": "x"}).head
        works(program)


@case
def it_asks_to_be_replaced_for_one_job(language):
    with Program(language) as program:
        done = program.call("last")
        assert (done.text, done.head.get("last")) == ("last", 1)
        assert not program.call("echo").head.get("last")


@case
def it_hears_a_stop_in_a_job(language):
    def stop(job):
        return json.dumps({"type": "stop", "job": str(job), "why": "stopping"}).encode() + b"\n"

    with Program(language) as program:
        job = program.begin("stop_asked")
        program.send({"type": "stop", "job": job, "why": "cancelled"})
        assert program.finish(job).text == "asked"
        job = program.begin("stop_asked", behind=stop(program.jobs + 1))
        assert program.finish(job).text == "asked", "a stop that came with the call"
        program.send({"type": "stop", "job": job, "why": "stopping"})
        program.send({"type": "future"}, b"ignored")
        assert program.call("sleep", {"ms": 20}).text == "slept", "a stop that came between jobs"
        works(program)


@case
def it_raises_stop_at_sigterm(language):
    def terminated(fn):
        """Signals that come before the function has begun, or when it has ended, do nothing.
        The function 'sleep' catches Stop once it has reported that it has begun."""
        job = program.begin(fn, {"ms": 60000})
        if fn == "sleep":
            assert program.read().type == "progress"
        while not select.select([program.answers], [], [], 0.1)[0]:
            os.kill(program.pid, signal.SIGTERM)
        return program.finish(job)

    with Program(language) as program:
        for _ in range(2):
            done = terminated("sleep")
            assert (done.outcome, done.text) == ("ok", "stopped")
            works(program)
        assert terminated("stopped").outcome in ("failed", "cancel")
        os.kill(program.pid, signal.SIGTERM)
        works(program)
        program.end()


@case
def it_flushes_what_the_function_printed_before_done(language):
    with Program(language) as program:
        for i in range(5):
            done = program.call("print", {"text": f"out {i} é", "error": f"error {i}"})
            assert f"out {i} é".encode() in done.output and f"error {i}".encode() in done.output, done.output
        done = program.call("print", {"text": "o" * 200000, "error": ""})
        assert done.outcome == "ok"


@case
def its_children_hold_neither_pipe(language):
    with Program(language) as program:
        held = program.call("children").text
        assert language.inherits or held == "", held
        child = int(program.call("left_behind").text)
        try:
            program.end()
            if not language.inherits:
                program.move(lambda: program.answers is None)
        finally:
            os.kill(child, signal.SIGKILL)


def asked(program, job, name, value, outcome="saved"):
    """The program waits for the answer to this step."""
    message = program.read()
    assert (message.type, message.head["job"], message.head["name"]) == ("step", job, name), message.head
    assert json.loads(message.body) == value
    assert not program.received and not select.select([program.answers], [], [], 0)[0]
    program.send({"type": "stepped", "job": job, "outcome": outcome})


@case
def it_saves_a_step_and_waits_for_the_answer(language):
    with Program(language) as program:
        for value in ({"receipt": [1, "é€😀", None]}, 7, None, True, "text", [[]]):
            job = program.begin("step", {"name": "a.b_C9", "value": value})
            asked(program, job, "a.b_C9", value)
            assert program.finish(job).value == {"value": value, "ran": 1, "steps": {"a.b_C9": value}}
        works(program)


@case
def it_does_not_repeat_a_step(language):
    with Program(language) as program:
        steps = '{ "a" : {"x": 1}, "é" : null, "c" : [2] }'.encode()
        for parents in (b"", b'{"7": {"id": 7, "outcome": "ok", "result": null}}'):
            for name, value in json.loads(steps).items():
                done = program.call("step", {"name": name, "value": "other"}, parents=parents, steps=steps)
                assert done.value == {"value": value, "ran": 0, "steps": json.loads(steps)}
        job = program.begin("step", {"name": "d", "value": 3}, steps=steps)
        asked(program, job, "d", 3)
        assert program.finish(job).value == {"value": 3, "ran": 1, "steps": {**json.loads(steps), "d": 3}}
        job = program.begin("step", {"name": "d", "value": 4})
        asked(program, job, "d", 4)
        assert program.finish(job).value["ran"] == 1, "the steps of another job are not known"


@case
def it_replaces_the_value_of_a_step(language):
    with Program(language) as program:
        job = program.begin("save", {"name": "page", "values": [1, 2, 3]}, steps=b'{"page": 0}')
        for value in (1, 2, 3):
            asked(program, job, "page", value)
        assert program.finish(job).value == {"page": 3}


@case
def it_ends_a_function_whose_step_is_refused(language):
    with Program(language) as program:
        for outcome in ("invalid", "full", "refused", "gone", "an outcome of a later version"):
            job = program.begin("step", {"name": "charge", "value": 1})
            asked(program, job, "charge", 1, outcome)
            done = program.finish(job)
            assert done.outcome == "failed" and "step 'charge' was not saved" in done.text, done.text
        works(program)


@case
def it_hears_other_messages_while_it_waits_for_a_step(language):
    with Program(language) as program:
        job = program.begin("step", {"name": "a", "value": 1})
        program.send({"type": "stepped", "job": "999", "outcome": "full"})
        program.send({"type": "future", "job": job}, b"a body")
        program.send({"type": "stop", "job": job, "why": "stopping"})
        asked(program, job, "a", 1)
        assert program.finish(job).value["ran"] == 1
        works(program)


@case
def a_step_that_a_signal_interrupts_costs_the_job_only(language):
    with Program(language) as program:
        job = program.begin("step", {"name": "a", "value": 1})
        assert program.read().type == "step"
        os.kill(program.pid, signal.SIGTERM)
        program.send({"type": "stepped", "job": job, "outcome": "saved"})
        assert program.finish(job).outcome in ("failed", "ok")
        works(program)


@case
def an_older_runner_saves_no_steps(language):
    with Program(language) as program:
        done = program.call("step", {"name": "a", "value": 1}, steps=None)
        assert done.outcome == "failed" and "older than 0.2.0" in done.text, done.text
        works(program)


@case
def it_calls_hooks_around_each_job(language):
    with Program(language) as program:
        assert program.call("hooks").value == {"before": 1, "after": 0}
        assert program.call("fail", {"error": "x"}).outcome == "failed"
        assert program.call("hooks").value == {"before": 3, "after": 2}


@case
def it_runs_exit_handlers_at_end_of_file(language):
    with tempfile.TemporaryDirectory() as folder, Program(language) as program:
        path = os.path.join(folder, "bye")
        assert program.call("at_exit", {"path": path}).outcome == "ok"
        assert not os.path.exists(path)
        program.end()
        with open(path) as f:
            assert f.read() == "bye"


# ---- batches


def ran_many(program, *given, stop=None):
    """The ends of a batch, a job for each of these params, and the messages before them."""
    jobs = [program.begin("many", params, **({"more": left} if left else {})) for left, params in counted(given)]
    if stop is not None:
        program.send({"type": "stop", "job": jobs[stop], "why": "cancelled"})
    ends, before = {}, []
    while len(ends) < len(jobs):
        message = program.read()
        assert message.head["job"] in jobs and message.head["job"] not in ends, message.head
        if message.type == "done":
            ends[message.head["job"]] = Done(message, [], b"")
        else:
            before.append(message)
    return [ends[job] for job in jobs], before


@case
def it_saves_steps_of_each_job_of_a_batch(language):
    with Program(language) as program:
        given = [{"do": "step", "value": value} for value in (1, [2], 3)]
        jobs = []
        for (left, params), steps in zip(counted(given), (b"", b'{"one": "old"}', b'{"two": 2}')):
            jobs.append(program.begin("many", params, steps=steps, **({"more": left} if left else {})))
        asked(program, jobs[0], "one", 1)
        asked(program, jobs[2], "one", 3)
        done = [program.read() for _ in jobs]
        assert {one.head["job"]: json.loads(one.body) for one in done} == dict(zip(jobs, ([1], ["old"], [3])))
        works(program)


@case
def a_step_that_is_gone_ends_one_job_of_a_batch(language):
    """The others go on if the function catches what that step raises. Otherwise they come again."""
    with Program(language) as program:
        for word, others in (("try", "ok"), ("step", "snooze")):
            given = [{"do": word, "value": value} for value in (1, 2, 3)]
            jobs = [
                program.begin("many", params, **({"more": left} if left else {})) for left, params in counted(given)
            ]
            asked(program, jobs[0], "one", 1)
            asked(program, jobs[1], "one", 2, "gone")
            if word == "try":
                asked(program, jobs[2], "one", 3)
            done = {message.head["job"]: message for message in (program.read() for _ in jobs)}
            assert [done[job].head["outcome"] for job in jobs] == [others, "failed", others]
            assert b"step 'one' was not saved, since another attempt may run" in done[jobs[1]].body
        alone = program.begin("many", {"do": "step", "value": 1})
        asked(program, alone, "one", 1, "gone")
        assert program.finish(alone).outcome == "failed"
        works(program)


def counted(given):
    """How many follow each of them."""
    return [(len(given) - 1 - i, one) for i, one in enumerate(given)]


@case
def it_announces_a_batch(language):
    with Program(language) as program:
        head = program.functions["many"]
        assert (head["batch"], head["batch_wait_ms"]) == (3, 200)
        assert "batch" not in program.functions["echo"]


@case
def it_ends_each_job_of_a_batch_by_its_entry(language):
    with Program(language) as program:
        given = {"do": "params", "a": [1, "é"]}
        ends, _ = ran_many(
            program, {"do": "text", "text": "three"}, {"do": "dead", "error": "é no"}, {"do": "snooze", "span": "2min"}
        )
        assert [end.outcome for end in ends] == ["ok", "dead", "snooze"]
        assert ends[0].text == "three" and "é no" in ends[1].text and ends[2].head["after_ms"] == 120000
        ends, _ = ran_many(program, {"do": "fail", "error": "wrong"}, given, {"do": "strange"})
        assert [end.outcome for end in ends] == ["failed", "ok", "failed"]
        assert "wrong" in ends[0].text and ends[1].value == given
        works(program)
        (end,), _ = ran_many(program, given)
        assert end.value == given, "a batch of one job"
        program.end()


@case
def it_ends_all_jobs_of_a_batch_alike_without_entries(language):
    with Program(language) as program:
        ends, _ = ran_many(program, {"do": "null"}, {"do": "text", "text": "x"})
        assert [(end.outcome, end.body) for end in ends] == [("ok", b"")] * 2
        for word, text in (("raise", "went wrong"), ("long", "returned 3 outcomes for 2 jobs")):
            ends, _ = ran_many(program, {"do": word, "error": "went wrong"}, {"do": "text", "text": "x"})
            assert [end.outcome for end in ends] == ["failed"] * 2
            assert all(text in end.text for end in ends), ends[0].text
        works(program)


@case
def it_reports_and_hears_of_each_job_of_a_batch(language):
    with Program(language) as program:
        ends, before = ran_many(program, {"do": "progress", "text": "one"}, {"do": "progress", "text": "two"})
        assert [end.outcome for end in ends] == ["ok"] * 2
        assert [(m.head["job"], m.head["text"]) for m in before] == [("1", "one"), ("2", "two")]
        ends, _ = ran_many(program, {"do": "text", "text": "x"}, {"do": "stop_asked"}, {"do": "null "}, stop=1)
        assert [end.text for end in ends] == ["x", "asked", ""]
        hooks = program.call("hooks").value
        assert hooks == {"before": 6, "after": 5}
        works(program)


# ---- the command line


def run(name, language, cases):
    """Returns the number of cases that failed."""
    failed = 0
    for title, check in cases.items():
        try:
            check(language)
        except (AssertionError, KeyError, ValueError, TypeError, OSError) as error:
            failed += 1
            line = traceback.extract_tb(error.__traceback__)[-1]
            print(f"{name}: {title}: {type(error).__name__}: {str(error)[:600]} ({line.line})")
    print(f"{name}: {len(cases) - failed} of {len(cases)} cases passed")
    return failed


def main(arguments):
    if arguments[:2] == ["--basic", "--"] and len(arguments) > 2:
        return run(arguments[2], Language(arguments[2:]), BASIC) > 0
    unknown = [name for name in arguments if name not in LANGUAGES]
    if unknown:
        print(f"conformance.py: '{unknown[0]}' is not one of {', '.join(LANGUAGES)}", file=sys.stderr)
        return 64
    failed = 0
    for name in arguments or LANGUAGES:
        if LANGUAGES[name].missing():
            print(f"{name}: skipped: {LANGUAGES[name].missing()}")
        else:
            failed += run(name, LANGUAGES[name], CASES)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
