-- True if an idle worker that serves the queue waits for a NOTIFY, which is sent only then.
--
-- NOTIFY is expensive: at commit it takes a lock that all notifying transactions of the server
-- share, until the commit is on disk. So a producer first asks whether a worker waits, and that
-- question must cost next to nothing.
--
-- A worker that has nothing to do holds a shared advisory lock for its session on each queue it
-- serves ('*' stands for all queues). It also holds lock 0, which says that any worker waits, so
-- one test is mostly enough. A producer tries to take the same lock exclusively and releases it at
-- once. If that fails, a worker waits. Two other ways were rejected:
-- * The producer holds the exclusive lock until the end of its transaction. Then the next producer
--   would take that lock for a waiting worker. Workers could not go to sleep while the transaction
--   is open.
-- * Producers share the lock, and the worker takes it exclusively. Then one long transaction that
--   has deferred a job would keep every worker from being woken, and only one worker could wait.
-- Because the lock is released at once, two producers can meet only within the same microsecond.
-- Each tries three times before it believes the answer.
--
-- No wake-up is lost. A job is inserted, and its transaction has its number, before __waits() tests
-- the lock. The worker takes its lock, then notes the transactions in progress, then claims once
-- more, and sleeps only if that found nothing.
-- A transaction that tested after the lock was taken notifies. A transaction that tested earlier
-- has ended before the claim, which then sees its job, or was in progress and is on the list. The
-- worker claims again until the listed transactions have ended (lib/engine/step/listening.c).
create or replace function deferred.__waits(queue text) returns boolean
language sql
as $$
    select not (deferred.__unawaited(queue) or deferred.__unawaited(queue)
                or deferred.__unawaited(queue))
$$;
grant execute on function deferred.__waits to deferred_producer;
