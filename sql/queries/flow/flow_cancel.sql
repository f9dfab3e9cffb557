-- flow_cancel: cancel what is left of the last 1,000 jobs of a flow.
-- params: flow int8, before int8?, user text
-- returns: cancelled int8, next int8?, noted bool
-- $1 flow, $2 the jobs before this one (NULL: all), $3 user of this machine.
-- rows: one row: how many were cancelled, what to give as $2 to go on (NULL: that was all); one
--   more, ignored.
-- locks: hot rows of these jobs. Index: primary keys of __deferred_flow, __deferred_member and
--   __deferred_hot
select c.cancelled, c.next,
       case when c.cancelled > 0 then deferred.__act_note($3::text || ': deferred flow cancel',
           'cancel', flow => $1, jobs => c.cancelled) end as noted
from deferred.flow_cancel($1::int8, $2::int8) c
