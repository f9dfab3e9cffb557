-- admin_queue_rm: forget the settings of a queue and hide it until a job is deferred to it.
-- params: queue text, user text
-- returns: ignored
-- Locks: the row of the queue
select deferred.__queue_rm($1::text), deferred.__act_note($2::text || ': deferred queue rm',
    'remove', queue => $1)
