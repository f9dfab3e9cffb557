create or replace function deferred.schedule_pause(name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    s deferred.__deferred_schedule := deferred.__schedule_get($1, true);
begin
    update deferred.__deferred_schedule x set paused = true, next_at = null
    where x.id = s.id and not x.paused;
    return found;
end
$$;
comment on function deferred.schedule_pause(text) is
    'a schedule has no ticks until it is resumed; false: it was paused already';
grant execute on function deferred.schedule_pause(text) to deferred_producer;
