-- Ends the job that has a key, in favour of the new job p_id or because it has expired. The caller
-- has locked its hot row. Its row in __deferred_key stays, because the caller takes that row behind
-- its own hot row. NULL if it has expired, else the job.
create or replace function deferred.__key_expel(p_old bigint, p_id bigint,
                                                p_expired boolean) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_outcome text := case when p_expired then 'expired' else 'cancelled' end;
begin
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
    select h.id, case when h.watched then deferred.__note_end(h.id, 0, v_outcome) else 0 end,
           v_outcome, true,
           case when p_expired then format('not started before %s', h.expires_at)
                else format('replaced by job %s', p_id) end
    from deferred.__deferred_hot h where h.id = p_old;
    delete from deferred.__deferred_hot h where h.id = p_old;
    return case when not p_expired then p_old end;
end
$$;
comment on function deferred.__key_expel is
    'part of deferred.__enqueue_key(): ends the job that is replaced, or that has expired';
