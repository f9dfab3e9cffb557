create or replace function deferred.__search_drop(p_term text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    perform pg_advisory_xact_lock(hashtextextended('deferred.maintain', 0));
    update deferred.__deferred_search s set wanted = false where s.term = p_term;
    return found;
end
$$;
comment on function deferred.__search_drop(text) is 'an index for searches is wanted no more; part of "deferred index rm". False: there was none';
