"""What programs say where the server answers, but lets nobody in: the hint fits the refusal."""

import os
import re
import signal
import socket
import threading

import pytest

import harness

RUNNING = "is the server running"


def refused(db, program="deferred", **conninfo):
    """What a program says in one line, with the hint."""
    env = {"DEFERRED_DB": db.conninfo + "".join(f" {k}={v}" for k, v in conninfo.items())}
    done = db.run([program, *(["ls"] if program == "deferred" else [])], env=env)
    assert done.returncode == 69, done
    return " ".join(done.stderr.split())


def test_who_and_what_is_not_there_is_named(db):
    for program in "deferred", "check_deferred":
        said = refused(db, program, user="nobody_there")
        assert 'create role "nobody_there" login in role deferred_worker' in said and RUNNING not in said
        said = refused(db, program, dbname="no_such_db")
        assert 'createdb "no_such_db"' in said and "3D000" not in said and RUNNING not in said
        assert RUNNING in refused(db, program, host="/nonexistent")
        # The server that answered says more than the one that did not.
        assert "nobody_there" in refused(db, program, host=f"/nonexistent,{db.cluster.folder}", user="nobody_there")


def test_rights_and_room_for_a_connection(db):
    name = f"shut_out_{os.getpid()}"
    db.sql(f"create role {name} login; revoke connect on database {db.name} from public")
    try:
        assert f'grant connect on database "{db.name}" to "{name}"' in refused(db, user=name)
        db.sql(f"grant connect on database {db.name} to {name}; alter role {name} connection limit 0")
        said = refused(db, user=name)
        assert "connections of the server" in said and RUNNING not in said
    finally:
        db.sql(f"drop owned by {name}; drop role {name}")


def test_peer_authentication_and_a_server_that_stops(own_server, wait_for):
    db = own_server
    db.sql("create role somebody login")
    hba = os.path.join(db.cluster.data, "pg_hba.conf")
    with open(hba) as f:
        rules = f.read()
    with open(hba, "w") as f:
        f.write("local all somebody peer\n" + rules)
    db.sql("select pg_reload_conf()")
    shut_out = {"DEFERRED_DB": db.conninfo + " user=somebody"}
    wait_for(lambda: db.run(["deferred", "ls"], env=shut_out).returncode == 69, what="the rule for somebody")
    said = refused(db, user="somebody")
    assert "peer authentication" in said and "user=" in said and RUNNING not in said and "create role" not in said
    db.sql("select 1")  # an open session keeps a smart shutdown waiting
    os.kill(db.cluster.pid(), signal.SIGTERM)
    wait_for(lambda: db.run(["deferred", "ls"]).returncode == 69, what="a server that stops")
    said = refused(db)
    assert "starts or stops" in said and RUNNING not in said


@pytest.mark.parametrize(
    "answer, conninfo",
    [(b"N", {"sslmode": "require"}), (b"S", {"sslmode": "verify-full", "sslrootcert": "/nonexistent"})],
)
def test_certificates_and_encryption(db, answer, conninfo):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    with server.accept()[0] as client:
                        client.recv(8)
                        client.sendall(answer)
                        client.recv(1)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        said = refused(db, host="127.0.0.1", port=server.getsockname()[1], **conninfo)
        server.shutdown(socket.SHUT_RDWR)
    assert "sslmode" in said and "sslrootcert" in said and RUNNING not in said


def test_a_database_without_the_schema_is_named_as_the_cause(db):
    db.sql("drop schema deferred cascade")
    for program in "deferred", "check_deferred", "check_deferred --loop", "deferred_http --listen 127.0.0.1:0":
        name, *options = program.split()
        started = db.spawn([name, *options, *(["ls"] if name == "deferred" else [])])
        said = harness.wait_for(lambda: re.search(".*deferred migrate", started.output(), re.S), what="a complaint")[0]
        assert "the database has no schema 'deferred'; this program works" in said and "relation" not in said
        started.kill()
