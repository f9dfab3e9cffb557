-- admin_schedule_resume: a paused schedule has ticks again, from now on.
-- params: name text, user text
-- returns: resumed bool
-- Locks: the row of the schedule, until the transaction ends
select case when s.done then deferred.__act_note($2::text || ': deferred schedule resume', 'resume',
                                                 schedule => $1) else false end as resumed
from (select deferred.schedule_resume($1::text) as done offset 0) s
