-- flow_add: store jobs that wait for each other, all or none.
-- params: flow json
-- returns: flow int8
-- $1 the flow, as deferred.defer_flow() takes it; texts reach the table as they stand.
-- Locks: none that others wait for, except for a job whose key another transaction is storing too.
select deferred.defer_flow($1::json) as flow
