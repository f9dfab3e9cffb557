-- Has each partition of jobs a valid index for this term of a search?. Asked by each search that
-- names one: a look at the catalog, and at nothing that others write.
create or replace function deferred.__search_usable(p_term text) returns boolean
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select coalesce((
        select not exists (
            select from pg_inherits h
            join pg_class t on t.oid = h.inhrelid
            left join pg_class x on x.relnamespace = t.relnamespace
                and x.relname = t.relname || '_search_' || s.number
            left join pg_index i on i.indexrelid = x.oid
            where h.inhparent = 'deferred.__deferred'::regclass
              and not coalesce(i.indisvalid and i.indisready, false))
        from deferred.__deferred_search s where s.term = p_term and s.wanted), false)
$$;
grant execute on function deferred.__search_usable to deferred_viewer;
