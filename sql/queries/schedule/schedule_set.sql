-- schedule_set: store a schedule, or change it. It belongs to the role that set it first.
-- $1 name, $2 rule, $3 function (text), $4 params, $5 options as deferred.schedule() takes them (json)
-- returns added, changed or unchanged (text)
-- locks: the row of the schedule, until the transaction ends. Index: unique name of __deferred_schedule
select deferred.schedule($1, $2, $3, $4, $5)
