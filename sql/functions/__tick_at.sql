-- Deals with schedules whose next tick is due, first those that wait longest. Each is locked, its ticks are stored together with their jobs,
-- and its next tick with both: so whoever comes first does it, a rollback leaves nothing behind, and nobody waits for anybody. A schedule that
-- is locked is being ticked, or changed, and passed. 100 schedules or 200 ms a call: what is left is for the next one.
create or replace function deferred.__tick_at(most integer, now timestamptz) returns integer
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_begun timestamptz := clock_timestamp();
    v_done  integer := 0;
    v_tick  timestamptz;
    s       deferred.__deferred_schedule;
begin
    for s in
        select x.* from deferred.__deferred_schedule x where x.next_at <= now order by x.next_at limit most for update skip locked
    loop
        exit when v_done >= most or clock_timestamp() - v_begun > interval '200 milliseconds';
        begin
            v_tick := case when s.missed = 'all' then s.next_at else deferred.__schedule_latest(s, s.next_at, now) end;
            loop
                s := deferred.__schedule_tick(s, v_tick, now);
                v_done := v_done + 1;
                v_tick := deferred.__cron_next(s.cron, s.zone, v_tick);
                exit when v_tick is null or v_tick > now or v_done >= most;
            end loop;
            update deferred.__deferred_schedule x
            set (next_at, last_at, last_what, queued_at, last_job, last_error) = (v_tick, s.last_at, s.last_what, s.queued_at, s.last_job, s.last_error)
            where x.id = s.id;
        exception when lock_not_available or deadlock_detected or serialization_failure then
            null;  -- it comes with the next call
        end;
    end loop;
    perform deferred.__schedule_raise();
    return v_done;
end
$$;
comment on function deferred.__tick_at is 'deferred.__tick() for a moment that tests choose';
