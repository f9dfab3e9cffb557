-- job_cancel: take a job out of the queue.
-- params: job int8
-- returns: cancelled bool
-- Rows: bool; false: unknown, finished, or of somebody else.
-- Locks: the hot row of the job.
-- Index: __deferred_hot_pkey.
select deferred.cancel($1::bigint) as cancelled
