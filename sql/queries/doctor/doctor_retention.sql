-- doctor_retention: how much history there is, and is it purged?
-- no parameters
-- returns one row: bytes of the log (int8), bytes it grew by in a day of the last whole week, or of this one (int8), days since the week of its oldest rows (int8),
--   days since the last purge (int8; NULL: never), days that was told to keep (int8)
-- locks: none
with part as materialized (
    select pg_total_relation_size(c.oid) as bytes, pg_relation_size(c.oid) > 0 as used,
           (regexp_match(pg_get_expr(c.relpartbound, c.oid), E'FROM \\(''([^'']+)''\\)'))[1]::timestamptz as first
    from pg_catalog.pg_inherits i join pg_catalog.pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'deferred.__deferred_log'::regclass)
select (select sum(p.bytes)::int8 from part p),
       (select coalesce(max(p.bytes) filter (where p.first = w.week - interval '1 week') / 7,
                        max(p.bytes) filter (where p.first = w.week) / greatest(extract(epoch from now() - w.week) / 86400, 1))::int8 from part p),
       (select extract(epoch from now() - min(p.first) filter (where p.used))::int8 / 86400 from part p),
       (select extract(epoch from now() - u.purged_at)::int8 / 86400 from deferred.__deferred_upkeep u limit 1),
       (select extract(epoch from u.purged_older)::int8 / 86400 from deferred.__deferred_upkeep u limit 1)
from (select date_trunc('week', now() at time zone 'UTC') at time zone 'UTC' as week) w
