"""`deferred migrate` on a server that has none of the roles, by logins that are not superusers."""

import json
import re

import pytest

import harness
import pg

NOPERM = 77
OWNER = 'a"b\'c $d'  # each of these is to be quoted


@pytest.fixture
def bare():
    server = harness.OwnServer(migrated=False)
    yield server
    server.close()


def identifier(name):
    return '"' + name.replace('"', '""') + '"'


def psql(db, user, script):
    return harness.run(
        ["psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", f"{db.cluster.conninfo()} user={user}"], input=script
    )


def own_database(db, login):
    """Creates a database of the login's. The programs of the test then connect to it as that login."""
    db.sql(f"create database app owner {identifier(login)}")
    user = login.replace("\\", "\\\\").replace("'", "\\'")
    db.env["DEFERRED_DB"] = f"{db.cluster.conninfo('app')} user='{user}'"


def ok(done):
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def works(db):
    assert ok(db.run(["deferred", "migrate"])).startswith("migration 1: tables\n")
    assert "nothing to do" in ok(db.run(["deferred", "migrate"]))
    assert ok(db.run(["deferred", "add", "noop"])) == "1\n"
    assert db.run(["check_deferred", "--cnt", "0"]).returncode == 0
    assert json.loads(ok(db.run(["deferred", "show", "1", "--json"])))["state"] == "done"
    ok(db.run(["deferred", "schedule", "set", "daily", "@daily", "noop"]))
    ok(db.run(["deferred", "purge", "--older-than", "0s"]))
    assert json.loads(ok(db.run(["deferred", "ls", "--state", "done", "--json"]))) == []


@pytest.mark.parametrize("administrator", ["superuser", "createrole"])
def test_a_plain_owner_migrates_and_works_once_an_administrator_has_made_the_roles(bare, administrator):
    bare.sql(f"create role admin login {administrator}")
    bare.sql(f"create role {identifier(OWNER)} login")
    own_database(bare, OWNER)
    refused = bare.run(["deferred", "migrate"])
    assert refused.returncode == NOPERM and "permission denied to create role" in refused.stderr
    assert re.search(
        r"(?m)^hint: .* or have one run: the output of deferred migrate --print-roles --owner ", refused.stderr
    )
    printed = ok(
        harness.run(
            ["deferred", "migrate", "--print-roles", "--owner", OWNER], env={"DEFERRED_DB": "host=/nonexistent"}
        )
    )
    for _ in range(2):  # another database of the server has had it run, too
        assert psql(bare, "admin", printed).returncode == 0
    works(bare)


def test_a_role_that_may_create_roles_and_databases_migrates_and_works(bare):
    bare.sql("create role maker login createrole createdb")
    assert psql(bare, "maker", "create database app").returncode == 0
    bare.env["DEFERRED_DB"] = f"{bare.cluster.conninfo('app')} user=maker"
    works(bare)


def test_what_is_printed_without_an_owner_creates_nothing_until_one_is_named(bare):
    printed = ok(harness.run(["deferred", "migrate", "--print-roles"]))
    done = psql(bare, pg.USER, printed)
    assert done.returncode != 0 and 'role "OWNER" does not exist' in done.stderr
    assert bare.one("select count(*) from pg_roles where starts_with(rolname, 'deferred_')") == 0
    bare.sql("create role me")
    assert psql(bare, pg.USER, printed.replace('"OWNER"', "me")).returncode == 0
    assert bare.one("select count(*) from pg_roles where starts_with(rolname, 'deferred_')") == 8


def test_what_dry_run_prints_creates_the_roles_too(bare):
    assert (
        bare.run(
            ["psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", bare.conninfo],
            input=ok(bare.run(["deferred", "migrate", "--dry-run"])),
        ).returncode
        == 0
    )
    assert "nothing to do" in ok(bare.run(["deferred", "migrate"]))
