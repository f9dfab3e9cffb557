-- message_delete: messages are done, by receipt.
-- params: queues text[], ids int8[], receipts int8[]
-- returns: item int4, status int4
-- Arrays in step: $1 queue, $2 id, $3 receipt.
-- Rows: one for each element: its number from 1, status.
-- Locks: the rows, in the order of their ids. Index: primary key of __deferred_hot.
select m.item, m.status from deferred.__message_delete($1::text[], $2::int8[], $3::int8[]) m
