-- worker_arm: this worker has nothing to do, who defers a job is to notify it
-- (sql/functions/worker/__waits.sql).
-- params: queues text[]
-- returns: armed bool, rank int4
-- $1 NULL: all queues.
-- Rows: one row. armed: all locks were taken. rank: among the workers that wait for the same
--   queues, from 0.
-- Locks: advisory, for the session: shared (1145390674, queue) and (1145390674, 0), exclusive
--   (1145390675 + rank, queues).
select (select bool_and(pg_try_advisory_lock_shared(1145390674, hashtext(q)))
        from unnest(coalesce($1::text[], array['*'])) q)
            and pg_try_advisory_lock_shared(1145390674, 0) as armed,
       coalesce((select s from generate_series(0, 63) s
                 where pg_try_advisory_lock(1145390675 + s,
                                            hashtext(coalesce(array_to_string($1::text[], ','),
                                                '*')))
                 limit 1), 64) as rank
