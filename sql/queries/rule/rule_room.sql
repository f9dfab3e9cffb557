-- rule_room: add the partitions that this number of jobs needs, in a transaction of its own.
-- params: jobs float8
-- returns: added int4
-- Locks: where one is added those of deferred.maintain(), waited for at most 0.5 s.
select deferred.__rule_room($1) as added
