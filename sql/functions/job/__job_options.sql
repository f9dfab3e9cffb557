-- The one list of what can be said of a job.
create or replace function deferred.__job_options() returns text[]
language sql immutable
as $$
    select '{queue,label,priority,delay,run_at,expires,expires_at,key,
             key_until,on_duplicate,max_attempts,timeout,backoff_floor,backoff_ceiling,
             backoff_exponent,concurrency_key,concurrency,tags,traceparent,after,
             wait_for,flow}'::text[]
$$;
comment on function deferred.__job_options is 'names of the options of a job';
grant execute on function deferred.__job_options to deferred_producer;
