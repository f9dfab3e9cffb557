-- Store one job that has no options but its queue.
--
-- $1 fn text, $2 params json, $3 queue text (NULL: default).
-- Returns: id int8; NULL: dropped, the queue is full.
-- Locks: rows it adds.
-- Index: __deferred_queue_pkey.
select deferred.defer($1::text, $2::json, null, $3::text)
