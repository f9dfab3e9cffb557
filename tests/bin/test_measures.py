"""Times and memory that cannot be, recorded by a role that may record attempts: who reads the log
goes on, and shows the nearest that can be."""

import csv

import pytest

import pg
from test_deferred import login

pytestmark = pytest.mark.by_hand
MOST = 100_000_000_000_000  # deferred.__measure()
SAID = ["NaN", "Infinity", "-Infinity", "3e38", "-3e38", "9.2233720e18", "-1", "1e14", "16777215", "0", None]
READ = [MOST, MOST, 0, MOST, 0, MOST, 0, MOST, 16777215, 0, None]


@pytest.fixture
def job(db):
    """One whose attempts, of just now, of a while ago and of the day before, such a role has recorded."""
    job = db.defer("noop", traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    assert db.run(["check_deferred"]).returncode == 0
    name, env = login(db, "deferred_worker")
    db.sql(f"set role {name}")
    db.sql(
        """insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at,
            plugin, wait_us, run_us, user_us, sys_us, max_rss_kb)
              select %s, 1 + i, 'failed', false, now() - ago, now() - ago, 'p 1', x, x, x, x, x
              from unnest(%s::real[]) with ordinality m(x, i), unnest('{3s,20min,26h}'::interval[]) ago""",
        job,
        SAID,
    )
    db.sql(
        """insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at,
            plugin, wait_us, run_us)
              select %s, 100, 'failed', false, at, now() - interval '1min', 'p 2', 1, 1
              from unnest('{infinity,-infinity,290000-01-01,4700-01-01 BC}'::timestamptz[]) at""",
        job,
    )
    db.sql("reset role")
    db.sql("update deferred.__deferred set created_at = now() - interval '2 days'")
    db.sql("update deferred.__deferred_folded set folded_to = now() - interval '3 days', id_to = 0")
    return job


def test_what_cannot_be_is_read_as_the_nearest_that_can(db, job):
    assert [
        r
        for r, in db.sql(
            "select deferred.__measure(x) from unnest(%s::real[]) with ordinality m(x, i) order by i", SAID
        )
    ] == READ
    attempts = db.sql(
        "select wait_us, run_us, user_us, sys_us, max_rss_kb from deferred.attempt where job_id = %s "
        "and plugin = 'p 1' order by attempt",
        job,
    )
    assert attempts == [(value,) * 5 for value in READ for _ in range(3)]


def test_it_is_part_of_the_statement_that_calls_it(db):
    plan = db.sql("explain (verbose, costs off) select run_us from deferred.attempt")
    assert "__measure" not in str(plan) and "CASE" in str(plan)


def ask(db, env, *args):
    done = db.run(["deferred", *args], env=env)
    assert done.returncode in (0, 1, 2) and "out of range" not in done.stdout + done.stderr, done
    return done.stdout


@pytest.mark.parametrize(
    "command",
    [
        "status",
        "status --json",
        "metrics",
        "ls",
        "ls --state done",
        "why",
        "why --all",
        "why 1",
        "top",
        "functions",
        "advise --within 2min",
        "simulate",
        "queue ls",
        "show 1",
        "show 1 --json",
        "spans",
        "doctor",
    ],
)
def test_who_reads_the_log_goes_on(db, job, command):
    assert job == 1
    ask(db, login(db, "deferred_reader")[1], *command.split())


def test_who_folds_the_log_goes_on(db, job):
    assert job == 1
    ask(db, login(db, "deferred_worker")[1], "fold")


def test_a_rate_is_known_in_spite_of_it(db, job):
    """Of `deferred why`, which goes on without one."""
    db.sql("prepare rates as " + pg.source("why_rates"))
    ((minutes, attempts, *_),) = db.sql("execute rates (null, 100, 1000)")
    assert minutes > 0 and attempts >= len(SAID)


def test_what_is_archived_is_read_so_too(db, tmp_path):
    db.sql(
        """create table deferred.__deferred_log_20200106 partition of deferred.__deferred_log for values
            from ('2020-01-06 00:00:00+00') to ('2020-01-13 00:00:00+00');
              alter table deferred.__deferred_log_20200106 owner to deferred_owner"""
    )
    db.sql(
        """insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at, wait_us, run_us,
            user_us, sys_us, max_rss_kb)
              select 1, i, 'ok', true, '2020-01-07', x, x, x, x, x from unnest(%s::real[]) with ordinality m(x, i)""",
        SAID,
    )
    ask(db, login(db, "deferred_purger")[1], "purge", "--older-than", "30d", "--archive", f"cat > {tmp_path}/log.csv")
    with open(tmp_path / "log.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    assert [[r[name] for name in ("wait_us", "run_us", "user_us", "sys_us", "max_rss_kb")] for r in rows] == [
        ["" if x is None else str(x)] * 5 for x in READ
    ]


def test_sums_end_where_a_number_of_the_database_does(db):
    """200,000 attempts of three years each: the minute is summed, and summed again, and what is told is a number."""
    db.sql(
        """insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at,
            wait_us, run_us, user_us, sys_us, max_rss_kb)
              select %s, n, 'failed', false, now(), now() - interval '2 hours', 'NaN', 'NaN', 'NaN', 'NaN',
              'NaN' from generate_series(1, 200000) n""",
        db.defer("noop"),
    )
    db.sql(
        "update deferred.__deferred_folded set folded_to = now() - interval '3 hours', "
        "exact_to = now() - interval '3 hours'"
    )
    assert ask(db, None, "fold").startswith("200000 ")
    sums = "select distinct wait_us, run_us, cpu_us, max_rss_kb from deferred.__deferred_sum where failed > 0"
    assert db.sql(sums) == [(10**18, 10**18, 10**18, MOST)]
    # In the same minute.
    db.sql(
        """insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at,
            wait_us) select max(l.job_id), 200001, 'failed', false, max(l.finished_at), 1
              from deferred.__deferred_log l"""
    )
    db.sql("update deferred.__deferred_folded set exact_to = now() - interval '3 hours'")
    ask(db, None, "fold")
    assert db.one("select failed from deferred.__deferred_sum where span = 0 limit 1") == 200001
    assert {s[0] for s in db.sql(sums)} <= {0, 10**18}
    assert "deferred_cpu_seconds_total{fn=" in ask(db, None, "metrics")
