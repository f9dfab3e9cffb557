-- Takes the jobs that only keys limit. deferred.__limited_keyed() has locked their keys. The first
-- statement looks whether a job of each key still runs. The second one marks the jobs as claimed,
-- notes them in their limits, and stores one lease for all of them. A job whose row somebody has
-- locked or changed is left, and so are the jobs of its key behind it.
create or replace function deferred.__limited_taken(
    w deferred.__limited, p_worker bigint, p_lease_ms bigint)
returns table (
    id bigint, receipt bigint, attempt integer, attempt_base integer, max_attempts integer,
    timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint,
    backoff_exponent double precision, created_at timestamptz, ready_since timestamptz, fn text,
    label text, params json, queue text, priority integer, lease_ms bigint, alone boolean,
    tick timestamptz, previous_tick timestamptz, traceparent text, parents boolean, tid tid,
    claimed_at timestamptz, seen bigint, wait_ms bigint, start_ms bigint, round text,
    key integer)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_snap    pg_snapshot;
    v_receipt bigint;                    -- of all jobs
    v_limits  tid[];                     -- of keys of which no job runs, in step with key_hashes
    q         deferred.__deferred_queue; -- their queue
begin
    select x.* into q from deferred.__deferred_queue x where x.name = w.key_queues[1];
    -- The snapshots are younger than the locks: see deferred.__limited_lock().
    select array_agg(case when (
               select true from unnest(l.running) i
               join deferred.__deferred_hot r on r.id = any (array[i])
               where r.receipt is not null limit 1) is null then k.tid end)
    into v_limits
    from unnest(w.limit_tids) k(tid)
    left join deferred.__deferred_limit l on l.ctid = k.tid;
    v_snap := deferred.__snapshot();
    v_receipt := deferred.__random();
    q.visibility_timeout_ms := coalesce(q.visibility_timeout_ms, p_lease_ms);
    return query
    with ready as materialized (
        select h.ctid as tid, k.at, k.place
        from unnest(w.key_tids, w.key_at, w.key_places) k(tid, at, place)
        join deferred.__deferred_hot h on h.ctid = k.tid
        where v_limits[k.at] is not null and h.due_at is null and h.receipt is null
          and pg_visible_in_snapshot(h.xid, v_snap)
        for update of h skip locked),
    taken as materialized (
        update deferred.__deferred_hot h set receipt = v_receipt, worker = p_worker
        from (select r.*, row_number() over (partition by r.at order by r.place) as nth
              from ready r) r
        where h.ctid = r.tid and r.place = r.nth
        returning h.ctid as tid, h.id, h.attempt, h.attempt_base, h.visible_at, h.fn,
                  h.priority, h.watched, r.at, r.place),
    limits as (
        update deferred.__deferred_limit l
        set running = a.ids, tokens = null, tokens_at = w.now, used_at = w.now
        from (select v_limits[t.at] as tid, array_agg(t.id) as ids from taken t group by t.at) a
        where l.ctid = a.tid),
    lease as (
        insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap,
                                               alone, expires_at)
        select w.key_queues[1], p_worker, v_receipt, array_agg(t.id),
               int8range(min(t.id), max(t.id), '[]'), v_snap, false,
               now() + q.visibility_timeout_ms * interval '1 millisecond'
        from taken t having count(*) > 0)
    select t.id, v_receipt, least(t.attempt, 2147483646) + 1, t.attempt_base,
           coalesce(d.max_attempts, q.max_attempts), d.timeout_ms,
           coalesce(d.backoff_floor_ms, q.backoff_floor_ms),
           coalesce(d.backoff_ceiling_ms, q.backoff_ceiling_ms),
           coalesce(d.backoff_exponent, q.backoff_exponent), d.created_at, t.visible_at,
           coalesce(d.fn, t.fn)::text, d.label, d.params, w.key_queues[1],
           t.priority::integer, q.visibility_timeout_ms, null::boolean, d.tick,
           d.previous_tick, d.traceparent, t.watched is not null, t.tid, now(),
           cardinality(w.key_tids)::bigint, w.wait_ms, null::bigint, w.round, t.at
    from (select x.* from taken x order by x.priority desc, x.place, x.id) t
    left join lateral deferred.__call(t.id, w.first, w.last) d on true;
end
$$;
grant execute on function deferred.__limited_taken to deferred_worker;
