-- The current snapshot, in which the own transaction is open. pg_current_snapshot() does not list
-- the own transaction. If a younger transaction has ended, that snapshot counts the own transaction
-- as ended. A cursor with it would skip rows that the transaction changes later.
create or replace function deferred.__snapshot() returns pg_snapshot
language plpgsql
as $$
declare
    v_snap pg_snapshot := pg_current_snapshot();
    v_own  xid8 := pg_current_xact_id_if_assigned();
begin
    if pg_visible_in_snapshot(v_own, v_snap) is not true then
        return v_snap;
    end if;
    return (select format('%s:%s:%s', min(x), pg_snapshot_xmax(v_snap),
                          string_agg(x::text, ',' order by x))
            from (select pg_snapshot_xip(v_snap) union all select v_own) o(x))::pg_snapshot;
end
$$;
grant execute on function deferred.__snapshot to deferred_worker;
