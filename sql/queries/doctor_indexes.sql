-- doctor_indexes: indexes of ours that the server does not use.
-- no parameters
-- returns index (text, schema-qualified), its table (text), it is of a partitioned table, and some partition lacks it (bool); at most 10
-- locks: none
select i.indexrelid::regclass::text, i.indrelid::regclass::text, c.relkind = 'I'
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
where c.relnamespace = 'deferred'::regnamespace and not (i.indisvalid and i.indisready and i.indislive)
order by 1
limit 10
