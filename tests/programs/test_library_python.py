"""The library for Python: its own tests, and what it does on a connection to a real server."""

import os
import subprocess
import sys

import psycopg
import psycopg.rows
import psycopg2
import psycopg2.extras
import pytest

import pg

LIBRARY = os.path.join(pg.TOP, "lib/languages/python")
sys.path.insert(0, LIBRARY)

import deferred  # noqa: E402

RECEIPT = 4711


def test_its_own_tests_pass(tmp_path):
    """In a process of their own, with the configuration of a user who has none."""
    options = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={LIBRARY}", f"--basetemp={tmp_path}/t"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests"],
        cwd=LIBRARY,
        env={**os.environ, "PYTHONPATH": LIBRARY, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


CONNECTIONS = {
    "psycopg 2": lambda db: psycopg2.connect(db.conninfo),
    "psycopg 2, dictionaries": lambda db: psycopg2.connect(db.conninfo, cursor_factory=psycopg2.extras.RealDictCursor),
    "psycopg 3": lambda db: psycopg.connect(db.conninfo),
    "psycopg 3, dictionaries": lambda db: psycopg.connect(db.conninfo, row_factory=psycopg.rows.dict_row),
    "psycopg 3, a class": lambda db: psycopg.connect(db.conninfo, row_factory=psycopg.rows.class_row(Exception)),
}


@pytest.fixture(params=CONNECTIONS)
def connection(db, request):
    """Each kind of connection that an application may have."""
    opened = CONNECTIONS[request.param](db)
    yield opened
    opened.close()


def claimed(db, job):
    """A worker has claimed the job. Returns it as its function gets it."""
    db.sql(
        "insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone, claimed_at, expires_at)"
        " values ('default', 7, %s, array[%s::bigint], int8range(%s, %s, '[]'), pg_current_snapshot(), false,"
        " now() - interval '2 s', now() + interval '1 min')",
        RECEIPT,
        job,
        job,
        job,
    )
    receipt = db.one("select deferred.__token(%s, %s, 7)", job, RECEIPT)
    return deferred.Job(None, {"job": str(job), "fn": "noop", "receipt": str(receipt)})


def test_defer_takes_part_in_the_callers_transaction(db, connection):
    params, options = {"to": "Ä \u2028 \"'\\", "n": [1, 2.5, None]}, {"priority": 3, "label": "x"}
    first = deferred.defer(connection, "send_report", params, options)
    assert isinstance(first, int) and db.sql("select 1 from deferred.__deferred") == []
    connection.rollback()
    assert db.sql("select 1 from deferred.__deferred") == []
    second = deferred.defer(connection, "send_report", params, options)
    third = deferred.defer(connection, "plain")
    connection.commit()
    rows = db.sql("select id, fn, params, label from deferred.__deferred order by id")
    assert rows == [(second, "send_report", params, "x"), (third, "plain", {}, None)] and first < second < third


def test_defer_reports_what_the_server_refuses(db, connection):
    with pytest.raises((psycopg2.Error, psycopg.Error), match="colour"):
        deferred.defer(connection, "send_report", {}, {"colour": "red"})
    with pytest.raises(ValueError):
        deferred.defer(connection, "send_report", {"x": float("nan")})
    connection.rollback()
    assert db.sql("select 1 from deferred.__deferred") == []


@pytest.mark.by_hand
def test_finish_takes_part_in_the_callers_transaction(db, connection):
    job = claimed(db, db.defer("noop"))
    job.finish(connection, {"width": 640})
    connection.rollback()
    assert db.sql("select 1 from deferred.__deferred_log") == []
    job.finish(connection, {"width": 640})
    connection.commit()
    assert db.sql("select outcome, result from deferred.__deferred_log") == [("ok", '{"width":640}')]
    with pytest.raises((psycopg2.Error, psycopg.Error)) as refused:
        job.finish(connection)
    assert getattr(refused.value, "sqlstate", None) == "55000" or refused.value.pgcode == "55000"


@pytest.mark.by_hand
def test_finish_without_a_result_stores_none(db, connection):
    claimed(db, db.defer("noop")).finish(connection)
    connection.commit()
    assert db.sql("select outcome, result from deferred.__deferred_log") == [("ok", None)]


@pytest.mark.by_hand
def test_extend_takes_part_in_the_callers_transaction(db, connection):
    job = claimed(db, db.defer("noop"))
    latest = "select max(expires_at) from deferred.__deferred_lease"
    before = db.one(latest)
    job.extend(connection, "10min")
    connection.rollback()
    assert db.one(latest) == before
    end = job.extend(connection, "10min")
    connection.commit()
    assert db.one(latest) == end > before


def test_a_worker_runs_functions_of_a_module(db):
    """All that a new user writes: a module, a section, and a job."""
    with open(os.path.join(db.dir, "tasks.py"), "w") as f:
        f.write(
            """import deferred

@deferred.function("resize", timeout="10s", max_attempts=5)
def resize(params, job):
    print("text of the function")
    job.defer("refuse", {"owner": params["owner"]})
    return {"width": 640, "api": job.setting("api")}

@deferred.function
def refuse(params, job):
    raise deferred.Dead(f"{params['owner']} is not an owner")
"""
        )
    db.config(
        f"""program "shop" {{
            command = {{"/usr/bin/env", "PYTHONPATH={LIBRARY}", "/usr/bin/python3", "-m", "deferred", "tasks"}}
            directory = "{db.dir}"
        }}
        settings "shop" {{ api = "https://api.example.org/" }}"""
    )
    db.defer("resize", '{"owner": "ann"}')
    done = db.run(["check_deferred"])
    assert "resize: text of the function" in done.stderr, done.stderr
    db.run(["check_deferred"])
    rows = db.sql("select outcome, final, result, error from deferred.__deferred_log order by job_id")
    result = '{"width":640,"api":"https://api.example.org/"}'
    assert rows == [("ok", True, result, None), ("failed", True, None, "ann is not an owner")]
