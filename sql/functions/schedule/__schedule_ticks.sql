create or replace function deferred.__schedule_ticks(name text, most integer)
returns table (tick timestamptz, what text, job_id bigint, previous timestamptz, at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select t.tick, t.what, t.job_id, t.previous, t.at
    from deferred.__schedules() s join deferred.__deferred_tick t on t.schedule = s.id
    where s.name = $1
    order by t.tick desc limit $2
$$;
comment on function deferred.__schedule_ticks(text, integer) is
    'ticks of a schedule that were dealt with, the latest first';
grant execute on function deferred.__schedule_ticks(text, integer) to deferred_producer,
      deferred_viewer;
