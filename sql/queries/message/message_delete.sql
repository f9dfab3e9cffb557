-- message_delete: messages are done, by receipt.
-- Arrays in step: $1 queue text[], $2 id int8[], $3 receipt int8[]
-- returns one row an element: its number from 1 (int4), status (int4)
-- locks: the rows, in the order of their ids. Index: primary key of __deferred_hot
select m.item, m.status from deferred.__message_delete($1::text[], $2::int8[], $3::int8[]) m
