create or replace function deferred.__enqueue_opts(fn text, params json, opts json,
                                                   queue text) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    options constant text[] := deferred.__job_options();
    o jsonb;
begin
    if opts::text ~ E'\\\\u|[eE]\\+?[0-9]{4}' then  -- else the call would cost too much
        perform deferred.__json_check('opts', opts);
    end if;
    o := opts::jsonb;
    if jsonb_typeof(o) <> 'object' then
        raise exception using errcode = '22023',
            message = format('opts must be a JSON object, but a JSON %s was given',
                             jsonb_typeof(o)),
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
    if o ? 'flow' and (o->>'flow' ~ '^[1-9][0-9]{0,17}$') is not true then
        raise exception using errcode = '22023',
            message = format('option ''flow'' is not the number of a flow: ''%s''',
                             left(o->>'flow', 200)),
            hint = 'pass the number that deferred.flow_open() returned, or the id of a job of '
                   'the flow';
    end if;
    return deferred.__enqueue(fn, params, coalesce(queue, o->>'queue'), o->>'label',
        deferred.__number('priority', o->>'priority')::integer,
        deferred.__ms('delay', o->>'delay'), deferred.__moment('run_at', o->>'run_at'),
        deferred.__ms('expires', o->>'expires'), deferred.__moment('expires_at', o->>'expires_at'),
        o->>'key', o->>'on_duplicate',
        deferred.__number('max_attempts', o->>'max_attempts')::integer,
        deferred.__ms('timeout', o->>'timeout'),
        deferred.__ms('backoff_floor', o->>'backoff_floor'),
        deferred.__ms('backoff_ceiling', o->>'backoff_ceiling'),
        deferred.__number('backoff_exponent', o->>'backoff_exponent'), o->>'concurrency_key',
        deferred.__number('concurrency', o->>'concurrency')::integer, (o->'tags')::json,
        o->>'traceparent',
        case when o->>'wait_for' is not null
             then deferred.__wait_for(fn, o->'after', o->'wait_for') else (o->'after')::json end,
        (o->>'flow')::bigint, deferred.__key_until(o->>'key_until'));
end
$$;
comment on function deferred.__enqueue_opts is
    'stores one job with its options as deferred.defer() takes them';
