-- doctor_snapshots: who keeps the server from removing rows that are dead.
-- params: none
-- returns: who text, age_s int8, ends text
-- Rows: who, since when, in seconds, what ends it, longest first, at most 10 that are older than a
--   minute.
-- Locks: none. Only members of pg_read_all_stats see what sessions of other roles do; see
--   doctor_hidden.sql.
select h.who, h.age_s, h.ends
from (select format('session %s of %s%s, %s', a.pid, a.usename,
                    ' (' || nullif(a.application_name, '') || ')', a.state) as who,
             deferred.__age_s(a.xact_start) as age_s,
             format('select pg_terminate_backend(%s)', a.pid) as ends
      from pg_catalog.pg_stat_activity a
      where a.datname = current_database() and a.backend_type = 'client backend'
        and coalesce(a.backend_xmin, a.backend_xid) is not null
        and a.pid <> pg_backend_pid()
      union all
      select format('prepared transaction ''%s'' of %s',
                    p.gid, p.owner), deferred.__age_s(p.prepared),
             format('rollback prepared %L', p.gid)
      from pg_catalog.pg_prepared_xacts p
      where p.database = current_database()) h
where h.age_s >= 60
order by h.age_s desc
limit 10
