-- When the next note, or the time limit of a job that waits for an event, is due for processing.
-- -infinity: at once. NULL: there is none.
--
-- Notes before the cursor (sql/functions/flow/__settle.sql) are not read. So many dead notes that
-- an old snapshot keeps cost nothing.
-- In PL/pgSQL, so that a start plans this only if a job waits.
create or replace function deferred.__settle_due() returns timestamptz
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    v       deferred.__deferred_ended_cursor;
    v_late  boolean;
    v_first timestamptz;
begin
    foreach v_late in array array[false, true] loop
        v := deferred.__settle_cursor(v_late);
        select min(e.not_before) into v_first
        from (select x as low, x as high from pg_snapshot_xip(v.done) x where x < v.at
              union all select v.at, '18446744073709551615'::xid8) r
        cross join lateral (select n.not_before from deferred.__deferred_ended n
                            where n.late = v_late and n.xid between r.low and r.high
                            order by n.late, n.xid, n.n limit 1) e;
        exit when v_first is not null;
    end loop;
    return least(v_first, (select min(a.until) from deferred.__deferred_awaited a
                           where a.sent is null and a.until is not null));
end
$$;
grant execute on function deferred.__settle_due() to deferred_worker;
