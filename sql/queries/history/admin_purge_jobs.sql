-- admin_purge_jobs: delete outlived jobs among the next some.
-- params: older_ms int8, first_id int8, jobs_max int4, partitions text
-- returns: purged int8, next_id int8?
-- Rows: one row. next_id NULL: nothing further is old enough
-- Locks: the rows. Index: primary keys of __deferred and __deferred_hot, __deferred_log_job
select p.purged, p.next_id from deferred.__purge_jobs($1::int8 * interval '1 millisecond', $2::int8,
                                                      $3::int4, $4::text::text[]) p
