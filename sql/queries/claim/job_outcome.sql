-- How far a job has come.
--
-- $1 job id int8.
-- Returns one row, none for an unknown id: state text, outcome of the last attempt text, attempt int4 (number made),
-- may_read bool (the acting role may read error texts: job_error.sql).
-- Locks: none.
-- Index: primary keys of __deferred and __deferred_hot, __deferred_log_job.
select j.state, j.last_outcome, j.attempt, has_column_privilege('deferred.__deferred_log', 'error', 'select')
from deferred.job j
where j.id = $1::bigint
