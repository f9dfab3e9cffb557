-- cursor_save: remember where the ready jobs begin, for the next start. Whichever of several runs comes last: what was true
-- of a lane once stays true.
-- $1 queue text[]   $2 priority int4[]   $3 xid xid8[]   $4 id int8[], arrays in step, a lane each, in their order
-- $5 transactions left out, text[], each xid8[] as text
-- $6 start of the server, timestamptz   $7 milliseconds since it was learnt, int8
-- returns nothing
-- locks: those rows, by queue and priority
insert into deferred.__deferred_cursor as c (queue, priority, xid, id, holes, server, learnt_at)
select s.queue, s.priority, s.xid, s.id, s.holes::xid8[], $6::timestamptz,
       now() - $7::int8 * interval '1 millisecond'
from unnest($1::text[], $2::int4[], $3::xid8[], $4::int8[], $5::text[]) as s(queue, priority, xid, id, holes)
on conflict (queue, priority) do update
set xid = excluded.xid, id = excluded.id, holes = excluded.holes, server = excluded.server, learnt_at = excluded.learnt_at
