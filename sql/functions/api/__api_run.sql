-- Runs one request of the JSON API for a token. arg: the part of the path that varies. given: the
-- parameters of the query. Returns the body of the answer.
create or replace function deferred.__api_run(t deferred.__deferred_token, op text, arg text,
                                              given json, body text) returns text
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_known text[] := case op when 'job' then '{wait}'
                              when 'jobs' then '{state,fn,queue,label,after}' else '{}' end;
    v_bad   text;
begin
    select left(k, 200) into v_bad from json_object_keys(given) k where k <> all (v_known) limit 1;
    if found then
        raise exception using errcode = '22023',
            message = format('parameter ''%s'' of the query is unknown', v_bad),
            hint = 'known parameters: ' || coalesce(nullif(array_to_string(v_known, ', '), ''),
                                                    'none');
    end if;
    return case op
        when 'defer' then deferred.__api_id(t, body)
        when 'batch' then deferred.__api_ids(t, body)
        when 'job' then deferred.__api_job(deferred.__api_job_of(t, arg, null),
                                           'read' = any (t.may))
        when 'jobs' then deferred.__api_jobs(t, given)
        when 'queues' then deferred.__api_queues(t, null)
        when 'queue' then deferred.__api_queues(t, arg)
        when 'event' then deferred.__api_event(t, arg, body)
        when 'claim' then deferred.__api_claim(t, body)
        when 'update' then deferred.__api_act(t, op, arg, body)
        when 'cancel' then deferred.__api_act(t, op, arg, body)
        when 'retry' then deferred.__api_act(t, op, arg, body)
        else deferred.__api_held(t, op, arg, body) end;
end
$$;
