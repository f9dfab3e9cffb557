-- Waits for a claim that is under way in a lane. It has locked the place of the lane, or, for the
-- first place, its guard. The lock is taken in a subtransaction, whose end releases it.
create or replace function deferred.__lane_await(p_queue text, p_priority smallint) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    perform from deferred.__deferred_cursor p where p.queue = p_queue and p.priority = p_priority
    order by p.queue desc, p.priority desc, p.seq desc limit 1 for update;
    if not found then
        perform from deferred.__deferred_limit_guard g
        where g.n = deferred.__lane_guard(p_queue, p_priority) for update;
    end if;
    raise exception using errcode = 'DEF01';
exception when sqlstate 'DEF01' then
    null;
end
$$;
comment on function deferred.__lane_await is
    'waits until no claim that began earlier is under way in a lane';
