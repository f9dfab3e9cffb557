-- Many jobs in one statement. Arrays run in step. One shorter than fn is filled up with NULL, so an
-- option that no job uses is passed as NULL. Ids come back in the order of the input.
create or replace function deferred.__enqueue_many(
    fn text[], params json[], queue text[], label text[], priority integer[], delay_ms bigint[],
    run_at timestamptz[], expires_ms bigint[], expires_at timestamptz[], key text[],
    on_duplicate text[], max_attempts integer[], timeout_ms bigint[], backoff_floor_ms bigint[],
    backoff_ceiling_ms bigint[], backoff_exponent double precision[],
    concurrency_key text[] default null, concurrency integer[] default null,
    tags json[] default null, traceparent text[] default null, flow bigint default null)
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
    v_queues  record;
begin
    if $21 is not null then
        select j.flow, j.mark into v_flow, v_mark from deferred.__flow_join($21) j;
    end if;
    -- A job with a key may meet another job, and a limited role is checked job by job. Both take
    -- the way of the single job. So does an invalid job, which then reports itself.
    if exists (select from deferred.__deferred_grant g where g.role in (v_actor, session_user))
       or exists (
           select from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
                   $17, $18) as j(fn, params, queue, label, priority, delay_ms, run_at, expires_ms,
                   expires_at, key, on_duplicate, max_attempts, timeout_ms, floor_ms, ceiling_ms,
                   exponent, concurrency_key, concurrency)
           left join deferred.__deferred_queue q on q.name = coalesce(j.queue, 'default')
           where num_nonnulls(j.key, q.max_length, q.removed_at) > 0
              or num_nulls(q.name, j.fn, j.params) > 0
              or length(j.fn) > 127 or j.fn !~ '^[A-Za-z_][A-Za-z0-9_.]*$'
              or not deferred.__opts_ok(j.label, null, j.max_attempts, j.timeout_ms, j.floor_ms,
                     j.ceiling_ms, j.exponent, j.run_at, j.expires_at, j.delay_ms, j.expires_ms,
                     j.priority, j.on_duplicate, j.concurrency_key, j.concurrency)
              or octet_length(j.params::text) > q.params_max_bytes
              or (octet_length(j.params::text) > 512 and not deferred.__depth_ok(j.params))) then
        v_ids := array(
            select deferred.__enqueue(j.fn, j.params, j.queue, j.label, j.priority, j.delay_ms,
                       j.run_at, j.expires_ms, j.expires_at, j.key, j.on_duplicate, j.max_attempts,
                       j.timeout_ms, j.floor_ms, j.ceiling_ms, j.exponent, j.concurrency_key,
                       j.concurrency, j.tags, j.traceparent)
            from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
                     $18, $19, $20) as j(fn, params, queue, label, priority, delay_ms, run_at,
                     expires_ms, expires_at, key, on_duplicate, max_attempts, timeout_ms, floor_ms,
                     ceiling_ms, exponent, concurrency_key, concurrency, tags, traceparent));
    else
        v_ids := array(select nextval('deferred.__deferred_id_seq') from unnest($1));
        with job as materialized (
            select j.*, coalesce(j.queue, 'default') as name,
                   case when j.run_at is not null then nullif(j.run_at, '-infinity')
                        else v_now + nullif(j.delay_ms, 0) * interval '1 millisecond' end as due,
                   coalesce(j.expires_at, v_now + coalesce(nullif(j.expires_ms, 0), q.ttl_ms)
                                                  * interval '1 millisecond') as expires,
                   j.concurrency_key is not null or coalesce(q.max_running, q.rate) is not null
                       or j.fn = any (v_limited) as limited
            from unnest(v_ids, $1, $2, $3, $4, $5, $6, $7, $8, $9, $12, $13, $14, $15, $16, $17,
                     $18, $19, $20) as j(id, fn, params, queue, label, priority, delay_ms, run_at,
                     expires_ms, expires_at, max_attempts, timeout_ms, floor_ms, ceiling_ms,
                     exponent, concurrency_key, concurrency, tags, traceparent)
            left join deferred.__deferred_queue q on q.name = coalesce(j.queue, 'default')),
        hot as (
            insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at,
                expires_at, limited, concurrency_key, concurrency, max_attempts, params_bytes)
            select j.id, j.name, j.fn, coalesce(j.priority, 0), j.due, coalesce(j.due, v_now),
                   j.expires, j.limited, deferred.__own_key(v_actor, j.concurrency_key),
                   j.concurrency, j.max_attempts, deferred.__params_bytes(j.params)
            from job j),
        call as (
            insert into deferred.__deferred (id, queue, fn, params, label, priority, run_at,
                expires_at, max_attempts, timeout_ms, backoff_floor_ms, backoff_ceiling_ms,
                backoff_exponent, created_at, created_by, concurrency_key, concurrency, tags,
                traceparent)
            select j.id, j.name, j.fn, j.params,
                   case when j.label is null and j.fn = 'send_mail'
                        then deferred.__subject(j.params) else j.label end,
                   coalesce(j.priority, 0), j.due, j.expires, j.max_attempts, j.timeout_ms,
                   j.floor_ms, j.ceiling_ms, j.exponent, v_now, v_actor, j.concurrency_key,
                   j.concurrency, deferred.__tags(j.tags), deferred.__traceparent(j.traceparent)
            from job j)
        select array(select distinct j.name from job j where j.limited) as limited,
               array(select distinct j.name from job j
                     where j.due is null or j.due < v_now + interval '1 minute') as soon
        into v_queues;
        perform deferred.__limited_add(n) from unnest(v_queues.limited) n;
        perform deferred.__wake(n) from unnest(v_queues.soon) n;
    end if;
    if v_flow is not null then perform deferred.__flow_add(v_flow, v_mark, v_ids); end if;
    return query select unnest(v_ids);
end
$$;
comment on function deferred.__enqueue_many is
    'stores many jobs in one statement; what deferred.defer_many() and the C library call';
grant execute on function deferred.__enqueue_many to deferred_producer;
