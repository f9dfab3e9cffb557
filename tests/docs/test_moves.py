"""The how-to pages that move an application here: from graphile-worker, next to the real one, and from Eludia."""

import json
import os

import pytest

import harness
import node
import pg
from documents import fenced, read

PEERS = os.path.join(pg.TOP, "tests", "bench", "peers")


@pytest.mark.slow
def test_waiting_jobs_move_from_graphile_worker(db):
    folder = node.install("peers", PEERS)
    node.scripts(folder, PEERS)
    made = db.run(
        [node.NODE, os.path.join(folder, "graphile.mjs"), "migrate", json.dumps({"conninfo": db.conninfo})], timeout=120
    )
    assert made.returncode == 0, made
    db.sql(
        """select graphile_worker.add_job('hello', '{"name": "Ann"}'),
                  graphile_worker.add_job('hello', '{"name": "Bob"}', run_at := now() + interval '1 hour',
                                          max_attempts := 3, priority := 5,
                                          job_key := 'k', queue_name := 'q')"""
    )
    (move,) = [b for b in fenced(read("docs", "how-to", "move-from-graphile-worker.md")) if "_private_jobs" in b]
    done = db.run(["psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", db.conninfo, "-c", move])
    assert done.returncode == 0, done.stderr
    assert db.one("select count(*) from graphile_worker.jobs") == 0
    assert db.sql(
        "select d.fn, d.params::jsonb, d.max_attempts, d.priority, j.state, j.key, j.concurrency_key"
        " from deferred.__deferred d join deferred.job j using (id) order by d.params->>'name'"
    ) == [
        ("hello", {"name": "Ann"}, 25, 0, "ready", None, None),
        ("hello", {"name": "Bob"}, 3, -5, "delayed", "k", "q"),
    ]
    db.sql("drop schema graphile_worker cascade")


@pytest.mark.skipif(harness.SAN, reason="what is deferred here is deferred by SQL alone")
def test_the_line_for_an_eludia_application_defers_in_its_transaction(db):
    text = read("docs", "how-to", "move-from-eludia.md")
    (line,) = [line.strip() for line in text.splitlines() if "$db->do(" in line]
    program = os.path.join(db.dir, "application.pl")
    for end, jobs in (("rollback", 0), ("commit", 1)):
        with open(program, "w", encoding="utf-8") as f:
            f.write(
                "use strict; use warnings; use DBI; use JSON::PP;\n"
                "my $db = DBI->connect('dbi:Pg:', '', '', { RaiseError => 1, AutoCommit => 0 });\n"
                f"my ($name, $params) = ('hello', {{ name => 'Ann' }});\n{line}\n$db->{end};\n$db->disconnect;\n"
            )
        done = db.run(["/usr/bin/perl", program], env=db.cluster.env(db.name))
        assert done.returncode == 0 and done.stderr == "", done
        assert db.one("select count(*) from deferred.__deferred") == jobs
    assert db.sql("select fn, params from deferred.__deferred") == [("hello", {"name": "Ann"})]
