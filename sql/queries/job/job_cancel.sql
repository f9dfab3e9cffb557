-- Take a job out of the queue.
--
-- $1 job id int8.
-- Returns: bool; false: unknown, finished, or of somebody else.
-- Locks: the hot row of the job.
-- Index: __deferred_hot_pkey.
select deferred.cancel($1::bigint)
