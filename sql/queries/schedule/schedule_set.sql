-- schedule_set: store a schedule, or change it. It belongs to the role that set it first.
-- params: name text, rule text, fn text, params json, opts json
-- returns: what text
-- $5 as deferred.schedule() takes them
-- Locks: the row of the schedule, until the transaction ends. Index: unique name of
--   __deferred_schedule
select deferred.schedule($1, $2, $3, $4, $5) as what
