-- message_sweep: end expired messages among the next some jobs, clear what removed queues left behind.
-- $1 first id (int8), $2 jobs to look at (int4)
-- returns one row: messages ended (int8), id to go on from (int8), 0: that was all
-- locks: the rows; those locked by others are passed over. Index: primary key of __deferred_hot
select s.expired, s.next_id from deferred.__message_sweep($1::int8, $2::int4) s
