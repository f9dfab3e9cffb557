-- The worker that runs it is told: by a notification, should it listen. What is sent is a hint only, on which the worker looks
-- at its claims; so anybody may send it.
create or replace function deferred.cancel(id bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    h deferred.__deferred_hot;
begin
    if not exists (select from deferred.__deferred d where d.id = $1 and deferred.__may_touch(d.created_by::name)) then
        return false;
    end if;
    delete from deferred.__deferred_hot x where x.id = $1 returning * into h;
    if not found then return false; end if;
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, worker, receipt)
    values (h.id, case when h.receipt is null then 0 else h.attempt end, 'cancelled', true,
            format('cancelled by %s', deferred.__actor()), h.started_at, h.worker, h.receipt);
    if h.receipt is not null then
        delete from deferred.__deferred_progress p where p.job_id = $1;
        if h.worker is not null then perform pg_notify('deferred', '!' || h.worker); end if;
    end if;
    return true;
end
$$;
comment on function deferred.cancel(bigint) is 'take a job out of the queue, running or not; its worker asks a running attempt to stop, and kills it soon after. False: nothing to cancel';
grant execute on function deferred.cancel(bigint) to deferred_producer;
