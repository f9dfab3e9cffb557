-- flow_release: have a job that waits for others run now, whatever becomes of them.
-- $1 job (int8)
-- returns one row: false if there is no such job (bool)
-- locks: the hot row. Index: primary keys of __deferred, __deferred_hot and __deferred_wait
select deferred.flow_release($1::int8)
