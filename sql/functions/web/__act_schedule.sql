-- Part of deferred.__act(): what is done to a schedule; NULL: it was done. An operator may do to
-- each schedule what its owner may: its jobs are those of its owner, with his rights.
create or replace function deferred.__act_schedule(verb text, schedule text) returns text
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    s      deferred.__deferred_schedule;
    v_now  timestamptz := clock_timestamp();
    v_next timestamptz;
begin
    begin
        select * into s from deferred.__deferred_schedule x where x.name = $2 for update;
    exception when lock_not_available then
        perform deferred.__locked('schedule', $2);
    end;
    if s.id is null then return format('schedule ''%s'' does not exist', left($2, 200)); end if;
    if $1 = 'run' then
        insert into deferred.__deferred_tick (schedule, tick, what, job_id, previous)
        values (s.id, v_now, 'by hand', deferred.__schedule_defer(s, v_now), s.queued_at);
    elsif s.paused = ($1 = 'pause') then
        return format('schedule ''%s'' is %s',
                      s.name, case when s.paused then 'paused already' else 'not paused' end);
    else
        if $1 = 'resume' then
            perform deferred.__defer_check(deferred.__actor(), s.queue, s.fn);
            v_next := deferred.__cron_next(s.cron, s.zone, clock_timestamp());
        end if;
        update deferred.__deferred_schedule x set paused = $1 = 'pause', next_at = v_next
        where x.id = s.id;
        perform deferred.__schedule_moved(s.queue, v_next) where v_next is not null;
    end if;
    return null;
end
$$;
