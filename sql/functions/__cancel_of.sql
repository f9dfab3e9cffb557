-- As deferred.cancel(), for who has locked the hot row, and may.
create or replace function deferred.__cancel_of(p_id bigint, p_flow bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    h deferred.__deferred_hot;
    l deferred.__deferred_lease;
begin
    delete from deferred.__deferred_hot x where x.id = p_id returning * into h;
    if not found then return; end if;
    if h.watched then
        perform deferred.__note_end(h.id, 0, 'cancelled');
    end if;
    l := deferred.__lease_of(h.id, h.xid);
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, worker, receipt)
    values (h.id, case when l.receipt is null then 0 else h.attempt + 1 end, 'cancelled', true, format('cancelled with flow %s', p_flow),
            l.claimed_at, l.worker, l.receipt);
    if l.worker is not null then
        delete from deferred.__deferred_progress p where p.job_id = p_id;
        perform pg_notify('deferred', '!' || l.worker);
    end if;
end
$$;
comment on function deferred.__cancel_of is 'cancels a member of a flow';
