-- message_queue_rm: remove a queue, and clear some of its jobs in the same transaction.
-- params: queue text, jobs_max int4
-- returns: status int4, upto int8, more bool
-- Rows: one row. If there is more, message_clear.sql goes on
-- Locks: the row of the queue, the rows of the jobs
select r.status, r.upto, r.more from deferred.__message_queue_rm($1::text, $2::int4) r
