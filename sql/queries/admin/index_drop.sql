-- index_drop: an index for searches is wanted no more.
-- params: term text
-- returns: existed bool
-- locks: the row of __deferred_upkeep, for which nobody waits
select deferred.__search_drop($1::text) as existed
