-- message_update: hide messages again and replace their texts, by receipt.
-- params: queues text[], ids int8[], receipts int8[], hidden_s int8[], texts text[]
-- returns: item int4, status int4, receipt int8, visible_at timestamptz?
-- Arrays in step: $1 queue, $2 id, $3 receipt, $4 seconds from now that they are hidden, $5 text;
--   NULL: stays as it is.
-- Rows: one for each element: its number from 1, status; the rest is NULL unless the status is 0.
-- Locks: the rows, in the order of their ids. Index: primary keys of __deferred_hot and __deferred.
select m.item, m.status, m.receipt, m.visible_at
from deferred.__message_update($1::text[], $2::int8[], $3::int8[], $4::int8[], $5::text[]) m
