-- admin_migrate_revoke: what takes from functions and views what files gave them earlier: rights of
-- our roles, and comments. "create or replace" leaves both. Rights that others were given stay.
-- params: files text[]
-- returns: statements text
-- Rows: one row: statements with ';' between
-- Locks: none
with made as (
    select 'routine' as kind, p.oid::regprocedure::text as name, p.proacl as rights,
           obj_description(p.oid, 'pg_proc') as comment
    from pg_proc p
    where p.pronamespace = 'deferred'::regnamespace and 'functions/' || p.proname = any ($1::text[])
    union all
    select 'view', c.oid::regclass::text, c.relacl, obj_description(c.oid, 'pg_class')
    from pg_class c
    where c.relnamespace = 'deferred'::regnamespace and c.relkind = 'v'
      and 'views/' || c.relname = any ($1::text[]))
select concat_ws('; ',
    (select string_agg(distinct format('revoke all on %s %s from %s',
                                       replace(m.kind, 'view', 'table'),
                                       m.name, r.rolname), '; ')
     from made m cross join lateral aclexplode(m.rights) a join pg_roles r on r.oid = a.grantee
     where r.rolname in ('deferred_producer', 'deferred_worker', 'deferred_viewer',
                         'deferred_purger', 'deferred_http',
                         'deferred_reader', 'deferred_operator')),
    (select string_agg(format('comment on %s %s is null', m.kind, m.name), '; ') from made m
     where m.comment is not null)) as statements
