-- The other parts of a worker's cycle. It makes delayed jobs ready that are due, and reports the
-- functions. If it has time, it makes jobs ready whose leases have ended or whose ticks are due, or
-- that waited for others. The next claim finds them. Rows that another session has locked are left
-- to that session.
create or replace function deferred.__work_upkeep(p_fns text[], p_idle boolean) returns void
language plpgsql
as $$
declare
    v_sql bigint;
begin
    begin
        with due as materialized (
            select h.id from deferred.__deferred_hot h
            where h.due_at <= now() and h.fn is not null
            order by h.due_at limit 1000 for update skip locked)
        update deferred.__deferred_hot h
        set due_at = null, visible_at = h.due_at, xid = pg_current_xact_id()
        from due where h.id = any (array[due.id]) and h.due_at is not null;
        if p_idle then
            perform from deferred.__lost(null, 'lost', deferred.__max_attempts());
            perform deferred.__tick(100);
        end if;
        perform deferred.__work_offer(p_fns);
    exception when lock_not_available or deadlock_detected or serialization_failure then
        null;
    end;
end
$$;
