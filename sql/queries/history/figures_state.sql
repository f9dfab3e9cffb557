-- figures_state: figures that are of no queue and no function.
-- params: none
-- returns: workers int8, seen_at int8?, snapshot_s int8, version int4
-- Rows: one row. seen_at: of a worker, in seconds since 1970. snapshot_s: age of the oldest
--   snapshot of a session or prepared transaction
-- Locks: none. Index: __deferred_worker_alive, __deferred_worker_pkey. Sessions of others show to
--   members of pg_read_all_stats alone
select (select count(*) from deferred.__deferred_worker w
        where w.ended_at is null and w.seen_at > now() - interval '5 minutes') as workers,
       (select extract(epoch from max(x.seen_at))::int8
        from (select w.seen_at from deferred.__deferred_worker w order by w.id desc
              limit 1000) x) as seen_at,
       (select coalesce(extract(epoch from clock_timestamp() - min(x.since))::int8, 0)
        from (select a.xact_start as since from pg_catalog.pg_stat_activity a
              where a.datname = current_database() and a.backend_type = 'client backend'
                and coalesce(a.backend_xmin, a.backend_xid) is not null
                and a.pid <> pg_backend_pid()
              union all
              select p.prepared from pg_catalog.pg_prepared_xacts p
              where p.database = current_database()) x) as snapshot_s,
       (select coalesce(max(m.version), 0)::int4 from deferred.__deferred_migration m) as version
