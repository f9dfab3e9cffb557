-- message_update: hide messages anew and replace their texts, by receipt.
-- Arrays in step: $1 queue text[], $2 id int8[], $3 receipt int8[], $4 seconds from now that they are hidden int8[], $5 text text[];
-- NULL: stays as it is
-- returns one row an element: its number from 1 (int4), status (int4), new receipt (int8), visible (timestamptz); the last two NULL
--   unless the status is 0
-- locks: the rows, in the order of their ids. Index: primary keys of __deferred_hot and __deferred
select m.item, m.status, m.receipt, m.visible_at
from deferred.__message_update($1::text[], $2::int8[], $3::int8[], $4::int8[], $5::text[]) m
