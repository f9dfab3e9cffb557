-- doctor_indexes: indexes of ours that the server does not use. An index for searches is reported
-- unless somebody is at work on it.
-- params: none
-- returns: index text, table text, partial bool, repair text?
-- Rows: at most 10: the schema-qualified index and its table. The next column says whether some
--   partition of a partitioned table lacks the index. The last is the command that repairs an index
--   for searches (NULL: another index).
-- Locks: none.
select i.indexrelid::regclass::text as index, i.indrelid::regclass::text as table,
       c.relkind = 'I' as partial, case when s.name is not null
                                            then format('deferred index %s %s',
                                                        case when s.wanted then 'add' else 'rm' end,
           case when s.term ~ '^[a-zA-Z0-9_.]+$' then s.term
                else '''' || replace(s.term, '''', E'''\\''''') || '''' end) end as repair
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
left join deferred.__search_indexes() s on s.name = c.relname
where c.relnamespace = 'deferred'::regnamespace and not (i.indisvalid and i.indisready
    and i.indislive) and s.busy is not true
order by 1
limit 10
