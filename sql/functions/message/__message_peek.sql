create or replace function deferred.__message_peek(queues text[], counts integer[])
returns table (item integer, status integer, id bigint, attempt integer, inserted_at timestamptz,
               expires_at timestamptz,
    visible_at timestamptz, params json)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now timestamptz := clock_timestamp();
begin
    return query
    select i.n::integer, case when q.name is null then 1 else 0 end, x.id, x.attempt, x.created_at,
           x.expires_at, x.visible_at, x.params
    from unnest($1, $2) with ordinality as i(queue, count, n)
    left join deferred.__deferred_queue q on q.name = i.queue and q.removed_at is null
    left join lateral (
        select y.*, d.created_at, d.params
        from (select v.*
              from ((select h.id, h.attempt, h.expires_at, h.visible_at, h.priority, h.xid
                     from deferred.__deferred_hot h
                     where h.queue = q.name and h.fn is null and h.due_at is null
                       and (h.expires_at is null or h.expires_at > v_now)
                     order by h.queue, h.due_at nulls first, h.priority desc, h.xid, h.id
                     limit i.count)
                    union all
                    (select h.id, h.attempt, h.expires_at, h.visible_at, h.priority, h.xid
                     from deferred.__deferred_hot h
                     where h.queue = q.name and h.fn is null and h.due_at <= v_now
                       and (h.expires_at is null or h.expires_at > v_now)
                     order by h.queue, h.due_at nulls first limit i.count)) v
              order by v.priority desc, v.visible_at, v.xid, v.id limit i.count) y
        cross join lateral (select d.created_at, d.params from deferred.__deferred d
                            where d.id = y.id offset 0) d) x on true
    order by i.n, x.priority desc, x.visible_at, x.xid, x.id;
end
$$;
comment on function deferred.__message_peek is
    'visible messages, without taking them; one row a request at least';
grant execute on function deferred.__message_peek to deferred_http;
