-- admin_migrate_rights: what a superuser has to run so that the current role can migrate this
-- database.
-- params: none
-- returns: remedy text
-- Rows: one row: statements with ';' between
-- Locks: none
select concat_ws('; ',
    case when o.role is null or pg_has_role(r.oid, o.role, 'member') and (d.made or d.may_create)
         then format('the output of deferred migrate --print-roles --owner %L', r.rolname)
         when not pg_has_role(r.oid, o.role, 'member')
         then format('grant deferred_owner to %I', r.rolname) end,
    case when not d.made and not d.may_create
         then format('grant create on database %I to %I', current_database(), r.rolname)
    end) as remedy
from pg_catalog.pg_roles r
cross join (select to_regrole('deferred_owner')::oid as role) o
cross join (select to_regnamespace('deferred') is not null as made,
                   has_database_privilege(current_database(), 'create') as may_create) d
where r.rolname = current_user
