-- admin_cancel: take a job out of the queue.
-- $1 job id (int8), $2 user of this machine (text)
-- returns one row: false: it is unknown, finished, or of somebody else (bool)
-- locks: the hot row. Index: primary keys of __deferred and __deferred_hot
select case when c.done then deferred.__act_note($2::text || ': deferred cancel', 'cancel', job => $1) else false end
from (select deferred.cancel($1::int8) as done offset 0) c
