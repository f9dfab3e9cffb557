-- schedule_pause: a schedule has no ticks until it is resumed.
-- $1 name, $2 user of this machine (text)
-- returns one row: something was done (bool)
-- locks: the row of the schedule, until the transaction ends
select case when s.done then deferred.__act_note($2::text || ': deferred schedule pause', 'pause', schedule => $1) else false end
from (select deferred.schedule_pause($1::text) as done offset 0) s
