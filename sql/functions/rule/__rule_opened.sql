-- Makes sure that __rule_open() made the function that __rule_fetch() calls, in this transaction.
-- Otherwise the caller could have made it, and it would run with the rights of __rule_run().
create or replace function deferred.__rule_opened(r deferred.__deferred_rule) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if (select count(*) <> 1 or not bool_and(p.prosecdef and p.proowner = r.owner and p.pronargs = 0
                                             and p.xmin = pg_current_xact_id()::xid)
        from pg_proc p where p.pronamespace = pg_my_temp_schema()
            and p.proname = '__deferred_rule_rows') then
        raise exception using errcode = '55000',
            message = format('rule ''%s'' was not opened in this transaction', r.name),
            hint = 'run the rule with: deferred rule run NAME';
    end if;
end
$$;
