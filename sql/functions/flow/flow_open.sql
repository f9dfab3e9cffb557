-- Callbacks are tried here, so that who closes the flow, later and elsewhere perhaps, does not
-- learn what is wrong with them.
create or replace function deferred.flow_open(flow json default '{}') returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_flow bigint;
begin
    perform deferred.__flow_check(flow, true);
    if json_array_length(flow->'then') > 0 then
        begin
            perform deferred.__flow_store((select json_object_agg(k.key, k.value)
                                           from json_each(flow) k where k.key <> 'jobs'),
                                               nextval('deferred.__deferred_id_seq'));
            raise exception using errcode = 'DF001';
        exception when sqlstate 'DF001' then
            null;
        end;
    end if;
    if flow->'jobs' is not null then
        v_flow := deferred.defer_flow((select json_object_agg(k.key, k.value) from json_each(flow) k
                                       where k.key <> 'then'));
        update deferred.__deferred_flow f set jobs = null, opened = true where f.id = v_flow;
    else
        v_flow := nextval('deferred.__deferred_id_seq');
        insert into deferred.__deferred_flow (id, label, on_failure, opened, created_by)
        values (v_flow, flow->>'label', coalesce(flow->>'on_failure', 'continue'), true,
                deferred.__actor());
    end if;
    insert into deferred.__deferred_flow_open (flow, spec)
    values (v_flow, case when json_array_length(flow->'then') > 0
                             then (select json_object_agg(k.key, k.value) from json_each(flow) k
                                   where k.key in ('then', 'traceparent')) end);
    return v_flow;
end
$$;
comment on function deferred.flow_open(json) is
    'begins a flow to which jobs are added by option "flow", until it is closed and all its jobs '
    'have ended. Takes {"label", "on_failure", "jobs", "then"} as defer_flow() does, all '
    'optional. Returns its id.';
grant execute on function deferred.flow_open(json) to deferred_producer;
