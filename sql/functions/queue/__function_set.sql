create or replace function deferred.__function_set(name text, settings json) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_new deferred.__deferred_function;
    v_broken boolean;
begin
    perform deferred.__name_check('function', $1);
    perform deferred.__settings_check(format('function ''%s''', $1), settings,
                                      '{max_running,rate,burst,on_dead}');
    if settings::jsonb ? 'on_dead' then
        perform deferred.__on_dead_set('function', $1, settings->>'on_dead');
        if not settings::jsonb ?| array['max_running', 'rate', 'burst'] then
            return;
        end if;
    end if;
    select * into v_new from deferred.__deferred_function f where f.name = $1 for update;
    v_broken := found and v_new.broken_at is not null;
    if v_broken then  -- what is changed comes back when its pause is over
        v_new.max_running := v_new.own_max_running; v_new.rate := v_new.own_rate;
        v_new.burst := v_new.own_burst;
    end if;
    v_new := json_populate_record(v_new, settings);
    if v_new.burst is not null and v_new.rate is null then
        raise exception using errcode = '22023',
            message = format('function ''%s'' has a burst of %s but no rate', $1, v_new.burst),
            hint = 'set the rate too, or unset the burst';
    end if;
    if v_broken then
        update deferred.__deferred_function f
        set own_max_running = v_new.max_running, own_rate = v_new.rate, own_burst = v_new.burst
        where f.name = $1;
        return;
    end if;
    if coalesce(v_new.max_running, v_new.rate) is null then
        delete from deferred.__deferred_function f where f.name = $1;
        return;
    end if;
    insert into deferred.__deferred_function (name, max_running, rate, burst)
    values ($1, v_new.max_running, v_new.rate, v_new.burst)
    on conflict (name) do update set max_running = excluded.max_running, rate = excluded.rate,
    burst = excluded.burst;
end
$$;
comment on function deferred.__function_set is
    'changes the limits of a function; without any it has none. Call deferred.__mark() until it '
    'is done';
grant execute on function deferred.__function_set to deferred_worker;
