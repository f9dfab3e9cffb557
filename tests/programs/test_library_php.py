"""The library for PHP: its own tests, and what it does on a connection to a real server."""

import json
import os
import shutil
import subprocess

import pytest

import pg

LIBRARY = os.path.join(pg.TOP, "lib/languages/php")
RECEIPT = 4711

if not shutil.which("php"):
    pytest.skip("php is not installed", allow_module_level=True)


def php(*args, **env):
    done = subprocess.run(
        ["php", *args],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not shutil.which("phpunit"), reason="phpunit is not installed")
def test_its_own_tests_pass():
    path = os.path.join(LIBRARY, "tests/ProgramTest.php")
    assert "OK (" in php(shutil.which("phpunit"), "--no-configuration", "--do-not-cache-result", path)


def on_connection(db, code, job=0):
    """Run code with a connection $db, and with the job as its function gets it. Returns what it prints as JSON."""
    receipt = db.one("select deferred.__token(%s, %s, 7)", job, RECEIPT)
    begin = (
        "require getenv('AUTOLOAD'); $db = new PDO('pgsql:' . strtr(getenv('DSN'), ' ', ';'));"
        "$host = (new ReflectionClass('Deferred\\Testing'))->newInstanceWithoutConstructor();"
        "$job = new Deferred\\Job($host, json_decode(getenv('HEAD'), true));"
    )
    head = json.dumps({"job": str(job), "fn": "noop", "receipt": str(receipt)})
    autoload = os.path.join(LIBRARY, "src/autoload.php")
    return php("-r", begin + code, AUTOLOAD=autoload, DSN=db.conninfo, HEAD=head)


def claimed(db):
    """A job that a worker has claimed."""
    job = db.defer("noop")
    db.sql(
        "insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone, claimed_at, expires_at)"
        " values ('default', 7, %s, array[%s::bigint], int8range(%s, %s, '[]'), pg_current_snapshot(), false,"
        " now() - interval '2 s', now() + interval '1 min')",
        RECEIPT,
        job,
        job,
        job,
    )
    return job


@pytest.mark.parametrize("emulated", ["true", "false"])
def test_defer_takes_part_in_the_callers_transaction(db, emulated):
    ids = on_connection(
        db,
        f"""$db->setAttribute(PDO::ATTR_EMULATE_PREPARES, {emulated});
        $params = ['to' => 'Ä "\\'\\\\', 'n' => [1, 2.5, null]];
        $db->beginTransaction();
        Deferred\\defer($db, 'rolled_back', $params);
        $db->rollBack();
        $db->beginTransaction();
        $ids = [Deferred\\defer($db, 'send_report', $params, ['label' => 'x']), Deferred\\defer($db, 'plain')];
        $db->commit();
        echo json_encode($ids);""",
    )
    first, second = json.loads(ids)
    params = {"to": "Ä \"'\\", "n": [1, 2.5, None]}
    rows = db.sql("select id, fn, params, label from deferred.__deferred order by id")
    assert rows == [(first, "send_report", params, "x"), (second, "plain", {}, None)]


@pytest.mark.parametrize("mode", ["SILENT", "WARNING", "EXCEPTION"])
def test_defer_reports_what_the_server_refuses(db, mode):
    said = on_connection(
        db,
        f"""$db->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_{mode});
        try {{ @Deferred\\defer($db, 'send_report', [], ['colour' => 'red']); }}
        catch (PDOException $e) {{ echo $e->getMessage(); }}""",
    )
    assert "colour" in said


@pytest.mark.by_hand
def test_finish_takes_part_in_the_callers_transaction(db):
    job = claimed(db)
    on_connection(db, "$db->beginTransaction(); $job->finish($db, ['width' => 640]); $db->rollBack();", job)
    assert db.sql("select 1 from deferred.__deferred_log") == []
    on_connection(db, "$db->beginTransaction(); $job->finish($db, ['width' => 640]); $db->commit();", job)
    assert db.sql("select outcome, result from deferred.__deferred_log") == [("ok", '{"width":640}')]
    again = "try { $job->finish($db); } catch (PDOException $e) { echo $e->getCode(); }"
    assert on_connection(db, again, job) == "55000"


@pytest.mark.by_hand
def test_finish_without_a_result_stores_none(db):
    on_connection(db, "$job->finish($db);", claimed(db))
    assert db.sql("select outcome, result from deferred.__deferred_log") == [("ok", None)]


@pytest.mark.by_hand
def test_extend_takes_part_in_the_callers_transaction(db):
    job, latest = claimed(db), "select extract(epoch from max(expires_at))::float8 from deferred.__deferred_lease"
    before = db.one(latest)
    on_connection(db, "$db->beginTransaction(); $job->extend($db, '10min'); $db->rollBack();", job)
    assert db.one(latest) == before
    end = on_connection(db, "echo $job->extend($db, '10min')->format('U.u');", job)
    assert abs(db.one(latest) - float(end)) < 0.001 and float(end) > before


def test_a_worker_runs_functions_of_a_script(db):
    """All that a new user writes: a script, a section, and a job."""
    with open(os.path.join(db.dir, "tasks.php"), "w") as f:
        f.write(
            f"""<?php
require '{LIBRARY}/src/autoload.php';
use Deferred\\{{Job, Program}};
Program::define('resize', function (array $params, Job $job): array {{
    echo "text of the function\\n";
    return ['width' => 640, 'owner' => $params['owner']];
}}, timeout: '10s');
Program::run();
"""
        )
    db.config(
        f"""program "shop" {{ command = {{"/usr/bin/php", "tasks.php"}} directory = "{db.dir}" }}
        function "resize" {{ program = "shop" timeout = 10s }}"""
    )
    db.defer("resize", '{"owner": "ann"}')
    done = db.run(["check_deferred"])
    assert "resize: text of the function" in done.stderr, done.stderr
    rows = db.sql("select outcome, result from deferred.__deferred_log")
    assert rows == [("ok", '{"width":640,"owner":"ann"}')]
