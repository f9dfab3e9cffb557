-- job_claim: take up to $2 ready jobs that no limit is about. A transaction of its own, but for job_claim_limited.sql.
-- $1 queues served, text[]; NULL: all         $2 jobs taken at most, int4
-- $3 window: fewer than these are drawn at random among the first of these in a lane, int4
-- $4 worker id, int8                       $5 lease in milliseconds, int8
-- $6 default of max_attempts, int4         $7 functions this worker has, text[]; NULL: whatever they are
-- $8 seed of the random choice, int8       $9 bytes of params, int4: jobs are taken up to that, and one at least
-- $10 queue text[], $11 priority int4[]: lanes to be asked   $12 1: and all others, int4; else 0
-- $13 of these jobs at most so many that get a lease of their own (suspects, and those with one attempt), int4: as many as can begin at once
-- $14 the round through all lanes, as job_claimed.sql returned it, text; NULL: none
--    (the part up to "/" begins a new round)
-- returns one row a job: id (int8), receipt (int8), attempt (int4), attempt_base (int4; NULL: 0), max_attempts (int4), timeout_ms (int8),
--   backoff_floor_ms (int8), backoff_ceiling_ms (int8), backoff_exponent (float8), created_at (timestamptz),
--   ready since (timestamptz), fn, label, params, queue, priority (int4), lease in milliseconds (int8), it has a lease of its own (bool; NULL: no), some were left for
--   their params, or for $13 (bool), tick of its schedule (timestamptz; NULL: none made it), the one before (timestamptz; NULL: none), traceparent (text; NULL: none), it may have
--   waited for others, see job_parents.sql (bool), place of its hot row, for job_done.sql (tid), time of the claim (timestamptz). Receipt, queue, priority, lease and
--   time of the claim are NULL where they are those of the row before: to send each costs some 1 % of a claim. Then see job_claimed.sql
-- locks: the newest places of the lanes it takes from; see sql/functions/claim/__claim.sql
-- Index: primary key of __deferred_place, __deferred_hot_ready, primary key of __deferred
select c.*
from deferred.__claim_lanes($1::text[], $2::int4, $8::int8, $10::text[], $11::int4[], $12::int4 > 0, $13::int4, $14::text, $7::text[]) l
cross join lateral deferred.__claim(l.queue, l.priority, l.share, l.round, $2::int4, $3::int4, $4::int8, $5::int8, $6::int4, $7::text[], $8::int8, $9::int4) c
