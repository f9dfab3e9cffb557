-- The __message_...() functions take arrays. Element i of all arrays is request i, and they return
-- a status for each, so that many requests are one statement and one commit. They wait for rows
-- only in the order of ids, and skip other locked rows, so no two of them block each other.
-- Statuses are those of enum message_status in lib/store/message.h.
create or replace function deferred.__message_put(queues text[], texts text[],
                                                  visibility_s bigint[], ttl_s bigint[],
                                                  traceparent text[] default null)
returns table (item integer, status integer, id bigint, receipt bigint, inserted_at timestamptz,
               expires_at timestamptz, visible_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now    timestamptz := clock_timestamp();
    v_actor  name := deferred.__actor();
    v_grants boolean := exists (select from deferred.__deferred_grant g
                                where g.role in (v_actor, session_user));
begin
    return query
    with queue as materialized (
        select q.name, q.fn, q.params_max_bytes, q.ttl_ms, q.max_length, q.on_full = 'drop' as drop,
               case when q.fn is not null then deferred.__is_limited(q.name, q.fn, null)
                    else false end as limited,
               case when q.max_length is not null then greatest(0,
                   q.max_length - deferred.__queue_length(q.name, q.max_length)) end as room,
               not v_grants or exists (
                   select from deferred.__deferred_grant g
                   where g.role in (v_actor, session_user) and (g.queue is null or g.queue = q.name)
                     and (g.fn is null or g.fn = q.fn)) as allowed,
               q.fn is null or deferred.__account_may(q.name, q.fn) as given
        from deferred.__deferred_queue q where q.name = any ($1) and q.removed_at is null),
    sized as materialized (
        select i.n::integer as n, q.name as queue, q.fn, q.limited,
               q.max_length is not null as bounded, q.drop, q.room, p.params, i.traceparent,
               case when i.visibility_s > 0
                        then v_now + i.visibility_s * interval '1 second' end as due_at,
               case when i.ttl_s > 0 then v_now + i.ttl_s * interval '1 second'
                    when q.ttl_ms is not null
                        and i.ttl_s = 0 then v_now + q.ttl_ms * interval '1 millisecond'
                    when i.ttl_s = 0 then v_now + interval '7 days' end as expires_at,
               case when q.name is null then 1 when not q.allowed then 10 when not q.given then 11
                    when octet_length(p.params::text) > q.params_max_bytes then 9
                    else 0 end as status
        from unnest($1, $2, $3, $4, $5) with ordinality as i(queue, text, visibility_s, ttl_s,
            traceparent, n)
        left join queue q on q.name = i.queue
        cross join lateral (
            select case when q.fn is null then to_json(i.text)
                        else deferred.__message_params(i.text, true) end as params offset 0) p),
    place as materialized (
        select s.*, case when s.room is not null and s.status = 0
                         then count(*) filter (where s.status = 0) over (partition by s.queue
                             order by s.n) > s.room else false end as full
        from sized s),
    job as materialized (
        select p.*, case when p.status = 0
                             and (not p.full or p.drop)
                                 then nextval('deferred.__deferred_id_seq') end as id,
               uuid_hash_extended(gen_random_uuid(), 0) as receipt
        from place p),
    hot as (
        insert into deferred.__deferred_hot (id, queue, fn, due_at, visible_at, expires_at, limited,
                                             bounded, put_receipt, params_bytes)
        select j.id, j.queue, j.fn, j.due_at, coalesce(j.due_at, v_now), j.expires_at, j.limited,
               j.bounded, j.receipt,
               case when j.fn is not null then deferred.__params_bytes(j.params) end
        from job j where j.id is not null and not j.full),
    call as (
        insert into deferred.__deferred (id, queue, fn, params, run_at, expires_at, created_at,
                                         created_by, traceparent)
        select j.id, j.queue, j.fn, j.params, j.due_at, j.expires_at, v_now, v_actor,
               deferred.__traceparent(j.traceparent)
        from job j where j.id is not null and not j.full),
    marked as (
        insert into deferred.__deferred_limited (queue)
        select k.name from queue k
        where k.limited
          and not exists (select from deferred.__deferred_limited l where l.queue = k.name))
    select j.n, case when j.full and not j.drop then 4 else j.status end, j.id, j.receipt, v_now,
           j.expires_at, coalesce(j.due_at, v_now)
    from job j;
    perform deferred.__wake(q.name)
    from deferred.__deferred_queue q
    where q.name = any ($1) and q.fn is not null and exists (select
        from unnest($1, $3) i(queue, visibility_s) where i.queue = q.name and i.visibility_s < 60);
end
$$;
comment on function deferred.__message_put is
    'puts messages, or calls where the queue has a function';
grant execute on function deferred.__message_put to deferred_http;
