create or replace function deferred.schedule_resume(name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    s      deferred.__deferred_schedule := deferred.__schedule_get($1, true);
    v_next timestamptz := deferred.__cron_next(s.cron, s.zone, clock_timestamp());
begin
    if not s.paused then return false; end if;
    perform deferred.__defer_check(deferred.__actor(), s.queue, s.fn);
    update deferred.__deferred_schedule x set paused = false, next_at = v_next where x.id = s.id;
    perform deferred.__schedule_moved(s.queue, v_next) where v_next is not null;
    return true;
end
$$;
comment on function deferred.schedule_resume(text) is
    'a paused schedule has ticks again, from now on; false: it was not paused';
grant execute on function deferred.schedule_resume(text) to deferred_producer;
