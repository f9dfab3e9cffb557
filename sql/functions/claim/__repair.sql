-- Jobs that nobody would find: handed out, as far as the place of their lane tells, and in no lease and in no rest. That is so after a
-- dump was restored, or somebody changed rows by hand. They get a new xid, and lie beyond the place again. Of each lane what is live
-- behind the place is read, which is what is claimed, and what has an xid that this server has not yet given: what that server noted as rest does not count.
create or replace function deferred.__repair() returns bigint
language plpgsql
as $$
declare
    v_kept constant integer := 64;  -- places of empty lanes: one tells where the dead behind it end
    v_many boolean := (select count(*) > v_kept from (select from deferred.__deferred_place limit v_kept + 1) p);
    v_lane record;
    v      deferred.__deferred_place;
    v_rows bigint;
    v_all  bigint := 0;
begin
    -- Leases of the server that the dump was made of: they seem to hold whatever becomes ready here.
    delete from deferred.__deferred_lease l where pg_snapshot_xmax(l.snap) > pg_snapshot_xmax(pg_current_snapshot());
    for v_lane in select distinct p.queue, p.priority from deferred.__deferred_place p loop
        -- Its lock keeps claims away, so that what is found is in no lease that is being made.
        select p.* into v from deferred.__deferred_place p
        where p.queue = v_lane.queue and p.priority = v_lane.priority
        order by p.queue desc, p.priority desc, p.seq desc limit 1 for update skip locked;
        continue when not found;
        with stranded as materialized (
            select b.id, b.xid from (
                (select h.id, h.xid from deferred.__deferred_hot h
                 where h.queue = v.queue and h.priority = v.priority and h.due_at is null and not h.limited and h.fn is not null
                   and h.xid < pg_snapshot_xmax(v.done) and pg_visible_in_snapshot(h.xid, v.done))
                union all
                (select h.id, h.xid from deferred.__deferred_hot h
                 where h.queue = v.queue and h.priority = v.priority and h.due_at is null and not h.limited and h.fn is not null
                   and (h.xid, h.id) <= (coalesce(v.xid, pg_snapshot_xmax(v.cur)), v.id)
                   and pg_visible_in_snapshot(h.xid, v.cur) and not pg_visible_in_snapshot(h.xid, v.done))
                union all
                (select h.id, h.xid from deferred.__deferred_hot h
                 where h.queue = v.queue and h.priority = v.priority and h.due_at is null and not h.limited and h.fn is not null
                   and h.xid >= pg_snapshot_xmax(pg_current_snapshot()) and h.xid <> pg_current_xact_id())) b
            where not exists (select from unnest(v.rest_xid, v.rest_id) r(xid, id)
                              where r.id = b.id and r.xid = b.xid and r.xid < pg_snapshot_xmax(pg_current_snapshot()))
              and not exists (select from deferred.__deferred_lease l
                              where l.span @> b.id and b.id = any (l.ids) and pg_visible_in_snapshot(b.xid, l.snap))),
        free as materialized (
            -- As it is by now: one that was put apart meanwhile may be held.
            select h.id from stranded s join deferred.__deferred_hot h on h.id = any (array[s.id]) and coalesce(h.xid = s.xid and not h.limited, false)
            for update of h skip locked)
        update deferred.__deferred_hot h set xid = pg_current_xact_id() from free f where h.id = any (array[f.id]);
        get diagnostics v_rows = row_count;
        v_all := v_all + v_rows;
        -- A lane without jobs needs no place, where there are many; its next claim begins a new one.
        delete from deferred.__deferred_place p
        where v_many and p.queue = v.queue and p.priority = v.priority and p.seq = v.seq
          and not exists (select from deferred.__deferred_hot h
                          where h.queue = v.queue and h.priority = v.priority and h.due_at is null and not h.limited and h.fn is not null limit 1);
    end loop;
    -- Notes of ends, in the same way: they are looked for from the beginning once.
    insert into deferred.__deferred_told (late, seq, done, at)
    select k.late, coalesce(max(t.seq), 0) + 1, '1:1:', '0' from (values (false), (true)) k(late) left join deferred.__deferred_told t on t.late = k.late
    group by k.late on conflict do nothing;
    -- Limited calls whose rows say that they are claimed.
    update deferred.__deferred_hot h set receipt = null, worker = null
    where h.ctid = any (array(
        select x.ctid from deferred.__deferred_hot x
        where x.limited and x.receipt is not null and x.fn is not null
          and not exists (select from deferred.__deferred_lease l
                          where l.span @> x.id and x.id = any (l.ids) and pg_visible_in_snapshot(x.xid, l.snap))
        for update skip locked));
    get diagnostics v_rows = row_count;
    return v_all + v_rows;
end
$$;
comment on function deferred.__repair() is 'makes jobs ready again that are in no lease and would not be found; returns how many';
