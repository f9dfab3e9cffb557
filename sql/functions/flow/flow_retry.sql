-- Noted only: workers begin the flow again, step by step (deferred.__flow_retry_some()). So
-- nobody's open transaction is in the way of others.
create or replace function deferred.flow_retry(flow bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_new boolean;
begin
    if not exists (select from deferred.__deferred_flow x
                   where x.id = flow and deferred.__may_touch(x.created_by)) then
        raise exception using errcode = 'P0002',
            message = format('flow %s does not exist', flow),
            hint = 'it was never deferred, was purged, or belongs to a role that you are not a '
                   'member of';
    end if;
    if exists (select from deferred.__deferred_grant g
               where g.role in (deferred.__actor(), session_user)) then
        perform deferred.__defer_check(deferred.__actor(), x.queue, x.fn)
        from (select distinct d.queue, d.fn from deferred.__deferred_member m
              join deferred.__deferred d on d.id = m.job
              where m.flow between $1 and $1) x;
    end if;
    insert into deferred.__deferred_flow_retry as r (flow, requested_by)
    values (flow, deferred.__actor()) on conflict do nothing;
    v_new := found;
    perform deferred.__wake(d.queue) from deferred.__deferred d
    where d.id = (select m.job from deferred.__deferred_member m where m.flow between $1 and $1
                  order by m.flow, m.job limit 1);
    return v_new;
end
$$;
comment on function deferred.flow_retry(bigint) is
    'asks workers to run failed jobs of a flow again, and to let the jobs skipped because of them '
    'wait again. False: an earlier request is still in progress.';
grant execute on function deferred.flow_retry(bigint) to deferred_producer;
