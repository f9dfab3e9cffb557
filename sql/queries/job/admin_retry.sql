-- admin_retry: make a dead, cancelled, expired or delayed job ready, see deferred.retry().
-- params: job int8, user text
-- returns: retried bool
-- Locks: the hot row. Index: primary keys of __deferred and __deferred_hot, __deferred_log_job
select case when r.done then deferred.__act_note($2::text || ': deferred retry', 'retry', job => $1)
            else false end as retried
from (select deferred.retry($1::int8) as done offset 0) r
