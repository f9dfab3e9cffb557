"""Settings that the database, or the role, has for each session: none of them may change what a worker does."""

import json
import pathlib
import re

import psycopg2
import pytest

import harness


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_worker_claims_and_records_in_read_committed_transactions(db, isolation, pooled):
    """With an older snapshot two workers that begin a lane at once end with a duplicate key."""
    db.sql(
        f"""
        create table public.seen (what text, isolation text);
        create function public.see() returns trigger language plpgsql security definer as $$
        begin
            insert into public.seen values (tg_table_name, current_setting('transaction_isolation'));
            return null;
        end $$;
        create trigger see after insert on deferred.__deferred_lease execute function public.see();
        create trigger see after insert on deferred.__deferred_log execute function public.see();
        alter database {db.one("select current_database()")} set default_transaction_isolation = '{isolation}'"""
    )
    jobs = [db.defer("noop"), db.defer("noop", concurrency_key="k")]
    env = {"DEFERRED_DB": harness.start_pooler(db)[1]} if pooled else {}
    db.run(["check_deferred", "--cnt", "0"], env=env)
    assert [db.log(job) for job in jobs] == [[(1, "ok")]] * 2
    assert {what for what, _ in db.sql("select * from public.seen")} >= {"__deferred_lease"}
    assert db.sql("select * from public.seen where isolation <> 'read committed'") == []


def test_programs_and_functions_work_where_a_backslash_escapes(db):
    db.sql(f"alter database {db.name} set standard_conforming_strings = off")
    db.connection.close()
    mail = """select deferred.send_mail(array['Ann <a@b.example>'], 's', 'text', "from" => 'c@d.example',
              message_id => '<x@y.example>')"""
    assert db.one(mail) == 1
    assert db.one("select params ->> 'message_id' from deferred.__deferred where id = 1") == "<x@y.example>"
    db.sql("select deferred.schedule('s', 'every 90 min', 'noop')")
    checks = json.loads(db.run(["deferred", "doctor", "--json"]).stdout)
    assert [check for check in checks if check["status"] == "unknown"] == []
    assert db.run(["deferred", "purge", "--older-than", "1d"]).returncode == 0


def test_a_literal_with_a_backslash_says_that_it_escapes():
    """Else its value depends on standard_conforming_strings. A part in the next line is of the kind of the first."""
    token = re.compile(
        r"""--[^\n]*|"[^"]*"|\$re\$.*?\$re\$|[eE]('([^'\\]|\\.|'')*'(\s*\n\s*(?='))?)+|(?P<plain>'([^']|'')*')""", re.S
    )
    files = sorted((pathlib.Path(__file__).parents[2] / "sql").rglob("*.sql"))
    plain = [(file.name, found["plain"]) for file in files for found in token.finditer(file.read_text())]
    assert len(plain) > 1000
    assert [(name, text) for name, text in plain if "\\" in (text or "")] == []


def test_settings_hold_behind_a_pooler_and_leak_to_nobody(db):
    """The next client of the one session has the settings of the database. PgBouncer restores only the time zone."""
    db.sql(
        f"""
        create table public.seen (isolation text);
        create function public.see() returns trigger language plpgsql security definer as $$
        begin
            insert into public.seen values (current_setting('transaction_isolation'));
            return null;
        end $$;
        create trigger see after insert on deferred.__deferred_schedule execute function public.see();
        alter database {db.name} set default_transaction_isolation = 'serializable';
        alter database {db.name} set TimeZone = 'Asia/Tokyo';
        alter database {db.name} set IntervalStyle = 'iso_8601';
        alter database {db.name} set lock_timeout = '1min'"""
    )
    _, pooler = harness.start_pooler(db, pool=1, lifetime_s=3600)
    env = {"DEFERRED_DB": pooler}
    job = db.defer("noop", run_at="2099-01-31 14:30+00")
    with psycopg2.connect(pooler) as other, other.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        session = cursor.fetchone()[0]
    other.close()
    made = db.run(["deferred", "schedule", "set", "s", "@daily", "noop"], env=env)
    assert made.returncode == 0, made.stderr
    with psycopg2.connect(pooler) as other, other.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        assert cursor.fetchone()[0] == session
        for name, value in ("TimeZone", "Asia/Tokyo"), ("IntervalStyle", "iso_8601"), ("lock_timeout", "1min"):
            cursor.execute(f"show {name}")
            assert cursor.fetchall() == [(value,)]
    other.close()
    shown = json.loads(db.run(["deferred", "show", str(job), "--json"], env=env).stdout)
    assert shown["run_at"] == "2099-01-31T14:30:00+00:00"
    assert db.sql("select distinct isolation from public.seen") == [("read committed",)]
