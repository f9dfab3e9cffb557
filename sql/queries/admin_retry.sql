-- admin_retry: have a dead, cancelled, expired or delayed job run now, with all its attempts again.
-- $1 job id (int8)
-- returns one row: false if there is no such job (bool)
-- locks: the hot row. Index: primary keys of __deferred and __deferred_hot, __deferred_log_job
select deferred.retry($1::int8)
