-- The row with the version is locked, so one worker does this at a time. A later statement reads
-- the schedules, and so sees those whose notes the earlier one has deleted.
create or replace function deferred.__schedule_raise() returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_old timestamptz;
    v_new timestamptz;
begin
    select s.next_tick into v_old from deferred.__deferred_state s where s.version is not null
    for update skip locked;
    if found then
        delete from deferred.__deferred_state s where s.version is null;
        v_new := coalesce((select min(s.next_at) from deferred.__deferred_schedule s), 'infinity');
        if v_new <> v_old then
            update deferred.__deferred_state s set next_tick = v_new where s.version is not null;
        end if;
    end if;
end
$$;
comment on function deferred.__schedule_raise() is 'notes when the next tick of all schedules is';
