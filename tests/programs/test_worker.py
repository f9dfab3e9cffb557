"""finish(), extend(), progress() and steps of each library, in programs that a worker has started."""

import json
import os
import shutil
import signal

import pytest

import node
import pg
from harness import ledger, wait_for
from test_library_node import packages  # noqa: F401

LIBRARIES = os.path.join(pg.TOP, "lib", "languages")

PYTHON = """import os, time
import deferred, psycopg2

def connection(job):
    return psycopg2.connect(job.setting("dsn"))

@deferred.function
def finishes(params, job):
    db = connection(job)
    db.cursor().execute("insert into book values (%s)", [job.id])
    job.finish(db, {"width": 640})
    db.commit() if params["commit"] else db.rollback()
    if params["fail"]:
        raise ValueError("after the end")
    return "returned"

@deferred.function
def extends(params, job):
    db = connection(job)
    job.extend(db, "10min")
    db.commit()
    cursor = db.cursor()
    cursor.execute("select (max(expires_at) > now() + interval '9 min')::text from deferred.__deferred_lease")
    return cursor.fetchone()[0]

@deferred.function
def reports(params, job):
    job.progress(1, 4, "hälf")
    while not os.path.exists(params["go"]):
        time.sleep(0.02)

def charge(job):
    with open(job.setting("said"), "a") as said:
        print("charge", job.id, job.receipt, file=said)
    return job.id

@deferred.function(batch=3, batch_wait="1min")
def charges(jobs):
    entries = []
    for job in jobs:
        while "charge" not in job.steps and entries and not os.path.exists(job.setting("said") + ".go"):
            time.sleep(0.02)
        try:
            entries.append([job.step("charge", lambda: charge(job))])
        except deferred.Gone as gone:
            if not job.params["catch"]:
                raise
            entries.append(gone)
    return entries
"""

PERL = """use v5.14; use warnings; use utf8; use DBI; use Deferred::Program;

sub connection {
    my $dsn = join ';', split ' ', $_[0]->setting('dsn');
    return DBI->connect("dbi:Pg:$dsn", undef, undef, { AutoCommit => 0, RaiseError => 1, PrintError => 0 });
}

function finishes => sub {
    my ($params, $job) = @_;
    my $db = connection($job);
    $db->do('insert into book values (?)', undef, $job->id);
    $job->finish($db, { width => 640 });
    $params->{commit} ? $db->commit : $db->rollback;
    die "after the end\\n" if $params->{fail};
    return 'returned';
};

function extends => sub {
    my ($params, $job) = @_;
    my $db = connection($job);
    $job->extend($db, '10min');
    $db->commit;
    my $asked = "select (max(expires_at) > now() + interval '9 min')::text from deferred.__deferred_lease";
    my ($longer) = $db->selectrow_array($asked);
    $db->commit;
    return $longer;
};

function reports => sub {
    my ($params, $job) = @_;
    $job->progress(1, 4, 'hälf');
    select undef, undef, undef, 0.02 until -e $params->{go};
    return;
};

sub charge {
    my ($job) = @_;
    open my $said, '>>', $job->setting('said') or die;
    print $said join(' ', 'charge', $job->id, $job->receipt), "\n";
    return 0 + $job->id;
}

function charges => batch => 3, batch_wait => '1min', sub {
    my ($jobs) = @_;
    my @entries;
    for my $job (@$jobs) {
        select undef, undef, undef, 0.02 until $job->steps->{charge} || !@entries || -e $job->setting('said') . '.go';
        eval { push @entries, [ $job->step(charge => sub { charge($job) }) ]; 1 } or do {
            my $error = $@;
            die $error if !$job->params->{catch} || !$error->isa('Deferred::Gone');
            push @entries, sub { die $error };
        };
    }
    return \\@entries;
};

Deferred::Program->run;
"""

NODE = """import fs from "node:fs";
import pg from "pg";
import { define, Gone, run } from "deferred-program";

async function connection(job) {
  const parts = Object.fromEntries(job.setting("dsn").split(" ").map((word) => word.split("=")));
  const client = new pg.Client({ host: parts.host, port: +parts.port, user: parts.user, database: parts.dbname });
  await client.connect();
  return client;
}

define("finishes", async (params, job) => {
  const db = await connection(job);
  await db.query("begin");
  await db.query("insert into book values ($1)", [job.id]);
  await job.finish(db, { width: 640 });
  await db.query(params.commit ? "commit" : "rollback");
  await db.end();
  if (params.fail) throw new Error("after the end");
  return "returned";
});

define("extends", async (params, job) => {
  const db = await connection(job);
  await job.extend(db, "10min");
  const asked = "select (max(expires_at) > now() + interval '9 min')::text as longer from deferred.__deferred_lease";
  const { rows } = await db.query(asked);
  await db.end();
  return rows[0].longer;
});

define("reports", async (params, job) => {
  job.progress(1, 4, "hälf");
  while (!fs.existsSync(params.go)) await new Promise((done) => setTimeout(done, 20));
});

function charge(job) {
  fs.appendFileSync(job.setting("said"), `charge ${job.id} ${job.receipt}\\n`);
  return +job.id;
}

define("charges", { batch: 3, batchWait: "1min" }, async (jobs) => {
  const entries = [];
  for (const job of jobs) {
    while (!job.steps.charge && entries.length && !fs.existsSync(job.setting("said") + ".go")) {
      await new Promise((done) => setTimeout(done, 20));
    }
    try {
      entries.push([await job.step("charge", () => charge(job))]);
    } catch (error) {
      if (!job.params.catch || !(error instanceof Gone)) throw error;
      entries.push(error);
    }
  }
  return entries;
});

run();
"""

PHP = """<?php
require 'LIBRARIES/php/src/autoload.php';
use Deferred\\{Gone, Job, Program};

function connection(Job $job): PDO
{
    return new PDO('pgsql:' . strtr($job->setting('dsn'), ' ', ';'));
}

Program::define('finishes', function (array $params, Job $job): string {
    $db = connection($job);
    $db->beginTransaction();
    $db->prepare('insert into book values (?)')->execute([$job->id]);
    $job->finish($db, ['width' => 640]);
    $params['commit'] ? $db->commit() : $db->rollBack();
    if ($params['fail']) {
        throw new RuntimeException('after the end');
    }
    return 'returned';
});

Program::define('extends', function (array $params, Job $job): string {
    $db = connection($job);
    $job->extend($db, '10min');
    $asked = "select (max(expires_at) > now() + interval '9 min')::text from deferred.__deferred_lease";
    return $db->query($asked)->fetchColumn();
});

Program::define('reports', function (array $params, Job $job): void {
    $job->progress(1, 4, 'hälf');
    while (!file_exists($params['go'])) {
        usleep(20000);
        clearstatcache();
    }
});

function charge(Job $job): int
{
    file_put_contents($job->setting('said'), "charge $job->id $job->receipt\\n", FILE_APPEND);
    return $job->id;
}

Program::define('charges', function (array $jobs): array {
    $entries = [];
    foreach ($jobs as $job) {
        while (!isset($job->steps['charge']) && $entries && !file_exists($job->setting('said') . '.go')) {
            usleep(20000);
            clearstatcache();
        }
        try {
            $entries[] = [$job->step('charge', fn () => charge($job))];
        } catch (Gone $gone) {
            $entries[] = $job->params['catch'] ? $gone : throw $gone;
        }
    }
    return $entries;
}, batch: 3, batch_wait: '1min');

Program::run();
"""


def place(path, text):
    with open(path, "w") as f:
        f.write(text.replace("LIBRARIES", LIBRARIES))
    return path


def python(db, request):
    place(os.path.join(db.dir, "tasks.py"), PYTHON)
    return ["/usr/bin/env", f"PYTHONPATH={LIBRARIES}/python:{db.dir}", "/usr/bin/python3", "-m", "deferred", "tasks"]


def perl(db, request):
    return ["/usr/bin/env", f"PERL5LIB={LIBRARIES}/perl/lib", "/usr/bin/perl", place(f"{db.dir}/tasks.pl", PERL)]


def php(db, request):
    return ["/usr/bin/php", place(os.path.join(db.dir, "tasks.php"), PHP)]


def javascript(db, request):
    """Modules are looked up from the folder of the script."""
    if not (shutil.which("npm") and os.path.exists(node.NODE)):
        pytest.skip("node or npm is not installed")
    path = os.path.join(request.getfixturevalue("packages"), f"tasks-{os.getpid()}.mjs")
    request.addfinalizer(lambda: os.unlink(path))
    return [node.NODE, place(path, NODE)]


@pytest.fixture(params=[python, perl, php, javascript], ids=lambda made: made.__name__)
def program(db, request):
    """A database with a worker's config that has such a program, and the table book."""
    argv = request.param(db, request)
    if not os.path.exists([word for word in argv if word.startswith("/usr/") and word != "/usr/bin/env"][0]):
        pytest.skip(f"{argv[-2]} is not installed")
    words = ", ".join(f'"{word}"' for word in argv)
    db.config(
        f'program "tasks" {{ command = {{{words}}} }}\n'
        f'settings "tasks" {{ dsn = "{db.conninfo}" said = "{db.dir}/said" }}\n'
        'runners = 1\ninterval_floor = "50ms"\ninterval_ceiling = "200ms"\n'
    )
    db.sql("create table book (job bigint)")
    yield db
    ledger(db)


def drained(db):
    done = db.run(["check_deferred", "--cnt", "0", "--lease", "4s"])
    assert done.returncode == 0, done.stderr


def finishing(db, commit, fail):
    return db.defer("finishes", json.dumps({"commit": commit, "fail": fail}), max_attempts=1)


def test_a_function_finishes_its_job_in_its_own_transaction(program):
    jobs = [finishing(program, *how) for how in ((True, False), (True, True), (False, False), (False, True))]
    drained(program)
    ends = [program.sql("select outcome, result from deferred.__deferred_log where job_id = %s", job) for job in jobs]
    finished = [("ok", '{"width":640}')]
    assert ends == [finished, finished, [("ok", "returned")], [("failed", None)]]
    assert program.sql("select job from book order by 1") == [(job,) for job in jobs[:2]]
    error = program.one("select error from deferred.__deferred_log where job_id = %s", jobs[3])
    assert "after the end" in error, error


def test_a_function_extends_its_lease(program):
    job = program.defer("extends")
    drained(program)
    assert program.sql("select outcome, result from deferred.__deferred_log where job_id = %s", job) == [("ok", "true")]


def test_the_progress_of_a_function_is_shown(program):
    go = os.path.join(program.dir, "go")
    job = program.defer("reports", json.dumps({"go": go}))
    run = program.spawn(["check_deferred", "--cnt", "0"])

    def shown():
        return json.loads(program.run(["deferred", "show", "--json", job]).stdout)["progress"]

    progress = wait_for(shown, 30, "it shows")
    assert (progress["done"], progress["total"], progress["text"]) == (1, 4, "hälf")
    open(go, "w").close()
    assert run.wait(30) == 0, run.output()
    assert program.log(job) == [(1, "ok")] and shown() is None


@pytest.mark.parametrize("catch", [True, False], ids=["caught", "passed"])
def test_a_step_of_a_lost_job_ends_that_job_of_a_batch_only(program, catch):
    """Somebody else finishes a job of three while the function is busy with another."""
    said = os.path.join(program.dir, "said")
    jobs = [program.defer("charges", json.dumps({"catch": catch})) for _ in range(3)]
    run = program.spawn(["check_deferred", "--loop", "--log-level", "debug"])
    receipt = "select deferred.__token(%s, receipt, worker) from deferred.__deferred_lease where %s = any (ids)"
    wait_for(lambda: os.path.exists(said) and os.path.getsize(said), 30, "the function is busy")
    with open(said) as f:
        lost = jobs[1] if f"charge {jobs[1]} " not in f.read() else jobs[0]
    token = program.one(receipt, lost, lost)
    program.sql("select deferred.finish(%s, %s, 'elsewhere')", lost, token)
    if not catch:  # it fills the next batch
        jobs.append(program.defer("charges", '{"catch": true}'))
    open(said + ".go", "w").close()
    wait_for(lambda: program.hot() == 0, 30, "all have ended")
    run.signal(signal.SIGTERM)
    assert run.wait(30) == 0, run.output()
    other = [(1, "ok")] if catch else [(1, "snoozed"), (2, "ok")]
    assert [program.log(job) for job in jobs[:3]] == [[(1, "ok")] if job == lost else other for job in jobs[:3]]
    results = program.sql("select result from deferred.__deferred_log where final order by job_id")
    assert [result for result, in results] == [f"[{job}]" if job != lost else "elsewhere" for job in jobs]
    with open(said) as f:
        charged = [line.split()[1] for line in f]
    assert sorted(charged) == sorted(map(str, jobs)), "no step ran twice"
    assert program.sql("select from deferred.__deferred_step") == []
