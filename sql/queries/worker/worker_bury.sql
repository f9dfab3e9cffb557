-- worker_bury: workers whose session has been gone for too long are dead, or cut off. What they hold is ready again, at the end of no lease; but for jobs
-- of which no more than so many may run at once, whose leases are waited for, and with them the end of their worker.
-- $1 numbers of their sessions, as worker_look.sql names them, int4[]   $2 default of max_attempts, int4
-- returns as job_lost.sql; of a worker that held nothing one row, with NULL for the job; of one that is waited for none
-- locks: those workers, their leases and the hot rows they hold; advisory, until the transaction ends: (1145390673, number), shared.
--   Index: __deferred_worker_alive, __deferred_lease_worker, primary key of __deferred_hot
with silent as materialized (
    select w.* from deferred.__deferred_worker w
    where w.ended_at is null and w.watch = any ($1::int4[]) and pg_try_advisory_xact_lock_shared(1145390673, w.watch)),
dead as (
    update deferred.__deferred_worker w set ended_at = now()
    where w.ended_at is null and w.id = any (array(
        select s.id from silent s
        where not exists (
            select from deferred.__deferred_lease l cross join lateral unnest(l.ids) i(id)
            join deferred.__deferred_hot h on h.id = any (array[i.id]) and pg_visible_in_snapshot(h.xid, l.snap)
            where l.worker = s.id and l.expires_at >= now()
              and (l.alone or deferred.__at_most(h.queue, h.fn, h.concurrency_key)) offset 0)))  -- of each, not of all
    returning w.id)
select s.id, format('%s pid %s, %s', s.host, s.pid, substring(s.instance from '^[^:]*:(.*)#[0-9]+[.][0-9]+@')),
       l.id, l.fn, l.attempt, l.final, l.recorded
from silent s left join dead d on d.id = s.id
left join lateral deferred.__lost(array[s.id], 'lost', $2::int4, true) l on true
where l.id is not null or d.id is not null
order by s.id, l.id
