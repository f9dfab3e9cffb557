-- The settings are given as to deferred.__queue_set(); the pattern does not give one that is null.
-- Queues that follow the pattern, and those that could, take the settings at once.
create or replace function deferred.__pattern_set(pattern text, settings json) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_settings jsonb;
    v_new      deferred.__deferred_queue;
    v_was      text := deferred.__patience('5 seconds');
begin
    if $1 !~ '^([A-Za-z0-9_][A-Za-z0-9_.-]{0,86})?[*]$' then
        raise exception using errcode = '22023',
            message = format('pattern ''%s'' is invalid', left($1, 200)),
            hint = 'a pattern is the beginning of a queue name and one ''*'' at its end, such as '
                   'tenant.*';
    end if;
    perform deferred.__settings_check(format('pattern ''%s''', $1), $2,
        array(select k from jsonb_object_keys(deferred.__queue_plain()) k order by k));
    insert into deferred.__deferred_pattern as p (pattern, settings)
    values ($1, jsonb_strip_nulls($2::jsonb))
    on conflict (pattern) do update set settings = jsonb_strip_nulls(p.settings || $2::jsonb)
    returning p.settings into v_settings;
    v_new := jsonb_populate_record(null::deferred.__deferred_queue,
                                   deferred.__queue_plain() || v_settings);
    v_new.name := $1;
    perform deferred.__queue_check(v_new);
    if v_new.on_full not in ('error', 'drop') then
        raise exception using errcode = '22003',
            message = format('pattern ''%s'': setting ''on_full'' has the invalid value ''%s''',
                             $1, left(v_new.on_full, 200)),
            hint = 'use error or drop';
    end if;
    update deferred.__deferred_pattern p  -- with the types of the columns
    set settings = (select coalesce(jsonb_object_agg(k, to_jsonb(v_new)->k), '{}')
                    from jsonb_object_keys(v_settings) k)
    where p.pattern = $1;
    perform deferred.__wake(f.name) from deferred.__pattern_take($1) f(name);
    perform set_config('lock_timeout', v_was, true);
exception when lock_not_available then
    raise exception using errcode = '55P03',
        message = format('a queue that matches pattern ''%s'' is locked by another transaction',
                         $1),
        hint = 'try again when that transaction has ended';
end
$$;
comment on function deferred.__pattern_set is
    'part of deferred.__queue_set(): changes settings that queues take from a pattern';
