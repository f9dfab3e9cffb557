-- One step of retention: drops one partition that holds nothing younger than the limit, no hot
-- job and no dead one that stays. Returns its name, or NULL when none is left. A partition in use
-- is left for the next time.
create or replace function deferred.__purge_partition(
    older_than interval, dead_older_than interval default null)
returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '100ms'
as $$
declare
    v_name text;
begin
    select o.name into v_name from deferred.__outlived(older_than, dead_older_than) o;
    if v_name is not null then
        execute format('drop table deferred.%I', v_name);
    end if;
    return v_name;
exception when lock_not_available then
    return null;
end
$$;
comment on function deferred.__purge_partition is 'part of "deferred purge": drops one outlived partition';
grant execute on function deferred.__purge_partition to deferred_purger;
