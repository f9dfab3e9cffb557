-- schedule_remove: remove a schedule. Its jobs stay.
-- params: name text, user text
-- returns: ignored
-- Locks: the row of the schedule, until the transaction ends
select deferred.unschedule($1::text), deferred.__act_note($2::text || ': deferred schedule rm',
    'remove', schedule => $1)
