-- Tell idle workers, if any wait, that a queue has a ready job; after the job has been stored.
create or replace function deferred.__wake(queue text) returns void
language plpgsql
as $$
begin
    if deferred.__waits(queue) then
        perform pg_catalog.pg_notify('deferred', queue);
    end if;
end
$$;
grant execute on function deferred.__wake to deferred_producer;
