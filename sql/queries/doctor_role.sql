-- doctor_role: what may the role do that acts?
-- no parameters
-- returns one row: the role, quoted where it has to be (text), it is a superuser (bool), it has the rights of deferred_owner (bool), those of
--   deferred_worker (bool), statements that give deferred_worker back what it needs (text, with ";" between; '': it has all)
-- locks: none
select quote_ident(current_user), r.rolsuper, coalesce(pg_has_role(r.oid, to_regrole('deferred_owner')::oid, 'usage'), false),
       coalesce(pg_has_role(r.oid, to_regrole('deferred_worker')::oid, 'usage'), false),
       coalesce((
           select string_agg(format('grant %s on deferred.%I to deferred_worker', n.needs, n.name), '; ' order by n.name, n.needs)
           from (values ('__deferred', 'select'), ('__deferred_hot', 'select'), ('__deferred_hot', 'update'), ('__deferred_hot', 'delete'),
                        ('__deferred_log', 'select'), ('__deferred_log', 'insert'), ('__deferred_queue', 'select'), ('__deferred_migration', 'select'),
                        ('__deferred_place', 'insert'), ('__deferred_place', 'delete'), ('__deferred_lease', 'insert'), ('__deferred_lease', 'update'),
                        ('__deferred_lease', 'delete'), ('__deferred_worker', 'insert'), ('__deferred_worker', 'update'), ('__deferred_offer', 'insert'),
                        ('__deferred_offer', 'update'), ('__deferred_progress', 'insert'), ('__deferred_limit', 'insert')) n(name, needs)
           where not has_table_privilege('deferred_worker', format('deferred.%I', n.name), n.needs)), '')
from pg_catalog.pg_roles r
where r.rolname = current_user
