"""What is promised about the schema as a whole, and about the files it is made of."""

import glob
import os
import re

import pg
from test_claim import nodes


def test_every_table_and_column_has_a_comment(db):
    assert (
        db.sql(
            """
        select c.relname, a.attname from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attnum >= 0 and not a.attisdropped
        where c.relnamespace = 'deferred'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
          and (col_description(c.oid, a.attnum) is null or obj_description(c.oid, 'pg_class') is null)"""
        )
        == []
    )


def test_every_function_pins_its_search_path_or_runs_as_the_caller(db):
    """But for defer(), for which it would be dear: test_defer_looks_up_nothing_in_the_search_path_of_its_caller."""
    assert (
        db.sql(
            """
        select p.proname from pg_proc p where p.pronamespace = 'deferred'::regnamespace and p.prosecdef
          and not coalesce(array_to_string(p.proconfig, ' '), '') like '%%search_path=pg_catalog, pg_temp%%'""".replace(
                "%%", "%"
            )
        )
        == [("defer",)]
    )


def test_nobody_but_the_named_roles_may_use_the_schema(db):
    assert (
        db.sql(
            """
        select p.proname from pg_proc p where p.pronamespace = 'deferred'::regnamespace
          and has_function_privilege('public', p.oid, 'execute')"""
        )
        == []
    )
    assert (
        db.sql(
            """
        select c.relname from pg_class c where c.relnamespace = 'deferred'::regnamespace
        and c.relkind in ('r', 'p', 'v')
          and exists (select from aclexplode(c.relacl) a where a.grantee = 0)"""
        )
        == []
    )


def test_a_file_has_what_its_name_says():
    """So that who looks for a function finds it, and migrate knows what to drop where a file went."""
    for kind, what in (("functions", "(?:function|aggregate)"), ("views", "view")):
        paths = glob.glob(os.path.join(pg.TOP, "sql", kind, "**", "*.sql"), recursive=True)
        assert paths
        for path in paths:
            with open(path) as f:
                made = set(re.findall(rf"(?mi)^create or replace {what} deferred\.(\w+)", f.read()))
            assert made == {os.path.basename(path)[:-4]}, path
    with open(os.path.join(pg.TOP, "sql", "migrations", "0001_tables.sql")) as f:
        assert not re.search(r"(?mi)^create (or replace )?(function|view)", f.read())


def test_no_statement_names_an_object_without_its_schema():
    """A search_path of the user's must not decide which table is meant."""
    for name in sorted(pg.sources()):
        text = re.sub(r"--.*", "", pg.source(name))
        assert re.findall(r"(?<![.\w])__deferred\w*", text) == [], name


def test_what_is_to_be_applied_anew_is_found_by_one_reading_of_the_catalog(db):
    """Not by one for each function, which took half a second."""
    db.sql("prepare changed as " + pg.source("admin_migrate_changed"))
    names, checksums = db.sql("select array_agg(name), array_agg(checksum) from deferred.__deferred_source")[0]
    db.sql("create function deferred.more() returns int language sql as 'select 1'; drop view deferred.job cascade")
    found = [
        names[n - 1]
        for n, in db.sql("execute changed(%s, %s)", names + ["functions/more"], checksums + ["0"])
        if n <= len(names)
    ]
    assert "views/job" in found and all(name.startswith("views/") for name in found)
    ((plan,),) = db.sql("explain (analyze, format json) execute changed(%s, %s)", names, checksums)
    scans = [n for n in nodes(plan[0]["Plan"]) if n.get("Relation Name") in ("pg_proc", "pg_class")]
    assert {n["Relation Name"] for n in scans} == {"pg_proc", "pg_class"} and {n["Actual Loops"] for n in scans} == {1}


def test_a_claim_changes_no_indexed_column(db):
    """Else it would not be a heap-only update, and the index would grow with every claim."""
    indexed = {
        r[0]
        for r in db.sql(
            """
        select a.attname from pg_index i join pg_attribute a on a.attrelid = i.indrelid
        where i.indrelid = 'deferred.__deferred_hot'::regclass
          and (a.attnum = any (i.indkey) or pg_get_expr(i.indpred, i.indrelid) ~ ('\\m' || a.attname || '\\M'))"""
        )
    }
    assert indexed == {
        "id",
        "queue",
        "fn",
        "priority",
        "xid",
        "due_at",
        "key",
        "limited",
        "unknown",
        "bounded",
        "concurrency_key",
        "attempt",
        "attempt_base",
    }
    db.sql(
        "select deferred.__enqueue_many(array_fill('noop'::text, array[50]), array_fill('{}'::json, array[50]),"
        + ",".join(["null"] * 14)
        + ")"
    )
    db.sql(
        """update deferred.__deferred_hot set receipt = 1, worker = 1, started_at = now(),
              visible_at = now() + interval '1 min' where id in (select id from deferred.__deferred_hot limit 5)"""
    )
    db.sql("select pg_stat_force_next_flush()")
    assert db.one("select n_tup_hot_upd from pg_stat_user_tables where relname = '__deferred_hot'") == 5


def test_the_rows_of_a_job_lose_nothing_to_padding(db):
    """Each byte of them is written for every job, to the log of the server too: columns stand in
    the order of their widths, what most jobs lack is NULL."""
    job = db.one("""select deferred.defer('noop', '{"n": 1}')""")
    db.sql(
        """insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, worker, receipt,
            plugin, wait_us, run_us, user_us, sys_us, max_rss_kb)
              values (%s, 1, 'ok', true, now(), 1, 1, 'sample 1.0 3c81fba5', 40000, 20, 0, 4, 7800)""",
        job,
    )
    for table, most in ("__deferred", 73 + len("deferred")), ("__deferred_hot", 78), ("__deferred_log", 120):
        columns = [
            c
            for c, in db.sql(
                "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0", "deferred." + table
            )
        ]
        ((size, used),) = db.sql(
            f"select pg_column_size(t), {' + '.join(f'coalesce(pg_column_size(t.{c}), 0)' for c in columns)} "
            f"from deferred.{table} t"
        )
        assert (table, size) == (
            table,
            32 + used,
        ) and size <= most  # 23 bytes and a bit for each column come first, 8 at a time


def test_no_statement_makes_commits_less_durable():
    """What was acknowledged as recorded must be; how durable a commit is, the administrator says."""
    for name in sorted(pg.sources()):
        text = pg.source(name)
        if name == "admin_durability":  # says what it is
            text = (
                text.replace("current_setting('synchronous_commit')", "")
                .replace("synchronous_commit is off", "")
                .replace("(synchronous_commit %s)", "")
            )
        assert "synchronous_commit" not in text or name == "message_session", name


def test_a_migration_locks_the_tables_that_it_alters_before_it_alters_the_first():
    """First the settings of queues, which defer() reads first, so that neither waits for the other."""
    for path in sorted(glob.glob(os.path.join(pg.TOP, "sql/migrations/*.sql")))[1:]:
        with open(path) as f:
            before, _, after = re.sub("--.*", "", f.read()).partition("alter table ")
        locked = re.findall(r"deferred\.\w+", before.partition("lock table ")[2].partition(" in access")[0])
        altered = re.findall(r"(?m)^alter table (\S+)", "alter table " + after if after else "")
        assert set(altered) == set(locked), path
        if "deferred.__deferred_queue" in locked:
            assert locked[0] == "deferred.__deferred_queue", path
