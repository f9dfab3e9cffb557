-- Removes a token. Its jobs stay, and belong to a new token of that name.
create or replace function deferred.__token_rm(name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    delete from deferred.__deferred_token t where t.name = $1;
    if not found then
        perform deferred.__token_missing($1);
    end if;
end
$$;
