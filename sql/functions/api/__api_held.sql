-- Requests of a worker about a job that it has claimed: finish, fail, snooze, extend, progress,
-- step.
create or replace function deferred.__api_held(t deferred.__deferred_token, op text, id text,
                                               body text) returns text
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    b         json := deferred.__api_object(body, '{receipt}' || case op
                          when 'finish' then '{result}'::text[]
                          when 'fail' then '{error,retry_in,final}'
                          when 'snooze' then '{delay}' when 'extend' then '{lease}'
                          when 'progress' then '{done,total,text}' else '{name,value}' end);
    v_id      bigint := deferred.__api_job_of(t, id, 'work');
    v_receipt bigint;
    v_at      timestamptz;
begin
    if (b->>'receipt' ~ '^-?[0-9]{1,19}$') is not true then
        raise exception using errcode = '22023',
            message = format('receipt ''%s'' is not valid', left(b->>'receipt', 200)),
            hint = 'pass the text that the claim has returned';
    end if;
    v_receipt := (b->>'receipt')::bigint;
    case op
    when 'finish' then
        perform deferred.finish(v_id, v_receipt, case when json_typeof(b->'result') = 'string'
            then b->>'result' else nullif((b->'result')::text, 'null') end);
    when 'fail' then
        v_at := deferred.fail(v_id, v_receipt, b->>'error',
                              deferred.__ms('retry_in', b->>'retry_in'),
                              coalesce((b->>'final')::boolean, false));
    when 'snooze' then
        v_at := deferred.snooze(v_id, v_receipt, deferred.__ms('delay', b->>'delay'));
    when 'extend' then
        v_at := deferred.extend(v_id, v_receipt,
                                coalesce(deferred.__ms('lease', b->>'lease'), 60000));
    when 'progress' then
        perform deferred.progress(v_id, v_receipt, deferred.__number('done', b->>'done')::bigint,
                                  deferred.__number('total', b->>'total')::bigint, b->>'text');
    else
        perform deferred.step(v_id, v_receipt, b->>'name', b->'value');
    end case;
    return json_build_object('id', v_id, case when op = 'extend' then 'lease_ends_at'
                                              else 'due_at' end, v_at);
end
$$;
