-- True if no worker waits for a NOTIFY. False: one does, or another session asked just then. One
-- expression, as __unawaited(), and the first to be asked: mostly nobody waits for any queue.
create or replace function deferred.__nobody_waits() returns boolean
language sql
as $$
    select pg_catalog.pg_try_advisory_lock(1145390674, 0)
        and pg_catalog.pg_advisory_unlock(1145390674, 0)
$$;
grant execute on function deferred.__nobody_waits to deferred_producer;
