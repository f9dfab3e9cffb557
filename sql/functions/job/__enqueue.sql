-- Stores one job. Each expression, and each function named in a statement, costs a microsecond even
-- if it is not reached. So the usual call passes all checks in two, and rare cases are elsewhere.
create or replace function deferred.__enqueue(
    fn text, params json, queue text, label text, priority integer, delay_ms bigint,
    run_at timestamptz, expires_ms bigint, expires_at timestamptz, key text, on_duplicate text,
    max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint, backoff_ceiling_ms bigint,
    backoff_exponent double precision, concurrency_key text default null,
    concurrency integer default null, tags json default null, traceparent text default null,
    after json default null, flow bigint default null, key_until_ms bigint default null)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_queue   text collate "C" := coalesce($3, 'default');
    v_fn      text collate "C" := $1;
    v_now     timestamptz := clock_timestamp();
    v_actor   name := deferred.__actor();
    v_due     timestamptz;
    v_expires timestamptz;
    v_label   text;  -- of a mail that was given none
    v_tags    text[];
    v_bad     text[];  -- what is wrong with the options
    v_key     text collate "C";
    v_lane    text collate "C";
    v_flow    bigint;
    v_mark    bigint;  -- below the ids of the jobs added to the flow
    q         deferred.__deferred_queue;  -- NULL unless the queue has settings
    v_simple  boolean;
    v_limited boolean;
    v_id      bigint;
    v_other   bigint;
begin
    if (length(v_fn) <= 127 and v_fn ~ '^[A-Za-z_][A-Za-z0-9_.]*$' and v_fn <> 'send_mail'
        and $2 is not null and num_nonnulls($4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
                                            $16, $17, $18, $19, $20, $22, $23) = 0) is not true then
        if (length(v_fn) <= 127 and v_fn ~ '^[A-Za-z_][A-Za-z0-9_.]*$'
            and $2 is not null) is not true then
            v_fn := deferred.__enqueue_fn($1, $2, $3, $17,
                case when $21 is not null then 'after' when $22 is not null then 'flow' end);
        end if;
        v_bad := deferred.__opts_bad($4, $10, $12, $13, $14, $15, $16, $7, $9, $6, $8, $5, $11,
                                     $17, $18, $23);
        if v_bad is not null then perform deferred.__opts_refuse(v_bad); end if;
        if v_fn = 'send_mail' then v_label := deferred.__subject($2); end if;
        v_tags := deferred.__tags($19);
        if $20 is not null then perform deferred.__traceparent($20); end if;
        v_key := deferred.__own_key(v_actor, $10);
        v_lane := deferred.__own_key(v_actor, $17);
        v_due := case when $7 is not null then nullif($7, '-infinity')
                      else v_now + nullif($6, 0) * interval '1 millisecond' end;
        v_expires := coalesce($9, v_now + nullif($8, 0) * interval '1 millisecond');
        if $22 is not null then
            select j.flow, j.mark into v_flow, v_mark from deferred.__flow_join($22) j;
        end if;
    end if;
    select q.simple and $17 is null and octet_length($2::text) <= 512
           and pg_sequence_last_value('deferred.__deferred_unrestricted') = 1
    into v_simple from deferred.__deferred_queue q where q.name = v_queue;
    if v_simple is not true then
        q := deferred.__enqueue_queue(v_queue, v_fn, $2, array[v_actor, session_user]);
        v_limited := $17 is not null or coalesce(q.max_running, q.rate) is not null
            or exists (select from deferred.__deferred_function f where f.name = v_fn);
        if v_limited then perform deferred.__limited_add(v_queue); end if;
        v_expires := coalesce(v_expires, v_now + q.ttl_ms * interval '1 millisecond');
        if q.max_length is not null and deferred.__queue_full(q, v_key) then return null; end if;
    end if;
    v_id := nextval('deferred.__deferred_id_seq');
    if $10 is null then
        insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at,
            expires_at, limited, bounded, concurrency_key, concurrency, max_attempts, params_bytes)
        values (v_id, v_queue, v_fn, coalesce($5, 0), v_due, coalesce(v_due, v_now), v_expires,
            coalesce(v_limited, false), q.max_length is not null, v_lane, $18, $12,
            deferred.__params_bytes($2));
    else
        v_other := deferred.__enqueue_key(v_id, v_queue, v_fn, coalesce($5, 0), v_due,
            coalesce(v_due, v_now), v_expires, v_key, coalesce(v_limited, false),
            q.max_length is not null, v_lane, $18, $12, deferred.__params_bytes($2), $10, $11, $23,
            $2, coalesce($4, v_label), v_now);
        if v_other is not null then return v_other; end if;
    end if;
    insert into deferred.__deferred (id, queue, fn, params, label, key, priority, run_at,
        expires_at, max_attempts, timeout_ms, backoff_floor_ms, backoff_ceiling_ms,
        backoff_exponent, created_at, created_by, concurrency_key, concurrency, tags, traceparent,
        key_until_ms)
    values (v_id, v_queue, v_fn, $2, coalesce($4, v_label), $10, coalesce($5, 0), v_due, v_expires,
        $12, $13, $14, $15, $16, v_now, v_actor, $17, $18, v_tags, $20, $23);
    if $21 is not null then perform deferred.__after(v_id, $21::jsonb); end if;
    if v_flow is not null then perform deferred.__flow_add(v_flow, v_mark, array[v_id]); end if;
    -- For what is due later, the look that a service takes every half minute is soon enough.
    if (v_due is null or v_due < v_now + interval '1 minute') and not deferred.__nobody_waits() then
        perform deferred.__wake(v_queue);
    end if;
    return v_id;
end
$$;
comment on function deferred.__enqueue is
    'stores one job, whatever its options; what deferred.defer() and the C library call';
grant execute on function deferred.__enqueue to deferred_producer;
