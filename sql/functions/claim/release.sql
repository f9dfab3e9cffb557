create or replace function deferred.release(id bigint, receipt bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    update deferred.__deferred_hot h
    set receipt = null, put_receipt = null, started_at = null, attempt = h.attempt - 1,
        due_at = null, visible_at = clock_timestamp(),
        xid = pg_current_xact_id()
    where h.id = $1 and h.receipt = $2 and h.worker is null;
    if not found then
        raise exception using errcode = '55000',
            message = format('job %s: the receipt is not of its current claim', $1),
            hint = 'the job was finished, cancelled or claimed by somebody else since';
    end if;
end
$$;
comment on function deferred.release(bigint, bigint) is
    'give back a claimed message at once, as if it had not been taken. Raises 55000 where the '
    'receipt is not valid any more';
grant execute on function deferred.release(bigint, bigint) to deferred_http, deferred_worker;
