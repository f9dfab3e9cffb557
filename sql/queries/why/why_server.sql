-- why_server: what may keep every worker from claiming.
-- no parameters
-- returns one row: takes no writes (bool), connections taken, and allowed (int8), seconds since any attempt ended or a worker was seen (int8; NULL: none was); of the session
--   that has held a snapshot for longest: pid, seconds (int8), role, state, query (text); sessions whose commit waits for a standby, seconds the first of them
--   has (int8; NULL: there are none), synchronous_standby_names (text)
-- locks: none. Index: primary key of __deferred_worker, from its end. What sessions of others do is seen by members of pg_read_all_stats alone
select pg_is_in_recovery() or current_setting('default_transaction_read_only')::bool,
       (select count(*) from pg_catalog.pg_stat_activity a where a.backend_type = 'client backend' or (a.backend_type is null and a.datname is not null)),
       current_setting('max_connections')::int8,
       (select extract(epoch from clock_timestamp() - max(w.seen_at))::int8 from (select x.seen_at from deferred.__deferred_worker x order by x.id desc limit 100) w),
       s.pid::int8, extract(epoch from clock_timestamp() - s.xact_start)::int8, s.usename::text, s.state, s.query,
       c.n, c.wait_s, current_setting('synchronous_standby_names')
from (select) one
cross join lateral (
    select count(*) as n, extract(epoch from clock_timestamp() - min(a.query_start))::int8 as wait_s
    from pg_catalog.pg_stat_activity a where a.wait_event = 'SyncRep') c
left join lateral (
    select a.* from pg_catalog.pg_stat_activity a
    where a.datname = current_database() and a.backend_type = 'client backend' and coalesce(a.backend_xmin, a.backend_xid) is not null and a.pid <> pg_backend_pid()
    order by a.xact_start limit 1) s on true
