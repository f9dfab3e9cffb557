create or replace function deferred.__tags_ok(tags text[]) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select tags is null or (cardinality(tags) between 1 and 32 and array_ndims(tags) = 1
        and cardinality(tags) = (select count(distinct t) filter (where length(t) between 1 and 100)
                                 from unnest(tags) t))
$$;
comment on function deferred.__tags_ok(text[]) is
    'true if these are tags as deferred.__tags() makes them';
grant execute on function deferred.__tags_ok(text[]) to deferred_worker;
