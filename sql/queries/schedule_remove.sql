-- schedule_remove: remove a schedule. Its jobs stay.
-- $1 name (text)
-- returns one row, ignored
-- locks: the row of the schedule and that of __deferred_state, until the transaction ends
select deferred.unschedule($1)
