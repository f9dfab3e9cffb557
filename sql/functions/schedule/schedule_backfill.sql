-- Jobs for past ticks that have none, the oldest first. dry: they are counted only. At most 10,000
-- a call.
create or replace function deferred.schedule_backfill(name text, from_time timestamptz,
                                                      to_time timestamptz, dry boolean default
                                                          false) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    most   constant integer := 10000;
    s      deferred.__deferred_schedule := deferred.__schedule_get($1, not dry);
    v_to   timestamptz := least(to_time, clock_timestamp());
    v_tick timestamptz;
    v_n    integer := 0;
    v_last timestamptz;
begin
    if (deferred.__time_ok(from_time) and to_time >= from_time) is not true then
        raise exception using errcode = '22023',
            message = case when deferred.__time_ok(from_time) is not true
                           then format('the time ''%s'' to begin with is out of range',
                                       coalesce(from_time::text, 'NULL'))
                           when to_time is null then 'the time to end with is NULL'
                           else 'the time to backfill ends before it begins' end,
            hint = 'give two times of the years 1 to 9999, the earlier one first';
    end if;
    v_last := (select max(t.tick) from deferred.__deferred_tick t
               where t.schedule = s.id and t.tick < from_time and t.what = 'queued');
    v_tick := deferred.__cron_next(s.cron, s.zone, from_time - interval '1 microsecond');
    while v_tick <= v_to loop
        if exists (select from deferred.__deferred_tick t
                   where t.schedule = s.id and t.tick = v_tick and t.what = 'queued') then
            v_last := v_tick;
        else
            v_n := v_n + 1;
            if v_n > most then
                raise exception using errcode = '54000',
                    message = format('backfill of more than %s ticks is too long', most),
                    hint = 'backfill a shorter time';
            end if;
            if not dry then
                s.queued_at := v_last;
                insert into deferred.__deferred_tick as t (schedule, tick, what, job_id, previous)
                values (s.id, v_tick, 'queued', deferred.__schedule_defer(s, v_tick), v_last)
                on conflict (schedule, tick) do update
                set (what, job_id, previous, at) = (excluded.what, excluded.job_id,
                                                    excluded.previous, clock_timestamp());
                v_last := v_tick;
            end if;
        end if;
        v_tick := deferred.__cron_next(s.cron, s.zone, v_tick);
    end loop;
    return v_n;
end
$$;
comment on function deferred.schedule_backfill is
    'jobs for past ticks of a schedule that have none; returns how many';
grant execute on function deferred.schedule_backfill to deferred_producer;
