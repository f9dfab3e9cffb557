-- Part of "deferred purge": drops one partition that holds nothing younger than the limit, no hot
-- job and no dead one that stays. A partition in use, as by pg_dump, is not dropped: it goes as a
-- whole the next time, and is then in `but`. The name is NULL when none is left.
create or replace function deferred.__purge_partition(
    older_than interval, dead_older_than interval default null, but text[] default '{}',
    out name text, out dropped boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '100ms'
as $$
begin
    select o.name into name from deferred.__outlived(older_than, dead_older_than, but) o;
    if name is not null then
        begin
            execute format('drop table deferred.%I', name);
            dropped := true;
        exception when lock_not_available then
            dropped := false;
        end;
    end if;
end
$$;
grant execute on function deferred.__purge_partition to deferred_purger;
