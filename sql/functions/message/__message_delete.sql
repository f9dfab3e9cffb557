create or replace function deferred.__message_delete(queues text[], ids bigint[],
                                                     receipts bigint[]) returns table (item integer,
                                                         status integer)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now  timestamptz := clock_timestamp();
    v_done integer[];
begin
    with ours as materialized (
        select h.id, i.n
        from unnest($1, $2, $3) with ordinality as i(queue, id, receipt, n)
        join deferred.__deferred_queue q on q.name = i.queue and q.removed_at is null
        join deferred.__deferred_hot h on h.id = any (array[i.id]) and h.queue = i.queue
        where deferred.__message_holds(i.receipt, h.receipt, h.put_receipt, h.attempt, h.worker)
          -- Of a call, until a worker takes it.
          and (h.fn is null or (h.suspect is not true and not exists (
              select from deferred.__deferred_lease l where l.span @> h.id and h.id = any (l.ids)
                  and pg_visible_in_snapshot(h.xid, l.snap))))
          and (h.expires_at is null or h.expires_at > v_now)
        order by h.id for update of h),
    first as materialized (
        select o.id, min(o.n) as n from ours o group by o.id),
    gone as (
        delete from deferred.__deferred_hot h using first f where h.id = any (array[f.id])
        returning h.id, h.started_at, coalesce(h.receipt, h.put_receipt) as receipt, f.n,
                  case when h.watched then deferred.__note_end(h.id, h.attempt, 'ok')
                       else h.attempt end
                  * (h.receipt is not null)::integer as attempt),
    log as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at,
                                             finished_at, receipt, run_us)
        select g.id, g.attempt, 'ok', true, g.started_at, v_now, g.receipt,
               extract(epoch from v_now - g.started_at) * 1000000 from gone g)
    select array_agg(g.n::integer) into v_done from gone g;
    return query select w.item, w.status from deferred.__message_why($1, $2,
        coalesce(v_done, '{}')) w;
end
$$;
comment on function deferred.__message_delete is
    'ends messages that are done, each by the receipt of its last take or of its put';
grant execute on function deferred.__message_delete to deferred_http;
