-- admin_migrate_rights: what a superuser would have to say for who acts to be able to migrate this
-- database.
-- params: none
-- returns: statements text
-- Rows: one row: statements with ';' between
-- Locks: none
select concat_ws('; ',
    case when o.role is null
             and not r.rolcreaterole then format('alter role %I createrole', r.rolname)
         when not pg_has_role(r.oid, o.role, 'member with admin option')
             then format('grant deferred_owner to %I with admin option', r.rolname) end,
    case when to_regnamespace('deferred') is null and not has_database_privilege(r.oid,
        current_database(), 'create')
         then format('grant create on database %I to %I', current_database(),
                     r.rolname) end) as statements
from pg_catalog.pg_roles r cross join (select to_regrole('deferred_owner')::oid as role) o
where r.rolname = current_user
