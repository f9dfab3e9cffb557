-- Of a schedule, or of a rule in a zone.
create or replace function deferred.schedule_next(what text, ticks integer default 5,
                                                  timezone text default null,
                                                  after timestamptz default null)
returns table (tick timestamptz, local text, utc text)
language plpgsql security definer set search_path = pg_catalog, pg_temp set datestyle = 'iso'
as $$
#variable_conflict use_column
declare
    s      deferred.__deferred_schedule;
    v_cron deferred.__cron;
    v_zone text := coalesce($3, 'UTC');
    v_tick timestamptz := coalesce($4, clock_timestamp());
    v_ahead interval;
begin
    if $2 not between 0 and 1000 or not deferred.__time_ok(v_tick) then
        raise exception using errcode = '22003',
            message = case when $2 between 0 and 1000
                           then format('time ''%s'' is out of range', v_tick)
                           else format('%s ticks are out of range', $2) end,
            hint = 'use 0 to 1000 ticks, and the years 1 to 9999';
    end if;
    if $1 ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$' then
        select x.* into s from deferred.__schedules() x where x.name = $1;
        if not found then
            raise exception using errcode = 'P0002',
                message = format('schedule ''%s'' does not exist', $1),
                hint = 'list the schedules: deferred schedule ls';
        end if;
        v_cron := s.cron;
        v_zone := coalesce($3, s.zone);
    else
        v_cron := deferred.__cron_parse($1);
    end if;
    perform deferred.__zone_check(v_zone);
    for n in 1 .. $2 loop
        v_tick := deferred.__cron_next(v_cron, v_zone, v_tick);
        exit when v_tick is null;
        v_ahead := (v_tick at time zone v_zone) - (v_tick at time zone 'UTC');
        return query select v_tick,
            to_char(v_tick at time zone v_zone, 'Dy YYYY-MM-DD HH24:MI:SS ')
            || case when v_ahead < interval '0' then '-'
                    else '+' end || to_char(greatest(v_ahead, -v_ahead), 'HH24:MI'),
            to_char(v_tick at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
    end loop;
end
$$;
comment on function deferred.schedule_next is
    'coming ticks of a schedule, or of a rule in a time zone: as moments, as clocks there show '
    'them, and in UTC';
grant execute on function deferred.schedule_next to deferred_producer, deferred_viewer;
