create or replace function deferred.schedule(name text, rule text, fn text,
                                             params json default '{}',
                                             opts json default '{}') returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    return deferred.__schedule_set($1, $2, $3, $4, $5, null);
end
$$;
comment on function deferred.schedule is
    'have fn deferred whenever a rule says; returns added, changed or unchanged';
grant execute on function deferred.schedule to deferred_producer;
