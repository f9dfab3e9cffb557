-- A text NULL stays as it is.
create or replace function deferred.__message_update(queues text[], ids bigint[], receipts bigint[],
                                                     visibility_s bigint[], texts text[])
returns table (item integer, status integer, receipt bigint, visible_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now     timestamptz := clock_timestamp();
    v_done    integer[];
    v_id      bigint[];
    v_receipt bigint[];
    v_visible timestamptz[];
    v_large   integer[];
    v_first   bigint;
    v_last    bigint;
begin
    -- A queue's limit counts for what is stored; one look, for it is rarely met.
    select array_agg(i.n::integer) into v_large
    from unnest($1, $5) with ordinality as i(queue, text, n)
    join deferred.__deferred_queue q on q.name = i.queue
    where octet_length(i.text) * 6 > q.params_max_bytes
      and octet_length(to_json(i.text)::text) > q.params_max_bytes;
    -- Between these lie the calls that are changed: only their partitions are opened.
    select min(i.id), max(i.id) into v_first, v_last from unnest($2, $5) as i(id, text)
    where i.text is not null;
    with ours as materialized (
        select h.id, i.n
        from unnest($1, $2, $3, $5) with ordinality as i(queue, id, receipt, text, n)
        join deferred.__deferred_queue q on q.name = i.queue and q.removed_at is null
        join deferred.__deferred_hot h on h.id = any (array[i.id]) and h.queue = i.queue
        where deferred.__message_holds(i.receipt, h.receipt, h.put_receipt, h.attempt, h.worker)
          -- Of a call, until a worker takes it.
          and (h.fn is null or (h.suspect is not true and not exists (
              select from deferred.__deferred_lease l where l.span @> h.id and h.id = any (l.ids)
                  and pg_visible_in_snapshot(h.xid, l.snap))))
          and (h.expires_at is null or h.expires_at > v_now)
          and i.n <> all (coalesce(v_large, '{}'))
          and (h.fn is null or i.text is null or deferred.__account_may(h.queue, h.fn))
        order by h.id for update of h),
    first as materialized (
        select o.id, min(o.n)::integer as n, uuid_hash_extended(gen_random_uuid(), 0) as receipt
        from ours o group by o.id),
    held as (
        update deferred.__deferred_hot h
        set receipt = case when h.receipt is not null then f.receipt end,
            put_receipt = case when h.receipt is null then f.receipt end,
            due_at = case when ($4)[f.n] > 0 then v_now + ($4)[f.n] * interval '1 second' end,
            visible_at = v_now + ($4)[f.n] * interval '1 second', xid = pg_current_xact_id(),
            params_bytes = case when h.fn is not null
                                    and ($5)[f.n] is not null
                                        then deferred.__params_bytes(
                                            deferred.__message_params(($5)[f.n], true))
                                else h.params_bytes end
        from first f where h.id = any (array[f.id])
        returning h.id, f.n, f.receipt, h.visible_at, h.fn),
    call as (
        update deferred.__deferred d
        set params = case when h.fn is null then to_json(($5)[h.n])
                          else deferred.__message_params(($5)[h.n], true) end
        from held h where d.id = h.id and d.id between v_first and v_last and ($5)[h.n] is not null)
    select array_agg(h.n), array_agg(h.receipt), array_agg(h.visible_at),
           array_agg(h.id) filter (where h.fn is not null)
    into v_done, v_receipt, v_visible, v_id from held h;
    if v_id is not null then
        perform deferred.__wake(q.queue)
        from (select distinct h.queue from deferred.__deferred_hot h
              where h.id = any (v_id) and h.visible_at < v_now + interval '1 minute') q;
    end if;
    return query
    select w.item,
           case when w.status <> 3 then w.status when w.item = any (v_large) then 9
                when ($5)[w.item] is not null and exists (
                    select from deferred.__deferred_hot h
                    where h.id = ($2)[w.item] and h.queue = ($1)[w.item] and h.fn is not null
                      and not deferred.__account_may(h.queue, h.fn)) then 11
                else 3 end, d.receipt, d.visible_at
    from deferred.__message_why($1, $2, coalesce(v_done, '{}')) w
    left join unnest(v_done, v_receipt, v_visible) as d(n, receipt, visible_at) on d.n = w.item;
end
$$;
comment on function deferred.__message_update is
    'hides messages again, each by its receipt, which is replaced, and may replace their texts';
grant execute on function deferred.__message_update to deferred_http;
