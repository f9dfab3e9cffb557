-- POST /v1/claim: claims jobs for a worker. A receipt is text, because numbers of JSON have 53 bits
-- in some languages.
create or replace function deferred.__api_claim(t deferred.__deferred_token, body text) returns text
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_body   json := deferred.__api_object($2, '{queues,functions,max,lease}');
    v_fns    text[] := deferred.__api_names('functions', v_body->'functions');
    v_queues text[] := deferred.__api_names('queues', v_body->'queues');
    v_max    double precision := deferred.__number('max', v_body->>'max');
begin
    if v_max not between 1 and 1000 then
        raise exception using errcode = '22003',
            message = format('option ''max'' is out of range: %s', v_max),
            hint = 'claim 1 to 1000 jobs';
    end if;
    if v_queues is null and t.queues is not null then
        raise exception using errcode = '22023',
            message = format('token ''%s'' is for some queues, and the body names none', t.name),
            hint = 'name the queues: {"queues": ["mail"]}';
    end if;
    perform deferred.__api_may(t, array[f], array[coalesce(q, t.queues[1], 'default')])
    from unnest(v_fns) f left join unnest(v_queues) q on true;
    return json_build_object('jobs', coalesce(
        (select json_agg(json_build_object('id', j.id, 'receipt', j.receipt::text, 'fn', j.fn,
                             'params', j.params, 'attempt', j.attempt,
                             'max_attempts', j.max_attempts, 'queue', j.queue, 'key', j.key,
                             'label', j.label, 'steps', j.steps, 'parents', j.parents,
                             'timeout_ms', j.timeout_ms, 'tick', j.tick,
                             'previous_tick', j.previous_tick, 'traceparent', j.traceparent,
                             'created_at', j.created_at, 'lease_ends_at', j.lease_ends_at))
         from deferred.claim_jobs(v_queues, v_fns, coalesce(v_max::integer, 1),
                                  coalesce(deferred.__ms('lease', v_body->>'lease'), 60000)) j),
        '[]'));
end
$$;
