-- web_job_steps: the steps that a job has saved, without their values.
-- params: job int8
-- returns: number int4, name text, attempt int4, saved text, bytes int4
-- Rows: at most 1,000, in their order
-- Locks: none. Index: primary key of __deferred_step
select s.number, s.name, s.attempt, to_char(s.saved_at, 'YYYY-MM-DD HH24:MI:SS') as saved, s.bytes
from deferred.__deferred_step s where s.job_id = $1::int8 order by s.number
