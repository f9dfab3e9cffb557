-- Replaces the service properties of an account; false: there is none.
create or replace function deferred.__account_properties(name text, properties json) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    update deferred.__deferred_account a set properties = $2 where a.name = $1;
    return found;
end
$$;
grant execute on function deferred.__account_properties to deferred_http;
