-- Called before the ids of the added jobs are drawn. It locks the flow's row until the end of the
-- transaction. The lock keeps deferred.__flow_end() from passing jobs that it cannot see yet
-- (sql/functions/flow/__flow_end.sql). The lock is compatible with itself and with the locks of
-- close and cancel. So an adder waits only for deferred.__flow_end(), which holds its lock for some
-- milliseconds.
create or replace function deferred.__flow_join(p_number bigint, out flow bigint,
                                                out mark bigint) returns record
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    o deferred.__deferred_flow_open;
    f deferred.__deferred_flow;
begin
    flow := coalesce((select m.flow from deferred.__deferred_member m where m.job = p_number),
                     p_number);
    select x.* into f from deferred.__deferred_flow x where x.id = flow
        and deferred.__may_touch(x.created_by);
    if not found then
        raise exception using errcode = 'P0002',
            message = format('flow %s does not exist', p_number),
            hint = 'it was never deferred, was purged, or belongs to a role that you are not a '
                   'member of';
    end if;
    select x.* into o from deferred.__deferred_flow_open x where x.flow = f.id for key share;
    if not found then
        raise exception using errcode = '55000',
            message = format('flow %s is closed for new jobs: it %s',
                             f.id, case when f.opened then 'has ended'
                                        else 'was deferred as a whole' end),
            hint = 'add jobs to a flow from deferred.flow_open() before it has ended';
    elsif o.cancelled or (f.failed is not null and f.on_failure = 'cancel') then
        raise exception using errcode = '55000',
            message = format('flow %s is closed for new jobs: it %s',
                             f.id, case when o.cancelled then 'was cancelled'
                                        else format('is being cancelled because job %s failed',
                                                    f.failed) end),
            hint = 'open another flow: select deferred.flow_open()';
    end if;
    mark := nextval('deferred.__deferred_id_seq');
end
$$;
comment on function deferred.__flow_join(bigint) is
    'takes the lock for adding jobs to a flow, or to the flow of a job. Jobs deferred from then '
    'on have ids above the mark.';
grant execute on function deferred.__flow_join(bigint) to deferred_producer;
