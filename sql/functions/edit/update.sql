create or replace function deferred.update(id bigint, changes json) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    return deferred.__update($1, deferred.__update_check($2), $2->'params');
end
$$;
comment on function deferred.update(bigint, json) is
    'change queue, label, priority, delay or run_at, max_attempts, timeout or params of a job that '
    'has not been claimed. Raises 55006 if the job is claimed or has ended. False: no such job';
grant execute on function deferred.update(bigint, json) to deferred_producer;
