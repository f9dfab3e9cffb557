-- Removes an account; its queues stay.
create or replace function deferred.__account_rm(name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    delete from deferred.__deferred_account a where a.name = $1;
    if not found then
        raise exception using errcode = '42704',
            message = format('account ''%s'' does not exist', left($1, 200)),
            hint = 'list the accounts: deferred account ls';
    end if;
end
$$;
