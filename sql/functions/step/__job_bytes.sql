-- The bytes that a claim of a job hands out, params and steps, where they are more than 1,024; else
-- NULL: __deferred_hot.params_bytes.
create or replace function deferred.__job_bytes(p_id bigint, p_params json) returns integer
language sql stable
as $$
    select nullif(coalesce(deferred.__params_bytes(p_params), 1024)
                  + (select coalesce(sum(s.bytes), 0) from deferred.__deferred_step s
                     where s.job_id = p_id)::integer, 1024)
$$;
comment on function deferred.__job_bytes is
    'bytes of params and steps of a job where they are more than 1,024; else NULL';
grant execute on function deferred.__job_bytes to deferred_worker;
