"""A server that is known by name, and name servers that answer, refuse, or never say a word."""

import os
import re
import signal
import socket
import subprocess
import time

import pytest

import harness
import pg
from harness import ledger, wait_for
from nameserver import PATIENCE_S, NameServer
from proxy import Proxy

SETTINGS = 'interval_floor = "1s"\ninterval_ceiling = "1s"\n'
IDLE = """select 1 from pg_stat_activity where application_name = 'check_deferred' and datname = current_database()
          and state = 'idle' and state_change < clock_timestamp() - interval '0.2 s'"""


@pytest.fixture
def names(db):
    with NameServer({"db.test": "127.0.0.1"}, db.dir) as server:
        yield server


def by_name(db, proxy, more="", ports=""):
    return (
        f"host=db.test{more} port={proxy.port}{ports} user={pg.USER} dbname={db.name} "
        "sslmode=disable gssencmode=disable"
    )


def service(db, names, conninfo, *args):
    run = db.spawn(names.asked_by("check_deferred", "--loop", *args), env={"DEFERRED_DB": conninfo})
    job = db.defer("noop")
    wait_for(
        lambda: db.log(job) == [(1, "ok")] and db.sql(IDLE) or not run.alive(), 20, "it has the answer of its record"
    )
    assert run.alive(), run.output()
    return run


def lose(names, proxy):
    names.silent = proxy.refuse = True
    before = names.asked
    proxy.cut()
    wait_for(lambda: names.asked > before, 20, "the name is looked up")


def test_a_service_notices_sigterm_while_no_name_server_answers(db, names):
    db.config(SETTINGS)
    with Proxy(db.cluster) as proxy:
        run = service(db, names, by_name(db, proxy))
        lose(names, proxy)
        run.signal(signal.SIGTERM)
        assert run.wait(PATIENCE_S / 2) == 0, run.output()
    assert "asked to stop" in run.output()


def test_leases_are_renewed_through_another_host_while_no_name_server_answers(db, names):
    db.config(SETTINGS + 'lease = "4s"\n')
    with Proxy(db.cluster) as proxy:
        run = service(db, names, by_name(db, proxy, "," + db.cluster.folder, f",{pg.PORT}"))
        job = db.defer("sleep", '{"ms": 6000}')
        wait_for(lambda: db.held(job), 20, "it is at the job")
        lose(names, proxy)
        wait_for(lambda: db.log(job), PATIENCE_S / 2, "the job has ended, for its lease was renewed")
        run.signal(signal.SIGTERM)
        assert run.wait(20) == 0, run.output()
    assert db.log(job) == [(1, "ok")]
    ledger(db)


def test_a_service_connects_again_when_the_name_servers_answer_again(db, names):
    db.config(SETTINGS)
    with Proxy(db.cluster) as proxy:
        run = service(db, names, by_name(db, proxy))
        lose(names, proxy)
        wait_for(lambda: "no name server has answered" in run.output(), 30, "it says why")
        names.silent = proxy.refuse = False
        job = db.defer("noop")
        wait_for(lambda: db.log(job) == [(1, "ok")], PATIENCE_S / 2, "it works again")
        run.signal(signal.SIGTERM)
        assert run.wait(20) == 0, run.output()


@pytest.mark.parametrize("program", ["deferred_http", "deferred_web"])
def test_services_of_http_end_while_no_name_server_answers(db, names, program):
    names.silent = True
    conf = os.path.join(db.dir, "front.conf")
    with open(conf, "w") as f:
        os.fchmod(f.fileno(), 0o600)
    run = db.spawn(
        names.asked_by(program, "--listen", "127.0.0.1:0", "--config", conf),
        env={"DEFERRED_DB": f"host=db.test user={pg.USER} dbname={db.name}"},
    )
    port = wait_for(lambda: re.search(r"listening on \S+:(\d+),", run.output()) or not run.alive(), 20, "it listens")[1]
    with socket.create_connection(("127.0.0.1", int(port))) as visitor:
        visitor.sendall(b"GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic dTpw\r\n\r\n")
        wait_for(lambda: names.asked or not run.alive(), 20, "the name is looked up")
        run.signal(signal.SIGTERM)
        run.wait(PATIENCE_S / 2)


def test_connect_timeout_counts_for_the_name_too(db, names):
    names.silent = True
    start = time.monotonic()
    done = db.run(names.asked_by("deferred", "ls"), env={"DEFERRED_DB": "host=db.test connect_timeout=2"})
    assert time.monotonic() - start < PATIENCE_S / 2
    assert done.returncode == 69 and 'host name "db.test"' in done.stderr
    assert "no name server has answered for 2." in done.stderr
    assert "/etc/resolv.conf" in done.stderr


def test_a_name_that_is_unknown_says_so_and_the_next_host_is_taken(db, names):
    done = db.run(names.asked_by("deferred", "ls"), env={"DEFERRED_DB": "host=nowhere.test"})
    assert done.returncode == 69
    assert 'could not translate host name "nowhere.test" to address: Name or service not known' in done.stderr
    two = f"host=nowhere.test,{db.cluster.folder} port={pg.PORT} user={pg.USER} dbname={db.name}"
    done = db.run(names.asked_by("deferred", "ls"), env={"DEFERRED_DB": two})
    assert done.returncode == 0, done.stderr


def test_each_address_of_a_name_is_tried_and_a_refusal_names_host_and_address(db, names):
    with Proxy(db.cluster) as proxy:
        names.known["two.test"] = ["127.0.0.2", "127.0.0.1"]
        env = {"DEFERRED_DB": by_name(db, proxy).replace("db.test", "two.test")}
        assert db.run(names.asked_by("deferred", "ls"), env=env).returncode == 0
    done = db.run(names.asked_by("deferred", "ls"), env={"DEFERRED_DB": "host=two.test port=1"})
    assert done.returncode == 69 and 'connection to server at "two.test" (127.0.0.' in done.stderr, done.stderr


@pytest.fixture(scope="module")
def certain():
    """A server that has a certificate, and takes nobody without a password, at an address of its own."""
    address = "127.{}.{}.{}".format(54, os.getpid() >> 8 & 255, os.getpid() & 255)
    server = harness.OwnServer(settings={"listen_addresses": f"'{address}'"})
    try:
        data = server.cluster.data
        subprocess.run(
            [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=db.test",
                "-addext",
                "subjectAltName=DNS:db.test",
                "-keyout",
                f"{data}/server.key",
                "-out",
                f"{data}/server.crt",
            ],
            check=True,
            capture_output=True,
        )
        for name in "server.key", "server.crt":
            os.chmod(f"{data}/{name}", 0o600)
            pg.give_to_server(f"{data}/{name}")
        with open(f"{data}/pg_hba.conf") as f:
            rest = f.read()
        with open(f"{data}/pg_hba.conf", "w") as f:
            f.write("hostssl all certain all scram-sha-256\nhost all certain all reject\n" + rest)
        server.sql("create role certain superuser login password 'word'")
        server.sql("alter system set ssl = on")
        server.sql("select pg_reload_conf()")
        wait_for(lambda: server.one("show ssl") == "on")
        server.address = address
        with open(os.path.join(server.dir, "passfile"), "w") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write("db.test:*:*:certain:word\n")
        with open(os.path.join(server.dir, "services"), "w") as f:
            f.write(f"[app]\nhost=db.test\nport={pg.PORT}\ndbname={server.name}\nuser=certain\n")
        yield server
    finally:
        server.close()


NAMED = f"port={pg.PORT} user=certain dbname=own"


@pytest.mark.parametrize(
    "conninfo,env",
    [
        (f"host=db.test {NAMED}", {}),
        (f"host=nowhere.test,db.test {NAMED} target_session_attrs=read-write", {}),
        (f"host=other.test,db.test {NAMED}", {}),
        (f"postgresql://certain@db.test:{pg.PORT}/own", {}),
        (f"postgresql://certain@other.test:1,db.test:{pg.PORT}/own", {}),
        ("service=app", {}),
        ("", {"PGSERVICE": "app"}),
        ("", {"PGHOST": "db.test", "PGPORT": str(pg.PORT), "PGUSER": "certain", "PGDATABASE": "own"}),
        (f"host=db.test hostaddr=ADDRESS {NAMED}", {}),
        (f"host=nowhere.test,db.test hostaddr=127.0.0.3,ADDRESS {NAMED}", {}),
        (f"host=db.test,db.test hostaddr=127.0.0.3, {NAMED}", {}),
    ],
)
def test_the_host_that_was_named_is_the_one_that_certificate_and_password_are_for(certain, conninfo, env):
    with NameServer({"db.test": certain.address, "other.test": "127.0.0.3"}, certain.dir) as names:
        given = {
            "PGSSLMODE": "verify-full",
            "PGSSLROOTCERT": f"{certain.cluster.data}/server.crt",
            "PGPASSFILE": f"{certain.dir}/passfile",
            "PGSERVICEFILE": f"{certain.dir}/services",
            "PGGSSENCMODE": "disable",
        }
        done = certain.run(
            names.asked_by("deferred", "status"),
            env={**given, **env, "DEFERRED_DB": conninfo.replace("ADDRESS", certain.address)},
        )
        assert done.returncode == 0, done.stderr
        # Another name of the same address is not in the certificate.
        names.known["wrong.test"] = [certain.address]
        wrong = f"host=wrong.test {NAMED} password=word"
        done = certain.run(names.asked_by("deferred", "status"), env={**given, "DEFERRED_DB": wrong})
        assert done.returncode == 69 and 'does not match host name "wrong.test"' in done.stderr, done.stderr
