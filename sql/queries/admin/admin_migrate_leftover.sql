-- admin_migrate_leftover: what is to be dropped? With a name: all functions or the view of that
-- name, which stand in the way of others. Without: each function or view that has no file, and each
-- function whose file was applied in this transaction and now has other arguments. Besides: what
-- else in the schema is built on them.
-- params: name text?, files text[]
-- returns: statement text, n int4, used_by text
-- Rows: one for each object without a file, in the order in which they can be dropped. Column n:
--   position in $2, 0: no file has it. Column used_by: what outside of the schema uses it. Its row
--   of __deferred_source is deleted.
-- Locks: none that others wait for.
-- Files are applied below savepoints, whose numbers are later than that of the transaction: the age
--   of such a row is below 0.
with recursive gone as (
    delete from deferred.__deferred_source s where s.name <> all ($2::text[])),
made as (
    select 'pg_proc'::regclass as class, p.oid, 'functions/' || p.proname as name,
           'routine ' || p.oid::regprocedure as what,
           age(p.xmin) >= 0 and exists (select from pg_proc o
                                        where o.pronamespace = p.pronamespace
                                          and o.proname = p.proname
                                       and age(o.xmin) < 0) as replaced
    from pg_proc p
    where p.pronamespace = 'deferred'::regnamespace
    union all
    select 'pg_class'::regclass, c.oid, 'views/' || c.relname,
           format('view deferred.%I', c.relname), false
    from pg_class c
    where c.relnamespace = 'deferred'::regnamespace and c.relkind = 'v'),
uses as (  -- of a view its rule depends on others
    select distinct case when r.oid is null then d.classid else 'pg_class'::regclass end as class,
           coalesce(r.ev_class, d.objid) as oid, d.refclassid, d.refobjid
    from pg_depend d left join pg_rewrite r on d.classid = 'pg_rewrite'::regclass
        and r.oid = d.objid
    where d.deptype = 'n' and (d.refclassid, d.refobjid) in (select m.class, m.oid from made m)),
leftover as (
    select m.*, 0 as depth from made m
    where case when $1::text is null then m.replaced or m.name <> all ($2::text[])
               else m.name = $1::text end
    union
    select m.*, l.depth + 1
    from leftover l join uses u on (u.refclassid, u.refobjid) = (l.class, l.oid)
        and (u.class, u.oid) <> (l.class, l.oid)
    join made m on (m.class, m.oid) = (u.class, u.oid))
select 'drop ' || l.what as statement, coalesce(array_position($2::text[], l.name), 0) as n,
       coalesce((select string_agg(pg_describe_object(u.class, u.oid, 0), ', ') from uses u
                 where (u.refclassid, u.refobjid) = (l.class, l.oid)
                   and (u.class, u.oid) not in (select m.class, m.oid from made m)), '') as used_by
from leftover l
group by l.class, l.oid, l.what, l.name
order by max(l.depth) desc
