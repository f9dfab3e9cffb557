-- An item of "after": a name, a number, or an object that has one of them as "job", "on" and "as".
create or replace function deferred.__flow_edges(flow json) returns table (n integer, item json,
    name text, job text, condition text, called text)
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select i.n, a.item, case when json_typeof(x.job) = 'string' then x.job #>> '{}' end,
           case when json_typeof(x.job) = 'number' then x.job #>> '{}' end,
           case json_typeof(a.item) when 'object' then coalesce(a.item->>'on', 'ok') else 'ok' end,
           case json_typeof(a.item) when 'object' then a.item->>'as' end
    from deferred.__flow_items(flow) i
    cross join lateral json_array_elements(case json_typeof(i.job->'after')
                                                when 'array' then i.job->'after'
                                                    else json_build_array(i.job->'after') end)
                                                        a(item)
    cross join lateral (select case json_typeof(a.item) when 'object' then a.item->'job'
                                    else a.item end as job) x
    where i.job->'after' is not null
$$;
comment on function deferred.__flow_edges is 'what the jobs of a flow say they wait for';
