create or replace function deferred.__flow_items(flow json) returns table (n integer, job json,
    callback boolean)
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select j.n::integer, j.job, false from json_array_elements(flow->'jobs') with ordinality j(job,
        n)
    union all
    select (coalesce(json_array_length(flow->'jobs'), 0) + t.n)::integer, t.job, true
    from json_array_elements(coalesce(flow->'then', '[]')) with ordinality t(job, n)
$$;
comment on function deferred.__flow_items is
    'jobs and callbacks of a flow, numbered as they are stored';
