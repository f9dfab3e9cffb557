"""The libraries in programs that use Django, Laravel's database component and plain PDO, on connections that die."""

import importlib.util
import json
import os

import pytest

import pg
from harness import ledger, wait_for

LIBRARIES = os.path.join(pg.TOP, "lib", "languages")
SETTINGS = (
    'runners = 1\ninterval_floor = "50ms"\ninterval_ceiling = "200ms"\nbackoff_floor = 1ms\nbackoff_ceiling = 20ms\n'
)

DJANGO = """import django
from django.conf import settings

database = {"ENGINE": "django.db.backends.postgresql", "CONN_MAX_AGE": SECONDS, CONNINFO}
settings.configure(DATABASES={"default": database}, USE_TZ=True)
django.setup()

import deferred
from django.db import connection, transaction

@deferred.function
def session(params, job):
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        return cursor.fetchone()[0]

@deferred.function
def buys(params, job):
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("insert into book values (%s)", [job.id])
        deferred.defer(connection, "noop", {"n": 1}, {"label": "bought"})
        job.finish(connection, {"paid": True})
        if params["fail"]:
            raise ValueError("out of stock")
"""

LARAVEL = """<?php
require_once 'Illuminate/Database/autoload.php';
require 'LIBRARIES/php/src/autoload.php';
use Deferred\\{Job, Program};
use Illuminate\\Database\\Capsule\\Manager as DB;

$capsule = new DB();
$capsule->addConnection(['driver' => 'pgsql', 'password' => '', 'charset' => 'utf8', CONNINFO]);
$capsule->setAsGlobal();

Program::define('session', fn () => DB::selectOne('select pg_backend_pid() as pid')->pid);
Program::define('buys', function (array $params, Job $job): void {
    DB::connection()->transaction(function () use ($params, $job): void {
        DB::table('book')->insert(['job' => $job->id]);
        $pdo = DB::connection()->getPdo();
        Deferred\\defer($pdo, 'noop', ['n' => 1], ['label' => 'bought']);
        $job->finish($pdo, ['paid' => true]);
        if ($params['fail']) {
            throw new RuntimeException('out of stock');
        }
    });
});
Program::run();
"""

PDO = """<?php
require 'LIBRARIES/php/src/autoload.php';
use Deferred\\{Job, Program};

$db = null;
function db(): PDO
{
    global $db;
    return $db ??= new PDO('pgsql:DSN', null, null, [PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_OBJ]);
}

Program::beforeJob(function () use (&$db): void {
    try {
        $db?->query('select 1');
    } catch (PDOException) {
        $db = null;
    }
});
Program::define('session', fn () => db()->query('select pg_backend_pid()')->fetchColumn());
Program::define('buys', function (array $params, Job $job): void {
    db()->beginTransaction();
    try {
        db()->prepare('insert into book values (?)')->execute([$job->id]);
        Deferred\\defer(db(), 'noop', ['n' => 1], ['label' => 'bought']);
        $job->finish(db(), ['paid' => true]);
        if ($params['fail']) {
            throw new RuntimeException('out of stock');
        }
        db()->commit();
    } catch (Throwable $error) {
        db()->rollBack();
        throw $error;
    }
});
Program::run();
"""


def parts(db):
    """Host, port, user and database of the server of the test."""
    return dict(word.split("=") for word in db.conninfo.split())


def django(db, age):
    if not importlib.util.find_spec("django"):
        pytest.skip("python3-django is not installed")
    to = parts(db)
    named = {"HOST": to["host"], "PORT": to["port"], "USER": to["user"], "NAME": to["dbname"]}
    members = ", ".join(f'"{name}": "{value}"' for name, value in named.items())
    with open(os.path.join(db.dir, "tasks.py"), "w") as f:
        f.write(DJANGO.replace("SECONDS", str(age)).replace("CONNINFO", members))
    return ["/usr/bin/env", f"PYTHONPATH={LIBRARIES}/python:{db.dir}", "/usr/bin/python3", "-m", "deferred", "tasks"]


def php(db, text):
    if not os.path.exists("/usr/bin/php"):
        pytest.skip("php is not installed")
    to = parts(db)
    named = {"host": to["host"], "port": to["port"], "username": to["user"], "database": to["dbname"]}
    members = ", ".join(f"'{name}' => '{value}'" for name, value in named.items())
    path = os.path.join(db.dir, "tasks.php")
    with open(path, "w") as f:
        f.write(
            text.replace("LIBRARIES", LIBRARIES)
            .replace("CONNINFO", members)
            .replace("DSN", ";".join(db.conninfo.split()))
        )
    return ["/usr/bin/php", path]


def laravel(db):
    if not os.path.exists("/usr/share/php/Illuminate/Database/autoload.php"):
        pytest.skip("php-illuminate-database is not installed")
    return php(db, LARAVEL)


FRAMEWORKS = {
    "django": lambda db: django(db, 600),
    "django without persistent connections": lambda db: django(db, 0),
    "laravel": laravel,
    "plain pdo": lambda db: php(db, PDO),
}


@pytest.fixture
def framework(db, request):
    words = ", ".join(f'"{word}"' for word in FRAMEWORKS[request.param](db))
    db.config(SETTINGS + f'program "tasks" {{ command = {{{words}}} }}\n')
    db.sql("create table book (job bigint)")
    return db


def ended(db, job):
    """Outcomes of its attempts, and the last result, when the job is done."""
    wait_for(lambda: db.one("select state from deferred.job where id = %s", job) == "done", 30, "the job is done")
    rows = db.sql("select outcome, result from deferred.__deferred_log where job_id = %s order by attempt", job)
    return [row[0] for row in rows], rows[-1][1]


# A dead connection of Django costs one attempt, unless connections are not persistent.
@pytest.mark.parametrize(
    "framework, keeps, attempts",
    [
        ("django", True, ["failed", "ok"]),
        ("django without persistent connections", False, ["ok"]),
        ("laravel", True, ["ok"]),
        ("plain pdo", True, ["ok"]),
    ],
    indirect=["framework"],
)
def test_a_connection_that_died_between_jobs_is_replaced(framework, keeps, attempts):
    db = framework
    run = db.spawn(["check_deferred", "--loop", "--listen"])
    first, again = [ended(db, db.defer("session"))[1] for _ in range(2)]
    assert (first == again) is keeps
    db.sql("select pg_terminate_backend(%s)", int(again))
    outcomes, last = ended(db, db.defer("session"))
    assert outcomes == attempts and last != again
    assert ended(db, db.defer("session"))[0] == ["ok"]
    run.signal(15)
    assert run.wait(30) == 0, run.output()
    ledger(db)


@pytest.mark.parametrize("framework", ["django", "laravel", "plain pdo"], indirect=True)
def test_work_job_and_next_job_are_committed_together(framework):
    db = framework
    bought = db.defer("buys", json.dumps({"fail": False}))
    failed = db.defer("buys", json.dumps({"fail": True}), max_attempts=1)
    done = db.run(["check_deferred", "--cnt", "0"])
    assert done.returncode == 0, done.stderr
    assert ended(db, bought) == (["ok"], '{"paid":true}')
    assert db.sql("select job from book") == [(bought,)]
    assert db.sql("select params, label from deferred.__deferred where fn = 'noop'") == [({"n": 1}, "bought")]
    ((outcome, error),) = db.sql("select outcome, error from deferred.__deferred_log where job_id = %s", failed)
    assert outcome == "failed" and "out of stock" in error
    ledger(db)
