-- session_waits: what another session of this program waits for, asked while it does not answer.
-- Behind a pooler the number may be anybody's: it counts only where all else fits.
-- params: pid int4
-- returns: waits_for text
-- Locks: none
select case when a.wait_event = 'SyncRep' then
                format('a synchronous standby to confirm a commit, and none of ''%s'' does',
                       current_setting('synchronous_standby_names'))
            when cardinality(pg_blocking_pids(a.pid)) > 0 then
                (select string_agg(format('a lock that session %s of %s%s has', b.pid, b.usename,
                                          ' (' || nullif(b.application_name, '') || ')'), '; '
                                              order by b.pid)
                 from pg_catalog.pg_stat_activity b where b.pid = any (pg_blocking_pids(a.pid)))
            when a.wait_event_type = 'IO' then format('the disk (%s)', a.wait_event)
       end as waits_for
from (select) one
left join pg_catalog.pg_stat_activity a on a.pid = $1::int4 and a.state = 'active'
    and a.usename = current_user
     and a.application_name = current_setting('application_name') and a.datname = current_database()
