-- rule_room: add the partitions that so many jobs need, in a transaction of its own.
-- params: jobs float8
-- returns: added int4
-- locks: where one is added those of deferred.maintain(), waited for at most 0.5 s
select deferred.__rule_room($1) as added
