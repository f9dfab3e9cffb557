-- The jobs that workers hold now. sql/functions/claim/__claim.sql says when a lease holds a job.
create or replace view deferred.__held as
    select h.id, h.queue, h.fn, h.priority, least(h.attempt, 2147483646) + 1 as attempt, l.worker,
           l.claimed_at, l.expires_at
    from deferred.__deferred_lease l
    cross join lateral unnest(l.ids) i(id)
    join deferred.__deferred_hot h on h.id = i.id and pg_visible_in_snapshot(h.xid, l.snap)
    where l.expires_at > clock_timestamp();
grant select on deferred.__held to deferred_worker, deferred_viewer;
