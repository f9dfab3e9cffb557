-- admin_migrate_roles: create the roles that are missing, and grant each the roles that it
-- includes. `deferred migrate --print-roles` prints it for an administrator.
-- params: none
-- returns: nothing
-- Locks: none that others wait for
do $roles$
declare
    r text;
begin
    -- Roles are global to the cluster: another database may have made them already.
    foreach r in array array['deferred_owner', 'deferred_producer', 'deferred_worker',
                             'deferred_viewer', 'deferred_purger', 'deferred_http',
                             'deferred_reader', 'deferred_operator'] loop
        if not exists (select from pg_catalog.pg_roles where rolname = r) then
            execute pg_catalog.format('create role %I nologin', r);
        end if;
    end loop;
    if (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then
        grant pg_read_all_stats to deferred_owner;  -- deferred.__holder() says since when
    end if;
    if not pg_catalog.pg_has_role('deferred_worker', 'deferred_producer', 'member') then
        grant deferred_producer to deferred_worker;  -- functions may defer further jobs
    end if;
    if not pg_catalog.pg_has_role('deferred_reader', 'deferred_viewer', 'member') then
        grant deferred_viewer to deferred_reader;
    end if;
    if not pg_catalog.pg_has_role('deferred_operator', 'deferred_reader', 'member') then
        grant deferred_reader to deferred_operator;
    end if;
end
$roles$
