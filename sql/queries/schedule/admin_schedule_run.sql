-- admin_schedule_run: a job of a schedule now, outside of its rule.
-- params: name text, user text
-- returns: job int8?, noted bool
-- Rows: one row. NULL: the queue is full and drops jobs
-- Locks: none that others wait for
select s.job,
       deferred.__act_note($2::text || ': deferred schedule run', 'run', schedule => $1) as noted
from (select deferred.schedule_run($1::text) as job offset 0) s
