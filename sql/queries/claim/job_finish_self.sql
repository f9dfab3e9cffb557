-- job_finish_self: a job records its own success, in a transaction of its own.
-- params: job int8, receipt int8, result text
-- returns: ignored
-- $1 id; $2 receipt; $3 result text, or NULL.
-- Rows: one row, empty. Raises 55000 where the receipt is not valid any more.
-- Locks: the hot row. Index: primary key of __deferred_hot
select deferred.finish($1::int8, $2::int8, $3::text)
