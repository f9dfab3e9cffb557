-- A job of one's own that has the key already is the answer as ever, waits for nobody and stays in
-- the flow where it is, if any; so is NULL of one that was dropped.
create or replace function deferred.__enqueue_after(fn text, params json, queue text, label text,
                                                    priority integer, delay_ms bigint,
    run_at timestamptz, expires_ms bigint, expires_at timestamptz, key text, on_duplicate text,
    max_attempts integer, timeout_ms bigint,
    backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision,
    concurrency_key text, concurrency integer,
    tags json, after json, traceparent text default null, flow bigint default null) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_flow bigint;
    v_mark bigint;
    v_id   bigint;
begin
    if flow is null then
        v_mark := nextval('deferred.__deferred_id_seq');
    else
        select j.flow, j.mark into v_flow, v_mark from deferred.__flow_join(flow) j;
    end if;
    v_id := deferred.__enqueue(fn, params, queue, label, priority, delay_ms, run_at, expires_ms,
                               expires_at, key, on_duplicate,
        max_attempts, timeout_ms, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent,
        concurrency_key, concurrency, tags, traceparent);
    if v_id > v_mark and exists (select from deferred.__deferred_hot h
                                 where h.id = v_id and h.xid = pg_current_xact_id()) then
        if fn is null then
            raise exception using errcode = '22023',
                message = 'options ''after'' and ''flow'' are not allowed for a message',
                hint = 'name a function, or leave both options out';
        end if;
        if after is not null then
            perform deferred.__after(v_id, after::jsonb);
        end if;
        if flow is not null then
            perform deferred.__flow_add(v_flow, v_mark, array[v_id]);
        end if;
    end if;
    return v_id;
end
$$;
comment on function deferred.__enqueue_after is
    'stores one job that waits for others, or is added to a flow';
grant execute on function deferred.__enqueue_after to deferred_producer;
