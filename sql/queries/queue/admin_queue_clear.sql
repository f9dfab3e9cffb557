-- admin_queue_clear: cancel the jobs of a queue among the next some; its log rows say who did.
-- $1 queue (text), $2 first id, $3 last id (int8), $4 hot jobs to look at (int4), $5 user of this machine (text)
-- returns one row: jobs cancelled (int8), id to go on from (int8), NULL: that was all; one more, ignored
-- locks: the rows. Index: primary key of __deferred_hot
select c.cancelled, c.next_id,
       case when c.cancelled > 0 then deferred.__act_note($5::text || ': deferred queue clear', 'clear', queue => $1, jobs => c.cancelled) end
from deferred.__queue_clear($1::text, $2::int8, $3::int8, $4::int4) c
