-- POST /v1/jobs: stores the job of a body. The functions __enqueue...() are called, because the
-- short way of deferred.defer() does not know tokens. Most jobs have no option, and take less time.
create or replace function deferred.__api_id(t deferred.__deferred_token, body text) returns text
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_job     json := deferred.__api_json('body', $2);
    v_plain   boolean := json_typeof(v_job) = 'object';
    v_options jsonb := '{}';
    v_id      bigint;
begin
    perform deferred.__json_check('body', json_build_array(v_job));
    if v_plain then
        v_plain := not exists (select from json_object_keys(v_job) k
                               where k <> all ('{fn,params,queue}'));
    end if;
    if not v_plain then
        v_job := deferred.__api_object($2, '{fn,params}' || deferred.__job_options());
        v_options := deferred.__api_plain(v_job)::jsonb - 'fn';
    end if;
    perform deferred.__api_may(t, array[v_job->>'fn'], array[v_job->>'queue']);
    v_id := case when v_plain
        then deferred.__enqueue(v_job->>'fn', coalesce(v_job->'params', '{}'), v_job->>'queue',
                                null, null, null, null, null, null, null, null, null, null, null,
                                null, null)
        else deferred.__enqueue_opts(v_job->>'fn', coalesce(v_job->'params', '{}'),
                                     v_options::json, null) end;
    return deferred.__api_stored(v_id);
end
$$;
