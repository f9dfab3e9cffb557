-- admin_cancel: take a job out of the queue.
-- params: job int8, user text
-- returns: cancelled bool
-- Rows: one row: false if the job is unknown, has ended, or belongs to another role
-- Locks: the hot row. Index: primary keys of __deferred and __deferred_hot
select case when c.done then deferred.__act_note($2::text || ': deferred cancel', 'cancel',
                                                 job => $1) else false end as cancelled
from (select deferred.cancel($1::int8) as done offset 0) c
