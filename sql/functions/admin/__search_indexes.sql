-- Each index for searches of each partition of jobs. It may be missing, or invalid after an
-- interrupted build. Column busy: a session builds it, or vacuums its table.
create or replace function deferred.__search_indexes()
returns table (number integer, term text, wanted boolean, part text, name text, valid boolean,
               busy boolean, bytes bigint, part_rows bigint, net boolean)
language sql stable set search_path = pg_catalog, pg_temp
as $$
    with locked as materialized (
        select l.relation from pg_locks l join pg_database d on d.oid = l.database
        where d.datname = current_database() and l.locktype = 'relation'
          and l.mode = 'ShareUpdateExclusiveLock' and l.granted and l.pid <> pg_backend_pid())
    select s.number, s.term, s.wanted, p.name, x.relname::text,
           coalesce(i.indisvalid and i.indisready, false),
           t.oid in (select l.relation from locked l),
           coalesce(pg_relation_size(x.oid), 0), greatest(t.reltuples, 0)::bigint, p.net
    from deferred.__deferred_search s
    cross join (select p.name, false as net from deferred.__partitions('deferred.__deferred') p
                union all select '__deferred_default', true) p
    join pg_class t on t.relnamespace = 'deferred'::regnamespace and t.relname = p.name
    left join pg_class x on x.relnamespace = t.relnamespace
        and x.relname = p.name || '_search_' || s.number and x.relkind = 'i'
    left join pg_index i on i.indexrelid = x.oid
$$;
grant execute on function deferred.__search_indexes to deferred_viewer, deferred_worker;
