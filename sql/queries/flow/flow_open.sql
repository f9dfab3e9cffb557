-- flow_open: begin a flow to which jobs are added until it has ended.
-- $1 the flow (json), as deferred.flow_open() takes it; texts reach the table as they stand
-- returns its id (int8)
-- locks: none that others wait for, but for a job whose key another transaction is storing too
select deferred.flow_open($1::json)
