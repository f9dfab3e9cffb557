-- admin_flow_cancel: cancel what is left of the last 1,000 jobs of a flow.
-- params: flow int8, before int8?, user text
-- returns: cancelled int8, next int8?, noted bool
-- $2 NULL: all
-- Rows: one row. The second column is $2 of the next step; NULL: that was all
-- Locks: hot rows of these jobs. Index: primary keys of __deferred_flow, __deferred_member and
--   __deferred_hot
select c.cancelled, c.next,
       case when c.cancelled > 0 then deferred.__act_note($3::text || ': deferred flow cancel',
           'cancel', flow => $1, jobs => c.cancelled) end as noted
from deferred.flow_cancel($1::int8, $2::int8) c
