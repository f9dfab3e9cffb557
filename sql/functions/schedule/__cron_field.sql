-- One field of a rule: lists of numbers, names, ranges and steps. Names: a name for each number
-- from low on; NULL: none.
create or replace function deferred.__cron_field(rule text, field text, what text, low integer,
                                                 high integer, names text[]) returns bigint
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
declare
    v_bits  bigint := 0;
    v_item  text;
    m       text[];
    v_from  integer;
    v_to    integer;
    v_step  integer;
begin
    foreach v_item in array string_to_array(field, ',') loop
        m := regexp_match(upper(v_item),
                          '^(?:([*])|([0-9]{1,2}|[A-Z]{3})(?:-([0-9]{1,2}|[A-Z]{3}))?)'
                          '(?:/([0-9]{1,3}))?$');
        if m is null then
            raise exception using errcode = '22023',
                message = format('schedule rule ''%s'': %s ''%s'' is invalid',
                                 rule, what, left(v_item, 100)),
                hint = case when v_item = '?' then 'write * for every value'
                            when v_item ~ '[WwHh#Ll]' then format('write numbers from %s to %s, '
                                                                  'names, ranges, lists or '
                                                                  'steps; L is for the day, '
                                                                  'MON#1 to MON#5 and MON#L for '
                                                                  'the weekday',
                                                                  low, high)
                            else format('write numbers from %s to %s, ranges 1-5, steps */5 and '
                                        '1-9/2, or a list of these',
                                        low, high) end;
        end if;
        v_from := case when m[1] is not null then low when m[2] ~ '^[0-9]' then m[2]::integer
                       else array_position(names, m[2]) + low - 1 end;
        v_to := case when m[1] is not null then case when what = 'weekday' then 6 else high end
                     when m[3] is null then v_from when m[3] ~ '^[0-9]' then m[3]::integer
                         else array_position(names, m[3]) + low - 1 end;
        v_step := coalesce(m[4]::integer, 1);
        if v_from is null or v_to is null or v_from < low or v_to > high then
            raise exception using errcode = '22023',
                message = format('schedule rule ''%s'': %s ''%s'' is out of range (%s to %s)',
                                 rule, what, left(v_item, 100), low, high),
                hint = format('write numbers from %s to %s%s',
                              low, high, ', or ' || array_to_string(names, ' '));
        end if;
        if v_from > v_to then
            raise exception using errcode = '22023',
                message = format('schedule rule ''%s'': %s ''%s'' ends before it begins',
                                 rule, what, left(v_item, 100)),
                hint = format('write two ranges: %s-%s,%s-%s', v_from, high, low, v_to);
        end if;
        if v_step < 1 or v_step > high then
            raise exception using errcode = '22023',
                message = format('schedule rule ''%s'': the step of %s ''%s'' is out of range',
                                 rule, what, left(v_item, 100)),
                hint = format('use a step from 1 to %s', high);
        end if;
        if m[4] is not null and m[1] is null and m[3] is null then
            raise exception using errcode = '22023',
                message = format('schedule rule ''%s'': %s ''%s'' has a step without a range',
                                 rule, what, left(v_item, 100)),
                hint = format('write %s-%s/%s', v_from, high, v_step);
        end if;
        for n in v_from .. v_to by v_step loop
            v_bits := v_bits | (1::bigint << n);
        end loop;
    end loop;
    return v_bits;
end
$$;
comment on function deferred.__cron_field is
    'one field of a time rule: bit n stands for the number n';
