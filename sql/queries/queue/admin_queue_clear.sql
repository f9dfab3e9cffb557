-- admin_queue_clear: cancel the jobs of a queue among the next some; its log rows say who did.
-- params: queue text, first_id int8, last_id int8, jobs_max int4, user text
-- returns: cancelled int8, next_id int8?, noted bool
-- Rows: one row. The id is where to go on; NULL: that was all
-- Locks: the rows. Index: primary key of __deferred_hot
select c.cancelled, c.next_id,
       case when c.cancelled > 0 then deferred.__act_note($5::text || ': deferred queue clear',
           'clear', queue => $1, jobs => c.cancelled) end as noted
from deferred.__queue_clear($1::text, $2::int8, $3::int8, $4::int4) c
