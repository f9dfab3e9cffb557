-- doctor_role: what may the role do that acts?
-- no parameters
-- returns one row: the role, quoted where it has to be (text), it is a superuser (bool), it has the rights of deferred_owner (bool), those of
--   deferred_worker (bool), statements that give deferred_worker back what it needs (text, with ";" between; '': it has all),
--   the role has the rights of an application or of people (bool)
-- locks: none
select quote_ident(current_user), r.rolsuper, coalesce(pg_has_role(r.oid, to_regrole('deferred_owner')::oid, 'usage'), false),
       coalesce(pg_has_role(r.oid, to_regrole('deferred_worker')::oid, 'usage'), false),
       coalesce(deferred.__worker_lacks(), ''),
       coalesce(pg_has_role(r.oid, to_regrole('deferred_producer')::oid, 'usage')
                or pg_has_role(r.oid, to_regrole('deferred_viewer')::oid, 'usage'), false)
from pg_catalog.pg_roles r
where r.rolname = current_user
