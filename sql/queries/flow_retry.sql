-- flow_retry: have workers run again what ended badly of a flow.
-- $1 flow (int8)
-- returns one row: noted (bool; false: it is being retried already)
-- locks: none that others wait for. Index: primary key of __deferred_flow, __deferred_flow_retry_wanted
select deferred.flow_retry($1::int8)
