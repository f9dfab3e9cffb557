-- Refuses a flow that is none, and says what is wrong with it; open: it may be without jobs.
create or replace function deferred.__flow_check(flow json, open boolean) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v       record;
    v_wrong text;
begin
    perform deferred.__json_check('flow', flow);
    if json_typeof(flow) is distinct from 'object' then
        raise exception using errcode = '22023',
            message = format('a flow must be a JSON object, but a JSON %s was given',
                             coalesce(json_typeof(flow), 'null')),
            hint =
                'for example {"jobs": [{"name": "pack", "fn": "pack"}, {"fn": "mail", "after": '
                '["pack"]}], "then": [{"fn": "report", "on": "ended"}]}';
    elsif exists (select from json_object_keys(flow) k
                  where k not in ('label', 'on_failure', 'jobs', 'then', 'traceparent')) then
        raise exception using errcode = '22023',
            message = format('flow: option ''%s'' is unknown',
                             (select left(k, 200) from json_object_keys(flow) k
                              where k not in ('label', 'on_failure', 'jobs', 'then', 'traceparent')
                              limit 1)),
            hint = 'known options: jobs, then, on_failure, label, traceparent';
    elsif coalesce(flow->>'on_failure', 'continue') not in ('continue', 'cancel') then
        raise exception using errcode = '22023',
            message = format('flow: option ''on_failure'' has the invalid value ''%s''',
                             left(flow->>'on_failure', 200)),
            hint = 'use continue (skip only what waits for the failed job) or cancel (cancel the '
                   'rest of the flow)';
    end if;
    v_wrong := case
        when flow->'jobs' is null and not open then '''jobs'' is missing'
        when json_typeof(flow->'jobs') <> 'array'
            then format('''jobs'' must be a JSON array, but a JSON %s was given',
                        json_typeof(flow->'jobs'))
        when json_typeof(flow->'then') <> 'array'
            then format('''then'' must be a JSON array, but a JSON %s was given',
                        json_typeof(flow->'then'))
        when json_array_length(flow->'jobs') = 0 then '''jobs'' is empty'
        when json_array_length(flow->'then') > 8
            then format('''then'' has %s callbacks, more than 8', json_array_length(flow->'then'))
        when length(flow->>'label') > 1000
            then format('''label'' has %s characters, more than 1000', length(flow->>'label')) end;
    if v_wrong is not null then
        raise exception using errcode = '22023', message = 'flow: ' || v_wrong,
            hint = 'for example {"jobs": [{"fn": "pack"}], "then": [{"fn": "report", "on": '
                   '"ended"}]}';
    end if;
    for v in
        select case when i.callback
                    then format('callback %s', i.n - coalesce(json_array_length(flow->'jobs'), 0))
                    else format('job %s', i.n) end as which, w.wrong
        from deferred.__flow_items(flow) i
        cross join lateral (select case
            when json_typeof(i.job) <> 'object'
                then format('must be a JSON object, but a JSON %s was given', json_typeof(i.job))
            when i.job->>'fn' is null then 'has no function (a flow cannot contain messages)'
            when i.job->'name' is not null and (json_typeof(i.job->'name') = 'string'
                                                and length(i.job->>'name') between 1
                                                and 100) is not true
                then 'has a name that is not a text of 1 to 100 characters'
            when i.callback and i.job->'after' is not null
                then 'has the option ''after'', which only jobs have'
            when i.callback and i.job->'wait_for' is not null
                then 'has the option ''wait_for'', which only jobs have'
            when i.callback and i.job->>'on' not in ('ok', 'failed', 'ended')
                then format('has the option ''on'' with the invalid value ''%s'': use ok, failed '
                            'or ended', left(i.job->>'on', 200))
            when not i.callback and i.job->'on' is not null
                then 'has the option ''on'', which only callbacks have'
            when i.job->'flow' is not null
                then 'has the option ''flow'', which is for jobs that are added later'
            end as wrong) w
        where w.wrong is not null order by i.n limit 1
    loop
        raise exception using errcode = '22023',
            message = format('flow: %s %s', v.which, v.wrong),
            hint = 'deferred_sql(3) describes the jobs and callbacks of a flow';
    end loop;
    for v in
        select i.job->>'name' as name from deferred.__flow_items(flow) i
        where i.job->'name' is not null group by 1 having count(*) > 1 limit 1
    loop
        raise exception using errcode = '22023',
            message = format('flow: two jobs have the name ''%s''', v.name),
            hint = 'give each job a name of its own';
    end loop;
    perform deferred.__flow_check_edges(flow);
end
$$;
