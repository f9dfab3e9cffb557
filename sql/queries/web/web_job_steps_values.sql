-- web_job_steps_values: the same with their values, of which the first 2,000 characters are shown.
-- params: job int8
-- returns: as web_job_steps, value text
-- Rows: as web_job_steps
-- Locks: none. Index: primary key of __deferred_step
select s.number, s.name, s.attempt, to_char(s.saved_at, 'YYYY-MM-DD HH24:MI:SS') as saved, s.bytes,
       left(s.value::text, 2000) as value
from deferred.__deferred_step s where s.job_id = $1::int8 order by s.number
