-- index_ls: the indexes for searches.
-- params: none
-- returns: term text, built int8, parts int8, bytes int8, entries int8, wanted bool, json text
-- Rows: one for each term. built: partitions that have it. entries: as the server estimates
-- Locks: none
select x.term, x.built, x.parts, x.bytes, x.entries, x.wanted,
       json_build_object('term', x.term, 'state', case when not x.wanted then 'going'
                                                       when x.built < x.parts then 'partial'
                                                           else 'built' end,
                         'partitions_built', x.built, 'partitions', x.parts, 'bytes', x.bytes,
                         'jobs', x.entries)::text as json
from (select s.term, s.wanted, count(*) filter (where i.valid and not i.net) as built,
             count(*) filter (where not i.net) as parts, coalesce(sum(i.bytes), 0)::int8 as bytes,
             coalesce(sum(greatest(c.reltuples, 0)), 0)::int8 as entries
      from deferred.__deferred_search s
      left join deferred.__search_indexes() i on i.number = s.number
      left join pg_catalog.pg_class c on c.relnamespace = 'deferred'::regnamespace
          and c.relname = i.name
      group by s.term, s.wanted) x
order by x.term
