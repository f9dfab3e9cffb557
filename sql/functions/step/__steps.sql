-- The steps that a job has saved, as one JSON object in their order. NULL: it has none.
create or replace function deferred.__steps(p_id bigint) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select json_object_agg(s.name, s.value order by s.number)::text
    from deferred.__deferred_step s where s.job_id = p_id
$$;
comment on function deferred.__steps is 'the steps that a job has saved, as JSON for its function';
grant execute on function deferred.__steps to deferred_worker;
