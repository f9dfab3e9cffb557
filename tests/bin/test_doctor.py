"""`deferred doctor`: one run in which all is well, and for each check what it is for, brought about."""

import datetime
import json
import os
import pwd
import re
import struct
import subprocess

import psycopg2
import pytest

import harness
import pg
from conversation import HELPER, pids, program, section
from mailserver import Smtpd
from test_deferred import login
from test_figures import checked, deferred, metrics

OK, WARN, FAIL, UNKNOWN = 0, 1, 2, 3


@pytest.fixture
def doctor(db):
    """Calls it as the role a line of cron connects as; findings by check, each (status, what, why, do)."""
    db.worker, env = login(db, "deferred_worker", "pg_read_all_stats")

    def ask(code, env=env, options=(), **kw):
        done = db.run(["deferred", *options, "--json", "doctor"], env=env, **kw)
        found = {}
        for f in json.loads(done.stdout):
            assert (f["status"] == "ok") == ("what" not in f), f
            if f["status"] != "ok":
                assert f["what"] and f["why"] and f["do"], f
                found.setdefault(f["check"], []).append((f["status"], f["what"], f["why"], f["do"]))
        # fsync is off for these tests, which is a warning by itself. Other tests may stream from the same server.
        first = found.get("durability", [("", "")])[0]
        warned = first[0] == "warn" and first[1].startswith("none: fsync is off") and found.pop("durability")
        assert done.returncode == (WARN if warned and code in (OK, UNKNOWN) else code) and done.stderr == "", done
        return found

    ask.env = env
    return ask


@pytest.fixture
def smtpd(tmp_path):
    servers = []

    def start(*args):
        servers.append(Smtpd(tmp_path / f"mail{len(servers)}", *args))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def durable():
    """A database and the environment of a worker, on a server that doctor has nothing to warn of."""
    server = harness.OwnServer(settings={"fsync": "on"})
    yield server, login(server, "deferred_worker", "pg_read_all_stats")[1]
    server.close()


def test_all_is_well(durable):
    db, env = durable
    db.defer("noop")
    db.run(["check_deferred"])
    done = db.run(["deferred", "doctor"], env=env)
    assert done.returncode == OK and done.stderr == ""
    checks = [line.split() for line in done.stdout.splitlines()]
    assert (
        {c[0] for c in checks} == {"ok"}
        and {" ".join(c[1:3]) for c in checks if len(c) > 2} <= {"durability (local:", "user (functions"}
        and len(checks) == 25
    ), done.stdout


def test_a_server_that_does_not_write_to_disk(db, doctor):
    done = db.run(["deferred", "--json", "doctor"], env=doctor.env)
    (told,) = [f for f in json.loads(done.stdout) if f["status"] != "ok"]
    assert done.returncode == WARN and (told["check"], told["status"]) == ("durability", "warn")
    assert told["what"].startswith("none: fsync is off") and "alter system set fsync = on" in told["do"]


def test_what_is_wrong_with_the_config_and_the_connection(db, doctor):
    for env, status, what in (
        ({"DEFERRED_DB": "host=/nonexistent"}, "connection", "cannot connect"),
        ({"DEFERRED_DB": db.conninfo + " user=nobody_there"}, "connection", "nobody_there"),
        ({"DEFERRED_CONFIG": "/nonexistent"}, "config", "/nonexistent"),
    ):
        found = doctor(FAIL, env={**doctor.env, **env})
        assert list(found) == [status] and what in found[status][0][1]
    db.config("cntt = 1\n")
    assert "setting 'cntt' is unknown" in doctor(FAIL)["config"][0][1]


def test_what_is_wrong_with_schema_and_role(db, doctor):
    assert doctor(WARN, env={})["role"][0][1].endswith("a superuser")
    name, nothing = login(db, "deferred_producer")
    found = doctor(FAIL, env=nothing)
    # What an application lacks is no right of its role: doctor is for that of the workers.
    for _, _, _, remedy in (f for fs in found.values() for f in fs):
        assert not remedy.startswith("grant deferred_worker")
    assert "create role deferred_run login in role deferred_worker" in found["role"][0][3]
    db.sql(f"grant deferred_owner to {name}")
    told = doctor(FAIL, env=nothing)["role"]
    assert [t[0] for t in told] == ["warn", "fail"] and told[0][
        3
    ] == f"revoke deferred_owner from {name}; grant deferred_worker to {name}"
    db.sql("revoke delete on deferred.__deferred_lease from deferred_worker")
    try:
        remedy = doctor(FAIL)["role"][0][3]
    finally:
        db.sql("grant delete on deferred.__deferred_lease to deferred_worker")
    assert remedy == "grant delete on deferred.__deferred_lease to deferred_worker"
    db.sql("update deferred.__deferred_source set checksum = '' where name = 'functions/defer'")
    found = doctor(WARN)
    assert (
        list(found) == ["schema"]
        and "functions/defer" in found["schema"][0][1]
        and found["schema"][0][3] == "deferred migrate"
    )
    assert db.run(["deferred", "migrate"]).returncode == 0 and doctor(OK) == {}
    db.sql(
        "update deferred.__deferred_migration set version = 999, oldest = 999"
        " where version = (select max(version) from deferred.__deferred_migration)"
    )
    assert list(doctor(FAIL)) == ["schema"]
    db.sql("drop schema deferred cascade")
    assert doctor(FAIL)["schema"][0][1] == "the database has no schema 'deferred'"


@pytest.mark.parametrize(
    "table, check",
    [
        ("source", "schema"),
        ("migration", "schema"),
        ("offer", "functions"),
        ("alert", "alerts"),
        ("upkeep", "retention"),
        ("token", "tokens"),
    ],
)
def test_a_check_that_runs_out_of_time_is_unknown_and_the_others_are_made(durable, table, check):
    db, env = durable
    db.defer("nosuch")
    all_checks = {
        c.split()[1].rstrip(":") for c in db.run(["deferred", "doctor"], env=env).stdout.splitlines() if c[0] != " "
    }
    other = psycopg2.connect(db.conninfo)
    other.cursor().execute(f"lock table deferred.__deferred_{table} in access exclusive mode")
    done = db.run(["deferred", "doctor"], env=env)
    other.close()
    found = [line.split(maxsplit=2) for line in done.stdout.splitlines() if line[0] != " "]
    told = {f[1].rstrip(":"): f for f in found}
    assert set(told) == all_checks
    assert told[check][0] == "unknown" and "statement timeout" in told[check][2] and "migrate" not in done.stdout
    # What the others find is found, and weighs more.
    assert ("functions" in {c for c, f in told.items() if f[0] == "fail"}) == (check != "functions")
    assert done.returncode == (UNKNOWN if check == "functions" else FAIL)


def test_a_check_whose_reader_lacks_a_right_is_unknown_and_the_others_are_made(db, doctor):
    db.sql(
        "revoke select on deferred.__deferred_source, deferred.__deferred_alert from deferred_worker, deferred_viewer"
    )
    found = doctor(UNKNOWN)
    assert {c: f[0][0] for c, f in found.items()} == {"schema": "unknown", "alerts": "unknown"}
    assert "permission denied" in found["schema"][0][1] and "migrate" not in found["schema"][0][3]


def test_a_check_whose_first_statement_fails_is_reported_once(db, doctor):
    db.sql("revoke select on deferred.__deferred_log from deferred_worker, deferred_viewer")
    found = doctor(FAIL)  # the role lacks a right, too
    assert "permission denied" in found["interval"][0][1]
    assert {check: len(findings) for check, findings in found.items() if len(findings) > 1} == {}


def test_a_connection_that_breaks_leaves_checks_unknown(db, doctor):
    db.sql(
        """create function deferred.gone() returns boolean
            language sql as 'select pg_terminate_backend(pg_backend_pid())';
              alter table deferred.__deferred_source enable row level security;
              create policy gone on deferred.__deferred_source using (deferred.gone());
              grant execute on function deferred.gone() to public"""
    )
    found = doctor(UNKNOWN)
    assert {f[0] for fs in found.values() for f in fs} == {"unknown"} and {"schema", "functions", "alerts"} <= set(
        found
    )


def test_what_is_wrong_with_the_tables(db, doctor):
    db.sql("update pg_index set indisvalid = false where indexrelid = 'deferred.__deferred_hot_delayed'::regclass")
    for weeks in 2, 3, 4:
        table = db.one(
            "select '__deferred_log_' || to_char(date_trunc('week', "
            "now() at time zone 'UTC') + %s * interval '1 week', 'YYYYMMDD')",
            weeks,
        )
        db.sql(
            f"drop table if exists deferred.{table}"
        )  # the last one is missing where the week has ended since the tables were made
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at) "
        "values (1, 1, 'ok', true, now() - interval '1 year')"
    )
    db.sql("select pg_stat_force_next_flush()")
    db.sql("select 1")
    found = doctor(FAIL)
    assert set(found) == {"indexes", "partitions"}
    assert found["indexes"] == [
        (
            "fail",
            "index deferred.__deferred_hot_delayed of deferred.__deferred_hot is not valid",
            found["indexes"][0][2],
            "reindex index concurrently deferred.__deferred_hot_delayed",
        )
    ]
    assert [(s, w) for s, w, _, _ in found["partitions"]] == [
        ("warn", "__deferred_log has no partition for the week after the next"),
        ("warn", "1 row in the default partitions"),
    ]
    db.sql(found["indexes"][0][3])
    db.sql("delete from deferred.__deferred_log")
    db.sql(
        "create table deferred.__deferred_log_old partition of deferred.__deferred_log for values "
        "from ('2020-01-06') to ('2020-01-13')"
    )
    db.sql("select deferred.maintain(); select pg_stat_force_next_flush()")
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at) "
        "values (1, 1, 'ok', true, '2020-01-07')"
    )
    found = doctor(WARN)
    assert (
        set(found) == {"retention"}
        and "was never purged" in found["retention"][0][1]
        and found["retention"][0][3].endswith("purge --older-than 30d --dead-older-than 365d")
    )
    assert db.run(["deferred", "purge", "--older-than", "10000d"]).returncode == 0 and doctor(OK) == {}
    db.sql("update deferred.__deferred_upkeep set purged_at = now() - interval '40 days', purged_older = '20 days'")
    assert "though the last purge, 40 days ago, was set to keep 20" in doctor(WARN)["retention"][0][1]
    assert db.run(["deferred", "purge", "--older-than", "20d"]).returncode == 0 and doctor(OK) == {}
    db.sql(
        """do $$ begin for i in 1000::bigint..1199 loop
                  execute format('create table deferred.__deferred_%s partition of '
                                 'deferred.__deferred for values from (%s) to (%s)',
                  i, i * 10000000::bigint, (i + 1) * 10000000::bigint);
              end loop; end $$"""
    )
    assert [f[1] for f in doctor(WARN)["partitions"]] == [
        f"__deferred has "
        f"{db.one('select count(*) from pg_inherits where inhparent = %s::regclass', 'deferred.__deferred')} "
        f"partitions"
    ]


def test_what_is_wrong_with_this_host(db, doctor, tmp_path):
    env = {**doctor.env, "HOME": "/nonexistent"}
    found = doctor(WARN, env=env)
    assert list(found) == ["user"] and "No such file" in found["user"][0][1] and "install -d -o" in found["user"][0][3]
    open_to_all, pid = os.path.join(db.dir, "open"), os.path.join(db.dir, "mine")
    os.mkdir(open_to_all)
    os.chmod(open_to_all, 0o777)
    with open(pid, "w") as f:
        os.fchmod(f.fileno(), 0o666)
    for path, what in (
        (open_to_all + "/pid", "can be written by others"),
        ("/nonexistent/pid", "No such file"),
        (pid, "a file that others can write"),
        (db.dir, "not a regular file"),
    ):
        found = doctor(FAIL, env={**doctor.env, "DEFERRED_PIDFILE": path})
        assert list(found) == ["pidfile"] and what in found["pidfile"][0][1], found
    assert db.run(["check_deferred"], env={"DEFERRED_PIDFILE": pid}).returncode == 77  # as was said
    for days, code in ((13, WARN), (-1, FAIL)):
        cert = tmp_path / f"{days}.pem"
        certificate(cert, days)
        db.config(f'http {{ tls_certificate = "{cert}" }}\n')
        found = doctor(code)
        assert " ends in 1" in found["certificates"][0][1] or " ended " in found["certificates"][0][1], found
    db.config(f'http {{ tls_certificate = "{pid}" }}\n')
    assert "has no certificate" in doctor(FAIL)["certificates"][0][1]


def certificate(path, days):
    """Self-signed, to end in so many days and a little."""
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=days, minutes=5)
    index = path.parent / "index"
    index.write_text("")
    key, request = path.parent / "key.pem", path.parent / "request.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            "/CN=localhost",
            "-keyout",
            key,
            "-out",
            request,
        ],
        check=True,
        capture_output=True,
    )
    config = path.parent / "ca.cnf"
    config.write_text(
        f"[ca]\ndefault_ca=d\n[d]\ndatabase={index}\nnew_certs_dir={path.parent}\nrand_serial=yes\ndefault_md=sha256\n"
        "policy=p\n[p]\ncommonName=supplied\n"
    )
    subprocess.run(
        [
            "openssl",
            "ca",
            "-batch",
            "-selfsign",
            "-config",
            config,
            "-keyfile",
            key,
            "-in",
            request,
            "-out",
            path,
            "-notext",
            "-startdate",
            "20200101000000Z",
            "-enddate",
            end.strftime("%Y%m%d%H%M%SZ"),
        ],
        check=True,
        capture_output=True,
    )


def test_what_is_wrong_with_the_user_of_functions(db, doctor):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    env = {**doctor.env, "DEFERRED_ALLOW_ROOT": "0"}
    os.chmod(db.dir, 0o711)
    found = doctor(FAIL, env=env)
    assert (
        list(found) == ["user"]
        and "functions would run as root" in found["user"][0][1]
        and 'user = "deferred"' in found["user"][0][3]
    )
    db.config('user = "nosuchuser"\n')
    assert "user 'nosuchuser' does not exist" in doctor(FAIL, env=env)["user"][0][1]
    db.config('user = "nobody"\n')
    assert list(doctor(WARN, env=env)) == ["user"]  # /nonexistent


def test_what_is_wrong_with_the_plugins(db, doctor):
    folder = db.plugins("wrong_abi")
    found = doctor(WARN)
    assert list(found) == ["plugins"] and found["plugins"][0][1].startswith("wrong_abi.so: made for plugin ABI 2")
    os.unlink(f"{folder}/wrong_abi.so")
    db.plugins("twin_a", "twin_b")
    told = doctor(FAIL)["plugins"][0][1]
    assert "twin_a" in told and "twin_b" in told
    os.unlink(f"{folder}/twin_b.so")
    db.plugins("crash_at_load")
    assert "crash_at_load.so, when it is loaded, " in doctor(FAIL)["plugins"][0][1]
    os.unlink(f"{folder}/crash_at_load.so")
    os.chmod(f"{folder}/twin_a.so", 0o775)
    found = doctor(FAIL)["plugins"][0]
    assert "twin_a.so' is writable by others" in found[1] and found[3].startswith("chmod go-w ")
    os.chmod(f"{folder}/twin_a.so", 0o755)
    db.config('function "twin" { command = {"/bin/true"} }\nfunction "away" { command = {"/bin/nonexistent"} }\n')
    assert [f[:2] for f in doctor(FAIL)["plugins"]] == [
        ("fail", "function 'twin' is both a command of the config file and in a plugin"),
        ("warn", "command of function 'away': /bin/nonexistent: No such file or directory"),
    ]
    db.env["DEFERRED_PLUGIN_DIR"] = "/nonexistent"
    db.config("")
    assert "cannot use plugin folder" in doctor(FAIL)["plugins"][0][1]


def test_what_is_wrong_with_programs(db, doctor):
    db.config(program(db) + program(db, name="till", functions=("pay",), declared=False))
    assert doctor(OK) == {} and not pids(db) and not pids(db, "till")
    db.config(
        program(
            db, functions=("act", "gone"), text=HELPER.replace("ready(*FUNCTIONS)", "ready('act')"), max_memory="1m"
        )
        + program(db, name="till", functions=("noop",), declared=False, watch='{"/nonexistent"}')
        + program(db, name="bank", functions=("save",), before="print('no such module', flush=True); sys.exit(1)")
        + program(db, name="mint", functions=("coin",), before="time.sleep(60)", start_timeout="1s")
    )
    found = [f[1] for f in doctor(FAIL)["plugins"]]
    for text in (
        "program 'till': watched path '/nonexistent': No such file",
        "program 'shop' has [0-9]+ KiB before its first job, more than max_memory",
        "program 'shop' does not have function 'gone'",
        "program 'bank' ended before it was ready .exit status 1. no such module",
        "program 'mint' was not ready within 1000 ms",
        "function 'noop' is both of program 'till' and in a plugin",
    ):
        assert any(re.match(text, what) for what in found), (text, found)
    assert not pids(db) and not pids(db, "till") and not pids(db, "mint")
    for config, text in (
        (section("shop", "/nonexistent/shop"), "program 'shop': /nonexistent/shop: No such file"),
        (program(db, directory="/nonexistent"), "program 'shop': directory '/nonexistent' is not there"),
    ):
        db.config(config)
        assert text in doctor(FAIL)["plugins"][0][1]


def test_functions_that_jobs_wait_for_in_vain(db, doctor):
    db.defer("maail")
    db.defer("noop")
    found = doctor(FAIL)["functions"]
    assert (
        len(found) == 1
        and "function 'maail', which is not on this host, and no worker has stored yet what it offers" in found[0][1]
        and "deferred ls --fn maail" in found[0][3]
    )
    db.run(["check_deferred", "--cnt", "0"])
    assert "function 'maail', which no worker offers" in doctor(FAIL)["functions"][0][1]
    db.sql("update deferred.__deferred_offer set fn = fn || 'maail'::text, plugin = plugin || 'p 1 2'::text")
    assert doctor(OK) == {}
    db.sql("update deferred.__deferred set created_at = now() - interval '2 hours'")
    assert doctor(OK) == {}
    db.sql("update deferred.__deferred_offer set seen_at = now() - interval '2 days'")
    assert "offered last, 2d ago" in doctor(WARN)["functions"][0][1]


def test_the_mail_server_is_tried_up_to_the_login_and_nothing_is_sent(db, doctor, smtpd):
    server = smtpd("--auth", "ann:secret")
    password = os.path.join(db.dir, "password")

    def settings(more="", port=server.port, word="secret", sender='from = "a@b.example"'):
        with open(password, "w") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(word + "\n")
        db.config(
            f'mail {{ host = "127.0.0.1"  port = {port}  {sender}  user = "ann"  password_file = "{password}"  {more} '
            f'}}\n'
        )

    settings("plain_login = 1")
    assert doctor(OK) == {}
    said = [line.split()[0] for line in server.commands()]
    assert "AUTH" in said and not {"MAIL", "RCPT", "DATA"} & set(said) and server.envelopes() == []
    settings("plain_login = 1", sender="")
    assert "mail.from is not set" in doctor(WARN)["mail"][0][1]
    settings("plain_login = 1", word="wrong")
    assert "AUTH: 535" in doctor(FAIL)["mail"][0][1]
    settings()
    assert "clear text" in doctor(FAIL)["mail"][0][1]
    settings('tls = "starttls"')
    assert "STARTTLS" in doctor(FAIL)["mail"][0][1]
    settings("plain_login = 1", port=1)
    assert "connect: " in doctor(FAIL)["mail"][0][1]
    os.unlink(password)
    assert "cannot read mail.password_file" in doctor(FAIL)["mail"][0][1]


@pytest.fixture
def clocked():
    """A server whose clock can be set on, in which transactions may be prepared."""
    path = os.path.join(harness.root(), f"clock{os.getpid()}-doctor")
    with open(path, "wb") as f:
        f.write(struct.pack("q", 0))
    server = harness.OwnServer(
        settings={"fsync": "on", "max_prepared_transactions": 5, "max_slot_wal_keep_size": "'32MB'"},
        server_env={
            "LD_PRELOAD": os.path.join(harness.BUILD, "tests", "harness", "clock_shift.so"),
            "CLOCK_SHIFT": path,
        },
    )
    server.clock = path
    yield server
    server.close()


@pytest.mark.slow
def test_what_is_wrong_with_the_server(clocked):
    db = clocked
    name, env = login(db, "deferred_worker")

    def doctor(code):
        done = db.run(["deferred", "--json", "doctor"], env=env)
        assert done.returncode == code, done
        return [
            (f["check"], f["status"], f.get("what", ""), f.get("do", ""))
            for f in json.loads(done.stdout)
            if f["status"] != "ok"
        ]

    def set_clock(seconds):
        with open(db.clock, "r+b") as f:
            f.write(struct.pack("q", seconds))

    holder = db.connect(application_name="report")
    holder.cursor().execute("select pg_current_xact_id()")
    pid = holder.get_backend_pid()
    prepared = db.connect()
    prepared.cursor().execute("insert into deferred.__deferred_creator values ('x'); prepare transaction 'half'")
    prepared.close()
    note = f"ok      snapshots (other sessions are not visible: grant pg_read_all_stats to {name})\n"
    assert note in db.run(["deferred", "doctor"], env=env).stdout
    db.sql(f"grant pg_read_all_stats to {name}")
    assert doctor(OK) == []
    set_clock(3)
    ((check, status, what, do),) = doctor(WARN)
    assert (check, status) == ("clocks", "warn") and what.endswith("s behind the database")
    db.defer("noop")
    set_clock(0)
    ((check, status, what, do),) = doctor(WARN)
    assert (
        (check, status) == ("clocks", "warn")
        and what.startswith(("the clock of the database is 2.", "the clock of the database is 3.0 "))
        and what.endswith(" s behind the time at which jobs were deferred")
    )
    db.sql("delete from deferred.__deferred_hot; delete from deferred.__deferred")
    set_clock(400)
    found = doctor(FAIL)
    assert [(c, s) for c, s, _, _ in found] == [("clocks", "fail"), ("snapshots", "warn"), ("snapshots", "warn")]
    assert {do for _, _, _, do in found[1:]} == {f"select pg_terminate_backend({pid})", "rollback prepared 'half'"}
    assert any("(report), idle in transaction: in a transaction for 7min" in what for _, _, what, _ in found)
    set_clock(-3700)
    holder.rollback()
    holder.cursor().execute("select pg_current_xact_id()")
    set_clock(0)
    assert ("snapshots", "fail") in [f[:2] for f in doctor(FAIL)]
    holder.close()
    db.sql("rollback prepared 'half'")
    db.sql("select pg_create_physical_replication_slot('gone', true)")
    assert doctor(OK) == []
    for _ in range(2):
        db.sql("select pg_logical_emit_message(false, '', ''); select pg_switch_wal()")
    ((check, status, what, do),) = doctor(FAIL)
    assert (check, status, do[-41:]) == (
        "slots",
        "fail",
        ": select pg_drop_replication_slot('gone')",
    ) and "slot gone, which keeps " in what


def test_a_pooler_keeps_notifications_away(db, doctor, cluster):
    db.config("listen = 1\n")
    assert doctor(OK) == {}
    folder = os.path.join(db.dir, "pooler")
    os.mkdir(folder, 0o700)
    with open(f"{folder}/ini", "w") as f:
        f.write(
            f"[pgbouncer]\nlisten_addr =\nunix_socket_dir = {folder}\nlisten_port = {pg.PORT}\nauth_type = "
            f"any\npool_mode = transaction\n"
            "ignore_startup_parameters = extra_float_digits,options\n[databases]\n"
            f"{db.name} = host={cluster.folder} port={pg.PORT} dbname={db.name} user={db.worker}\n"
        )
    if os.geteuid() == 0:
        os.chmod(db.dir, 0o711)
        for path in folder, f"{folder}/ini":
            os.chown(path, pwd.getpwnam("postgres").pw_uid, -1)
    started = db.spawn(pg.as_server(["/usr/sbin/pgbouncer", f"{folder}/ini"]))
    harness.wait_for(lambda: os.path.exists(f"{folder}/.s.PGSQL.{pg.PORT}") or not started.alive(), 10)
    found = doctor(WARN, env={"DEFERRED_DB": f"host={folder} port={pg.PORT} user=any dbname={db.name}"})
    assert list(found) == ["listen"] and found["listen"][0][3].endswith("set listen = 0"), found


def test_a_line_that_starts_before_its_jobs_have_ended(db, doctor):
    job = db.defer("noop")
    db.sql(
        "insert into deferred.__deferred_worker (instance, host, pid, version, started_at, "
        "ended_at) select 'h:/run/x#1.2@boot', 'h', 1, '1', "
        "now() - i * interval '2 min', now() from generate_series(20, 1, -1) i"
    )
    assert doctor(OK) == {}
    db.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, worker) select %s, i, 'superseded', "
        "false, i from generate_series(1, 7) i",
        job,
    )
    found = doctor(WARN)["interval"]
    assert (
        len(found) == 1
        and found[0][1]
        == "the next start terminated 7 attempts of noop in the last day, every 2min, with pidfile h:/run/x"
    )
    assert "--if-running=skip" in found[0][3]
    db.sql("truncate deferred.__deferred_log")
    db.sql(
        "insert into deferred.__deferred_offer values ('h', 'p', 1, now(), '{slow,p.slow,quick}', "
        "'{p 1 2,p 1 2,p 1 2}', '{600000,600000,100000}', '{0,0,0}')"
    )
    found = doctor(WARN)["interval"]
    assert [f[1] for f in found] == [
        "function slow may take 10min, and the next start comes after 2min, with pidfile h:/run/x"
    ]
    db.config("if_running = skip\n")
    assert doctor(OK) == {}


def test_two_lines_that_share_a_pidfile(db, doctor):
    def runs(lines):
        db.sql("delete from deferred.__deferred_worker")
        for queue, runners in lines:
            db.sql(
                """insert into deferred.__deferred_worker (instance, host, pid, version, ended_at, queues,
                    runners, cnt, mode)
                      values ('h:/run/x#1.2@boot', 'h', 1, '1', now(), %s, %s, 0, 'run')""",
                queue and [queue],
                runners,
            )

    runs([("a", 1)] * 10 + [("a", 2)] * 10 + [(None, 2)] * 10)  # one line that was changed twice
    assert doctor(OK) == {}
    runs([("a", 1), ("b", 1)] * 5)
    assert doctor(FAIL) == {
        "interval": [
            (
                "fail",
                "pidfile h:/run/x is used by 2 lines with different options",
                "a start terminates the copy that has its pidfile: these lines terminate each other",
                "give each line a --pidfile of its own",
            )
        ]
    }


def test_jobs_that_nobody_runs(db, doctor):
    job = db.defer("noop")
    assert doctor(OK) == {}  # it has only just come
    db.sql("update deferred.__deferred_hot set visible_at = now() - interval '20 min'")
    found = doctor(FAIL)
    assert (
        list(found) == ["workers"]
        and found["workers"][0][1] == "1 job is ready, the first for 20min, and no worker was ever seen"
    )
    db.hold(job)
    assert doctor(OK) == {}
    db.sql(
        "delete from deferred.__deferred_lease; select deferred.__repair(); update deferred.__deferred_queue "
        "set paused = true"
    )
    assert doctor(OK) == {}
    db.sql("update deferred.__deferred_queue set paused = false")
    db.sql(
        "insert into deferred.__deferred_worker (instance, host, pid, version, seen_at) "
        "values ('h:/run/x#1.2@boot', 'h', 1, '1', now() - interval '16 min')"
    )
    assert doctor(FAIL)["workers"][0][1].endswith("no worker was seen for 16min")
    db.sql("update deferred.__deferred_worker set seen_at = now()")
    assert doctor(OK) == {}


def test_what_stands_and_schedules_that_fail_are_told_by_doctor_status_and_why(db, doctor):
    viewer = login(db, "deferred_viewer")[1]

    def why(*args):
        return [tuple(c.values()) for c in json.loads(db.run(["deferred", "--json", "why", *args], env=viewer).stdout)]

    def tick(*names):
        db.sql(
            "update deferred.__deferred_schedule set next_at = now() - interval '1 s', last_at = null "
            "where name = any (%s)",
            list(names),
        )
        db.sql("update deferred.__deferred_state set next_tick = '-infinity'")
        db.sql("select * from deferred.__tick(10)")

    db.sql(
        "select deferred.schedule('s', 'every 1h', 'noop', opts => '{\"queue\": \"full\"}'), deferred.schedule('d', "
        "'every 1h', 'fail', opts => '{\"max_attempts\": 1}'),"
        " deferred.schedule('p', '@daily', 'noop', opts => '{\"queue\": \"idle\"}')"
    )
    db.sql("insert into deferred.__deferred_queue (name, max_length) values ('full', 1), ('idle', null)")
    assert doctor(OK) == {} and [c[0] for c in why()] == ["nothing_waits"]
    tick("d")
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    db.sql("select deferred.schedule_pause('p')")
    job = db.one("select max(id) from deferred.__deferred")
    found = doctor(WARN)
    assert list(found) == ["schedules"] and [f[0:2] for f in found["schedules"]] == [
        ("warn", f"schedule d: its last job, {job}, is dead")
    ]
    assert f"schedule d fails: its last job, {job}, is dead" in why("--all")[0][1]
    assert [c[0:2] for c in why("--all", "--queue", "idle")] == [
        ("nothing_waits", "nothing waits in queue idle"),
        ("schedule", "schedule p is paused"),
    ]
    db.defer("noop", queue="full")
    tick("s")
    found = doctor(FAIL)["schedules"]
    assert [f[0] for f in found] == ["fail", "warn"] and found[0][1].endswith(
        "could not be deferred: queue 'full' is full (max_length 1)"
    )
    assert found[0][3].startswith("deferred schedule show s;")
    causes = why("--all")
    # A viewer is not told the error, which may quote what the schedule's owner has put into it.
    assert causes[0][0] != "schedule" and causes[-1][0:2] == (
        "schedule",
        "schedule s fails: its last tick could not be deferred",
    )
    db.sql(
        "select deferred.unschedule(n) from unnest('{s,d}'::text[]) n; delete "
        "from deferred.__deferred_hot; truncate deferred.__deferred_log"
    )
    (note,) = [
        c
        for c in json.loads(db.run(["deferred", "--json", "doctor"], env=doctor.env).stdout)
        if c["check"] == "schedules"
    ]
    assert note == {"check": "schedules", "status": "ok", "note": "1 paused"}
    # ---- alerts
    assert "alert" not in db.run(["deferred", "status"], env=viewer).stdout
    db.sql(
        "insert into deferred.__deferred_alert (cause, name, since, text, remedy) "
        "values ('breaker', 'f', now() - interval '3 hours', E'function f is paused\\nreally', "
        "'deferred function resume f')"
    )
    db.sql(
        "insert into deferred.__deferred_alert (cause, name, text, remedy) select 'late', 'q' || i, "
        "'queue q' || i || ' is late', 'deferred why' from generate_series(10, 30) i"
    )
    found = doctor(FAIL)["alerts"]
    assert (
        found[0][0:2] == ("fail", "function f is paused\\nreally, found 3h ago")
        and found[0][3] == "deferred function resume f"
    )
    assert [f[0] for f in found[1:]] == ["warn"] * 20 and found[-1][1] == "2 more problems are not solved"
    lines = db.run(["deferred", "status"], env=viewer).stdout.splitlines()
    assert (
        lines[-21] == "alert: function f is paused\\nreally (for 3h)"
        and lines[-1] == "alerts: 2 more: deferred alert --list"
        and len(lines[-2].split("queue q29")) == 1
    )
    told = json.loads(db.run(["deferred", "--json", "status"], env=viewer).stdout)["alerts"]
    assert (told[0]["cause"], told[0]["do"], len(told)) == ("breaker", "deferred function resume f", 22)
    db.sql("update deferred.__deferred_alert set ended_at = now()")
    assert doctor(OK) == {}


def test_a_build_that_runs_worse_than_the_one_before_it_is_told_by_doctor_and_metrics(db, doctor):
    def told(code=WARN):
        assert db.run(["deferred", "fold", "--rebuild"]).returncode == 0
        text = deferred(db, "metrics").stdout
        assert checked(text) == ""
        return [what for _, what, *_ in doctor(code).get("builds", [])], {
            k: v for k, v in metrics(text).items() if k.startswith("deferred_function_")
        }

    harness.ran_in_build(db, "mail", "p 1 aa", 400, 100, 30)
    harness.ran_in_build(db, "mail", "p 2 bb", 150, 400, 20)
    harness.ran_in_build(db, "resize", "p 1 aa", 300, 100, 20)
    assert told(OK) == ([], {}), "of 150 attempts nothing can be said"
    harness.ran_in_build(db, "mail", "p 3 cc", 300, 200, 10)
    harness.ran_in_build(db, "resize", "p 3 cc", 300, 100, 10, crashed=30)
    found, figures = told()
    assert [re.sub(r"[0-9.]+ (times|%)", "N \\1", f) for f in found] == [
        "function mail takes N times as long with p 3 cc as with p 1 aa, beyond chance at least N times",
        "function resize crashes more often with p 3 cc than with p 1 aa: N % of attempts more, beyond chance at "
        "least N %",
    ]
    of = {"mail": '{fn="mail",build="p 3 cc"}', "resize": '{fn="resize",build="p 3 cc"}'}
    assert set(figures) == {
        "deferred_function_" + name + labels
        for name in ("slowdown_ratio", "slowdown_least_ratio", "more_crashes_ratio", "more_crashes_least_ratio")
        for labels in of.values()
    }
    assert (
        1.15
        < figures["deferred_function_slowdown_least_ratio" + of["mail"]]
        < 1.9
        < figures["deferred_function_slowdown_ratio" + of["mail"]]
        < 2.1
    )
    assert (
        0
        < figures["deferred_function_more_crashes_least_ratio" + of["resize"]]
        < figures["deferred_function_more_crashes_ratio" + of["resize"]]
        == 0.1
    )
    assert (
        figures["deferred_function_more_crashes_least_ratio" + of["mail"]] < 0
        and figures["deferred_function_slowdown_least_ratio" + of["resize"]] < 1
    )
    harness.ran_in_build(db, "mail", "p 1 aa", 20, 100, 1)
    found, figures = told()
    assert [f for f in found if "mail" in f] == [] and not any("mail" in f for f in figures), "the build before is back"


def test_tokens_that_expire_soon_or_have_expired_lately(db, doctor):
    for name, span in (("soon", "13d"), ("later", "15d"), ("past", "1d"), ("ever", None), ("gone", "1d")):
        db.run(["deferred", "token", "add", name, *(["--expires", span] if span else [])], check=True)
    assert [f[1].split()[1] for f in doctor(WARN)["tokens"]] == ["'past'", "'gone'", "'soon'"]
    ago = "update deferred.__deferred_token set expires_at = clock_timestamp() - %s::interval where name = %s"
    db.sql(ago, "3 days", "past")
    db.sql(ago, "15 days", "gone")
    past, soon = doctor(WARN)["tokens"]
    assert past[1] == "token 'past' expired 3d ago" and soon[1].startswith("token 'soon' expires in 1")
    assert past[3].startswith("deferred token rotate past --grace 1d --expires 90d")
