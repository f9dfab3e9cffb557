-- worker_bury: workers whose session has been gone for too long. Some are proven dead: what they
-- hold is ready again. The others may be cut off, and live: their leases are waited for, and with
-- the last of them the end of the worker.
-- params: workers int8[], dead int4, max_attempts int4
-- returns: as job_lost
-- $1: the dead workers first.
-- Rows: as job_lost.sql. A worker that held nothing has one row with NULL for the job; one that is
--   waited for has none.
-- Locks: those workers, the leases of the dead and the hot rows they hold; advisory, until the
--   transaction ends: (1145390673, number), shared. Index: primary keys of
--   __deferred_worker and __deferred_hot, __deferred_lease_worker.
with silent as materialized (
    select w.*, w.id = any (($1::int8[])[:$2::int4]) as dead from deferred.__deferred_worker w
    where w.ended_at is null and w.id = any ($1::int8[])
      and pg_try_advisory_xact_lock_shared(1145390673, w.watch)),
gone as (
    update deferred.__deferred_worker w set ended_at = now()
    from silent s
    where w.id = s.id and w.ended_at is null and w.watch = s.watch  -- it may be back by now
      and not exists (
        select from deferred.__deferred_lease l cross join lateral unnest(l.ids) i(id)
        join deferred.__deferred_hot h on h.id = any (array[i.id])
            and pg_visible_in_snapshot(h.xid, l.snap)
        -- of each, not of all
        where l.worker = s.id and l.expires_at >= now() and (l.alone or not s.dead) offset 0)
    returning w.id)
select s.id as worker, format('%s pid %s, %s', s.host, s.pid,
                              substring(s.instance from '^[^:]*:(.*)#[0-9]+[.][0-9]+@')) as who,
       l.id, l.fn, l.attempt, l.final, l.recorded
from silent s left join gone g on g.id = s.id
left join lateral deferred.__lost(case when s.dead then array[s.id] else '{}' end, 'lost', $3::int4,
                                  true) l on true
where l.id is not null or g.id is not null
order by s.id, l.id
