"""A database whose functions and views are older ones becomes the same as a new one."""

import io
import os
import subprocess
import tarfile

import psycopg2
import pytest

import pg


def schema_of(db):
    """All functions and views, each with its definition, comment and rights."""
    return db.sql(
        """
        select p.oid::regprocedure::text, case when p.prokind = 'a' then '' else pg_get_functiondef(p.oid)
        end, obj_description(p.oid, 'pg_proc'),
               pg_get_userbyid(p.proowner), (select array_agg(a::text order by a::text) from unnest(p.proacl) a)
        from pg_proc p where p.pronamespace = 'deferred'::regnamespace
        union all
        select c.oid::regclass::text, pg_get_viewdef(c.oid), obj_description(c.oid, 'pg_class'),
               pg_get_userbyid(c.relowner), (select array_agg(a::text order by a::text) from unnest(c.relacl) a)
        from pg_class c where c.relnamespace = 'deferred'::regnamespace and c.relkind = 'v'
        order by 1"""
    )


def migrate(db):
    done = db.run(["deferred", "migrate"])
    assert done.returncode == 0, done.stderr
    return done.stdout


class Function:
    def __init__(self, name, modes, names, types, result, set_):
        self.name, self.result = name, ("setof " if set_ else "") + result
        self.arguments = [list(a) for a in zip(modes, names, types)]
        self.default = ""

    def inputs(self):
        return [a for a in self.arguments if a[0] in "ibv"]

    def sql(self):
        modes = {"i": "in", "o": "out", "b": "inout", "v": "variadic", "t": "out"}
        arguments = ", ".join(f'{modes[m]} "{n}" {t}{self.default if m in "ib" else ""}' for m, n, t in self.arguments)
        return (
            f"create function deferred.{self.name}({arguments}) returns {self.result} language plpgsql as 'begin end'"
        )


def one_more(f):
    f.arguments.append(["i", "older", "integer"])


def one_fewer(f):
    if f.inputs():
        f.arguments.remove(f.inputs()[-1])


def other_type(f):
    for a in f.inputs()[:1]:
        a[2] = "regclass"


def other_names(f):
    for i, a in enumerate(f.inputs()):
        a[1] = f"older_{i}"


def other_result(f):
    f.arguments = f.inputs()
    f.result = "regclass"


def more_defaults(f):
    f.default = " default null"


def no_function(f):
    f.arguments = f.inputs()
    f.sql = lambda: Function.sql(f).replace("create function", "create procedure").replace(f" returns {f.result}", "")


def functions(db):
    return [
        Function(*row)
        for row in db.sql(
            """
        select p.proname, coalesce(p.proargmodes::text[], array_fill('i'::text, array[p.pronargs])),
               coalesce((select array_agg(coalesce(nullif(p.proargnames[i], ''), 'a' || i) order by i)
                         from generate_subscripts(coalesce(p.proallargtypes, p.proargtypes::oid[]), 1) i),
                        array(select 'a' || i from generate_series(1, p.pronargs) i)),
               array(select format_type(t.oid, null)
               from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality t(oid, n) order by n),
               format_type(p.prorettype, null), p.proretset
        from pg_proc p where p.pronamespace = 'deferred'::regnamespace and p.prokind = 'f'
        and p.prorettype <> 'trigger'::regtype"""
        )
    ]


def older_view(db, name, used):
    """Other columns, built on the same functions."""
    columns = [
        c
        for c, in db.sql(
            "select format_type(atttypid, atttypmod) from pg_attribute where attrelid = %s::regclass and attnum > 0",
            name,
        )
    ]
    calls = [f"deferred.{f.name}({', '.join(f'null::{t}' for _, _, t in f.inputs())})" for f in used]
    return f"create view {name} as select " + ", ".join(
        [f"null::{t} as older_{i}" for i, t in enumerate(columns)] + calls
    )


@pytest.mark.parametrize(
    "change",
    [one_more, one_fewer, other_type, other_names, other_result, more_defaults, no_function],
    ids=lambda c: c.__name__,
)
def test_functions_and_views_that_were_declared_otherwise_are_replaced(db, change):
    db.sql("set search_path = pg_catalog")  # so that names are shown with their schema
    fresh = schema_of(db)
    made = functions(db)
    uses = db.sql(
        """
        select distinct r.ev_class::regclass::text, p.proname from pg_depend d join pg_rewrite r
        on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
        join pg_proc p on d.refclassid = 'pg_proc'::regclass and p.oid = d.refobjid
        where p.pronamespace = 'deferred'::regnamespace"""
    )
    for f in made:
        change(f)
    made = list({(f.name, *(t for _, _, t in f.inputs())): f for f in made}.values())  # some have become the same
    names = [
        v
        for v, in db.sql(
            "select oid::regclass::text from pg_class where relnamespace = 'deferred'::regnamespace and relkind = 'v'"
        )
    ]
    views = [older_view(db, v, [f for f in made if (v, f.name) in uses and change is not no_function]) for v in names]
    drops = [f"drop view {', '.join(names)}"] + [
        d
        for d, in db.sql(
            """
        select 'drop function ' || oid::regprocedure || ' cascade' from pg_proc
        where pronamespace = 'deferred'::regnamespace and prokind = 'f' and prorettype <> 'trigger'::regtype"""
        )
    ]
    db.sql("; ".join(drops))
    db.sql(
        "set check_function_bodies = off; "
        + "; ".join(["set role deferred_owner"] + [f.sql() for f in made] + views + ["reset role"])
    )
    db.sql("update deferred.__deferred_source set checksum = 'older'")
    migrate(db)
    assert schema_of(db) == fresh
    assert "nothing to do" in migrate(db)


def test_rights_and_comments_that_files_gave_earlier_go(db):
    fresh = schema_of(db)
    db.sql("grant execute on all functions in schema deferred to deferred_purger, deferred_http")
    db.sql("grant select, delete on deferred.job, deferred.__offered to deferred_purger")
    db.sql("comment on function deferred.__actor is 'older'")
    db.sql("comment on view deferred.__offered is 'older'")
    db.sql("update deferred.__deferred_source set checksum = 'older'")
    migrate(db)
    assert schema_of(db) == fresh


def commits():
    """Some that changed functions or views, from the last one back; none where there is no history."""
    try:
        said = subprocess.run(
            ["git", "-C", pg.TOP, "log", "-160", "--format=%H", "--", "sql/functions", "sql/views"],
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        return []
    return said.stdout.split()[1::20]


def sources_of(commit):
    """The files of a commit, in the order in which they are applied."""
    said = subprocess.run(
        ["git", "-C", pg.TOP, "archive", commit, "sql/functions", "sql/views"], capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(said.stdout)) as tar:
        return [
            (m.name.split("/")[1], os.path.basename(m.name)[:-4], tar.extractfile(m).read().decode())
            for m in tar
            if m.isfile()
        ]


def go_back(cursor, kind, name, text):
    """One function or view of another time; what tables of today do not allow stays as it is."""
    cursor.execute("savepoint source")
    try:
        if kind == "functions":
            cursor.execute(
                "select 'drop routine ' || oid::regprocedure || ' cascade' from pg_proc "
                "where pronamespace = 'deferred'::regnamespace"
                " and proname = %s",
                (name,),
            )
            for (drop,) in cursor.fetchall():
                cursor.execute(drop)
        else:
            cursor.execute(f"drop view if exists deferred.{name} cascade")
        cursor.execute(text)
    except psycopg2.Error:
        cursor.execute("rollback to savepoint source")
    cursor.execute("release savepoint source")


def test_functions_and_views_of_earlier_commits_are_replaced(db):
    fresh = schema_of(db)
    for commit in commits():
        with db.connect() as connection, connection.cursor() as cursor:
            cursor.execute("set role deferred_owner; set check_function_bodies = off")
            for source in sources_of(commit):
                go_back(cursor, *source)
            cursor.execute("update deferred.__deferred_source set checksum = 'older'")
        connection.close()
        migrate(db)
        assert schema_of(db) == fresh, commit


def test_what_else_is_built_on_a_function_stays_where_only_its_text_changes(db):
    db.sql("create view public.mine as select deferred.state(j.last_outcome) as mine from deferred.job j")
    db.sql("grant execute on function deferred.state(text) to pg_monitor")
    db.sql("update deferred.__deferred_source set checksum = 'older'")
    migrate(db)
    assert db.sql("select mine from public.mine") == []
    assert db.one("select has_function_privilege('pg_monitor', 'deferred.state(text)', 'execute')")


def test_what_is_built_on_a_function_that_has_to_go_is_named(db):
    db.sql("create function deferred.state(text, older integer) returns text language sql as 'select 1'")
    db.sql("create view public.mine as select deferred.state('ok', 1) as mine")
    db.sql("update deferred.__deferred_source set checksum = 'older'")
    before = schema_of(db)
    done = db.run(["deferred", "migrate"])
    assert (
        done.returncode == 1 and "used by view public.mine" in done.stderr and "hint: drop what uses it" in done.stderr
    )
    assert schema_of(db) == before
    db.sql("drop view public.mine")
    migrate(db)
    assert (
        db.one("select count(*) from pg_proc where pronamespace = 'deferred'::regnamespace and proname = 'state'") == 1
    )
