-- All accounts, with their encrypted keys.
create or replace function deferred.__account_ls() returns setof deferred.__deferred_account
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select * from deferred.__deferred_account a order by a.name
$$;
grant execute on function deferred.__account_ls to deferred_http;
