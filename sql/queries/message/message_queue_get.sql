-- message_queue_get: metadata of a queue, and how much lies in it.
-- $1 queue (text)
-- returns one row: status (int4), metadata (json), jobs (int8), beyond 10000 an estimate
-- locks: none. Index: __deferred_hot_message and the others by queue
select q.status, q.metadata, q.messages from deferred.__message_queue_get($1::text) q
