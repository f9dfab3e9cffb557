-- why_session: the session whose transaction has a number; or the one that has had one for longest.
-- $1 number of the transaction (text); NULL: the oldest of this database that has one
-- returns pid (int8), seconds its transaction lasts (int8), role, state, query (text; NULL where the role that asks may not see it); or no row
-- locks: none. Everybody may see who holds which lock
select a.pid::int8, extract(epoch from clock_timestamp() - coalesce(a.xact_start, l.waitstart))::int8, a.usename::text, a.state,
       case when a.query <> '<insufficient privilege>' then a.query end
from pg_catalog.pg_locks l
join pg_catalog.pg_stat_activity a on a.pid = l.pid
where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted and a.pid <> pg_backend_pid()
  and ($1::text is null or l.transactionid::text = $1) and a.datname = current_database()
order by a.xact_start nulls last
limit 1
