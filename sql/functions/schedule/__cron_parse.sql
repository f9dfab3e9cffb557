-- Reads a rule: five fields as in crontab(5), @daily and such, every SPAN. Fields are read as
-- Debian's cron does. L in the day field and MON#1, MON#L in that of the weekday are ours: cron
-- cannot say "first Monday".
create or replace function deferred.__cron_parse(rule text) returns deferred.__cron
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
declare
    days   constant text[] := '{SUN,MON,TUE,WED,THU,FRI,SAT}';
    months constant text[] := '{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}';
    c      deferred.__cron;
    v_rule text := btrim(coalesce(rule, ''), E' \t');
    v_ms   bigint;
    f      text[];
    m      text[];
    v_day  integer;
    v_bits bigint;
    v_rest text[] := '{}';
    v_item text;
    v_fields integer;
begin
    if length(v_rule) > 1000 then
        raise exception using errcode = '22023',
            message = format('schedule rule ''%s...'' is longer than 1000 characters',
                             left(v_rule, 100)),
            hint = 'split the rule into several schedules';
    end if;
    if v_rule ~ E'^every\\M' then
        v_item := btrim(substr(v_rule, 6));
        begin
            v_ms := deferred.__ms('every', v_item);
        exception when invalid_parameter_value then
            raise exception using errcode = '22023',
                message = format('schedule rule ''%s'': ''%s'' is not a time span',
                                 left(v_rule, 100), left(v_item, 100)),
                hint = 'write every 30s, every 5min or every 2h, or @hourly, @daily, @weekly or '
                       '@monthly';
        end;
        if v_ms not between 1000 and 31622400000 then
            raise exception using errcode = '22023',
                message = format('schedule rule ''%s'': the time span is out of range', v_rule),
                hint = 'use every 1s to every 366d';
        end if;
        c.every_us := v_ms * 1000;
        return c;
    end if;
    if v_rule ~ '^@' then
        v_rule := case when v_rule in ('@yearly', '@annually') then '0 0 1 1 *'
                       when v_rule in ('@daily', '@midnight') then '0 0 * * *'
                       when v_rule = '@monthly' then '0 0 1 * *'
                       when v_rule = '@weekly' then '0 0 * * 0'
                       when v_rule = '@hourly' then '0 * * * *' end;
        if v_rule is null then
            raise exception using errcode = '22023',
                message = format('schedule rule ''%s'' is unknown', left(rule, 100)),
                hint = 'use @yearly, @monthly, @weekly, @daily, @midnight or @hourly';
        end if;
    end if;
    f := regexp_split_to_array(v_rule, E'[ \\t]+');
    v_fields := case when v_rule = '' then 0 else array_length(f, 1) end;
    if v_fields <> 5 then
        raise exception using errcode = '22023',
            message = format('schedule rule ''%s'' has %s field%s instead of 5', left(v_rule, 100),
                             v_fields, case v_fields when 1 then '' else 's' end),
            hint = concat(case when v_fields in (6, 7)
                               then 'seconds and years are not supported; ' end,
                          'write minute hour day month weekday, such as ''30 2 * * *'', or '
                          '@daily, or every 90s');
    end if;
    rule := left(rule, 100);
    c.minutes := deferred.__cron_field(rule, f[1], 'minute', 0, 59, null);
    c.hours := deferred.__cron_field(rule, f[2], 'hour', 0, 23, null);
    c.months := deferred.__cron_field(rule, f[4], 'month', 1, 12, months);
    -- L in the day field is bit 32; the rest of the list is as anywhere.
    v_rest := array(select i from unnest(string_to_array(f[3], ',')) i where upper(i) <> 'L');
    c.days := deferred.__cron_field(rule, array_to_string(v_rest, ','), 'day', 1, 31, null)
              | case when cardinality(v_rest) < cardinality(string_to_array(f[3], ','))
                     then 1::bigint << 32 else 0 end;
    v_rest := '{}';
    c.nth := 0;
    foreach v_item in array string_to_array(f[5], ',') loop
        m := regexp_match(upper(v_item), '^([0-7]|[A-Z]{3})#([1-5L])$');
        v_day := case when m[1] ~ '^[0-9]' then m[1]::integer % 7
                      else array_position(days, m[1]) - 1 end;
        if v_day is null then
            v_rest := v_rest || v_item;
        else
            c.nth := c.nth | (1::bigint << (8 * v_day + case when m[2] = 'L' then 6
                                                             else m[2]::integer end));
        end if;
    end loop;
    v_bits := deferred.__cron_field(rule, array_to_string(v_rest, ','), 'weekday', 0, 7, days);
    c.weekdays := (v_bits | (v_bits >> 7)) & 127;  -- 7 is Sunday too

    c.both_days := f[3] ~ '^[*]' or f[5] ~ '^[*]';
    c.fixed := f[1] !~ '^[*]' and f[2] !~ '^[*]';
    return c;
end
$$;
comment on function deferred.__cron_parse(text) is
    'a time rule, read; refuses what is none, and says what to write';
