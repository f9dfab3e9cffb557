-- Keeps the versions in __deferred_state equal to those of __deferred_migration. They stand in
-- __deferred_state too, where a start reads them along with the next tick.
create or replace function deferred.__version_noted() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    update deferred.__deferred_state
    set (version, oldest) = (select coalesce(max(m.version), 0),
                                    coalesce(max(coalesce(m.oldest, m.version)), 0)
                             from deferred.__deferred_migration m)
    where version is not null;
    return null;
end
$$;
create or replace trigger version_noted after insert or update or delete
    or truncate on deferred.__deferred_migration
    for each statement execute function deferred.__version_noted();
-- The first step was noted before there was a trigger.
update deferred.__deferred_state
set (version, oldest) = (select coalesce(max(m.version), 0),
                                coalesce(max(coalesce(m.oldest, m.version)), 0)
                         from deferred.__deferred_migration m)
where version is not null;
