-- An attempt that ends with a snooze does not count. The delay is at least one second, so a job
-- that is always snoozed does not keep programs busy.
create or replace function deferred.snooze(id bigint, receipt bigint,
                                           delay_ms bigint) returns timestamptz
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if $3 is null then
        raise exception using errcode = '22004', message = format('job %s: the delay is NULL', $1),
            hint = 'pass the milliseconds until the job is to be tried again';
    end if;
    perform deferred.__delay_check($1, $3);
    return deferred.__work_end($1, $2, 'snoozed', null, greatest($3, 1000), false);
end
$$;
comment on function deferred.snooze(bigint, bigint, bigint) is
    'gives the job with this receipt back: it is tried again after delay_ms, at least 1000, and '
    'this attempt does not count. Returns when it is due again. Raises 55000 if the receipt is not '
    'valid any more';
grant execute on function deferred.snooze(bigint, bigint, bigint) to deferred_worker, deferred_http;
