-- schedule_pause: a schedule has no ticks until it is resumed.
-- $1 name (text)
-- returns one row: something was done (bool)
-- locks: the row of the schedule and that of __deferred_state, until the transaction ends
select deferred.schedule_pause($1)
