-- Processes schedules whose next tick is due, longest due first. Each is locked, and its ticks are
-- stored together with their jobs and its next tick. So a rollback leaves nothing behind. A locked
-- schedule is being ticked or changed by another session and is skipped, so no session waits. A
-- call processes 100 schedules, or as many as it can in 200 ms, and leaves the rest to the next
-- call.
--
-- No schedule delays another one. A schedule whose job would wait for a lock goes behind all that
-- are due now. A schedule whose rule cannot be read, because its time zone is no longer known, is
-- tried again in an hour. Its ticks of that time are not lost.
create or replace function deferred.__tick_at(most integer, now timestamptz) returns integer
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '5ms'
as $$
#variable_conflict use_variable
declare
    v_pause constant interval := '1 hour';
    v_begun timestamptz := clock_timestamp();
    v_done  integer := 0;
    v_was   integer;
    v_tick  timestamptz;
    s       deferred.__deferred_schedule;
begin
    for s in
        select x.* from deferred.__deferred_schedule x where x.next_at <= now
        order by greatest(x.next_at, least(x.tried_at, now)) limit most for update skip locked
    loop
        exit when v_done >= most or clock_timestamp() - v_begun > interval '200 milliseconds';
        v_was := v_done;
        begin
            v_tick := case when s.tried_at = s.next_at
                               then deferred.__cron_next(s.cron, s.zone, s.next_at - v_pause)
                                   else s.next_at end;
            if s.missed <> 'all' and v_tick <= now then
                v_tick := deferred.__schedule_latest(s, v_tick, now);
            end if;
            while v_tick <= now and v_done < most loop
                s := deferred.__schedule_tick(s, v_tick, now);
                v_done := v_done + 1;
                v_tick := deferred.__cron_next(s.cron, s.zone, v_tick);
            end loop;
            update deferred.__deferred_schedule x
            set (next_at, tried_at, last_at, last_what, queued_at, last_job, last_error)
              = (v_tick, null, s.last_at, s.last_what, s.queued_at, s.last_job, s.last_error)
            where x.id = s.id;
        exception
            when lock_not_available or deadlock_detected or serialization_failure then
                v_done := v_was;  -- it comes with a later call
                update deferred.__deferred_schedule x
                set tried_at = greatest(now, x.next_at + interval '1 microsecond')
                where x.id = s.id;
            when others then
                v_done := v_was + 1;
                update deferred.__deferred_schedule x
                set (next_at, tried_at, last_what, last_error) = (now + v_pause, now + v_pause,
                    'failed', left(sqlerrm, 1000))
                where x.id = s.id;
        end;
    end loop;
    perform deferred.__schedule_raise();
    return v_done;
end
$$;
comment on function deferred.__tick_at is 'deferred.__tick() for a moment that tests choose';
