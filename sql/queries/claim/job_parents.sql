-- job_parents: how those ended that claimed jobs waited for, and the steps that these jobs saved.
-- Asked in the cycle behind the claim, for jobs that may have waited or saved steps only.
-- params: ids int8[]
-- returns: job int8, parents text?, steps text?
-- Rows: one row a job, in their order: id, JSON (NULL: it waited for none), JSON (NULL: it has no
--   steps). Those behind the last one are asked for again.
-- Locks: none. Index: primary keys of __deferred_edge and __deferred_step, __deferred_log_job
select p.job, p.parents, deferred.__steps(p.job) as steps from deferred.__parents($1::int8[]) p
