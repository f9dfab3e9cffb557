-- True if no worker that serves the queue waits for a NOTIFY. False: one does, or another session
-- asked just then. One expression, which the planner inlines: nothing can interrupt it between lock
-- and unlock.
create or replace function deferred.__unawaited(queue text) returns boolean
language sql
as $$
    select pg_catalog.pg_try_advisory_lock(1145390674, pg_catalog.hashtext('*'))
       and pg_catalog.pg_advisory_unlock(1145390674, pg_catalog.hashtext('*'))
       and pg_catalog.pg_try_advisory_lock(1145390674, pg_catalog.hashtext(queue))
       and pg_catalog.pg_advisory_unlock(1145390674, pg_catalog.hashtext(queue))
$$;
grant execute on function deferred.__unawaited to deferred_producer;
