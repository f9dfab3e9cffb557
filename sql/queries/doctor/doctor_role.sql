-- doctor_role: what may the role do that acts?
-- params: none
-- returns: role text, superuser bool, owner bool, worker bool, worker_lacks text, viewer bool
-- Rows: one row: the role, quoted where needed. Then whether it is a superuser, and whether it has
--   the rights of deferred_owner and of deferred_worker. Then statements, separated by ";", that
--   restore the missing rights of deferred_worker (empty: none is missing). The last says whether
--   the role has the rights of an application or of people.
-- Locks: none.
select quote_ident(current_user) as role, r.rolsuper as superuser,
       coalesce(pg_has_role(r.oid, to_regrole('deferred_owner')::oid, 'usage'), false) as owner,
       coalesce(pg_has_role(r.oid, to_regrole('deferred_worker')::oid, 'usage'), false) as worker,
       coalesce(deferred.__worker_lacks(), '') as worker_lacks,
       coalesce(pg_has_role(r.oid, to_regrole('deferred_producer')::oid, 'usage')
                or pg_has_role(r.oid, to_regrole('deferred_viewer')::oid, 'usage'), false) as viewer
from pg_catalog.pg_roles r
where r.rolname = current_user
