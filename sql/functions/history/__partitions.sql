-- Partitions of a table and what each takes, as text: from first on and below past. The default
-- partition, which takes the rest, is not one of them.
create or replace function deferred.__partitions(parent regclass) returns table (name text,
    first text, past text)
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select c.relname::text, b[1], b[2]
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid),
                                    $re$FROM \('([^']+)'\) TO \('([^']+)'\)$re$) b
    where i.inhparent = parent and b is not null
$$;
grant execute on function deferred.__partitions to deferred_worker, deferred_viewer;
