-- Part of deferred.__api_many(): stores jobs that have no options and no key, if all are of one
-- token. The token may use any function and queue, the queue 'default' has no settings, and no
-- function or role has limits. Otherwise it returns no row, and stores nothing. Each statement here
-- costs as much as three jobs.
create or replace function deferred.__api_simple(tokens text[], bodies text[], keys text[])
returns table (item integer, status integer, answer text, location text, replayed boolean,
               retry_after integer, who text)
language plpgsql
as $$
#variable_conflict use_column
declare
    t      deferred.__deferred_token;
    v_body text;
    v_job  jsonb;
    v_fn   text collate "C" := '';
    v_fns  text[];
    v_now  timestamptz;
begin
    if ($1[1] = all ($1) and num_nonnulls(variadic $3) = 0
        and pg_sequence_last_value('deferred.__deferred_unrestricted') = 1) is not true then
        return;
    end if;
    foreach v_body in array $2 loop
        if octet_length(v_body) > 512 then return; end if;
        v_job := v_body;
        if v_job - '{fn,params}'::text[] <> '{}' then return; end if;
        if (v_fn = v_job->>'fn') is not true then
            v_fn := v_job->>'fn';
            if (length(v_fn) <= 127 and v_fn <> 'send_mail'
                and v_fn ~ '^[A-Za-z_][A-Za-z0-9_.]*$') is not true then
                return;
            end if;
        end if;
        v_fns := v_fns || v_fn;
    end loop;
    t := deferred.__api_begin($1[1], 'defer');
    if num_nonnulls(t.functions, t.queues) > 0
        or (select q.simple from deferred.__deferred_queue q where q.name = 'default')
            is not true then
        return;
    end if;
    v_now := clock_timestamp();
    return query
    with job as materialized (
        select nextval('deferred.__deferred_id_seq') as id, i.n::integer as n, i.fn,
               coalesce(i.body->'params', '{}') as params
        from unnest(v_fns, $2::json[]) with ordinality i(fn, body, n)),
    hot as (
        insert into deferred.__deferred_hot (id, queue, fn, visible_at)
        select j.id, 'default', j.fn, v_now from job j),
    call as (
        insert into deferred.__deferred (id, queue, fn, params, created_at, created_by)
        select j.id, 'default', j.fn, j.params, v_now, 'token:' || t.name from job j)
    select j.n, 201, deferred.__api_stored(j.id), '/v1/jobs/' || j.id, false, null::integer, t.name
    from job j;
    if not deferred.__nobody_waits() then
        perform deferred.__wake('default');
    end if;
end
$$;
