"""Settings that the database, or the role, has for each session: none of them may change what a worker does."""

import pytest


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_worker_claims_and_records_in_read_committed_transactions(db, isolation):
    """With an older snapshot two workers that begin a lane at once end with a duplicate key."""
    db.sql(f"""
        create table public.seen (what text, isolation text);
        create function public.see() returns trigger language plpgsql security definer as $$
        begin
            insert into public.seen values (tg_table_name, current_setting('transaction_isolation'));
            return null;
        end $$;
        create trigger see after insert on deferred.__deferred_lease execute function public.see();
        create trigger see after insert on deferred.__deferred_log execute function public.see();
        alter database {db.one("select current_database()")} set default_transaction_isolation = '{isolation}'""")
    jobs = [db.defer("noop"), db.defer("noop", concurrency_key="k")]
    db.run(["check_deferred", "--cnt", "0"])
    assert [db.log(job) for job in jobs] == [[(1, "ok")]] * 2
    assert {what for what, _ in db.sql("select * from public.seen")} >= {"__deferred_lease"}
    assert db.sql("select * from public.seen where isolation <> 'read committed'") == []
