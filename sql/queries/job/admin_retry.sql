-- admin_retry: make a dead, cancelled, expired or delayed job ready, see deferred.retry().
-- params: job int8, user text, from_start int4
-- returns: retried bool
-- $3 1: its steps are deleted.
-- Locks: the hot row. Index: primary keys of __deferred and __deferred_hot, __deferred_log_job
select case when r.done
            then deferred.__act_note($2::text || ': deferred retry'
                                     || case when $3::int4 = 1 then ' --from-start' else '' end,
                                     'retry', job => $1)
            else false end as retried
from (select deferred.retry($1::int8, $3::int4 = 1) as done offset 0) r
