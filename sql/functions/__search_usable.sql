create or replace function deferred.__search_usable(p_term text) returns boolean
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select exists (select from deferred.__deferred_search s where s.term = p_term and s.wanted)
       and not exists (select from deferred.__search_indexes() x where x.term = p_term and not x.valid)
$$;
comment on function deferred.__search_usable(text) is 'has each partition of jobs a valid index for this term of a search?';
grant execute on function deferred.__search_usable(text) to deferred_viewer;
