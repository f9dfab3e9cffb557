-- web_job_said: what the newest attempts made at one job said, in the order of web_job_attempts.
-- params: job int8
-- returns: attempt int4, error text?, result text?
-- Rows: at most 200
-- Locks: none. Index: __deferred_log_job
select x.attempt, x.error, x.result from deferred.__deferred_log x where x.job_id = $1::int8
order by x.finished_at desc, x.attempt desc limit 200
