-- Cancels from the last job to the first, so that no job begins because its parent was cancelled
-- here.
create or replace function deferred.flow_cancel(flow bigint, before bigint default null,
                                                out cancelled bigint, out next bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_jobs bigint[];
begin
    if not exists (select from deferred.__deferred_flow f
                   where f.id = flow and deferred.__may_touch(f.created_by)) then
        raise exception using errcode = 'P0002',
            message = format('flow %s does not exist', flow),
            hint = 'it was never deferred, was purged, or belongs to a role that you are not a '
                   'member of';
    end if;
    if before is null then
        -- No more are added. Those of a transaction that is open are cancelled by who finds them.
        with open as (
            update deferred.__deferred_flow_open o
            set cancelled = true, closed_at = coalesce(o.closed_at, clock_timestamp())
            where o.flow = flow and not o.cancelled
            returning o.flow)
        insert into deferred.__deferred_ended (id, what, upto) select o.flow, 'z', 0 from open o;
    end if;
    v_jobs := array(select m.job from deferred.__deferred_member m
                    where m.flow between flow and flow
                      and m.job < coalesce(before, 9223372036854775807)
                          order by m.flow desc, m.job desc limit 1000);
    select count(*) into cancelled from unnest(v_jobs) with ordinality j(id, n)
    where exists (select from deferred.__deferred_hot h where h.id = j.id)
      and deferred.cancel(j.id);
    next := v_jobs[1000];
end
$$;
comment on function deferred.flow_cancel(bigint, bigint) is
    'cancels all that is left of 1,000 jobs of a flow, the last ones; called with "next" until '
    'that is NULL, of all';
grant execute on function deferred.flow_cancel(bigint, bigint) to deferred_producer;
