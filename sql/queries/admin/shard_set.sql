-- shard_set: give the database its number among several.
-- params: shard int4
-- returns: added bool
-- Locks: the row of __deferred_upkeep, the sequence of ids. Index: none
select deferred.__shard_set($1::int4) as added
