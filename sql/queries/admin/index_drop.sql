-- index_drop: an index for searches is wanted no more.
-- params: term text
-- returns: existed bool
-- Locks: the row of __deferred_upkeep, for which nobody waits
select deferred.__search_drop($1::text) as existed
