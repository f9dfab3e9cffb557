-- why_server: what may keep every worker from claiming.
-- params: none
-- returns: read_only bool, connections int8, connections_max int8, seen_s int8?, pid int8?,
--   age_s int8, role text?, state text?, query text?, sync_waiting int8, sync_wait_s int8?,
--   sync_names text?
-- Rows: one row: takes no writes, connections taken, and allowed. Then the seconds since any
--   attempt ended or a worker was seen (NULL: never). Then the session that has held a snapshot for
--   longest: pid, seconds, role, state, query. Then the sessions whose commit waits for a standby,
--   and the seconds that the first has waited (NULL: no session). The last is
--   synchronous_standby_names.
-- Locks: none. Index: primary key of __deferred_worker, from its end. Only members of
--   pg_read_all_stats see what sessions of other roles do.
select pg_is_in_recovery() or current_setting('default_transaction_read_only')::bool as read_only,
       (select count(*) from pg_catalog.pg_stat_activity a
        where a.backend_type = 'client backend' or (a.backend_type is null
                                                    and a.datname is not null)) as connections,
       current_setting('max_connections')::int8 as connections_max,
       (select extract(epoch from clock_timestamp() - max(w.seen_at))::int8
        from (select x.seen_at from deferred.__deferred_worker x order by x.id desc
              limit 100) w) as seen_s,
       s.pid::int8, deferred.__age_s(s.xact_start) as age_s,
       s.usename::text as role, s.state, s.query,
       c.n as sync_waiting, c.wait_s as sync_wait_s,
       current_setting('synchronous_standby_names') as sync_names
from (select) one
cross join lateral (
    select count(*) as n, extract(epoch from clock_timestamp() - min(a.query_start))::int8 as wait_s
    from pg_catalog.pg_stat_activity a where a.wait_event = 'SyncRep') c
left join lateral (
    select a.* from pg_catalog.pg_stat_activity a
    where a.datname = current_database() and a.backend_type = 'client backend'
      and coalesce(a.backend_xmin, a.backend_xid) is not null and a.pid <> pg_backend_pid()
    order by a.xact_start limit 1) s on true
