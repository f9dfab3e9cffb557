-- message_get: take visible messages.
-- params: queues text[], messages_max int4[], hidden_ms int8[]
-- returns: item int4, status int4, id int8?, receipt int8, attempt int4, inserted_at timestamptz?,
--   expires_at timestamptz?, visible_at timestamptz?, text text
-- Arrays in step: $1 queue, $2 most messages, $3 milliseconds they are hidden.
-- Rows: one for each message, those of one element together and in order. Column item: number of
--   the element from 1. Column expires: NULL: never. Each element also has one row with its status,
--   where id is NULL.
-- Locks: the rows taken; those locked by others are skipped.
-- Index: __deferred_hot_message, primary keys of __deferred and __deferred_hot.
select m.item, m.status, m.id, m.receipt, m.attempt, m.inserted_at, m.expires_at, m.visible_at,
       deferred.__message_text(m.params) as text
from deferred.__message_get($1::text[], $2::int4[], $3::int8[]) m
