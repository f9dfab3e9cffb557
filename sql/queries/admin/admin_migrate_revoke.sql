-- admin_migrate_revoke: what takes from functions and views what files gave them earlier: rights of
-- our roles, and comments. "create or replace" leaves both. Rights that others were given stay.
-- params: files text[]
-- returns: statements text
-- rows: one row: statements with ';' between
-- locks: none
with made as (
    select 'routine ' || p.oid::regprocedure as what, p.proacl as rights,
           obj_description(p.oid, 'pg_proc') as comment
    from pg_proc p
    where p.pronamespace = 'deferred'::regnamespace and 'functions/' || p.proname = any ($1::text[])
    union all
    select 'table ' || c.oid::regclass, c.relacl, null
    from pg_class c
    where c.relnamespace = 'deferred'::regnamespace and c.relkind = 'v'
      and 'views/' || c.relname = any ($1::text[]))
select concat_ws('; ',
    (select string_agg(distinct format('revoke all on %s from %s', m.what, r.rolname), '; ')
     from made m cross join lateral aclexplode(m.rights) a join pg_roles r on r.oid = a.grantee
     where r.rolname in ('deferred_producer', 'deferred_worker', 'deferred_viewer',
                         'deferred_purger', 'deferred_http',
                         'deferred_reader', 'deferred_operator')),
    (select string_agg(format('comment on %s is null', m.what), '; ') from made m
     where m.comment is not null)) as statements
