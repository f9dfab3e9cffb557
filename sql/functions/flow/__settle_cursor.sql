-- How far notes have been dealt with; part of deferred.__settle().
--
-- The place is of another cluster if its dump was restored here: then it begins again.
create or replace function deferred.__settle_cursor(p_late boolean)
returns deferred.__deferred_ended_cursor
language plpgsql stable
as $$
declare
    v deferred.__deferred_ended_cursor;
begin
    select t.* into v from deferred.__deferred_ended_cursor t where t.late = p_late
    order by t.late desc, t.seq desc limit 1;
    if v.at > pg_snapshot_xmax(pg_current_snapshot()) then
        v.done := '1:1:';
        v.at := '0';
    end if;
    return v;
end
$$;
grant execute on function deferred.__settle_cursor to deferred_worker;
