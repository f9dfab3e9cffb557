-- True: no worker that serves the queue waits to be told of a ready job; false: one does, or
-- another session asked just then. One expression, which the planner puts in the place of the call:
-- nothing can interrupt it between taking and giving back.
create or replace function deferred.__unawaited(queue text) returns boolean
language sql
as $$
    select pg_catalog.pg_try_advisory_lock(1145390674, pg_catalog.hashtext('*'))
       and pg_catalog.pg_advisory_unlock(1145390674, pg_catalog.hashtext('*'))
       and pg_catalog.pg_try_advisory_lock(1145390674, pg_catalog.hashtext(queue))
       and pg_catalog.pg_advisory_unlock(1145390674, pg_catalog.hashtext(queue))
$$;
grant execute on function deferred.__unawaited to deferred_producer;
