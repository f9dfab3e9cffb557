-- No schedule has a tick before the least next_tick of __deferred_state. A transaction that sets a
-- schedule adds a note there and locks nothing, so it blocks no other transaction. The note becomes
-- visible together with the schedule. __schedule_raise() deletes notes and stores the least tick of
-- all schedules instead. A tick that is too low costs one unnecessary check.
create or replace function deferred.__schedule_moved(queue text, next_at timestamptz) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    insert into deferred.__deferred_state (next_tick)
    select $2 where not exists (select from deferred.__deferred_state s where s.next_tick <= $2
                                and s.xmin = pg_current_xact_id()::xid);
    -- A service that sleeps is woken. For a later tick, its look every half minute is soon enough.
    if $2 < clock_timestamp() + interval '1 minute' and not deferred.__nobody_waits() then
        perform deferred.__wake($1);
    end if;
end
$$;
comment on function deferred.__schedule_moved is 'a schedule has its next tick then';
