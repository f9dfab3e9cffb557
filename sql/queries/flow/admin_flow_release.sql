-- admin_flow_release: have a job that waits for others run now, whatever becomes of them.
-- params: job int8
-- returns: released bool
-- Locks: the hot row. Index: primary keys of __deferred, __deferred_hot and __deferred_wait
select deferred.flow_release($1::int8) as released
