-- Times as people write them: without an offset they are those of the schedule's zone.
create or replace function deferred.__schedule_backfill(name text, from_time text, to_time text,
                                                        dry boolean) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
begin
    perform set_config('timezone', (deferred.__schedule_get($1, false)).zone, true);
    return deferred.schedule_backfill($1, $2::timestamptz, $3::timestamptz, $4);
end
$$;
comment on function deferred.__schedule_backfill is
    'part of "deferred schedule backfill": deferred.schedule_backfill() with times as people '
    'write them';
grant execute on function deferred.__schedule_backfill to deferred_producer;
