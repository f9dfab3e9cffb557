-- True if an idle worker that serves the queue waits for a NOTIFY, which is sent only then.
--
-- NOTIFY is dear: at commit it takes a lock that all notifying transactions of the server share,
-- until the commit is on disk. So who defers asks first whether anybody waits, and that must cost
-- next to nothing.
--
-- A worker that has nothing to do holds, for its session, a shared advisory lock on each queue it
-- serves ('*' stands for all of them), and one that says that somebody waits at all (number 0), so
-- that mostly one look is enough. Who defers tries to take the same lock exclusively and gives it
-- back in the same breath: if that fails, somebody waits. Why not otherwise:
--   * held until the end of the transaction, the exclusive lock of one who defers would look to the
--   next one like a
--     worker that waits, and it would keep workers from going to sleep for as long as the
--     transaction is open;
--   * shared by those who defer and exclusive for the worker, one long transaction that has
--   deferred a job would
--     keep every worker from being woken at all, and only one worker could wait.
-- Given back at once, two who try within the same microsecond can meet; each tries three times
-- before believing it.
--
-- No wake-up is lost. A job is inserted, and its transaction has its number, before __waits()
-- looks. The worker takes its lock, then notes the transactions in progress, then claims once more,
-- and sleeps only if that found nothing.
-- A transaction that looked after the lock was taken notifies. One that looked before it has either
-- ended by the time of the claim, which then sees its job, or was in progress, and is on the list:
-- the worker looks again until those have ended (lib/engine/step/listening.c).
create or replace function deferred.__waits(queue text) returns boolean
language sql
as $$
    select not (deferred.__unawaited(queue) or deferred.__unawaited(queue)
                or deferred.__unawaited(queue))
$$;
grant execute on function deferred.__waits to deferred_producer;
