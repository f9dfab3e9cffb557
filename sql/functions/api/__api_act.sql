-- PATCH and DELETE of a job, and its retry.
create or replace function deferred.__api_act(t deferred.__deferred_token, op text, id text,
                                              body text) returns text
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_id     bigint := deferred.__api_job_of(t, id, 'control');
    v_change json;
begin
    if op = 'update' then
        v_change := deferred.__api_json('body', body);
        if json_typeof(v_change) = 'object' and v_change->>'queue' is not null then
            perform deferred.__api_may(t, array[d.fn], array[v_change->>'queue'])
            from deferred.__deferred d where d.id = v_id;
        end if;
        if not deferred.update(v_id, v_change) then
            raise exception using errcode = 'P0002',
                message = format('job %s does not exist', v_id),
                hint = 'it was purged meanwhile';
        end if;
    elsif op = 'cancel' then
        if not deferred.cancel(v_id) then
            raise exception using errcode = '55000',
                message = format('job %s cannot be cancelled: it is %s', v_id,
                                 (select j.state from deferred.job j where j.id = v_id)),
                hint = 'only jobs that have not ended can be cancelled';
        end if;
    else
        perform deferred.__api_object(body, '{}');
        perform deferred.__api_may(t, array[d.fn], array[d.queue])
        from deferred.__deferred d where d.id = v_id;
        perform deferred.retry(v_id);
    end if;
    return deferred.__api_job(v_id, 'read' = any (t.may));
end
$$;
