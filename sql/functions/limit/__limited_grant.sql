-- Grants leases on the jobs that were taken, and notes them in their limits. One lease holds all
-- jobs of a queue, except those that need a lease of their own. The function
-- deferred.__claim_grant() says which claims commit synchronously.
create or replace function deferred.__limited_grant(w deferred.__limited, p_worker bigint)
returns deferred.__limited
language plpgsql
as $$
declare
    v_snap constant pg_snapshot := pg_current_snapshot();
    v_limits constant deferred.__deferred_limit[] := w.limits;
    v_names  constant text[] := array(select m.kind || ' ' || m.queue || ' ' || m.name
                                      from unnest(w.limits) m);
    v_said text;
begin
    if w.expired is not null then
        perform deferred.__claim_aside(null, null, w.expired);
    end if;
    if true = any (w.singles) then
        v_said := set_config('synchronous_commit', 'on', true);
    end if;
    with taken as (
        update deferred.__deferred_hot h set receipt = t.receipt, worker = p_worker
        from unnest(w.tids, w.receipts) with ordinality t(tid, receipt, n) where h.ctid = t.tid
        returning t.n, h.ctid as tid),
    lease as (
        insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone,
                                               expires_at)
        select t.queue, p_worker, t.receipt, array_agg(t.id),
               int8range(min(t.id), max(t.id), '[]'), v_snap, t.single,
               now() + t.lease_ms * interval '1 millisecond'
        from unnest(w.job_queues, w.receipts, w.ids, w.singles, w.lease_ms)
            t(queue, receipt, id, single, lease_ms)
        group by t.queue, t.receipt, t.single, t.lease_ms),
    new as materialized (
        select u.kind, u.queue, u.name, array_agg(t.id) as ids
        from unnest(w.ids, w.job_queues, w.job_fns, w.hashes) t(id, queue, fn, hash)
        cross join lateral (values ('queue', t.queue, ''), ('function', '', t.fn),
                                   ('key', t.queue, t.hash)) u(kind, queue, name)
        where u.name is not null
        group by u.kind, u.queue, u.name),
    stand as (
        update deferred.__deferred_limit l
        set running = (v_limits[a.at]).running || a.ids,
            tokens = (v_limits[a.at]).tokens - cardinality(a.ids), tokens_at = w.now,
            used_at = w.now
        -- By position: a join would compare each limit with each that the jobs have.
        from (select n.*, array_position(v_names, n.kind || ' ' || n.queue || ' ' || n.name) as at
              from new n offset 0) a
        where a.at is not null and l.kind = a.kind and l.queue = a.queue and l.name = a.name)
    select array_agg(t.tid order by t.n) into w.tids from taken t;
    return w;
end
$$;
grant execute on function deferred.__limited_grant to deferred_worker;
