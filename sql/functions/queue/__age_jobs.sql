-- Raises the priority of jobs that wait in queues with the setting age_ms. It rises by one for each
-- such span since the job became ready, and at most to the highest priority that waits. So no lane
-- is made above those that are there. The next call continues with jobs beyond the first p_most of
-- a lane, with locked jobs, and with lanes that another session has locked.
--
-- A moved job gets a new xid, and so lies beyond the cursor of its new lane. The lock of its old
-- lane keeps claims away, so the job is in no lease. Jobs under a limit have no cursor: a claim
-- looks at each of them again under the lock of the limit.
create or replace function deferred.__age_jobs(p_most integer) returns bigint
language plpgsql
as $$
declare
    v_queue record;
    v_lane  record;
    w       deferred.__window;
    v_rows  bigint;
    v_all   bigint := 0;
begin
    for v_queue in
        select q.name, q.age_ms from deferred.__deferred_queue q
        where q.age_ms is not null and q.removed_at is null
    loop
        w.queue := v_queue.name;
        for v_lane in
            select r.priority, array_agg(r.id) as ids, max(max(r.priority)) over () as high
            from deferred.__ready(array[v_queue.name], null, null, null, p_most) r
            group by r.priority order by r.priority desc
        loop
            continue when v_lane.priority = v_lane.high;
            w.priority := v_lane.priority;
            w := deferred.__lane_lock(w, false);
            continue when w.seq is null;
            with old as materialized (
                select h.id, h.visible_at from deferred.__deferred_hot h
                where h.id = any (v_lane.ids) and h.priority = v_lane.priority
                  and deferred.__in_lane(h.due_at, h.limited, h.fn)
                  and not deferred.__is_claimed(h)
                for update skip locked)
            update deferred.__deferred_hot h
            set priority = a.priority, xid = pg_current_xact_id()
            from (select o.id, deferred.__aged(d.priority, o.visible_at, v_queue.age_ms,
                                               v_lane.high) as priority
                  from old o join deferred.__deferred d on d.id = o.id) a
            where h.id = a.id and a.priority > v_lane.priority;
            get diagnostics v_rows = row_count;
            v_all := v_all + v_rows;
        end loop;
        with old as materialized (
            select h.id, h.visible_at, h.priority from deferred.__deferred_hot h
            where h.queue = v_queue.name and h.limited and h.unknown in (false, true)
              and h.due_at is null and h.concurrency_key is null and h.fn is not null
              and h.receipt is null and not deferred.__is_claimed(h)
            limit 20 * p_most for update skip locked)
        update deferred.__deferred_hot h set priority = a.priority
        from (select o.id, deferred.__aged(d.priority, o.visible_at, v_queue.age_ms,
                                           (select max(x.priority) from old x)) as priority
              from old o join deferred.__deferred d on d.id = o.id) a
        where h.id = a.id and a.priority > h.priority;
        get diagnostics v_rows = row_count;
        v_all := v_all + v_rows;
        -- A worker may have looked at the new lane before, and at the old one after this.
        if v_all > 0 then perform deferred.__wake(v_queue.name); end if;
    end loop;
    return v_all;
end
$$;
comment on function deferred.__age_jobs is
    'part of deferred.maintain(): raises the priority of jobs that wait in queues with age_ms';
