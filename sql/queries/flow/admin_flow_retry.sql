-- admin_flow_retry: have workers run again what ended badly of a flow.
-- params: flow int8, user text
-- returns: noted bool
-- Rows: one row: false if it is being retried already
-- Locks: none that others wait for. Index: primary key of __deferred_flow,
--   __deferred_flow_retry_wanted
select case when f.done then deferred.__act_note($2::text || ': deferred flow retry', 'retry',
                                                 flow => $1) else false end as noted
from (select deferred.flow_retry($1::int8) as done offset 0) f
