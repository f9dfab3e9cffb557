-- Next local time that a rule names, as if clocks were never changed. A rule of five fields that is
-- ever true is true within 40 years. That is the longest time between two 29 February on a Monday.
create or replace function deferred.__cron_local(c deferred.__cron,
                                                 after timestamp) returns timestamp
language plpgsql immutable
as $$
declare
    v_from date := (date_trunc('minute', after) + interval '1 minute')::date;
    v_day  date := v_from;
    v_hour integer := extract(hour from date_trunc('minute', after) + interval '1 minute');
    v_min  integer := extract(minute from date_trunc('minute', after) + interval '1 minute');
    v_dom  integer;
    v_dow  integer;
    v_by_day boolean;
    v_by_weekday boolean;
    v_bits bigint;
begin
    while v_day - v_from < 15000 loop
        if c.months >> extract(month from v_day)::integer & 1 = 0 then
            v_day := (date_trunc('month', v_day::timestamp) + interval '1 month')::date;
            v_hour := 0;
            v_min := 0;
            continue;
        end if;
        v_dom := extract(day from v_day);
        v_dow := extract(dow from v_day);
        v_by_day := c.days >> v_dom & 1 = 1 or (c.days >> 32 = 1
                                                and extract(day from v_day + 1) = 1);
        v_by_weekday := c.weekdays >> v_dow & 1 = 1
            or (c.nth <> 0 and (c.nth >> (8 * v_dow + (v_dom + 6) / 7) & 1 = 1
                                or (c.nth >> (8 * v_dow + 6) & 1 = 1
                                    and extract(month from v_day + 7) <> extract(month
                                        from v_day))));
        if (v_by_day and v_by_weekday) or (not c.both_days and (v_by_day or v_by_weekday)) then
            while v_hour < 24 loop
                v_bits := c.minutes >> v_min;
                if c.hours >> v_hour & 1 = 1 and v_bits <> 0 then
                    while v_bits & 1 = 0 loop
                        v_bits := v_bits >> 1;
                        v_min := v_min + 1;
                    end loop;
                    return v_day + make_time(v_hour, v_min, 0);
                end if;
                v_hour := v_hour + 1;
                v_min := 0;
            end loop;
        end if;
        v_day := v_day + 1;
        v_hour := 0;
        v_min := 0;
    end loop;
    return null;
end
$$;
comment on function deferred.__cron_local is
    'first whole minute after a local time that a rule names; NULL: none within 40 years';
