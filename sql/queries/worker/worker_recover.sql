-- worker_recover: take over what earlier runs of this instance held. The caller holds the lock of
-- the pidfile, so they are known to be gone. Other instances are not touched.
-- params: instance text, worker int8, outcome text, max_attempts int4, begun_worker int8?,
--   begun_receipts int8[]
-- returns: id int8, fn text, attempt int4, final bool, recorded bool
-- $3 lost, or superseded when we ended the previous run. $5 one of these workers.
-- $6   receipts of its jobs with a lease of their own that had begun.
-- Rows: one for each job. recorded: an attempt was recorded.
-- Locks: those workers, their leases, and the hot rows they hold; rows locked by others are left
--   alone, the end of their lease frees them. Index: __deferred_worker_alive,
--   __deferred_lease_worker, primary key of __deferred_hot.
with dead as materialized (
    update deferred.__deferred_worker w set ended_at = now()
    where w.instance = $1::text and w.ended_at is null and w.id <> $2::int8
    returning w.id)
select l.id, l.fn, l.attempt, l.final, l.recorded
from (select array_agg(d.id) as ids from dead d having count(*) > 0) d
cross join lateral deferred.__lost(d.ids, $3::text, $4::int4, false, $5::int8, $6::int8[]) l
