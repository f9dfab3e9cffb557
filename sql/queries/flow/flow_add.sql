-- flow_add: store jobs that wait for each other, all or none.
-- $1 the flow (json), as deferred.defer_flow() takes it; texts reach the table as they stand
-- returns its id (int8)
-- locks: none that others wait for, but for a job whose key another transaction is storing too
select deferred.defer_flow($1::json)
