-- message_put: put messages.
-- params: queues text[], texts text[], hidden_s int8[], ttl_s int8[], traceparents text[]
-- returns: item int4, status int4, id int8?, receipt int8, inserted_at timestamptz?,
--   expires_at timestamptz?, visible_at timestamptz?
-- Arrays in step: $1 queue, $2 text, $3 seconds it is hidden at first.
-- $4   time to live in seconds. -1: never expires, 0: as the queue says, else 7 days.
-- $5   traceparent. NULL: none, or none has one.
-- Rows: one for each element: its number from 1, status (lib/store/message.h); id is NULL unless
--   the status is 0.
-- Locks: none but of what it adds.
-- Index: primary key of __deferred_queue, __deferred_hot_key for queues with a max_length.
select m.item, m.status, m.id, m.receipt, m.inserted_at, m.expires_at, m.visible_at
from deferred.__message_put($1::text[], $2::text[], $3::int8[], $4::int8[], $5::text[]) m
