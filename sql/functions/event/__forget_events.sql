-- Part of deferred.maintain(): deletes events that count for no job any more. Returns how many.
--
-- An event is looked at when its time is over, and again later. A transaction that was open then
-- may have deferred a job in time. So an event is deleted only when all of those have ended, and no
-- job waits that gets it. The row also stays while a job is there that got it.
create or replace function deferred.__forget_events(p_most integer) returns integer
language plpgsql
as $$
declare
    v_ids  bigint[] := array(select v.id from deferred.__deferred_event v
                             where v.look_at <= clock_timestamp()
                             order by v.look_at limit p_most for update skip locked);
    v_rows integer;
begin
    delete from deferred.__deferred_event v
    where v.id = any (v_ids) and v.over_xid <= pg_snapshot_xmin(pg_current_snapshot())
      and not exists (select from deferred.__deferred_awaited a where a.sent > 0 and a.sent = v.id)
      and not exists (select from deferred.__deferred_awaited a
                      where a.owner = v.owner and a.name = v.name and a.sent is null
                        and a.since <= greatest(v.sent_at, v.kept_until)
                        and (a.until >= v.sent_at) is not false);
    get diagnostics v_rows = row_count;
    -- An xid of the future is of another cluster, of which a dump was restored here.
    update deferred.__deferred_event v
    set look_at = clock_timestamp() + case when v.over_xid is null then interval '5 minutes'
                                           else interval '1 day' end,
        over_xid = case when v.over_xid < pg_current_xact_id() then v.over_xid
                        else pg_current_xact_id() end
    where v.id = any (v_ids);
    return v_rows;
end
$$;
comment on function deferred.__forget_events is
    'part of deferred.maintain(): deletes events that are no longer kept';
