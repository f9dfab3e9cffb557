-- schedule_backfill: jobs for past ticks that have none.
-- params: name text, from text, until text, dry text
-- returns: jobs int4
-- $1 name, $2 from, $3 to (times, without an offset those of the schedule's zone), $4 they are
--   counted only.
-- locks: the row of the schedule, until the transaction ends
select deferred.__schedule_backfill($1, $2, $3, $4::text::bool) as jobs
