-- Locks a lane: its newest cursor, which is made where there is none. Each statement behind the
-- lock has a snapshot that is younger than the lock. Without seq in the result another claim is at
-- the lane.
--
-- p_wait: wait for that claim. Claims that wait stand in line at the guard of the lane. At the
-- cursor itself each claim that ends would wake all of them. Where the line is too long the worker
-- comes again.
create or replace function deferred.__lane_lock(w deferred.__window, p_wait boolean)
returns deferred.__window
language plpgsql
as $$
declare
    v deferred.__deferred_cursor;
begin
    w.seq := null;
    if p_wait then
        begin
            perform from deferred.__deferred_limit_guard g
            where g.n = any (array[deferred.__lane_guard(w.queue, w.priority)]) for update;
        exception when lock_not_available then
            return w;
        end;
        -- Each claim that is waited for deletes the row that was, and leaves another one.
        for v_try in 1 .. 20 loop
            select p.* into v from deferred.__deferred_cursor p
            where p.queue = w.queue and p.priority = w.priority and p.seq = (
                select n.seq from deferred.__deferred_cursor n
                where n.queue = w.queue and n.priority = w.priority
                order by n.queue desc, n.priority desc, n.seq desc limit 1) for update;
            exit when found;
        end loop;
    else
        -- The newest is looked for without a lock: one that is locked would be skipped for all
        -- those before it that a held snapshot keeps.
        select p.* into v from deferred.__deferred_cursor p
        where p.queue = w.queue and p.priority = w.priority and p.seq = (
            select n.seq from deferred.__deferred_cursor n
            where n.queue = w.queue and n.priority = w.priority
            order by n.queue desc, n.priority desc, n.seq desc limit 1) for update skip locked;
    end if;
    if v.seq is null then
        -- In this order those that a held snapshot keeps are not walked over.
        perform from deferred.__deferred_cursor p
        where p.queue = w.queue and p.priority = w.priority
        order by p.queue desc, p.priority desc, p.seq desc limit 1;
        if not found then
            -- The first one. Without the guard the insert would wait for another claim that adds
            -- it. If that claim has moved on since, others have followed: so look again, in a
            -- statement behind the lock.
            perform from deferred.__deferred_limit_guard g
            where g.n = any (array[deferred.__lane_guard(w.queue, w.priority)])
            for update skip locked;
            if found then
                -- Written, so that deferred.__lock_unclaimed() with an older snapshot notices.
                update deferred.__deferred_limit_guard g set n = g.n
                where g.n = any (array[deferred.__lane_guard(w.queue, w.priority)]);
                insert into deferred.__deferred_cursor as p (queue, priority, seq, done, cur, id,
                                                            rest_xid, rest_id)
                select w.queue, w.priority, 1, '1:1:', '1:1:', 0, '{}', '{}'
                where not exists (select from deferred.__deferred_cursor x
                                  where x.queue = w.queue and x.priority = w.priority)
                on conflict do nothing returning p.* into v;
            end if;
        end if;
    end if;
    w.seq := v.seq;
    w.done := v.done;
    w.cur := v.cur;
    w.xid := v.xid;
    w.id := v.id;
    w.rest_xid := v.rest_xid;
    w.rest_id := v.rest_id;
    w.fresh := false;
    w.moved := false;
    return w;
end
$$;
grant execute on function deferred.__lane_lock to deferred_worker;
