-- admin_purge_orphans: delete rows that belong to deleted jobs, and flows without a job.
-- params: older_ms int8, first_id int8, rows_max int4
-- returns: purged int8, next_id int8?
-- Rows: one row. next_id NULL: nothing further is old enough.
-- Locks: the rows. Index: primary keys of __deferred, __deferred_edge, __deferred_wait,
--   __deferred_member and __deferred_flow.
select p.purged, p.next_id from deferred.__purge_orphans($1::int8 * interval '1 millisecond',
    $2::int8, $3::int4) p
