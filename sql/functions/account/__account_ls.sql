create or replace function deferred.__account_ls() returns setof deferred.__deferred_account
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select * from deferred.__deferred_account a order by a.name
$$;
comment on function deferred.__account_ls() is 'all accounts, with their encrypted keys';
grant execute on function deferred.__account_ls() to deferred_http;
