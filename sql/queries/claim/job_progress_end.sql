-- job_progress_end: these attempts have ended; how far they were is of no use any more. Sent for
-- those that reported only.
-- params: ids int8[], attempts int4[]
-- returns: nothing
-- Locks: the rows. Index: primary key of __deferred_progress
delete from deferred.__deferred_progress p
using unnest($1::int8[], $2::int4[]) as r(id, attempt)
where p.job_id = r.id and p.attempt = r.attempt
