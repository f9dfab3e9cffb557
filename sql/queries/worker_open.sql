-- worker_open: transactions in progress. Those of them that deferred a job may have looked for sleepers before
-- worker_arm.sql, which goes before this statement.
-- no parameters
-- returns one row a transaction: number (int8)
-- locks: none
select x::text::int8 from pg_snapshot_xip(pg_current_snapshot()) as x
