-- admin_migrate_missing: what a schema lacks after a dump was restored. The roles were not there,
-- or the dump does not say who owns what.
-- params: names text[]
-- returns: missing text
-- Rows: one row, empty if nothing is missing
-- Locks: none
with role as (
    select n.name, r.oid
    from unnest(array['deferred_owner', 'deferred_producer', 'deferred_worker', 'deferred_viewer',
                      'deferred_purger', 'deferred_http', 'deferred_reader',
                      'deferred_operator']) as n(name)
    left join pg_catalog.pg_roles r on r.rolname = n.name),
-- by name: who has added a function of the same name with other arguments has not broken ours
ours as (
    select array_agg(p.proowner) as owners,
           bool_and(exists (select from aclexplode(coalesce(p.proacl,
               acldefault('f', p.proowner))) a where a.grantee = 0)) as everybodys
    from pg_catalog.pg_proc p
    where p.pronamespace = to_regnamespace('deferred')
      and 'functions/' || p.proname = any ($1::text[])
    group by p.proname
    union all
    select array[c.relowner], false from pg_catalog.pg_class c
    where c.relnamespace = to_regnamespace('deferred') and c.relkind in ('r', 'p', 'v', 'S')
      and not c.relispartition
      and (starts_with(c.relname, '__') or 'views/' || c.relname = any ($1::text[])))
select concat_ws('; ',
    (select 'no role ' || string_agg(r.name, ', ' order by r.name) from role r where r.oid is null),
    (select 'nothing is granted to ' || string_agg(r.name, ', ' order by r.name)
     from role r
     where r.name <> 'deferred_owner' and r.oid is not null
       and not exists (select from pg_catalog.pg_namespace s
                       cross join lateral aclexplode(s.nspacl) a
                       where s.nspname = 'deferred' and a.grantee = r.oid
                         and a.privilege_type = 'USAGE')),
    (select string_agg(format('%s is not granted to %s', p.name, w.name), '; ' order by w.name)
     from (values ('deferred_worker', 'deferred_producer'), ('deferred_reader', 'deferred_viewer'),
           ('deferred_operator', 'deferred_reader')) g(member, role)
     join role w on w.name = g.member join role p on p.name = g.role
     where not pg_has_role(w.oid, p.oid, 'member')),
    (select count(*) || ' tables, views and functions are not deferred_owner''s'
     from ours o where (select r.oid from role r
                        where r.name = 'deferred_owner') = any (o.owners) is not true
                        having count(*) > 0),
    (select count(*) || ' functions may be called by everybody' from ours o where o.everybodys
     having count(*) > 0)) as missing
