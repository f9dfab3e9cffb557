-- job_extend: a job has its lease last longer.
-- $1 id int8   $2 receipt int8   $3 milliseconds from now, int8
-- returns one row, the end of the lease (timestamptz). Raises 55000 where the receipt is not valid any more
-- locks: the hot row. Index: primary key of __deferred_hot
select deferred.extend($1::int8, $2::int8, $3::int8)
