-- worker_bury: workers whose session has been gone for too long are dead. What they hold is ready again, at the end of no lease.
-- $1 numbers of their sessions, as worker_look.sql names them, int4[]   $2 default of max_attempts, int4
-- returns as job_lost.sql; of a worker that held nothing one row, with NULL for the job
-- locks: those workers, their leases and the hot rows they hold; advisory, until the transaction ends: (1145390673, number), shared.
--   Index: __deferred_worker_alive, __deferred_lease_worker, primary key of __deferred_hot
with dead as materialized (
    update deferred.__deferred_worker w set ended_at = now()
    where w.ended_at is null and w.watch = any ($1::int4[]) and pg_try_advisory_xact_lock_shared(1145390673, w.watch)
    returning w.*)
select d.id, format('%s pid %s, %s', d.host, d.pid, substring(d.instance from '^[^:]*:(.*)#[0-9]+[.][0-9]+@')),
       l.id, l.fn, l.attempt, l.final, l.recorded
from dead d left join lateral deferred.__lost(array[d.id], 'lost', $2::int4) l on true
order by d.id, l.id
