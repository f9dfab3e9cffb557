-- Advances the cursor to the first note that is left. The snapshot `p_by` was taken after the
-- cursor was read and before notes were read. A note that is visible in `p_by` was either found or
-- is being processed by another session. In the second case it stays visible until that session
-- commits, and holds the cursor back. If another call advances the cursor, this one does not.
create or replace function deferred.__settle_advance(p_cursor deferred.__deferred_ended_cursor,
                                              p_by pg_snapshot) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_first xid8;
begin
    perform from deferred.__deferred_ended_cursor t
    where t.late = p_cursor.late and t.seq = p_cursor.seq for update skip locked;
    if not found then
        return;
    end if;
    select e.xid into v_first
    from (select x as low, x as high from pg_snapshot_xip(p_cursor.done) x
          where x < p_cursor.at and pg_visible_in_snapshot(x, p_by)
          union all select p_cursor.at, pg_snapshot_xmax(p_by)) r
    cross join lateral (select n.xid from deferred.__deferred_ended n
                        where n.late = p_cursor.late and n.xid between r.low and r.high
                          and pg_visible_in_snapshot(n.xid, p_by)
                        order by n.late, n.xid, n.n limit 1) e
    order by e.xid limit 1;
    insert into deferred.__deferred_ended_cursor (late, seq, done, at)
    values (p_cursor.late, p_cursor.seq + 1, p_by, coalesce(v_first, pg_snapshot_xmax(p_by)))
    on conflict do nothing;  -- deferred.__repair() may have reset it meanwhile
    delete from deferred.__deferred_ended_cursor t
    where t.late = p_cursor.late and t.seq <= p_cursor.seq;
end
$$;
comment on function deferred.__settle_advance is
    'remembers how far notes have been dealt with; part of deferred.__settle()';
