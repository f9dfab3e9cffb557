-- job_update: change a job that has not been claimed.
-- params: job int8, changes text
-- returns: changed bool
-- $2 JSON, as deferred.update() takes it.
-- Rows: one row: false if the job is unknown or belongs to another role
-- Locks: the hot row. Index: primary keys of __deferred and __deferred_hot
select deferred.update($1::int8, $2::text::json) as changed
