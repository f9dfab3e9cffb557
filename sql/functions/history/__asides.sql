-- Tables that were partitions and wait to be archived: __purge_aside().
create or replace function deferred.__asides() returns table (name text)
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select c.relname::text from pg_class c
    where c.relnamespace = 'deferred'::regnamespace and c.relkind = 'r'
      and c.relname ~ '^__purged_deferred(_log)?_[0-9]+$'
$$;
grant execute on function deferred.__asides to deferred_worker, deferred_viewer, deferred_purger;
