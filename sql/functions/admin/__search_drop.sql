-- An index for searches is wanted no more; part of "deferred index rm". False: there was none.
create or replace function deferred.__search_drop(p_term text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    perform from deferred.__deferred_upkeep for update;
    update deferred.__deferred_search s set wanted = false where s.term = p_term;
    return found;
end
$$;
