-- Many jobs in one statement. Arrays run in step; one shorter than fn is filled up with NULL, so
-- an option that no job uses is passed as NULL. Ids come back in the order of the input.
create or replace function deferred.__enqueue_many(
    fn text[], params json[], queue text[], label text[], priority integer[],
    delay_ms bigint[], run_at timestamptz[], expires_ms bigint[], expires_at timestamptz[],
    key text[], on_duplicate text[], max_attempts integer[], timeout_ms bigint[],
    backoff_floor_ms bigint[], backoff_ceiling_ms bigint[], backoff_exponent double precision[],
    concurrency_key text[] default null, concurrency integer[] default null,
    tags json[] default null, traceparent text[] default null,
    flow bigint default null)
returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now   timestamptz := clock_timestamp();
    v_actor name := deferred.__actor();
    v_ids   bigint[];
    v_n     integer := coalesce(array_length($1, 1), 0);
    v_bad   record;
    v_queues text[];
    v_special boolean;
    v_flow  bigint;
    v_mark  bigint;
begin
    if v_n = 0 then return; end if;
    if $21 is not null then
        select j.flow, j.mark into v_flow, v_mark from deferred.__flow_join($21) j;
    end if;
    -- A job with a key may meet another one; a limited role is checked job by job. Both take the
    -- way of the single job. So does an invalid job, which then reports itself.
    select j.n, j.fn, j.params, j.queue, j.priority into v_bad
    from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
                $12, $13, $14, $15, $16, $17, $18) with ordinality
         as j(fn, params, queue, label, priority, delay_ms, run_at, expires_ms, expires_at, key,
              max_attempts, timeout_ms, backoff_floor_ms,
              backoff_ceiling_ms, backoff_exponent, concurrency_key, concurrency, n)
    left join deferred.__deferred_queue q on q.name = coalesce(j.queue, 'default')
    where j.key is not null or q.name is null or j.fn is null or j.params is null
       or length(j.fn) > 127 or j.fn !~ '^[A-Za-z_][A-Za-z0-9_.]*$'
       or not deferred.__opts_ok(j.label, j.key, j.max_attempts, j.timeout_ms, j.backoff_floor_ms,
                                 j.backoff_ceiling_ms,
                                 j.backoff_exponent)
       or not deferred.__concurrency_ok(j.concurrency_key, j.concurrency)
       or q.max_length is not null or q.removed_at is not null
       or j.priority not between -32768 and 32767
       or not deferred.__times_ok(j.run_at, j.expires_at, j.delay_ms, j.expires_ms)
       or octet_length(j.params::text) > q.params_max_bytes
       or (octet_length(j.params::text) > 512 and not deferred.__depth_ok(j.params))
    limit 1;
    if found or exists (select from deferred.__deferred_grant g
                        where g.role in (v_actor, session_user)) then
        v_ids := array(
            select deferred.__enqueue(j.fn, j.params, j.queue, j.label, j.priority, j.delay_ms,
                                      j.run_at, j.expires_ms,
                j.expires_at, j.key, j.on_duplicate, j.max_attempts, j.timeout_ms,
                j.backoff_floor_ms,
                j.backoff_ceiling_ms, j.backoff_exponent, j.concurrency_key, j.concurrency, j.tags,
                j.traceparent)
            from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
                        $18, $19, $20)
                 as j(fn, params, queue, label, priority, delay_ms, run_at, expires_ms, expires_at,
                      key, on_duplicate,
                      max_attempts, timeout_ms, backoff_floor_ms, backoff_ceiling_ms,
                      backoff_exponent, concurrency_key, concurrency,
                      tags, traceparent));
        if $21 is not null then
            perform deferred.__flow_add(v_flow, v_mark, v_ids);
        end if;
        return query select unnest(v_ids);
        return;
    end if;

    v_ids := array(select nextval('deferred.__deferred_id_seq') from generate_series(1, v_n));
    v_queues := array(select distinct coalesce(j.queue, 'default')
                      from unnest($1, $3) as j(fn, queue));
    -- Where no queue named here has settings that matter now, none is looked up row by row.
    v_special := $17 is not null or exists (select from deferred.__deferred_function)
        or exists (select from deferred.__deferred_queue q
                   where q.name = any (v_queues) and coalesce(q.max_running, q.rate,
                       q.ttl_ms) is not null);
    insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at,
                                         limited, concurrency_key, concurrency, max_attempts,
        params_bytes)
    select j.id, coalesce(j.queue, 'default'), j.fn, coalesce(j.priority, 0), t.due,
           coalesce(t.due, v_now),
           coalesce(j.expires_at, case when j.expires_ms > 0 then v_now + j.expires_ms * interval '1 millisecond' end,
                    case when v_special then deferred.__queue_expiry(coalesce(j.queue, 'default'),
                        v_now) end),
           case when v_special then deferred.__is_limited(coalesce(j.queue, 'default'), j.fn,
               j.concurrency_key) else false end,
           deferred.__own_key(v_actor, j.concurrency_key), j.concurrency, j.max_attempts,
           deferred.__params_bytes(j.params)
    from unnest(v_ids, $1, $2, $3, $5, $6, $7, $8, $9, $12, $17, $18)
         as j(id, fn, params, queue, priority, delay_ms, run_at, expires_ms, expires_at,
              max_attempts, concurrency_key, concurrency)
    cross join lateral (select coalesce(nullif(j.run_at, '-infinity'),
                        case when j.delay_ms > 0
                                 and j.run_at is null then v_now + j.delay_ms * interval
                                     '1 millisecond' end) as due) t;
    if v_special then
        perform deferred.__limited_add(q) from unnest(v_queues) q
        where exists (
            select from unnest($1, $3, $17) as j(fn, queue, concurrency_key)
            where coalesce(j.queue, 'default') = q
              and deferred.__is_limited(q, j.fn, j.concurrency_key));
    end if;
    insert into deferred.__deferred (id, queue, fn, params, label, priority, run_at, expires_at,
                                     max_attempts,
        timeout_ms, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, created_at, created_by,
        concurrency_key, concurrency, tags,
        traceparent)
    select j.id, coalesce(j.queue, 'default'), j.fn, j.params,
           case when j.label is null and j.fn = 'send_mail' then deferred.__subject(j.params)
                else j.label end, coalesce(j.priority, 0),
           coalesce(nullif(j.run_at, '-infinity'),
                    case when j.delay_ms > 0
                             and j.run_at is null then v_now + j.delay_ms * interval '1 millisecond'
                                 end),
           coalesce(j.expires_at, case when j.expires_ms > 0 then v_now + j.expires_ms * interval '1 millisecond' end,
                    case when v_special then deferred.__queue_expiry(coalesce(j.queue, 'default'),
                        v_now) end),
           j.max_attempts, j.timeout_ms, j.backoff_floor_ms, j.backoff_ceiling_ms,
           j.backoff_exponent, v_now, v_actor,
           j.concurrency_key, j.concurrency, case when j.tags is not null
                                                      then deferred.__tags(j.tags) end,
           case when j.traceparent is not null then deferred.__traceparent(j.traceparent) end
    from unnest(v_ids, $1, $2, $3, $4, $5, $6, $7, $8, $9, $12, $13, $14, $15, $16, $17, $18, $19,
                $20)
         as j(id, fn, params, queue, label, priority, delay_ms, run_at, expires_ms, expires_at,
              max_attempts, timeout_ms,
              backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, concurrency_key, concurrency,
              tags, traceparent);
    perform deferred.__wake(t.queue)
    from (select distinct coalesce(j.queue, 'default') as queue
          from unnest($1, $3, $6, $7) as j(fn, queue, delay_ms, run_at)
          where coalesce(j.run_at < v_now + interval '1 minute',
                         coalesce(j.delay_ms, 0) < 60000)) t;
    if $21 is not null then
        perform deferred.__flow_add(v_flow, v_mark, v_ids);
    end if;
    return query select unnest(v_ids);
end
$$;
comment on function deferred.__enqueue_many is
    'stores many jobs in one statement; what deferred.defer_many() and the C library call';
grant execute on function deferred.__enqueue_many to deferred_producer;
