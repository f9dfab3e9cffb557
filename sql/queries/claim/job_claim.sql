-- job_claim: take up to $2 ready jobs that no limit is about. A transaction of its own, with
-- job_claim_limited.sql at most.
-- params: queues text[], jobs_max int4, window int4, worker int8, lease_ms int8, max_attempts int4,
--   functions text[], seed int8, bytes_max int4, lane_queues text[], lane_priorities int4[],
--   all_lanes int4, single_max int4, round text
-- returns: id int8, receipt int8?, attempt int4, attempt_base int4, max_attempts int4,
--   timeout_ms int8, backoff_floor_ms int8, backoff_ceiling_ms int8, backoff_exponent float8,
--   created_at timestamptz, ready_since timestamptz, fn text, label text, params json, queue text?,
--   priority int4, lease_ms int8, alone bool, cut bool, tick timestamptz?,
--   previous_tick timestamptz?, traceparent text, parents bool, tid tid, claimed_at timestamptz
-- $1 queues served; NULL: all; $2 jobs taken at most; $3 window: fewer than these are drawn at
--   random among the first of these in a lane; $4 worker id; $5 lease in milliseconds; $6 default
--   of max_attempts; $7 functions this worker has; NULL: whatever they are; $8 seed of the random
--   choice; $9 bytes of params: jobs are taken up to that, and one at least; $10 queue, $11
--   priority: lanes to be asked; $12 1: and all others; else 0; $13 of these jobs at most so many
--   that get a lease of their own (suspects, and those with one attempt): as many as can begin at
--   once; $14 the round through all lanes, as job_claimed.sql returned it; NULL: none (the part up
--   to "/" begins a new round).
-- rows: one row a job: id, receipt, attempt, attempt_base (NULL: 0), max_attempts, timeout_ms,
--   backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, created_at, ready since, fn, label,
--   params, queue, priority, lease in milliseconds, it has a lease of its own (NULL: no), some were
--   left for their params, or for $13, tick of its schedule (NULL: none made it), the one before
--   (NULL: none), traceparent (NULL: none), it may have waited for others, see job_parents.sql,
--   place of its hot row, for job_done.sql, time of the claim. Receipt, queue, priority, lease and
--   time of the claim are NULL where they are those of the row before: to send each costs some 1 %
--   of a claim. Then see job_claimed.sql.
-- locks: the newest places of the lanes it takes from; see sql/functions/claim/__claim.sql
-- Index: primary key of __deferred_place, __deferred_hot_ready, primary key of __deferred
select c.*
from deferred.__claim_lanes($1::text[], $2::int4, $8::int8, $10::text[], $11::int4[], $12::int4 > 0,
                            $13::int4, $14::text, $7::text[]) l
cross join lateral deferred.__claim(l.queue, l.priority, l.share, l.round, $2::int4, $3::int4,
                                    $4::int8, $5::int8, $6::int4, $7::text[], $8::int8, $9::int4) c
