-- admin_schedule_pause: a schedule has no ticks until it is resumed.
-- params: name text, user text
-- returns: paused bool
-- Locks: the row of the schedule, until the transaction ends
select case when s.done then deferred.__act_note($2::text || ': deferred schedule pause', 'pause',
                                                 schedule => $1) else false end as paused
from (select deferred.schedule_pause($1::text) as done offset 0) s
