-- admin_migrate_lock: one migration at a time in a database.
-- no parameters
-- returns one row: 1 (int4)
-- locks: an advisory lock until the transaction ends; waits for it
select 1 from (select pg_advisory_xact_lock(hashtextextended('deferred.migrate', 0))) as l
