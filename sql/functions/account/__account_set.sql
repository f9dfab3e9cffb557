-- Replaces keys of an account, or has its requests refused. A parameter that is NULL changes
-- nothing.
create or replace function deferred.__account_set(name text, key1 bytea, key2 bytea,
                                                  enabled boolean) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    update deferred.__deferred_account a
    set key1 = coalesce($2, a.key1), key1_since = case when $2 is null then a.key1_since
                                                       else clock_timestamp() end,
        key2 = coalesce($3, a.key2), key2_since = case when $3 is null then a.key2_since
                                                       else clock_timestamp() end,
        enabled = coalesce($4, a.enabled)
    where a.name = $1;
    if not found then
        raise exception using errcode = '42704',
            message = format('account ''%s'' does not exist', left($1, 200)),
            hint = 'list the accounts: deferred account ls';
    end if;
end
$$;
