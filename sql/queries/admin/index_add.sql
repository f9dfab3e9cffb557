-- index_add: an index for searches is wanted from now on.
-- params: term text
-- returns: ignored
-- Locks: the row of __deferred_upkeep, for which nobody waits
select deferred.__search_add($1::text)
