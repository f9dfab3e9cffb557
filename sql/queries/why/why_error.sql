-- why_error: what the last attempt of a job said that did not end well; the rights of a reader or a
-- worker.
-- params: job int8
-- returns: error text
-- Locks: none. Index: __deferred_log_job
select l.error from deferred.__deferred_log l where l.job_id = $1::int8 and l.error is not null
order by l.finished_at desc, l.attempt desc limit 1
