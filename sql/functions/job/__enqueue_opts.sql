create or replace function deferred.__enqueue_opts(fn text, params json, opts json, queue text) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    options constant text[] := deferred.__job_options();
    o   jsonb := opts::jsonb;
    bad record;
begin
    if jsonb_typeof(o) <> 'object' then
        raise exception using errcode = '22023', 
            message = format('opts must be a JSON object, but a JSON %s was given', jsonb_typeof(o)),
            hint = 'for example {"queue": "mail", "delay": "5s"}';
    end if;
    if queue is not null and o ? 'queue' then
        raise exception using errcode = '22023',
            message = format('option ''queue'' and the argument queue ''%s'' are both given',
                             left(queue, 200)),
            hint = 'name the queue once';
    end if;
    if o - 'queue' = '{}' then
        return deferred.defer(fn, params, queue => coalesce(queue, o->>'queue'));
    end if;
    if o - options <> '{}' then
        raise exception using errcode = '22023',
            message = format('option ''%s'' is unknown',
                             (select left(k, 200) from jsonb_object_keys(o - options) k limit 1)),
            hint = 'known options: ' || array_to_string(options, ', ');
    end if;
    -- Checked by pattern: an exception block would cost every call a subtransaction.
    if (o->>'priority' !~ '^-?[0-9]{1,9}$' or o->>'max_attempts' !~ '^-?[0-9]{1,9}$' or o->>'concurrency' !~ '^-?[0-9]{1,9}$'
        or o->>'backoff_exponent' !~ '^[0-9]{1,3}([.][0-9]{1,9})?$') is true then
        select k, v into bad
        from jsonb_each_text(o) as e(k, v)
        where (k in ('priority', 'max_attempts', 'concurrency') and v !~ '^-?[0-9]{1,9}$')
           or (k = 'backoff_exponent' and v !~ '^[0-9]{1,3}([.][0-9]{1,9})?$')
        limit 1;
        raise exception using errcode = '22023',
            message = format('option ''%s'' is not a number: ''%s''', bad.k, left(bad.v, 200)),
            hint = 'write a number without quotes, such as 3';
    end if;
    if o ? 'flow' and (o->>'flow' ~ '^[1-9][0-9]{0,17}$') is not true then
        raise exception using errcode = '22023',
            message = format('option ''flow'' is not the number of a flow: ''%s''',
                             left(o->>'flow', 200)),
            hint = 'pass the number that deferred.flow_open() returned, or the id of a job of '
                   'the flow';
    end if;
    if o ? 'after' or o ? 'flow' then
        return deferred.__enqueue_after(fn, params, coalesce(queue, o->>'queue'), o->>'label', (o->>'priority')::integer,
            deferred.__ms('delay', o->>'delay'), (o->>'run_at')::timestamptz,
            deferred.__ms('expires', o->>'expires'), (o->>'expires_at')::timestamptz,
            o->>'key', o->>'on_duplicate', (o->>'max_attempts')::integer, deferred.__ms('timeout', o->>'timeout'),
            deferred.__ms('backoff_floor', o->>'backoff_floor'), deferred.__ms('backoff_ceiling', o->>'backoff_ceiling'),
            (o->>'backoff_exponent')::double precision, o->>'concurrency_key', (o->>'concurrency')::integer,
            (o->'tags')::json, (o->'after')::json, o->>'traceparent', (o->>'flow')::bigint);
    end if;
    return deferred.__enqueue(fn, params, coalesce(queue, o->>'queue'), o->>'label', (o->>'priority')::integer,
        deferred.__ms('delay', o->>'delay'), (o->>'run_at')::timestamptz,
        deferred.__ms('expires', o->>'expires'), (o->>'expires_at')::timestamptz,
        o->>'key', o->>'on_duplicate', (o->>'max_attempts')::integer, deferred.__ms('timeout', o->>'timeout'),
        deferred.__ms('backoff_floor', o->>'backoff_floor'), deferred.__ms('backoff_ceiling', o->>'backoff_ceiling'),
        (o->>'backoff_exponent')::double precision, o->>'concurrency_key', (o->>'concurrency')::integer,
        (o->'tags')::json, o->>'traceparent');
end
$$;
comment on function deferred.__enqueue_opts is 'stores one job with its options as deferred.defer() takes them';
