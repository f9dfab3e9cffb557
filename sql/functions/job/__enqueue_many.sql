-- Many jobs in one statement. Arrays run in step. One shorter than fn is filled up with NULL, so an
-- option that no job uses is passed as NULL. Ids come back in the order of the input.
create or replace function deferred.__enqueue_many(
    fn text[], params json[], queue text[], label text[], priority integer[], delay_ms bigint[],
    run_at timestamptz[], expires_ms bigint[], expires_at timestamptz[], key text[],
    on_duplicate text[], max_attempts integer[], timeout_ms bigint[], backoff_floor_ms bigint[],
    backoff_ceiling_ms bigint[], backoff_exponent double precision[],
    concurrency_key text[] default null, concurrency integer[] default null,
    tags json[] default null, traceparent text[] default null, flow bigint default null,
    key_until_ms bigint[] default null)
returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now   timestamptz := clock_timestamp();
    v_actor name := deferred.__actor();
    v_ids   bigint[];
    v_flow  bigint;
    v_mark  bigint;
    v_limited text[] collate "C" := array(select f.name from deferred.__deferred_function f);
    v_queues  text[] collate "C";
    v         record;
begin
    if $21 is not null then
        select j.flow, j.mark into v_flow, v_mark from deferred.__flow_join($21) j;
    end if;
    v_queues := case when $3 is null then '{default}' else array(
        select distinct coalesce(q, 'default') from (select unnest($1), unnest($3) as q) j) end;
    v := deferred.__enqueue_many_check(v_queues, v_limited, v_now, $1, $2, $3, $4, $5, $6, $7, $8,
        $9, $10, $11, $12, $13, $14, $15, $16, $17, $18);
    -- A job with a key may meet another job, and a limited role is checked job by job. Both take
    -- the way of the single job. So do invalid jobs, and jobs too large for one of the queues.
    if v.single or $22 is not null or exists (select from deferred.__deferred_grant g
                                              where g.role in (v_actor, session_user)) then
        v_ids := array(
            select deferred.__enqueue(j.fn, j.params, j.queue, j.label, j.priority, j.delay_ms,
                       j.run_at, j.expires_ms, j.expires_at, j.key, j.on_duplicate, j.max_attempts,
                       j.timeout_ms, j.floor_ms, j.ceiling_ms, j.exponent, j.concurrency_key,
                       j.concurrency, j.tags, j.w3c, key_until_ms => j.key_until_ms)
            from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
                     $18, $19, $20, $22) as j(fn, params, queue, label, priority, delay_ms, run_at,
                     expires_ms, expires_at, key, on_duplicate, max_attempts, timeout_ms, floor_ms,
                     ceiling_ms, exponent, concurrency_key, concurrency, tags, w3c, key_until_ms));
    else
        v_ids := array(select nextval('deferred.__deferred_id_seq') from (select unnest($1)) j);
        with hot as (
            insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at,
                expires_at, limited, concurrency_key, concurrency, max_attempts, params_bytes)
            select j.id, coalesce(j.queue, 'default'), j.fn, coalesce(j.priority, 0), j.due,
                   coalesce(j.due, v_now),
                   coalesce(j.expires_at, v_now + coalesce(nullif(j.expires_ms, 0), q.ttl_ms)
                                                  * interval '1 millisecond'),
                   j.concurrency_key is not null or coalesce(q.max_running, q.rate) is not null
                       or j.fn = any (v_limited),
                   deferred.__own_key(v_actor, j.concurrency_key), j.concurrency, j.max_attempts,
                   deferred.__params_bytes(j.params)
            from (select j.*, case when j.run_at is not null then nullif(j.run_at, '-infinity')
                                   else v_now + nullif(j.delay_ms, 0) * interval '1 millisecond' end
                                  as due
                  from (select unnest(v_ids) as id, unnest($1) as fn, unnest($2) as params,
                               unnest($3) as queue, unnest($5) as priority, unnest($6) as delay_ms,
                               unnest($7) as run_at, unnest($8) as expires_ms,
                               unnest($9) as expires_at, unnest($12) as max_attempts,
                               unnest($17) as concurrency_key, unnest($18) as concurrency) j) j
            left join deferred.__deferred_queue q on q.name = coalesce(j.queue, 'default'))
        insert into deferred.__deferred (id, queue, fn, params, label, priority, run_at,
            expires_at, max_attempts, timeout_ms, backoff_floor_ms, backoff_ceiling_ms,
            backoff_exponent, created_at, created_by, concurrency_key, concurrency, tags,
            traceparent)
        select j.id, coalesce(j.queue, 'default'), j.fn, j.params,
               case when j.label is null and j.fn = 'send_mail'
                    then deferred.__subject(j.params) else j.label end,
               coalesce(j.priority, 0),
               case when j.run_at is not null then nullif(j.run_at, '-infinity')
                    else v_now + nullif(j.delay_ms, 0) * interval '1 millisecond' end,
               coalesce(j.expires_at, v_now + coalesce(nullif(j.expires_ms, 0), q.ttl_ms)
                                              * interval '1 millisecond'),
               j.max_attempts, j.timeout_ms, j.floor_ms, j.ceiling_ms, j.exponent, v_now, v_actor,
               j.concurrency_key, j.concurrency, deferred.__tags(j.tags),
               deferred.__traceparent(j.traceparent)
        from (select unnest(v_ids) as id, unnest($1) as fn, unnest($2) as params,
                     unnest($3) as queue, unnest($4) as label, unnest($5) as priority,
                     unnest($6) as delay_ms, unnest($7) as run_at, unnest($8) as expires_ms,
                     unnest($9) as expires_at, unnest($12) as max_attempts,
                     unnest($13) as timeout_ms, unnest($14) as floor_ms, unnest($15) as ceiling_ms,
                     unnest($16) as exponent, unnest($17) as concurrency_key,
                     unnest($18) as concurrency, unnest($19) as tags,
                     unnest($20) as traceparent) j
        left join deferred.__deferred_queue q on q.name = coalesce(j.queue, 'default');
        perform deferred.__limited_add(n) from unnest(v.limited) n;
        if v.soon then perform deferred.__wake(n) from unnest(v_queues) n; end if;
    end if;
    if v_flow is not null then perform deferred.__flow_add(v_flow, v_mark, v_ids); end if;
    return query select unnest(v_ids);
end
$$;
comment on function deferred.__enqueue_many is
    'stores many jobs in one statement; what deferred.defer_many() and the C library call';
grant execute on function deferred.__enqueue_many to deferred_producer;
