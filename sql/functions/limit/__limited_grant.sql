-- Grants leases on the jobs that were taken, and notes them in their limits. One lease holds all
-- jobs of a queue, except those that need a lease of their own. The function
-- deferred.__claim_grant() says which claims commit synchronously.
create or replace function deferred.__limited_grant(w deferred.__limited, p_worker bigint)
returns deferred.__limited
language plpgsql
as $$
declare
    v_snap constant pg_snapshot := deferred.__snapshot();
    v_limits constant deferred.__deferred_limit[] := w.limits;
    -- Limits are found by their place in the array. A join would compare each limit with each job.
    -- The limits of keys come first.
    v_keys   constant integer := cardinality(w.key_hashes);
    v_names  constant text[] := array(
        select m.kind || ' ' || m.queue || m.name from unnest(w.limits[v_keys + 1:]) m);
    v_said text;
begin
    if w.expired is not null then
        perform deferred.__claim_aside(null, null, w.expired);
    end if;
    if true = any (w.singles) then
        v_said := set_config('synchronous_commit', 'on', true);
    end if;
    insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone,
                                           expires_at)
    select t.queue, p_worker, t.receipt, array_agg(t.id), int8range(min(t.id), max(t.id), '[]'),
           v_snap, t.single, now() + t.lease_ms * interval '1 millisecond'
    from unnest(w.job_queues, w.receipts, w.ids, w.singles, w.lease_ms)
        t(queue, receipt, id, single, lease_ms)
    group by t.queue, t.receipt, t.single, t.lease_ms;
    with new as materialized (
        select u.at, array_agg(t.id) as ids
        from unnest(w.ids, w.job_queues, w.job_fns, w.job_keys) t(id, queue, fn, key)
        cross join lateral (
            values (t.key), (v_keys + array_position(v_names, 'queue ' || t.queue)),
                   (v_keys + array_position(v_names, 'function ' || t.fn))) u(at)
        where u.at is not null
        group by u.at)
    update deferred.__deferred_limit l
    set running = (a.of).running || a.ids, tokens = (a.of).tokens - cardinality(a.ids),
        tokens_at = w.now, used_at = w.now
    from (select v_limits[n.at] as of, w.limit_tids[n.at] as tid, n.ids
          from new n offset 0) a
    where l.ctid = a.tid;
    with taken as (
        update deferred.__deferred_hot h set receipt = t.receipt, worker = p_worker
        from unnest(w.tids, w.receipts) with ordinality t(tid, receipt, n) where h.ctid = t.tid
        returning t.n, h.ctid as tid)
    select array_agg(t.tid order by t.n) into w.tids from taken t;
    return w;
end
$$;
grant execute on function deferred.__limited_grant to deferred_worker;
