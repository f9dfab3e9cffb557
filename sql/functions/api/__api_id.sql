-- POST /v1/jobs: stores the job of a body. The functions __enqueue...() are called, because the
-- short way of deferred.defer() does not know tokens.
create or replace function deferred.__api_id(t deferred.__deferred_token, body text) returns text
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_job     json := deferred.__api_object($2, '{fn,params}' || deferred.__job_options());
    v_params  json := coalesce(v_job->'params', '{}');
    v_options jsonb := deferred.__api_plain(v_job)::jsonb - 'fn';
begin
    perform deferred.__api_may(t, array[v_job->>'fn'], array[v_job->>'queue']);
    return deferred.__api_stored(case when v_options - 'queue' = '{}'
        then deferred.__enqueue(v_job->>'fn', v_params, v_job->>'queue', null, null, null, null,
                                null, null, null, null, null, null, null, null, null)
        else deferred.__enqueue_opts(v_job->>'fn', v_params, v_options::json, null) end);
end
$$;
