-- Reads the next window of a lane: up to p_most jobs behind its cursor, in order, besides those
-- that were left before.
--
-- One scan of hot rows decides. Only the calls of jobs that are taken are read. The columns come as
-- arrays: a row that went through the steps of a claim would cost as much as reading it.
create or replace function deferred.__claim_read(
    w deferred.__window, p_of deferred.__deferred_queue, p_most integer, p_max_attempts integer,
    p_known text[])
returns deferred.__window language plpgsql
as $$
declare
    v_begins boolean;  -- a new snapshot
begin
    if pg_snapshot_xmax(w.cur) > pg_snapshot_xmax(pg_current_snapshot()) then
        -- Of another cluster, whose dump was restored here: no lease made here holds what is ready
        -- since then.
        w.cur := '1:1:';
        w.xid := null;
        w.rest_xid := '{}';
        w.rest_id := '{}';
    end if;
    v_begins := w.xid is null;
    if v_begins then
        w.done := w.cur;
        w.cur := deferred.__snapshot();
        w.xid := '0';
        w.id := 0;
        w.fresh := true;
    end if;
    -- Those that were left, those of transactions that were open in `done`, the range behind it.
    with rest as materialized (
        select h.* from unnest(w.rest_xid, w.rest_id) r(xid, id)
        cross join lateral (
            select h.ctid as tid, h.id, h.xid, h.xmax <> '0'::xid as touched, h.attempt,
                   h.attempt_base, h.visible_at, h.expires_at, h.suspect, h.fn, h.watched,
                   h.max_attempts, h.params_bytes
            from deferred.__deferred_hot h
            -- Found by its id. The other conditions would lead into the index of the lane: while
            -- that seems small, through all of it for each job.
            where h.id = any (array[r.id]) and coalesce(
                h.xid = r.xid and deferred.__in_lane(h.due_at, h.limited, h.fn), false)
            offset 0) h)
    select array_agg(f.id), array_agg(f.xid), array_agg(f.tid), array_agg(f.attempt),
           array_agg(coalesce(f.attempt_base, 0)), array_agg(f.visible_at), array_agg(f.bytes),
           array_agg(f.flags), bit_or(f.flags), min(f.id), max(f.id), sum(f.bytes), count(*),
           count(*) filter (where f.again),
           count(*) filter (where not f.again) < greatest(0, p_most - (
               select count(*) from rest r where not r.touched))
    into w.ids, w.xids, w.tids, w.attempts, w.attempt_bases, w.ready_since, w.bytes, w.flags,
        w.flagged, w.first, w.last, w.size, w.found, w.again, w.used_up
    from (
        select o.tid, o.id, o.xid, o.attempt, o.attempt_base, o.visible_at, o.again,
               coalesce(o.params_bytes, 1024) as bytes,
               -- All that have expired or are to be put apart, drawn or not: or a claim of few
               -- would find nothing among many.
               case when o.touched then 1 else 0 end
               + case when o.expires_at <= now() then 4
                      when coalesce(p_of.max_running, p_of.rate) is not null
                          or o.fn = any (array(select f.name from deferred.__deferred_function f))
                          or (p_known is not null and o.fn <> all (p_known)) then 2 else 0 end
               + case when o.suspect
                          or coalesce(o.max_attempts, p_of.max_attempts, p_max_attempts) = 1
                          then 8 else 0 end
               + case when o.watched is not null then 16 else 0 end as flags
        from (
            select r.*, true as again from rest r
            union all
            (select l.*, false from pg_snapshot_xip(w.done) s(xid)
             cross join lateral (
                select h.ctid as tid, h.id, h.xid, h.xmax <> '0'::xid as touched, h.attempt,
                       h.attempt_base, h.visible_at, h.expires_at, h.suspect, h.fn, h.watched,
                       h.max_attempts, h.params_bytes
                from deferred.__deferred_hot h
                where h.queue = w.queue and h.priority = w.priority
                  and deferred.__in_lane(h.due_at, h.limited, h.fn)
                  -- With "=" the planner might take the order of the primary key, and walk over
                  -- all of that.
                  and h.xid between s.xid and s.xid and (h.xid, h.id) > (w.xid, w.id)
                order by h.queue, h.priority, h.xid, h.id limit p_most) l
             where s.xid >= w.xid and pg_visible_in_snapshot(s.xid, w.cur)
             union all
             (select h.ctid, h.id, h.xid, h.xmax <> '0'::xid, h.attempt, h.attempt_base,
                     h.visible_at, h.expires_at, h.suspect, h.fn, h.watched, h.max_attempts,
                     h.params_bytes, false
              from deferred.__deferred_hot h
              where h.queue = w.queue and h.priority = w.priority
                and deferred.__in_lane(h.due_at, h.limited, h.fn)
                and (h.xid, h.id) > (greatest(w.xid, pg_snapshot_xmax(w.done)),
                                     case when w.xid >= pg_snapshot_xmax(w.done) then w.id
                                          else 0 end)
                and h.xid < pg_snapshot_xmax(w.cur) and pg_visible_in_snapshot(h.xid, w.cur)
              order by h.queue, h.priority, h.xid, h.id limit p_most)
             limit greatest(0, p_most - (select count(*) from rest r where not r.touched)))) o) f;
    w.idle := v_begins and w.found = 0 and w.rest_id = '{}';
    -- The old cursor stays. With the new snapshot each claim that finds nothing would store one.
    if w.idle then w.cur := w.done; w.xid := null; end if;
    return w;
end
$$;
grant execute on function deferred.__claim_read to deferred_worker;
