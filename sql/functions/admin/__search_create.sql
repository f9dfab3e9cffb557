-- The statement that makes the index of one partition. The index holds the hash of a value, so that
-- no value is too long for an index. The id comes second, so that the newest jobs are found first.
-- A row that has no such value is not in it. The expression uses only functions of the server, none
-- of which fails on stored params. A failure would make deferred.defer() fail. Searches say the
-- same, see web_jobs.sql, where the order is that of the index, and so no other index of the id
-- will do.
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
