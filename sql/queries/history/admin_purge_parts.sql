-- admin_purge_parts: partitions of the log that may hold outlived rows, and how long they are.
-- Those that begin after the limit are left out: history that is kept costs a purge nothing.
-- params: older_ms int8, partitions text
-- returns: partition text, pages int8
-- Locks: none
select format('deferred.%I', c.relname) as partition,
       pg_relation_size(c.oid) / current_setting('block_size')::int8 as pages
from pg_catalog.pg_inherits i
join pg_catalog.pg_class c on c.oid = i.inhrelid
-- The bound of another table's partition is not a time, and the planner may look at it first.
cross join lateral (select case when i.inhparent = 'deferred.__deferred_log'::regclass
    then (regexp_match(pg_get_expr(c.relpartbound, c.oid),
                       E'FROM \\(''([^'']+)''\\)'))[1]::timestamptz end as first) b
where i.inhparent = 'deferred.__deferred_log'::regclass
  and (b.first is null or b.first < clock_timestamp() - $1::int8 * interval '1 millisecond')
  and c.relname <> all ($2::text::text[])
order by c.relname
