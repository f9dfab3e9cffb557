-- Part of deferred.maintain(): deletes the oldest rows of __deferred_spooled that nobody needs, at
-- most p_most. Returns how many. deferred.__spool_some() says why rows stay for 31 days.
create or replace function deferred.__forget_spooled(p_most integer) returns integer
language plpgsql
as $$
declare
    v_rows integer;
begin
    delete from deferred.__deferred_spooled s
    where s.ctid = any (array(select x.ctid from deferred.__deferred_spooled x
                              where x.stored_at < now() - interval '31 days'
                              order by x.stored_at limit p_most for update skip locked));
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;
comment on function deferred.__forget_spooled is
    'part of deferred.maintain(): forgets entries of spools that were stored long ago';
