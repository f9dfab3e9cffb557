create or replace function deferred.__message_sweep(from_id bigint, batch integer,
                                                    out expired bigint, out next_id bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now timestamptz := clock_timestamp();
    v_ids bigint[];
    v_queue record;
begin
    with seen as materialized (
        select h.id, h.fn is null and h.expires_at <= v_now as over from deferred.__deferred_hot h
        where h.id >= $1 order by h.id limit $2),
    row as materialized (
        select h.id from seen s join deferred.__deferred_hot h on h.id = s.id
        where s.over and h.expires_at <= v_now
        for update of h skip locked)
    select (select array_agg(r.id) from row r),
           coalesce((select max(s.id) + 1 from seen s having count(*) = $2), 0) into v_ids, next_id;
    expired := case when v_ids is null then 0 else deferred.__message_expire(v_ids) end;
    for v_queue in select q.name, q.clearing_to from deferred.__deferred_queue q
        where q.clearing_to is not null limit 10 for update skip locked loop
        if not (select c.more from deferred.__message_clear_some(v_queue.name, v_queue.clearing_to,
            2000) c) then
            update deferred.__deferred_queue q set clearing_to = null where q.name = v_queue.name;
        end if;
    end loop;
end
$$;
comment on function deferred.__message_sweep is
    'ends expired messages among the next some jobs, and clears what removed queues left behind; '
    'next_id 0: that was all';
grant execute on function deferred.__message_sweep to deferred_http;
