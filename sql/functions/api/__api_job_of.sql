-- The id of a job that a token names and may act on with the right that is named. NULL: to look at
-- it is enough. A job that it may not see does not exist for it, so trying ids tells it nothing. A
-- token sees its own jobs. With a right beyond "defer" it sees all jobs of its functions and
-- queues.
create or replace function deferred.__api_job_of(t deferred.__deferred_token, id text,
                                                 need text) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_id bigint := case when $2 ~ '^[1-9][0-9]{0,17}$' then $2::bigint end;
    v_in boolean;
    d    record;
begin
    select x.id, x.fn, x.queue, x.created_by = 'token:' || t.name as own into d
    from deferred.__deferred x where x.id = v_id;
    v_in := deferred.__token_allows(t.functions, d.fn)
        and deferred.__token_allows(t.queues, d.queue);
    if (d.id is not null
        and (d.own or v_in and t.may && array['read', 'control', need])) is not true then
        raise exception using errcode = 'P0002',
            message = format('job %s does not exist', left($2, 200)),
            hint = 'it was never deferred, was purged, or the token may not see it';
    end if;
    if (d.own and need is distinct from 'work' or need is null
        or (v_in and need = any (t.may))) is not true then
        raise exception using errcode = '42501',
            message = format('token ''%s'' may not act on job %s', t.name, v_id),
            hint = format('the job is of another producer, and needs a token with the right ''%s''',
                          need);
    end if;
    perform set_config('deferred.token_reach',
                       case when need = any (t.may) and v_in then 'all' else '' end, true);
    return v_id;
end
$$;
