create or replace function deferred.schedule_run(name text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    s    deferred.__deferred_schedule := deferred.__schedule_get($1, false);
    v_now timestamptz := clock_timestamp();
    v_id bigint;
begin
    v_id := deferred.__schedule_defer(s, v_now);
    insert into deferred.__deferred_tick (schedule, tick, what, job_id, previous)
    values (s.id, v_now, 'by hand', v_id, s.queued_at);
    return v_id;
end
$$;
comment on function deferred.schedule_run(text) is
    'a job of a schedule now, outside of its rule; returns the job id';
grant execute on function deferred.schedule_run(text) to deferred_producer;
