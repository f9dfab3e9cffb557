-- admin_history: what a table of the history is made of, so that another server can have the like.
-- no parameters
-- returns the tables and their columns in order: table (text), column as it stands in a create table (text); then, with table NULL, wal_level (text)
-- locks: none
(select c.relname::text, quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod)
            || coalesce((select ' collate ' || quote_ident(k.collname) from pg_catalog.pg_collation k
                         where k.oid = a.attcollation and k.collname <> 'default'), '')
            || case when a.attnotnull then ' not null' else '' end
 from pg_catalog.pg_class c join pg_catalog.pg_attribute a on a.attrelid = c.oid
 where c.oid in ('deferred.__deferred'::regclass, 'deferred.__deferred_log'::regclass) and a.attnum > 0 and not a.attisdropped
 order by c.relname, a.attnum)
union all
select null, current_setting('wal_level')
