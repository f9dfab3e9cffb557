-- admin_state: state of a job, for who may cancel it.
-- params: job int8
-- returns: state text?
-- rows: one row: state, NULL: there is no such job, or it was deferred by another role.
-- locks: none. Index: as the view deferred.job
select deferred.__state($1::int8) as state
