-- Reads the rows of the rule that __rule_open() prepared, as key and params.
--
-- The query is read-only: a subtransaction with transaction_read_only gives the clear message, and
-- PostgreSQL restores the setting when it ends. A function's SET cannot do this from PostgreSQL 16
-- on. Up to PostgreSQL 15 RESET switches the setting off, and large objects can be made in spite of
-- it. But each write gives the subtransaction a transaction id, and so a row in pg_locks.
create or replace function deferred.__rule_fetch() returns table (key text, params json)
language plpgsql set search_path = pg_catalog, pg_temp rows 10000
as $$
#variable_conflict use_column
declare
    v_before bigint := (select count(*) from pg_locks l where l.pid = pg_backend_pid()
                        and l.locktype = 'transactionid');
begin
    begin
        perform set_config('transaction_read_only', 'on', true);
        return query execute 'select r.key, r.params from pg_temp.__deferred_rule_rows() r';
        perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        if (select count(*) from pg_locks l where l.pid = pg_backend_pid()
            and l.locktype = 'transactionid') <> v_before then
            raise exception using errcode = '25006',
                message = 'the query of the rule writes to the database',
                hint = 'a rule may only read; write in the function of its jobs';
        end if;
        if exists (select from pg_cursors c where c.is_holdable) then
            raise exception using errcode = '24000',
                message = 'the query of the rule left a cursor open',
                hint = 'close the cursor, or write the rule as one SELECT';
        end if;
    -- never raised: the block makes a subtransaction, which is read-only and ends here
    exception when sqlstate 'DR000' then
        raise;
    end;
end
$$;
