-- Moves the place on up to the first note that is left. Notes visible in p_by, which was taken
-- after the place was read and before notes were looked for, were found, or are somebody else's:
-- then they stay visible until that is committed, and hold the place. Where another call moves it,
-- this one does not.
create or replace function deferred.__settled(p_place deferred.__deferred_told,
                                              p_by pg_snapshot) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_first xid8;
begin
    perform from deferred.__deferred_told t where t.late = p_place.late and t.seq = p_place.seq
    for update skip locked;
    if not found then
        return;
    end if;
    select e.xid into v_first
    from (select x as low, x as high from pg_snapshot_xip(p_place.done) x
          where x < p_place.at and pg_visible_in_snapshot(x, p_by)
          union all select p_place.at, pg_snapshot_xmax(p_by)) r
    cross join lateral (select n.xid from deferred.__deferred_ended n
                        where n.late = p_place.late and n.xid between r.low and r.high
                          and pg_visible_in_snapshot(n.xid, p_by)
                        order by n.late, n.xid, n.n limit 1) e
    order by e.xid limit 1;
    insert into deferred.__deferred_told (late, seq, done, at)
    values (p_place.late, p_place.seq + 1, p_by, coalesce(v_first, pg_snapshot_xmax(p_by)))
    on conflict do nothing;  -- deferred.__repair() may have begun anew meanwhile
    delete from deferred.__deferred_told t where t.late = p_place.late and t.seq <= p_place.seq;
end
$$;
comment on function deferred.__settled is
    'remembers how far notes have been dealt with; part of deferred.__settle()';
