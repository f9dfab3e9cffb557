"""The page about managed PostgreSQL, typed on servers that have no role of deferred, by users who are no superusers."""

import json
import os
import re

import pytest

import harness
from documents import fenced, read

CREATEROLE, PRINT, OWNER = fenced(read("docs", "how-to", "managed-postgresql.md"))


@pytest.fixture
def bare():
    server = harness.OwnServer(migrated=False)
    yield server
    server.close()


def shell(db, text, user, folder):
    """The commands reach the test's server, which has no certificate."""
    named = f"{db.cluster.conninfo('app')} user={user} sslmode=disable"
    text = re.sub(rf"host=\S+ dbname=app user={user} sslmode=verify-full", named, text)
    env = {name: value for name, value in db.env.items() if name != "DEFERRED_DB"}
    env["PATH"] = f"{harness.BUILD}/bin:{env['PATH']}"
    done = harness.run(["bash", "-e", "-c", text], env=env, cwd=folder)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def test_a_user_with_createrole_migrates_and_makes_the_logins(bare, tmp_path):
    bare.sql("create role webapp login; create role admin login createrole")
    bare.sql("create database app owner admin")
    shell(bare, CREATEROLE, "admin", tmp_path)
    rows = bare.sql(
        "select r.rolname, g.rolname from pg_auth_members m join pg_roles r on r.oid = m.member"
        " join pg_roles g on g.oid = m.roleid where r.rolname in ('worker', 'webapp') order by 1, 2"
    )
    assert rows == [("webapp", "deferred_producer"), ("worker", "deferred_purger"), ("worker", "deferred_worker")]


def test_the_owner_of_a_database_works_once_an_administrator_has_made_the_roles(bare, tmp_path):
    bare.sql("create role app login")
    bare.sql("create database app owner app")
    shell(bare, PRINT, "app", tmp_path)
    bare.sql((tmp_path / "roles.sql").read_text())
    assert shell(bare, OWNER, "app", tmp_path).endswith("\n1\n")
    shown = bare.run(["deferred", "show", "1", "--json"], env={"DEFERRED_DB": bare.cluster.conninfo("app")})
    assert json.loads(shown.stdout)["state"] == "done"
