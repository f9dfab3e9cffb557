-- The id of the job that was stored from a spool under this UUID.
create or replace function deferred.spooled(id uuid) returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select s.job_id from deferred.__deferred_spooled s
    where s.owner = deferred.__actor() and s.id = $1
$$;
comment on function deferred.spooled is
    'id of the job that was stored from a spool; NULL: not stored yet, by another role, or dropped';
grant execute on function deferred.spooled to deferred_producer;
