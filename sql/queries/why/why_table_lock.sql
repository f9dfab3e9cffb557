-- why_table_lock: the session that has locked a whole table of ours against readers, or has whoever
-- wants that wait, behind whom all others do.
-- params: none
-- returns: table text?, wanted bool, pid int8, age_s int8, role text?, state text?, query text?
-- Rows: at most one row. Column wanted: the lock is not granted yet. Columns state, query: NULL of
--   a prepared transaction, or if the role that asks may not see them.
-- Locks: none. Everybody may see who holds which lock.
select c.relname::text as table, not l.granted as wanted, a.pid::int8,
       deferred.__age_s(a.xact_start) as age_s, a.usename::text as role,
       a.state,
       case when a.query <> '<insufficient privilege>' then a.query end as query
from pg_catalog.pg_locks l
join pg_catalog.pg_class c on c.oid = l.relation and c.relnamespace = 'deferred'::regnamespace
    and c.relkind in ('r', 'p')
left join lateral (select b.pid from unnest(pg_blocking_pids(l.pid)) b(pid) where not l.granted
                   order by b.pid limit 1) w on true
left join pg_catalog.pg_stat_activity a on a.pid = case when l.granted then l.pid else w.pid end
where l.locktype = 'relation' and l.mode = 'AccessExclusiveLock'
  and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
order by l.granted desc, a.xact_start
limit 1
