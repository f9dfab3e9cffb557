create or replace function deferred.__schedules() returns setof deferred.__deferred_schedule
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_worker boolean := pg_has_role(deferred.__actor(), 'deferred_worker', 'member');
    v_viewer boolean := pg_has_role(deferred.__actor(), 'deferred_viewer', 'member');
    s deferred.__deferred_schedule;
begin
    for s in select x.* from deferred.__deferred_schedule x order by x.name loop
        if v_worker or deferred.__rule_is_mine(s.owner) then
            return next s;
        elsif v_viewer then
            s.params := null;
            s.opts := null;
            s.last_error := null;
            return next s;
        end if;
    end loop;
end
$$;
comment on function deferred.__schedules() is
    'the schedules of one''s roles; for workers all of them, for viewers without params, options '
    'and errors of those of others';
grant execute on function deferred.__schedules() to deferred_producer, deferred_worker,
      deferred_viewer;
