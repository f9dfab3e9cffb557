-- Checks what deferred.update() is to change, each member as deferred.defer() checks it. Returns
-- the columns of __deferred that change, except params, with their new values. A job that is to
-- start at once has a run_at of -infinity.
create or replace function deferred.__update_check(changes json) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    c_known constant text[] := '{queue,label,priority,delay,run_at,max_attempts,timeout,params}';
    c_reset constant text[] := '{label,max_attempts,timeout}';
    v_label        text;
    v_priority     integer;
    v_max_attempts integer;
    v_delay_ms     bigint;
    v_timeout_ms   bigint;
    v_run_at       timestamptz;
    v_names        text[];
    v_bad          text;
    o              jsonb;
begin
    if json_typeof(changes) is distinct from 'object' then
        raise exception using errcode = '22023',
            message = format('changes must be a JSON object, but a JSON %s was given',
                             coalesce(json_typeof(changes), 'null')),
            hint = 'for example {"priority": 5, "delay": "1h"}';
    end if;
    begin
        select array_agg(e.key), jsonb_object_agg(e.key, e.value::jsonb)
                                     filter (where e.key <> 'params')
        into v_names, o from json_each(changes) e;
    exception when untranslatable_character or invalid_text_representation
        or numeric_value_out_of_range then
        perform deferred.__json_check('changes', changes);
        raise;
    end;
    if v_names is null then
        raise exception using errcode = '22023', message = 'changes name nothing to change',
            hint = 'known changes: ' || array_to_string(c_known, ', ');
    end if;
    v_bad := (select left(n, 200) from unnest(v_names) n where n <> all (c_known) limit 1);
    if v_bad is not null then
        raise exception using errcode = '22023',
            message = format('change ''%s'' is unknown', v_bad),
            hint = 'known changes: ' || array_to_string(c_known, ', ');
    end if;
    v_bad := (select e.key from jsonb_each(o) e
              where e.value = 'null' and e.key <> all (c_reset) limit 1);
    if v_bad is not null then
        raise exception using errcode = '22004', message = format('option ''%s'' is null', v_bad),
            hint = 'leave out what is to stay as it is; only label, max_attempts and timeout can '
                   'be null, which is their default';
    end if;
    v_label := o->>'label';
    v_priority := deferred.__number('priority', o->>'priority')::integer;
    v_max_attempts := deferred.__number('max_attempts', o->>'max_attempts')::integer;
    v_delay_ms := deferred.__ms('delay', o->>'delay');
    v_timeout_ms := deferred.__ms('timeout', o->>'timeout');
    v_run_at := deferred.__moment('run_at', o->>'run_at');
    perform deferred.__opts_refuse(deferred.__opts_bad(
        label => v_label, run_at => v_run_at, delay_ms => v_delay_ms,
        max_attempts => v_max_attempts, timeout_ms => v_timeout_ms, priority => v_priority));
    if o ? 'queue' then perform deferred.__name_check('queue', o->>'queue'); end if;
    if v_run_at is null and v_delay_ms is not null then
        v_run_at := clock_timestamp() + v_delay_ms * interval '1 millisecond';
    end if;
    if v_run_at <= clock_timestamp() then v_run_at := '-infinity'; end if;
    return jsonb_strip_nulls(jsonb_build_object('queue', o->'queue', 'priority', v_priority,
                                                'run_at', v_run_at))
        || case when o ? 'label' then jsonb_build_object('label', v_label) else '{}' end
        || case when o ? 'max_attempts' then jsonb_build_object('max_attempts', v_max_attempts)
                else '{}' end
        || case when o ? 'timeout' then jsonb_build_object('timeout_ms', v_timeout_ms)
                else '{}' end;
end
$$;
comment on function deferred.__update_check(json) is
    'part of deferred.update(): refuses wrong changes, and returns the columns that change';
grant execute on function deferred.__update_check(json) to deferred_producer;
