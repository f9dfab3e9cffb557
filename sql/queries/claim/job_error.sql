-- job_error: what the last attempt of a finished job said. Needs the rights of deferred_worker.
-- params: job int8
-- returns: error text
-- Rows: at most one row: error text (NULL: none).
-- Locks: none.
-- Index: __deferred_log_job.
select l.error
from deferred.__deferred_log l
where l.job_id = $1::bigint and l.final
order by l.finished_at desc, l.attempt desc
limit 1
