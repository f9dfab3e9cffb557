"""What must not be seen: a password on the command line or in a message."""

import contextlib
import os
import socket

import pytest

import harness


def command_line(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        return f.read()


@pytest.fixture
def silent():
    """A server that never answers: (conninfo beginning, wait until somebody has connected)."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.settimeout(30)
        yield f"127.0.0.1 port={listener.getsockname()[1]}", listener


FORMS = [
    "host={} user=me password=hunter2",
    "password = 'hunter2' host={}",
    "postgresql://me:hunter2@{}/x",
    "postgresql://me:hunter2?@{}/x",
    "postgresql://{}/x?password=hunter2",
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "args",
    [
        ["check_deferred", "--db", None],
        ["check_deferred", "--db=", None],
        ["deferred", "--db", None, "ls"],
        ["deferred", "ls", "--db=", None],
        ["deferred_http", "--listen", "127.0.0.1:0", "--db", None],
    ],
    ids=lambda a: " ".join(w or "" for w in a),
)
def test_a_password_does_not_stay_in_the_list_of_processes(db, silent, args, form):
    place, listener = silent
    if "://" in form:
        place = place.replace(" port=", ":")
    i = args.index(None)
    conninfo = form.format(place)
    line = args[:i] + [conninfo] + args[i + 1 :]
    if args[i - 1].endswith("="):
        line[i - 1 : i + 1] = [args[i - 1] + conninfo]
    with open(os.path.join(db.dir, "key"), "w") as f:
        os.fchmod(f.fileno(), 0o600)
        f.write("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")
    run = db.spawn(line, env={"DEFERRED_HTTP_KEY_FILE": os.path.join(db.dir, "key")})
    client, _ = listener.accept()  # it has read its options, and uses what they say
    try:
        if os.geteuid() == 0:  # others do not see the environment of a program that holds secrets
            with open(f"/proc/{run.pid}/environ", "rb") as f:
                assert b"DEFERRED_CONFIG" in f.read()  # nothing else was overwritten
        said = command_line(run.pid)
        assert said.startswith(harness.program(args[0]).encode()) and b"--db" in said
        assert b"hunter2" not in said
    finally:
        client.close()
        run.kill()


def test_what_holds_no_password_stays_as_it_is(db, silent):
    place, listener = silent
    run = db.spawn(["deferred", "ls", "--db", f"host={place} user=me"])
    client, _ = listener.accept()
    assert f"host={place} user=me".encode() in command_line(run.pid)
    client.close()
    run.kill()


def test_the_connection_is_made_with_the_password_all_the_same(db):
    assert db.run(["deferred", "ls", "--db", db.conninfo + " password=hunter2"]).returncode == 0
    assert db.run(["check_deferred", "--db", db.conninfo + " password=hunter2"]).returncode == 0


@pytest.mark.parametrize(
    "conninfo", ["postgresql://me:hunter2@[::1/x", "postgresql://me:%zzhunter2@h/x", "host=h password=correct hunter2"]
)
def test_a_refusal_does_not_repeat_the_password(db, conninfo):
    for args in (["check_deferred"], ["deferred", "ls"]):
        done = db.run([*args, "--db", conninfo])
        assert (
            done.returncode != 0 and "invalid connection string: it cannot be read, and has a password" in done.stderr
        )
        assert "hunter2" not in done.stdout + done.stderr
    done = db.run(["check_deferred", "--db", "hots=h"])
    assert done.returncode == 78 and 'invalid connection option "hots"' in done.stderr
