"""Whom functions run as: never as root by mistake, and as somebody whose surroundings are that user's own."""

import json
import os
import pwd
import re
import shutil
import signal
import subprocess

import pytest

import harness
from conversation import act, program
from harness import ledger

__test__ = os.geteuid() == 0  # only root can switch users
NOBODY = pwd.getpwnam("nobody")
REFUSED = {"DEFERRED_ALLOW_ROOT": ""}


@pytest.mark.parametrize("env", [{}, {"DEFERRED_USER": "root"}], ids=["no user", "user = root"])
@pytest.mark.parametrize("due", [False, True])
def test_functions_do_not_run_as_root_unless_asked_to(db, env, due):
    """A start says so at once, with nothing due as well, and before it takes the pid file or connects."""
    job = db.defer("echo") if due else None
    done = db.run(["check_deferred", "--db", "host=/nowhere"], env={**REFUSED, **env})
    assert done.returncode == 78 and 'add user = "deferred"' in done.stderr and "allow_root = 1" in done.stderr
    assert done.stderr.count("\n") == 1 and not os.path.exists(db.pidfile)
    done = db.run(["check_deferred"], env={**REFUSED, **env})
    assert done.returncode == 78
    if due:
        assert db.log(job) == []
        for args, more in ((["--allow-root"], {}), ([], {"DEFERRED_ALLOW_ROOT": "1"})):
            done = db.run(["check_deferred", *args], env={**REFUSED, **env, **more})
            assert done.returncode == 0 and "as root" not in done.stderr, "cron would mail that each minute"
            job = db.defer("echo")
        service = db.spawn(["check_deferred", "--loop"], env={**REFUSED, **env, "DEFERRED_ALLOW_ROOT": "1"})
        harness.wait_for(lambda: "functions run as root because allow_root = 1" in service.output())
        service.signal(signal.SIGTERM)
        service.wait()
        said = db.run(["deferred", "doctor"], env={**REFUSED, **env, "DEFERRED_ALLOW_ROOT": "1"}).stdout
        assert "functions run as root because allow_root = 1" in said
        assert db.hot() == 1
    ledger(db)


def test_a_function_run_by_hand_does_not_run_as_root_either(db):
    done = db.run(["deferred", "run", "echo", "{}"], env=REFUSED)
    assert done.returncode == 78 and 'user = "deferred"' in done.stderr and done.stdout == ""
    assert db.run(["deferred", "run", "echo", "{}"]).stdout == "{}\n"


def test_a_service_keeps_its_word_when_settings_are_read_again(db):
    db.config("allow_root = 1\n")
    run = db.spawn(["check_deferred", "--loop", "--interval-floor", "10ms", "--interval-ceiling", "10ms"], env=REFUSED)
    job = db.defer("echo")
    harness.wait_for(lambda: db.log(job) == [(1, "ok")], 20)
    db.config("allow_root = 0\n")
    run.signal(1)
    harness.wait_for(lambda: "setting 'allow_root' has changed; hint: restart to apply it" in run.output(), 20)
    run.signal(15)
    assert run.wait() == 0


# What a function sees of its surroundings: a command tells.
TELL = (
    "import os, json; print(json.dumps({'uid': os.getuid(), 'groups': os.getgroups(), 'cwd': os.getcwd(), 'umask': "
    "os.umask(0), "
    "'env': {k: os.environ.get(k) for k in ('HOME', 'USER', 'LOGNAME', 'SHELL')}}))"
)


@pytest.fixture
def tell(db):
    """The surroundings of a command under check_deferred, and under `deferred run`; its files are
    those anybody may read."""
    for folder in (harness.root(), db.dir):
        os.chmod(folder, 0o711)

    def tell(env, **kw):
        db.config(f'function "tell" {{ command = {{"/usr/bin/python3", "-c", "{TELL}"}} }}\n')
        job = db.defer("tell")
        done = db.run(["check_deferred"], env=env, **kw)
        assert done.returncode == 0, done.stderr
        (first,) = db.sql("select result, error from deferred.__deferred_log where job_id = %s", job)
        by_hand = db.run(["deferred", "run", "tell"], env=env, **kw)
        assert by_hand.returncode == 0, by_hand.stderr
        assert json.loads(first[0]) == json.loads(by_hand.stdout)
        return json.loads(by_hand.stdout)

    return tell


def test_functions_have_the_surroundings_of_their_user(db, tell):
    private = os.path.join(db.dir, "private")
    os.mkdir(private, 0o700)
    told = tell(
        {
            **REFUSED,
            "DEFERRED_USER": "nobody",
            "HOME": "/root",
            "USER": "root",
            "LOGNAME": "root",
            "SHELL": "/bin/bash",
        },
        cwd=private,
        preexec_fn=lambda: os.umask(0o077),
    )
    home = NOBODY.pw_dir if os.path.isdir(NOBODY.pw_dir) else "/"
    assert told == {
        "uid": NOBODY.pw_uid,
        "groups": [NOBODY.pw_gid],
        "cwd": home,
        "umask": 0o022,
        "env": {"HOME": NOBODY.pw_dir, "USER": "nobody", "LOGNAME": "nobody", "SHELL": NOBODY.pw_shell},
    }


def test_without_another_user_they_have_those_of_check_deferred(db, tell):
    told = tell(
        {"HOME": db.dir, "USER": "me", "LOGNAME": "me", "SHELL": "/bin/x"},
        cwd=db.dir,
        preexec_fn=lambda: os.umask(0o027),
    )
    assert told == {
        "uid": 0,
        "groups": os.getgroups(),
        "cwd": db.dir,
        "umask": 0o027,
        "env": {"HOME": db.dir, "USER": "me", "LOGNAME": "me", "SHELL": "/bin/x"},
    }


def test_a_plugin_has_them_too(db):
    """The runner itself: its folder, umask and groups as the kernel tells them."""
    for folder in (harness.root(), db.dir):
        os.chmod(folder, 0o711)
    folder = db.plugins()
    assert os.path.exists(os.path.join(folder, "sample.so"))
    db.defer("sleep", '{"ms": 60000}')
    run = db.spawn(["check_deferred", "--grace", "0"], env={**REFUSED, "DEFERRED_USER": "nobody"})
    harness.wait_for(lambda: db.orphans() and db.sql("select 1 from deferred.__held"), 20)
    (pid,) = db.orphans()
    with open(f"/proc/{pid}/status") as f:
        status = f.read()
    assert re.search(r"^Umask:\t0022$", status, re.M)
    for line in (
        f"Uid:\t{NOBODY.pw_uid}\t{NOBODY.pw_uid}\t{NOBODY.pw_uid}\t{NOBODY.pw_uid}",
        f"Groups:\t{NOBODY.pw_gid} ",
        "CapEff:\t0000000000000000",
    ):
        assert line in status, status
    assert os.readlink(f"/proc/{pid}/cwd") == (NOBODY.pw_dir if os.path.isdir(NOBODY.pw_dir) else "/")
    run.signal(15)
    run.wait()
    shutil.rmtree(folder)


def test_a_resident_program_has_them_too(db):
    for folder in (harness.root(), db.dir):
        os.chmod(folder, 0o711)
    look = (
        "umask = os.umask(0)\n"
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "names = ('HOME', 'USER', 'LOGNAME', 'SHELL')\n"
        "done(body=json.dumps([os.getuid(), os.getgroups(), os.getcwd(), umask, status['CapEff'].strip(),"
        " status['NoNewPrivs'].strip(), [os.environ.get(name) for name in names]]))"
    )
    db.config(program(db))
    job = act(db, look)
    done = db.run(["check_deferred", "--user", "nobody"], env=REFUSED)
    assert done.returncode == 0, done.stderr
    home = NOBODY.pw_dir if os.path.isdir(NOBODY.pw_dir) else "/"
    assert json.loads(db.one("select result from deferred.__deferred_log where job_id = %s", job)) == [
        NOBODY.pw_uid,
        [NOBODY.pw_gid],
        home,
        0o022,
        "0" * 16,
        "1",
        [NOBODY.pw_dir, "nobody", "nobody", NOBODY.pw_shell],
    ]
    ledger(db)


# A program of one job that looks for another one, which runs beside it, in all processes it can see.
SPY = r"""#!/usr/bin/python3
import glob, os, time
seen = []
def look(path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return os.read(fd, 100000)
        finally:
            os.close(fd)
    except OSError:
        return b""
while not os.path.exists("FOLDER/paying"):
    time.sleep(0.01)
for folder in glob.glob("/proc/[0-9]*"):
    if os.path.basename(folder) == str(os.getpid()):
        continue
    task = "task/" + os.path.basename(folder)
    for name in "environ", "fd/0", "fd/4", "cwd/../../proc/self/environ", task + "/environ":
        text = look(f"{folder}/{name}")
        if b"DEFERRED_JOB_FN=pay" in text or b"4111-SECRET" in text:
            seen.append(name)
    try:
        os.close(os.open(f"{folder}/mem", os.O_RDWR))
        seen.append("mem")
    except OSError:
        pass
open("FOLDER/done", "w")
print(sorted(set(seen)))
"""
PAY = """#!/bin/sh
touch FOLDER/paying
while [ ! -e FOLDER/done ]; do sleep 0.1; done
"""
PAY_IN_PROGRAM = "open('FOLDER/paying', 'w')\nwhile not os.path.exists('FOLDER/done'): time.sleep(0.1)\ndone()"


def in_container(db, args, ids, first):
    """Runs a program in a user namespace that has so many ids, after a first command in it."""
    run = db.spawn(
        ["unshare", "--user", "sh", "-c", f'read go && {first} && exec "$@"', "sh", *args],
        env=REFUSED,
        stdin=subprocess.PIPE,
    )
    own = os.readlink("/proc/self/ns/user")
    harness.wait_for(lambda: os.readlink(f"/proc/{run.pid}/ns/user") != own, 20)
    for name in "uid_map", "gid_map":
        with open(f"/proc/{run.pid}/{name}", "w") as f:
            f.write(f"0 0 {ids}")
    run.process.stdin.write(b"go\n")
    run.process.stdin.close()
    return run.wait(60), run.output()


def functions(db, more="", **programs):
    """Declares programs, each a function, with a folder that all of them write into."""
    out = os.path.join(db.dir, "out")
    os.chmod(db.dir, 0o711)
    os.mkdir(out)
    os.chown(out, NOBODY.pw_uid, NOBODY.pw_gid)
    settings = ""
    for name, text in programs.items():
        path = os.path.join(db.dir, name)
        with open(path, "w") as f:
            f.write(text.replace("FOLDER", out))
        os.chmod(path, 0o755)
        settings += f'function "{name}" {{ command = {{"{path}"}} {more} }}\n'
    db.config(settings)
    os.chmod(db.config_file, 0o644)


def beside_each_other(db, container=(), more="", resident=False):
    """What a spy finds of a job that runs at the same time as the same user, perhaps in a resident program."""
    functions(db, more, spy=SPY, **({} if resident else {"pay": PAY}))
    params = {"card": "4111-SECRET", "do": PAY_IN_PROGRAM.replace("FOLDER", os.path.join(db.dir, "out"))}
    if resident:
        with open(db.config_file) as f:
            db.config(f.read() + program(db, functions=["pay"]))
    pay, spy = db.defer("pay", json.dumps(params)), db.defer("spy")
    args = ["check_deferred", "--cnt", "2", "--runners", "2", "--user", "nobody"]
    if container:
        code, said = in_container(db, harness.command(args), *container)
    else:
        done = db.run(args, env=REFUSED)
        code, said = done.returncode, done.stderr
    assert code == 0, said
    assert db.log(pay) == db.log(spy) == [(1, "ok")]
    ledger(db)
    return json.loads(db.one("select result from deferred.__deferred_log where job_id = %s", spy).replace("'", '"'))


@pytest.mark.parametrize("resident", [False, True])
def test_functions_of_one_user_see_nothing_of_each_other(db, resident):
    assert beside_each_other(db, resident=resident) == []


def test_a_resident_program_in_no_namespace_is_seen(db):
    assert "mem" in beside_each_other(db, (65535, "true"), resident=True), "else the test before shows nothing"


@pytest.mark.parametrize(
    "container",
    [(65535, "true"), (4294967295, "sh -c 'echo 0 >/proc/sys/user/max_user_namespaces'")],
    ids=["part of all ids", "no namespaces"],
)
def test_where_no_user_namespaces_can_be_made_functions_run_without(db, container):
    assert "environ" in beside_each_other(db, container), "else this shows nothing"


def test_beside_a_program_that_may_gain_rights_functions_are_outside_too(db):
    assert "environ" in beside_each_other(db, more="new_privileges = 1")


def test_in_its_namespace_a_function_sees_files_and_users_as_they_are(db):
    db.config(
        'function "look" { command = {"/bin/sh", "-c", "stat -c %u:%g /etc/passwd; id -u; id -g; id -G; cat '
        '/proc/self/uid_map"} }\n'
    )
    os.chmod(db.dir, 0o711)
    job = db.defer("look")
    done = db.run(["check_deferred", "--user", "nobody"], env=REFUSED)
    assert done.returncode == 0, done.stderr
    groups = " ".join(map(str, os.getgrouplist("nobody", NOBODY.pw_gid)))
    result = db.one("select result from deferred.__deferred_log where job_id = %s", job).split("\n")
    assert result[:4] == ["0:0", str(NOBODY.pw_uid), str(NOBODY.pw_gid), groups] and result[4].split() == [
        "0",
        "0",
        "4294967295",
    ]


# A program that ends while a process it started lives on, in a session of its own; and one that looks for that process.
LEAVE = """#!/bin/sh
setsid sh -c 'echo $$ >FOLDER/left; exec sleep 600' &
while [ ! -s FOLDER/left ]; do sleep 0.01; done
"""
LOOK = "#!/bin/sh\ntr '\\0' ' ' </proc/$(cat FOLDER/left)/cmdline || :\n"


@pytest.mark.parametrize("isolate", ["child", "job"])
def test_what_a_program_left_behind_is_gone_when_the_next_job_begins(db, isolate):
    """The two may be jobs of different roles, and have one runner."""
    functions(db, leave=LEAVE, look=LOOK)
    leave, look = db.defer("leave", priority=1), db.defer("look")
    args = ["check_deferred", "--cnt", "2", "--runners", "1", "--user", "nobody", f"--isolate={isolate}"]
    done = db.run(args, env=REFUSED)
    assert done.returncode == 0 and db.log(leave) == [(1, "ok")], done.stderr
    assert db.one("select result from deferred.__deferred_log where job_id = %s and outcome = 'ok'", look) is None
    ledger(db)
