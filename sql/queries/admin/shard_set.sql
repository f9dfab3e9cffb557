-- shard_set: give the database its number among several.
-- $1 number (int4)
-- returns one row: it had none before (bool)
-- locks: the row of __deferred_upkeep, the sequence of ids. Index: none
select deferred.__shard_set($1::int4)
