-- Jobs of another cluster, whose dump was restored here. Their xid is one that this cluster has not
-- given out, so no claim would see them. Reads all of __deferred_hot.
create or replace function deferred.__adopt(most integer) returns boolean
language plpgsql
as $$
declare
    v_rows integer;
begin
    update deferred.__deferred_hot h set xid = pg_current_xact_id()
    where h.ctid = any (array(
        select x.ctid from deferred.__deferred_hot x
        where x.xid >= pg_snapshot_xmax(pg_current_snapshot()) and x.xid <> pg_current_xact_id()
        limit most for update skip locked));
    get diagnostics v_rows = row_count;
    return v_rows < most;
end
$$;
comment on function deferred.__adopt(integer) is
    'makes jobs of another cluster claimable, some at a time; returns whether that was all';
