-- admin_purge_jobs: delete outlived jobs among the next some.
-- $1 older than, milliseconds (int8), $2 first id (int8), $3 jobs to look at (int4),
-- $4 partitions that go as a whole (text, as an array)
-- returns one row: jobs deleted (int8), id to go on from (int8), NULL when nothing further is old enough
-- locks: the rows. Index: primary keys of __deferred and __deferred_hot, __deferred_log_job
select p.purged, p.next_id from deferred.__purge_jobs($1::int8 * interval '1 millisecond', $2::int8, $3::int4, $4::text::text[]) p
