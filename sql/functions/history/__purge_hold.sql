-- Part of "deferred purge --archive": no other session archives this table until the transaction
-- ends. False: another session does, or the table is gone. Only its owner can lock the table like
-- this, while any role can take an advisory lock.
create or replace function deferred.__purge_hold(aside text) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp set lock_timeout = '3s'
as $$
begin
    if not exists (select from deferred.__asides() a where a.name = aside) then
        return false;
    end if;
    execute format('lock table deferred.%I in share update exclusive mode', aside);
    return true;
exception when lock_not_available or undefined_table then
    return false;
end
$$;
grant execute on function deferred.__purge_hold to deferred_purger;
