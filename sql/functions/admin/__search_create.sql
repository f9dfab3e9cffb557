-- The statement that makes the index of one partition. What a value is found by is its hash, so
-- that none is too long for an index, and the id, so that the newest are found first, however many
-- there are. A row that has no such value is not in it. It is made of functions of the server
-- alone, none of which fails on any params that are stored: one that did would refuse whoever
-- defers. Searches say the same, see web_jobs.sql, where the order is that of the index, and so no
-- other index of the id will do.
create or replace function deferred.__search_create(part text, number integer, term text,
                                                    apart boolean) returns text
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select format('create index %s %I on deferred.%I ((%s), id) where (%4$s) is not null',
                  case when apart then 'concurrently if not exists' end,
                  part || '_search_' || number, part,
                  case when term = 'label'
                           then
                               'pg_catalog.hashtextextended(label collate pg_catalog."C", '
                               '0::pg_catalog.int8)'
                       else format($f$pg_catalog.hashtextextended(case
                           when (params::pg_catalog.text collate pg_catalog."C")
                               operator(pg_catalog.~*) %L then null
                                else params operator(pg_catalog.#>>) %L::pg_catalog.text[] end
                                    collate pg_catalog."C", 0::pg_catalog.int8)$f$,
                                   E'\\\\u(0000|d[89a-f])',
                                   string_to_array(substr(term, 8), '.')) end)
$$;
