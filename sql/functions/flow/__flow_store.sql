create or replace function deferred.__flow_store(flow json, p_mark bigint) returns bigint[]
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_ids bigint[];
    v     record;
begin
    v_ids := array(select deferred.defer_many((
        select json_agg((select json_object_agg(k.key, k.value)
                         from (select * from json_each(i.job) j
                               where j.key not in ('name', 'after', 'on')
                               union all select 'traceparent', flow->'traceparent'
                                   where flow->'traceparent' is not null
                                     and i.job->'traceparent' is null) k) order by i.n)
        from deferred.__flow_items(flow) i)));
    -- With a key it may be one that was there, or that was replaced by another one of the flow.
    select u.id, i.job->>'key' as key,
           case when i.callback then format('callback %s',
                                            i.n - coalesce(json_array_length(flow->'jobs'), 0))
                                                else format('job %s', i.n) end as which into v
    from unnest(v_ids) with ordinality u(id, n) join deferred.__flow_items(flow) i on i.n = u.n
    where (u.id > p_mark and (select true from deferred.__deferred_hot h
                              where h.id = u.id and h.xid = pg_current_xact_id())) is not true
       or exists (select from unnest(v_ids) with ordinality o(id, n)
                  where i.job->'key' is not null and o.id = u.id and o.n < u.n)
    order by u.n limit 1;
    if found then
        raise exception using errcode = case when v.id is null then '53400' else '23505' end,
            message = concat('flow: ', v.which, ': ',
                             case when v.id is null then 'its queue is full'
                                  else format('job %s has key ''%s'' already', v.id, v.key) end),
            hint = 'nothing was stored; defer the whole flow again when the queue has room or '
                   'the key is free';
    end if;
    return v_ids;
end
$$;
comment on function deferred.__flow_store(json, bigint) is
    'stores jobs and callbacks of a flow with ids above the mark, without their edges';
