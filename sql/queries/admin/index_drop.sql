-- index_drop: an index for searches is wanted no more.
-- $1 label, or params. and keys with dots between (text)
-- returns one row: there was one (bool)
-- locks: the row of __deferred_upkeep, for which nobody waits
select deferred.__search_drop($1::text)
