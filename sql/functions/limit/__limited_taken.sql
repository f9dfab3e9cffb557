-- Takes the jobs that only keys limit. deferred.__limited_keyed() has locked their keys. One
-- statement looks whether the last job of each key still runs, and marks the jobs as claimed. It
-- notes them in their limits, and stores one lease for all of them. A job whose row somebody has
-- locked or changed is left.
create or replace function deferred.__limited_taken(
    w deferred.__limited, p_worker bigint, p_lease_ms bigint)
returns table (
    id bigint, receipt bigint, attempt integer, attempt_base integer, max_attempts integer,
    timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint,
    backoff_exponent double precision, created_at timestamptz, ready_since timestamptz, fn text,
    label text, params json, queue text, priority integer, lease_ms bigint, alone boolean,
    tick timestamptz, previous_tick timestamptz, traceparent text, parents boolean, tid tid,
    claimed_at timestamptz, seen bigint, wait_ms bigint, start_ms bigint, round text)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_snap    pg_snapshot;
    v_receipt bigint;                    -- of all jobs
    q         deferred.__deferred_queue; -- their queue
begin
    select x.* into q from deferred.__deferred_queue x where x.name = w.key_queues[1];
    v_snap := deferred.__snapshot();
    v_receipt := deferred.__random();
    q.visibility_timeout_ms := coalesce(q.visibility_timeout_ms, p_lease_ms);
    -- The snapshot is younger than the locks: see deferred.__limited_lock().
    return query
    with ready as materialized (
        select h.ctid as tid, k.limit_tid
        from unnest(w.key_tids, w.limit_tids, w.key_running) k(tid, limit_tid, running)
        join deferred.__deferred_hot h on h.ctid = k.tid
        where k.limit_tid is not null and h.due_at is null and h.receipt is null
          and pg_visible_in_snapshot(h.xid, v_snap)
          and (select r.receipt from deferred.__deferred_hot r
               where r.id = any (array[k.running])) is null
        for update of h skip locked),
    taken as materialized (
        update deferred.__deferred_hot h set receipt = v_receipt, worker = p_worker
        from ready r where h.ctid = r.tid
        returning h.ctid as tid, h.id, h.attempt, h.attempt_base, h.visible_at, h.fn,
                  h.priority, h.watched, r.limit_tid),
    limits as (
        update deferred.__deferred_limit l
        set running = array[t.id], tokens = null, tokens_at = w.now, used_at = w.now
        from taken t where l.ctid = t.limit_tid),
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
           cardinality(w.key_tids)::bigint, w.wait_ms, null::bigint, w.round
    from (select x.* from taken x order by x.priority desc, x.id) t
    left join lateral deferred.__call(t.id, w.first, w.last) d on true;
end
$$;
grant execute on function deferred.__limited_taken to deferred_worker;
