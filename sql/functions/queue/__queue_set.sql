-- The settings are given in the units of the columns; one that is null goes back to its default. A
-- name that ends in '*' is a pattern.
create or replace function deferred.__queue_set(name text, settings json,
                                                add boolean default false) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_old deferred.__deferred_queue;
    v_new deferred.__deferred_queue;
    v_until timestamptz;
    v_was text := deferred.__patience('5 seconds');
    v_setting text;
begin
    if json_typeof(settings) is distinct from 'object' then
        raise exception using errcode = '22023',
            message = format('settings must be a JSON object, but a JSON %s was given',
                             coalesce(json_typeof(settings), 'null')),
            hint = 'for example {"max_running": 5}';
    end if;
    if right($1, 1) = '*' then
        perform deferred.__pattern_set($1, settings);
        return;
    end if;
    perform deferred.__settings_check(format('queue ''%s''', left($1, 200)), settings,
        '{paused,paused_until,params_max_bytes,visibility_timeout_ms,ttl_ms,max_attempts,'
        'backoff_floor_ms,backoff_ceiling_ms,backoff_exponent,max_running,rate,burst,max_length,'
        'on_full,fn,metadata,weight,max_dequeue,on_dead,age_ms,key_rate,key_burst}');
    if $3 then
        perform deferred.__name_check('queue', $1);
        insert into deferred.__deferred_queue (name) values ($1) on conflict do nothing;
        update deferred.__deferred_queue q set removed_at = null, created_by = null
        where q.name = $1 and q.removed_at is not null;
    end if;
    select * into v_old from deferred.__deferred_queue q
    where q.name = $1 and q.removed_at is null for update;
    if not found then
        raise exception using errcode = '42704',
            message = format('queue ''%s'' does not exist', left($1, 200)),
            hint = 'the first job deferred to a queue adds it, or: deferred queue set NAME '
                   '--create';
    end if;
    v_old.paused := deferred.__is_paused(v_old);
    v_until := deferred.__moment('paused_until', settings->>'paused_until');
    v_new := json_populate_record(v_old, settings);
    v_new.paused := coalesce(v_new.paused, false) or v_until is not null;
    if not v_new.paused then
        v_new.paused_at := null;
        v_new.paused_by := null;
    elsif not v_old.paused then
        v_new.paused_at := now();
        v_new.paused_by := deferred.__actor();
    end if;
    if not v_new.paused or settings::jsonb ?| '{paused,paused_until}' then
        v_new.paused_until := v_until;
    end if;
    v_new.params_max_bytes := coalesce(v_new.params_max_bytes, 1048576);
    v_new.on_full := coalesce(v_new.on_full, 'error');
    v_new.weight := coalesce(v_new.weight, 1);
    perform deferred.__queue_check(v_new);
    if coalesce(v_new.max_running, v_new.rate) is not null then
        perform deferred.__limited_add($1);
    end if;
    update deferred.__deferred_queue q
    set (paused, paused_at, paused_by, paused_until, params_max_bytes, visibility_timeout_ms,
         ttl_ms, max_attempts, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, max_running,
         rate, burst, max_length, on_full, fn, metadata, weight, max_dequeue, age_ms, key_rate,
         key_burst)
      = (v_new.paused, v_new.paused_at, v_new.paused_by, v_new.paused_until,
         v_new.params_max_bytes, v_new.visibility_timeout_ms, v_new.ttl_ms, v_new.max_attempts,
         v_new.backoff_floor_ms, v_new.backoff_ceiling_ms, v_new.backoff_exponent,
         v_new.max_running, v_new.rate, v_new.burst, v_new.max_length, v_new.on_full, v_new.fn,
         v_new.metadata, v_new.weight, v_new.max_dequeue, v_new.age_ms,
         v_new.key_rate, v_new.key_burst)
    where q.name = $1;
    if settings::jsonb ? 'on_dead' then
        perform deferred.__on_dead_set('queue', $1, settings->>'on_dead');
    end if;
    perform set_config('lock_timeout', v_was, true);
exception
    when lock_not_available then
        if right($1, 1) = '*' then raise; end if;  -- with the words of deferred.__pattern_set()
        perform deferred.__locked('queue', $1);
    when check_violation then
        get stacked diagnostics v_setting = constraint_name;
        v_setting := substring(v_setting from '^__deferred_queue_(.*)_check$');
        raise exception using errcode = '22003',
            message = format('queue ''%s'': setting ''%s'' has the invalid value ''%s''', $1,
                             v_setting, left(settings->>v_setting, 200)),
            hint = 'deferred-queue(1) lists the settings with their ranges';
end
$$;
comment on function deferred.__queue_set is
    'changes settings of a queue; call deferred.__mark() until it is done, where a limit changed';
grant execute on function deferred.__queue_set to deferred_worker;
