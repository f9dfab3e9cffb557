-- message_sweep: end expired messages among the next some jobs, clear what removed queues left
-- behind.
-- params: first_id int8, jobs_max int4
-- returns: expired int8, next_id int8
-- Rows: one row. The id is where to go on; 0: that was all.
-- Locks: the rows; those locked by others are skipped. Index: primary key of __deferred_hot.
select s.expired, s.next_id from deferred.__message_sweep($1::int8, $2::int4) s
