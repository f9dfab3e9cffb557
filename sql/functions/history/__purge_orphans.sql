-- Part of "deferred purge": deletes edges, waits, awaited events, steps and members of jobs that
-- were deleted with a whole partition. Deletes flows at and above id, in order of id, that have no
-- job left. If purged is 0 and next_id NULL, that was all.
create or replace function deferred.__purge_orphans(older_than interval, from_id bigint,
                                                    batch integer, out purged bigint,
                                                    out next_id bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_cutoff timestamptz := clock_timestamp() - older_than;
begin
    with edge as (
        delete from deferred.__deferred_edge e
        where e.ctid = any (array(select x.ctid from deferred.__deferred_edge x
                                  where x.child < (select coalesce(min(d.id), 9223372036854775807)
                                                   from deferred.__deferred d) order by x.child
                                                   limit batch))
        returning 1),
    awaited as (
        delete from deferred.__deferred_awaited a
        where a.ctid = any (array(select x.ctid from deferred.__deferred_awaited x
                                  where x.child < (select coalesce(min(d.id), 9223372036854775807)
                                                   from deferred.__deferred d) order by x.child
                                                   limit batch))
        returning 1),
    wait as (
        delete from deferred.__deferred_wait w
        where w.id in (select x.id from deferred.__deferred_wait x
                       where x.id < (select coalesce(min(d.id), 9223372036854775807)
                                     from deferred.__deferred d) order by x.id
                                     limit batch for update skip locked)
        returning 1),
    step as (
        delete from deferred.__deferred_step s
        where s.ctid = any (array(select x.ctid from deferred.__deferred_step x
                                  where x.job_id < (select coalesce(min(d.id), 9223372036854775807)
                                                    from deferred.__deferred d) order by x.job_id
                                                    limit batch))
        returning 1),
    member as (
        delete from deferred.__deferred_member m
        where m.ctid = any (array(select x.ctid from deferred.__deferred_member x
                                  where x.job < (select coalesce(min(d.id), 9223372036854775807)
                                                 from deferred.__deferred d) order by x.job
                                                 limit batch))
        returning 1),
    seen as materialized (
        select f.id, f.created_at from deferred.__deferred_flow f where f.id >= from_id
        order by f.id limit batch),
    -- One that nobody closed is left for as long as any other; the flow itself goes with the next
    -- purge.
    open as (
        delete from deferred.__deferred_flow_open o
        where o.flow in (select x.flow from deferred.__deferred_flow_open x
                         join seen s on s.id = x.flow
                         where s.created_at < v_cutoff
                           and not exists (select from deferred.__deferred_member m
                                           where m.flow = x.flow) for update of x skip locked)
        returning 1),
    flow as (
        delete from deferred.__deferred_flow f using seen s
        where f.id = s.id and s.created_at < v_cutoff
          and not exists (select from deferred.__deferred_member m where m.flow = f.id)
          and not exists (select from deferred.__deferred_flow_open o where o.flow = f.id)
        returning f.id),
    retry as (
        delete from deferred.__deferred_flow_retry r using flow f where r.flow = f.id)
    select (select count(*) from edge) + (select count(*) from awaited)
           + (select count(*) from wait) + (select count(*) from step)
           + (select count(*) from member)
           + (select count(*) from open) + (select count(*) from flow),
           (select max(id) + 1 from seen having bool_or(seen.created_at < v_cutoff))
    into purged, next_id;
end
$$;
grant execute on function deferred.__purge_orphans to deferred_purger;
