-- admin_migrate_leftover: what stands in the schema that no file has: a function or view whose file went, or a function whose file
-- was applied in this transaction and now says it with other arguments.
-- $1 names of all files, text[]
-- returns one row for each, a statement that drops it (text); what __deferred_source says of files that went is deleted
-- locks: none that others wait for
with gone as (
    delete from deferred.__deferred_source s where s.name <> all ($1::text[]))
select format('drop %s %s', case p.prokind when 'a' then 'aggregate' else 'function' end, p.oid::regprocedure)
from pg_proc p
where p.pronamespace = 'deferred'::regnamespace
  and ('functions/' || p.proname <> all ($1::text[])
       or p.xmin <> pg_current_xact_id()::xid
          and exists (select from pg_proc o where o.pronamespace = p.pronamespace and o.proname = p.proname
                      and o.xmin = pg_current_xact_id()::xid))
union all
select format('drop view deferred.%I', c.relname)
from pg_class c
where c.relnamespace = 'deferred'::regnamespace and c.relkind = 'v' and 'views/' || c.relname <> all ($1::text[])
