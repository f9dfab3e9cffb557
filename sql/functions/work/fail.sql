create or replace function deferred.fail(id bigint, receipt bigint, error text default null,
                                         retry_in_ms bigint default null,
                                         final boolean default false) returns timestamptz
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform deferred.__delay_check($1, $4);
    return deferred.__work_end($1, $2, 'failed', left($3, 8192), $4, coalesce($5, false));
end
$$;
comment on function deferred.fail(bigint, bigint, text, bigint, boolean) is
    'records the attempt with this receipt as failed. The job is tried again after its back-off, '
    'or after retry_in_ms; with final, or if it has no attempts left, it is dead. Returns when it '
    'is due again; NULL: it is dead. Raises 55000 if the receipt is not valid any more';
grant execute on function deferred.fail(bigint, bigint, text, bigint, boolean)
    to deferred_worker, deferred_http;
