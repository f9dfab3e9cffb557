-- Takes the tracks of dead workers out of a group, whose row the caller holds.
create or replace function deferred.__track_bury(p_group text, p_except bigint) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
    delete from deferred.__deferred_track t
    where t.worker in (
        select x.worker from deferred.__deferred_track x
        where x.group_name = p_group and x.worker <> p_except
          and (x.lease_until <= clock_timestamp()
               or (select true from deferred.__deferred_worker w
                   where w.id = x.worker and w.ended_at is null) is not true)
        for update of x skip locked)
$$;
