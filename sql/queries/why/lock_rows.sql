-- lock_rows: who holds the rows of these jobs.
-- params: jobs int8[]
-- returns: holders text
-- Rows: one row: at most 3 sessions; NULL: nobody
-- Locks: none. Index: primary key of __deferred_hot. Everybody may see who holds which lock
select string_agg(h.who, '; ' order by h.pid) as holders
from (select distinct a.pid, format('session %s of %s%s%s', a.pid, a.usename,
                                    ' (' || nullif(a.application_name, '') || ')',
                                    ', ' || a.state || ' for '
                                    || deferred.__age_s(a.state_change) || ' s') as who
      from unnest($1::int8[]) j(id)
      join deferred.__deferred_hot d on d.id = any (array[j.id])
      join pg_catalog.pg_locks l on l.locktype = 'transactionid' and l.granted
          and l.mode = 'ExclusiveLock' and l.transactionid = d.xmax
      join pg_catalog.pg_stat_activity a on a.pid = l.pid
      where a.pid <> pg_backend_pid()
      order by a.pid limit 3) h
