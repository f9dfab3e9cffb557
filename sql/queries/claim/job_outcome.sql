-- job_outcome: how far a job has come.
-- params: job int8
-- returns: state text, last_outcome text, attempt int4, may_read bool
-- Rows: one row, none for an unknown id. Column attempt: the number made. Column may_read: the
--   acting role may read error texts (job_error.sql).
-- Locks: none.
-- Index: primary keys of __deferred and __deferred_hot, __deferred_log_job.
select j.state, j.last_outcome, j.attempt, has_column_privilege('deferred.__deferred_log', 'error',
    'select') as may_read
from deferred.job j
where j.id = $1::bigint
