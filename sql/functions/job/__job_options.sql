-- The one list of what can be said of a job. but: options that are refused where it is made. It is
-- immutable, so that a plan has the list and no call.
create or replace function deferred.__job_options(but text[] default '{}') returns text[]
language sql immutable
as $$
    select array_agg(o.name order by o.n)
    from unnest('{queue,label,priority,delay,run_at,expires,expires_at,key,
                 key_until,on_duplicate,max_attempts,timeout,backoff_floor,backoff_ceiling,
                 backoff_exponent,concurrency_key,concurrency,tags,traceparent,after,
                 wait_for,flow}'::text[])
         with ordinality o(name, n)
    where o.name <> all ($1)
$$;
comment on function deferred.__job_options is 'names of the options of a job';
grant execute on function deferred.__job_options to deferred_producer;
