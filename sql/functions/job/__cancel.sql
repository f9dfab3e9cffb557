-- A notification asks the worker that runs the job to stop it, if that worker listens. It is only a
-- hint, on which the worker checks its claims. So any role may send it.
create or replace function deferred.__cancel(p_id bigint, p_why text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    h deferred.__deferred_hot;
    l deferred.__deferred_lease;
begin
    delete from deferred.__deferred_hot x where x.id = p_id returning * into h;
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
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, worker,
                                         receipt)
    values (h.id, case when h.receipt is null then 0 else h.attempt end, 'cancelled', true, p_why,
            h.started_at, l.worker, h.receipt);
    if l.worker is not null then
        delete from deferred.__deferred_progress p where p.job_id = p_id;
        perform pg_notify('deferred', '!' || l.worker);
    end if;
    return true;
end
$$;
comment on function deferred.__cancel is
    'deferred.cancel() of whoever''s job, with what its log says of it';
