-- The options of a schedule's jobs, checked. Options of the schedule itself are left out.
create or replace function deferred.__schedule_opts(name text, opts json, overlap text) returns json
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    own    constant text[] := '{timezone,missed,late,overlap,jitter,queue}';
    -- A tick says when, and its schedule in which queue. It waits for no other job and is in no
    -- flow, and overlap stands in place of a key.
    jobs   constant text[] := '{label,priority,expires,max_attempts,timeout,backoff_floor,
                                backoff_ceiling,backoff_exponent,concurrency_key,concurrency,
                                tags}';
    o      jsonb := opts::jsonb - own;
begin
    if o - jobs <> '{}' then
        raise exception using errcode = '22023',
            message = format('option ''%s'' is unknown',
                             (select left(k, 200) from jsonb_object_keys(o - jobs) k limit 1)),
            hint = 'known options: ' || array_to_string(own || jobs, ', ');
    end if;
    perform deferred.__tags((o->'tags')::json);
    perform deferred.__opts_refuse(deferred.__opts_bad(
        label => o->>'label', expires_ms => deferred.__ms('expires', o->>'expires'),
        max_attempts => deferred.__number('max_attempts', o->>'max_attempts')::integer,
        timeout_ms => deferred.__ms('timeout', o->>'timeout'),
        backoff_floor_ms => deferred.__ms('backoff_floor', o->>'backoff_floor'),
        backoff_ceiling_ms => deferred.__ms('backoff_ceiling', o->>'backoff_ceiling'),
        backoff_exponent => deferred.__number('backoff_exponent', o->>'backoff_exponent'),
        priority => deferred.__number('priority', o->>'priority')::integer,
        concurrency_key => o->>'concurrency_key',
        concurrency => deferred.__number('concurrency', o->>'concurrency')::integer));
    if o ? 'concurrency_key' and overlap = 'queue' then
        raise exception using errcode = '22023',
            message = format('schedule ''%s'': option ''concurrency_key'' contradicts overlap '
                             '''queue''', name),
            hint = 'overlap ''queue'' has a key of its own; use overlap ''allow'' with your key';
    end if;
    return o::json;
end
$$;
comment on function deferred.__schedule_opts is 'options of the jobs of a schedule';
