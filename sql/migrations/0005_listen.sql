-- 0005 listen: idle workers are woken by NOTIFY, sent only while somebody waits.
--
-- NOTIFY is dear: at commit it takes a lock that all notifying transactions of the server share, until the commit
-- is on disk. So who defers asks first whether anybody waits, and that must cost next to nothing.
--
-- A worker that has nothing to do holds, for its session, a shared advisory lock on each queue it serves ('*' stands
-- for all of them). Who defers tries to take the same lock exclusively and gives it back in the same breath: if that
-- fails, somebody waits. Why not otherwise:
--   * held until the end of the transaction, the exclusive lock of one who defers would look to the next one like a
--     worker that waits, and it would keep workers from going to sleep for as long as the transaction is open;
--   * shared by those who defer and exclusive for the worker, one long transaction that has deferred a job would
--     keep every worker from being woken at all, and only one worker could wait.
-- Given back at once, two who try within the same microsecond can meet; each tries three times before believing it.
--
-- No wake-up is lost. A job is inserted, and its transaction has its number, before __waits() looks. The worker takes
-- its lock, then notes the transactions in progress, then claims once more, and sleeps only if that found nothing.
-- A transaction that looked after the lock was taken notifies. One that looked before it has either ended by the
-- time of the claim, which then sees its job, or was in progress, and is on the list: the worker looks again until
-- those have ended (lib/worker_listen.c).

set local role deferred_owner;

-- One expression, which the planner puts in the place of the call: nothing can interrupt it between taking and giving back.
create function deferred.__unawaited(queue text) returns boolean
language sql
as $$
    select pg_catalog.pg_try_advisory_lock(1145390674, pg_catalog.hashtext('*'))
       and pg_catalog.pg_advisory_unlock(1145390674, pg_catalog.hashtext('*'))
       and pg_catalog.pg_try_advisory_lock(1145390674, pg_catalog.hashtext(queue))
       and pg_catalog.pg_advisory_unlock(1145390674, pg_catalog.hashtext(queue))
$$;
comment on function deferred.__unawaited(text) is 'true: no worker that serves the queue waits to be told of a ready job; false: one does, or another session asked just then';
revoke all on function deferred.__unawaited(text) from public;
grant execute on function deferred.__unawaited(text) to deferred_producer;

create function deferred.__waits(queue text) returns boolean
language sql
as $$
    select not (deferred.__unawaited(queue) or deferred.__unawaited(queue) or deferred.__unawaited(queue))
$$;
comment on function deferred.__waits(text) is 'true: some worker that serves the queue is idle and waits to be told of a ready job';
revoke all on function deferred.__waits(text) from public;
grant execute on function deferred.__waits(text) to deferred_producer;

create function deferred.__wake(queue text) returns void
language plpgsql
as $$
begin
    if deferred.__waits(queue) then
        perform pg_catalog.pg_notify('deferred', queue);
    end if;
end
$$;
comment on function deferred.__wake(text) is 'tell idle workers, if any wait, that a queue has a ready job; after the job has been stored';
revoke all on function deferred.__wake(text) from public;
grant execute on function deferred.__wake(text) to deferred_producer;

reset role;
