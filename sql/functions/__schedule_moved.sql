-- No schedule has a tick before __deferred_state.next_tick: so whoever sets one locks that row first, as __schedule_get() does, then the
-- schedule, and lowers it here. It is raised by who holds it and finds that there is none so early, __schedule_raise(); he waits for nobody, and so
-- a transaction that sets a schedule and stays open holds up nobody but others who set one. Too low, it costs a look.
create or replace function deferred.__schedule_moved(queue text, next_at timestamptz) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    update deferred.__deferred_state s set next_tick = $2 where s.next_tick > $2;
    -- A sleeper must learn when to rise; else the look that a service takes every half minute is soon enough.
    if $2 < clock_timestamp() + interval '1 minute' and not deferred.__nobody_waits() then
        perform deferred.__wake($1);
    end if;
end
$$;
comment on function deferred.__schedule_moved is 'a schedule has its next tick then';
