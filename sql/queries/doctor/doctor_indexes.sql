-- doctor_indexes: indexes of ours that the server does not use. Those for searches are told once nobody is at work on them.
-- no parameters
-- returns index (text, schema-qualified), its table (text), it is of a partitioned table, and some partition lacks it (bool), the command that mends one for searches
--   (text, NULL: it is none); at most 10
-- locks: none
select i.indexrelid::regclass::text, i.indrelid::regclass::text, c.relkind = 'I', case when s.name is not null then format('deferred index %s %s', case when s.wanted then 'add' else 'rm' end,
           case when s.term ~ '^[a-zA-Z0-9_.]+$' then s.term else '''' || replace(s.term, '''', E'''\\''''') || '''' end) end
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
left join deferred.__search_indexes() s on s.name = c.relname
where c.relnamespace = 'deferred'::regnamespace and not (i.indisvalid and i.indisready and i.indislive) and s.busy is not true
order by 1
limit 10
