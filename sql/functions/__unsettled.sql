-- In PL/pgSQL, so that a start plans this only where some job waits.
create or replace function deferred.__unsettled() returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (select from deferred.__deferred_ended);
end
$$;
comment on function deferred.__unsettled() is 'true: some job waits to be told of the end of another';
grant execute on function deferred.__unsettled() to deferred_worker;
