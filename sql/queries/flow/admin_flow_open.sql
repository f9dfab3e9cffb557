-- admin_flow_open: begin a flow to which jobs are added until it has ended.
-- params: flow json
-- returns: flow int8
-- $1 the flow, as deferred.flow_open() takes it; texts reach the table as they stand.
-- Locks: none that others wait for, except for a job whose key another transaction is storing too.
select deferred.flow_open($1::json) as flow
