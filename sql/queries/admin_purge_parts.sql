-- admin_purge_parts: partitions of the log and how long they are.
-- no parameters
-- returns partition (text, schema-qualified), pages (int8)
-- locks: none
select format('deferred.%I', c.relname), pg_relation_size(c.oid) / current_setting('block_size')::int8
from pg_catalog.pg_inherits i join pg_catalog.pg_class c on c.oid = i.inhrelid
where i.inhparent = 'deferred.__deferred_log'::regclass
order by c.relname
