-- message_queue_rm: remove a queue, and clear some of its jobs in the same transaction.
-- $1 queue (text), $2 most jobs (int4)
-- returns one row: status (int4), last id to be cleared (int8), there is more: message_clear.sql goes on (bool)
-- locks: the row of the queue, the rows of the jobs
select r.status, r.upto, r.more from deferred.__message_queue_rm($1::text, $2::int4) r
