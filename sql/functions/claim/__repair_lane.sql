-- Two parts of a lane are read. One lies behind its cursor, which claims read. The other has an xid
-- that this server has not yet given. A rest that another server noted does not count.
create or replace function deferred.__repair_lane(p_queue text, p_priority integer, p_many boolean)
returns bigint
language plpgsql
as $$
declare
    v      deferred.__deferred_cursor;
    v_rows bigint;
begin
    -- Its lock keeps claims away, so that what is found is in no lease that is being made.
    select p.* into v from deferred.__deferred_cursor p
    where p.queue = p_queue and p.priority = p_priority
    order by p.queue desc, p.priority desc, p.seq desc limit 1 for update skip locked;
    if not found then
        return 0;
    end if;
    with stranded as materialized (
        select b.id, b.xid from (
            (select h.id, h.xid from deferred.__deferred_hot h
             where h.queue = v.queue and h.priority = v.priority
               and deferred.__in_lane(h.due_at, h.limited, h.fn)
               and h.xid < pg_snapshot_xmax(v.done) and pg_visible_in_snapshot(h.xid, v.done))
            union all
            (select h.id, h.xid from deferred.__deferred_hot h
             where h.queue = v.queue and h.priority = v.priority
               and deferred.__in_lane(h.due_at, h.limited, h.fn)
               and (h.xid, h.id) <= (coalesce(v.xid, pg_snapshot_xmax(v.cur)), v.id)
               and pg_visible_in_snapshot(h.xid, v.cur)
               and not pg_visible_in_snapshot(h.xid, v.done))
            union all
            (select h.id, h.xid from deferred.__deferred_hot h
             where h.queue = v.queue and h.priority = v.priority
               and deferred.__in_lane(h.due_at, h.limited, h.fn)
               and h.xid >= pg_snapshot_xmax(pg_current_snapshot())
               and h.xid <> pg_current_xact_id())) b
        where not exists (select from unnest(v.rest_xid, v.rest_id) r(xid, id)
                          where r.id = b.id and r.xid = b.xid
                            and r.xid < pg_snapshot_xmax(pg_current_snapshot()))
          and not exists (select from deferred.__deferred_lease l
                          where l.span @> b.id and b.id = any (l.ids)
                            and pg_visible_in_snapshot(b.xid, l.snap))),
    free as materialized (
        -- As it is by now: one that was set aside meanwhile may be held.
        select h.id from stranded s join deferred.__deferred_hot h on h.id = any (array[s.id])
            and coalesce(h.xid = s.xid and not h.limited, false)
        for update of h skip locked)
    update deferred.__deferred_hot h set xid = pg_current_xact_id() from free f
    where h.id = any (array[f.id]);
    get diagnostics v_rows = row_count;
    -- A lane without jobs needs no place, where there are many; its next claim begins a new one.
    delete from deferred.__deferred_cursor p
    where p_many and p.queue = v.queue and p.priority = v.priority and p.seq = v.seq
      and not exists (select from deferred.__deferred_hot h
                      where h.queue = v.queue and h.priority = v.priority
                        and deferred.__in_lane(h.due_at, h.limited, h.fn) limit 1);
    return v_rows;
end
$$;
comment on function deferred.__repair_lane is
    'makes stranded jobs of a lane ready again; p_many: there are many places; part of '
    'deferred.__repair()';
