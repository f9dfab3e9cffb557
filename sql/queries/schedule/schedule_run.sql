-- schedule_run: a job of a schedule now, outside of its rule.
-- $1 name, $2 user of this machine (text)
-- returns one row: job id (int8; NULL: the queue is full, and drops); one more, ignored
-- locks: none that others wait for
select s.job, deferred.__act_note($2::text || ': deferred schedule run', 'run', schedule => $1)
from (select deferred.schedule_run($1::text) as job offset 0) s
