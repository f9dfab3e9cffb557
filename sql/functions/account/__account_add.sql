-- Adds an account; the keys are encrypted already.
create or replace function deferred.__account_add(name text, key1 bytea, key2 bytea) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    if $1 is null or $1 !~ '^[a-z0-9]{3,24}$' then
        raise exception using errcode = '22023',
            message = format('account name ''%s'' is invalid', left($1, 200)),
            hint = 'a name has 3 to 24 lower-case letters and digits';
    end if;
    insert into deferred.__deferred_account (name, key1, key2) values ($1, $2, $3);
exception when unique_violation then
    raise exception using errcode = '42710', message = format('account ''%s'' exists already', $1),
        hint = 'make a new key for the account: deferred account rotate NAME';
end
$$;
