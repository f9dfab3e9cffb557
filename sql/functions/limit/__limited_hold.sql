-- Locks the jobs that were chosen, and drops those that may not be taken. These are jobs whose row
-- somebody has locked or changed, and jobs beyond the budget for params, except the first one. Jobs
-- that need a lease that commits at once are dropped beyond what the worker can begin. Jobs that
-- have expired are listed apart.
create or replace function deferred.__limited_hold(
    w deferred.__limited, p_lease_ms bigint, p_max_attempts integer, p_max_bytes bigint,
    p_singles integer)
returns deferred.__limited
language plpgsql
as $$
declare
    v_snap    pg_snapshot := deferred.__snapshot();
    v_waiting integer;
    v_receipt bigint := deferred.__random();  -- with the hash of what leases differ in
begin
    with row as materialized (
        select h.ctid as tid, h.id, h.attempt, h.attempt_base, h.visible_at, h.watched, h.priority,
               h.queue, h.fn, p.at, p.rate, coalesce(p.lease_ms, p_lease_ms) as lease_ms, p.n,
               coalesce(h.params_bytes, 1024) as bytes,
               coalesce(h.expires_at <= now(), false) as expired,
               coalesce(h.suspect, false)
                   or coalesce(h.max_attempts, p.max_attempts, p_max_attempts) = 1 as single
        from unnest(w.tids, w.job_keys, w.rates, w.lease_ms, w.max_attempts)
            with ordinality p(tid, at, rate, lease_ms, max_attempts, n)
        join deferred.__deferred_hot h on h.ctid = p.tid
        -- One that was claimed without limits while these were being set is held, though its row
        -- does not say so. Jobs with a key are claimed under limits only.
        where h.due_at is null and h.receipt is null
          and pg_visible_in_snapshot(h.xid, v_snap)
          and (h.concurrency_key is not null
               or not exists (select from deferred.__deferred_lease l
                              where l.span @> h.id and h.id = any (l.ids)
                                and pg_visible_in_snapshot(h.xid, l.snap)))
        for update of h skip locked)
    select array_agg(y.tid) filter (where y.taken), array_agg(y.id) filter (where y.taken),
           array_agg(y.attempt) filter (where y.taken),
           array_agg(y.attempt_base) filter (where y.taken),
           array_agg(y.visible_at) filter (where y.taken),
           array_agg(y.watched is not null) filter (where y.taken),
           array_agg(y.priority) filter (where y.taken),
           array_agg(y.queue) filter (where y.taken), array_agg(y.fn) filter (where y.taken),
           array_agg(y.at) filter (where y.taken), array_agg(y.rate) filter (where y.taken),
           array_agg(y.lease_ms) filter (where y.taken),
           array_agg(y.single) filter (where y.taken),
           array_agg(case when y.single then deferred.__random()
                          else v_receipt # hashtextextended(y.lease_ms || ' ' || y.queue, 0) end)
               filter (where y.taken),
           min(y.id) filter (where y.taken), max(y.id) filter (where y.taken),
           array_agg(y.id) filter (where y.expired),
           count(*) filter (where y.fits and not y.taken)
    into w.tids, w.ids, w.attempts, w.attempt_bases, w.ready_since, w.parents, w.priorities,
        w.job_queues, w.job_fns, w.job_keys, w.rates, w.lease_ms, w.singles, w.receipts,
        w.first, w.last, w.expired, v_waiting
    from (select f.*, f.fits and (not f.single or f.singles <= p_singles) as taken
          from (select u.*, not u.expired and (u.upto = u.bytes or u.upto <= p_max_bytes) as fits
                from (select r.*, sum(r.bytes) filter (where not r.expired) over upto as upto,
                             count(*) filter (where r.single and not r.expired) over upto
                                 as singles
                      from row r window upto as (order by r.n rows unbounded preceding)) u) f) y;
    -- Jobs that wait until the worker can begin them need no further claim at once.
    w.seen := w.seen - v_waiting;
    return w;
end
$$;
grant execute on function deferred.__limited_hold to deferred_worker;
