-- job_queue_up: wait until few others are claiming. Sent before job_claim.sql by a worker that has met many of them: claims that
-- run at the same time look at each other's rows in vain, all the more the more they are (16 workers: 16,000 jobs/s, in turn 38,000).
-- $1 queues served, text[]; NULL: all      $2 worker id, int8
-- $3 milliseconds to wait at most, text: then it fails (55P03), and the worker claims out of turn
-- returns one row. Locks: advisory, one of two for workers of the same queues, until the transaction ends
select set_config('lock_timeout', $3::text, true),
       pg_advisory_xact_lock(1145390700, (hashtext(coalesce(array_to_string($1::text[], ','), '*')) & -2) | ($2::int8 % 2)::int4),
       set_config('lock_timeout', '1s', true)
