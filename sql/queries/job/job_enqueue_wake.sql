-- job_enqueue_wake: wake idle workers, after jobs were stored by COPY.
-- params: queues text[]
-- returns: ignored
-- Locks: none. Index: none.
select deferred.__wake(q) from unnest($1::text[]) q
