-- doctor_retention: how much history there is, and is it purged?
-- params: none
-- returns: log_bytes int8, day_bytes int8, oldest_days int8, purged_days int8?, keep_days int8
-- Rows: one row: bytes of the log, and its growth in bytes per day. The growth is that of the last
--   whole week, or of this week. Then days since the week of the oldest rows, and days since the
--   last purge (NULL: never). The last is the days that this purge kept.
-- Locks: none.
with part as materialized (
    select pg_total_relation_size(c.oid) as bytes, pg_relation_size(c.oid) > 0 as used,
           (regexp_match(pg_get_expr(c.relpartbound, c.oid),
                         E'FROM \\(''([^'']+)''\\)'))[1]::timestamptz as first
    from pg_catalog.pg_inherits i join pg_catalog.pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'deferred.__deferred_log'::regclass)
select (select sum(p.bytes)::int8 from part p) as log_bytes,
       (select coalesce(max(p.bytes) filter (where p.first = w.week - interval '1 week') / 7,
                        max(p.bytes) filter (where p.first = w.week) / greatest(extract(epoch
                            from now() - w.week) / 86400, 1))::int8 from part p) as day_bytes,
       (select extract(epoch from now() - min(p.first) filter (where p.used))::int8 / 86400
        from part p) as oldest_days,
       (select extract(epoch from now() - u.purged_at)::int8 / 86400
        from deferred.__deferred_upkeep u limit 1) as purged_days,
       (select extract(epoch from u.purged_older)::int8 / 86400 from deferred.__deferred_upkeep u
        limit 1) as keep_days
from (select date_trunc('week', now() at time zone 'UTC') at time zone 'UTC' as week) w
