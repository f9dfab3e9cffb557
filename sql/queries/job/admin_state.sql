-- admin_state: state of a job, for who may cancel it.
-- params: job int8
-- returns: state text?
-- Rows: one row. NULL: there is no such job, or another role deferred it
-- Locks: none. Index: as the view deferred.job
select deferred.__state($1::int8) as state
