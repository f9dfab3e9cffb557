create or replace function deferred.tick(job_id bigint, out schedule text, out tick timestamptz,
                                         out previous timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select s.name, t.tick, t.previous
    from deferred.__deferred_tick t join deferred.__deferred_schedule s on s.id = t.schedule
    where t.job_id = $1 and (deferred.__rule_is_mine(s.owner)
                             or pg_has_role(deferred.__actor(), 'deferred_worker', 'member')
                             or pg_has_role(deferred.__actor(), 'deferred_viewer', 'member'))
$$;
comment on function deferred.tick(bigint) is
    'of which schedule and for which tick a job is, and the tick before it that became a job; '
    'NULL: of none';
grant execute on function deferred.tick(bigint) to deferred_producer, deferred_viewer;
