-- message_get: take visible messages.
-- Arrays in step: $1 queue text[], $2 most messages int4[], $3 milliseconds they are hidden int8[]
-- returns a row a message, those of one element together and in order: number of the element from 1 (int4), status (int4), id (int8),
--   receipt (int8), attempt (int4), inserted, expires (NULL: never), visible (timestamptz), text; and one row an element with its
--   status, id NULL
-- locks: the rows taken; those locked by others are passed over
-- Index: __deferred_hot_message, primary keys of __deferred and __deferred_hot
select m.item, m.status, m.id, m.receipt, m.attempt, m.inserted_at, m.expires_at, m.visible_at, deferred.__message_text(m.params)
from deferred.__message_get($1::text[], $2::int4[], $3::int8[]) m
