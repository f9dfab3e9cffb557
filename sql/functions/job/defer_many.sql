create or replace function deferred.defer_many(jobs json) returns setof bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v      record;
    v_flow bigint;
begin
    select * into v from deferred.__defer_many_plain(jobs);
    if v.plain then
        return query select unnest(v.ids);
        return;
    end if;
    if jobs::text like any (array['%"after"%', '%"wait_for"%', '%"flow"%', E'%\\\\u%']) then
        select count(e.job->'after') > 0 or count(e.job->'wait_for') > 0
            or count(distinct e.job->>'flow') > 1 or count(e.job->'flow') not in (0, count(*))
               or bool_or(e.job->>'flow' !~ '^[1-9][0-9]{0,17}$') as single,
               min(e.job->>'flow') as flow
        into v from json_array_elements(jobs) as e(job);
        if v.single then
            return query
                select deferred.defer(e.job->>'fn', coalesce(e.job->'params', '{}'),
                                      (e.job::jsonb - array['fn', 'params'])::json)
                from json_array_elements(jobs) with ordinality as e(job, n) order by e.n;
            return;
        end if;
        v_flow := v.flow;
    end if;
    -- One look at each job; params by "->", which keeps them byte for byte. An option that no job
    -- has is not an array: an array of NULLs costs half a microsecond a job.
    return query select m.* from (
        select array_agg(j.fn), array_agg(coalesce(j.call_params, '{}')),
            case when count(j.queue) > 0 then array_agg(j.queue) end,
            case when count(j.label) > 0 then array_agg(j.label) end,
            case when count(j.priority) > 0
                 then array_agg(deferred.__number('priority', j.priority)::integer) end,
            case when count(j.delay) > 0 then array_agg(deferred.__ms('delay', j.delay)) end,
            case when count(j.run_at) > 0
                 then deferred.__moments('run_at', array_agg(j.run_at)) end,
            case when count(j.expires) > 0 then array_agg(deferred.__ms('expires', j.expires)) end,
            case when count(j.expires_at) > 0
                 then deferred.__moments('expires_at', array_agg(j.expires_at)) end,
            case when count(j.key) > 0 then array_agg(j.key) end,
            case when count(j.on_duplicate) > 0 then array_agg(j.on_duplicate) end,
            case when count(j.max_attempts) > 0
                 then array_agg(deferred.__number('max_attempts', j.max_attempts)::integer) end,
            case when count(j.timeout) > 0 then array_agg(deferred.__ms('timeout', j.timeout)) end,
            case when count(j.backoff_floor) > 0
                 then array_agg(deferred.__ms('backoff_floor', j.backoff_floor)) end,
            case when count(j.backoff_ceiling) > 0
                 then array_agg(deferred.__ms('backoff_ceiling', j.backoff_ceiling)) end,
            case when count(j.backoff_exponent) > 0
                 then array_agg(deferred.__number('backoff_exponent', j.backoff_exponent)) end,
            case when count(j.concurrency_key) > 0 then array_agg(j.concurrency_key) end,
            case when count(j.concurrency) > 0
                 then array_agg(deferred.__number('concurrency', j.concurrency)::integer) end,
            case when count(j.tags) > 0 then array_agg(j.tags) end,
            case when count(j.traceparent) > 0 then array_agg(j.traceparent) end,
            case when count(j.key_until) > 0
                 then array_agg(deferred.__key_until(j.key_until)) end
        from (
            select e.job->'params' as call_params, r.*
            from (select json_array_elements(jobs) as job) e
            cross join lateral json_to_record(e.job) as r(fn text, queue text, label text,
                priority text, delay text, run_at text, expires text, expires_at text, key text,
                on_duplicate text, max_attempts text, timeout text, backoff_floor text,
                backoff_ceiling text, backoff_exponent text, concurrency_key text,
                concurrency text, tags json, traceparent text, key_until text)) j) a(fn, params,
                queue, label, priority, delay_ms, run_at, expires_ms, expires_at, key,
                on_duplicate, max_attempts, timeout_ms, floor_ms, ceiling_ms, exponent,
                concurrency_key, concurrency, tags, traceparent, key_until_ms)
    cross join lateral deferred.__enqueue_many(a.fn, a.params, a.queue, a.label, a.priority,
        a.delay_ms, a.run_at, a.expires_ms, a.expires_at, a.key, a.on_duplicate, a.max_attempts,
        a.timeout_ms, a.floor_ms, a.ceiling_ms, a.exponent, a.concurrency_key, a.concurrency,
        a.tags, a.traceparent, v_flow, a.key_until_ms) m;
end
$$;
comment on function deferred.defer_many(json) is
    'defer a JSON array of {"fn", "params", options}; returns the job ids in its order';
grant execute on function deferred.defer_many(json) to deferred_producer;

-- With two that take JSON a plain literal would be ambiguous: of several, the one that takes text
-- gets it.
create or replace function deferred.defer_many(jobs text) returns setof bigint
language sql
as $$
    select deferred.defer_many(deferred.__json('jobs', $1))
$$;
comment on function deferred.defer_many(text) is 'the same with the text of the array';
grant execute on function deferred.defer_many(text) to deferred_producer;

create or replace function deferred.defer_many(jobs jsonb) returns setof bigint
language sql
as $$
    select deferred.defer_many($1::pg_catalog.json)
$$;
comment on function deferred.defer_many(jsonb) is 'the same with jsonb';
grant execute on function deferred.defer_many(jsonb) to deferred_producer;
