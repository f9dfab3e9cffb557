-- job_extend: a job has its lease last longer.
-- params: job int8, receipt int8, extend_ms int8
-- returns: expires_at timestamptz
-- $1 id; $2 receipt; $3 milliseconds from now.
-- Rows: one row, the end of the lease. Raises 55000 where the receipt is not valid any more.
-- Locks: the hot row. Index: primary key of __deferred_hot
select deferred.extend($1::int8, $2::int8, $3::int8) as expires_at
