-- Stores many jobs and the edges among them: all or none, by few statements, whatever their number.
--
-- Parents come before their children, so ids rise along every edge and no cycle can arise. No other
-- session sees these jobs yet. So parents are marked at once, and no note is needed to link them.
-- Only a job with a parent outside the flow is linked as by option "after". A callback waits for
-- all other jobs: deferred.__settle() counts these edges in steps. So workers that end jobs of the
-- flow never write the same row.
create or replace function deferred.defer_flow(flow json) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_flow  bigint;
    v_ids   bigint[];
    v_jobs  integer;
    v       record;
begin
    perform deferred.__flow_check(flow, false);
    v_flow := nextval('deferred.__deferred_id_seq');
    v_jobs := json_array_length(flow->'jobs');
    v_ids := deferred.__flow_store(flow, v_flow);
    insert into deferred.__deferred_flow (id, label, on_failure, jobs, created_by)
    values (v_flow, flow->>'label', coalesce(flow->>'on_failure', 'continue'), cardinality(v_ids),
            deferred.__actor());
    insert into deferred.__deferred_member (flow, job, name, part)
    select v_flow, u.id, i.job->>'name',
           case when i.callback then 't' when i.n in (select e.n from deferred.__flow_edges(flow) e
                                                      where e.condition <> 'ok'
                                                        and e.name is not null) then 's' end::"char"
    from unnest(v_ids) with ordinality u(id, n) join deferred.__flow_items(flow) i on i.n = u.n;

    with edge as (
        insert into deferred.__deferred_edge (child, parent, kind, name)
        select c.job, p.job, left(e.condition, 1)::"char", coalesce(e.called, e.name)
        from deferred.__flow_edges(flow) e
        join unnest(v_ids) with ordinality c(job, n) on c.n = e.n
        join deferred.__deferred_member p on p.flow = v_flow and p.name = e.name
        where not exists (select from deferred.__flow_edges(flow) x
                          where x.job is not null and x.n = e.n)
        union all
        select v_ids[i.n], p.job, case i.job->>'on' when 'ended' then 'e' when 'failed' then 'F'
                                       else 'O' end::"char", p.name
        from deferred.__flow_items(flow) i join deferred.__deferred_member p on p.flow = v_flow
            and p.job < v_ids[v_jobs + 1]
        where i.callback
        returning child, parent, kind),
    wait as (
        insert into deferred.__deferred_wait as w (id, waits, failure, due_at)
        select e.child, e.waits, e.failure, h.due_at
        from (select e.child, count(*) as waits, max(0) filter (where e.kind = 'F') as failure
              from edge e group by e.child) e join deferred.__deferred_hot h on h.id = e.child
        on conflict (id) do update set waits = w.waits + excluded.waits  -- it waits for events
        returning id)
    update deferred.__deferred_hot h
    set watched = case when x.watched then true end,
        due_at = case when x.waits then 'infinity' else h.due_at end
    from (select e.id, bool_or(e.watched) as watched, bool_or(not e.watched) as waits
          from (select distinct e.parent as id, true as watched from edge e
                union all select w.id, false from wait w
                union all select j, true from unnest(v_ids[1:v_jobs]) j
                    where flow->>'on_failure' = 'cancel') e group by e.id) x
    where h.id = x.id;
    for v in
        select c.job, jsonb_agg(jsonb_build_object('job', coalesce(p.job::text, e.job), 'on',
                                                   e.condition) ||
                                case when coalesce(e.called, e.name) is not null
                                         then jsonb_build_object('as', coalesce(e.called, e.name))
                                             else '{}' end) as after
        from deferred.__flow_edges(flow) e
        join unnest(v_ids) with ordinality c(job, n) on c.n = e.n
        left join deferred.__deferred_member p on p.flow = v_flow and p.name = e.name
        where e.n in (select x.n from deferred.__flow_edges(flow) x where x.job is not null)
        group by c.job
    loop
        perform deferred.__after(v.job, v.after);
    end loop;
    return v_flow;
end
$$;
comment on function deferred.defer_flow(json) is
    'defers jobs that wait for each other: {"jobs": [{"name", "fn", "after": [names], options}], '
    '"then": [callbacks]}. Returns the id of the flow, by which flow_jobs() lists them.';
grant execute on function deferred.defer_flow(json) to deferred_producer;
