-- lock_tables: who holds a lock on one of our tables.
-- params: readers text
-- returns: as lock_rows
-- $1 'true': each lock counts. 'false': only a lock that keeps writers out.
-- Rows: one, with at most 3 sessions, the oldest transactions first. NULL: nobody.
-- Locks: none. Everybody may see who holds which lock
select string_agg(h.who, '; ' order by h.xact_start) as holders
from (select a.xact_start,
             format('session %s of %s%s%s', a.pid, a.usename,
                    ' (' || nullif(a.application_name, '') || ')',
                    ', ' || a.state || ' for '
                    || deferred.__age_s(a.state_change) || ' s') as who
      from pg_catalog.pg_stat_activity a
      where a.pid <> pg_backend_pid() and exists (
          select from pg_catalog.pg_locks l
          where l.pid = a.pid and l.locktype = 'relation' and l.granted
            and ($1::text::bool or l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
                                              'AccessExclusiveLock'))
            and l.database = (select d.oid from pg_catalog.pg_database d
                              where d.datname = current_database())
            and l.relation in (select c.oid from pg_catalog.pg_class c
                               where c.relnamespace = (select n.oid from pg_catalog.pg_namespace n
                                                       where n.nspname = 'deferred')))
      order by a.xact_start limit 3) h
