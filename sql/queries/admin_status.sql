-- admin_status: the figures that are not of one queue.
-- no parameters
-- returns one row: schema version (int4), live workers (int8)
-- locks: none. Index: __deferred_worker_alive
select (select coalesce(max(m.version), 0) from deferred.__deferred_migration m)::int4,
       (select count(*) from deferred.__deferred_worker w where w.ended_at is null)
