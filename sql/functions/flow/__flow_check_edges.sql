-- Part of deferred.__flow_check(): refuses what jobs cannot wait for.
create or replace function deferred.__flow_check_edges(flow json) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v record;
begin
    for v in
        select case when c.job->>'name' is not null then format('job ''%s''', c.job->>'name')
                    else format('job %s', e.n) end as which, e.*, p.n as parent,
               count(*) over (partition by e.n) as many,
               count(*) over (partition by e.n, coalesce(e.name, e.job)) as same
        from deferred.__flow_edges(flow) e
        join deferred.__flow_items(flow) c on c.n = e.n
        left join deferred.__flow_items(flow) p on p.job->>'name' = e.name
        order by (p.n < e.n or (e.name is null and e.job ~ '^[0-9]{1,18}$')) is true, e.n
    loop
        if (v.condition in ('ok', 'failed', 'ended')
            and coalesce(length(v.called), 1) between 1 and 100 and num_nonnulls(v.name, v.job) = 1
            and (v.job is null or v.job ~ '^[0-9]{1,18}$')) is not true
           or (json_typeof(v.item) = 'object'
               and v.item::jsonb - array['job', 'on', 'as'] <> '{}') then
            raise exception using errcode = '22023',
                message = format('flow: %s: option ''after'' has the invalid value ''%s''',
                                 v.which, left(v.item::text, 200)),
                hint = 'write ["pack", 17, {"job": "mail", "on": "failed", "as": "m"}]; "on" is '
                       'ok, failed or ended';
        elsif v.name is not null and v.parent is null then
            raise exception using errcode = '22023',
                message = format('flow: %s waits for ''%s'', but no job of the flow has this name',
                                 v.which, left(v.name, 200)),
                hint = 'name another job of the flow, or give the id of an older job as a number';
        elsif v.parent >= v.n then
            raise exception using errcode = '22023',
                message = format('flow: %s waits for ''%s'', which is listed after it',
                                 v.which, v.name),
                hint = 'list each job after the jobs it waits for, so that no cycle can arise';
        elsif v.many > 1000 or v.same > 1 then
            raise exception using errcode = '22023',
                message = case when v.many > 1000
                    then format('flow: %s waits for %s jobs, more than 1000', v.which, v.many)
                    else format('flow: %s waits for %s twice', v.which,
                                coalesce('''' || v.name || '''', v.job)) end,
                hint = 'a job waits for at most 1000 jobs, each named once';
        end if;
    end loop;
end
$$;
