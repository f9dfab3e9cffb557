-- job_enqueue_simple: store one job that has no options but its queue.
-- params: fn text, params json, queue text
-- returns: as job_enqueue
-- $1 fn text, $2 params json, $3 queue text (NULL: default).
-- Rows: id; NULL: dropped, the queue is full.
-- Locks: rows it adds.
-- Index: __deferred_queue_pkey.
select deferred.defer($1::text, $2::json, null, $3::text) as id
