-- The last step of "deferred purge": deletes runs and ticks that are past the limit. The last ticks
-- of each schedule stay. It notes that there was a purge.
create or replace function deferred.__purge_workers(older_than interval) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_rows bigint;
begin
    delete from deferred.__deferred_worker w where coalesce(w.ended_at,
        w.seen_at) < clock_timestamp() - older_than
       and not exists (select from deferred.__deferred_lease l where l.worker = w.id);
    get diagnostics v_rows = row_count;
    delete from deferred.__deferred_tick t using deferred.__deferred_schedule s
    where t.at < clock_timestamp() - older_than and s.id = t.schedule and t.tick < s.last_at
      and t.tick is distinct from s.queued_at;
    update deferred.__deferred_upkeep set purged_at = clock_timestamp(), purged_older = older_than;
    return v_rows;
end
$$;
grant execute on function deferred.__purge_workers to deferred_purger;
