-- index_add: an index for searches is wanted from now on.
-- $1 label, or params. and keys with dots between (text)
-- returns nothing of use
-- locks: the row of __deferred_upkeep, for which nobody waits
select deferred.__search_add($1::text)
