-- message_queue_get: metadata of a queue, and how much lies in it.
-- params: queue text
-- returns: status int4, metadata json, messages int8
-- Rows: one row. Beyond 10,000 jobs an estimate
-- Locks: none. Index: __deferred_hot_message and the others by queue
select q.status, q.metadata, q.messages from deferred.__message_queue_get($1::text) q
