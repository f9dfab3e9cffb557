create or replace function deferred.__flow_check(flow json, open boolean) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v record;
begin
    if json_typeof(flow) is distinct from 'object' then
        raise exception using errcode = '22023', 
            message = format('a flow must be a JSON object, but a JSON %s was given', coalesce(json_typeof(flow), 'null')),
            hint = 'for example {"jobs": [{"name": "pack", "fn": "pack"}, {"fn": "mail", "after": ["pack"]}], "then": [{"fn": "report", "on": "ended"}]}';
    elsif exists (select from json_object_keys(flow) k where k not in ('label', 'on_failure', 'jobs', 'then', 'traceparent')) then
        raise exception using errcode = '22023',
            message = format('flow: unknown option "%s"',
                             (select left(k, 200) from json_object_keys(flow) k where k not in ('label', 'on_failure', 'jobs', 'then', 'traceparent') limit 1)),
            hint = 'options: jobs, then, on_failure, label, traceparent';
    elsif coalesce(flow->>'on_failure', 'continue') not in ('continue', 'cancel') then
        raise exception using errcode = '22023', message = format('flow: invalid value %L for option "on_failure"', left(flow->>'on_failure', 200)),
            hint = 'continue: only what waits for the one that failed is skipped; cancel: the rest is cancelled';
    elsif (json_typeof(flow->'jobs') is distinct from 'array' and (flow->'jobs' is not null or not open)) or json_typeof(coalesce(flow->'then', '[]')) <> 'array' then
        raise exception using errcode = '22023', message = 'the jobs of a flow are a list, and so are its callbacks ("then")';
    elsif json_array_length(flow->'jobs') = 0 or json_array_length(coalesce(flow->'then', '[]')) > 8 or length(flow->>'label') > 1000 then
        raise exception using errcode = '22023', message = 'a flow has at least a job, at most 8 callbacks, and a label of at most 1000 characters';
    end if;
    for v in
        select case when i.callback then format('callback %s', i.n - coalesce(json_array_length(flow->'jobs'), 0)) else format('job %s', i.n) end as which, w.wrong
        from deferred.__flow_items(flow) i
        cross join lateral (select case
            when json_typeof(i.job) <> 'object' then format('must be a JSON object, but a JSON %s was given', json_typeof(i.job))
            when i.job->>'fn' is null then 'has no function: a message is no job of a flow'
            when i.job->'name' is not null and (json_typeof(i.job->'name') = 'string' and length(i.job->>'name') between 1 and 100) is not true
                then 'has a name that is no text of 1 to 100 characters'
            when i.callback and (i.job->'after' is not null or i.job->>'on' not in ('ok', 'failed', 'ended')) then 'waits for all jobs of the flow: "on" is ok, failed or ended'
            when not i.callback and i.job->'on' is not null then 'has an option "on", which callbacks have'
            when i.job->'flow' is not null then 'is of this flow, and cannot be added to another one' end as wrong) w
        where w.wrong is not null order by i.n limit 1
    loop
        raise exception using errcode = '22023', message = format('%s %s', v.which, v.wrong);
    end loop;
    for v in
        select i.job->>'name' as name from deferred.__flow_items(flow) i where i.job->'name' is not null group by 1 having count(*) > 1 limit 1
    loop
        raise exception using errcode = '22023', message = format('two jobs of the flow are called "%s"', v.name);
    end loop;
    for v in
        select case when c.job->>'name' is not null then format('job "%s"', c.job->>'name') else format('job %s', e.n) end as which, e.*, p.n as parent,
               count(*) over (partition by e.n) as many, count(*) over (partition by e.n, coalesce(e.name, e.job)) as same
        from deferred.__flow_edges(flow) e
        join deferred.__flow_items(flow) c on c.n = e.n
        left join deferred.__flow_items(flow) p on p.job->>'name' = e.name
        order by (p.n < e.n or (e.name is null and e.job ~ '^[0-9]{1,18}$')) is true, e.n
    loop
        if (v.condition in ('ok', 'failed', 'ended') and coalesce(length(v.called), 1) between 1 and 100 and num_nonnulls(v.name, v.job) = 1
            and (v.job is null or v.job ~ '^[0-9]{1,18}$')) is not true
           or (json_typeof(v.item) = 'object' and v.item::jsonb - array['job', 'on', 'as'] <> '{}') then
            raise exception using errcode = '22023', message = format('%s: invalid value %L for option "after"', v.which, left(v.item::text, 200)),
                hint = 'for example ["pack", 17, {"job": "mail", "on": "failed", "as": "m"}]; on: ok, failed or ended';
        elsif v.name is not null and v.parent is null then
            raise exception using errcode = '22023', message = format('%s waits for "%s", and no job of the flow is called so', v.which, left(v.name, 200));
        elsif v.parent >= v.n then
            raise exception using errcode = '22023', message = format('%s waits for "%s", which does not stand before it', v.which, v.name),
                hint = 'a job stands behind all that it waits for: so no two wait for each other, by whatever way round';
        elsif v.many > 1000 or v.same > 1 then
            raise exception using errcode = '22023', message = case when v.many > 1000 then format('%s waits for %s jobs, more than 1000', v.which, v.many)
                else format('%s waits for %s twice', v.which, coalesce(format('"%s"', v.name), v.job)) end;
        end if;
    end loop;
end
$$;
comment on function deferred.__flow_check is 'refuses a flow that is none, and says what is wrong with it; open: it may be without jobs';
