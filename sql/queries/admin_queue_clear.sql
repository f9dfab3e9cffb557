-- admin_queue_clear: cancel the jobs of a queue among the next some; its log rows say who did.
-- $1 queue (text), $2 first id, $3 last id (int8), $4 hot jobs to look at (int4)
-- returns one row: jobs cancelled (int8), id to go on from (int8), NULL: that was all
-- locks: the rows. Index: primary key of __deferred_hot
select c.cancelled, c.next_id from deferred.__queue_clear($1::text, $2::int8, $3::int8, $4::int4) c
