-- Stores entries of a spool, each once: p_jobs[i] is the text of a job as deferred.defer_many()
-- takes it, and p_ids[i] its UUID. Usually all are stored at once. If one entry is refused, each is
-- tried alone. The result has a row for each refused entry: its place in the arrays, and the error.
create or replace function deferred.__spool_store(p_ids uuid[], p_jobs text[])
returns table(n integer, state text, message text, hint text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    begin
        perform deferred.__spool_some(p_ids, p_jobs);
        return;
    exception when others then null;  -- the same error comes again below, with its entry
    end;
    for i in 1 .. cardinality(p_ids) loop
        begin
            perform deferred.__spool_some(p_ids[i:i], p_jobs[i:i]);
        exception when others then
            get stacked diagnostics state = returned_sqlstate, message = message_text,
                hint = pg_exception_hint;
            n := i;
            return next;
        end;
    end loop;
end
$$;
comment on function deferred.__spool_store is
    'stores calls that were kept in a spool, each once; what deferred spool drain calls';
grant execute on function deferred.__spool_store to deferred_producer;
