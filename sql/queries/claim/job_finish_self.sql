-- job_finish_self: a job records its own success, in a transaction of its own.
-- $1 id int8   $2 receipt int8   $3 result text, or NULL
-- returns one row, empty. Raises 55000 where the receipt is not valid any more
-- locks: the hot row. Index: primary key of __deferred_hot
select deferred.finish($1::int8, $2::int8, $3::text)
