"""Whose rights a rule's query has, and that it only reads. "Root" below is the superuser the tests
log in as: who runs the rule of somebody who has hardly any rights, and means him harm."""

import os

import psycopg2
import pytest

# What an owner may try from inside of his query: become somebody else, and leave a mark of it.
TRY = """
create function {o}.try(what text) returns text language plpgsql volatile as $$
begin
    execute what;
    return 'did it as ' || current_user;
exception when others then
    return sqlerrm;
end $$;
create function {o}.mark() returns boolean language plpgsql volatile as $$
begin
    execute 'reset role';
    execute 'create table public.taken_over as select current_user';
    return true;
exception when others then
    return true;
end $$;
"""


@pytest.fixture
def owner(db):
    """A role that may defer and has a schema, with a table of three rows; its name, which is that of the schema too."""
    name = f"owner_{os.getpid()}"
    db.sql(f"drop role if exists {name}")
    db.sql(f"create role {name} login in role deferred_producer")
    db.sql(f"create schema {name} authorization {name}")
    db.sql(f"set role {name}")
    db.sql(f"create table {name}.doc as select i as id, 'doc ' || i as title from generate_series(1, 3) i")
    db.sql(TRY.format(o=name))
    db.sql("reset role")
    db.sql("create table public.secret as select 'root only'::text as text")
    yield name
    db.sql("reset role")
    db.sql(f"drop schema {name} cascade; delete from deferred.__deferred_rule")
    db.sql(f"drop owned by {name}; drop role {name}")


def add(db, owner, query, name="r", **opts):
    """Added as its owner, straight into the table: what `deferred rule add` would refuse too."""
    with db.connect() as conn, conn.cursor() as cursor:
        cursor.execute(f"set local role {owner}")
        cursor.execute(
            "select deferred.__rule_add(%s, %s, 'noop', '{}', 'id', null, null, '{}', 600000, "
            "current_setting('search_path'))",
            (name, query),
        )
    conn.close()


def run(db, name="r", rule="r"):
    return db.run(["deferred", "rule", "run", rule])


def params(db):
    return [r[0] for r in db.sql("select params from deferred.__deferred order by id")]


def untouched(db):
    """Nothing of what mark() leaves behind, and nobody has more rights than before."""
    assert db.one("select to_regclass('public.taken_over') is null")


def test_a_query_has_the_rights_of_its_owner_not_of_who_runs_it(db, owner):
    add(db, owner, f"select 1 as id, current_user::text as who, {owner}.try('select * from public.secret') as secret")
    assert run(db).returncode == 0
    assert params(db) == [{"id": 1, "who": owner, "secret": "permission denied for table secret"}]
    add(db, owner, "select 1 as id, text from public.secret", name="direct")
    result = run(db, rule="direct")
    assert result.returncode == 77 and "permission denied for table secret" in result.stderr


@pytest.mark.parametrize(
    "way",
    [
        "reset role",
        "set role none",
        "set session authorization default",
        "reset session authorization",
        "set local role deferred_owner",
        "select set_config('role', 'none', false)",
    ],
)
def test_a_query_cannot_leave_its_role(db, owner, way):
    add(
        db,
        owner,
        f"select 1 as id, {owner}.try($q${way}$q$) || {owner}.try('select * "
        f"from public.secret') as way, current_user::text as who",
    )
    assert run(db).returncode == 0
    [row] = params(db)
    assert row["who"] == owner
    assert row["way"].endswith("permission denied for table secret"), row


@pytest.fixture
def tenant(db, owner):
    """Another role, with a rule `hers` whose text nobody else is to see, and a job."""
    name = f"tenant_{os.getpid()}"
    db.sql(f"drop role if exists {name}")
    db.sql(f"create role {name} login in role deferred_producer")
    add(db, name, "select 1 as id, 'her secret' as note", name="hers")
    with db.connect() as conn, conn.cursor() as cursor:
        cursor.execute(f"set local role {name}")
        cursor.execute("select deferred.defer('noop', queue => 'hers')")
        db.her_job = cursor.fetchone()[0]
    conn.close()
    yield name
    db.sql("delete from deferred.__deferred_rule; delete from deferred.__deferred_hot; delete from deferred.__deferred")
    db.sql(f"drop role {name}")


# What says to an owner, of things that are not his, as much as it says to who acts.
ASKS = {
    "the list of rules": "select string_agg(concat(query, params, last_error), '') from deferred.__rules() "
    "where name = 'hers'",
    "a rule": "select (deferred.__rule_get('hers', false)).query",
    "a plan": "select plan from deferred.__rule_look('hers', 1) limit 1",
    "the state of a job": "select deferred.__state({job})",
    "what there is to cancel": "select nullif(done, 0) from deferred.__cancel_some(null, '{{}}', null, true, 1000)",
    "who acts": "select nullif(current_setting('is_superuser'), 'off')",
    "the role": "select nullif(current_setting('role'), '{owner}')",
}


@pytest.mark.parametrize("asks", ASKS)
@pytest.mark.parametrize("way", ["column", "error", "planned"])
def test_a_query_is_not_told_what_only_who_runs_it_may_know(db, owner, tenant, asks, way):
    ask = ASKS[asks].format(job=db.her_job, owner=owner)
    db.sql(f"set role {owner}")
    # Not raised by what it asks, but with what it was told.
    db.sql(
        f"""create function {owner}.tell(fails boolean) returns text
            language plpgsql {'immutable' if way == 'planned' else 'volatile'} as $$
        declare told text;
        begin
            begin
                execute $q${ask}$q$ into told;
            exception when others then told := null;
            end;
            if fails and told is not null then raise exception 'told: %', told; end if;
            return coalesce(told, 'nothing');
        end $$"""
    )
    db.sql("reset role")
    add(
        db,
        owner,
        f"select 1 as id, {owner}.tell({way != 'column'}) as told"
        + (f" where {owner}.tell(true) <> ''" if way == "planned" else ""),
    )
    assert db.run(["deferred", "rule", "test", "r"]).returncode == 0
    result = run(db)
    assert (result.returncode, result.stderr) == (0, "")
    assert [p["told"] for p in params(db) if "told" in p] == ["nothing"]
    assert db.one("select last_error from deferred.__deferred_rule where name = 'r'") is None


def test_who_ran_a_rule_is_the_login_role(db, owner):
    add(db, owner, f"select * from {owner}.doc")
    assert run(db).returncode == 0
    assert db.one("select last_run_by = session_user from deferred.__deferred_rule")
    add(db, owner, "select 1/0 as id", name="fails")
    assert run(db, rule="fails").returncode == 65
    assert db.one("select last_run_by = session_user from deferred.__deferred_rule where name = 'fails'")


def test_an_owner_who_may_not_defer_any_more_has_no_rules_run(db, owner):
    add(db, owner, f"select * from {owner}.doc")
    db.sql(f"revoke deferred_producer from {owner}")
    result = run(db)
    assert result.returncode == 77 and f"hint: grant deferred_producer to {owner}" in result.stderr, result
    assert db.hot() == 0
    db.sql(f"grant deferred_producer to {owner}")
    assert run(db).returncode == 0


def test_text_of_the_query_is_not_even_parsed_with_the_rights_of_who_runs_it(db, owner):
    """A constant of a type that holds a domain is checked while the query is parsed, and the check
    is a function of the owner's."""
    db.sql(f"set role {owner}")
    db.sql(f"create domain {owner}.trap as text check ({owner}.mark())")
    db.sql(f"create type {owner}.holds as (t {owner}.trap)")
    db.sql("reset role")
    # The trap works: parsing it here is enough.
    db.sql(f"create view public.parsed as select '(x)'::{owner}.holds as t")
    assert not db.one("select to_regclass('public.taken_over') is null")
    db.sql("drop table public.taken_over")
    add(db, owner, f"select id, '(x)'::{owner}.holds as t, '{{x}}'::{owner}.trap[] as a from {owner}.doc")
    assert db.run(["deferred", "rule", "test", "r"]).returncode == 0
    assert run(db).returncode == 0
    assert len(params(db)) == 3
    untouched(db)


def test_planning_the_query_has_the_rights_of_its_owner(db, owner):
    """The planner calls what claims to be immutable."""
    db.sql(f"alter function {owner}.mark() immutable")
    add(db, owner, f"select id from {owner}.doc where {owner}.mark()")
    assert db.run(["deferred", "rule", "test", "r"]).returncode == 0
    assert run(db).returncode == 0
    assert len(params(db)) == 3
    untouched(db)


def test_a_search_path_left_behind_catches_nobody(db, owner):
    """What runs after the query, with the rights of deferred_owner and root, must not look names up
    where the owner says."""
    shadows = [
        "length(text)",
        "octet_length(text)",
        "translate(text, text, text)",
        "count(bigint)",
        "format(text, text)",
        "set_config(text, text, boolean)",
        "json_build_object(text, text)",
        "to_json(text)",
        "clock_timestamp()",
        "pg_backend_pid()",
        "__actor()",
    ]
    db.sql(f"set role {owner}")
    db.sql(f"grant usage on schema {owner} to public")
    for s in shadows:
        db.sql(
            f"create function {owner}.{s} returns integer language plpgsql as $$ begin perform {owner}.mark(); "
            f"return 1; end $$"
        )
    for left, right in (
        ("text", "text"),
        ("integer", "integer"),
        ("bigint", "bigint"),
        ("bigint", "integer"),
        ("timestamptz", "interval"),
    ):
        db.sql(
            f"create function {owner}.eq(a {left}, b {right}) returns boolean "
            f"language plpgsql as $$ begin return {owner}.mark(); end $$"
        )
        for op in ("=", "<>", ">", "<=", "-"):
            db.sql(f"create operator {owner}.{op} (function = {owner}.eq, leftarg = {left}, rightarg = {right})")
    db.sql("reset role")
    # More than 512 bytes with brackets: a function of ours without a search_path of its own looks at them.
    add(
        db,
        owner,
        f"""select id, repeat('[', 600) as deep, {owner}.try('set search_path = {owner}, pg_catalog') as t
            from {owner}.doc""",
    )
    for args in (["test", "r"], ["run", "r"], ["run", "r", "--json"], ["ls"]):
        result = db.run(["deferred", "rule", *args])
        assert result.returncode == 0, result
    assert [p["t"] for p in params(db)] == [f"did it as {owner}"] * 3
    untouched(db)


def test_a_stored_search_path_is_data(db, owner):
    with db.connect() as conn, conn.cursor() as cursor:
        cursor.execute(f"set local role {owner}")
        cursor.execute(
            "select set_config('search_path', %s, true)",
            (f"{owner},x;reset/**/role;create/**/table/**/public.taken_over();'\"\"\"",),
        )
    conn.close()
    with db.connect() as conn, conn.cursor() as cursor:
        cursor.execute(f"set local role {owner}")
        cursor.execute(
            "select deferred.__rule_add('r', 'select * from doc', 'noop', '{}', 'id', null, null, '{}', 600000, %s)",
            (f"{owner},x;reset/**/role;create/**/table/**/public.taken_over();'",),
        )
    conn.close()
    assert run(db).returncode == 0
    assert len(params(db)) == 3
    untouched(db)


def test_a_cursor_that_would_run_at_commit_is_refused(db, owner):
    add(db, owner, f"select 1 as id, {owner}.try('declare c cursor with hold for select {owner}.mark()')")
    assert db.run(["deferred", "rule", "test", "r"]).returncode == 0
    untouched(db)
    result = run(db)
    assert result.returncode == 1 and "left a cursor open" in result.stderr
    assert db.hot() == 0
    untouched(db)


# PostgreSQL 15 lets a query switch transaction_read_only off, and make large objects. Later servers refuse both.
WRITES_IN_15 = {
    "reset transaction_read_only; insert into {o}.doc values (9, 'x')": "cannot be reset",
    "set transaction_read_only to default; insert into {o}.doc values (9, 'x'); "
    "set transaction_read_only = on": "cannot be reset",
    "select set_config('transaction_read_only', null, false); update {o}.doc set title = ''": "cannot be reset",
    "reset transaction_read_only; alter function pg_temp.__deferred_rule_rows() security invoker": "cannot be reset",
    "reset transaction_read_only; create temp table t ()": "cannot be reset",
    "select lo_create(4711)": "read-only transaction",
}


@pytest.mark.parametrize(
    "write, why",
    [
        ("insert into {o}.doc values (9, 'x')", "read-only transaction"),
        ("create table {o}.new ()", "read-only transaction"),
        ("select nextval('{o}.s')", "read-only transaction"),
        (
            "set transaction_read_only = off; insert into {o}.doc values (9, 'x')",
            "cannot set transaction read-write mode",
        ),
        *[(write, "writes to the database") for write in WRITES_IN_15],
    ],
)
def test_a_query_that_writes_fails_and_has_written_nothing(db, owner, write, why):
    before = db.sql(f"select * from {owner}.doc order by id")
    db.sql(f"set role {owner}")
    db.sql(f"create sequence {owner}.s")
    db.sql(
        f"create function {owner}.w() returns integer language plpgsql volatile as $$ begin execute "
        f"$q${write.format(o=owner)}$q$; return 1; end $$"
    )
    db.sql("reset role")
    add(db, owner, f"select {owner}.w() as id")
    result = run(db)
    assert result.returncode == 1, result
    if db.one("show server_version_num") >= "160000":
        why = WRITES_IN_15.get(write, why)
    assert why in result.stderr
    assert db.hot() == 0
    assert db.sql(f"select * from {owner}.doc order by id") == before
    assert db.one("select count(*) from pg_largeobject_metadata") == 0
    assert why in db.one("select last_error from deferred.__deferred_rule")
    db.run(["deferred", "rule", "test", "r"])
    assert db.sql(f"select * from {owner}.doc order by id") == before
    assert not db.one(f"select is_called from {owner}.s")


def test_a_data_modifying_query_is_refused(db, owner):
    add(db, owner, f"delete from {owner}.doc returning id")
    assert run(db).returncode == 65
    assert db.one(f"select count(*) from {owner}.doc") == 3


def test_a_query_cannot_lift_its_time_limit(db, owner):
    add(db, owner, f"select 1 as id, {owner}.try('set statement_timeout = 0') as t from pg_sleep(30)")
    db.sql("update deferred.__deferred_rule set statement_timeout_ms = 300")
    result = run(db)
    assert result.returncode == 1 and "statement timeout" in result.stderr


def test_only_members_of_the_owner_run_a_rule(db, owner):
    add(db, owner, f"select * from {owner}.doc")
    other = f"other_{os.getpid()}"
    db.sql(f"drop role if exists {other}")
    db.sql(f"create role {other} login in role deferred_producer, deferred_worker")
    env = {"DEFERRED_DB": f"{db.conninfo} user={other}"}
    for args in (["run", "r"], ["test", "r"], ["rm", "r"]):
        result = db.run(["deferred", "rule", *args], env=env)
        assert result.returncode == 77 and f"belongs to role '{owner}'" in result.stderr, result
    assert db.hot() == 0
    db.sql(f"grant {owner} to {other}")
    result = db.run(["deferred", "rule", "run", "r"], env=env)
    assert result.returncode == 0, result
    assert {r[0] for r in db.sql("select created_by from deferred.__deferred")} == {owner}
    assert db.one("select last_run_by from deferred.__deferred_rule") == other
    db.sql(f"drop role {other}")


def test_a_role_made_anew_by_the_owners_name_does_not_get_its_rules(db, owner):
    name = f"former_{os.getpid()}"
    db.sql(f"drop role if exists {name}")
    db.sql(f"create role {name} login in role deferred_producer")
    add(db, name, "select 1 as id")
    db.sql(f"drop role {name}")
    assert run(db).returncode == 77
    db.sql(f"create role {name} login in role deferred_producer")
    assert db.run(["deferred", "rule", "run", "r"], env={"DEFERRED_DB": f"{db.conninfo} user={name}"}).returncode == 77
    assert db.hot() == 0
    db.sql(f"drop role {name}")


def test_an_owner_may_have_any_name(db):
    name = f'Ö "x\' {os.getpid()}'
    quoted = '"' + name.replace('"', '""') + '"'
    db.sql(f"drop role if exists {quoted}")
    db.sql(f"create role {quoted} in role deferred_producer")
    add(db, quoted, "select 1 as id, current_user::text as who")
    result = run(db)
    assert result.returncode == 0, result
    assert params(db) == [{"id": 1, "who": name}]
    assert name in db.run(["deferred", "rule", "ls"]).stdout.replace('""', '"')
    db.sql(f"delete from deferred.__deferred_rule; drop role {quoted}")


def test_an_owner_without_temporary_objects_is_told(db, owner):
    add(db, owner, f"select * from {owner}.doc")
    db.sql(f"revoke temporary on database {db.name} from public")
    result = run(db)
    assert result.returncode == 77 and "hint: grant temporary on database" in result.stderr, result
    db.sql(f"grant temporary on database {db.name} to {owner}")
    assert run(db).returncode == 0


@pytest.mark.parametrize("how", ["invoker", "committed", "absent", "twice"])
def test_what_is_queued_comes_from_the_function_made_for_it(db, owner, how):
    """__rule_run() is called by anybody: he must not have a function of his own run with the rights
    of deferred_owner."""
    add(db, owner, f"select * from {owner}.doc")
    body = (
        "returns table (key text, params json) language plpgsql as $$ begin create table deferred.taken_over (); "
        "return query select 'x'::text, '{}'::json; end $$"
    )
    conn = db.connect()
    with conn.cursor() as cursor:
        cursor.execute(f"set session authorization {owner}")
        if how == "invoker":
            cursor.execute(f"create function pg_temp.__deferred_rule_rows() {body}")
        elif how == "committed":
            cursor.execute("select deferred.__rule_open('r')")
            conn.commit()
        elif how == "twice":
            cursor.execute("select deferred.__rule_open('r')")
            cursor.execute(f"create function pg_temp.__deferred_rule_rows(variadic integer[] default '{{}}') {body}")
        with pytest.raises(psycopg2.Error, match="was not opened in this transaction"):
            cursor.execute("select * from deferred.__rule_run('r', 1, false, null)")
    conn.rollback()
    conn.close()
    assert db.hot() == 0
    assert db.one("select to_regclass('deferred.taken_over') is null")


def test_a_limit_on_producers_holds_for_rules(db, owner):
    add(db, owner, f"select * from {owner}.doc")
    db.sql("insert into deferred.__deferred_grant (role, fn) values (%s, 'echo')", owner)
    result = run(db)
    assert result.returncode == 77 and "may not defer" in result.stderr
    with pytest.raises(psycopg2.Error, match="may not defer"):
        add(db, owner, "select 1 as id", name="s")
    db.sql("insert into deferred.__deferred_grant (role, fn) values (%s, 'noop')", owner)
    assert run(db).returncode == 0
    # Who runs it is limited as well.
    db.sql(
        "delete from deferred.__deferred_hot; insert into deferred.__deferred_grant (role, fn) "
        "values (session_user, 'echo')"
    )
    assert run(db).returncode == 77
    assert db.hot() == 0
    db.sql("delete from deferred.__deferred_grant; delete from deferred.__deferred")


def test_viewers_see_rules_without_their_text(db, owner):
    add(db, owner, f"select * from {owner}.doc")
    viewer = f"viewer_{os.getpid()}"
    db.sql(f"drop role if exists {viewer}")
    db.sql(f"create role {viewer} login in role deferred_viewer")
    with db.connect() as conn, conn.cursor() as cursor:
        cursor.execute(f"set local role {viewer}")
        cursor.execute("select name, query, params, last_error from deferred.__rules()")
        assert cursor.fetchall() == [("r", None, None, None)]
        with pytest.raises(psycopg2.Error, match="permission denied"):
            cursor.execute("select * from deferred.__deferred_rule")
    conn.close()
    db.sql(f"drop role {viewer}")
