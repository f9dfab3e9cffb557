-- Before the ids of the jobs to be added are drawn: the lock on the flow's row, held to the end of
-- the transaction, keeps deferred.__flow_end() from going on behind jobs that it cannot see yet
-- (sql/functions/flow/__flow_end.sql). It is compatible with itself and with all that closes and
-- cancels, so nobody who adds waits for anybody but that function, which has it for some
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
            hint = 'it was never opened, was purged, or belongs to a role that you are not a '
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
    'takes the lock for adding jobs to a flow, or to that of a job; mark: below the ids of those '
    'that are deferred from then on';
grant execute on function deferred.__flow_join(bigint) to deferred_producer;
