-- schedule_resume: a paused schedule has ticks again, from now on.
-- $1 name, $2 user of this machine (text)
-- returns one row: something was done (bool)
-- locks: the row of the schedule, until the transaction ends
select case when s.done then deferred.__act_note($2::text || ': deferred schedule resume', 'resume', schedule => $1) else false end
from (select deferred.schedule_resume($1::text) as done offset 0) s
