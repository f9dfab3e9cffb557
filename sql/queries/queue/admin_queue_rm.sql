-- admin_queue_rm: forget the settings of a queue and hide it until a job is deferred to it.
-- $1 queue, $2 user of this machine (text)
-- returns one row, ignored
-- locks: the row of the queue
select deferred.__queue_rm($1::text), deferred.__act_note($2::text || ': deferred queue rm', 'remove', queue => $1)
