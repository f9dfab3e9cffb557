create or replace function deferred.unschedule(name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_id bigint := (deferred.__schedule_get($1, true)).id;
begin
    delete from deferred.__deferred_schedule s where s.id = v_id;
end
$$;
comment on function deferred.unschedule(text) is 'removes a schedule; its jobs stay';
grant execute on function deferred.unschedule(text) to deferred_producer;
