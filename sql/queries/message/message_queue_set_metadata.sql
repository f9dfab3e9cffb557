-- message_queue_set_metadata: replace the metadata of a queue.
-- params: queue text, metadata json
-- returns: status int4
-- $2 an object of strings; NULL: none
-- Locks: the row of the queue
select deferred.__message_queue_metadata($1::text, $2::json) as status
