-- why_session: the session whose transaction has a number; or the one that has had one for longest.
-- params: xid text
-- returns: pid int8, age_s int8, role text, state text?, query text?
-- $1 NULL: the oldest of this database that has one.
-- Rows: at most one row. state, query: NULL if the role that asks may not see them.
-- Locks: none. Everybody may see who holds which lock.
select a.pid::int8, extract(epoch from clock_timestamp() - coalesce(a.xact_start,
    l.waitstart))::int8 as age_s, a.usename::text as role, a.state,
       case when a.query <> '<insufficient privilege>' then a.query end as query
from pg_catalog.pg_locks l
join pg_catalog.pg_stat_activity a on a.pid = l.pid
where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted
  and a.pid <> pg_backend_pid()
  and ($1::text is null or l.transactionid::text = $1) and a.datname = current_database()
order by a.xact_start nulls last
limit 1
