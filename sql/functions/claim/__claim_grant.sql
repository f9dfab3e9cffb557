-- Grants leases on the jobs that were chosen. One lease holds all that are usual. A job that is
-- suspect, or has one attempt only, gets a lease of its own. The claim then commits synchronously:
-- a crash of the server that lost the lease would lose the attempt.
create or replace function deferred.__claim_grant(
    w deferred.__window, p_worker bigint, p_lease_ms bigint)
returns deferred.__window
language plpgsql
as $$
declare
    v_expires_at timestamptz := now() + p_lease_ms * interval '1 millisecond';
    v_said       text;
begin
    w.receipt := deferred.__random();
    w.receipts := null;
    if w.shared is not null then
        insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone,
                                               expires_at)
        values (w.queue, p_worker, w.receipt, w.shared, int8range(w.low, w.high, '[]'), w.cur,
                false, v_expires_at);
    end if;
    if w.singles > 0 then
        v_said := set_config('synchronous_commit', 'on', true);
        with own as (
            insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone,
                                                   expires_at)
            select w.queue, p_worker, deferred.__random(), array[w.ids[i]],
                   int8range(w.ids[i], w.ids[i], '[]'), w.cur, true, v_expires_at
            from unnest(w.picks) i where w.flags[i] & 8 <> 0
            returning ids[1] as id, receipt)
        select array_agg(o.receipt order by i.n) into w.receipts
        from unnest(w.picks) with ordinality i(i, n)
        left join own o on o.id = any (array[w.ids[i.i]]);
    end if;
    return w;
end
$$;
grant execute on function deferred.__claim_grant to deferred_worker;
