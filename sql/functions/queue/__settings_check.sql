-- Refuses settings that are not among those known, and numbers out of range. NULL: the default.
create or replace function deferred.__settings_check(whose text, settings json,
                                                     known text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_whole  constant text := '^-?[0-9]+$';
    v_number constant text := '^-?[0-9]+([.][0-9]+)?([eE][-+]?[0-9]{1,3})?$';
    v_bad    record;
begin
    select k as name into v_bad from json_object_keys(settings) k where k <> all (known) limit 1;
    if found then
        raise exception using errcode = '22023',
            message = format('setting ''%s'' of %s is unknown', left(v_bad.name, 200), whose),
            hint = 'known settings: ' || array_to_string(known, ', ');
    end if;
    select s.name, s.value, r.whole, r.low, r.high, n.is_number into v_bad
    from json_each_text(settings) s(name, value)
    join (values ('max_running', true, 1, 2147483647), ('rate', false, 1e-7, 1e6),
                 ('burst', true, 1, 1000000), ('key_rate', false, 1e-7, 1e6),
                 ('key_burst', true, 1, 1000000), ('max_length', true, 1, 2147483647),
                 ('max_attempts', true, 1, 2147483647), ('weight', false, 0.001, 1000),
                 ('params_max_bytes', true, 1, 2147483647),
                 ('visibility_timeout_ms', true, 1000, 86400000),
                 ('ttl_ms', true, 1, 3155760000000), ('backoff_floor_ms', true, 1, 3155760000000),
                 ('backoff_ceiling_ms', true, 1, 3155760000000),
                 ('backoff_exponent', false, 1, 100),
                 ('max_dequeue', true, 1, 1000),
                 ('age_ms', true, 1000, 31536000000)) r(name, whole, low, high) using (name)
    cross join lateral (
        select s.value ~ case when r.whole then v_whole else v_number end as is_number) n
    where case when n.is_number then s.value::numeric not between r.low and r.high
               else s.value is not null end
    limit 1;
    if found then
        raise exception using errcode = '22003',
            message = format(case when v_bad.is_number
                                  then '%s: setting ''%s'' is out of range: %s'
                                  else '%s: setting ''%s'' is not a number: ''%s''' end,
                             $1, v_bad.name, left(v_bad.value, 200)),
            hint = format('use a %snumber from %s to %s', case when v_bad.whole then 'whole ' end,
                          trim_scale(v_bad.low), v_bad.high);
    end if;
end
$$;
comment on function deferred.__settings_check is
    'raises which setting of a queue or function is not a number, or out of range';
