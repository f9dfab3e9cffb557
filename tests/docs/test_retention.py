"""The how-to page archives old partitions, and copies the history to another server, where a purge deletes nothing."""

import re
import subprocess

import psycopg2
import pytest

import harness
import pg
from documents import fenced, read

SAME = {"deferred.__deferred": "id", "deferred.__deferred_log": "job_id, attempt, finished_at"}


def psql(conninfo, sql):
    done = subprocess.run(
        ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", conninfo],
        input=sql,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def two():
    here = harness.OwnServer(settings={"wal_level": "logical"})
    there = pg.Cluster(here.cluster.folder + "_there").start()
    yield here, there.create_db("history")
    here.close()
    there.stop("immediate")


def rows(conninfo, table, order):
    with psycopg2.connect(conninfo) as connection, connection.cursor() as cursor:
        cursor.execute(f"select to_jsonb(t)::text from {table} t order by {order}")
        return [r for r, in cursor.fetchall()]


def test_an_old_partition_is_archived_before_it_is_dropped(db, tmp_path):
    db.sql(
        "create table deferred.__deferred_log_20200106 partition of deferred.__deferred_log for values"
        " from ('2020-01-06 00:00:00+00') to ('2020-01-13 00:00:00+00');"
        "alter table deferred.__deferred_log_20200106 owner to deferred_owner;"
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at)"
        " values (1, 1, 'ok', true, '2020-01-07')"
    )
    (line,) = re.findall(r"(?m)^deferred (purge .*--archive .*)$", read("docs", "how-to", "retention.md"))
    command = f"{harness.program('deferred')} {line.replace('/var/backups', str(tmp_path))}"
    done = db.run(["bash", "-e", "-c", command])
    assert done.returncode == 0 and "archived deferred_log_20200106, 1 row\n" in done.stdout, done
    (archived,) = tmp_path.iterdir()
    rows = subprocess.run(["zstd", "-dc", archived], capture_output=True, text=True, check=True).stdout
    assert archived.name == "deferred_log_20200106.csv.zst" and "2020-01-07" in rows


@pytest.mark.slow
def test_history_goes_to_another_server_and_stays_there(two, wait_for):
    here, there = two
    page = read("docs", "how-to", "retention.md")
    publication, tables, subscription = fenced(page[page.index("## Copy the history") :])
    assert "host=db1 dbname=app user=replicator" in subscription
    before = [here.defer("noop", params='{"n": 1}', tags=["a", "b"], label="k\u00f6ln") for _ in range(5)]
    assert here.run(["check_deferred"]).returncode == 0
    psql(here.conninfo, publication)
    psql(there, "".join(text for (text,) in here.sql(tables)))
    psql(there, subscription.replace("host=db1 dbname=app user=replicator", here.conninfo))
    same = lambda: [rows(here.conninfo, t, o) == rows(there, t, o) for t, o in SAME.items()]  # noqa: E731
    wait_for(lambda: same() == [True, True], 30, "what there was has been copied")
    # What comes one by one and in bulk, what fails and is retried, and what falls into the net and is moved from there.
    here.sql(
        "select deferred.defer_many((select json_agg(json_build_object('fn', 'noop', "
        "'params', json_build_object('n', n))) from generate_series(1, 3000) n))"
    )
    here.sql("select setval('deferred.__deferred_id_seq', 45000000)")
    late = here.defer("noop")
    assert here.one("select count(*) from deferred.__deferred_default") == 1
    assert here.run(["check_deferred", "--cnt", "0"]).returncode == 0
    here.sql("select deferred.maintain()")
    assert (
        here.one("select tableoid::regclass::text from deferred.__deferred where id = %s", late)
        not in (None, "__deferred_default")
        and here.hot() == 0
    )
    wait_for(lambda: same() == [True, True], 30, "what came was sent")
    assert len(rows(there, "deferred.__deferred", "id")) == len(before) + 3001
    # A purge is of here.
    kept = [rows(there, t, o) for t, o in SAME.items()]
    here.sql("update deferred.__deferred set created_at = now() - interval '2 days' where id < 40000000")
    here.sql(
        "insert into deferred.__deferred_log (job_id, attempt, outcome, final, finished_at) "
        "values (-1, 1, 'ok', true, now() - interval '1 year')"
    )
    done = here.run(["deferred", "purge", "--older-than", "0s"])
    assert done.returncode == 0 and here.one("select count(*) from deferred.__deferred") == 0, done
    after = here.defer("noop")
    wait_for(
        lambda: rows(there, "deferred.__deferred", "id")[-1].startswith("{")
        and f'"id": {after},' in rows(there, "deferred.__deferred", "id")[-1],
        30,
        "it goes on",
    )
    now = [rows(there, t, o) for t, o in SAME.items()]
    assert now[0][:-1] == kept[0] and len(now[1]) == len(kept[1]) + 1
