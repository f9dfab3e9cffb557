-- job_claim_limited: take up to $2 jobs that limits are about: of their queue, their function or their key. Sent only
-- where job_claim.sql said that there may be such jobs, behind it, as the last statement of the transaction.
-- $1 queues served, text[]; NULL: all      $2 jobs taken at most, int4
-- $3 of these at most so many of queues and functions with a rate, int4: as many as can start at once, or
--    starts would come later and closer together than the rate allows
-- $4 worker id, int8                       $5 lease in milliseconds, int8
-- $6 default of max_attempts, int4         $7 functions this worker has, text[]; NULL: whatever they are
-- $8 seed of the random choice, int8       $9 bytes of params, as in job_claim.sql, int4
-- $10 of these at most so many that are suspect or have one attempt, int4: as many as can begin at once
-- $11 where the last claim left the round through all queues, text: its last column. NULL: nowhere; the
--    part up to "/": a new round begins there
-- returns the first eighteen columns of job_claim.sql, then: jobs seen (int8), milliseconds until a rate allows the next job
--   (int8, NULL: not known), and milliseconds within which it must start or be given back (int8, NULL: no rate): less
--   than the time of one job at that rate, so that late starts never come more than one too many; tick and the next ones as in job_claim.sql, and
--   each row has all of them; where the round is (text; with a "/" in it: some queues are left, and asking again makes sense).
--   No row: nothing is ready. Seen above 0 and none taken: another claim was at it
-- locks: the rows taken, and the rows of __deferred_limit in play; those locked by others are passed over
-- Indexes: __deferred_hot_limited, __deferred_hot_concurrency, primary keys of __deferred_hot and __deferred_limit
select c.id, c.receipt, c.attempt, c.attempt_base, c.job_max_attempts, c.timeout_ms, c.backoff_floor_ms, c.backoff_ceiling_ms, c.backoff_exponent,
       c.created_at, c.ready_since, c.fn, c.label, c.params, c.job_queue, c.job_priority, c.job_lease_ms, c.alone, c.seen, c.wait_ms, c.start_ms, c.tick, c.previous_tick, c.traceparent, c.parents, c.tid, c.claimed_at, c.round_next
from deferred.__claim_limited($1::text[], $2::int4, $3::int4, $4::int8, $5::int8, $6::int4, $7::text[], $8::int8, $9::int4, $10::int4, $11::text) c
