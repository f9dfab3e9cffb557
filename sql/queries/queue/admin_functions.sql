-- admin_functions: functions that workers have, and those that have limits.
-- params: fn text
-- returns: fn text, plugin text, version text, timeout_ms int8?, max_attempts int4?,
--   max_running int4?, rate float8?, hosts int8, some_hosts text, seen_s int8?, json text
-- $1 NULL: all, except names with the plugin in front
-- Rows: one for each build of a plugin, at most 10,000. If seen_s is NULL no worker has it
-- Locks: none. Reads all of __deferred_offer and __deferred_function
with offered as materialized (
    select f.fn collate "C" as fn, f.plugin, nullif(f.timeout_ms, 0) as timeout_ms,
           nullif(f.max_attempts, 0) as max_attempts, o.host, o.seen_at
    from deferred.__deferred_offer o
    cross join lateral unnest(o.fn, o.plugin, o.timeout_ms, o.max_attempts) f(fn, plugin,
        timeout_ms, max_attempts)
    where f.max_attempts >= 0 and (f.fn = $1::text
       or ($1 is null and not (starts_with(f.fn, split_part(f.plugin, ' ', 1) || '.')
                               and substr(f.fn, length(split_part(f.plugin, ' ',
                                   1)) + 2) = any (o.fn))))),
builds as (
    select o.fn, o.plugin, o.timeout_ms, o.max_attempts, count(distinct o.host) as hosts,
           max(o.seen_at) as seen_at,
           (array_agg(distinct o.host order by o.host))[1:3] as names
    from offered o group by o.fn, o.plugin, o.timeout_ms, o.max_attempts),
figures as (
    select coalesce(b.fn, l.name) as fn, split_part(b.plugin, ' ', 1) as plugin,
           nullif(split_part(b.plugin, ' ', 2), '') as version,
           nullif(split_part(b.plugin, ' ', 3), '') as build, b.timeout_ms, b.max_attempts,
           l.max_running, l.rate, l.burst, coalesce(b.hosts, 0) as hosts,
           b.names as some_hosts, deferred.__age_s(b.seen_at) as seen_s
    from builds b
    full join (select x.* from deferred.__deferred_function x where $1 is null or x.name = $1) l
        on l.name = b.fn)
select f.fn, f.plugin, f.version, f.timeout_ms, f.max_attempts, f.max_running, f.rate, f.hosts,
       array_to_string(f.some_hosts, ', ') || case when f.hosts > 3 then ', ...'
                                                   else '' end as some_hosts, f.seen_s,
                                                   row_to_json(f)::text as json
from figures f
order by f.fn, f.plugin, f.version
limit 10000
