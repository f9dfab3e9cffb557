-- job_claim_limited: take up to $2 jobs that limits are about: of their queue, their function or
-- their key. Sent only where job_claim.sql said that there may be such jobs, behind it, as the last
-- statement of the transaction.
-- params: queues text[], jobs_max int4, rated_max int4, worker int8, lease_ms int8,
--   max_attempts int4, functions text[], seed int8, bytes_max int4, single_max int4, round text,
--   run_max int4
-- returns: as job_claim, seen int8, wait_ms int8?, start_ms int8?, look_us int8,
--   key int4?, round text?
-- $1   queues served. NULL: all.
-- $2   jobs taken at most.
-- $3   at most this number of jobs of queues and functions with a rate. It is the number that can
--   start at once. With more, starts would come later and closer together than the rate allows.
-- $4   worker id.
-- $5   lease in milliseconds.
-- $6   default of max_attempts.
-- $7   functions this worker has. NULL: any.
-- $8   seed of the random choice.
-- $9   bytes of params, as in job_claim.sql.
-- $10   at most this number of jobs that are suspect or have one attempt. It is the number that can
--   start at once.
-- $11   where the last claim left the round through all queues, from its last column. NULL:
--   nowhere. The part up to "/": a new round begins there.
-- $12   at most this number of jobs of a key that allows one at once.
-- Rows: the columns of job_claim.sql, each of them in each row. Column seen: jobs seen. If it is
--   above 0 and no job was taken, another claim had locked them. Column wait_ms: milliseconds until
--   a rate allows the next job (NULL: not known). Column start_ms: milliseconds within which the
--   job must start or be given back (NULL: no rate). That is less than the time of one job at that
--   rate, so that late starts exceed it by at most one. Column look_us: microseconds that the claim
--   took. Column key: the number of the job's key in this claim. NULL: other limits than those of
--   keys matter, so the claim took one job of such a key, whatever $12 is. Column round: where the
--   round is. With a "/" in it some queues are left, and asking again makes sense. No row: nothing
--   is ready.
-- Locks: the rows taken, and the rows of __deferred_limit in play. Those locked by others are
--   skipped.
-- Indexes: __deferred_hot_limited, __deferred_hot_concurrency, primary keys of __deferred_hot and
--   __deferred_limit.
select c.id, c.receipt, c.attempt, c.attempt_base, c.max_attempts, c.timeout_ms,
       c.backoff_floor_ms, c.backoff_ceiling_ms, c.backoff_exponent,
       c.created_at, c.ready_since, c.fn, c.label, c.params, c.queue,
       c.priority, c.lease_ms, c.alone, c.tick,
       c.previous_tick, c.traceparent, c.parents, c.tid, c.claimed_at, null::bool as busy,
       null::bool as cut, null::bool as limits, null::bool as more, null::int8 as look_us,
       null::int8 as waiting, null::text as round, c.seen, c.wait_ms, c.start_ms,
       (extract(epoch from clock_timestamp() - statement_timestamp()) * 1000000)::int8 as look_us,
       c.key, c.round
from deferred.__claim_limited($1::text[], $2::int4, $3::int4, $4::int8, $5::int8, $6::int4,
                              $7::text[], $8::int8, $9::int4, $10::int4, $11::text,
                              $12::int4) c
