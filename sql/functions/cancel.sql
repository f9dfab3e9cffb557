-- The worker that runs it is told: by a notification, should it listen. What is sent is a hint only, on which the worker looks
-- at its claims; so anybody may send it.
create or replace function deferred.cancel(id bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    h deferred.__deferred_hot;
    l deferred.__deferred_lease;
begin
    if not exists (select from deferred.__deferred d where d.id = $1 and deferred.__may_touch(d.created_by::name)) then
        return false;
    end if;
    delete from deferred.__deferred_hot x where x.id = $1 returning * into h;
    if not found then return false; end if;
    if h.watched then
        perform deferred.__note_end(h.id, 0, 'cancelled');
    end if;
    if h.fn is not null then
        l := deferred.__lease_of(h.id, h.xid);
        h.attempt := h.attempt + 1;
        h.started_at := l.claimed_at;
        h.receipt := l.receipt;
    end if;
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, worker, receipt)
    values (h.id, case when h.receipt is null then 0 else h.attempt end, 'cancelled', true,
            format('cancelled by %s', deferred.__actor()), h.started_at, l.worker, h.receipt);
    if l.worker is not null then
        delete from deferred.__deferred_progress p where p.job_id = $1;
        perform pg_notify('deferred', '!' || l.worker);
    end if;
    return true;
end
$$;
comment on function deferred.cancel(bigint) is 'take a job out of the queue, running or not; its worker asks a running attempt to stop, and kills it soon after. False: nothing to cancel';
grant execute on function deferred.cancel(bigint) to deferred_producer;
