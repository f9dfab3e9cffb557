-- admin_state: state of a job, for who may cancel it.
-- $1 job id (int8)
-- returns one row: state (text), NULL: there is no such job, or it was deferred by another role
-- locks: none. Index: as the view deferred.job
select deferred.__state($1::int8)
