-- schedule_resume: a paused schedule has ticks again, from now on.
-- $1 name (text)
-- returns one row: something was done (bool)
-- locks: the row of the schedule and that of __deferred_state, until the transaction ends
select deferred.schedule_resume($1)
