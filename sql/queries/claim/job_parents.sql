-- job_parents: how those ended that claimed jobs waited for. Asked in the cycle behind the claim,
-- for jobs that may have waited only.
-- params: ids int8[]
-- returns: job int8, parents text?
-- Rows: one row a job, in their order: id, JSON (NULL: it waited for none). Those behind the last
--   one are asked for again.
-- Locks: none. Index: primary key of __deferred_edge, __deferred_log_job
select p.job, p.parents from deferred.__parents($1::int8[]) p
