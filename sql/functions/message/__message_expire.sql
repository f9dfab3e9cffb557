-- The rows are locked by the caller.
create or replace function deferred.__message_expire(ids bigint[]) returns bigint
language plpgsql
as $$
declare
    v_rows bigint;
begin
    with gone as (
        delete from deferred.__deferred_hot h where h.id = any ($1)
        returning h.id, h.receipt, h.started_at, h.expires_at,
                  case when h.watched then deferred.__note_end(h.id, h.attempt, 'expired')
                       else h.attempt end
                  as attempt)
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at,
                                         receipt)
    select g.id, case when g.receipt is null then 0 else g.attempt end, 'expired', true,
           format('not done before %s', g.expires_at),
           g.started_at, g.receipt
    from gone g;
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;
comment on function deferred.__message_expire(bigint[]) is
    'ends messages that are past their expiry';
