-- Processes one tick of a schedule whose row is locked. Returns the schedule as it is afterwards,
-- and does not store it.
create or replace function deferred.__schedule_tick(s deferred.__deferred_schedule,
                                                    tick timestamptz, now timestamptz) returns
                                                        deferred.__deferred_schedule
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    h         deferred.__deferred_hot;
    v_claimed boolean := false;
    v_what    text := 'queued';
    v_due     timestamptz := tick;
    v_id      bigint;
begin
    if s.jitter_ms > 0 then
        v_due := tick + (hashtextextended(s.name || ' ' || extract(epoch from tick),
                                          0) & 9223372036854775807) % s.jitter_ms * interval
                                              '1 millisecond';
    end if;
    -- A job of the last tick that waits for its next attempt is not done with either.
    if s.overlap <> 'allow' and s.last_job is not null then
        select * into h from deferred.__deferred_hot x where x.id = s.last_job;
        if found then
            v_claimed := deferred.__is_claimed(h);
            if s.overlap = 'skip' or (s.overlap = 'queue' and not v_claimed and s.missed <> 'all')
                then
                v_what := 'overlap';
            end if;
        end if;
    end if;
    if s.missed = 'skip' and now - tick >= s.late_ms * interval '1 millisecond' then
        v_what := 'missed';
    end if;
    insert into deferred.__deferred_tick (schedule, tick, what, previous)
    values (s.id, tick, v_what, s.queued_at) on conflict do nothing;
    if not found then
        return s;  -- clocks went back, and it was dealt with before; or it was backfilled
    end if;
    s.last_at := tick;
    s.last_error := null;
    if v_what = 'overlap' then
        s.last_error := format('job %s of the previous tick has not ended', s.last_job);
    elsif v_what = 'missed' then
        s.last_error := format('nobody looked until %s', now);
    else
        begin
            if h.id is not null and s.overlap = 'replace' and deferred.cancel(h.id)
                and v_claimed then
                -- it is asked to stop, and killed soon after
                v_due := greatest(v_due, now + interval '1 second');
            end if;
            v_id := deferred.__schedule_job(s, v_due, tick);
            if v_id is null then
                raise exception using errcode = '53400',
                    message = format('queue ''%s'' is full and drops new jobs', s.queue),
                    hint = 'raise max_length of the queue';
            end if;
            s.last_job := v_id;
            s.queued_at := tick;
        exception
            when lock_not_available or deadlock_detected or serialization_failure then
                raise;  -- it is not the schedule's: the tick stays, and is tried again
            when others then
                v_what := 'failed';
                s.last_error := left(sqlerrm, 1000);
        end;
        update deferred.__deferred_tick t set what = v_what, job_id = v_id
        where t.schedule = s.id and t.tick = tick;
    end if;
    s.last_what := v_what;
    return s;
end
$$;
comment on function deferred.__schedule_tick is 'one tick of a schedule: a job, or why none';
