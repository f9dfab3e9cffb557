-- message_queue_set_metadata: replace the metadata of a queue.
-- $1 queue (text), $2 metadata (json), an object of strings; NULL: none
-- returns one row: status (int4)
-- locks: the row of the queue
select deferred.__message_queue_metadata($1::text, $2::json)
