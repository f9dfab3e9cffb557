-- schedule_backfill: jobs for past ticks that have none.
-- $1 name, $2 from, $3 to (text: times, without an offset those of the schedule's zone), $4 they are counted only (bool)
-- returns one row: how many (int4)
-- locks: the row of the schedule, until the transaction ends
select deferred.__schedule_backfill($1, $2, $3, $4::text::bool)
