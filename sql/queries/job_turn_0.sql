-- job_turn_0: wait for the turn to claim from the first half of the jobs. Sent before job_claim.sql by a worker that has met many
-- others: claims that run at the same time look at each other's rows in vain, all the more the more they are.
-- A lock of a table, not an advisory one: LOCK TABLE is one of the few statements that wait without a snapshot. The
-- snapshots of those who wait kept everything that died meanwhile from being removed, and each claim walked over it
-- (50 workers: 21,000 jobs/s, so 33,000). The transaction must have written nothing before it, for the same reason. It must
-- have been begun in so many words: pg_pipeline_begin().
-- returns nothing. Locks: the table, until the transaction ends; no longer than job_turn_patience.sql said, then it fails
-- (55P03), and the worker claims out of turn
lock table deferred.__deferred_turn_0 in exclusive mode
