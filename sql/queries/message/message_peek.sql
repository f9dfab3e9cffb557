-- message_peek: look at visible messages without taking them.
-- params: queues text[], messages_max int4[]
-- returns: as message_get
-- Arrays in step: $1 queue, $2 most messages.
-- Rows: the columns of message_get.sql, the receipt being 0; an element without messages has one
--   row with id NULL.
-- Locks: none. Index: __deferred_hot_message, primary key of __deferred.
select m.item, m.status, m.id, 0::int8 as receipt, m.attempt, m.inserted_at, m.expires_at,
       m.visible_at, deferred.__message_text(m.params) as text
from deferred.__message_peek($1::text[], $2::int4[]) m
