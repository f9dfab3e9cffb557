-- figures_state: figures that are of no queue and no function.
-- no parameters
-- returns one row: live workers (int8), when one was seen last in seconds since 1970 (int8; NULL: never), seconds for which the oldest snapshot of a session or
--   a prepared transaction has been held (int8), version of the schema (int4)
-- locks: none. Index: __deferred_worker_alive, __deferred_worker_pkey. Sessions of others show to members of pg_read_all_stats alone
select (select count(*) from deferred.__deferred_worker w where w.ended_at is null and w.seen_at > now() - interval '5 minutes'),
       (select extract(epoch from max(x.seen_at))::int8 from (select w.seen_at from deferred.__deferred_worker w order by w.id desc limit 1000) x),
       (select coalesce(extract(epoch from clock_timestamp() - min(x.since))::int8, 0)
        from (select a.xact_start as since from pg_catalog.pg_stat_activity a
              where a.datname = current_database() and a.backend_type = 'client backend' and coalesce(a.backend_xmin, a.backend_xid) is not null
                and a.pid <> pg_backend_pid()
              union all
              select p.prepared from pg_catalog.pg_prepared_xacts p where p.database = current_database()) x),
       (select coalesce(max(m.version), 0)::int4 from deferred.__deferred_migration m)
