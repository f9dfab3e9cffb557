-- admin_schedule_backfill: jobs for past ticks that have none.
-- params: name text, from text, until text, dry text
-- returns: jobs int4
-- $2, $3: without an offset in the zone of the schedule. $4 true: only count
-- Locks: the row of the schedule, until the transaction ends
select deferred.__schedule_backfill($1, $2, $3, $4::text::bool) as jobs
