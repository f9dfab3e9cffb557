-- admin_flow_close: have a flow end with the last of its jobs.
-- params: flow int8
-- returns: closed bool
-- Locks: the row of the flow, which who adds to it does not wait for. Index: primary keys of
--   __deferred_flow and __deferred_flow_open
select deferred.flow_close($1::int8) as closed
