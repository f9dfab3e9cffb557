"""Functions that are programs: what is recorded of them, what they are given, and which are refused."""

import json
import os
import re
import signal

import pytest

import pg
from harness import ledger, read_record, wait_for

ROOT = os.geteuid() == 0


def command(db, name, text, *more):
    """A script of the test's folder as function `name`."""
    path = os.path.join(db.dir, name)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)
    return function(name, path, *more)


def function(name, path, *more):
    return f'function "{name}" {{ command = {{"{path}"}} {" ".join(more)} }}\n'


def drain(db, *args, **kw):
    done = db.run(["check_deferred", "--cnt", "0", *args], **kw)
    assert done.returncode == 0, done.stderr
    return done.stderr


def row(db, job, columns):
    return db.sql(f"select {columns} from deferred.__deferred_log where job_id = %s", job)[0]


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_processor_time_and_memory_are_those_of_the_program(db, isolate):
    db.config(command(db, "works", "#!/usr/bin/python3\nx = b'1' * (80 << 20)\nsum(i * i for i in range(6000000))\n"))
    works, idle = db.defer("works"), db.defer("noop")
    drain(db, f"--isolate={isolate}")
    user_us, rss_kb = row(db, works, "user_us, max_rss_kb")
    assert user_us > 100000 and rss_kb > 80 << 10
    assert row(db, idle, "user_us < 100000, max_rss_kb < 40960") == (
        True,
        True,
    ), "the program counts for its own job alone"


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_what_a_program_complained_of_is_kept_when_a_signal_or_the_time_limit_ends_it(db, isolate):
    db.config(
        command(db, "dies", "#!/bin/sh\necho out of paper >&2\nkill -9 $$\n")
        + command(db, "dies_silently", "#!/bin/sh\nkill -9 $$\n")
        + command(db, "lasts", "#!/bin/sh\necho no toner >&2\nexec sleep 60\n", 'timeout = "1s"')
    )
    jobs = [db.defer(fn, max_attempts=1) for fn in ("dies", "dies_silently", "lasts")]
    drain(db, f"--isolate={isolate}")
    assert [row(db, job, "outcome, error") for job in jobs] == [
        ("crashed", "killed by signal 9 (Killed)\nout of paper"),
        ("crashed", "killed by signal 9 (Killed)"),
        ("timeout", "time limit of 1000 ms exceeded\nno toner"),
    ]
    ledger(db)


def test_the_memory_limit_is_named_where_it_may_have_ended_a_program(db):
    db.config(
        'memory_limit = "256m"\n'
        + command(db, "traps", "#!/bin/sh\necho out of space >&2\nkill -TRAP $$\n")
        + command(db, "traps_silently", "#!/bin/sh\nkill -TRAP $$\n")
        + command(db, "floods", "#!/bin/sh\nhead -c 20000 /dev/zero | tr '\\0' x >&2\nkill -TRAP $$\n")
        + command(db, "killed", "#!/bin/sh\nkill -9 $$\n")
    )
    jobs = [db.defer(fn, max_attempts=1) for fn in ("traps", "traps_silently", "floods", "killed")]
    drain(db)
    trap, named = "killed by signal 5 (Trace/breakpoint trap)\n", "memory_limit allows it 262144 KiB of address space\n"
    hint = "hint: raise memory_limit if that is too little; Node.js needs 768m to start"
    errors = [row(db, job, "error")[0] for job in jobs]
    assert errors[0] == f"{trap}out of space\n{named}{hint}"
    assert errors[1] == f"{trap}{named}{hint}"
    assert errors[2].startswith(f"{trap}xxx") and f"xxx\n{named}" in errors[2]
    assert errors[3] == "killed by signal 9 (Killed)"
    db.config(command(db, "traps", "#!/bin/sh\nkill -TRAP $$\n"))
    job = db.defer("traps", max_attempts=1)
    drain(db)
    assert row(db, job, "error") == (trap.strip(),)


def test_programs_are_looked_up_in_folders_of_root_alone(db):
    db.config(command(db, "path", '#!/bin/sh\nprintf %s "$PATH"\n'))
    job = db.defer("path")
    drain(db, env={"PATH": f"{db.dir}:{os.environ['PATH']}"})
    assert row(db, job, "result") == ("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",)


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_a_program_gains_rights_only_where_its_function_says_so(db, isolate):
    look = "#!/bin/sh\nsed -n 's/^NoNewPrivs:.//p' /proc/self/status\n"
    db.config(
        command(db, "keeps", look)
        + command(db, "gains", look, "new_privileges = 1")
        + command(db, "keeps_too", look, 'new_privileges = "0"')
    )
    jobs = [db.defer(fn) for fn in ("keeps", "gains", "keeps_too")]
    drain(db, f"--isolate={isolate}")
    assert [row(db, job, "result")[0] for job in jobs] == ["1", "0", "1"]
    db.config(command(db, "keeps", look, "new_privileges = perhaps"))
    done = db.run(["check_deferred"])
    assert done.returncode == 78 and "new_privileges must be 0 or 1, not 'perhaps'" in done.stderr


def no_new_privs(pid):
    with open(f"/proc/{pid}/status") as f:
        return re.search(r"^NoNewPrivs:\t(.)$", f.read(), re.M)[1]


def test_a_plugin_in_a_process_of_its_own_gains_no_rights_beside_a_program_that_may(db):
    db.config(function("gains", "/bin/true", "new_privileges = 1"))
    db.plugins("unruly")
    record = os.path.join(db.dir, "record")
    db.defer("record", json.dumps({"file": record, "ms": 60000}))
    run = db.spawn(["check_deferred", "--isolate=job", "--grace", "100ms"])
    # Not any child of the runner: one that lists the functions keeps its privileges by itself.
    ((_, _, _, job),) = wait_for(lambda: read_record(record), 20, "the function runs")
    (runner,) = pg.children_of(run.pid)
    assert job in pg.children_of(runner)
    assert no_new_privs(job) == "1"
    assert no_new_privs(runner) == "0", "else this shows nothing"
    run.signal(signal.SIGTERM)
    run.wait(20)


UNSAFE = {
    "file": lambda d: os.chmod(f"{d}/real/tool", 0o777),
    "group": lambda d: os.chmod(f"{d}/real/tool", 0o775),
    "folder": lambda d: os.chmod(f"{d}/real", 0o777),
    "folder above": lambda d: os.chmod(d, 0o777),
    "folder of a link": lambda d: os.chmod(f"{d}/first", 0o777),
    "folder of a link of the link": lambda d: os.chmod(f"{d}/second", 0o777),
    "owner": lambda d: os.chown(f"{d}/real/tool", 5, 5),
    "owner of a link": lambda d: os.lchown(f"{d}/second/tool", 5, 5),
}


def linked(db):
    """first/tool -> second/tool -> real/tool, in a folder of their own."""
    folder = os.path.join(db.dir, "tools")
    for name in "", "first", "second", "real":
        os.makedirs(f"{folder}/{name}", mode=0o755, exist_ok=True)
    with open(f"{folder}/real/tool", "w") as f:
        f.write("#!/bin/sh\necho done\n")
    os.chmod(f"{folder}/real/tool", 0o755)
    os.symlink("../real/tool", f"{folder}/second/tool")
    os.symlink(f"{folder}/second/tool", f"{folder}/first/tool")
    return folder


@pytest.mark.parametrize("unsafe", UNSAFE if ROOT else [u for u in UNSAFE if "owner" not in u])
def test_a_program_that_others_can_write_is_refused(db, unsafe):
    folder = linked(db)
    db.config(function("tool", f"{folder}/first/tool"))
    safe = db.defer("tool")
    drain(db)
    assert db.log(safe) == [(1, "ok")]
    UNSAFE[unsafe](folder)
    job, other = db.defer("tool"), db.defer("noop")
    said = drain(db)
    assert re.search(r"function 'tool': .*(is writable by others|belongs to user 5).*: refused", said), said
    assert db.log(job) == [] and db.log(other) == [(1, "ok")]
    why = db.run(["deferred", "why", job]).stdout
    assert "function tool is refused by the workers that have it" in why and folder in why, why
    doctor = db.run(["deferred", "doctor"])
    assert doctor.returncode and re.search(
        r"fail .*function 'tool': .*(is writable by others|belongs to user 5)", doctor.stdout
    )


def test_a_sticky_folder_keeps_the_programs_in_it(db):
    folder = linked(db)
    os.chmod(f"{folder}/real", 0o1777)
    db.config(function("tool", f"{folder}/first/tool"))
    job = db.defer("tool")
    drain(db)
    assert db.log(job) == [(1, "ok")]


def test_a_program_that_becomes_writable_is_not_run_by_runners_that_were_there_before(db):
    folder = linked(db)
    db.config(function("tool", f"{folder}/first/tool") + 'interval_floor = "20ms"\ninterval_ceiling = "50ms"\n')
    run = db.spawn(["check_deferred", "--loop"])
    job = db.defer("tool")
    wait_for(lambda: db.log(job) == [(1, "ok")], 20)
    os.chmod(f"{folder}/real/tool", 0o777)
    later = db.defer("tool")
    wait_for(lambda: db.log(later), 20)
    outcome, error = row(db, later, "outcome, error")
    assert outcome != "ok" and "is writable by others" in error
    os.chmod(f"{folder}/real/tool", 0o755)
    wait_for(lambda: db.log(later)[-1][1] == "ok", 60, "it is run once it is safe")
    assert run.alive(), run.output()
