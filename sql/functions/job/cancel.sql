create or replace function deferred.cancel(id bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from deferred.__deferred d where d.id = $1
                   and deferred.__may_touch(d.created_by::name)) then
        return false;
    end if;
    return deferred.__cancel($1, format('cancelled by %s', deferred.__actor()));
end
$$;
comment on function deferred.cancel(bigint) is
    'take a job out of the queue, running or not; its worker asks a running attempt to stop, and '
    'kills it soon after. False: nothing to cancel';
grant execute on function deferred.cancel(bigint) to deferred_producer;
