create or replace function deferred.__tick(most integer, out dealt integer, out wait_ms bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    dealt := deferred.__tick_at(most, clock_timestamp()) + deferred.__settle(1000);
    select greatest(0, ceil(extract(epoch from s.next_tick - clock_timestamp()) * 1000)) into wait_ms
    from deferred.__deferred_state s where s.next_tick < 'infinity';
    if exists (select from deferred.__deferred_ended) then
        wait_ms := 0;
    end if;
end
$$;
comment on function deferred.__tick(integer) is 'has due ticks of schedules become jobs, and tells jobs that wait of ends; returns how many it dealt with, and milliseconds until the next one, NULL: there is none';
grant execute on function deferred.__tick(integer) to deferred_worker;
