-- Part of "deferred purge --archive": an outlived partition becomes a table of its own, named
-- __purged_..., in which nobody writes. So it can be read without a lock that anybody waits for. It
-- stays until it was archived: __purge_archived(). A table that was left is taken first. Returns
-- its name. NULL: none is left, or one is in use.
create or replace function deferred.__purge_aside(older_than interval) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '100ms'
as $$
declare
    v_name  text := (select a.name from deferred.__asides() a order by a.name limit 1);
    v       record;
begin
    if v_name is not null then return v_name; end if;
    -- Dead jobs go too: the archive has them.
    select * into v from deferred.__outlived(older_than, '0', '{}');
    if v.name is null then return null; end if;
    v_name := '__purged' || substr(v.name, 2);
    execute format('alter table deferred.%I detach partition deferred.%I',
                   case when v.is_log then '__deferred_log' else '__deferred' end, v.name);
    execute format('alter table deferred.%I rename to %I', v.name, v_name);
    execute format('grant select on deferred.%I to deferred_purger', v_name);
    return v_name;
exception when lock_not_available then
    return null;
end
$$;
grant execute on function deferred.__purge_aside to deferred_purger;
